"""Relax a molecule with a trained model, then simulate it at constant energy (NVE), and report the drift of the energy per atom.

    python recipes/move.py RUN molecule.xyz                  relax, then 1 ps from 300 K in steps of 0.5 fs
    python recipes/move.py RUN molecule.xyz --out path.xyz   also write the trajectory

Forces are exact gradients of the energy, so the drift comes from the finite time step, and from float32 unless --double.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import equiscope as eq
from equiscope.errors import InputError
from equiscope.geometry import SpaceModel, calculator
from equiscope.tokens.extra import needed

MAX_FORCE = 0.01  # eV/Å, on any atom of a relaxed molecule
FRAMES = 100  # at which energies are recorded


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a run of molecules")
    parser.add_argument("molecule", help="a file that ASE reads, in angstrom")
    parser.add_argument("--picoseconds", type=float, default=1.0)
    parser.add_argument("--femtoseconds", type=float, default=0.5, help="length of a step")
    parser.add_argument("--kelvin", type=float, default=300.0, help="temperature of the initial velocities")
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--seed", type=int, default=0, help="of the initial velocities")
    parser.add_argument("--out", type=Path, help="write the trajectory, as extended xyz")
    arguments = parser.parse_args(words)
    try:
        needed("ase", "molecules", "Simulating molecules")
        model = eq.load(arguments.run)
        if not isinstance(model, SpaceModel):
            raise InputError(
                f"{arguments.run} is no run of a model of points in space. Train one: equiscope train recipes/ethanol.toml."
            )
        atoms = read(arguments.molecule)
        atoms.calc = calculator(model.double() if arguments.double else model)  # in eV and eV/Å
        print(relaxation_summary(relaxed(atoms)))
        times, energies = simulated(
            atoms, arguments.picoseconds, arguments.femtoseconds, arguments.kelvin, arguments.seed, arguments.out
        )
        print(drift_summary(times, energies, len(atoms)))
    except InputError as error:
        print(f"equiscope: {error}", file=sys.stderr)
        return 2
    return 0


def read(path: str) -> Any:
    """The molecule in a file. Raises InputError."""
    from ase import io

    try:
        return io.read(path)
    except (OSError, ValueError, io.formats.UnknownFileTypeError, StopIteration) as error:
        raise InputError(f"{path} cannot be read as a molecule: {error}. Give a file such as .xyz.") from error


def relaxed(atoms: Any, most: int = 500) -> dict[str, float]:
    """Minimise the energy until no force is above 0.01 eV/Å. Returns energies before and after in eV, steps, the largest force."""
    from ase.optimize import BFGSLineSearch

    before, search = float(atoms.get_potential_energy()), BFGSLineSearch(atoms, logfile=None)
    search.run(fmax=MAX_FORCE, steps=most)
    force = float(np.linalg.norm(atoms.get_forces(), axis=1).max())
    return {"before": before, "after": float(atoms.get_potential_energy()), "steps": float(search.nsteps), "force": force}


def simulated(
    atoms: Any, picoseconds: float = 1.0, femtoseconds: float = 0.5, kelvin: float = 300.0, seed: int = 0, out: Path | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Simulate at constant energy (velocity Verlet) from random velocities. Returns times in ps, and total energies in eV."""
    from ase import io, units
    from ase.md.velocitydistribution import Stationary, ZeroRotation
    from ase.md.verlet import VelocityVerlet

    steps = round(1000 * picoseconds / femtoseconds)
    if steps < 1 or femtoseconds <= 0 or kelvin < 0:
        raise InputError(
            f"{picoseconds} ps from {kelvin} K cannot be simulated in steps of {femtoseconds} fs. Give positive numbers."
        )
    drawn = np.random.default_rng(seed).normal(size=(len(atoms), 3))
    atoms.set_momenta(drawn * np.sqrt(atoms.get_masses() * units.kB * kelvin)[:, None])  # Maxwell-Boltzmann
    Stationary(atoms)
    if not any(atoms.pbc):
        ZeroRotation(atoms)
    dynamics, every = VelocityVerlet(atoms, femtoseconds * units.fs), max(1, steps // FRAMES)
    times, energies = [], []

    def record() -> None:
        times.append(dynamics.nsteps * femtoseconds / 1000)
        energies.append(float(atoms.get_total_energy()))
        if out is not None:
            io.write(out, atoms, format="extxyz", append=dynamics.nsteps > 0)

    dynamics.attach(record, interval=every)
    dynamics.run(steps)
    return np.array(times), np.array(energies)


def relaxation_summary(result: dict[str, float]) -> str:
    state = "converged" if result["force"] <= MAX_FORCE else f"not converged: the largest force is {result['force']:.3g} eV/Å"
    return f"relaxed: {result['before']:.6f} eV to {result['after']:.6f} eV in {result['steps']:.0f} steps, {state}"


def drift_summary(times: np.ndarray, energies: np.ndarray, atoms: int) -> str:
    """The slope of a line through the energies, and their standard deviation from it, in meV per atom."""
    each = 1000 * (energies - energies[0]) / atoms
    slope, begin = np.polyfit(times, each, 1)
    spread = float((each - slope * times - begin).std())
    return f"simulated: {times[-1]:g} ps, energy drift {slope:.3g} meV/atom/ps, fluctuation {spread:.3g} meV/atom"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
