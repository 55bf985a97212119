"""`equiscope new`: what is understood of data, a split without leaks, and a recipe that runs as it stands."""

import json
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equiscope.errors import InputError
from equiscope.training import open_task, read_recipe
from equiscope.training.draft import RecipeDraft, StepTime, fit_budget, look, toml
from equiscope.training.reading import recipe
from equiscope.training.task import size_warnings
from tests.cli.test_cli import equi, refused  # noqa: F401

SAMPLES = Path(__file__).parents[2] / "recipes" / "samples"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pictures(folder, each=12, size=(10, 8), seed=0, names=("cat", "dog")):
    chance = np.random.default_rng(seed)
    for name in names:
        (folder / name).mkdir(parents=True)
        for i in range(each):
            Image.fromarray(chance.integers(0, 256, size, dtype=np.uint8)).save(folder / name / f"{i:03}.png")
    return folder


def opened(draft, folder=Path()):
    """The task of a draft, with the files that belong to it."""
    for name, content in draft.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return open_task(recipe(draft.recipe()), folder)


def test_pictures_in_folders_of_classes(here):
    draft = look([str(pictures(here / "pets"))])
    assert draft.understood[0].endswith("pets has 24 pictures of 2 classes, one folder for each: cat (12), dog (12).")
    assert (draft.data["size"], draft.model["block"]["attention"]["position"]) == ([16, 16], "learned-nd")
    task = opened(draft)
    counts = {part: sum(task.class_counts(part).values()) for part in task.parts}
    assert counts == {"train": 18, "validation": 2, "test": 4}


def test_copies_of_a_picture_are_in_one_part(here):
    folder = pictures(here / "pets", each=30)
    for i in range(0, 30, 3):  # as frames of a video: a brighter copy
        pixels = np.asarray(Image.open(folder / "cat" / f"{i:03}.png")).astype(np.int16)
        Image.fromarray(np.clip(pixels + 1, 0, 255).astype(np.uint8)).save(folder / "cat" / f"copy{i:03}.png")
    draft = look([str(folder)])
    assert any("20 pictures are nearly copies of another" in warning for warning in draft.warnings), draft.warnings
    part_of = {
        line.split(",")[0]: name for name, content in draft.files.items() for line in content.splitlines()[1:]
    }  # fmt: skip
    copies = [file for file in part_of if "copy" in file]
    assert len(copies) == 10
    assert all(part_of[file] == part_of[file.replace("copy", "")] for file in copies)
    assert set(part_of.values()) == set(draft.files)
    opened(draft)


def test_folders_of_parts_are_kept(here):
    for part in ("train", "val", "test"):
        pictures(here / "pets" / part, each=6, seed=len(part))
    draft = look([str(here / "pets")])
    assert "The folders train, val, test are the parts, and are kept." in draft.understood
    assert sorted(opened(draft).parts) == ["test", "train", "validation"]


def test_few_pictures_of_a_class_are_named(here):
    pictures(here / "pets")
    pictures(here / "more", each=5, names=("eel",))
    (here / "more" / "eel").rename(here / "pets" / "eel")
    assert any("Fewer than 10 examples: eel (5)" in warning for warning in look([str(here / "pets")]).warnings)


def test_idx_files_in_either_order():
    files = [str(SAMPLES / f"fashion-{name}.gz") for name in ("images", "labels")]
    one, other = look(files), look(files[::-1])
    assert one.data == other.data
    assert one.data["train"] == files
    opened(one)


def test_sounds_without_enough_speakers_or_takes_have_no_test_part():
    draft = look([str(SAMPLES / "fsdd")])
    assert draft.data["pattern"] == "{label}_{speaker}_{index}"
    assert any("no test part" in warning for warning in draft.warnings)
    assert list(opened(draft).parts) == ["train", "validation"]


@pytest.mark.parametrize(("speakers", "takes", "field"), [(5, 2, "speaker"), (2, 12, "index"), (1, 12, "index")])
def test_sounds_are_split_by_speaker_or_by_take(here, speakers, takes, field):
    (here / "said").mkdir()
    chance = np.random.default_rng(1)
    for label in ("no", "yes"):
        for speaker in ("ann", "bob", "cy", "dee", "eve")[:speakers]:
            for take in range(takes):
                with wave.open(str(here / "said" / f"{label}_{speaker}_{take}.wav"), "wb") as file:
                    file.setparams((1, 2, 8000, 0, "NONE", ""))
                    file.writeframes(chance.integers(-9000, 9000, 1600, dtype=np.int16).tobytes())
    draft = look(["said"])
    kept = {part: {r.name_fields[field] for r in rs} for part, rs in opened(draft).recordings.parts.items()}
    assert set(draft.data["where"]["test"]) == {field}
    assert not kept["train"] & kept["test"]
    assert not kept["train"] & kept["validation"]
    assert not kept["validation"] & kept["test"]


def test_parallel_texts_have_a_source_in_one_part_only(here):
    lines = [f"word {i % 90} of many" for i in range(120)]
    (here / "a.en").write_text("\n".join(lines) + "\n")
    (here / "a.de").write_text("\n".join(f"Wort {i} von vielen" for i in range(120)) + "\n")
    draft = look(["a.en", "a.de"])
    sources = {name: {line.split("\t")[0] for line in content.splitlines()[1:]} for name, content in draft.files.items()}
    assert sum(map(len, sources.values())) == 90
    assert any("30 sources have several targets" in warning for warning in draft.warnings)
    opened(draft)
    (here / "a.de").write_text("one\n")
    with pytest.raises(InputError, match=r"a\.en has 120 lines, but a\.de has 1"):
        look(["a.en", "a.de"])


def test_a_dictionary_is_pairs(here):
    rows = [f"w{chr(97 + i % 26)}{chr(97 + i // 26)} W {i % 26} AH0  # note" for i in range(100)]
    (here / "said.dict").write_text("\n".join([*rows, "waa(2) W AH1"]))
    draft = look(["said.dict"])
    assert "waa\tW AH1" in "".join(draft.files.values())
    assert "#" not in "".join(draft.files.values())
    assert draft.data["vocabulary"] == 400


def test_a_table_of_two_texts_is_pairs_whatever_its_separator(here):
    rows = "".join(f'{i};"How old is {i}? Say; now";it is {i} years old\n' for i in range(80))
    (here / "asked.csv").write_text("id;question;answer\n" + rows)
    draft = look(["asked.csv"])
    assert draft.understood[0].startswith("The columns question and answer of asked.csv are pairs: 80 pairs")
    opened(draft)


def test_plain_text(here):
    draft = look([str(SAMPLES / "tinyshakespeare.txt")])
    assert (draft.data["tokens"], draft.model["block"]["attention"]["causal"]) == ("characters", True)
    opened(draft)


def test_molecules_with_their_names_and_unit():
    draft = look([str(SAMPLES / "ethanol.npz")])
    assert (draft.data["keys"]["energy"], draft.data["unit"]) == ("energies", "kcal/mol")
    assert any("one composition" in warning for warning in draft.warnings)
    opened(draft)


def test_lone_atoms_are_references(here):
    frame = "2\nProperties=species:S:1:pos:R:3 REF_energy={:.3f}\nH 0 0 0\nH 0 0 {:.3f}\n"
    atom = "1\nProperties=species:S:1:pos:R:3 REF_energy=-13.6 config_type=IsolatedAtom\nH 0 0 0\n"
    (here / "h2.xyz").write_text(atom + "".join(frame.format(-31.0 - i / 100, 0.7 + i / 100) for i in range(40)))
    draft = look(["h2.xyz"])
    assert draft.data["keys"] == {"energy": "REF_energy", "forces": "none"}
    assert "Isolated atoms: 1 frame. They are the reference energies, not examples." in draft.understood
    opened(draft)


def test_a_table_of_texts_and_classes_among_other_columns(here):
    rows = "".join(f"{i % 7 / 10},{('good', 'bad')[i % 2]},a text with number {i} in it\n" for i in range(60))
    (here / "said.csv").write_text("confidence,sentiment,words\n" + rows)
    draft = look(["said.csv"])
    assert (draft.data["field"], draft.data["label"]) == ("words", "sentiment")
    assert "Always to say 'bad' would be right in 50%." in draft.understood
    assert sorted(opened(draft).parts) == ["test", "train", "validation"]


def test_a_table_of_texts_and_numbers(here):
    (here / "said.tsv").write_text("text\tprice\n" + "".join(f"a text of number {i}\t{i * 0.37}\n" for i in range(60)))
    draft = look(["said.tsv"])
    assert (draft.data["numbers"], draft.data["task"]) == (["price"], "texts")
    opened(draft)


def test_texts_in_folders_of_classes(here):
    for name in ("good", "bad"):
        (here / "reviews" / name).mkdir(parents=True)
        for i in range(15):
            (here / "reviews" / name / f"{i}.txt").write_text(f"{name} is what this number {i} is, I say")
    draft = look(["reviews"])
    assert draft.understood[0] == "reviews has 30 texts of 2 classes, one folder for each: bad (15), good (15)."
    opened(draft)
    with pytest.raises(InputError, match="--start is for texts with a class"):
        look([str(SAMPLES / "tinyshakespeare.txt")], "somewhere")


def test_what_is_not_known_is_refused(here):
    (here / "a.pdf").write_text("x")
    (here / "empty").mkdir()
    (here / "few.csv").write_text("a,b\n1,2\n")
    (here / "not.csv").write_text('a,b\n"open,1\n')
    (here / "not.jsonl").write_text('{"a": 1}\n[2]\n')
    (here / "bad.jsonl").write_text('{"a": 1}\n{"a"\n')
    (here / "bad.npz").write_text("PK nothing")
    (here / "nothing.csv").write_text("")
    pictures(here / "pets", each=2)
    for names, sentence in (
        (["nowhere"], "There is no nowhere"), (["a.pdf"], "has no file that is read here"), (["empty"], "has no file"),
        (["not.csv"], "a quotation mark is opened"), (["not.jsonl"], "line 2 is no table of names and values"),
        (["bad.jsonl"], "line 2"), (["bad.npz"], "bad.npz cannot be read"), (["nothing.csv"], "nothing.csv is empty"),
        (["few.csv"], "of which none is a text"), (["pets"], "too few for three parts"),
        (["a.pdf", "few.csv", "pets"], "3 files are no data set that is known"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=sentence):
            look(names)


def test_a_budget_is_one_of_minutes():
    draft = RecipeDraft("x", {}, {}, examples=1000, epochs=100, batch=10, understood=[])
    assert fit_budget(draft, StepTime(0.1, 1.0, 5, []), 60) == "about 17 minutes here, 100 epochs (100 ms a step)"
    assert "30,000" not in fit_budget(draft, StepTime(0.1, 1.0, 5, []), 5)
    assert (draft.steps, draft.recipe()["budget"]["minutes"]) == (2890, 5)
    with pytest.raises(InputError, match="A step takes 60 s here, so 5 minutes are 4 steps"):
        fit_budget(draft, StepTime(60, 1.0, 5, []), 5)


def test_the_printed_commands_work_as_they_stand(equi, here):  # noqa: F811
    pictures(here / "pets")
    code, out, _ = equi("new", "pets", "--explain")
    assert (code, list(here.glob("*.toml"))) == (0, [])
    assert "pets has 24 pictures" in out
    code, out, _ = equi("new", "pets", "--minutes", 0.2, "--json")
    facts = json.loads(out)
    assert (code, facts["recipe"]) == (0, "pets.toml")
    budget = read_recipe(Path("pets.toml")).budget
    assert (budget.steps, budget.minutes) == (facts["steps"], 0.2)
    refused(equi("new", "pets"), "pets.toml is there already", "--force")
    train, evaluate, predict = (command.split()[1:] for command in facts["commands"])
    assert equi(*train, "--set", "budget.steps=3", "--set", "warmup=1", "--out", "runs/pets")[0] == 0
    assert "accuracy" in equi(*evaluate)[1]
    assert equi(*predict)[1].startswith("pets/dog/")


def test_a_recipe_is_commented(here):
    draft = look([str(pictures(here / "pets"))])
    text = toml(draft, "about 4 minutes here")
    assert f"steps = {draft.steps}  # about 4 minutes here" in text
    assert text.startswith(f"# {draft.understood[0]}")
    Path("x.toml").write_text(text)
    assert read_recipe(Path("x.toml")).to_dict() == recipe(draft.recipe()).to_dict()


def test_a_run_warns_of_few_examples_and_of_a_small_validation_part(here):
    pictures(here / "pets")
    task = opened(look(["pets"]))
    few, interval = size_warnings(task)
    assert few == "2 of 2 classes have fewer than 10 training examples: cat (9), dog (9)."
    assert interval.startswith("The validation part has 2 examples, so an accuracy near 50 % is known to ±69%")
    many = opened(look([str(pictures(here / "many", each=600, size=(4, 4)))]))
    assert sum(many.class_counts("validation").values()) == 120
    assert len(size_warnings(many)) == 1  # 120 examples: ±9 %
