"""Every recipe on the page about a user's own data is complete: it trains, and its run predicts."""

import re
import shutil
import tomllib
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equiscope.training import fit, open_task, recipe
from equiscope.training.reading import merged
from equiscope.training.verbs import evaluate, predict

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "data.md"
if not PAGE.exists():
    pytest.skip("docs/ is not in the source archive", allow_module_level=True)
RECIPES = [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)]
SHORT = {
    "model": {"layers": 1}, "budget": {"steps": 2, "batch": 4}, "optimiser": {"warmup": 1}, "evaluation": {"samples": 1},
}  # fmt: skip


def language(folder):
    lines = [f'{{"body": "note {i}: the cat sat on mat {i * 7 % 13}, and dog {i} did not."}}' for i in range(150)]
    (folder / "notes.jsonl").write_text("\n".join(lines))
    return {"data": {"context": 16, "vocabulary": 300}}, ["note"]


def translation(folder):
    for part, count in (("train", 40), ("val", 8)):
        (folder / f"{part}.en").write_text("".join(f"house {i} is {part}\n" for i in range(count)))
        (folder / f"{part}.fr").write_text("".join(f"maison {i} est {part}\n" for i in range(count)))
    return {"data": {"vocabulary": 300}, "model": {"encoder": {"layers": 1}}}, ["house 3"]


def texts(folder):
    rows = "".join(f"{('good', 'bad')[i % 2]} it is {i},{('yes', 'no')[i % 2]}\n" for i in range(60))
    (folder / "reviews.csv").write_text(f"text,label\n{rows}")
    return {"data": {"vocabulary": 300}}, ["good it is"]


def images(folder):
    chance = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / "pictures" / name).mkdir(parents=True)
        for i in range(12):
            Image.fromarray(chance.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(folder / "pictures" / name / f"{i}.png")
    return {}, [str(folder / "pictures" / "cat" / "0.png")]


def sounds(folder):
    chance = np.random.default_rng(0)
    (folder / "sounds").mkdir()
    for label in ("no", "yes"):
        for speaker in ("ann", "bob", "cy"):
            for take in range(3):
                with wave.open(str(folder / "sounds" / f"{label}_{speaker}_{take}.wav"), "wb") as file:
                    file.setparams((1, 2, 8000, 0, "NONE", ""))
                    file.writeframes(chance.integers(-9000, 9000, 1600, dtype=np.int16).tobytes())
    return {}, [str(folder / "sounds" / "no_ann_0.wav")]


def numbers_of_images(folder):
    chance = np.random.default_rng(0)
    (folder / "scans").mkdir()
    for i in range(60):
        Image.fromarray(chance.integers(0, 256, (20, 30), dtype=np.uint8)).save(folder / "scans" / f"{i}.png")
    rows = "".join(f"scans/{i}.png,{i * 7 % 31}.5,{i / 10}\n" for i in range(60))
    (folder / "scans.csv").write_text(f"path,angle,size\n{rows}")
    return {}, [str(folder / "scans" / "0.png")]


def numbers_of_sounds(folder):
    sounds(folder)
    rows = "".join(f"{path.relative_to(folder)},{100 + i * 7 % 31}\n" for i, path in enumerate(sorted(folder.rglob("*.wav"))))
    (folder / "takes.csv").write_text(f"path,pitch\n{rows}")
    return {"data": {"held_out": 0.3}}, [str(folder / "sounds" / "no_ann_0.wav")]


def rows(folder):
    lines = "".join(f"{i * 7 % 60 + 20},{'abc'[i % 3]},{i * 11 % 90 / 2},{('well', 'ill')[i % 2]}\n" for i in range(80))
    (folder / "patients.csv").write_text(f"age,ward,pressure,outcome\n{lines}")
    (folder / "new.csv").write_text("age,ward,pressure\n50,a,12\n")
    return {}, ["new.csv"]


def tags(folder):
    texts_ = [[(f"word{i * j % 11}", ("O", "B-PER", "I-PER")[(i + j) % 3]) for j in range(1, 6)] for i in range(40)]
    (folder / "news.conll").write_text("\n\n".join("\n".join(f"{w} {t}" for w, t in text) for text in texts_))
    return {"data": {"vocabulary": 300}}, ["word1 word2"]


def numbers_of_points(folder):
    text = "".join(f"2\ngap={5 + i / 10} dipole={i % 7}\nH 0 0 0\nO 0 0 {0.7 + i / 100}\n" for i in range(60))
    (folder / "gaps.xyz").write_text(text)
    return {}, [str(folder / "gaps.xyz")]


def molecules(folder):
    head = "Properties=species:S:1:pos:R:3:REF_forces:R:3"
    frame = f"2\n{head} REF_energy={{:.3f}}\nH 0 0 0 0 0 0.1\nH 0 0 {{:.3f}} 0 0 -0.1\n"
    (folder / "frames.extxyz").write_text("".join(frame.format(-700 - i / 10, 0.7 + i / 100) for i in range(30)))
    (folder / "atoms.xyz").write_text("1\nProperties=species:S:1:pos:R:3 REF_energy=-313.0\nH 0 0 0\n")
    shutil.copy(folder / "frames.extxyz", folder / "new.extxyz")
    return {"data": {"train_count": 20, "held_out": 8}}, [str(folder / "new.extxyz")]


def _name(shown):
    return ("numbers_of_" if "numbers" in shown["data"] else "") + shown["data"]["task"]


@pytest.mark.parametrize("shown", RECIPES, ids=[_name(one) for one in RECIPES])
def test_a_recipe_of_the_page_is_complete(shown, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes, inputs = globals()[_name(shown)](tmp_path)
    whole = recipe(shown)
    assert (whole.budget.steps, bool(whole.title)) == (shown["budget"]["steps"], True)
    assert whole.optimiser.warmup == shown["optimiser"]["warmup"]
    short = recipe(merged(merged(shown, SHORT), changes))
    run = fit(short, open_task(short, tmp_path), tmp_path / "run")
    assert run.state == "finished"
    assert not [note for note in run.notes if "ignores the order" in note]
    assert predict(tmp_path / "run", inputs)
    part, task = evaluate(tmp_path / "run").parts[0], shown["data"]["task"]
    assert any(one.low is not None for one in part.metrics)
    if task != "language":
        pytest.importorskip("sklearn")
        shared = {one.name for one in part.metrics}
        many = {"translation": 1, "tags": 3}.get(task, 2)
        assert [bool(shared & set(values)) for values in part.simple.values()] == [True] * many
