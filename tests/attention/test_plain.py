"""What a watcher sets, `plain`, changes how the numbers are made and not the numbers."""

import copy
from dataclasses import replace

import pytest
import torch
from tests.drawn import LENGTH, WIDTH, randomised, title, words
from tests.pairwise import pairwise

from equiscope.attention import Causal, GraphAttention, LinearAttention, Linformer, MultiHeadAttention, Nystrom, kinds
from equiscope.positions import Alibi, NoPosition, Rope, T5Bias
from equiscope.symmetry import relative_error
from equiscope.tokens import Stem, Tokens

pytestmark = pytest.mark.quick

ROUNDING = 1e-12  # float64, measured 7e-16
PADDED = torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 2]])
EDGES = torch.tensor([[0, 1, 2, 2, 5, 3, 0], [1, 0, 1, 2, 1, 5, 1]])  # one stands twice


def plain(module):
    """A copy as a watcher leaves it."""
    made = copy.deepcopy(module)
    for part in made.modules():
        for name, value in getattr(type(part), "plain", {}).items():
            assert hasattr(part, name)
            setattr(part, name, value)
    return made


def tokens(padded):
    return replace(words(batch=(2,)), valid=PADDED if padded else None)


@pairwise(
    pytest.mark.parametrize("kind", ["softmax", "sink", "sigmoid", "differential"]),
    pytest.mark.parametrize("scheme", [NoPosition(), Rope(), Alibi(), T5Bias()], ids=title),
    pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"]),
)
def test_attention_written_out_gives_the_same(kind, scheme, padded):
    attention = randomised(kinds.make_attention(kind, WIDTH, heads=2, kv_heads=1, mask=Causal()))
    given = tokens(padded), randomised(scheme.sized(WIDTH, 2, attention.head_width))
    assert relative_error(plain(attention)(*given), attention(*given)) < ROUNDING


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("make", [LinearAttention, Linformer, Nystrom])
def test_thin_attention_written_out_gives_the_same(make, padded):
    attention = randomised(make(WIDTH, heads=2))
    assert relative_error(plain(attention)(tokens(padded)), attention(tokens(padded))) < ROUNDING


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
def test_edges_as_a_table_give_the_same(padded):
    graph, scheme = randomised(GraphAttention(WIDTH, heads=2)), Alibi().sized(WIDTH, 2, WIDTH // 2)
    assert relative_error(plain(graph)(tokens(padded), EDGES, scheme), graph(tokens(padded), EDGES, scheme)) < ROUNDING


@pytest.mark.parametrize(("axes", "sizes"), [(1, (13,)), (2, (9, 14)), (3, (3, 8, 5))])
def test_a_stem_row_by_row_gives_the_same(axes, sizes):
    stem, samples = randomised(Stem((2, 4, 6), axes)), torch.randn(3, 2, *sizes, dtype=torch.float64)
    ours, rows = stem(samples), plain(stem)(samples)
    assert relative_error(rows.x, ours.x) < ROUNDING
    assert torch.equal(rows.positions, ours.positions)


def test_written_out_a_bias_is_made_for_every_pair():
    asked = []

    class Counted(Alibi):
        def score_bias(self, head, at_q, at_k):
            asked.append(torch.broadcast_shapes(at_q[0].shape, at_k[0].shape))
            return super().score_bias(head, at_q, at_k)

    attention, scheme = MultiHeadAttention(WIDTH, heads=2).double(), Counted().sized(WIDTH, 2, WIDTH // 2)
    given = Tokens.of(torch.randn(2, LENGTH, WIDTH, dtype=torch.float64)), scheme
    attention(*given)
    plain(attention)(*given)
    assert asked == [(1, 2 * LENGTH - 1), (LENGTH, LENGTH)]
