"""Lone atoms are references and no examples; frames without forces teach their energies beside those that have forces."""

from pathlib import Path

import numpy as np
import pytest
import torch

from equiscope.data.frame_files import Keys
from equiscope.data.molecules import Frames, Molecules
from equiscope.errors import InputError
from equiscope.training import open_task, recipe, resolve_spec
from equiscope.training.loop import initial_model

ETHANOL = Path(__file__).parents[2] / "recipes" / "samples" / "ethanol.npz"
WATER, BOX = "species:S:1:pos:R:3:forces:R:3", 'Lattice="15 0 0 0 15 0 0 0 15"'


def atom(symbol, energy, more="", columns="species:S:1:pos:R:3", place="0 0 0"):
    return f"1\nProperties={columns} energy={energy} {more}\n{symbol} {place}\n"


def waters(count=12, energy=-14.2, forces=True, more='pbc="F F F"', begin=0):
    text = ""
    for i in range(begin, begin + count):
        rows = [("O", "0 0 0", "0.1 0 0"), ("H", f"{0.9 + i / 100} 0 0", "-0.1 0 0"), ("H", "-0.2 0.9 0", "0 0 0")]
        lines = "".join(f"{s} {at} {pull if forces else ''}\n" for s, at, pull in rows)
        columns = WATER if forces else "species:S:1:pos:R:3"
        text += f"3\nProperties={columns} energy={energy - i / 100} {more}\n{lines}"
    return text


def read(path, text, **said):
    path.write_text(text)
    return Frames(Molecules(**{"train": str(path), "held_out": 4, **said}))


ALONE = {
    "marked as MACE does": (atom("H", -1.1, "config_type=IsolatedAtom"), atom("O", -1.5, "config_type=IsolatedAtom")),
    "marked as GAP does": (atom("H", -1.1, "config_type=isolated_atom"), atom("O", -1.5, 'config_type="isolated atom"')),
    "not marked": (atom("H", -1.1), atom("O", -1.5, 'pbc="F F F"')),
    "in a box that repeats": (
        atom("H", -1.1, f'{BOX} pbc="T T T" config_type=IsolatedAtom'), atom("O", -1.5, f'{BOX} pbc="T T T"'),
    ),
    "with forces of nothing": (
        atom("H", -1.1, columns=WATER, place="0 0 0 0 0 0"), atom("O", -1.5, columns=WATER, place="1 2 3 0 0 0.001"),
    ),
    "in the midst of others": (waters(3) + atom("H", -1.1), waters(3, begin=3) + atom("O", -1.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_isolated_atoms_are_the_references_and_in_no_part(tmp_path, name):
    """The molecules have other energies an atom, so that the atoms would be taken for a mix of units."""
    found = read(tmp_path / "a.xyz", "".join(ALONE[name]) + waters(begin=6))
    assert found.statistics.elements == ["H", "O"]
    assert found.statistics.references == [-1.1, -1.5]
    assert all(len(frame.numbers) == 3 for some in found.parts.values() for frame in some)
    assert len(found.parts["validation"]) == 4
    assert "H -1.1 eV, O -1.5 eV" in found.notes[0]
    assert not found.periodic


@pytest.mark.parametrize("references", ["atoms", "fitted"])
def test_what_no_isolated_atom_says_is_fitted(tmp_path, references):
    found = read(tmp_path / "a.xyz", atom("H", -1.1) + waters(), references=references, split="first")
    held, fitted = found.statistics, read(tmp_path / "b.xyz", waters(), split="first").statistics
    if references == "fitted":
        assert held == fitted
        assert "left out" in found.notes[0]
    else:
        assert held.references[0] == -1.1
        assert held.references[1] + 2 * -1.1 == pytest.approx(fitted.references[1] + 2 * fitted.references[0], rel=1e-9)
        assert "No atom of O is isolated there" in found.notes[0]


def test_of_several_atoms_the_lowest_counts_and_ions_do_not(tmp_path):
    text = atom("H", -1.1) + atom("H", -0.9) + atom("H", -13.0, "charge=-1") + atom("O", -1.5) + atom("O", 12.0, "total_charge=1")
    found = read(tmp_path / "a.xyz", text + waters())
    assert found.statistics.references == [-1.1, -1.5]
    assert sum("ion" in note for note in found.notes) == 2
    assert sum("the lowest is the reference" in note for note in found.notes) == 1


def test_a_crystal_of_one_atom_a_cell_is_no_isolated_atom(tmp_path):
    text = "".join(
        atom("Cu", -3.7 - i / 100, f'Lattice="0 {a} {a} {a} 0 {a} {a} {a} 0" pbc="T T T"', WATER, "0 0 0 0 0 0")
        for i, a in enumerate(np.linspace(1.7, 1.9, 12).round(3))
    )
    found = read(tmp_path / "a.xyz", text)
    assert len(found.parts["train"]) == 8
    assert found.periodic


def test_numbers_of_frames_stay_those_of_the_file(tmp_path):
    found = read(tmp_path / "a.xyz", atom("H", -1.1) + atom("O", -1.5) + waters(), drop={"train": [2]}, split="first")
    assert [frame.number for frame in found.parts["train"]] == list(range(3, 10))


def test_isolated_atoms_of_a_part_that_is_measured_are_left_out_of_it(tmp_path):
    (tmp_path / "v.xyz").write_text(atom("C", -1.3) + waters(3, begin=50))  # carbon is in no molecule
    found = read(tmp_path / "a.xyz", atom("H", -1.1) + atom("O", -1.5) + waters(), validation=str(tmp_path / "v.xyz"))
    assert len(found.parts["validation"]) == 3
    assert any("validation part are isolated atoms" in note for note in found.notes)


WRONG = [
    (atom("H", -1.1) + atom("O", -1.5), "and no molecule"),
    (atom("H", -1.1, columns=WATER, place="0 0 0 0 0 1.5") + waters(), r"a force of 1\.5 eV/Å acts on it.*data\.drop names 0"),
    (waters(12, more="config_type=IsolatedAtom"), "has config_type=IsolatedAtom, but has 3 atoms"),
    (atom("H", -0.5) + atom("O", -75.0) + waters(energy=-2079.0), r"binding energy would be -66.* eV per atom"),
    (atom("H", "nan") + atom("O", -1.5) + waters(), "energies that are no numbers"),
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[said[:20] for _, said in WRONG])
def test_what_is_no_reference_is_a_sentence(tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        read(tmp_path / "a.xyz", text)


# ------------------------------------------------------------------------------------------------ energies alone, beside forces


def task_of(path, **said):
    return open_task(
        recipe({
            "title": "t", "data": {"task": "molecules", "train": str(path), "held_out": 4, **said},
            "budget": {"steps": 2, "batch": 4},
            "model": {"width": 8, "vectors": 4, "heads": 2, "layers": 1, "radial": 4},
        })
    )  # fmt: skip


MIXED = {
    "frames within a file": lambda t: (waters(8) + waters(8, forces=False, begin=8), {}),
    "a file without, measured": lambda t: (waters(12), {"validation": waters(4, forces=False, begin=20)}),
    "a file with some, measured": lambda t: (waters(12), {"validation": waters(4, begin=20) + waters(2, forces=False, begin=30)}),
    "measured with, some learned without": lambda t: (waters(4) + waters(8, forces=False, begin=8), {"test": waters(4, begin=20)}),
    "isolated atoms without": lambda t: (atom("H", -1.1) + atom("O", -1.5) + waters(12), {}),
}


@pytest.mark.parametrize("name", MIXED)
def test_frames_without_forces_teach_their_energies(tmp_path, name):
    """Their forces are not taken for 0: the loss of a frame without them is that of its energy."""
    text, more = MIXED[name](tmp_path)
    (tmp_path / "a.xyz").write_text(text)
    for part, other in more.items():
        (tmp_path / f"{part}.xyz").write_text(other)
    task = task_of(tmp_path / "a.xyz", **{part: str(tmp_path / f"{part}.xyz") for part in more})
    model = task.init_model(initial_model(task.recipe, resolve_spec(task)))
    space, expected, terms = task.frames, 0.0, task.batch(0)
    found = float(task.loss(model, terms).detach())
    for _, row in space.sampler.batch(0, 4):
        frame = space.parts["train"][row]
        answer = model.energy_and_forces(frame.numbers[None], frame.positions[None])
        expected += abs(float(answer.energy) - frame.energy) / 3 / task.statistics.scale
        if frame.forces is not None:
            expected += float((answer.forces[0] - frame.forces).abs().sum()) / 9 / task.statistics.scale
    assert found == pytest.approx(expected, rel=1e-5)
    for part in ("validation", *more):
        some = space.parts[part]
        values = task.final(model, part)
        pulled = [f for f in some if f.forces is not None]
        assert ("forces" in values) == bool(pulled)
        if pulled:
            predicted = [model.energy_and_forces(f.numbers[None], f.positions[None]).forces[0] for f in pulled]
            missed = torch.cat([(forces - f.forces).flatten() for forces, f in zip(predicted, pulled, strict=True)])
            assert values["forces"] == pytest.approx(1000 * float(missed.abs().mean()), rel=1e-5)
    assert any("have no forces" in note for note in task.notes) == (name != "isolated atoms without")


def test_arrays_without_forces_beside_arrays_that_have_them(tmp_path):
    with np.load(ETHANOL) as held:
        arrays = {name: held[name] for name in ("energies", "coords", "nuclear_charges")}
        np.savez(tmp_path / "with.npz", **{**arrays, "coords": arrays["coords"] + 0.0, "forces": held["forces"]})
        np.savez(tmp_path / "without.npz", **{**arrays, "coords": arrays["coords"] + 0.01})
    found = Frames(
        Molecules(train=str(tmp_path / "with*.npz"), keys=Keys(energy="energies"), unit="kcal/mol", held_out=8, references="fitted")
    )
    assert found.partial["train"]
    assert "without.npz has no array 'forces'; it has: energies, coords, nuclear_charges" in found.notes[0]
    batch = found.batch(0, 16)
    assert batch["forces"][~batch["known"]].abs().max() == 0
    with pytest.raises(InputError, match=r"without\.npz has no array 'forces'.*or \"none\" to train on energies only"):
        Frames(Molecules(train=str(tmp_path / "without.npz"), keys=Keys(energy="energies"), unit="kcal/mol", held_out=8))


def test_a_frame_without_an_energy_is_named(tmp_path):
    with pytest.raises(InputError, match=r"a\.xyz, frame 8 has no value 'energy'"):
        read(tmp_path / "a.xyz", waters(8) + waters(2, begin=8).replace("energy", "free"))
