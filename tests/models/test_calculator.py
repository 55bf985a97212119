"""A calculator for ASE: the model's own numbers, and ASE's own tools agree with them."""

import numpy as np
import pytest
import torch
from ase import Atoms, units
from ase.build import bulk, molecule
from ase.calculators.calculator import PropertyNotImplementedError
from ase.calculators.test import gradient_test
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS
from tests.geometry.space import randomised

from equiscope.errors import InputError, UnknownName
from equiscope.models.calculator import calculator, in_electronvolts
from equiscope.models.space import SpaceModel, SpaceSpec


def model(scale=0.2, **settings):
    torch.manual_seed(0)
    return randomised(SpaceModel(SpaceSpec(("H", "C", "O", "Cu"), width=16, arrows=8, **settings)), scale)


def test_energy_and_forces_are_the_models():
    one, atoms = model(), molecule("CH3CH2OH")
    atoms.calc = calculator(one, "kcal/mol")
    answer = one.answer(torch.as_tensor(atoms.numbers)[None], torch.as_tensor(atoms.positions)[None])
    assert atoms.get_potential_energy() == pytest.approx(float(answer.energy) * in_electronvolts("kcal/mol"), rel=1e-12)
    assert np.allclose(atoms.get_forces(), answer.forces[0] * in_electronvolts("kcal/mol"), rtol=1e-12)


def test_ases_own_differences_find_the_same_forces_and_stress():
    atoms = bulk("Cu", cubic=True).repeat((1, 1, 2))
    atoms.rattle(0.1, seed=1)
    atoms.calc = calculator(model(cutoff=4.0, filtered=True))
    exact, differences = gradient_test(atoms, indices=[0, 3])
    assert np.allclose(exact, differences, atol=1e-6 * np.abs(exact).max() + 1e-9)
    stress = atoms.get_stress()
    from ase.calculators.fd import calculate_numerical_stress

    assert np.allclose(stress, calculate_numerical_stress(atoms, eps=1e-5), atol=1e-5 * np.abs(stress).max() + 1e-9)


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
    with pytest.raises(InputError, match="reads an energy"):
        calculator(model(reads="atoms"))
    alone = molecule("H2O")
    alone.calc = calculator(model())
    with pytest.raises(PropertyNotImplementedError):
        alone.get_stress()
    slab = Atoms("C", cell=[5, 5, 5], pbc=(True, True, False))
    slab.calc = calculator(model(cutoff=3.0))
    with pytest.raises(InputError, match="all three vectors or none"):
        slab.get_potential_energy()
