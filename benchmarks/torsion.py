"""The trained model of ethanol where it does not know better: one hydrogen of the methyl group is turned about the C-C bond.

    python -m benchmarks.torsion DATA   writes benchmarks/results/torsion.json, and prints the table of docs/howto/trained.md

DATA is an .npz file of rMD17's ethanol: the reference is compared with the energies of its first frames.

The other atoms stay where the first example of the model has them, so the hydrogen comes close to its neighbour. The reference is
computed by PySCF (Sun et al. 2020, doi:10.1063/5.0006074) with PBE and def2-SVP, the method of the training data (Christensen & von
Lilienfeld 2020); it needs the package pyscf. Energies are those beyond the unturned molecule.
"""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import equiscope as eq
from equiscope.tokens.elements import SYMBOLS
from equiscope.tokens.points import read_frames
from equiscope.units import electronvolts

RESULTS = Path(__file__).parent / "results" / "torsion.json"
CARBON, METHYL, HYDROGEN = 0, 1, 5  # atoms of the example: the bond, and what is turned about it
ANGLES = (0, 10, 20, 30, 40, 50, 60)  # degrees


def turned(degrees: float) -> tuple[list[int], np.ndarray]:
    """Atomic numbers, and positions [9, 3] in Å of the turned example."""
    (points,) = read_frames(eq.trained.path_of("ethanol") / "examples" / "ethanol.xyz")
    assert points.numbers is not None
    at = points.positions.double().numpy().copy()
    axis = at[CARBON] - at[METHYL]
    axis /= np.linalg.norm(axis)
    arm, angle = at[HYDROGEN] - at[METHYL], np.deg2rad(degrees)
    along = axis * (arm @ axis)  # Rodrigues' formula
    at[HYDROGEN] = at[METHYL] + along + (arm - along) * np.cos(angle) + np.cross(axis, arm) * np.sin(angle)
    return points.numbers.tolist(), at


def reference(numbers: list[int], at: np.ndarray) -> float:
    """The energy in eV by PBE/def2-SVP."""
    from pyscf import dft, gto  # type: ignore[import-not-found]

    molecule = gto.M(atom=[(n, tuple(x)) for n, x in zip(numbers, at.tolist(), strict=True)], basis="def2-svp", verbose=0)
    method = dft.RKS(molecule, xc="pbe")
    method.grids.level, method.conv_tol = 4, 1e-9
    energy = method.kernel()
    assert method.converged
    return float(energy) * electronvolts("hartree")


def nearest(at: np.ndarray) -> float:
    """The distance of the turned hydrogen to the nearest other one, in Å."""
    return float(min(np.linalg.norm(at[HYDROGEN] - at[other]) for other in (3, 4, 6, 7, 8)))


def predicted(degrees: float, folder: Path) -> dict[str, float]:
    """The energy of the model in eV, and the distance from the training part, 1 of which is the limit. folder: for a file."""
    numbers, at = turned(degrees)
    file = folder / f"turned by {degrees}.xyz"
    lines = [f"{SYMBOLS[n - 1]} {' '.join(map(repr, x))}" for n, x in zip(numbers, at.tolist(), strict=True)]
    file.write_text("\n".join([str(len(numbers)), "", *lines]) + "\n")
    (found,) = eq.predict("ethanol", [str(file)])
    return {"degrees": degrees, "nearest": nearest(at), "distance": found.arrays["distance"], "model": found.arrays["energy"]}


def measured() -> list[dict[str, float]]:
    with TemporaryDirectory() as folder:
        return [predicted(degrees, Path(folder)) | {"reference": reference(*turned(degrees))} for degrees in ANGLES]


def agreement(data: Path, count: int = 5) -> dict[str, float]:
    """How far the reference is from the energies of frames, in meV, apart from a constant."""
    with np.load(data) as held:
        numbers, at = held["nuclear_charges"].tolist(), held["coords"][:count].astype(float)
        given = held["energies"][:count].astype(float) * electronvolts("kcal/mol")
    ours = np.array([reference(numbers, one) for one in at])
    missed = (ours - ours.mean()) - (given - given.mean())
    return {"frames": count, "mean": 1000 * float((ours - given).mean()), "largest": 1000 * float(np.abs(missed).max())}


def table(rows: list[dict[str, float]]) -> str:
    first = rows[0]
    lines = [
        "| turned by | nearest hydrogen | distance | warning | model | PBE/def2-SVP |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        model, true = (1000 * (row[name] - first[name]) for name in ("model", "reference"))
        cells = (
            f"{row['degrees']:.0f}°",
            f"{row['nearest']:.2f} Å",
            f"{row['distance']:.2f}",
            "yes" if row["distance"] > 1 else "",
        )
        lines.append(f"| {' | '.join(cells)} | {model:,.0f} meV | {true:,.0f} meV |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="The model of ethanol on a torsion far from training.")
    parser.add_argument("data", type=Path, help="an .npz file of rMD17's ethanol")
    given = parser.parse_args()
    import pyscf  # type: ignore[import-not-found]

    rows, compared = measured(), agreement(given.data)
    record = {"method": "PBE/def2-SVP", "pyscf": pyscf.__version__, "rows": rows, "agreement": compared}
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{compared}\n{table(rows)}")


if __name__ == "__main__":
    main()
