"""Attention along edges: full attention on the complete graph, message passing elsewhere (A8)."""

import warnings
from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, LISTED, WIDTH, placed, randomised, title, words
from tests.recorded import recorded

from equiscope.attention import Edges, GraphAttention, MultiHeadAttention, edge_attention
from equiscope.errors import InputError, ShapeError
from equiscope.positions import Alibi, NoPosition, Rope
from equiscope.program.replay import replay
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

ROUNDING = 1e-12
COMPLETE = torch.cartesian_prod(torch.arange(6), torch.arange(6)).T
SOME = torch.tensor([[0, 1, 2, 2, 5, 3, 0], [1, 0, 1, 2, 1, 5, 5]])  # nobody reaches 3 and 4
PAIRS = Edges([(int(target), int(source)) for source, target in SOME.T], 6)  # the mask writes them the other way round
ABLE = [s for s in LISTED if not (s.acts("content_bias") or s.acts("value_bias"))]


def made(**settings):
    return randomised(GraphAttention(WIDTH, settings.pop("heads", HEADS), **settings))


def dense(graph, mask=None):
    inner = graph.attention
    sizes = {"head_width": inner.head_width, "value_width": inner.value_width, "kv_heads": inner.kv_heads}
    full = MultiHeadAttention(WIDTH, inner.heads, mask=mask, bias=inner.q_proj.bias is not None, **sizes).double()
    full.load_state_dict(inner.state_dict())
    return full


def sized(scheme, heads=HEADS):
    return randomised(scheme.sized(WIDTH, heads, WIDTH // heads))


@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
@pytest.mark.parametrize("settings", [{}, {"bias": True, "value_width": 6}, {"heads": 4, "kv_heads": 2}, {"heads": 1}], ids=str)
def test_on_the_complete_graph_it_is_full_attention(settings, batch):
    graph, tokens = made(**settings), words(batch=batch)
    assert relative_error(graph(tokens, COMPLETE), dense(graph)(tokens)) < ROUNDING


@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
@pytest.mark.parametrize("scheme", ABLE, ids=title)
def test_it_is_attention_under_a_mask_of_edges_for_every_scheme_on_edges(scheme, batch):
    position, tokens = sized(scheme), placed(scheme, words(batch=batch))
    tokens = replace(tokens, x=position.embed(tokens.x, tokens.positions))
    graph = randomised(GraphAttention(position.widened(WIDTH), HEADS, WIDTH // HEADS))
    full = randomised(MultiHeadAttention(position.widened(WIDTH), HEADS, WIDTH // HEADS, mask=PAIRS))
    out = graph(tokens, SOME, position)
    assert relative_error(out, full(tokens, position)) < ROUNDING
    assert (out[..., 3:5, :] == 0).all()  # a node that no edge reaches
    program = recorded(graph, tokens, SOME, kwargs={"position": position})
    assert relative_error(replay(program)[program.outputs[0]], out) < ROUNDING


@pytest.mark.parametrize("scheme", [s for s in LISTED if s not in ABLE], ids=title)
def test_schemes_that_read_whole_tables_are_refused(scheme):
    with pytest.raises(InputError, match=r"only edges are computed here"):
        made()(words(), SOME, sized(scheme))


@pytest.mark.slow
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("edges", [SOME, COMPLETE, torch.cat([SOME, SOME[:, :2]], 1)], ids=["some", "complete", "twice"])
def test_it_agrees_with_pytorch_geometrics_transformer_conv(edges, heads):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs, about torch
        from torch_geometric.nn import TransformerConv
    theirs = TransformerConv(WIDTH, 4, heads=heads, root_weight=False).double()
    ours = randomised(GraphAttention(WIDTH, heads, head_width=4, output=False, bias=True))
    with torch.no_grad():
        for name in ("query", "key", "value"):
            getattr(theirs, f"lin_{name}").load_state_dict(getattr(ours.attention, f"{name[0]}_proj").state_dict())
    tokens = words()
    assert relative_error(ours(tokens, edges), theirs(tokens.x, edges)) < ROUNDING


def test_nodes_and_edges_renamed_together_rename_the_output():
    graph, tokens = made(), words()
    order = torch.tensor([3, 1, 5, 0, 2, 4])  # old row that comes to row i
    new = order.argsort()
    moved = replace(tokens, x=tokens.x[order], positions=tokens.positions[order], order=tokens.order[order])
    for position in (NoPosition(), Rope(), sized(Alibi())):
        found = graph(moved, new[SOME][:, torch.randperm(7)], position)
        assert relative_error(found, graph(tokens, SOME, position)[order]) < ROUNDING
    assert relative_error(graph(replace(tokens, x=tokens.x[order]), SOME), graph(tokens, SOME)[order]) > 0.1


def test_an_edge_that_stands_twice_counts_twice():
    graph, tokens, twice = made(), words(), torch.cat([SOME, SOME[:, :1]], 1)
    out = graph(tokens, twice)
    assert relative_error(out, graph(tokens, SOME)) > 1e-3
    program = recorded(graph, tokens, twice)
    assert relative_error(replay(program)[program.outputs[0]], out) < ROUNDING


def test_padding_and_other_documents_send_nothing():
    graph, tokens = made(), words(batch=(2,))
    valid = torch.ones(2, 6, dtype=torch.bool)
    valid[1, 2] = False
    document = torch.tensor([[0] * 6, [0, 0, 0, 1, 1, 1]])
    given = replace(tokens, valid=valid, document=document)
    full = dense(graph, PAIRS)
    assert relative_error(graph(given, SOME), full(given)) < ROUNDING
    program = recorded(graph, given, SOME)
    assert relative_error(replay(program)[program.outputs[0]], full(given)) < ROUNDING


def test_two_kinds_of_nodes_are_taken():
    graph, tokens, other = made(), words(), words(seed=1, length=9)
    every = torch.cartesian_prod(torch.arange(9), torch.arange(6)).T
    assert relative_error(graph(tokens, every, source=other), dense(graph)(tokens, source=other)) < ROUNDING


def test_gradients_and_their_gradients_are_right():
    q, k, v = (torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    bias = torch.randn(2, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *t: edge_attention(*t[:3], SOME, t[3]), (q, k, v, bias))
    assert torch.autograd.gradgradcheck(lambda *t: edge_attention(*t[:3], SOME, t[3]), (q, k, v, bias))


def test_large_scores_do_not_overflow_and_memory_follows_the_edges():
    ring = torch.stack([torch.arange(100_000), torch.arange(100_000).roll(1)])
    x = torch.randn(100_000, 4)  # a table of pairs would hold 10^10 numbers
    out = edge_attention(x * 1e15, x * 1e15, x, ring)
    assert torch.equal(out[ring[1]], x)  # one edge each: its weight is 1


def test_no_edge_at_all_gives_nothing():
    assert (made()(words(), torch.zeros(2, 0, dtype=torch.long)) == 0).all()


@pytest.mark.parametrize(
    ("edges", "error", "message"),
    [
        (torch.zeros(3, 2, dtype=torch.long), ShapeError, r"edges is \[2, E\]"),
        (torch.zeros(2, 2), InputError, r"integers, but got torch.float32. Use edges.long"),
        (torch.tensor([[0], [6]]), InputError, r"has targets 0..5, but an edge names 6"),
        (torch.tensor([[-1], [0]]), InputError, r"has sources 0..5, but an edge names -1"),
    ],
)
def test_edges_that_do_not_fit_are_refused(edges, error, message):
    with pytest.raises(error, match=message):
        made()(words(), edges)


def test_several_graphs_are_one_graph_of_several_parts():
    graph, tokens = made(), words(batch=(2,))
    flat = Tokens(x=tokens.x.flatten(0, 1), positions=tokens.positions.flatten(0, 1), order=torch.arange(12))
    both = graph(flat, torch.cat([SOME, SOME + 6], 1))
    assert relative_error(both.unflatten(0, (2, 6)), graph(tokens, SOME)) < ROUNDING
