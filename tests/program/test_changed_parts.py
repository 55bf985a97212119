"""A program runs again with a part of a value changed, by its role in attention."""

import pytest
import torch

import equiscope as eq
from equiscope.errors import InputError, UnknownName
from equiscope.interventions import head
from tests.interventions.subjects import IDS, encoder, gpt2, own_rope


@pytest.mark.parametrize("make", [gpt2, own_rope, encoder])
def test_a_part_of_a_program_changes_as_the_site_of_the_running_model(make):
    model, inputs, _ = make()
    program = eq.watch(model.double(), inputs.double() if inputs.is_floating_point() else inputs)
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    experiment = eq.Experiment(model, inputs)
    for name in ("q", "scores", "weights", "output"):
        one = getattr(head(1, 2), name)
        replayed = program.run({f"layers.1.attention.{name}[2]": lambda value: value * 0.5})
        output = next(value for value in replayed.outputs.values() if value.is_floating_point())
        expected = experiment.run(one.scale(0.5))
        assert expected.largest > 1e-5
        assert (output - expected.after).abs().max() < 1e-12 * expected.after.abs().max()


def test_a_part_takes_numbers_that_broadcast_and_a_whole_value_those_of_its_shape():
    model, _, _ = gpt2()
    program = eq.watch(model, IDS)
    run = program.run({"transformer.h.1.attn.weights[3]": torch.full((8, 8), 1 / 8), "layers.0.attention.output[-1]": 0.0})
    assert (run["layers.1.attention.weights"][:, 3] == 1 / 8).all()
    assert (run["layers.0.attention.output"][:, 3] == 0).all()
    assert (run["layers.0.attention.output"][:, 2] == program.run()["layers.0.attention.output"][:, 2]).all()
    with pytest.raises(InputError, match="4 heads"):
        program.run({"layers.1.attention.weights[4]": 0.0})
    with pytest.raises(InputError, match="but got"):
        program.run({"layers.1.attention.weights[1]": torch.zeros(3)})
    with pytest.raises(InputError, match="but got"):
        program.run({"layers.1.attention.weights": torch.zeros(8)})
    with pytest.raises(UnknownName):
        program.run({"layers.2.attention.weights[0]": 0.0})
