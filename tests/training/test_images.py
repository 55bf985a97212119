"""Images as a task: the data decides the spec, every read-out learns, and a file gets the class that was learned."""

import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from equiscope.errors import InputError
from equiscope.models import Model, build
from equiscope.record import unpack
from equiscope.training import Task, fit, load_run, load_task, open_task, recipe, resolve_spec
from equiscope.training.images import ImagesTask
from equiscope.training.reading import merged
from tests.pairwise import each_value

SAMPLES = Path(__file__).parents[2] / "recipes" / "samples"
STRIPES = ("across", "down", "none")


def stripes(count: int = 30, size: int = 8) -> tuple[np.ndarray, list[int]]:
    """Pictures that are striped across, down, or not at all, under noise."""
    draws, labels = np.random.default_rng(0), [i % 3 for i in range(count)]
    images = draws.integers(0, 80, (count, size, size))
    for image, label in zip(images, labels, strict=True):
        image[{0: (slice(None, None, 2), slice(None)), 1: (slice(None), slice(None, None, 2)), 2: (0, 0)}[label]] += 150
    return images.astype(np.uint8), labels


def plain(folder: Path, **changes: Any) -> dict[str, Any]:
    """A recipe as data. changes: tables to merge, e.g. model={"readout": "mean"}."""
    images, labels = stripes()
    (folder / "images").write_bytes(struct.pack(">4I", 0x803, *images.shape) + images.tobytes())
    (folder / "labels").write_bytes(struct.pack(">2I", 0x801, len(labels)) + bytes(labels))
    train = [str(folder / "images"), str(folder / "labels")]
    data = {
        "title": "stripes", "seed": 1,
        "data": {"task": "images", "train": train, "held_out": 6, "test_held_out": 3, "classes": list(STRIPES)},
        "model": {"width": 16, "layers": 1, "input": {"patch": [4, 4]}, "block": {"attention": {"heads": 2}}},
        "budget": {"steps": 4, "batch": 6},
        "optimiser": {"rate": 3e-3},
        "evaluation": {"every": 2, "samples": 2},
    }  # fmt: skip
    return merged(data, changes)


def task(folder: Path, **changes: Any) -> Task:
    return open_task(recipe(plain(folder, **changes)))


def model_of(made: Task) -> Model:
    torch.manual_seed(0)
    return build(resolve_spec(made)).eval()


def refusal(folder: Path, **changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        resolve_spec(task(folder, **changes))
    return str(caught.value)


def test_the_data_decides_features_classes_and_the_size_of_tables(tmp_path):
    for scheme, readout, shape in (
        ("learned-nd", "class", (2, 2)),
        ("learned-nd", "mean", (2, 2)),
        ("swin", "mean", (2, 2)),
        ("swin", "class", (3, 3)),  # the class token stands one place behind the last patch
    ):
        changes = {"readout": readout, "block": {"attention": {"position": scheme}}}
        spec = resolve_spec(task(tmp_path, model=changes))
        assert (spec.input.features, spec.outputs) == (16, 3)
        assert spec.uniform_block.attention.position.shape == shape
        assert build(spec)(torch.rand(2, 1, 8, 8)).shape == (2, 3)


def test_a_preset_takes_the_channels_and_the_grid_of_the_data(tmp_path):
    data = plain(tmp_path)
    data["model"] = {"preset": "vit-ti", "layers": 1, "width": 48, "input": {"patch": [2, 4]}}
    spec = resolve_spec(open_task(recipe(data)))
    assert (spec.input.features, spec.outputs, spec.uniform_block.attention.position.shape) == (8, 3, (4, 2))


def test_a_stem_decides_the_features_of_a_patch(tmp_path):
    spec = resolve_spec(task(tmp_path, model={"input": {"patch": [4, 4], "stem": [1, 6, 12]}}))
    assert (spec.input.features, spec.outputs) == (12, 3)
    assert build(spec)(torch.rand(2, 1, 8, 8)).shape == (2, 3)
    said = refusal(tmp_path, model={"input": {"patch": [4, 4], "stem": [3, 6, 12]}})
    assert said == "model.input.stem begins with 3 channels, but the pictures have 1. Begin with 1."


@each_value(
    pytest.mark.parametrize("position", ["axial-rope", "learned-nd", "swin", "none"]),
    pytest.mark.parametrize("readout", ["class", "mean", "first", "last"]),
)
def test_every_readout_learns(tmp_path, readout, position):
    made = task(tmp_path, model={"readout": readout, "block": {"attention": {"position": position}}})
    model, batch = model_of(made).train(), made.batch(0)
    rule = torch.optim.AdamW(model.parameters(), lr=1e-2)
    lost = []
    for _ in range(12):
        loss = made.loss(model, batch) / batch.terms
        rule.zero_grad()
        loss.backward()
        rule.step()
        lost.append(loss.item())
    assert lost[-1] < 0.7 * lost[0]


def test_readouts_that_answer_no_picture_are_refused(tmp_path):
    for readout in ("each", "concatenation"):
        assert f"model.readout '{readout}' gives no one answer a picture" in refusal(tmp_path, model={"readout": readout})


def test_a_model_that_does_not_fit_the_pictures_is_refused(tmp_path):
    assert "model.input.features is 48, but the pictures have 16" in refusal(tmp_path, model={"input": {"features": 48}})
    assert "model.outputs is 10, but the pictures have 3" in refusal(tmp_path, model={"outputs": 10})
    said = refusal(tmp_path, model={"input": {"patch": [3, 4]}})
    assert "model.input.patch is 3×4, which does not fill pictures of 8×8 pixels" in said
    assert "Pictures are cut into patches" in refusal(tmp_path, model={"input": {"patch": [4]}})
    assert "Pictures are cut into patches" in refusal(tmp_path, model={"vocabulary": 10})
    table = {"block": {"attention": {"position": {"scheme": "learned-nd", "shape": [2, 1]}}}}
    assert "model.block.attention.position.shape is [2, 1], but the patches need [2, 2]" in refusal(tmp_path, model=table)


def test_the_loss_is_the_cross_entropy_of_every_picture(tmp_path):
    made = task(tmp_path, data={"smoothing": 0.1})
    model, batch = model_of(made), made.batch(0)
    each = [model(x[None])[0].log_softmax(-1) for x in batch.tensors["inputs"]]
    wanted = [0.9 * y[w] + 0.1 * y.mean() for y, w in zip(each, batch.tensors["targets"], strict=True)]
    assert made.loss(model, batch).item() == pytest.approx(-sum(wanted).item(), rel=1e-5)
    assert (batch.terms, batch.size, batch.length, batch.read) == (6, 6, 4, 24)


def test_the_loss_of_a_mixture_is_mixed_as_its_pictures_are(tmp_path):
    made = task(tmp_path, data={"augment": {"mixup": 1.0}})
    model, batch = model_of(made), made.batch(0)
    t = batch.tensors
    answers = model(t["inputs"]).log_softmax(-1)
    share = t["part"][:, None] * F.one_hot(t["targets"], 3) + (1 - t["part"][:, None]) * F.one_hot(t["other"], 3)
    assert made.loss(model, batch).item() == pytest.approx(-(share * answers).sum().item(), rel=1e-5)


def test_shares_of_a_step_add_up_to_the_step(tmp_path):
    made = task(tmp_path, data={"augment": {"flip": 0.5, "shift": 1, "cutmix": 1.0}})
    model = model_of(made)
    whole = made.loss(model, made.batch(1))
    parts = [made.loss(model, made.batch(1, share, 2)) for share in (0, 1)]
    assert sum(parts).item() == pytest.approx(whole.item(), rel=1e-5)


def test_evaluation_counts_every_picture_once(tmp_path):
    made = task(tmp_path)
    model = model_of(made)
    assert tuple(made.parts) == ("train", "test", "validation")
    for part, many in (("validation", 6), ("test", 3)):
        pictures, labels = made.pictures.parts[part], made.targets[part]
        answers = model(made.format.normalise(pictures.images))
        found = made.evaluate(model, part)
        assert list(found) == ["accuracy", "f1", "loss", "pictures"]
        assert found["pictures"] == many
        assert found["accuracy"] == pytest.approx(float((answers.argmax(-1) == labels).float().mean()))
        assert found["loss"] == pytest.approx(float(F.cross_entropy(answers.detach(), labels)), rel=1e-5)


def test_a_finished_run_answers_by_all_views_and_says_what_one_alone_would(tmp_path):
    made = task(tmp_path, data={"views": {"flip": True, "shift": 1}})
    model, pictures, labels = model_of(made), made.pictures.parts["validation"], made.targets["validation"]
    looks = [
        torch.roll(F.pad(images, (1, 1, 1, 1)), (down, across), (-2, -1))[..., 1:-1, 1:-1]
        for images in (pictures.images, pictures.images.flip(-1))
        for down in (-1, 0, 1)
        for across in (-1, 0, 1)
    ]
    answers = torch.stack([model(made.format.normalise(one)) for one in looks]).mean(0)
    found, alone = made.final(model, "validation"), made.evaluate(model, "validation")
    assert list(found) == ["accuracy", "f1", "loss", "accuracy (one view)", "pictures"]
    assert found["accuracy"] == pytest.approx(float((answers.argmax(-1) == labels).float().mean()))
    assert found["loss"] == pytest.approx(float(F.cross_entropy(answers.detach(), labels)), rel=1e-5)
    assert found["accuracy (one view)"] == alone["accuracy"]
    assert abs(found["loss"] - alone["loss"]) > 1e-4


def test_a_mirrored_picture_gets_the_answer_of_the_picture_where_both_are_seen(tmp_path):
    for name, mirrored in (("a.png", False), ("b.png", True)):
        pixels = stripes()[0][4]
        Image.fromarray(np.ascontiguousarray(pixels[:, ::-1]) if mirrored else pixels).save(tmp_path / name)
    paths = [str(tmp_path / name) for name in ("a.png", "b.png")]
    model = model_of(task(tmp_path))
    for views, most, least in (({"flip": True, "shift": 1}, 1e-6, 0.0), ({"flip": True}, 1e-6, 0.0), ({}, 1.0, 1e-4)):
        made = task(tmp_path, data={"views": views})
        one, other = made.predict(model, paths)
        assert least <= max(abs(one.more[name] - other.more[name]) for name in STRIPES) <= most


def test_what_was_learned_by_heart_is_answered_from_files_of_any_size_and_colour(tmp_path):
    changes = {
        "budget": {"steps": 60, "batch": 21},
        "optimiser": {"rate": 1e-2},
        "model": {"block": {"attention": {"position": "learned-nd"}}},
    }
    found = recipe(plain(tmp_path, **changes))
    run = fit(found, open_task(found), tmp_path / "run")
    assert run.state == "finished"
    assert run.result["test"]["accuracy"] == 1.0
    _, made = load_task(tmp_path / "run")
    assert made.sources == []
    images, labels = stripes()
    paths = []
    for i in range(6):
        paths.append(str(tmp_path / f"{i}.png"))
        picture = Image.fromarray(images[i])
        (picture.convert("RGB") if i % 2 else picture).resize((24, 24) if i > 3 else (8, 8), Image.Resampling.NEAREST).save(
            paths[-1]
        )
    answers = made.predict(load_run(tmp_path / "run", "last"), paths)
    assert [a.answer for a in answers] == [STRIPES[label] for label in labels[:6]]
    for answer in answers:
        assert list(answer.more.values()) == sorted(answer.more.values(), reverse=True)
        assert sum(answer.more.values()) == pytest.approx(1.0, abs=1e-5)  # all three classes
    assert len(made.predict(load_run(tmp_path / "run"), paths[:1], top=2)[0].more) == 2


def test_what_cannot_be_answered_is_refused(tmp_path):
    made, model = task(tmp_path), model_of(task(tmp_path))
    (tmp_path / "a.png").write_text("no picture")
    for path, said in (("b.png", r"There is no .*b\.png"), ("a.png", "cannot be read as a picture"), ("", "cannot be read")):
        with pytest.raises(InputError, match=said):
            made.predict(model, [str(tmp_path / path)])
    with pytest.raises(InputError, match=r"no option of the task images called .*Known: top"):
        made.predict(model, [], temperature=1.0)
    with pytest.raises(InputError, match="top is the number of classes to return"):
        made.predict(model, [], top=0)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_run_that_goes_on_ends_with_the_very_same_weights(tmp_path, precision):
    changes = {
        "data": {"augment": {"flip": 0.5, "shift": 1, "mixup": 0.2, "cutmix": 1.0}},
        "model": {"dropout": 0.1, "drop_path": 0.2},
        "optimiser": {"average": 0.9},
        "engine": {"precision": precision},
    }
    found, runs = recipe(plain(tmp_path, **changes)), [tmp_path / "whole", tmp_path / "cut"]
    for run in runs:
        fit(found, open_task(found), run)
    shutil.rmtree(runs[1] / "checkpoints" / "step-000000004")  # as after a kill in step 3 or 4
    fit(found, open_task(found), runs[1])
    one, two = ((run / "checkpoints" / "step-000000004" / "model.safetensors").read_bytes() for run in runs)
    assert one == two


def test_a_run_that_lost_how_it_sees_says_so(tmp_path):
    made = task(tmp_path)
    made.save(tmp_path)
    assert ImagesTask.from_run(made.recipe, tmp_path).format == made.format
    (tmp_path / "image_format.json").write_text("{")
    with pytest.raises(InputError, match="which says how this run reads a picture"):
        ImagesTask.from_run(made.recipe, tmp_path)


def test_samples_show_the_picture_and_what_the_class_token_drew_from_it(tmp_path):
    made = task(tmp_path)
    first, second = made.samples(model_of(made), step=4)
    image = made.pictures.parts["validation"].images[0, 0]
    assert np.array_equal(unpack(first.picture), image.numpy())
    assert (first.target, second.prompt) == (made.pictures.parts["validation"].targets[0], "validation picture 4")
    assert (first.tokens, first.source, first.grid) == (["class"], ["0,0", "0,1", "1,0", "1,1"], [2, 2])
    weights = unpack(first.attention)
    assert weights.shape == (1, 2, 1, 4)
    assert (weights.sum(-1) < 1.001).all()  # the rest it drew from itself


@pytest.mark.parametrize(("readout", "row"), [("mean", "1,1"), ("first", "0,0"), ("last", "1,1")])
def test_samples_show_what_the_row_that_is_read_out_drew(tmp_path, readout, row):
    made = task(tmp_path, model={"readout": readout})
    first = made.samples(model_of(made), step=4)[0]
    weights = unpack(first.attention)
    assert (first.tokens, weights.shape) == ([row], (1, 2, 1, 4))
    assert np.allclose(weights.sum(-1), 1, atol=0.003)  # rounded to three decimals


@pytest.mark.parametrize("name", ["fashion-mnist", "fashion-mnist-plain", "cifar10-subset"])
def test_the_small_form_of_a_recipe_needs_only_the_samples(name, monkeypatch, tmp_path):
    from equiscope.training import read_recipe

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EQUISCOPE_DATA", raising=False)
    path = SAMPLES.parent / f"{name}.toml"
    found = open_task(read_recipe(path, small=True), path.parent)
    assert {part: len(p) for part, p in found.pictures.parts.items()} == {"train": 600, "validation": 100, "test": 100}
    assert resolve_spec(found).outputs == 10


def test_the_recipe_for_fashion_mnist_is_a_model_of_at_most_a_million_parameters():
    from equiscope.training import read_recipe

    path = SAMPLES.parent / "fashion-mnist.toml"
    whole = read_recipe(path)
    names = tuple(str(SAMPLES / f"fashion-{n}.gz") for n in ("images", "labels"))
    assert whole.data.test_held_out == 10_000
    smaller = [f'data.train=["{names[0]}", "{names[1]}"]', "data.test_held_out=100", "data.held_out=100"]
    made = open_task(read_recipe(path, smaller), path.parent)
    assert sum(p.numel() for p in build(resolve_spec(made)).parameters()) <= 1_000_000
