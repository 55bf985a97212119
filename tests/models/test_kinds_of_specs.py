"""Every kind of spec is built, described, counted and written in the same way; nobody asks of which kind it is."""

import json

import pytest
import torch

import equiscope as eq
from equiscope.errors import InputError, UnknownField
from equiscope.models import KINDS, PRESETS, Baseline, count, spec_of
from equiscope.symmetry import derive

SPECS = {
    "transformer": eq.Spec(8, 20, layers=2, outputs=20, block=eq.Block(eq.Attention(heads=2, causal=True))),
    "picture": eq.Spec(8, None, eq.InputLayer(features=12, patch=(2, 2)), readout="class", outputs=3),
    "encoder and decoder": PRESETS["transformer-base"](width=16, layers=1, heads=2, vocabulary=30),
    "lstm": Baseline("lstm", 8, vocabulary=20, outputs=20),
    "mlp": Baseline("mlp", 8, shape=(1, 4, 4), outputs=3),
    "convnet": Baseline("convnet", 8, layers=2, shape=(1, 4, 4), outputs=3),
    "points": eq.PointSpec(("H", "O"), width=8, vectors=4, heads=2),
}
specs = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def test_every_kind_is_tried():
    assert {kind.spec for kind in KINDS} == {type(spec) for spec in SPECS.values()}
    assert len({kind.spec.kind for kind in KINDS}) == len(KINDS)


@specs
def test_a_spec_of_any_kind_survives_a_file(spec, tmp_path):
    file = tmp_path / "spec.json"
    file.write_text(spec.to_json(), encoding="utf-8")
    assert spec_of(file) == spec_of(str(file)) == spec_of(json.loads(spec.to_json())) == spec_of(spec) == spec
    assert type(spec).of(spec.to_dict()) == spec
    assert spec_of(file).to_json() == spec.to_json()


@specs
def test_a_model_and_its_spec_are_asked_in_the_same_way(spec):
    assert spec.spec is spec
    assert eq.build(spec).spec.spec == spec


@specs
def test_a_spec_of_any_kind_is_built_described_and_counted(spec):
    model = eq.build(spec.to_dict())
    assert model.spec == spec
    said = eq.describe(spec, 5)
    assert said.parameters == count(spec) == sum(p.numel() for p in model.parameters())
    assert said.multiply_adds > 0
    assert "multiply-adds" in str(said)
    assert said.claims in ((), tuple(derive(model)))


@specs
def test_an_unknown_field_of_any_kind_is_named(spec):
    with pytest.raises(UnknownField, match="There is no field of spec called 'heigth'"):
        eq.build(spec.to_dict() | {"heigth": 3})
    with pytest.raises(InputError, match="has version 1, but this equiscope reads version 2"):
        eq.build(spec.to_dict() | {"version": 1})


def test_what_a_spec_puts_before_its_tokens_is_asked_of_any_kind():
    assert {
        name: (spec.prefix_tokens, spec.patch_size) for name, spec in SPECS.items() if spec.prefix_tokens or spec.patch_size
    } == {"picture": (1, (2, 2))}
    with torch.no_grad():
        assert eq.build(SPECS["picture"])(torch.rand(2, 3, 4, 4)).shape == (2, 3)
