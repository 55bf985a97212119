"""Frames from files: names and units as they are said, parts that share no frame, and what cannot be is a sentence."""

import gzip
import io
import lzma
import math
import tarfile
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from ase import units

from equiscope.data.frame_files import FrameFormat, Keys, frames
from equiscope.data.molecules import Frames, Molecules, energy_statistics, joined
from equiscope.errors import EquiscopeError, InputError
from equiscope.units import ENERGIES, LENGTHS

SAMPLES = Path(__file__).parents[2] / "recipes" / "samples"
ETHANOL = SAMPLES / "ethanol.npz"
RMD17 = Keys(energy="energies")


def ethanol(**changes):
    said = {"train": str(ETHANOL), "keys": RMD17, "unit": "kcal/mol", "held_out": 8}
    return Molecules(**said | changes)


def water(energy="-10.0", forces="0.1 0 0", third="H", at="0.96 0 0", more=""):
    """A frame of extended xyz."""
    head = f"3\nProperties=species:S:1:pos:R:3:forces:R:3 energy={energy} {more}\n"
    return head + f"O 0 0 0 0 0 0\nH {at} {forces}\n{third} -0.2 0.9 0 0 0 0\n"


def many(count, **changes):
    return "".join(water(at=f"{0.9 + i / 100} 0 0", energy=f"{-10 - i / 100}", **changes) for i in range(count))


def written(path, text):
    path.write_text(text)
    return str(path)


def altered(path, **arrays):
    """The sample with other arrays; None: without it."""
    with np.load(ETHANOL) as held:
        found = {name: held[name] for name in held.files} | arrays
    np.savez(path, **{name: array for name, array in found.items() if array is not None})
    return str(path)


# --------------------------------------------------------------------------------------------------------- what is read


def test_energies_and_forces_are_brought_to_electronvolts_and_angstrom():
    raw, read = np.load(ETHANOL), Frames(ethanol(split="first")).parts["train"]
    kcal = 0.04336410424180  # thermochemical calorie
    assert read[3].energy == pytest.approx(raw["energies"][3] * kcal, rel=1e-12)
    assert torch.allclose(read[3].forces, torch.from_numpy(raw["forces"][3]) * kcal, rtol=1e-12)
    assert torch.equal(read[3].positions, torch.from_numpy(raw["coords"][3]))
    assert read[3].numbers.tolist() == [6, 6, 8, 1, 1, 1, 1, 1, 1]


def test_a_length_has_a_unit_and_forces_are_by_it(tmp_path):
    path = written(tmp_path / "a.extxyz", water())
    one, other = (frames(path, FrameFormat(Keys(), "hartree", length))[0][0] for length in ("angstrom", "bohr"))
    assert torch.allclose(other.positions, one.positions * 0.529177210544)
    assert torch.allclose(other.forces, one.forces / 0.529177210544)
    assert one.energy == other.energy == -10 * ENERGIES["hartree"]


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_file_is_read_compressed_or_not(tmp_path, ending, pack):
    path = tmp_path / f"a.extxyz{ending}"
    path.write_bytes(pack(many(3).encode()))
    assert [frame.energy for frame in frames(str(path), FrameFormat(Keys()))[0]] == pytest.approx([-10, -10.01, -10.02])


def archive(path, names, table):
    molecules = {f"set/{name}": f"2\n\nO 0 0 0\nH 0.9{name[:4]} 0 0\n" for name in names}
    with tarfile.open(path, "w:xz") as file:
        for name, text in ({"hof.txt": table} | molecules).items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            file.addfile(member, io.BytesIO(text.encode()))
    return str(path)


def test_a_table_in_an_archive_says_the_energies_and_numbers_say_the_parts(tmp_path):
    names = [f"{i:04}.xyz" for i in range(1, 12)]
    path = archive(tmp_path / "a.tar.xz", names, "".join(f"{name} {-i} {-9 * i}\n" for i, name in enumerate(names, 1)))
    config = Molecules(train=path, table="hof.txt", keys=Keys(forces=None), where={"test": (5, 1)}, held_out=2)
    found = Frames(config)
    assert sorted(frame.number for frame in found.parts["test"]) == [1, 6, 11]
    assert {p: len(some) for p, some in found.parts.items()} == {"train": 6, "validation": 2, "test": 3}
    assert all(frame.energy == -frame.number and frame.forces is None for part in found.parts.values() for frame in part)
    wrong = Molecules(train=archive(tmp_path / "b.tar.xz", names, "0002.xyz 1\n"), table="hof.txt", keys=Keys(forces=None))
    with pytest.raises(InputError, match=r"hof\.txt has no energy for 0001\.xyz"):
        Frames(wrong)
    words = Molecules(train=archive(tmp_path / "c.tar.xz", names, "0001.xyz one\n"), table="hof.txt", keys=Keys(forces=None))
    with pytest.raises(InputError, match=r"hof\.txt, line 1 has no number in column 2"):
        Frames(words)


# --------------------------------------------------------------------------------------------------------------- parts


def test_parts_share_no_frame_and_are_a_function_of_the_seed():
    one, same, other = (Frames(ethanol(train_count=20), seed) for seed in (0, 0, 1))
    numbers = [[[frame.number for frame in f.parts[p]] for p in ("train", "validation")] for f in (one, same, other)]
    assert numbers[0] == numbers[1] != numbers[2]
    assert [len(part) for part in numbers[0]] == [20, 8]
    assert not set(numbers[0][0]) & set(numbers[0][1])


def test_the_first_are_learned_from_and_the_last_held_out():
    parts = Frames(ethanol(train_count=20, split="first")).parts
    assert [frame.number for frame in parts["train"]] == list(range(20))
    assert [frame.number for frame in parts["validation"]] == list(range(32, 40))


def test_what_is_dropped_is_in_no_part():
    parts = Frames(ethanol(drop={"train": [3, 7]})).parts
    assert {frame.number for part in parts.values() for frame in part} == set(range(40)) - {3, 7}


def test_a_frame_that_is_learned_from_is_not_measured_on(tmp_path):
    with np.load(ETHANOL) as held:
        few = {name: held[name] if name == "nuclear_charges" else held[name][:3] for name in held.files}
    np.savez(tmp_path / "test.npz", **few)
    with pytest.raises(
        InputError, match=r"test\.npz, frame 0 of the test part is also in the training part.* data\.drop = \{ test = \[0\] \}"
    ):
        Frames(ethanol(test=str(tmp_path / "test.npz"), split="first"))
    twice = written(tmp_path / "twice.xyz", many(3) + many(3))
    with pytest.raises(InputError, match=r"frame 5 of the validation part is also .* frame 2\. .*drop = \{ train = \[5\] \}"):
        Frames(Molecules(train=twice, split="first", held_out=1))


def test_steps_see_every_frame_once_an_epoch_whatever_the_shares():
    found = Frames(ethanol())
    seen = torch.cat([found.batch(step, 8)["energy"] for step in range(4)])
    assert sorted(seen.tolist()) == sorted(frame.energy for frame in found.parts["train"])
    halves = [found.batch(1, 8, share, 2)["energy"] for share in (0, 1)]
    assert torch.equal(torch.stack(halves, 1).flatten(), found.batch(1, 8)["energy"])


def test_smaller_molecules_are_padded_with_no_atoms(tmp_path):
    path = written(tmp_path / "a.extxyz", water() + "1\nProperties=species:S:1:pos:R:3:forces:R:3 energy=-1\nH 1 2 3 0 0 0\n")
    made = joined(frames(path, FrameFormat(Keys()))[0])
    assert made["numbers"].tolist() == [[8, 1, 1], [1, 0, 0]]
    assert made["positions"][1, 1:].abs().sum() == made["forces"][1].abs().sum() == 0


# -------------------------------------------------------------------------------------------------------------- levels


def test_references_leave_nothing_of_what_is_a_sum_over_atoms(tmp_path):
    text = "".join(
        f"{n}\nProperties=species:S:1:pos:R:3 energy={-3 * n - 2}\nO 0 0 0\n" + "".join(f"H {i} 0 0\n" for i in range(1, n))
        for n in (2, 3, 4, 5)
    )
    read, _ = frames(written(tmp_path / "a.xyz", text), FrameFormat(Keys(forces=None)))
    found = energy_statistics(Molecules(train="", keys=Keys(forces=None)), read)
    assert found.elements == ["H", "O"]
    assert found.references == pytest.approx([-3, -5], abs=1e-9)
    assert abs(found.offset) < 1e-9


def test_of_one_molecule_the_references_are_the_smallest_that_fit():
    found = Frames(ethanol())
    train = found.parts["train"]
    mean = math.fsum(frame.energy for frame in train) / len(train)  # references have twelve digits
    assert sum(n * e for n, e in zip((6, 2, 1), found.statistics.references, strict=True)) == pytest.approx(mean, rel=1e-11)
    forces = torch.cat([frame.forces for frame in train])
    assert found.statistics.scale == pytest.approx(float(forces.square().mean().sqrt()), rel=1e-12)


def test_atoms_that_are_alone_may_be_the_references(tmp_path):
    alone = "".join(f"1\nProperties=species:S:1:pos:R:3 energy={e}\n{s} 0 0 0\n" for s, e in (("H", -1.0), ("O", -7.5)))
    train, path = written(tmp_path / "a.extxyz", many(12)), written(tmp_path / "alone.xyz", alone)
    found = Frames(Molecules(train=train, references=path, held_out=2))
    assert found.statistics.references == [-1.0, -7.5]
    assert found.statistics.offset == pytest.approx(sum(frame.energy + 9.5 for frame in found.parts["train"]) / 30)
    assert [source.part for source in found.sources] == ["train", "references"]
    with pytest.raises(InputError, match=r"has no atom of O, only H"):
        Frames(Molecules(train=train, references=written(tmp_path / "h.xyz", alone[: alone.index("-7.5") - 40]), held_out=2))


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("said", ['""', "[]", "none", '"0.0 0.0 0.0"', '"F F F"', "0"])
def test_what_does_not_repeat_is_said_in_many_ways(tmp_path, said):
    text = "".join(water(at=f"{0.9 + i / 100} 0 0", energy=f"{-10 - i / 100}", more=f"{CELL} pbc={said}") for i in range(8))
    assert not Frames(Molecules(train=written(tmp_path / "a.xyz", text), train_count=4, held_out=2)).periodic


@pytest.mark.parametrize("said", ['"T T T"', '"1 1 1"', "1", "TTT", "T,T,T", "[t, t, t]", "yes"])
def test_what_repeats_is_said_in_many_ways(tmp_path, said):
    text = "".join(water(at=f"{0.9 + i / 100} 0 0", energy=f"{-10 - i / 100}", more=f"{CELL} pbc={said}") for i in range(8))
    found = Frames(Molecules(train=written(tmp_path / "a.xyz", text), train_count=4, held_out=2))
    assert found.periodic


CELL = 'Lattice="9 0 0 0 9 0 0 0 9"'
WRONG = [
    (lambda t: ethanol(keys=Keys()), r"has no array 'energy'; it has: .*energies, forces.*Set data\.keys\.energy"),
    (
        lambda t: ethanol(keys=Keys(energy="energies", forces="pull")),
        r"no array 'pull'; .* or \"none\" to train",
    ),
    (
        lambda t: ethanol(train=altered(t / "a.npz", energies=np.zeros(39))),
        r"shape \(39,\), but coords is of 40 frames",
    ),
    (lambda t: ethanol(train=altered(t / "a.npz", forces=np.zeros((40, 8, 3)))), r"forces has shape \(40, 8, 3\)"),
    (lambda t: ethanol(train=altered(t / "a.npz", coords=np.zeros((40, 27)))), r"places are \[frames, atoms, 3\]"),
    (lambda t: ethanol(train=altered(t / "a.npz", nuclear_charges=np.full(9, 200))), r"elements are 1 to 118"),
    (lambda t: ethanol(train=altered(t / "a.npz", energies=np.full(40, "a"))), r"energies has values .*real numbers are needed"),
    (lambda t: ethanol(train=altered(t / "a.npz", energies=np.full(40, None))), r"cannot be read"),
    (lambda t: ethanol(train=written(t / "a.npz", "no")), r"a\.npz cannot be read"),
    (lambda t: ethanol(train_count=39), r"has 40 frames for this, but 39 are for training and 8 held out"),
    (lambda t: ethanol(held_out=40), r"has 40 frames"),
    (lambda t: ethanol(drop={"train": [40]}), r"data\.drop\.train leaves 40 out, but the frames are 0 to 39"),
    (lambda t: ethanol(drop={"train": list(range(40))}), r"leaves no frame of the train part"),
    (lambda t: ethanol(where={"test": (5, 5)}), r"what is left by 5 is less than 5"),
    (lambda t: ethanol(where={"test": (90, 80)}), r"No frame of .* has a number that leaves 80 by 90"),
    (lambda t: ethanol(where={"test": (5, 1)}, test=str(ETHANOL)), r"The test part is defined twice"),
    (lambda t: ethanol(table="x.txt"), r"but .*ethanol\.npz is \.npz"),
    (lambda t: ethanol(validation=str(SAMPLES / "uracil.npz")), r"validation part has an atom of N, but training has only H, C, O"),
    (
        lambda t: Molecules(train=written(t / "a.xyz", "2\nhi\nH 0 0 0\nH 0 0 1\n")),
        r"no value 'energy'; its values are: comment",
    ),
    (lambda t: Molecules(train=written(t / "a.xyz", water("[]"))), r"an energy is one number"),
    (
        lambda t: Molecules(train=written(t / "a.xyz", water()), keys=Keys(forces="F")),
        r"no forces 'F'; its values are:.*forces",
    ),
    (lambda t: Molecules(train=written(t / "a.xyz", water(at="nan 0 0"))), r"coordinates that are no numbers.*data\.drop\.train"),
    (lambda t: Molecules(train=written(t / "a.xyz", water(energy="nan"))), r"energies that are no numbers"),
    (lambda t: Molecules(train=written(t / "a.xyz", water(third="Xx"))), r"Xx"),
    (lambda t: Molecules(train=written(t / "a.xyz", "")), r"holds no points"),
    (lambda t: Molecules(train=written(t / "a.txt", "")), r"is no file of frames"),
    (
        lambda t: Molecules(train=written(t / "a.xyz", water(more='Lattice="5 0 0 10 0 0 0 0 5" pbc="T T F"'))),
        r"a\.xyz.* zero or parallel",
    ),
    (lambda t: Molecules(train=written(t / "a.xyz", water(more=f'{CELL} pbc="all"'))), r"'all' is neither T nor F"),
    (lambda t: Molecules(train=written(t / "a.xyz", water(more='pbc="T T T"'))), r"says no Lattice"),
    (
        lambda t: Molecules(train=written(t / "a.xyz", many(9) + water(at="2 0 0", more=CELL)), held_out=1),
        r"is periodic, but",
    ),
    (
        lambda t: Molecules(train=written(t / "a.xyz", many(9)), held_out=1, references=written(t / "b.xyz", water())),
        r"needs isolated atoms",
    ),
    (lambda t: Molecules(train="nowhere.xyz"), r"There is no nowhere\.xyz"),
]


@pytest.mark.parametrize(("config", "said"), WRONG, ids=[said[:40] for _, said in WRONG])
def test_what_cannot_be_learned_from_is_a_sentence(tmp_path, config, said):
    with pytest.raises(EquiscopeError, match=said):
        Frames(config(tmp_path))


def test_a_file_in_another_unit_than_was_said_is_refused(tmp_path):
    with np.load(ETHANOL) as held:
        path = altered(tmp_path / "ev.npz", energies=held["energies"] * ENERGIES["kcal/mol"], coords=held["coords"] + 0.5)
        mixed = altered(tmp_path / "mixed.npz", energies=np.where(np.arange(40) % 2, held["energies"], 0.0434 * held["energies"]))
    with pytest.raises(InputError, match=r"ev\.npz, frame 0 of the test part.*0\.0434 times as much, as if it were in eV"):
        Frames(ethanol(test=path))
    with pytest.raises(InputError, match=r"Bring all files to one unit"):
        Frames(ethanol(train=mixed))


def chain(elements, energy):
    """A frame of atoms on a line, which is another line for another energy."""
    rows = "".join(f"{element} {i} 0 {energy / 1e4} 0.1 0 0\n" for i, element in enumerate(elements))
    return f"{len(elements)}\nProperties=species:S:1:pos:R:3:forces:R:3 energy={energy}\n{rows}"


OTHERS = [("HH", -31.7), ("OO", -4090.0), ("OHOH", -4113.0), ("OOO", -6130.0), ("OH", -2060.0), ("HHHO", -2094.0)]  # eV, about


@pytest.mark.parametrize(("elements", "energy"), OTHERS)
def test_molecules_that_references_do_not_know_are_not_taken_for_another_unit(tmp_path, elements, energy):
    train = written(tmp_path / "water.xyz", "".join(chain("HOH", -2080.0 - i / 100) for i in range(9)))
    own = Molecules(train=train, held_out=1, test=written(tmp_path / "other.xyz", chain(elements, energy)))
    statistics = Frames(own).statistics
    assert len(Frames.from_files(own, statistics, "data", [own.test]).parts["data"]) == 1


@pytest.mark.parametrize("unit", ["meV", "kcal/mol", "kJ/mol", "hartree", "Ry"])
@pytest.mark.parametrize("elements", ["HOH", "HHOOHH"])
def test_molecules_that_references_know_are_refused_in_another_unit(tmp_path, unit, elements):
    train = written(tmp_path / "water.xyz", "".join(chain("HOH", -2080.0 - i / 100) for i in range(9)))
    energy = -2080.0 * len(elements) / 3 / ENERGIES[unit]
    own = Molecules(train=train, held_out=1, test=written(tmp_path / "other.xyz", chain(elements, energy)))
    with pytest.raises(InputError, match=f"times as much, as if it were in {unit}"):
        Frames(own)
    statistics = Frames(msgspec.structs.replace(own, test=None)).statistics
    with pytest.raises(InputError, match=f"times as much, as if it were in {unit}"):
        Frames.from_files(own, statistics, "data", [own.test])


@pytest.mark.parametrize(("said", "other"), [("angstrom", "bohr"), ("bohr", "angstrom"), ("angstrom", "nm"), ("nm", "bohr")])
def test_places_in_another_unit_of_length_than_was_said_are_refused(tmp_path, said, other):
    raw = np.load(ETHANOL)
    made = {}
    for name, unit, rows in (("a.npz", said, slice(0, 30)), ("b.npz", other, slice(30, 40)), ("c.npz", said, slice(30, 40))):
        arrays = {array: raw[array][rows] for array in ("energies", "forces")}
        made[name] = altered(tmp_path / name, coords=raw["coords"][rows] / LENGTHS[unit], **arrays)
    frames_ = Frames(ethanol(train=made["a.npz"], test=made["c.npz"], length=said))
    assert torch.allclose(frames_.parts["test"][0].positions, torch.from_numpy(raw["coords"][30]))
    with pytest.raises(InputError, match=rf"Atoms of the test part are .* as if places were in {other} there\. .*data\.length"):
        Frames(ethanol(train=made["a.npz"], test=made["b.npz"], length=said))


@pytest.mark.parametrize("unit", list(ENERGIES))
@pytest.mark.parametrize("length", list(LENGTHS))
def test_every_unit_is_brought_to_electronvolts_and_angstrom(tmp_path, unit, length):
    """By ASE's own constants, an older CODATA: to six digits."""
    path = written(tmp_path / "a.extxyz", water(forces="0.1 0.2 -0.3"))
    (found,), _ = frames(path, FrameFormat(Keys(), unit, length))
    ev = {
        "eV": 1.0, "meV": 1e-3, "kcal/mol": units.kcal / units.mol, "kJ/mol": units.kJ / units.mol, "hartree": units.Hartree,
        "Ry": units.Rydberg,
    }[unit]  # fmt: skip
    long = {"angstrom": 1.0, "nm": units.nm, "bohr": units.Bohr}[length]
    assert found.energy == pytest.approx(-10 * ev, rel=1e-6)
    assert found.positions[1, 0] == pytest.approx(0.96 * long, rel=1e-6)
    assert found.forces[1].tolist() == pytest.approx([0.1 * ev / long, 0.2 * ev / long, -0.3 * ev / long], rel=1e-6)


def test_a_unit_that_is_not_known_is_not_guessed():
    for wrong in ({"unit": "kcal"}, {"length": "A"}):
        with pytest.raises(msgspec.ValidationError, match="Invalid enum value"):
            msgspec.convert({"train": "a.xyz", "task": "molecules"} | wrong, Molecules)
