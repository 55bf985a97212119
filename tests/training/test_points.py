"""Numbers and classes of points in space: from values of frames or a table, to a run whose answers no rotation changes."""

import csv
import shutil
from pathlib import Path

import pytest
import torch

from equiscope.data.point_sets import PointSets, read
from equiscope.data.random_rotation import random_rotation
from equiscope.errors import InputError
from equiscope.models import build
from equiscope.training import evaluate, load_run, open_task, predict, recipe, resolve_spec, train
from equiscope.training.draft import look
from equiscope.training.reading import merged

SYMBOLS = ("H", "C", "O")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sets(count=60):
    """Elements, positions, and the largest distance of two atoms."""
    draw = torch.Generator().manual_seed(0)
    for _ in range(count):
        many = int(torch.randint(3, 7, (), generator=draw))
        at = torch.randn(many, 3, generator=draw)
        elements = [SYMBOLS[i] for i in torch.randint(0, 3, (many,), generator=draw).tolist()]
        yield elements, at, float(torch.cdist(at, at).max())


def frames(path, some=None):
    text = ""
    for elements, at, widest in sets() if some is None else some:
        kind = "wide" if widest > 3 else "narrow"
        text += f"{len(elements)}\nwidest={widest:.4f} half={widest / 2:.4f} kind={kind}\n"
        text += "".join(f"{e} {x:.6f} {y:.6f} {z:.6f}\n" for e, (x, y, z) in zip(elements, at.tolist(), strict=True))
    path.write_text(text, encoding="utf-8")
    return path


def plain(path, **changes):
    return merged(
        {
            "title": "points", "seed": 1,
            "data": {"task": "points", "train": str(path), "numbers": ["widest"], "test_held_out": 0.2},
            "model": {"width": 16, "vectors": 8, "heads": 2, "layers": 1}, "budget": {"steps": 60, "batch": 16},
            "optimiser": {"rate": 1e-2, "warmup": 5}, "evaluation": {"every": 30},
        },
        changes,
    )  # fmt: skip


def test_a_number_of_molecules_from_frames_to_an_interval(here):
    run = train(plain(frames(here / "t.xyz")), here / "run")
    assert list(run.result["test"]) == ["mae", "rmse", "r2", "sets"]
    found = evaluate(here / "run")["test"]
    assert found["mae"].low < found["mae"].value < found.simple["mean"]["mae"]
    assert set(found.simple) == {"mean", "linear"}
    assert evaluate(here / "run", here / "t.xyz")["data"]["sets"].value == 60
    moved = [(e, at @ random_rotation(0, "t", i).float().mT + 3, w) for i, (e, at, w) in enumerate(sets())]
    (frames(here / "moved.xyz", moved),)
    first, second = (predict(here / "run", [name]) for name in ("t.xyz", "moved.xyz"))
    for one, other in zip(first, second, strict=True):
        assert one.more["widest"] == pytest.approx(other.more["widest"], abs=1e-3)  # float32


def test_classes_labels_and_several_numbers_of_points(here):
    path = frames(here / "t.xyz")
    task = open_task(recipe(plain(path, data={"numbers": [], "label": "kind"})))
    assert (task.classes, task.better) == (["narrow", "wide"], "more")
    assert resolve_spec(task).classes == 2
    task = open_task(recipe(plain(path, data={"numbers": ["widest", "half"]})))
    outputs = build(resolve_spec(task))(*(task.batch(0).tensors[name] for name in ("numbers", "positions")))
    assert outputs.shape == (16, 2)


def test_a_table_names_files_of_molecules_or_of_meshes(here):
    rows = []
    for i, one in enumerate(sets(30)):
        frames(here / f"{i:02}.xyz", [one])
        corners = "".join(f"v {x:.4f} {y:.4f} {z:.4f}\n" for x, y, z in one[1].tolist())
        (here / f"{i:02}.obj").write_text(f"{corners}f 1 2 3\n", encoding="utf-8")
        rows.append((f"{i:02}.xyz", f"{i:02}.obj", one[2]))
    with (here / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("atoms", "mesh", "widest"), *rows])
    for field, elements in (("atoms", ("H", "C", "O")), ("mesh", ("point",))):
        task = open_task(recipe(plain(here / "t.csv", data={"field": field})))
        assert resolve_spec(task).elements == elements
        assert torch.isfinite(task.loss(build(resolve_spec(task)), task.batch(0)))
    assert len(read("t.csv", PointSets(train="", field="atoms"), labelled=False)[0]) == 30
    beside = read("t.csv", config := PointSets(train="", field="atoms", numbers=("widest",)))[0]
    shutil.make_archive(str(here / "packed"), "zip", here)
    inside, files = read("packed.zip", config)
    assert files == [Path("packed.zip")]
    assert [one.target for one in inside] == [one.target for one in beside]
    assert all(torch.equal(one.positions, other.positions) for one, other in zip(inside, beside, strict=True))
    assert inside[0].name == "packed.zip: t.csv, line 2: 00.xyz"


def test_faults_come_all_at_once(here):
    frames(here / "t.xyz", list(sets(3)))
    text = (here / "t.xyz").read_text(encoding="utf-8").splitlines()
    heads = [i for i, line in enumerate(text) if "widest" in line]
    text[heads[0]] = "widest=far"
    text[heads[2]] = "half=1"
    (here / "t.xyz").write_text("\n".join(text) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read("t.xyz", PointSets(train="", numbers=("widest",)))
    assert "t.xyz, frame 0: widest is 'far', and no number." in str(caught.value)
    assert "t.xyz, frame 2 has no 'widest'" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {"block": {"attention": {"heads": 2}}, "width": 8}}, "points take a model of points in space"),
        ({"model": {"readout": "energy"}}, "model.readout is 'energy', but the data needs 'class'"),
        ({"data": {"test": "t.xyz"}}, "both say what the test part is"),
    ],
)
def test_what_does_not_fit_is_refused(here, changes, said):
    frames(here / "t.xyz")
    with pytest.raises(InputError) as caught:
        resolve_spec(open_task(recipe(plain("t.xyz", **changes))))
    assert said in str(caught.value)


def test_an_element_that_training_does_not_have_is_named(here):
    train(plain(frames(here / "t.xyz"), budget={"steps": 2}, optimiser={"warmup": 1}), here / "run")
    (here / "n.xyz").write_text("2\n\nN 0 0 0\nH 0 0 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"n\.xyz: This model knows H, C, O, but there is an atom of N"):
        predict(here / "run", ["n.xyz"])
    assert load_run(here / "run").spec.readout == "class"


def test_new_understands_frames_with_other_values_than_an_energy(here):
    draft = look([str(frames(here / "t.xyz"))])
    assert (draft.data["task"], draft.data["numbers"]) == ("points", ["widest", "half"])
    assert "t.xyz has 60 sets of points, and for each 2 numbers: widest" in draft.understood[0]
    assert "Not used: kind." in draft.understood[-1]
    resolve_spec(open_task(recipe(draft.recipe())))
