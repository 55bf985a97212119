"""CoPE: places are counted by gates, interpolated in a table; hidden words are not counted (P9)."""

import math

import msgspec
import pytest
import torch
from tests.drawn import randomised

from equiscope.errors import InputError
from equiscope.positions import Cope, from_json, to_json
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick

CAUSAL = torch.ones(6, 6, dtype=torch.bool).tril()


def of(at):
    at = torch.as_tensor(at, dtype=torch.float64)[:, None]
    return (at,), (at.T,)


def drawn(far=64):
    torch.manual_seed(2)
    return randomised(Cope(far).sized(8, 2, 4)), *torch.randn(2, 2, 6, 4, dtype=torch.float64)


def papers(scheme, q, k, last=lambda i: i):
    """Section 4, one pair at a time: gates, their sum from j to i, and two rows of e."""
    heads, n, width = q.shape
    out = torch.zeros(heads, n, n, dtype=torch.float64)
    for h in range(heads):
        for i in range(n):
            for j in range(n):
                gates = [1 / (1 + math.exp(-(q[h, i] @ k[h, x]).item() / math.sqrt(width))) for x in range(j, last(i) + 1)]
                p = min(sum(gates), float(scheme.max_distance))
                low, high = math.floor(p), math.ceil(p)
                row = (high - p) * scheme.table[low] + (p - low) * scheme.table[high] if high > low else scheme.table[low]
                out[h, i, j] = q[h, i] @ row / math.sqrt(width)
    return out.detach()


@pytest.mark.parametrize("far", [1, 2, 64])
def test_under_a_causal_mask_it_is_the_papers(far):
    scheme, q, k = drawn(far)
    found = scheme.content_bias(q, k, *of(range(6)), CAUSAL)
    assert relative_error(found[:, CAUSAL], papers(scheme, q, k)[:, CAUSAL]) < 1e-14


def test_without_a_mask_it_counts_to_the_end_of_the_text():
    scheme, q, k = drawn()
    assert relative_error(scheme.content_bias(q, k, *of(range(6)), None), papers(scheme, q, k, last=lambda i: 5)) < 1e-14


def test_with_all_gates_open_it_counts_words():
    """A query that agrees with every key: p_ij = i - j + 1, a whole row of the table."""
    scheme = drawn()[0]
    same = torch.full((2, 6, 4), 40.0, dtype=torch.float64)
    found = scheme.content_bias(same, same, *of(range(6)), CAUSAL)
    for i in range(6):
        for j in range(i + 1):
            assert (found[:, i, j] - same[0, 0] @ scheme.table[i - j + 1] / 2).abs().max() < 1e-12


def test_the_order_of_rows_means_nothing_only_their_places():
    scheme, q, k = drawn()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    moved = scheme.content_bias(q[:, order], k[:, order], *of(order.double()), CAUSAL[order][:, order])
    assert relative_error(moved, scheme.content_bias(q, k, *of(range(6)), CAUSAL)[:, order][:, :, order]) < 1e-14


def test_a_batch_is_each_of_its_sequences_and_one_head_needs_no_axis():
    scheme, q, k = drawn()
    at = torch.randn(2, 6, dtype=torch.float64)
    seen = torch.stack([at[0][:, None] >= at[0], at[1][:, None] >= at[1]])[:, None]
    q, k = torch.stack([q, k]), torch.stack([k, q])
    term = scheme.content_bias(q, k, (at[:, None, :, None],), (at[:, None, None, :],), seen)
    for b in range(2):
        assert relative_error(term[b], scheme.content_bias(q[b], k[b], *of(at[b]), seen[b, 0])) < 1e-14
        assert relative_error(term[b, 1], scheme.content_bias(q[b, 1], k[b, 1], *of(at[b]), seen[b, 0])) < 1e-14


def test_gradients_reach_the_gates_and_the_table():
    scheme, q, k = drawn()
    q.requires_grad_(), k.requires_grad_()
    (scheme.content_bias(q, k, *of(range(6)), CAUSAL) * torch.randn(2, 6, 6)).sum().backward()
    assert all(t.grad.isfinite().all() and t.grad.abs().sum() > 0 for t in (q, k, scheme.table))


def test_in_half_precision_counts_are_kept_in_full():
    """Two hundred open gates: in bfloat16 alone, sums stand still at 256 and step by 1 from 128 on."""
    scheme = Cope(max_distance=300).sized(4, 1, 4)
    scheme.table.data = torch.arange(301.0)[:, None].expand(-1, 4) / 300
    q, at = torch.full((1, 200, 4), 8.0), torch.arange(200.0)[:, None]
    found = scheme.bfloat16().content_bias(q.bfloat16(), q.bfloat16(), (at,), (at.T,), None)
    assert found.dtype == torch.bfloat16
    assert found[0, 0, 0].item() == pytest.approx(200 / 300 * 32 / 2, rel=0.01)


def test_a_table_without_counts_is_refused():
    with pytest.raises(InputError, match="1 or more, but got 0"):
        Cope(max_distance=0)


def test_without_a_size_it_says_what_is_missing():
    with pytest.raises(InputError, match=r"Cope\(\) has no parameters yet"):
        Cope().content_bias(torch.zeros(2, 6, 4), torch.zeros(2, 6, 4), *of(range(6)), None)


def test_settings_survive_a_file():
    scheme = Cope(max_distance=7)
    assert from_json(msgspec.json.decode(msgspec.json.encode(to_json(scheme)))).settings == scheme.settings
