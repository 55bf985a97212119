"""The graph page: attention as messages along edges, and reasons why a transformer is a graph network, measured at each build.

A word is a node. An edge carries a message from its sender to its receiver: the sender's value times the receiver's weight for it.
The sum of a node's incoming messages is attention. The measured numbers do not depend on the sentence: they are of 32 random
nodes, four heads and a width of 32, in float64.
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
from equiscope.errors import InputError, UnknownName, counted
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

LIMIT = 16  # words: more than 256 edges cannot be distinguished
WIDTH = 2  # features of a word, as in the docs
NODES, WIDE, HEADS = 32, 32, 4  # of the measured examples
CHAIN, LAYERS, NEAR = 9, 4, 8  # nodes of the chain on which influence is measured, most layers, and their width
SMALL, LARGE, HEAD = 16, 1024, 64  # nodes whose edges are counted, and a head's width
READY = {
    "complete": ("complete", "Every pair of words has an edge, with self-loops: full attention."),
    "causal": ("causal", "Each word receives from itself and all earlier words, as under a causal mask."),
    "chain": ("chain", "Each word receives from itself and its neighbours: a window of one."),
    "ring": ("ring", "A chain whose ends meet."),
    "star": ("star", "The first word has an edge to and from every word: a global token."),
    "tree": ("tree, as in a molecule", "Each word is bonded to at most three others; messages pass both ways."),
}
AGAIN = 'python -c "from equiscope.explore.pages.graph import {0}; print({0}())"'


class MessagePassing(nn.Module):
    """One attention layer along edges, which also returns its messages."""

    def __init__(self, width: int = WIDTH, seed: int = 0) -> None:
        super().__init__()
        self.graph = GraphAttention(width, output=False).double()
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(numbers(name, tuple(parameter.shape), width, seed, seed_word(name).rpartition(".")[-1]))

    def forward(self, tokens: Tokens, graph: "GraphInput") -> dict[str, Tensor]:
        """The output [N, K], and the messages [N, N, K] that sum to it."""
        inner = self.graph.attention
        q, k, v = inner.project(tokens, tokens, NoPosition())
        z, weights = attend(
            q, k, v, mask=graph.edges, score=inner.score, normalizer=inner.normalizer, head_width=inner.head_width, plain=True
        )  # fmt: skip
        sent = weights.unsqueeze(-1)
        given = v.unsqueeze(-3)  # the same values for all receivers
        M = sent * given
        return {"output": z, "messages": M, "sent": sent, "given": given}


@dataclass(frozen=True)
class GraphInput:
    """The edges as an input with a name: bool [N, N], True if the node of the row receives from the node of the column."""

    edges: Tensor

    def leaves(self, axis: str = "") -> list[tuple[Tensor, tuple[str, str, str, tuple[str, ...], str]]]:
        label = "which edges there are: a row receives, a column sends"
        return [(self.edges, ("edges", "G", label, ("token", "token"), "valid"))]


def graph(sentence: str, seed: int) -> Messages:
    """The graph page of a sentence. Raises InputError for no words, or more than fit in the picture."""
    names = words(sentence)
    if len(names) > LIMIT:
        raise InputError(
            f"The graph page takes up to {LIMIT} words, but the sentence has {len(names)}. "
            f"Give at most {LIMIT}, or leave --page out: that page takes {MOST}."
        )
    count = len(names)
    tokens, complete = Tokens.of(rows(names, Choice(sentence, seed=seed))), GraphInput(torch.ones(count, count, dtype=torch.bool))
    program = lowered(watch(MessagePassing(seed=seed), tokens, complete), arrays=False, title="attention on a graph")
    return Messages(
        title="Attention as messages on a graph",
        summary="Each word is a node. Each edge carries a message: the sender's value times the receiver's attention weight for "
        "it. The sum of the incoming messages is the output of attention. Remove an edge to mask it.",
        words=names, width=WIDTH, program=program, roles=_roles(program), graphs=[_ready(name, count) for name in READY],
        start="complete", reasons=reasons(), differences=differences(),
    )  # fmt: skip


def plain(page: Messages) -> str:
    """Markup for a browser without JavaScript: weights and outputs of the initial graph, and the reasons."""
    computed = {role: replay(page.program)[ident] for role, ident in page.roles.items() if role in ("weights", "output")}
    listed = [
        [word, *map(number, weights), *map(number, output)]
        for word, weights, output in zip(page.words, computed["weights"].tolist(), computed["output"].tolist(), strict=True)
    ]
    heads = ["receives", *page.words, *(f"output {d + 1}" for d in range(page.width))]
    more = [[reason.claim, reason.text] for reason in page.differences]
    why = [
        [reason.claim, reason.text, reason.method, f"{fact.text}: {number(fact.value)}"]
        for reason in page.reasons
        for fact in reason.measurements
    ]
    return (
        f"<h1>{escape(page.title)}</h1>\n<p>{escape(page.summary)}</p>\n<p>{PLAIN}</p>\n"
        + markup("Attention weights and outputs", heads, listed)
        + markup("Why is a transformer a graph network?", ["reason", "why", "how it was measured", "number"], why)
        + "".join(_figures(reason.claim, reason.figures) for reason in page.reasons if reason.figures)
        + markup("What a transformer adds to a plain graph network", ["what", "why"], more)
    )


def _figures(claim: str, figures: Figures) -> str:
    lines = [[name, *map(number, line)] for name, line in zip(figures.rows, figures.numbers, strict=True)]
    return markup(claim, [figures.corner, *figures.columns], lines)


def table(name: str, count: int) -> Tensor:
    """A example graph as a table: bool [N, N], receivers (rows) by senders (columns), with self-loops.

    raises  UnknownName for an unknown graph
    """
    i, j = torch.arange(count)[:, None], torch.arange(count)[None, :]
    page: dict[str, Callable[[], Tensor]] = {
        "complete": lambda: (i >= 0) & (j >= 0),
        "causal": lambda: j <= i,
        "chain": lambda: (i - j).abs() <= 1,
        "ring": lambda: ((i - j) % count <= 1) | ((j - i) % count <= 1),
        "star": lambda: (i == 0) | (j == 0) | (i == j),
        "tree": lambda: (i == j) | (_bound(i) == j) | (_bound(j) == i),
    }
    if name not in page:
        raise UnknownName("graph", name, list(page))
    return page[name]()


def _bound(node: Tensor) -> Tensor:
    """The parent of each node of the tree; -1 for the root."""
    return torch.where(node > 0, torch.div(node - 1, 2, rounding_mode="floor"), -1)


def pairs(edges: Tensor) -> Tensor:
    """A table [N, N] as edges [2, E], (sender, receiver)."""
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
    """The reasons, each number measured now."""
    moved, stayed = renamed(), edges_that_stay()
    return [
        Reason(
            claim="With every edge, it is full attention.",
            text="Give every word an edge to every word, and to itself. The sum of the messages that arrive at a word is "
            "then its row of softmax(Q Kᵀ / √d) V. Message passing and matrix products are two ways to compute the same "
            "output.",
            method=f"{_drawn()}. The sum of messages is computed in plain loops, one edge at a time.",
            measurements=[
                _fact(against_full, "largest difference from full attention"),
                _fact(against_sum, "largest difference from the sum of weight × value over the edges"),
            ],
            command=AGAIN.format("against_full"),
        ),
        Reason(
            claim="A mask is a list of missing edges.",
            text="A mask sets a score to −∞. Its weight is then 0, and no message is sent: the edge is not there. A causal "
            "mask is the graph whose edges lead from earlier words to later ones.",
            method="Attention along a random half of the edges, against full attention with the other scores set to −∞: "
            f"{_drawn()}.",
            measurements=[
                _fact(against_mask, "largest difference from masked attention"),
                _fact(without_half, "relative change of the output by the mask"),
            ],
            command=AGAIN.format("against_mask"),
        ),
        Reason(
            claim="The order of the nodes does not matter, only their edges do.",
            text="Permute the words together with their edges, and the outputs are permuted in the same way: attention on a "
            "graph is permutation equivariant. Permute the words and leave the edges of a causal mask where they are, and it "
            "is not.",
            method=f"Relative error of the permuted outputs, beside the rounding error alone: {_drawn()}.",
            measurements=[
                Fact(name="renamed", value=moved.error, text="error, edges permuted too", source=_source(renamed)),
                Fact(name="floor", value=moved.floor, text="rounding floor", source=_source(renamed)),
                Fact(name="stay", value=stayed, text="error, edges not permuted", source=_source(edges_that_stay)),
            ],
            command=AGAIN.format("renamed"),
        ),
        Reason(
            claim="A layer carries messages over one edge.",
            text="A word that is three edges away reaches the first word after three layers, never earlier. The table shows "
            "how strongly the output of the first node of a chain depends on each node, as the norm of a gradient: 0 means not at "
            "all. On the complete graph one layer reaches every node.",
            method=f"The norm of the gradient of the first node's output by the input of each node, in a chain of {CHAIN} "
            "nodes, with residual connections.",
            figures=Figures(
                corner="edges away", columns=[str(hop) for hop in range(CHAIN)],
                rows=[*(f"{counted(n, 'layer')}, chain" for n in range(1, LAYERS + 1)), "1 layer, complete"],
                numbers=[*(reach(n, "chain") for n in range(1, LAYERS + 1)), reach(1, "complete")],
            ),
            command=AGAIN.format("reach"),
        ),
        Reason(
            claim="Graph libraries have this layer.",
            text="PyTorch Geometric calls it TransformerConv. With the same weights, both give the same numbers up to rounding.",
            method="They agree to 10⁻¹² in float64: on a complete graph, on a sparse one, and with a repeated edge. A test "
            "compares both.",
            command="pytest tests/attention/test_graph.py -k pytorch_geometrics",
        ),
        Reason(
            claim="Its cost is proportional to the number of edges.",
            text="Each edge costs one score and one message. The complete graph of N words has N² edges, so full attention "
            "is quadratic in the length. A chain has fewer than 3N, so attention in a window is linear.",
            method=f"Multiply-adds of scores and messages: edges × (width of a key + width of a value), here {HEAD} + {HEAD}.",
            figures=costs(),
            command=AGAIN.format("costs"),
        ),
    ]  # fmt: skip


def differences() -> list[Reason]:
    """What a transformer adds to a plain graph network, in words."""
    return [
        Reason(
            claim="Its graph is complete.",
            text="No edges are given: every word receives from every word, and the model learns which messages matter. A "
            "weight near 0 acts as a missing edge.",
        ),
        Reason(
            claim="Its edge weights depend on the features of the nodes.",
            text="Each head of each layer computes them again for every input. A plain graph network sums or averages over "
            "neighbours, with weights that depend on the graph alone.",
        ),
        Reason(
            claim="It needs positions.",
            text="A graph says which nodes are neighbours. On the complete graph all are, so the order of the words has to be "
            "added: to the words (position embeddings), to the scores (a bias for each distance), or as a mask.",
        ),
        Reason(
            claim="It has more layers between the messages.",
            text="A feed-forward layer, norms and residual connections, for each node by itself. Graph networks may have them too.",
        ),
    ]


def against_full() -> float:
    """Largest difference between attention on the complete graph and full attention with the same weights."""
    graph, tokens = _example()
    return _largest(graph(tokens, pairs(table("complete", NODES))), _full(graph)(tokens))


def against_sum() -> float:
    """Largest difference between attention on the complete graph and the sum of its messages, computed edge by edge."""
    graph, tokens = _example()
    q, k, v = (part.tolist() for part in graph.attention.project(tokens, tokens, NoPosition()))
    arrived = torch.zeros(HEADS, NODES, WIDE // HEADS, dtype=torch.float64)
    for head, node in product(range(HEADS), range(NODES)):
        scores = [sum(map(mul, q[head][node], key)) / math.sqrt(WIDE // HEADS) for key in k[head]]
        total = sum(map(math.exp, scores))
        for score, value in zip(scores, v[head], strict=True):
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
    """Error of permuting nodes with their edges, in float64 and float32, beside the rounding floor.

    The list of edges is shuffled too: the result must not depend on its order, but the order of addition does.
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
    """Relative error of permuting the words but not the edges of the causal graph."""
    order = torch.randperm(NODES, generator=_chance())
    graph, tokens = _example()
    edges = pairs(table("causal", NODES))
    return relative_error(graph(_ordered(tokens, order), edges), graph(tokens, edges)[order])


def reach(layers: int = LAYERS, name: str = "chain") -> list[float]:
    """The receptive field of the first of nine nodes after a number of layers: norms of gradients."""
    stack = [_graph(NEAR, 2, seed) for seed in range(layers)]
    edges = pairs(table(name, CHAIN))

    def first(x: Tensor) -> Tensor:
        for layer in stack:
            x = x + layer(Tokens.of(x), edges)
        return x[0]

    x = torch.randn(CHAIN, NEAR, generator=_chance(), dtype=torch.float64)
    page: Tensor = jacobian(first, x)
    return [float(size) for size in page.norm(dim=(0, 2))]


def costs() -> Figures:
    """Edges of the example graphs, and their multiply-adds."""
    computed = [(int(table(name, SMALL).sum()), int(table(name, LARGE).sum())) for name in READY]
    return Figures(
        corner="graph",
        columns=[f"edges, {SMALL} nodes", f"edges, {LARGE:,} nodes", "multiply-adds", "share of the complete graph"],
        rows=[title for title, _ in READY.values()],
        numbers=[[small, large, large * 2 * HEAD, large / LARGE**2] for small, large in computed],
    )


def _example(dtype: torch.dtype = torch.float64) -> tuple[GraphAttention, Tokens]:
    x = torch.randn(NODES, WIDE, generator=_chance(), dtype=torch.float64)
    return _graph(WIDE, HEADS).to(dtype), Tokens.of(x.to(dtype))


@torch.no_grad()
def _graph(width: int, heads: int, seed: int = 0) -> GraphAttention:
    page = GraphAttention(width, heads).double()
    generator = _chance(seed)
    for parameter in page.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / width**0.5)
    return page.requires_grad_(False)


def _full(graph: GraphAttention, mask: Edges | None = None) -> MultiHeadAttention:
    page = MultiHeadAttention(WIDE, HEADS, mask=mask).double()
    page.load_state_dict(graph.attention.state_dict())
    return page.requires_grad_(False)


def _half() -> Tensor:
    return pairs(torch.rand(NODES, NODES, generator=_chance()) < 0.5)


def _chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _ordered(tokens: Tokens, order: Tensor) -> Tokens:
    return Tokens.of(tokens.x[order])


def _largest(computed: Tensor, wanted: Tensor) -> float:
    return float((computed - wanted).abs().max())


def _drawn() -> str:
    return f"{NODES} nodes, {HEADS} heads, width {WIDE}, random numbers, float64"


def _fact(measure: Callable[[], float], text: str) -> Fact:
    return Fact(name=measure.__name__, value=measure(), text=text, source=_source(measure))


def _source(measure: Callable[[], object]) -> str:
    return f"{measure.__module__}.{measure.__name__}"
