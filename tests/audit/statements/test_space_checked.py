"""Properties of models of points beyond symmetry: accepted inputs, notes, and unusual models."""

import pytest
import torch
from ase.calculators.lj import LennardJones
from torch import nn

from equiscope.audit import CalculatorModule, check, replay
from equiscope.audit.inputs.example_inputs import inputs_for
from equiscope.audit.statements.space.conservative import Conservative
from equiscope.audit.statements.space.smooth import PointPath, Smooth, declared_cutoff
from equiscope.audit.subject import Subject
from equiscope.symmetry import inputs_of
from tests.audit.zoo_molecules import Arrows, Field, molecule, ours


def asked(model, *inputs, properties, **settings):
    torch.manual_seed(0)
    return check(model, *inputs, properties=properties, actions=[], proof=False, effort="quick", **settings).rows[: len(properties)]


def test_numbers_beside_positions_are_atoms():
    audit = check(ours(), *molecule(), properties=["batch"], actions=["permute-like"], effort="quick")
    assert "numbers: atoms" in audit.inputs
    assert all(row.verdict == "holds" for row in audit)


def test_inputs_are_made_of_the_elements_that_a_model_names():
    given = inputs_for(ours())
    assert set(given.kwargs["numbers"].unique().tolist()) <= {1, 6, 8}


@pytest.mark.parametrize(("form", "cutoff"), [({}, None), ({"cutoff": 3.0}, 3.0)])
def test_the_cutoff_is_the_one_that_the_spec_says(form, cutoff):
    assert declared_cutoff(ours(**form)) == cutoff


def test_a_cutoff_of_a_part_is_found():
    assert declared_cutoff(nn.Sequential(Field())) == 2.5
    assert declared_cutoff(nn.Linear(3, 3)) is None


class Within(nn.Module):
    """A field whose hard cutoff sits in a part of a part."""

    def __init__(self):
        super().__init__()
        self.far, self.near = Field(), nn.ModuleDict({"hard": Field("hard")})

    def forward(self, numbers, positions):
        return self.far(numbers, positions) + self.near["hard"](numbers, positions)


def test_the_part_that_jumps_is_named_and_its_jump_measured_again():
    torch.manual_seed(0)
    model, given = Within(), molecule()
    (row,) = asked(model, *given, properties=["smooth"])
    assert (row.verdict, row.where) == ("broken", "near.hard")
    assert row.counterexample.element["from"] < 2.5 < row.counterexample.element["to"]
    assert replay(model, row, *given) == pytest.approx(row.counterexample.error, rel=1e-6)


def test_energies_alone_without_a_name_are_information_and_named_ones_a_promise():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.field = Field("frames")

        def forward(self, numbers, positions):
            return {"energy": self.field(numbers, positions)}

    for model, promised in ((Field("frames"), False), (Named(), True), (ours(), True)):
        subject = Subject(model, inputs_of(molecule(), names=("numbers", "positions")))
        for statement in (Conservative(), Smooth()):
            assert statement.missing(subject) == ""
            assert statement.expected == promised


def test_a_figure_of_one_length_is_a_line():
    class Six(Arrows):
        def forward(self, numbers, positions):
            if positions.shape[-2] != 6:
                raise ValueError("six atoms, please")
            return super().forward(numbers, positions)

    (row,) = asked(Six(0.1), *molecule(6), properties=["stabiliser"])
    assert row.verdict == "broken"
    assert "line of 6" in row.counterexample.text


def test_edges_would_not_fit_other_points():
    class Edged(nn.Module):
        def forward(self, pos, edge_index):
            return pos * len(edge_index)

    (row,) = asked(Edged(), torch.randn(4, 3), torch.zeros(2, 3, dtype=torch.long), properties=["stabiliser"])
    assert row.verdict == "not applicable"
    assert "edge_index would not fit other points" in row.note


def test_points_without_an_energy_are_read_for_jumps_and_figures():
    rows = asked(
        nn.Sequential(nn.Linear(3, 8), nn.Tanh()), torch.randn(1, 5, 3), properties=["conservative", "smooth", "stabiliser"]
    )
    assert [row.verdict for row in rows] == ["not applicable", "holds", "broken"]


@pytest.mark.parametrize("lead", [(), (2,)])
def test_a_calculator_answers_one_molecule_or_several(lead):
    numbers, at = torch.full((*lead, 3), 18), torch.tensor([[0.0, 0, 0], [1.1, 0, 0], [0, 1.3, 0]]).expand(*lead, 3, 3)
    made = CalculatorModule(LennardJones(rc=3.0))(numbers, at)
    assert made["energy"].shape == lead
    assert made["forces"].shape == (*lead, 3, 3)
    assert made["forces"].sum(-2).abs().max() < 1e-12


def test_a_function_that_gives_a_pair_is_checked():
    def pull(numbers, positions):
        return positions.square().sum((-1, -2)), -2 * positions

    (row,) = asked(CalculatorModule(pull), *molecule(), properties=["conservative"])
    assert row.verdict == "holds"
    (row,) = asked(CalculatorModule(lambda z, x: (pull(z, x)[0], -x)), *molecule(), properties=["conservative"])
    assert "0.5 times" in row.cause


def test_a_value_that_is_zero_near_the_others_gets_its_size_farther_away():
    path = PointPath(lambda t: {"bump": torch.tensor([3.0 if 0.4 < t < 0.6 else 0.0])})
    path.measure((0.01, 1.0))
    assert path.scales == {"bump": 3.0}
