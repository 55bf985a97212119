"""A calculator for ASE: the model's own numbers, and ASE's own tools agree with them."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from copy import copy, deepcopy
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from ase import Atoms, units
from ase.build import bulk, molecule
from ase.calculators.calculator import PropertyNotImplementedError
from ase.calculators.fd import calculate_numerical_forces, calculate_numerical_stress
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS
from tests.geometry.space import randomised

from equiscope.errors import InputError, UnknownName
from equiscope.geometry.calculator import calculator
from equiscope.geometry.model import PointSpec, SpaceModel
from equiscope.models import Model, Spec
from equiscope.units import electronvolts


def model(scale=0.2, **settings):
    torch.manual_seed(0)
    return randomised(SpaceModel(PointSpec(("H", "C", "O", "Cu"), width=16, vectors=8, **settings)), scale)


def test_energy_and_forces_are_the_models():
    one, atoms = model(), molecule("CH3CH2OH")
    atoms.calc = calculator(one, "kcal/mol")
    answer = one.energy_and_forces(torch.as_tensor(atoms.numbers)[None], torch.as_tensor(atoms.positions)[None])
    assert atoms.get_potential_energy() == pytest.approx(float(answer.energy) * electronvolts("kcal/mol"), rel=1e-12)
    assert np.allclose(atoms.get_forces(), answer.forces[0] * electronvolts("kcal/mol"), rtol=1e-12)


def test_ases_own_differences_find_the_same_forces_and_stress():
    atoms = bulk("Cu", cubic=True).repeat((1, 1, 2))
    atoms.rattle(0.1, seed=1)
    atoms.calc = calculator(model(cutoff=4.0, filtered=True))
    exact = atoms.get_forces()[[0, 3]]
    differences = calculate_numerical_forces(atoms, eps=1e-4, iatoms=[0, 3])
    assert np.allclose(exact, differences, atol=1e-6 * np.abs(exact).max() + 1e-9)
    stress = atoms.get_stress()
    assert np.allclose(stress, calculate_numerical_stress(atoms, eps=1e-5), atol=1e-5 * np.abs(stress).max() + 1e-9)


@pytest.mark.parametrize(("unit", "length"), [("kcal/mol", "bohr"), ("hartree", "bohr"), ("meV", "nm"), ("kJ/mol", "angstrom")])
def test_units_are_brought_to_ases_by_name(unit, length):
    """The same crystal in the model's own unit and in Å, by ASE's own constants (an older CODATA, so to six digits)."""
    ev = {"kcal/mol": units.kcal / units.mol, "hartree": units.Hartree, "meV": 1e-3, "kJ/mol": units.kJ / units.mol}[unit]
    long = {"bohr": units.Bohr, "nm": units.nm, "angstrom": 1.0}[length]
    own = bulk("Cu", cubic=True)
    own.rattle(0.1, seed=1)
    one, atoms = model(cutoff=4.0, filtered=True), own.copy()
    atoms.set_cell(own.cell * long, scale_atoms=True)
    cell = torch.as_tensor(own.cell.array)[None]
    answer = one.energy_and_forces(torch.as_tensor(own.numbers)[None], torch.as_tensor(own.positions)[None], cell, stress=True)
    atoms.calc = calculator(one, unit, length)
    assert atoms.get_potential_energy() == pytest.approx(float(answer.energy) * ev, rel=1e-6)
    assert np.allclose(atoms.get_forces(), answer.forces[0] * ev / long, rtol=1e-5, atol=1e-6 * ev / long)
    stress = answer.stress[0].numpy() * ev / long**3
    assert np.allclose(atoms.get_stress(voigt=False), stress, rtol=1e-5, atol=1e-6 * np.abs(stress).max())


def test_of_thousands_of_electronvolts_the_calculator_keeps_millionths():
    """A model in float32 whose atoms have much energy alone: the calculator's energy is not rounded to 0.0005 eV."""
    torch.manual_seed(0)
    one, atoms = SpaceModel(PointSpec(("H", "C", "O"), width=16, vectors=8)), molecule("CH3CH2OH")
    one.set_scale(torch.tensor([-500.0, -500.0, -500.0], dtype=torch.float64), 1e-5)
    atoms.calc = calculator(one)
    energy = atoms.get_potential_energy()
    assert 0 < abs(energy + 4500) < 2e-4


def test_a_molecule_relaxes_and_keeps_its_energy_while_it_moves():
    atoms = molecule("H2O")
    atoms.calc = calculator(model())
    before = atoms.get_potential_energy()
    BFGS(atoms, logfile=None).run(fmax=1e-3, steps=40)
    assert atoms.get_potential_energy() <= before
    atoms.set_velocities(np.random.default_rng(0).normal(size=(3, 3)) * 0.01)
    start, moving = atoms.get_total_energy(), VelocityVerlet(atoms, 0.25 * units.fs)
    moving.run(40)
    assert atoms.get_total_energy() == pytest.approx(start, abs=1e-3 * max(1e-3, atoms.get_kinetic_energy()))


def test_what_does_not_fit_is_refused():
    with pytest.raises(UnknownName, match="unit of energy"):
        calculator(model(), "calories")
    with pytest.raises(UnknownName, match="unit of length"):
        calculator(model(), "hartree", length="feet")
    with pytest.raises(InputError, match="of a model of points in space, but this is a Model"):
        calculator(Model(Spec(width=8)))
    with pytest.raises(InputError, match="reads an energy"):
        calculator(model(readout="atoms"))
    alone = molecule("H2O")
    alone.calc = calculator(model())
    with pytest.raises(PropertyNotImplementedError):
        alone.get_stress()
    slab = Atoms("C", cell=[5, 5, 5], pbc=(True, True, False))
    slab.calc = calculator(model(cutoff=3.0))
    with pytest.raises(PropertyNotImplementedError, match="periodic along all vectors"):
        slab.get_stress()
    slab.set_cell([0, 5, 5])
    with pytest.raises(InputError, match="zero or parallel"):
        slab.get_potential_energy()


@pytest.mark.parametrize("pbc", [(True, True, False), (False, True, False)], ids=["slab", "wire"])
def test_a_slab_and_a_wire_are_as_in_a_cell_with_much_empty_space(pbc):
    """The vectors that are not periodic are not read, and atoms may lie outside the cell."""
    one = Atoms("OH2C", positions=[[0, 0, 0], [0.9, 0.2, 0], [-0.3, 0.9, 0.4], [1.2, 1.1, 7.0]], pbc=pbc)
    one.set_cell([[3.1, 0.4, 0.2], [0.3, 2.9, 0.1], [0, 0, 0]] if pbc[0] else [[0, 0, 0], [0.3, 2.9, 0.1], [0, 0, 1]])
    wide = one.copy()
    wide.pbc = True
    wide.set_cell([[3.1, 0.4, 0.2], [0.3, 2.9, 0.1], [0, 0, 60]] if pbc[0] else [[60, 0, 0], [0.3, 2.9, 0.1], [0, 0, 60]])
    found = []
    for atoms in (one, wide):
        atoms.calc = calculator(model(cutoff=3.5))
        found.append(np.array([atoms.get_potential_energy(), *atoms.get_forces().flat]))
    assert np.allclose(found[0], found[1], rtol=0, atol=1e-9 * np.abs(found[1]).max())


def pickled(one):
    return pickle.loads(pickle.dumps(one))


@pytest.mark.parametrize("again", [pickled, copy, deepcopy, lambda one: pickled(deepcopy(one))])
@pytest.mark.parametrize("asked", [False, True])
def test_a_calculator_is_copied_and_pickled_with_the_same_answers(again, asked):
    """Also with atoms and answers in it, units of its own, and settings of ASE's."""
    atoms, one = bulk("Cu", cubic=True), calculator(model(cutoff=4.0, filtered=True), "kcal/mol", "bohr", label="mine")
    atoms.rattle(0.1, seed=1)
    atoms.calc = one
    expected = atoms.get_potential_energy() if asked else None
    other = bulk("Cu", cubic=True)
    other.rattle(0.1, seed=1)
    other.calc = again(one)
    assert other.get_potential_energy() == (expected if asked else atoms.get_potential_energy())
    assert np.array_equal(other.get_forces(), atoms.get_forces())
    assert np.array_equal(other.get_stress(), atoms.get_stress())
    assert other.calc.label == one.label


def test_atoms_that_carry_a_calculator_are_pickled_with_it():
    atoms = molecule("H2O")
    atoms.calc = calculator(model())
    other = pickled(atoms)
    other.positions += 1.0  # computed again
    assert other.get_potential_energy() == pytest.approx(atoms.get_potential_energy(), rel=1e-6)


def energy_of(atoms):
    return atoms.get_potential_energy()


def test_a_worker_that_is_spawned_computes_the_same():
    atoms = molecule("H2O")
    atoms.calc = calculator(model())
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as workers:
        found = workers.submit(energy_of, atoms).result(timeout=120)
    assert found == pytest.approx(atoms.get_potential_energy(), rel=1e-6)
