"""PoPE: lengths from the words, angles from the places, and nothing of one in the other."""

import json
import math

import pytest
import torch
from tests.drawn import randomised

from equiscope.errors import InputError
from equiscope.positions import Pope, from_json, to_json

pytestmark = pytest.mark.quick


def scores(scheme, q, k, at):
    return scheme.rotate(q, at, "query") @ scheme.rotate(k, at, "key").transpose(-2, -1)


def formula(q, k, at, phase, base=10000.0):
    """Equation of the paper, one pair and one column at a time."""
    heads, length, width = q.shape
    soft = torch.nn.functional.softplus
    out = torch.zeros(heads, length, length).double()
    for h in range(heads):
        for c in range(width):
            turn = (at.T - at) * base ** (-c / width) + phase[h, c].clamp(-2 * math.pi, 0)
            out[h] += soft(q[h, :, c, None]) * soft(k[h, None, :, c]) * turn.cos()
    return out


@pytest.mark.parametrize("base", [10000.0, 50.0])
def test_scores_are_the_papers_formula(base):
    scheme = randomised(Pope(base=base).sized(16, 2, 8))
    assert 0 < (scheme.phase < 0).sum() < scheme.phase.numel()  # both sides of the border at 0
    q, k = torch.randn(2, 2, 6, 8).double()
    at = torch.tensor([0, 1, 2, 7.5, 30, -4]).double()[:, None]
    assert (scores(scheme, q, k, at) - formula(q, k, at, scheme.phase, base)).abs().max() < 1e-13


def test_scores_are_those_of_the_common_port():
    """lucidrains/PoPE-pytorch: the phase sits on the keys, cosine and sine alternate, the same products."""
    scheme = randomised(Pope().sized(16, 2, 8))
    q, k, at = *torch.randn(2, 2, 6, 8).double(), torch.arange(6).double()[:, None]
    angle = at * 10000.0 ** -(torch.arange(8).double() / 8)
    late = angle + scheme.phase.clamp(-2 * math.pi, 0)[:, None]
    soft = torch.nn.functional.softplus
    a = torch.stack([soft(q) * angle.cos(), soft(q) * angle.sin()], -1).flatten(-2)
    b = torch.stack([soft(k) * late.cos(), soft(k) * late.sin()], -1).flatten(-2)
    assert (scores(scheme, q, k, at) - a @ b.mT).abs().max() < 1e-13


def test_scores_ignore_where_the_text_starts():
    scheme, (q, k) = randomised(Pope().sized(16, 2, 8)), torch.randn(2, 2, 6, 8).double()
    at = torch.arange(6).double()[:, None]
    near, far = scores(scheme, q, k, at), scores(scheme, q, k, at + 999.25)
    assert (near - far).abs().max() < 1e-11  # float64: angles up to 1000 keep 13 digits


def test_what_a_word_is_cannot_change_which_distance_it_likes():
    """One clock: whatever query and key are, its score is largest at the same distance. With RoPE it is not."""
    scheme = randomised(Pope().sized(1, 1, 1))
    at = torch.arange(7).double()[:, None]
    liked = {
        scores(scheme, *torch.randn(2, 1, 7, 1).double()[:, :, :1].expand(2, 1, 7, 1), at)[0, 3].argmax().item() for _ in range(50)
    }
    assert len(liked) == 1


def test_with_phases_at_zero_ahead_and_behind_are_alike():
    q, k = torch.randn(2, 2, 6, 8).double()
    at = torch.arange(6).double()[:, None]
    fresh, moved = Pope().sized(16, 2, 8), randomised(Pope().sized(16, 2, 8))
    assert (scores(fresh, q, k, at) - scores(fresh, q, k, -at)).abs().max() < 1e-14
    assert (scores(moved, q, k, at) - scores(moved, q, k, -at)).abs().max() > 0.1


def test_phases_begin_at_zero_or_anywhere_in_a_turn_back():
    assert Pope().sized(16, 2, 8).phase.count_nonzero() == 0
    phase = Pope(begin="uniform").sized(640, 10, 64).phase
    assert -2 * math.pi <= phase.min() < -6
    assert -0.3 < phase.max() <= 0


def test_shared_keys_serve_queries_with_phases_of_their_own():
    """Grouped queries: four query heads, two key heads; the phase is on the queries, so keys stay shared."""
    scheme = randomised(Pope().sized(32, 4, 8))
    q, k, at = torch.randn(4, 6, 8).double(), torch.randn(2, 6, 8).double(), torch.arange(6).double()[:, None]
    many = k.repeat_interleave(2, 0)
    shared = scheme.rotate(k, at, "key").repeat_interleave(2, 0)
    assert (scheme.rotate(q, at, "query") @ shared.mT - formula(q, many, at, scheme.phase)).abs().max() < 1e-13


def test_a_batch_has_places_of_its_own_for_every_text():
    scheme = randomised(Pope().sized(16, 2, 8))
    x, at = torch.randn(3, 2, 6, 8).double(), torch.rand(3, 6, 1).double() * 100
    for role in ("query", "key"):
        found = scheme.rotate(x, at, role)
        assert found.shape == (3, 2, 6, 16)
        assert all((found[b] - scheme.rotate(x[b], at[b], role)).abs().max() < 1e-14 for b in range(3))


def test_phases_learn_and_half_precision_keeps_its_angles():
    scheme = Pope().sized(16, 2, 8)
    q, k, at = *torch.randn(2, 2, 6, 8), torch.arange(6.0)[:, None]
    scores(scheme, q, k, at).square().sum().backward()
    assert scheme.phase.grad.abs().min() > 0
    far = torch.arange(100_000.0, 100_004.0)[:, None]
    found = scheme.bfloat16().rotate(torch.zeros(2, 4, 8).bfloat16(), far, "key").double() / math.log(2)
    wanted = torch.cat([(far.double() * 10000.0 ** -(torch.arange(8).double() / 8)).sin()], -1)
    assert found.shape[-1] == 16
    assert (found[0, :, :8] - wanted).abs().max() < 0.02  # float32 angles at 100 000: 0.004; bfloat16 results: 0.004


def test_its_settings_survive_a_file_and_missing_phases_are_named():
    scheme = Pope(base=500.0, begin="uniform")
    assert repr(from_json(json.loads(json.dumps(to_json(scheme))))) == repr(scheme)
    with pytest.raises(InputError, match=r"no phases yet.*sized"):
        Pope().rotate(torch.zeros(2, 3, 4), torch.zeros(3, 1), "key")
    with pytest.raises(InputError, match="larger than 0"):
        Pope(base=0.0)
