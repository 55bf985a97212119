"""Relax a molecule with a run, then let it move: how far its energy drifts at constant energy, for each atom.

    python recipes/move.py RUN molecule.xyz                  to rest, then 1 ps from 300 K in steps of 0.5 fs
    python recipes/move.py RUN molecule.xyz --out path.xyz   and what it looked like on the way

Forces are slopes of the energy, so what is left is the drift of the steps, and of float32 in the layers unless --double.
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

AT_REST = 0.01  # eV/Å, on any atom
FRAMES = 100  # that are looked at on the way


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="folder of a run of molecules")
    parser.add_argument("molecule", help="a file that ASE reads, in angstrom")
    parser.add_argument("--picoseconds", type=float, default=1.0)
    parser.add_argument("--femtoseconds", type=float, default=0.5, help="of a step")
    parser.add_argument("--kelvin", type=float, default=300.0, help="of the velocities at the beginning")
    parser.add_argument("--double", action="store_true", help="compute in float64")
    parser.add_argument("--seed", type=int, default=0, help="of the velocities")
    parser.add_argument("--out", type=Path, help="write the frames on the way, as extended xyz")
    said = parser.parse_args(words)
    try:
        needed("ase", "molecules", "Moving molecules")
        model = eq.load(said.run)
        if not isinstance(model, SpaceModel):
            raise InputError(
                f"{said.run} is no run of a model of points in space. Train one: equiscope train recipes/ethanol.toml."
            )
        atoms = read(said.molecule)
        atoms.calc = calculator(model.double() if said.double else model)  # runs answer in eV and eV/Å
        print(told_rest(relaxed(atoms)))
        print(told_drift(moved(atoms, said.picoseconds, said.femtoseconds, said.kelvin, said.seed, said.out), len(atoms)))
    except InputError as error:
        print(f"equiscope: {error}", file=sys.stderr)
        return 2
    return 0


def read(path: str) -> Any:
    """The one molecule of a file. Raises InputError."""
    from ase import io

    try:
        return io.read(path)
    except (OSError, ValueError, io.formats.UnknownFileTypeError, StopIteration) as error:
        raise InputError(f"{path} cannot be read as a molecule: {error}. Give a file such as .xyz.") from error


def relaxed(atoms: Any, most: int = 500) -> dict[str, float]:
    """Bring atoms to where no force is above 0.01 eV/Å, never uphill: energies before and after in eV, steps, largest force."""
    from ase.optimize import BFGSLineSearch

    before, search = float(atoms.get_potential_energy()), BFGSLineSearch(atoms, logfile=None)
    search.run(fmax=AT_REST, steps=most)
    left = float(np.linalg.norm(atoms.get_forces(), axis=1).max())
    return {"before": before, "after": float(atoms.get_potential_energy()), "steps": float(search.nsteps), "left": left}


def moved(
    atoms: Any, picoseconds: float = 1.0, femtoseconds: float = 0.5, kelvin: float = 300.0, seed: int = 0, out: Path | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Let atoms move at constant energy (velocity Verlet) from velocities at random: times in ps, and total energies in eV."""
    from ase import io, units
    from ase.md.velocitydistribution import Stationary, ZeroRotation
    from ase.md.verlet import VelocityVerlet

    steps = round(1000 * picoseconds / femtoseconds)
    if steps < 1 or femtoseconds <= 0 or kelvin < 0:
        raise InputError(f"{picoseconds} ps in steps of {femtoseconds} fs from {kelvin} K is no way to move. Give numbers above 0.")
    drawn = np.random.default_rng(seed).normal(size=(len(atoms), 3))
    atoms.set_momenta(drawn * np.sqrt(atoms.get_masses() * units.kB * kelvin)[:, None])  # Maxwell and Boltzmann
    Stationary(atoms)
    if not any(atoms.pbc):
        ZeroRotation(atoms)
    moving, every = VelocityVerlet(atoms, femtoseconds * units.fs), max(1, steps // FRAMES)
    times, energies = [], []

    def look() -> None:
        times.append(moving.nsteps * femtoseconds / 1000)
        energies.append(float(atoms.get_total_energy()))
        if out is not None:
            io.write(out, atoms, format="extxyz", append=moving.nsteps > 0)

    moving.attach(look, interval=every)
    moving.run(steps)
    return np.array(times), np.array(energies)


def told_rest(found: dict[str, float]) -> str:
    rest = "at rest" if found["left"] <= AT_REST else f"not at rest, forces to {found['left']:.3g} eV/Å are left"
    return f"relaxed: {found['before']:.6f} eV to {found['after']:.6f} eV in {found['steps']:.0f} steps, {rest}"


def told_drift(found: tuple[np.ndarray, np.ndarray], atoms: int) -> str:
    """The slope of a line through the energies, and how far they are from it, in meV for each atom."""
    times, energies = found
    each = 1000 * (energies - energies[0]) / atoms
    slope, begin = np.polyfit(times, each, 1)
    spread = float((each - slope * times - begin).std())
    return f"moved: {times[-1]:g} ps, the energy drifts by {slope:.3g} meV an atom a ps and sways by {spread:.3g} meV an atom"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
