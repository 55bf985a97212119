"""The page of a graph: attention as messages along edges, and why a transformer is a graph network, measured each time.

A word is a node. An edge carries a message from who sends to who receives: the sender's value times the weight that the receiver
gives it. What arrives at a node is added up; that sum is attention. Measured numbers do not depend on the sentence: they are of
32 nodes with random numbers, four heads and a width of 32, in float64.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from itertools import product
from operator import mul

import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from equiscope.attention import Edges, GraphAttention, MultiHeadAttention
from equiscope.attention.scores import attend
from equiscope.errors import InputError, UnknownName
from equiscope.explore.page import PLAIN, number
from equiscope.explore.page import table as markup
from equiscope.explore.pages.sentence import LIMIT as MOST
from equiscope.explore.pages.sentence import Choice, rows
from equiscope.explore.sentence.exhibit import numbers, seed_word
from equiscope.positions import NoPosition
from equiscope.program import watch
from equiscope.program.lower import attention_roles, lowered
from equiscope.program.replay import replay
from equiscope.record import Fact, Messages, ProgramRecord
from equiscope.record.messages import ExampleGraph, Figures, Reason
from equiscope.symmetry import EquivarianceMeasurement, floor, relative_error, verdict
from equiscope.tokens import Tokens, words

LIMIT = 16  # words: their 256 edges can still be told apart
WIDTH = 2  # numbers of a word, as in the docs
NODES, WIDE, HEADS = 32, 32, 4  # of what is measured
CHAIN, LAYERS, NEAR = 9, 4, 8  # nodes of the chain on which influence is measured, most layers, and their width
SMALL, LARGE, HEAD = 16, 1024, 64  # nodes whose edges are counted, and a head's width
READY = {
    "complete": ("complete", "Every word sends to every word, itself too: full attention."),
    "causal": ("causal", "A word hears itself and each earlier one: what a causal mask leaves."),
    "chain": ("chain", "A word hears itself and the words beside it: a window of one."),
    "ring": ("ring", "A chain whose ends meet."),
    "star": ("star", "The first word hears all, and all hear it: a token that reads for everybody."),
    "tree": ("tree, as in a molecule", "Each word is bound to at most three others; bonds carry messages both ways."),
}
AGAIN = 'python -c "from equiscope.explore.pages.graph import {0}; print({0}())"'


class Passing(nn.Module):
    """One attention along edges, which says what each node sends to each other one."""

    def __init__(self, width: int = WIDTH, seed: int = 0) -> None:
        super().__init__()
        self.graph = GraphAttention(width, output=False).double()
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(numbers(name, tuple(parameter.shape), width, seed, seed_word(name).rpartition(".")[-1]))

    def forward(self, tokens: Tokens, graph: "Given") -> dict[str, Tensor]:
        """What arrives [N, K], and the messages [N, N, K] that it is the sum of."""
        inner = self.graph.attention
        q, k, v = inner.project(tokens, tokens, NoPosition())
        z, weights = attend(
            q, k, v, mask=graph.edges, score=inner.score, normalizer=inner.normalizer, head_width=inner.head_width, plain=True
        )  # fmt: skip
        sent = weights.unsqueeze(-1)
        given = v.unsqueeze(-3)  # the same values for all who receive
        M = sent * given
        return {"output": z, "messages": M, "sent": sent, "given": given}


@dataclass(frozen=True)
class Given:
    """The edges as an input that names itself: bool [N, N], who receives (rows) from whom (columns)."""

    edges: Tensor

    def leaves(self, axis: str = "") -> list[tuple[Tensor, tuple[str, str, str, tuple[str, ...], str]]]:
        label = "which edges there are: a row receives, a column sends"
        return [(self.edges, ("edges", "G", label, ("token", "token"), "valid"))]


def graph(sentence: str, seed: int) -> Messages:
    """The page of a sentence. Raises InputError for no words, or more than fit in the picture."""
    names = words(sentence)
    if len(names) > LIMIT:
        raise InputError(
            f"The picture of a graph holds {LIMIT} words, as each may send to each, but the sentence has {len(names)}. "
            f"Give at most {LIMIT}, or leave --page out: that page takes {MOST}."
        )
    count = len(names)
    tokens, complete = Tokens.of(rows(names, Choice(sentence, seed=seed))), Given(torch.ones(count, count, dtype=torch.bool))
    program = lowered(watch(Passing(seed=seed), tokens, complete), arrays=False, title="attention on a graph")
    return Messages(
        title="Attention as messages on a graph",
        summary="Each word is a node. Along an edge goes a message: the value of the word that sends, times the weight that the "
        "word that receives gives it. The sum of what arrives is attention. Remove an edge, and every number follows.",
        words=names, width=WIDTH, program=program, roles=_roles(program), graphs=[_ready(name, count) for name in READY],
        start="complete", reasons=reasons(), differences=apart(),
    )  # fmt: skip


def plain(made: Messages) -> str:
    """Markup for a browser without JavaScript: weights and outputs of the graph to begin with, and the answer."""
    found = {role: replay(made.program)[ident] for role, ident in made.roles.items() if role in ("weights", "output")}
    listed = [
        [word, *map(number, weights), *map(number, output)]
        for word, weights, output in zip(made.words, found["weights"].tolist(), found["output"].tolist(), strict=True)
    ]
    heads = ["receives", *made.words, *(f"output {d + 1}" for d in range(made.width))]
    more = [[reason.claim, reason.text] for reason in made.differences]
    why = [
        [reason.claim, reason.text, f"{fact.text}: {number(fact.value)}"] for reason in made.reasons for fact in reason.measurements
    ]
    return (
        f"<h1>{escape(made.title)}</h1>\n<p>{escape(made.summary)}</p>\n<p>{PLAIN}</p>\n"
        + markup("What every word gives every other one, and what comes out", heads, listed)
        + markup("Why is a transformer a graph network?", ["because", "measured how", "number"], why)
        + "".join(_figures(reason.claim, reason.figures) for reason in made.reasons if reason.figures)
        + markup("What a transformer has that a plain graph network has not", ["what", "why"], more)
    )


def _figures(claim: str, shown: Figures) -> str:
    lines = [[name, *map(number, line)] for name, line in zip(shown.rows, shown.numbers, strict=True)]
    return markup(claim, [shown.corner, *shown.columns], lines)


def table(name: str, count: int) -> Tensor:
    """A ready graph: bool [N, N], who receives (rows) from whom (columns). Every node has an edge to itself.

    raises  UnknownName for a graph that there is not
    """
    i, j = torch.arange(count)[:, None], torch.arange(count)[None, :]
    made: dict[str, Callable[[], Tensor]] = {
        "complete": lambda: (i >= 0) & (j >= 0),
        "causal": lambda: j <= i,
        "chain": lambda: (i - j).abs() <= 1,
        "ring": lambda: ((i - j) % count <= 1) | ((j - i) % count <= 1),
        "star": lambda: (i == 0) | (j == 0) | (i == j),
        "tree": lambda: (i == j) | (_bound(i) == j) | (_bound(j) == i),
    }
    if name not in made:
        raise UnknownName("graph", name, list(made))
    return made[name]()


def _bound(node: Tensor) -> Tensor:
    """To whom a node of the tree is bound; the first one to nobody."""
    return torch.where(node > 0, torch.div(node - 1, 2, rounding_mode="floor"), -1)


def pairs(edges: Tensor) -> Tensor:
    """A table [N, N] as edges [2, E], (who sends, who receives)."""
    receives, sends = edges.nonzero().T
    return torch.stack([sends, receives])


def _ready(name: str, count: int) -> ExampleGraph:
    title, text = READY[name]
    return ExampleGraph(name=name, title=title, text=text, edges=pairs(table(name, count)).T.tolist())


def _roles(program: ProgramRecord) -> dict[str, str]:
    (look,) = attention_roles(program)
    given = {leaf.symbol: leaf.id for leaf in program.leaves}
    return {
        "words": given["X"], "edges": given["G"], "queries": look.queries, "keys": look.keys, "values": look.values,
        "scores": look.scores, "weights": look.weights.id, **(program.named or {}),
    }  # fmt: skip


# --- why a transformer is a graph network: measured -------------------------------------------------------------------
def reasons() -> list[Reason]:
    """The answer, step by step, each number measured now."""
    moved, stayed = renamed(), edges_that_stay()
    return [
        Reason(
            claim="On the complete graph it is full attention.",
            text=f"Attention made edge by edge, beside attention of one product of matrices: {_drawn()}. The sum of messages is "
            "made in plain loops, one edge at a time.",
            measurements=[
                _fact(against_full, "largest difference from full attention"),
                _fact(against_sum, "largest difference from the sum of weight × value over the edges"),
            ],
            command=AGAIN.format("against_full"),
        ),
        Reason(
            claim="To remove an edge is to mask a score.",
            text="Half of the edges, drawn by chance, beside full attention whose other scores are minus infinity. "
            "The same mask changes what comes out, so that the agreement is not an empty one.",
            measurements=[
                _fact(against_mask, "largest difference from masked attention"),
                _fact(without_half, "share by which the output changed without those edges"),
            ],
            command=AGAIN.format("against_mask"),
        ),
        Reason(
            claim="Names of nodes do not matter: rename them with their edges, and the outputs are renamed.",
            text="Relative error of the renamed outputs; rounding alone makes the floor beside it. Where the words move and the "
            "edges stay at their places, as those of a causal mask do, the outputs are others.",
            measurements=[
                Fact(name="renamed", value=moved.error, text="error, edges move along", source=_source(renamed)),
                Fact(name="floor", value=moved.floor, text="rounding floor", source=_source(renamed)),
                Fact(name="stay", value=stayed, text="error, edges stay", source=_source(edges_that_stay)),
            ],
            command=AGAIN.format("renamed"),
        ),
        Reason(
            claim="A layer carries a message one edge far.",
            text=f"How much the first node of a chain of {CHAIN} notices each other one: the size of the gradient of its output by "
            "their inputs, each layer added to what it reads. Beyond as many hops as there are layers it is 0, to the last bit. "
            "On the complete graph one layer reaches everybody.",
            figures=Figures(
                corner="hops away", columns=[str(hop) for hop in range(CHAIN)],
                rows=[*(f"{n} layer{'s'[: n > 1]}, chain" for n in range(1, LAYERS + 1)), "1 layer, complete"],
                numbers=[*(reach(n, "chain") for n in range(1, LAYERS + 1)), reach(1, "complete")],
            ),
            command=AGAIN.format("reach"),
        ),
        Reason(
            claim="It is a layer that graph libraries have.",
            text="With the same weights PyTorch Geometric's TransformerConv gives the same numbers, to 10⁻¹² in float64: on a "
            "complete graph, on one with few edges, and where an edge stands twice. A test compares both.",
            command="pytest tests/attention/test_graph.py -k pytorch_geometrics",
        ),
        Reason(
            claim="It costs as much as it has edges.",
            text=f"Multiply-adds of scores and messages: edges × (width of a key + width of a value), here {HEAD} + {HEAD}. The "
            "complete graph has N² edges, which is why long texts are dear.",
            figures=costs(),
            command=AGAIN.format("costs"),
        ),
    ]  # fmt: skip


def apart() -> list[Reason]:
    """What a transformer has that a plain graph network has not, in words."""
    return [
        Reason(
            claim="Its graph is complete.",
            text="Nobody draws its edges: every word hears every other one, and weights near 0 do what a missing edge would.",
        ),
        Reason(
            claim="Its edges have weights made from what the nodes hold.",
            text="They are made anew in every layer, for every head and every input. A plain graph network adds its neighbours up, "
            "or takes their mean, with weights that the graph alone decides.",
        ),
        Reason(
            claim="It has to be told the order.",
            text="A graph knows who is beside whom. On the complete graph all words are beside all, so the order has to be put in: "
            "into the words (position embeddings), into the edges (a bias for each distance), or into which there are (a mask).",
        ),
        Reason(
            claim="It does more between messages.",
            text="A feed-forward part, norms, and a way around each part, for each node by itself. Graph networks may have it too.",
        ),
    ]


def against_full() -> float:
    """Largest difference between attention on the complete graph and full attention with the same weights."""
    graph, tokens = _example()
    return _largest(graph(tokens, pairs(table("complete", NODES))), _full(graph)(tokens))


def against_sum() -> float:
    """Largest difference between attention on the complete graph and the sum of its messages, made edge by edge."""
    graph, tokens = _example()
    q, k, v = (part.tolist() for part in graph.attention.project(tokens, tokens, NoPosition()))
    arrived = torch.zeros(HEADS, NODES, WIDE // HEADS, dtype=torch.float64)
    for head, node in product(range(HEADS), range(NODES)):
        asked = [sum(map(mul, q[head][node], key)) / math.sqrt(WIDE // HEADS) for key in k[head]]
        total = sum(map(math.exp, asked))
        for score, value in zip(asked, v[head], strict=True):
            arrived[head, node] += math.exp(score) / total * torch.tensor(value, dtype=torch.float64)
    assert graph.attention.o_proj is not None
    wanted = graph.attention.o_proj(arrived.transpose(-3, -2).flatten(-2))
    return _largest(graph(tokens, pairs(table("complete", NODES))), wanted)


def against_mask() -> float:
    """Largest difference between attention on half of the edges and full attention under that mask."""
    graph, tokens = _example()
    kept = _half()
    attention_roles = [(int(receives), int(sends)) for sends, receives in kept.T]
    return _largest(graph(tokens, kept), _full(graph, Edges(attention_roles, NODES))(tokens))


def without_half() -> float:
    """Relative change of the output where half of the edges are removed."""
    graph, tokens = _example()
    return relative_error(graph(tokens, _half()), graph(tokens, pairs(table("complete", NODES))))


def renamed() -> EquivarianceMeasurement:
    """Error where nodes are renamed with their edges, in float64 and float32, beside the rounding floor.

    The list of edges is shuffled too: its order says nothing, but messages are then added in another one.
    """
    order = torch.randperm(NODES, generator=_chance())
    kept, new = _half(), order.argsort()
    listed = torch.randperm(kept.shape[1], generator=_chance())

    def run(dtype: torch.dtype, moved: bool = False) -> Tensor:
        graph, tokens = _example(dtype)
        return graph(_ordered(tokens, order), new[kept][:, listed]) if moved else graph(tokens, kept)

    error, narrow = (relative_error(run(dtype, moved=True), run(dtype)[order]) for dtype in (torch.float64, torch.float32))
    return EquivarianceMeasurement(error, narrow, floor(run), verdict(error, narrow))


def edges_that_stay() -> float:
    """Relative error where the words move and the edges of the causal graph do not."""
    order = torch.randperm(NODES, generator=_chance())
    graph, tokens = _example()
    edges = pairs(table("causal", NODES))
    return relative_error(graph(_ordered(tokens, order), edges), graph(tokens, edges)[order])


def reach(layers: int = LAYERS, name: str = "chain") -> list[float]:
    """How much the first of nine nodes notices each of them after so many layers: sizes of gradients."""
    stack = [_graph(NEAR, 2, seed) for seed in range(layers)]
    edges = pairs(table(name, CHAIN))

    def first(x: Tensor) -> Tensor:
        for layer in stack:
            x = x + layer(Tokens.of(x), edges)
        return x[0]

    x = torch.randn(CHAIN, NEAR, generator=_chance(), dtype=torch.float64)
    made: Tensor = jacobian(first, x)
    return [float(size) for size in made.norm(dim=(0, 2))]


def costs() -> Figures:
    """Edges of ready graphs, and their multiply-adds."""
    found = [(int(table(name, SMALL).sum()), int(table(name, LARGE).sum())) for name in READY]
    return Figures(
        corner="graph",
        columns=[f"edges, {SMALL} nodes", f"edges, {LARGE:,} nodes", "multiply-adds", "of the complete graph's"],
        rows=[title for title, _ in READY.values()],
        numbers=[[small, large, large * 2 * HEAD, large / LARGE**2] for small, large in found],
    )


def _example(dtype: torch.dtype = torch.float64) -> tuple[GraphAttention, Tokens]:
    x = torch.randn(NODES, WIDE, generator=_chance(), dtype=torch.float64)
    return _graph(WIDE, HEADS).to(dtype), Tokens.of(x.to(dtype))


@torch.no_grad()
def _graph(width: int, heads: int, seed: int = 0) -> GraphAttention:
    made = GraphAttention(width, heads).double()
    generator = _chance(seed)
    for parameter in made.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / width**0.5)
    return made.requires_grad_(False)


def _full(graph: GraphAttention, mask: Edges | None = None) -> MultiHeadAttention:
    made = MultiHeadAttention(WIDE, HEADS, mask=mask).double()
    made.load_state_dict(graph.attention.state_dict())
    return made.requires_grad_(False)


def _half() -> Tensor:
    return pairs(torch.rand(NODES, NODES, generator=_chance()) < 0.5)


def _chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _ordered(tokens: Tokens, order: Tensor) -> Tokens:
    return Tokens.of(tokens.x[order])


def _largest(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max())


def _drawn() -> str:
    return f"{NODES} nodes, {HEADS} heads, a width of {WIDE}, random numbers, float64"


def _fact(measure: Callable[[], float], text: str) -> Fact:
    return Fact(name=measure.__name__, value=measure(), text=text, source=_source(measure))


def _source(measure: Callable[[], object]) -> str:
    return f"{measure.__module__}.{measure.__name__}"
