"""New data for a finished run: measured with `evaluate RUN DATA`, answered with `predict`, in every form that a recipe may name."""

import gzip
import json
import re
import shutil
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image

from equiscope.errors import InputError
from equiscope.training import NEW, evaluation_task, fit, load_run, load_task, open_task, recipe
from equiscope.training.task import batches
from tests.cli.test_cli import equi, refused  # noqa: F401
from tests.training import test_images, test_molecules_task, test_sounds, test_translation
from tests.training.small import plain

DIGITS, ETHANOL = test_sounds.DIGITS, test_molecules_task.ETHANOL
CLASSES = test_images.STRIPES


def packed(folder, path):
    """An archive of a folder's content."""
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for inner in sorted(folder.iterdir()):
            archive.add(inner, inner.name)
    return path


def listed(folder, files, table):
    """A folder with a table and the files that it names, all in one folder, and archives of it."""
    (folder / "files").mkdir(parents=True)
    for path, content in files.items():
        (folder / "files" / path.name).write_bytes(content)
        table = table.replace(str(path), f"files/{path.name}")
    (folder / "table.csv").write_text(table)
    (folder / "README.md").write_text("Of whom the files are.")
    packed(folder, folder.with_suffix(".tar.gz"))
    shutil.make_archive(str(folder), "zip", folder.parent, folder.name)


def made(found, folder):
    fit(found, open_task(found), folder)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("new")


# ------------------------------------------------------------------------------------------------------------ pictures
@pytest.fixture(scope="module")
def pictures(base):
    """A run, and the same new pictures in every form."""
    base = base / "pictures"
    base.mkdir()
    run = made(recipe(test_images.plain(base)), base / "run")
    images, labels = test_images.stripes(40)
    images, labels = images[30:], labels[30:]
    rows = []
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        file = base / "folder" / CLASSES[label] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
        rows.append((file.relative_to(base), CLASSES[label]))
    (base / "table.csv").write_text("path,label\n" + "".join(f"{path},{label}\n" for path, label in rows))
    (base / "semicolons.csv").write_text("label;path\n" + "".join(f"{label};{path}\n" for path, label in rows))
    (base / "lines.jsonl").write_text("".join(json.dumps({"path": str(path), "label": label}) + "\n" for path, label in rows))
    (base / "paths.csv").write_text("path\n" + "".join(f"{path}\n" for path, _ in rows))
    packed(base / "folder", base / "packed.tar.gz")
    listed(base / "listed", {path: (base / path).read_bytes() for path, _ in rows}, (base / "table.csv").read_text())
    shutil.copytree(base / "folder", base / "parts" / "train")
    shutil.copytree(base / "folder", base / "parts" / "val")
    shutil.copytree(base / "folder", base / "flat" / "deep")
    with gzip.open(base / "new-images.gz", "wb") as file:
        file.write(struct.pack(">4I", 0x803, *images.shape) + images.tobytes())
    (base / "new-images").write_bytes(gzip.decompress((base / "new-images.gz").read_bytes()))
    (base / "new-labels").write_bytes(struct.pack(">2I", 0x801, len(labels)) + bytes(labels))
    return base, run


FORMS = [
    ["folder"],
    ["packed.tar.gz"],
    ["table.csv"],
    ["listed"],
    ["listed.tar.gz"],
    ["listed.zip"],
    ["semicolons.csv"],
    ["lines.jsonl"],
    ["parts/val"],
    ["new-images", "new-labels"],
]


def test_pictures_are_measured_alike_in_every_form(pictures):
    base, run = pictures
    model, found = load_run(run), []
    for form in FORMS:
        _, task = evaluation_task(run, [str(base / name) for name in form])
        found.append(task.final(model, NEW))
    assert found[0]["pictures"] == 10
    assert all(one == pytest.approx(found[0], rel=1e-5) for one in found)


def test_pictures_are_answered_alike_in_every_form(pictures):
    base, run = pictures
    _, task = load_task(run)
    model = load_run(run)
    alone = {Path(f).name: task.predict(model, [str(f)])[0] for f in sorted((base / "folder").rglob("*.png"))}
    for form in ("folder", "flat", "packed.tar.gz", "table.csv", "semicolons.csv", "paths.csv", "lines.jsonl", "listed.zip"):
        answers = task.predict(model, [str(base / form)])
        assert len(answers) == 10
        for answer in answers:
            one = alone[answer.given.rpartition("/")[2]]
            assert answer.answer == one.answer
            assert answer.more == pytest.approx(one.more, abs=1e-5)
    for form in ("new-images", "new-images.gz"):
        answers = task.predict(model, [str(base / form)])
        assert [a.answer for a in answers] == [alone[f"{i}.png"].answer for i in range(10)]
        assert answers[3].given.endswith(f"{form}, picture 4")


def test_pictures_that_are_not_as_those_of_the_run_are_refused(pictures, tmp_path):
    base, run = pictures
    shutil.copytree(base / "folder", tmp_path / "other")
    (tmp_path / "other" / "down").rename(tmp_path / "other" / "dots")
    (tmp_path / "empty").mkdir()
    picture = (base / "folder" / "down" / "1.png").read_bytes()
    for name, table in (("named", "path,kind\nfiles/1.png,down\n"), ("gone", "path,label\nfiles/lost.png,down\n")):
        listed(tmp_path / name, {Path("1.png"): picture}, table)
    cases = [
        ([tmp_path / "other"], r"has the class 'dots', which is none of: across, down, none"),
        ([base / "parts"], r"is a folder of parts\. Name one: .*train, .*val"),
        ([base / "flat", base / "folder", base / "table.csv"], "but got 3"),
        ([base / "paths.csv"], "no 'label'"),
        ([tmp_path / "empty"], "has no folders"),
        ([tmp_path / "none"], "There is no .*none"),
        ([base / "folder" / "down" / "1.png"], "is no folder, archive"),
        ([tmp_path / "named.zip"], r"named.zip: named/table.csv has the columns path, kind, but no 'label'"),
        ([tmp_path / "gone.zip"], r"gone.zip: gone/table.csv, line 2: there is no file .*gone/files/lost.png"),
    ]
    for names, said in cases:
        with pytest.raises(InputError, match=said):
            evaluation_task(run, list(map(str, names)))
    _, task = load_task(run)
    for name, said in ((tmp_path / "empty", "has no picture"), (base / "new-labels", "is no idx file of pictures")):
        with pytest.raises(InputError, match=said):
            task.predict(load_run(run), [str(name)])


# -------------------------------------------------------------------------------------------------------------- sounds
@pytest.fixture(scope="module")
def sounds(base):
    base = base / "sounds"
    run = made(test_sounds.digits(), base / "run")
    some = base / "some"
    some.mkdir()
    for file in sorted(DIGITS.glob("*_5.wav")):
        shutil.copy(file, some)
    packed(some, base / "some.tar")
    packed(some, base / "some.tar.gz")
    (base / "table.csv").write_text("path,label\n" + "".join(f"some/{f.name},{f.name[0]}\n" for f in sorted(some.iterdir())))
    (base / "tabs.tsv").write_text("label\tpath\n" + "".join(f"{f.name[0]}\tsome/{f.name}\n" for f in sorted(some.iterdir())))
    (base / "paths.csv").write_text("path\n" + "".join(f"some/{f.name}\n" for f in sorted(some.iterdir())))
    files = {Path("some") / f.name: f.read_bytes() for f in sorted(some.iterdir())}
    listed(base / "listed", files, (base / "table.csv").read_text())
    return base, run


def test_sounds_are_measured_alike_in_every_form(sounds):
    base, run = sounds
    model, wanted = load_run(run), json.loads((run / "run.json").read_text())["result"]["test"]
    for form in ("some", "some.tar", "some.tar.gz", "table.csv", "tabs.tsv", "some/*.wav", "listed", "listed.zip"):
        _, task = evaluation_task(run, [str(base / form)])
        assert task.final(model, NEW) == pytest.approx(wanted, rel=1e-5)


def test_sounds_are_answered_alike_in_every_form(sounds):
    base, run = sounds
    _, task = load_task(run)
    model = load_run(run)
    alone = {f.name: task.predict(model, [str(f)])[0].more for f in sorted((base / "some").iterdir())}
    for form in ("some", "some.tar", "some.tar.gz", "table.csv", "paths.csv", "some/*.wav", "listed.tar.gz"):
        answers = task.predict(model, [str(base / form)])
        assert len(answers) == len(alone)
        for answer in answers:
            assert answer.more == pytest.approx(alone[answer.given.rpartition("/")[2].rpartition(" ")[2]], abs=1e-5)


def test_sounds_that_are_not_as_those_of_the_run_are_refused(sounds, tmp_path):
    _, run = sounds
    wave, rate = soundfile.read(DIGITS / "3_theo_5.wav")
    soundfile.write(tmp_path / "ten_theo_5.wav", wave, rate)
    (tmp_path / "empty").mkdir()
    cases = [
        (tmp_path / "ten_theo_5.wav", "has the class 'ten', which is none of: 0, 1"),
        (tmp_path / "empty", "has no recording"),
        (tmp_path / "none.wav", "There is no .*none.wav"),
    ]
    for name, said in cases:
        with pytest.raises(InputError, match=said):
            evaluation_task(run, [str(name)])
    with pytest.raises(InputError, match="has no recording"):
        load_task(run)[1].predict(load_run(run), [str(tmp_path / "empty")])


# ----------------------------------------------------------------------------------------------------------- molecules
@pytest.fixture(scope="module")
def molecules(base):
    base = base / "molecules"
    base.mkdir()
    run = made(recipe(test_molecules_task.plain()), base / "run")
    (base / "folder").mkdir()
    with np.load(ETHANOL) as held:
        some = {name: held[name] for name in held.files}
    few = {name: array[:12] if array.shape[:1] == some["energies"].shape[:1] else array for name, array in some.items()}
    np.savez(base / "few.npz", **few)
    for i in range(12):
        rows = zip(few["nuclear_charges"], few["coords"][i], few["forces"][i], strict=True)
        text = f"9\nProperties=species:S:1:pos:R:3:forces:R:3 energies={few['energies'][i]:.10f}\n"
        text += "".join(" ".join([{1: "H", 6: "C", 8: "O"}[int(n)], *map(repr, map(float, [*x, *f]))]) + "\n" for n, x, f in rows)
        (base / "folder" / f"{i:02}.xyz").write_text(text)
    whole = "".join(f.read_text() for f in sorted((base / "folder").iterdir()))
    (base / "all.extxyz").write_text(whole)
    (base / "all.xyz.gz").write_bytes(gzip.compress(whole.encode()))
    packed(base / "folder", base / "packed.tar.gz")
    return base, run


FRAMES = ("few.npz", "folder", "all.extxyz", "all.xyz.gz", "packed.tar.gz", "folder/*.xyz")


def test_molecules_are_measured_alike_in_every_form(molecules):
    base, run = molecules
    model, found = load_run(run), []
    for form in FRAMES:
        _, task = evaluation_task(run, [str(base / form)])
        found.append(task.evaluate(model, NEW))
    assert found[0]["frames"] == 12
    assert all(one == pytest.approx(found[0], rel=1e-4) for one in found)
    assert "rotated energy" in task.final(model, NEW)


def test_molecules_are_answered_alike_in_every_form_and_number(molecules):
    base, run = molecules
    _, task = load_task(run)
    model = load_run(run)
    alone = [task.predict(model, [str(base / "folder" / f"{i:02}.xyz")])[0].arrays for i in range(12)]
    for form in FRAMES:
        answers = task.predict(model, [str(base / form)])
        assert len(answers) == 12
        for answer, one in zip(answers, alone, strict=True):
            assert answer.arrays["energy"] == pytest.approx(one["energy"], abs=1e-4)  # float32 in the layers
            assert np.allclose(answer.arrays["forces"], one["forces"], atol=1e-4)


def test_molecules_of_unequal_size_are_answered_together_and_without_labels(molecules, tmp_path):
    base, run = molecules
    _, task = load_task(run)
    model = load_run(run)
    (tmp_path / "water.xyz").write_text("3\n\nO 0 0 0\nH 0.96 0 0\nH -0.24 0.93 0\n")
    np.savez(
        tmp_path / "bare.npz",
        coords=np.load(base / "few.npz")["coords"],
        nuclear_charges=np.load(base / "few.npz")["nuclear_charges"],
    )
    names = [str(tmp_path / "water.xyz"), str(base / "all.extxyz"), str(tmp_path / "bare.npz")]
    together = task.predict(model, names)
    apart = [answer for name in names for answer in task.predict(model, [name])]
    assert [len(a.arrays["forces"]) for a in together] == [3, *[9] * 24]
    assert [a.given for a in together] == [a.given for a in apart]
    assert [a.arrays["energy"] for a in together] == pytest.approx([a.arrays["energy"] for a in apart], abs=1e-4)


def test_molecules_that_are_not_as_those_of_the_run_are_refused(molecules, tmp_path):
    base, run = molecules
    one = (base / "folder" / "00.xyz").read_text()
    (tmp_path / "lone.xyz").write_text("1\nProperties=species:S:1:pos:R:3:forces:R:3 energies=-1\nH 0 0 0 0 0 0\n")
    (tmp_path / "other.xyz").write_text(one.replace("O ", "N "))
    (tmp_path / "unit.xyz").write_text(re.sub(r"energies=\S+", "energies=-154.7", one))
    (tmp_path / "name.xyz").write_text(one.replace("energies=", "E="))
    (tmp_path / "plain.xyz").write_text("1\n\nH 0 0 0\n")
    (tmp_path / "empty").mkdir()
    cases = {
        "lone.xyz": "and no molecule", "other.xyz": "an atom of N, but training has only H, C, O", "unit.xyz": "times as much",
        "name.xyz": "has no value 'energies'; its values are: E, forces", "plain.xyz": "has no value 'energies'",
        "empty": "has no file of molecules", "none.npz": "There is no .*none.npz",
    }  # fmt: skip
    for name, said in cases.items():
        with pytest.raises(InputError, match=said):
            evaluation_task(run, [str(tmp_path / name)])
    with pytest.raises(InputError, match="has no file of molecules"):
        load_task(run)[1].predict(load_run(run), [str(tmp_path / "empty")])


# --------------------------------------------------------------------------------------------------------------- texts
@pytest.fixture(scope="module")
def texts(base):
    base = base / "texts"
    base.mkdir()
    run = made(recipe(plain(base)), base / "run")
    text = (base / "text.txt").read_text()[500:1500].strip()
    (base / "new.txt").write_text(text)
    (base / "new.txt.gz").write_bytes(gzip.compress(text.encode()))
    (base / "new.jsonl").write_text(json.dumps({"text": text}) + "\n")
    (base / "new.csv").write_text('text;from\n"' + text.replace('"', '""') + '";me\n')
    (base / "folder").mkdir()
    (base / "folder" / "a.txt").write_text(text)
    packed(base / "folder", base / "packed.tar")
    return base, run


def test_texts_are_measured_alike_in_every_form(texts):
    base, run = texts
    model, found = load_run(run), []
    for form in ("new.txt", "new.txt.gz", "new.jsonl", "new.csv", "folder", "packed.tar"):
        _, task = evaluation_task(run, [str(base / form)])
        found.append(task.final(model, NEW))
    assert list(found[0]) == ["loss", "perplexity", "bits per character"]
    assert all(one == pytest.approx(found[0], rel=1e-5) for one in found)


def test_texts_that_are_not_as_those_of_the_run_are_refused(texts, tmp_path):
    _, run = texts
    for name, text in (("greek.txt", "Ω to be"), ("empty.txt", ""), ("one.txt", "a"), ("bytes.txt", b"\xff"), ("a.json", "{}")):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "bare.jsonl").write_text('{"words": "to be"}\n')
    cases = {
        "greek.txt": "Ω", "empty.txt": "is empty", "one.txt": "has 1 token", "bytes.txt": "is not UTF-8", "a.json": "is a .json",
        "bare.jsonl": "has no text 'text'",
    }  # fmt: skip
    for name, said in cases.items():
        with pytest.raises(InputError, match=said):
            evaluation_task(run, [str(tmp_path / name)])


def test_pairs_are_measured_alike_in_every_form(base):
    base = base / "pairs"
    base.mkdir()
    run = made(test_translation.asked(base, 2, budget={"steps": 2}, optimiser={"warmup": 0}), base / "run")
    some = test_translation.PAIRS[2:5]
    for side, name in enumerate(("b.en", "b.de")):
        (base / name).write_text("".join(pair[side] + "\n" for pair in some), encoding="utf-8")
        (base / f"{name}.gz").write_bytes(gzip.compress((base / name).read_bytes()))
    (base / "b.csv").write_text("source;target\n" + "".join(";".join(pair) + "\n" for pair in some), encoding="utf-8")
    (base / "b.tsv").write_text("target\tsource\n" + "".join("\t".join(pair[::-1]) + "\n" for pair in some), encoding="utf-8")
    (base / "b.jsonl").write_text("".join(json.dumps(dict(zip(("source", "target"), p, strict=True))) + "\n" for p in some))
    (base / "inner").mkdir()
    shutil.copy(base / "b.csv", base / "inner" / "c.csv")
    (base / "inner" / "README.md").write_text("Of whom the pairs are.")
    packed(base / "inner", base / "b.tar.gz")
    found, model = [], load_run(run)
    for form in (["b.en", "b.de"], ["b.en.gz", "b.de.gz"], ["b.csv"], ["b.tsv"], ["b.jsonl"], ["b.tar.gz"]):
        _, task = evaluation_task(run, [str(base / name) for name in form])
        found.append(task.final(model, NEW))
    assert "loss" in found[0]
    assert all(one == pytest.approx(found[0], rel=1e-5) for one in found)
    (base / "short.de").write_text("ein\n")
    for names, said in ((["b.en", "short.de"], "has 3 lines, but"), (["b.en"], "is no .tsv"), (["b.en"] * 2, "are the same text")):
        with pytest.raises(InputError, match=said):
            evaluation_task(run, [str(base / name) for name in names])


# --------------------------------------------------------------------------------------------------------- command line
def test_the_command_measures_new_data_and_says_what_was_learned_from(equi, texts):  # noqa: F811
    base, run = texts
    code, out, err = equi("evaluate", run, base / "new.txt")
    assert (code, err) == (0, "")
    assert out.startswith("data:\n  loss ")
    code, out, err = equi("evaluate", run, base / "text.txt", "--json")
    said = json.loads(out)
    assert said["data"][0]["name"] == "texts/text.txt"
    assert said["notes"] == [err.strip()]
    assert "was trained on texts/text.txt" in err
    refused(equi("evaluate", run, base / "new.txt", "--part", "test"), "New data has no parts, but --part test asks for one")
    refused(equi("evaluate", run, "nowhere.txt"), "There is no nowhere.txt")
    (base / "lines.txt").write_text("The cat\nThe dog\n")
    code, out, err = equi("predict", run, base / "lines.txt", "--steps", 2, "--json")
    assert [one["input"] for one in json.loads(out)] == ["The cat", "The dog"]
    assert "lines.txt is a file: its 2 texts are the inputs." in err


@pytest.mark.parametrize(
    ("sizes", "most", "pairs", "found"),
    [
        ([], 4, 100, []),
        ([3], 4, 4, [1]),
        ([3, 3, 3], 2, 100, [2, 1]),
        ([9, 1, 1, 1], 4, 100, [1, 3]),
        ([1, 1, 1, 9], 4, 100, [3, 1]),
        ([5, 5, 5, 5], 4, 50, [2, 2]),
        ([20, 20], 4, 100, [1, 1]),
    ],
)
def test_a_batch_is_bounded_by_number_and_by_pairs_of_tokens(sizes, most, pairs, found):
    made = list(batches(sizes, most, pairs))
    assert [one.stop - one.start for one in made] == found
    assert [i for one in made for i in range(one.start, one.stop)] == list(range(len(sizes)))
