"""What is learned from energies and forces in one graph is what is learned step by step."""

import pytest
import torch
from tests.pairwise import few

from equiscope.errors import InputError
from equiscope.geometry import PointSpec
from equiscope.geometry.forces import ForceLoss
from equiscope.models import build

ETHANOL = torch.tensor([[6, 6, 8, 1, 1, 1, 1, 1, 1]])
KINDS = {
    "all see all": {},
    "few, within a cutoff": {"cutoff": 3.0, "filtered": True, "products": 4},
    "SE(3)": {"cutoff": 3.0, "group": "SE(3)", "products": 4},
    "a cell": {"cutoff": 2.0, "filtered": True},
    "many": {"cutoff": 1.5, "filtered": True},
}


def model(layers=2, **options):
    torch.manual_seed(0)
    made = build(PointSpec(elements=("H", "C", "O"), width=16, vectors=8, layers=layers, **options)).double()
    made.set_scale(torch.tensor([-13.0, -1030.0, -2040.0], dtype=torch.float64), 0.7)
    return made


def batch(kind, seed=1):
    torch.manual_seed(seed)
    numbers = ETHANOL.repeat(3, 4) if kind == "many" else ETHANOL.repeat(3, 1)
    numbers[1, 7:] = 0
    there = (numbers > 0).double()
    t = {"numbers": numbers, "positions": torch.randn(*numbers.shape, 3, dtype=torch.float64) * 1.5}
    t |= {"energy": torch.randn(3, dtype=torch.float64), "forces": torch.randn_like(t["positions"]) * there.unsqueeze(-1)}
    return t | (
        {"cell": 3 * torch.eye(3, dtype=torch.float64) + 0.1 * torch.randn(3, 3, 3, dtype=torch.float64)}
        if kind == "a cell"
        else {}
    )


def lost(energy, forces, t):
    return (energy - t["energy"]).abs().sum() / 1e3 + (forces - t["forces"]).square().sum()


def step_by_step(made, t):
    found = made.energy_and_forces(t["numbers"], t["positions"], t.get("cell"), learn=True)
    return lost(found.energy, found.forces, t)


def learned(made, loss):
    return torch.autograd.grad(loss, list(made.parameters()), materialize_grads=True)


def apart(some, others):
    some, others = (torch.cat([x.flatten() for x in part]) for part in (some, others))
    return float((some - others).norm() / others.norm())


@pytest.mark.parametrize("kind", few(["SE(3)", "few, within a cutoff", "a cell", "many", "all see all"], 1))
def test_one_graph_learns_what_step_by_step_is_learned(kind):
    made = model(**KINDS[kind])
    at_once = ForceLoss(made, lost, compiled=False)
    for seed in (1, 2):  # the second batch goes through the graph of the first, where lists are as long
        t = batch(kind, seed)
        one, other = at_once(t), step_by_step(made, t)
        assert one.item() == pytest.approx(other.item(), rel=1e-12)
        assert apart(learned(made, 3 * one), learned(made, 3 * other)) < 1e-11


@pytest.mark.parametrize("kind", few(["all see all", "a cell", "few, within a cutoff", "SE(3)", "many"], 1))
def test_energies_alone_are_learned_in_one_graph_too(kind):
    def missed(energy, forces, t):
        assert forces is None
        return (energy - t["energy"]).abs().sum()

    made, t = model(**KINDS[kind]), batch(kind)
    one = ForceLoss(made, missed, compiled=False, forces=False)(t)
    other = missed(made(t["numbers"], t["positions"], t.get("cell")), None, t)
    assert one.item() == pytest.approx(other.item(), rel=1e-12)
    assert apart(learned(made, one), learned(made, other)) < 1e-11


def test_an_atom_that_the_model_does_not_know_is_refused():
    t = batch("all see all")
    t["numbers"] = t["numbers"] + 10 * (t["numbers"] == 8)
    with pytest.raises(InputError, match="but there is an atom of Ar"):
        ForceLoss(model(), lost, compiled=False)(t)


def test_coordinates_that_are_no_numbers_are_refused():
    t = batch("few, within a cutoff")
    t["positions"][0, 0, 0] = torch.nan
    with pytest.raises(InputError, match="NaN or infinite"):
        ForceLoss(model(**KINDS["few, within a cutoff"]), lost, compiled=False)(t)


@pytest.mark.compile
@pytest.mark.thorough
def test_compiled_it_learns_the_same():
    made = model(layers=1, **KINDS["few, within a cutoff"], heads=2)
    t = batch("few, within a cutoff")
    one, other = ForceLoss(made, lost)(t), step_by_step(made, t)
    assert one.item() == pytest.approx(other.item(), rel=1e-10)
    assert apart(learned(made, one), learned(made, other)) < 1e-10
