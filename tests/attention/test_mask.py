"""Masks: what is hidden has no influence at all, and who sees nothing gets nothing (A5)."""

from dataclasses import replace

import pytest
import torch
from tests.drawn import LISTED, attending, placed, title, words

from equiscope.attention import Causal, Edges, Everything, MultiHeadAttention
from equiscope.attention.mask import dense_mask
from equiscope.positions import Alibi, NoPosition
from equiscope.symmetry import closed
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

backends = pytest.mark.parametrize("backend", ["eager", "sdpa"])


@backends
@pytest.mark.parametrize("scheme", LISTED, ids=title)
def test_a_hidden_word_has_a_gradient_of_exactly_nothing(scheme, backend):
    valid = torch.tensor([True, False, True, True, False, True])
    tokens = replace(placed(scheme, words()), valid=valid)
    x = tokens.x.requires_grad_()
    out = attending(scheme, backend=backend)(replace(tokens, x=x))
    out[valid].square().sum().backward()
    assert (x.grad[~valid] == 0).all()
    assert (x.grad[valid].norm(dim=-1) > 0).all()


@backends
@pytest.mark.parametrize("scheme", LISTED, ids=title)
def test_the_future_has_a_gradient_of_exactly_nothing(scheme, backend):
    tokens = placed(scheme, words())
    x = tokens.x.requires_grad_()
    attending(scheme, Causal(), backend=backend)(replace(tokens, x=x))[2].square().sum().backward()
    assert (x.grad[3:] == 0).all()
    assert (x.grad[:3].norm(dim=-1) > 0).all()


@backends
@pytest.mark.parametrize("mask", [Everything(), Causal()], ids=title)
@pytest.mark.parametrize("scheme", [NoPosition(), Alibi()], ids=title)
def test_a_row_that_sees_nothing_gives_nothing_and_no_nan(scheme, mask, backend):
    """torch's own attention gives NaN here; ours gives 0, forwards and backwards."""
    model = attending(scheme, mask, backend=backend, output=False)
    tokens = replace(words(batch=(2,)), valid=torch.tensor([[False] * 6, [False] * 3 + [True] * 3]))
    x = tokens.x.requires_grad_()
    out = model(replace(tokens, x=x))
    assert (out[0] == 0).all()
    assert isinstance(mask, Everything) or (out[1, :3] == 0).all()
    assert (out[1, 3:] != 0).any()
    out.square().sum().backward()
    assert all(g.isfinite().all() for g in (x.grad, *(p.grad for p in model.parameters())))
    assert (x.grad[0] == 0).all()


def test_a_causal_mask_reads_the_order_and_no_coordinate():
    tokens = words()
    at = torch.rand(6, 1, dtype=torch.float64)
    model = attending(NoPosition(), Causal())
    assert torch.equal(model(replace(tokens, positions=at)), model(tokens))
    ranks = torch.tensor([3, 3, 0, 7, 1, 3])
    seen = dense_mask(Causal(), replace(tokens, order=ranks), replace(tokens, order=ranks))
    assert seen.tolist() == [[bool(k <= q) for k in ranks] for q in ranks]


def test_mask_padding_and_documents_are_joined_with_and():
    tokens = Tokens(
        x=torch.zeros(4, 2), positions=torch.zeros(4, 1), order=torch.tensor([0, 1, 0, 1]),
        document=torch.tensor([0, 0, 1, 1]), valid=torch.tensor([True, True, True, False]),
    )  # fmt: skip
    seen = dense_mask(Causal(), tokens, tokens)
    assert seen.int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]]
    assert dense_mask(Everything(), words(), words()) is None


@pytest.mark.parametrize("mask", [Everything(), Causal()], ids=title)
def test_claims_of_masks_are_closed(mask):
    assert closed(mask.preserves) == mask.preserves
    assert isinstance(mask, Everything) or mask.because


def test_the_mask_is_shown_where_the_module_is_printed():
    assert "mask=causal" in repr(MultiHeadAttention(8, 2, mask=Causal()))


@pytest.mark.parametrize("backend", ["eager", "sdpa", "chunked"])
def test_ranks_of_padding_are_not_looked_up_in_a_graph(backend):
    """Texts that are padded on the left begin at rank 0, so their padding has negative ranks."""
    attention = MultiHeadAttention(8, mask=Edges([(0, 0), (1, 0), (1, 1)], nodes=2), backend=backend).double()
    order, valid = torch.tensor([[-2, -1, 0, 1]]), torch.tensor([[False, False, True, True]])
    tokens = Tokens(x=torch.randn(1, 4, 8).double(), positions=order.unsqueeze(-1).double(), order=order, valid=valid)
    alone = Tokens.of(tokens.x[0, 2:])
    assert torch.allclose(attention(tokens)[0, 2:], attention(alone), atol=1e-12)
