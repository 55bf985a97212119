"""The fast way of float32 products is measured before it is used, and leaves no trace."""

import pytest
import torch

import equiscope as eq
from equiscope.models import PRESETS, Probe, fast_products, probe, tiny
from equiscope.symmetry import relative_error

IDS = torch.randint(40, (2, 8))
SWITCH = torch.backends.mkldnn.matmul


def model():
    torch.manual_seed(0)
    return eq.build(tiny(PRESETS["nanogpt-char"]()))


def test_a_probe_measures_both_ways():
    found = probe(model(), IDS, turns=1)
    assert found is not None
    assert found.seconds > 0
    assert found.routed_seconds > 0
    assert found.error < 1e-6
    assert all(p.grad is None for p in model().parameters())


@pytest.mark.parametrize(
    ("found", "used"),
    [
        (Probe(1.0, 0.5, 1e-7, 2e-7), True),
        (Probe(1.0, 0.5, 1e-7, 1e-3), False),  # it multiplies in bfloat16
        (Probe(1.0, 1.0, 1e-7, 1e-7), False),  # nothing gained
    ],
)
def test_it_is_used_for_a_gain_at_the_error_of_float32_only(found, used):
    before = SWITCH.fp32_precision
    assert found.used is used
    with fast_products(model(), IDS, found):
        assert (SWITCH.fp32_precision == "bf16") is used
    assert SWITCH.fp32_precision == before


def test_the_switch_is_set_back_after_an_error():
    before = SWITCH.fp32_precision
    with pytest.raises(RuntimeError, match="on purpose"), fast_products(model(), IDS, Probe(1.0, 0.5, 1e-7, 1e-7)):
        raise RuntimeError("on purpose")
    assert SWITCH.fp32_precision == before


def test_a_step_gives_the_same_gradients_where_the_probe_would_let_it():
    torch.manual_seed(0)
    own, ids = eq.build(PRESETS["nanogpt-char"](width=96, layers=1, heads=3)), torch.randint(65, (2, 64))

    def gradients():
        own.zero_grad()
        own(ids).square().mean().backward()
        return torch.cat([p.grad.flatten() for p in own.parameters()])

    plain, found = gradients(), probe(own, ids, turns=1)
    assert found is not None
    if found.routed_error > 4 * found.error:
        pytest.skip(f"this processor multiplies float32 with an error of {found.routed_error:.0e} there")
    with fast_products(own, ids, Probe(1.0, 0.5, 1e-7, 1e-7)):
        assert relative_error(gradients(), plain) < 1e-5


def test_there_is_no_choice_in_other_precisions():
    assert probe(model().double(), IDS) is None
    with fast_products(model().bfloat16(), IDS) as found:
        assert found is None
