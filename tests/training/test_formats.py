"""The same examples in every form of file: trained on, evaluated and predicted alike; and bad ones refused, all faults at once."""

import gzip
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import equiscope as eq
from equiscope.training import recipe
from tests.cli.test_cli import equi, refused  # noqa: F401
from tests.pairwise import each_value
from tests.training import test_evaluation, test_images, test_molecules_task, test_sounds, test_translation
from tests.training.small import SAMPLE

FORMS = {
    "molecules": (
        "frames.npz", "frames.extxyz", "frames.xyz.gz", "frames.xyz.xz", "folder", "folder/*.xyz", "packed.tar.gz", "packed.zip",
        "energies.extxyz", "energies.npz",
    ),
    "images": ("folder", "packed.tar", "packed.zip", "table.csv", "bars.csv", "table.tsv", "lines.jsonl", "pack*.zip"),
    "sounds": ("folder", "folder/*/*.wav", "packed.tar.gz", "packed.zip", "table.csv", "table.tsv"),
    "texts": ("table.csv", "semicolons.csv", "table.tsv", "table.csv.gz", "lines.jsonl", "folder", "packed.tar", "packed.zip",
        "line*.jsonl"),
    "language": ("text.txt", "text.txt.xz", "lines.jsonl", "table.csv", "folder", "folder/*.txt", "packed.tar.gz", "packed.zip"),
    "translation": ("pair", "pair.gz", "table.csv", "table.tsv", "lines.jsonl"),
}  # fmt: skip
CASES = [(kind, form) for kind, forms in FORMS.items() for form in forms]
FIRST = {form: (kind, form) for kind, form in reversed(CASES)}.values()  # each form once by default
SYMBOLS = {1: "H", 6: "C", 8: "O"}


def packed(base):
    for kind in ("gztar", "tar", "zip"):
        shutil.make_archive(str(base / "packed"), kind, base / "folder")


def compressed(path):
    for suffix, module in ((".gz", gzip), (".xz", __import__("lzma"))):
        Path(f"{path}{suffix}").write_bytes(module.compress(path.read_bytes()))


def tables(base, rows, columns):
    """Rows as CSV (also between semicolons and bars), TSV and lines of JSON."""
    for name, sign in (("table.csv", ","), ("semicolons.csv", ";"), ("bars.csv", "|"), ("table.tsv", "\t")):
        lines = [sign.join(columns), *(sign.join(map(str, row)) for row in rows)]
        (base / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = (json.dumps(dict(zip(columns, map(str, row), strict=True))) for row in rows)
    (base / "lines.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def molecules(base):
    with np.load(test_molecules_task.ETHANOL) as held:
        some = {name: held[name][:24] if held[name].ndim != 1 or name == "energies" else held[name] for name in held.files}
    (base / "folder").mkdir()
    np.savez(base / "frames.npz", **some)
    np.savez(base / "energies.npz", **{name: value for name, value in some.items() if name != "forces"})
    whole, bare = "", ""
    for i in range(24):
        rows = list(zip(some["nuclear_charges"], some["coords"][i], some["forces"][i], strict=True))
        head = "energies=" + repr(float(some["energies"][i]))
        text = f"9\nProperties=species:S:1:pos:R:3:forces:R:3 {head}\n"
        text += "".join(f"{SYMBOLS[int(n)]} {' '.join(repr(float(v)) for v in [*x, *f])}\n" for n, x, f in rows)
        bare += f"9\nProperties=species:S:1:pos:R:3 {head}\n"
        bare += "".join(f"{SYMBOLS[int(n)]} {' '.join(repr(float(v)) for v in x)}\n" for n, x, _ in rows)
        (base / "folder" / f"{i:02}.xyz").write_text(text)
        whole += text
    (base / "frames.extxyz").write_text(whole)
    (base / "energies.extxyz").write_text(bare)
    (base / "frames.xyz").write_text(whole)
    compressed(base / "frames.xyz")
    (base / "frames.xyz").unlink()
    packed(base)
    return test_molecules_task.plain(data={"held_out": 4, "where": {}}, evaluation={"every": 2})


def images(base):
    block, labels = test_images.stripes(30)
    rows = []
    for i, (pixels, label) in enumerate(zip(block, labels, strict=True)):
        file = base / "folder" / test_images.STRIPES[label] / f"{i:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
        rows.append((file.relative_to(base), test_images.STRIPES[label]))
    tables(base, rows, ("path", "label"))
    packed(base)
    return test_images.plain(base, data={"test_held_out": 1, "held_out": 2})


def sounds(base):
    rows = []
    for file in sorted(test_sounds.DIGITS.glob("[01]_*.wav")):
        copy = base / "folder" / file.name[0] / file.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
        rows.append((copy.relative_to(base), file.name[0]))
    tables(base, rows, ("path", "label"))
    packed(base)
    return test_sounds.digits().to_dict()


def texts(base):
    rows = [(row["text"], row["label"]) for row in test_evaluation.rows(40)]
    tables(base, rows, ("text", "label"))
    compressed(base / "table.csv")
    for i, (text, label) in enumerate(rows):
        (base / "folder" / label).mkdir(parents=True, exist_ok=True)
        (base / "folder" / label / f"{i:02}.txt").write_text(text)
    packed(base)
    return test_evaluation.plain(base, budget={"steps": 4, "batch": 8}, evaluation={"every": 4})


def language(base):
    text = SAMPLE.read_text(encoding="utf-8")[:1500].strip()
    (base / "folder").mkdir()
    (base / "folder" / "a.txt").write_text(text)
    (base / "text.txt").write_text(text)
    compressed(base / "text.txt")
    (base / "lines.jsonl").write_text(json.dumps({"text": text}) + "\n")
    (base / "table.csv").write_text('text\n"' + text.replace('"', '""') + '"\n')
    packed(base)
    head = {"heads": 2, "position": "rope", "causal": True}
    return {
        "title": "text", "data": {"task": "language", "train": "", "context": 16},
        "model": {"width": 16, "layers": 1, "block": {"attention": head}}, "budget": {"steps": 4, "batch": 4},
        "evaluation": {"every": 4},
    }  # fmt: skip


def translation(base):
    pairs = test_translation.PAIRS[:3]
    for side, name in enumerate(("pair.en", "pair.de")):
        (base / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
        compressed(base / name)
    tables(base, pairs, ("source", "target"))
    return test_translation.asked(base, 2, budget={"steps": 2}, optimiser={"warmup": 0}).to_dict()


def files_of(kind, form, base):
    """What a person names of a form: a pair of files for two of them."""
    if form.startswith("pair"):
        end = form.removeprefix("pair")
        return [str(base / f"pair.{side}{end}") for side in ("en", "de")]
    return [str(base / form)]


class Kind:
    """A folder with the same examples in every form, and a run that was trained on the first of them."""

    def __init__(self, kind, base):
        self.kind, self.base = kind, base
        base.mkdir()
        self.data = globals()[kind](base)
        self.first = FORMS[kind][0]
        self.run = self.trained(self.first, base / "run")
        self.values = eq.evaluate(self.run, files_of(kind, self.first, base)).result["data"]

    def trained(self, form, folder):
        names = files_of(self.kind, form, self.base)
        data = dict(self.data["data"]) | {"train": names[0] if len(names) == 1 else names}
        data.pop("classes", None)
        if self.kind == "sounds":
            data |= {"pattern": None, "where": {}, "held_out": 0.2}
        if form.startswith("energies"):
            data["keys"] = dict(data["keys"]) | {"forces": "none"}
        if self.kind == "translation":
            data["validation"] = data["train"]
        eq.train(recipe({**self.data, "data": {name: value for name, value in data.items() if value is not None}}), folder)
        return folder


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    base, made = tmp_path_factory.mktemp("formats"), {}
    return lambda kind: made.get(kind) or made.setdefault(kind, Kind(kind, base / kind))


def answers(kind, made, names, equi):  # noqa: F811
    """What the command answers, sorted: energies of molecules, and texts of the others."""
    more = {"language": ("--steps", 3), "translation": ("--beams", 1)}.get(kind, ())
    code, out, err = equi("predict", made.run, *names[:1], *more, "--json")
    assert code == 0, err
    return sorted(one["energy"] if kind == "molecules" else one["answer"] for one in json.loads(out))


@each_value(
    pytest.mark.parametrize(
        "case", [pytest.param(c, id="-".join(c), marks=() if c in FIRST else pytest.mark.thorough) for c in CASES]
    ),
    pytest.mark.parametrize("verb", ["train", "evaluate", "predict"]),
)
def test_the_same_examples_are_used_alike_in_every_form(kinds, equi, tmp_path, case, verb):  # noqa: F811
    kind, form = case
    made = kinds(kind)
    names = files_of(kind, form, made.base)
    if verb == "train":
        run = eq.record.run.read_run(made.trained(form, tmp_path / "run"))
        assert run.state == "finished"
        counts = {"molecules": "frames", "images": "pictures", "sounds": "recordings", "texts": "texts"}
        if (count := counts.get(kind)) is not None:
            first = eq.record.run.read_run(made.run)
            assert run.result["validation"][count] == first.result["validation"][count]
    elif verb == "evaluate":
        code, out, err = equi("evaluate", made.run, *names, "--json")
        assert code == 0, err
        found = json.loads(out)["result"]["data"]
        wanted = {name: x for name, x in made.values.items() if not (form.startswith("energies") and name.startswith("forces"))}
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-3)
    else:
        found = answers(kind, made, names, equi)
        if kind == "language":  # a line of a text is an input, and so is a whole text of a table
            assert len(found) >= 1
        else:
            assert found == pytest.approx(answers(kind, made, files_of(kind, made.first, made.base), equi), abs=1e-3)


# ------------------------------------------------------------------------------------------------------------ bad files
def zipped(path, members):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)


def ethanol(base, **changes):
    with np.load(base / "frames.npz") as held:
        some = {name: held[name].copy() for name in held.files}
    for name, change in changes.items():
        some[name] = change(some[name])
    np.savez(base / "bad.npz", **some)
    return base / "bad.npz"


def bad_frames(base):
    """Each bad file, and what is said of it."""
    good = (base / "folder" / "00.xyz").read_text()
    atom = good.splitlines()[3]
    other, unnamed = good.replace("O ", "N ", 1), good.replace("energies=", "E=", 1)
    broken = good.replace(atom, " ".join(["nan", *atom.split()[1:]]), 1)
    (base / "several.extxyz").write_text(good + unnamed + other + good.replace(atom.split()[1], "inf", 1) + unnamed)
    yield (
        "several.extxyz",
        (
            "frame 1 has no value 'energies'; its values are: E, forces. Set data.keys.energy. 1 other has the same fault",
            "frame 3 has coordinates that are no numbers (NaN or infinite). Take it out of the file.",
            "frame 2 of the data part has an atom of N, but training has only H, C, O.",
        ),
    )
    (base / "element.xyz").write_text(broken)
    yield "element.xyz", ("element.xyz, line 4: there is no element 'nan'. Correct the line.",)
    (base / "wide.xyz").write_bytes(good.encode("utf-16"))
    yield "wide.xyz", ("wide.xyz is UTF-16, and text files are UTF-8. Convert it: iconv -f UTF-16 -t UTF-8.",)
    (base / "table.csv").write_text("path,label\n")
    yield "table.csv", ("table.csv is no file of frames. Frames are in files that end in .npz",)
    zipped(base / "mixed.zip", {"a.xyz": good, "b.xyz": unnamed, "c.xyz": "9\n", "__MACOSX/._a.xyz": "\0"})
    yield "mixed.zip", ("mixed.zip: b.xyz has no value 'energies'", "mixed.zip: c.xyz ends after line 1")
    (base / "cut.zip").write_bytes((base / "packed.zip").read_bytes()[:300])
    yield "cut.zip", ("cut.zip is damaged: File is not a zip file. Fetch it again.",)
    (base / "far.xyz").write_text(good.replace(atom.split()[1], "1e30", 1))
    yield "far.xyz", ("far.xyz: the model's prediction is NaN or infinite.",)
    (base / "same.xyz").write_text(good.replace(good.splitlines()[4].split(None, 1)[1], atom.split(None, 1)[1], 1))
    yield "same.xyz", ("same.xyz: atoms 2 and 3 have the same position.",)
    ethanol(base, energies=lambda x: np.where(np.arange(len(x)) % 7, x, np.nan)).rename(base / "nan.npz")
    yield "nan.npz", ("frame 0 has energies that are no numbers", "3 others have the same fault; the last: ", "frame 21.")
    ethanol(base, energies=lambda x: np.array([{}] * len(x), dtype=object)).rename(base / "object.npz")
    yield "object.npz", ("object.npz cannot be read: it holds Python objects, which are not read.",)
    ethanol(base, coords=lambda x: x.astype(complex)).rename(base / "complex.npz")
    yield "complex.npz", ("coords has values of the type complex128, and real numbers are needed.",)
    ethanol(base, nuclear_charges=lambda x: 0 * x).rename(base / "none.npz")
    yield "none.npz", ("none.npz, frame 0 has no atom",)


def test_every_fault_of_new_frames_is_named_with_its_place_and_the_next_step(kinds, equi):  # noqa: F811
    made = kinds("molecules")
    for name, said in bad_frames(made.base):
        refused(equi("evaluate", made.run, made.base / name), *said)
    for name in ("several.extxyz", "wide.xyz", "table.csv", "cut.zip", "far.xyz", "same.xyz", "none.npz"):
        refused(equi("predict", made.run, made.base / name), str(made.base))


def test_every_fault_of_new_pictures_is_named_at_once(kinds, equi, tmp_path):  # noqa: F811
    made = kinds("images")
    good = next((made.base / "folder").rglob("*.png")).read_bytes()
    for name, content in {"down/a.png": good, "down/b.png": b"no", "dots/c.png": good, "none/d.png": good[:60]}.items():
        (tmp_path / "new" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "new" / name).write_bytes(content)
    said = ("dots/c.png has the class 'dots', which is none of: across, down, none.", "b.png cannot be read as a picture")
    shutil.make_archive(str(tmp_path / "new"), "zip", tmp_path / "new")
    for name in ("new", "new.zip"):
        refused(equi("evaluate", made.run, tmp_path / name), *said)
        refused(equi("predict", made.run, tmp_path / name), "b.png cannot be read as a picture", "d.png cannot be read")
    (tmp_path / "a.csv").write_text("path,label\nnew/down/a.png,down\nnew/x.png,down\n,none\nnew/down/a.png,\nnew/a,b,c\n")
    lines = ("line 6 has 3 columns", "line 3: there is no file", "line 4 has no file in 'path'", "line 5 has no class in 'label'")
    refused(equi("evaluate", made.run, tmp_path / "a.csv"), *lines)
    zipped(tmp_path / "flat.zip", {"a.png": good})
    refused(equi("evaluate", made.run, tmp_path / "flat.zip"), "flat.zip: a.png lies in no folder that could be its class.")
    refused(equi("evaluate", made.run, tmp_path / "new", tmp_path / "new"), "Two names are a pair of idx files, but ")


def test_every_fault_of_new_sounds_and_texts_is_named_at_once(kinds, equi, tmp_path):  # noqa: F811
    sound, text = kinds("sounds"), kinds("texts")
    wave = next((sound.base / "folder").rglob("*.wav"))
    for name, content in {"0/a.wav": wave.read_bytes(), "0/b.wav": b"no", "1/c.wav": wave.read_bytes()[:80]}.items():
        (tmp_path / "new" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "new" / name).write_bytes(content)
    for name in ("new", "new/*/*.wav"):
        for verb in ("evaluate", "predict"):
            refused(equi(verb, sound.run, tmp_path / name), "b.wav cannot be read as a sound", "c.wav is cut off")
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": "plant"}\n{"text": 3}\n{no\n[]\n{"text": "b"}\n')
    said = ("line 2 has no text 'text'", "line 3 is not JSON", "line 4 has no text 'text'; it has: list", "line 5 has no 'label'")
    refused(equi("evaluate", text.run, tmp_path / "a.jsonl"), *said)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    refused(equi("evaluate", text.run, tmp_path / "a.xlsx"), "a.xlsx is a .xlsx, which is not read.")
    zipped(tmp_path / "t.zip", {"animal/a.txt": "cat", "plant/b.txt": b"\xff", "plant/c.txt": ""})
    refused(equi("evaluate", text.run, tmp_path / "t.zip"), "plant/b.txt, line 1 is not UTF-8", "plant/c.txt has an empty text.")


def test_an_archive_with_a_password_or_beyond_the_budget_is_refused(kinds, equi, tmp_path):  # noqa: F811
    made = kinds("language")
    zipped(tmp_path / "a.zip", {"a.txt": "to be or not to be"})
    content = bytearray((tmp_path / "a.zip").read_bytes())
    for sign, flag in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(sign) + flag] |= 1
    (tmp_path / "a.zip").write_bytes(bytes(content))
    refused(equi("evaluate", made.run, tmp_path / "a.zip"), "a.txt is locked by a password. Unpack the archive first.")
