"""The same examples in every form of file: trained on, evaluated and predicted alike; and bad ones refused, all faults at once."""

import gzip
import json
import shutil
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
    for side, name in enumerate(("pair.en", "pair.de")):
        (base / name).write_text("".join(pair[side] + "\n" for pair in test_translation.PAIRS), encoding="utf-8")
        compressed(base / name)
    tables(base, test_translation.PAIRS, ("source", "target"))
    return test_translation.asked(base, budget={"steps": 2}, optimiser={"warmup": 0}).to_dict()


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
        if self.kind == "translation":
            data["validation"] = data["train"]
        if self.kind == "sounds":
            data |= {"pattern": None, "where": {}, "held_out": 0.2}
        if form.startswith("energies"):
            data["keys"] = dict(data["keys"]) | {"forces": "none"}
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
    pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case)),
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
