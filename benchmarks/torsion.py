"""The trained model of ethanol where it does not know better: one hydrogen of the methyl group is turned about the C-C bond.

    python -m benchmarks.torsion                writes benchmarks/results/torsion.json and prints the table of docs/howto/trained.md
    python -m benchmarks.torsion --check DATA   also compares the reference with the energies of frames of rMD17, an .npz file

The other atoms stay where the first example of the model has them, so the hydrogen comes close to its neighbour. The reference is
computed by PySCF (Sun et al. 2020, doi:10.1063/5.0006074) with PBE and def2-SVP, the method of the training data (Christensen & von
Lilienfeld 2020); it needs the package pyscf. Energies are those beyond the unturned molecule.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import equiscope as eq
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


def measured() -> list[dict[str, float]]:
    rows = []
    for degrees in ANGLES:
        numbers, at = turned(degrees)
        name = Path(f"turned by {degrees}.xyz")
        symbols = {1: "H", 6: "C", 8: "O"}
        lines = [f"{symbols[n]} {' '.join(map(repr, x))}" for n, x in zip(numbers, at.tolist(), strict=True)]
        name.write_text("\n".join([str(len(numbers)), "", *lines]) + "\n")
        (found,) = eq.predict("ethanol", [str(name)])
        name.unlink()
        rows.append(
            {"degrees": degrees, "nearest": nearest(at), "distance": found.arrays["distance"], "model": found.arrays["energy"],
             "reference": reference(numbers, at)}
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


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
    lines = ["| turned by | nearest hydrogen | distance | warning | model | PBE/def2-SVP |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        model, true = (1000 * (row[name] - first[name]) for name in ("model", "reference"))
        warned = "yes" if row["distance"] > 1 else ""
        lines.append(
            f"| {row['degrees']:.0f}° | {row['nearest']:.2f} Å | {row['distance']:.2f} | {warned} | {model:,.0f} meV | {true:,.0f} meV |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="The model of ethanol on a torsion far from training.")
    parser.add_argument("--check", type=Path, help="an .npz file of rMD17's ethanol")
    given = parser.parse_args()
    import pyscf

    record = {"method": "PBE/def2-SVP", "pyscf": pyscf.__version__, "rows": measured()}
    if given.check is not None:
        record["agreement"] = agreement(given.check)
        print(record["agreement"])
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    print(table(record["rows"]))


if __name__ == "__main__":
    main()
