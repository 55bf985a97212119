"""A description says what would be built: parameters as torch counts them, multiply-adds as its counter does."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import equiscope as eq
from equiscope.models import PRESETS, tiny
from equiscope.positions import Rope
from equiscope.symmetry import derive

SIZES = {  # of transformers' own models, whose class token has a place of its own
    "gpt2": 124_439_808, "gpt2-xl": 1_557_611_200, "bert-base": 109_514_298, "llama-1b": 1_235_814_400,
    "llama-8b": 8_030_261_248, "vit-b": 86_567_656 - 768, "vit-ti": 5_717_416 - 192,
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_well_known_models_have_their_well_known_sizes(name):
    assert eq.describe(PRESETS[name]()).parameters == SIZES[name]


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_and_multiply_adds_are_those_of_the_built_model(name):
    spec = tiny(PRESETS[name]())
    spec = eq.Spec.of(_eager(spec.to_dict()))
    model = eq.build(spec)
    inputs, n, source = _inputs(spec)
    said = eq.describe(spec, n, 6)
    assert said.parameters == sum(p.numel() for p in model.parameters())
    assert said.claims == tuple(derive(model))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(inputs, source=source)
    own = 5 * 3 * 12 if name == "points" else 0  # Fourier's products of places and directions, which a scheme keeps to itself
    assert said.multiply_adds == counter.get_total_flops() // 2 - own


@pytest.mark.parametrize("settings", [{}, {"head_width": 5}], ids=str)
def test_both_halves_of_a_differential_head_are_counted(settings):
    attention = eq.Attention(heads=4, kind="differential", backend="eager", causal=True, **settings)
    spec = eq.Spec(24, 30, layers=2, outputs=30, block=eq.Block(attention))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        eq.build(spec)(torch.arange(9))
    assert eq.describe(spec, 9).multiply_adds == counter.get_total_flops() // 2


def _eager(spec):
    """The counter knows no fused kernel of a CPU."""
    if isinstance(spec, list):
        return [_eager(one) for one in spec]
    if not isinstance(spec, dict):
        return spec
    return {k: (_eager(v) | {"backend": "eager"} if k in ("attention", "cross") else _eager(v)) for k, v in spec.items()}


def _inputs(spec):
    if spec.vocabulary:
        return torch.randint(spec.vocabulary, (7,)), 7, torch.randint(spec.vocabulary, (6,)) if spec.encoder else None
    if spec.input.patch:
        shape = {1: (2 * 2,), 2: (3, 4, 4), 3: (4, 3, 4, 4)}[len(spec.input.patch)]
        return torch.randn(*shape), 2 ** len(spec.input.patch), None
    at = torch.randn(5, 3)
    return eq.Tokens(x=torch.randn(5, spec.input.features), positions=at, order=torch.arange(5)), 5, None


def test_it_reads_as_a_table_with_the_part_that_decides():
    text = str(eq.describe(eq.Spec(8, 20, layers=2, block=eq.Block(eq.Attention(heads=2, position=Rope(), causal=True))), 16))
    assert "2 heads, causal, RoPE" in text
    assert "blocks.0-1.attention x 2" in text
    assert "yes  shift" in text
    assert "no   permute" in text


def test_layers_that_differ_have_lines_of_their_own():
    full = eq.Block(eq.Attention(heads=2))
    windowed = eq.Block(eq.Attention(heads=2, window=3))
    names = [p.name for p in eq.describe(eq.Spec(8, layers=4, block=(full, windowed))).parts]
    assert {"blocks.0.attention", "blocks.1.attention", "blocks.2.attention", "blocks.3.attention"} <= set(names)
