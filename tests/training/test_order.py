"""The patches of a picture have positions unless a recipe says none; a model that ignores the order says so in the run."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equiscope.models import build
from equiscope.record import read_run
from equiscope.training import fit, open_task, recipe, resolve_spec
from equiscope.training.reading import merged
from equiscope.training.task import order_warnings

BUDGET = {"steps": 1, "batch": 2}
SAMPLES = Path(__file__).parents[2] / "recipes" / "samples"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for i in range(12):
        (folder / f"class{i % 2}").mkdir(exist_ok=True)
        pixels = np.random.default_rng(i).integers(0, 255, (8, 12), np.uint8)
        Image.fromarray(pixels).save(folder / f"class{i % 2}" / f"{i}.png")
    return folder


def of_pictures(folder, **model):
    return {
        "title": "p", "data": {"task": "images", "train": str(folder), "held_out": 2}, "budget": BUDGET,
        "model": merged({"width": 10, "layers": 2, "input": {"patch": [4, 4]}, "block": {"attention": {"heads": 2}}}, model),
    }  # fmt: skip


def settled(said):
    task = open_task(recipe(said))
    return task, resolve_spec(task)


@pytest.mark.parametrize("readout", ["class", "mean", "first", "last"])
@pytest.mark.parametrize("block", [{}, {"attention": {"heads": 2}}, [{"attention": {"heads": 2}}, {"attention": {"heads": 1}}]])
def test_patches_have_learned_places_unless_the_recipe_says_otherwise(pictures, readout, block):
    said = of_pictures(pictures, readout=readout)
    said["model"]["block"] = block
    if block == {}:
        said["model"].pop("block")
    task, spec = settled(said)
    assert {type(b.attention.position).__name__ for b in spec.blocks} == {"LearnedNd"}
    assert {b.attention.position.shape for b in spec.blocks} == {(2, 3)}
    assert not order_warnings(task, build(spec))


@pytest.mark.parametrize(
    ("position", "readout"), [("none", "class"), ("none", "mean"), ("none", "first"), ({"scheme": "none"}, "last")]
)
def test_a_model_of_pictures_without_places_says_so_in_the_run(pictures, tmp_path, position, readout):
    said = recipe(of_pictures(pictures, readout=readout, block={"attention": {"heads": 2, "position": position}}))
    run = fit(said, open_task(said), tmp_path / "run")
    assert ["learned-nd" in note for note in run.notes if "ignores the order" in note] == [True]
    assert read_run(tmp_path / "run").notes == run.notes


def test_a_scheme_that_is_said_of_one_layer_is_left_alone(pictures):
    said = of_pictures(pictures, width=8)
    said["model"]["block"] = [
        {"attention": {"heads": 1, "position": "none"}},
        {"attention": {"heads": 1, "position": "axial-rope"}},
    ]
    task, spec = settled(said)
    assert [type(b.attention.position).__name__ for b in spec.blocks] == ["NoPosition", "AxialRope"]
    assert not order_warnings(task, build(spec))


def of_others(kind, folder):
    """A recipe of another task, without any position scheme."""
    (folder / "a.en").write_text("a dog\na cat\ntwo dogs\nno cat\n" * 3)
    (folder / "a.de").write_text("ein Hund\neine Katze\nzwei Hunde\nkeine Katze\n" * 3)
    causal = {"attention": {"heads": 2, "causal": True}}
    plain = {"attention": {"heads": 2}}
    small = {"width": 8, "layers": 1}
    both = small | {"encoder": small | {"block": plain}, "block": causal | {"cross": {"heads": 2}}}
    pairs = {"task": "translation", "train": [str(folder / "a.en"), str(folder / "a.de")], "vocabulary": 260, "held_out": 0.3}
    ethanol = {
        "task": "molecules",
        "train": str(SAMPLES / "ethanol.npz"),
        "keys": {"energy": "energies"},
        "unit": "kcal/mol",
        "held_out": 4,
    }
    sounds = {"task": "sounds", "train": str(SAMPLES / "fsdd"), "pattern": "{label}_{speaker}_{index}", "mels": 8}
    return {
        "sounds": (sounds, small | {"block": plain}),
        "sounds, causal": (sounds, small | {"block": causal}),
        "sounds, baseline": (sounds | {"longest": 0.3}, small | {"baseline": "mlp"}),
        "translation": (pairs, both),
        "texts": ({"task": "language", "train": str(folder / "a.en"), "context": 4}, small | {"block": causal}),
        "molecules": (ethanol, small | {"block": plain}),
        "points": (ethanol, small | {"vectors": 4, "heads": 2}),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "who"),
    [
        ("sounds", "The model ignores the order"), ("translation", "The encoder ignores the order"), ("texts", ""),
        ("molecules", ""),
        ("points", ""), ("sounds, causal", ""), ("sounds, baseline", ""),
    ],
)  # fmt: skip
def test_every_task_says_that_a_model_knows_no_order(tmp_path, kind, who):
    """A causal mask lets a model count; places of atoms are numbers of theirs; a baseline reads all in a line."""
    data, model = of_others(kind, tmp_path)
    task = open_task(recipe({"title": kind, "data": data, "model": model, "budget": BUDGET}))
    said = order_warnings(task, build(resolve_spec(task)))
    assert [note[: len(who)] for note in said] == [who] * bool(who)
