"""Transformer-XL: its four terms one pair at a time, its relative shift, and real gaps (P9)."""

import math

import msgspec
import pytest
import torch
from tests.drawn import randomised

from equiscope.errors import InputError, ShapeError
from equiscope.positions import TransformerXL, from_json, to_json
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick


def of(at):
    at = torch.as_tensor(at, dtype=torch.float64)[:, None]
    return (at,), (at.T,)


def drawn(heads=2, width=8, length=6):
    torch.manual_seed(1)
    scheme = randomised(TransformerXL().sized(width, heads, width // heads))
    return scheme, *torch.randn(2, heads, length, width // heads, dtype=torch.float64)


def sinusoid(gap, width=8):
    """As in their code: all sines, then all cosines."""
    angles = [gap / 10000 ** (2 * k / width) for k in range(width // 2)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)


@pytest.mark.parametrize("places", [range(6), [0.0, 0.5, 3.25, -7.0, 800.0, 801.0]], ids=["even", "real"])
def test_the_three_terms_are_the_papers(places):
    scheme, q, k = drawn()
    wanted = torch.zeros(2, 6, 6, dtype=torch.float64)
    for h in range(2):
        weight = scheme.weight[:, 4 * h : 4 * h + 4]
        for a, i in enumerate(places):
            for b, j in enumerate(places):
                r = sinusoid(i - j) @ weight
                wanted[h, a, b] = (q[h, a] @ r + scheme.word[h] @ k[h, b] + scheme.distance[h] @ r) / 2
    assert relative_error(scheme.content_bias(q, k, *of(places), None), wanted.detach()) < 1e-12  # angles of 800 cost three digits


def test_it_is_their_relative_shift_without_shifting():
    """Appendix B: rows q_i . r for all gaps at once, then row i moved left; right of the diagonal theirs is rubbish."""
    scheme, q, k = drawn()
    r = torch.stack([sinusoid(gap) for gap in range(5, -1, -1)]) @ scheme.weight  # gaps N-1 .. 0, as in their code
    r = r.unflatten(-1, (2, 4)).transpose(0, 1)
    asked = (q + scheme.distance[:, None]) @ r.mT
    shifted = torch.cat([torch.zeros(2, 6, 1).double(), asked], -1).view(2, 7, 6)[:, 1:]
    theirs = (shifted + scheme.word[:, None] @ k.mT) / 2
    seen = torch.ones(6, 6, dtype=torch.bool).tril()
    assert relative_error(scheme.content_bias(q, k, *of(range(6)), None)[:, seen], theirs[:, seen]) < 1e-14


def test_a_batch_is_each_of_its_sequences_and_one_head_needs_no_axis():
    scheme, q, k = drawn()
    at, q, k = torch.randn(3, 6, dtype=torch.float64), torch.stack([q, k, q]), torch.stack([k, k, q])
    term = scheme.content_bias(q, k, (at[:, None, :, None],), (at[:, None, None, :],), None)
    for b in range(3):
        assert relative_error(term[b], scheme.content_bias(q[b], k[b], *of(at[b]), None)) < 1e-14
    scheme, q, k = drawn(heads=1)
    assert (
        relative_error(scheme.content_bias(q[0], k[0], *of(range(6)), None), scheme.content_bias(q, k, *of(range(6)), None)[0])
        < 1e-14
    )


def test_keys_of_another_text_may_be_more_or_fewer():
    scheme, q, k = drawn()
    full = scheme.content_bias(q, k, *of(range(6)), None)
    few = scheme.content_bias(q[:, 4:], k, (torch.arange(4, 6).double()[:, None],), of(range(6))[1], None)
    assert relative_error(few, full[:, 4:]) < 1e-14


def test_an_odd_width_is_refused():
    with pytest.raises(ShapeError, match=r"the width is 9. Use 10 or 8"):
        TransformerXL().sized(9, 3, 3)


def test_a_base_of_nothing_is_refused():
    with pytest.raises(InputError, match="larger than 0"):
        TransformerXL(base=0.0)


def test_without_a_size_it_says_what_is_missing():
    with pytest.raises(InputError, match=r"TransformerXL\(\) has no parameters yet"):
        TransformerXL().content_bias(torch.zeros(2, 6, 4), torch.zeros(2, 6, 4), *of(range(6)), None)


def test_settings_survive_a_file():
    scheme = TransformerXL(base=500.0)
    assert from_json(msgspec.json.decode(msgspec.json.encode(to_json(scheme)))).settings == scheme.settings
