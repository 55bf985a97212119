"""Trained models that come along: they load, answer as their cards record, and stay within their size."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

import equiscope as eq
from equiscope import trained
from equiscope.data.catalogue import catalogue
from equiscope.errors import InputError
from equiscope.explore.space.solvers import is_ethanol
from equiscope.record import read_run
from equiscope.tokens import Tokenizer
from equiscope.tokens.points import read_frames
from tests.cli.test_cli import equi, refused

__all__ = ["equi"]  # the fixture
RECIPES = Path(__file__).parents[1] / "recipes" / "trained"
LARGEST = 3_000_000  # bytes of weights
NEAR = 1e-4  # of a probability in float32; another processor rounds differently, measured below 1e-6


def card(name):
    return json.loads((trained.HOME / name / trained.MEASURED).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script():
    """recipes/trained/card.py, which the source archive does not have."""
    if not RECIPES.exists():
        pytest.skip("recipes/ is not in the source archive")
    spec = importlib.util.spec_from_file_location("card", RECIPES / "card.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", trained.NAMES)
def test_a_name_loads_a_model_whose_weights_are_small_and_whose_data_may_be_shared(name, script):
    folder = trained.path_of(name)
    model = eq.load(name)
    assert not model.training
    (weights,) = folder.rglob("model.safetensors")
    assert weights.stat().st_size == card(name)["bytes"] <= LARGEST
    assert sum(p.numel() for p in model.parameters()) == read_run(folder).parameters
    assert catalogue()[script.DATA[name]].share
    assert (folder / "DATA_LICENSE").stat().st_size > 0


def test_every_model_here_has_a_recipe_and_every_recipe_a_model(script):
    assert sorted(path.stem for path in script.HERE.glob("*.toml")) == sorted(script.MEASURES) == sorted(trained.NAMES)
    assert sorted(path.parent.name for path in trained.HOME.glob(f"*/{trained.MEASURED}")) == sorted(trained.NAMES)


def test_cards_and_table_are_those_of_the_records(script):
    assert script.main(["--check"]) == 0


@pytest.mark.parametrize("name", trained.NAMES)
def test_no_file_names_a_path_of_a_machine(name):
    for path in trained.path_of(name).rglob("*"):
        if path.is_file() and path.suffix not in (".safetensors", ".png"):
            text = path.read_text(encoding="utf-8")
            assert not any(word in text for word in ("/home/", "/work/", "/tmp/")), path
    assert read_run(trained.path_of(name)).recipe_folder == "."


@torch.no_grad()
def test_characters_predicts_and_continues_as_its_card_records():
    recorded, text = card("characters")["predictions"], Tokenizer.read(trained.path_of("characters"))
    model = eq.load("characters")
    chances = model(torch.tensor([text.encode(recorded["text"])]))[0, -1].double().softmax(-1)
    assert chances[recorded["next"]].tolist() == pytest.approx(recorded["probabilities"], abs=NEAR)
    ids = eq.generate(model, torch.tensor(text.encode(recorded["prompt"])), 20)[0]
    assert text.decode(ids.tolist()) == recorded["greedy"][:20]


def test_characters_reads_any_text(equi):
    code, out, err = equi("generate", "characters", "Ünïcode 日本 🙂", "--steps", 3, "--json")
    assert code == 0, err
    assert len(json.loads(out)["new_ids"]) == 3


def test_clothes_classifies_its_examples_as_its_card_records():
    for path in trained.examples("clothes"):
        (prediction,) = eq.predict("clothes", [str(path)], top=10)
        recorded = card("clothes")["predictions"][path.name]
        classes = json.loads((trained.path_of("clothes") / "answer.json").read_text(encoding="utf-8"))["answer"]["classes"]
        assert [prediction.more[c] for c in classes] == pytest.approx(recorded["probabilities"], abs=NEAR)


def test_ethanol_answers_its_example_as_its_card_records():
    recorded, (example,) = card("ethanol")["predictions"], trained.examples("ethanol")
    (points,) = read_frames(example)
    answer = eq.load("ethanol").double().energy_and_forces(points.numbers[None], points.positions[None])
    assert float(answer.energy[0]) == pytest.approx(recorded["energy"], abs=1e-6)  # eV, of a total energy; float64
    assert torch.allclose(answer.forces[0], torch.tensor(recorded["forces"], dtype=torch.float64), atol=1e-6)


def test_ethanol_is_smooth_at_a_symmetric_arrangement():
    model = eq.load("ethanol").double()
    corners = [[0, 0, 0], [1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    methane, way = 0.63 * torch.tensor(corners, dtype=torch.float64), torch.zeros(5, 3, dtype=torch.float64)
    way[1] = torch.tensor([0.3, 0.5, -0.8])
    at = torch.stack([methane + by * way for by in (0.0, 1e-6, 1e-4, 1e-2)])
    answer = model.energy_and_forces(torch.tensor([[6, 1, 1, 1, 1]]).expand(4, -1), at)
    assert float((answer.energy - answer.energy[0]).abs().max()) < 1e-3  # eV; it was 0.4 where norms lifted small vectors
    each = answer.forces[:, 0].norm(dim=-1)
    assert each[0] < 1e-9
    assert each[1:] / each[3] == pytest.approx(torch.tensor([1e-4, 1e-2, 1.0], dtype=torch.float64), rel=1e-2)


def test_ethanol_has_the_symmetry_of_symmetric_points():
    (points,) = read_frames(trained.examples("ethanol")[0])
    audit = eq.check(
        eq.load("ethanol"),
        points.numbers[None],
        points.positions[None].float(),
        actions=[],
        properties=["stabiliser"],
        effort="quick",
    )
    assert {row.name: row.verdict for row in audit.rows}["stabiliser"] == "holds"


# ------------------------------------------------------------------------------------------------------------------- names


def test_an_unknown_name_is_refused_with_the_nearest_one(equi, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"There is no trained model called 'charakters'\. Did you mean characters\?"):
        eq.load("charakters")
    for words in (("generate", "charakters", "To be"), ("predict", "charakters", "To be"), ("evaluate", "charakters")):
        refused(equi(*words), "There is no trained model called 'charakters'. Did you mean characters?")
    refused(equi("check", "charakters"), "There is no model 'charakters'. Did you mean characters?")


def test_a_folder_of_ones_own_with_such_a_name_is_not_mistaken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "characters").mkdir()
    assert eq.load("characters") is not None, "a folder without a model"
    (tmp_path / "characters" / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"also a model's folder here\. Give \./characters for the folder"):
        eq.load("characters")
    with pytest.raises(InputError, match="names no model_type"):
        eq.load("./characters")


def test_saving_never_writes_into_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = eq.build(eq.models.tiny(eq.models.PRESETS["gpt2"]()))
    assert eq.save(model, "characters").resolve() == tmp_path / "characters"


def test_describe_lists_and_describes_them(equi):
    out = equi("describe")[1]
    assert all(any(line.startswith(name) and "card.md" in line for line in out.splitlines()) for name in trained.NAMES)
    for name in trained.NAMES:
        assert "parameters" in equi("describe", name)[1]


# ------------------------------------------------------------------------------------------------------------------- pages


@pytest.mark.parametrize("name", [name for name in trained.NAMES if name != "ethanol"])
def test_without_an_input_a_page_shows_an_example(equi, name):
    code, out, err = equi("explore", "--model", name, "--json")
    assert code == 0, err
    page = json.loads(out)
    assert page["predictions"]
    assert page["notes"] == [card(name)["summary"]]


def test_an_image_without_a_model_opens_clothes_and_a_photograph_is_said_to_be_none(equi, tmp_path):
    from PIL import Image

    Image.new("RGB", (64, 48), "green").save(tmp_path / "photo.png")
    for path, warned in ((tmp_path / "photo.png", True), (trained.examples("clothes")[0], False)):
        code, out, err = equi("explore", "--image", path, "--json")
        assert code == 0, err
        page = json.loads(out)
        assert (page["target"], page["notes"]) == ("clothes", [card("clothes")["summary"]])
        assert ("equiscope explore --image FILE --model FOLDER" in page["summary"]) == warned


def test_the_page_of_ethanol_is_trained_and_that_of_its_isomer_is_not(tmp_path, equi):
    (example,) = trained.examples("ethanol")
    code, out, err = equi("explore", example, "--json")
    assert code == 0, err
    page = json.loads(out)
    assert [(one["trained"], one["unit"]) for one in page["solvers"]] == [(True, "eV"), (False, ""), (False, "")]
    assert page["solvers"][0]["start"]["energy"] == pytest.approx(card("ethanol")["predictions"]["energy"], abs=1e-6)
    (points,) = read_frames(example)
    assert is_ethanol(points.numbers, points.positions)
    oxygen = points.numbers == 8
    near = (points.positions - points.positions[oxygen]).norm(dim=-1) < 1.3
    moved = points.positions + 2.0 * (near & (points.numbers == 1))[:, None]
    assert not is_ethanol(points.numbers, moved), "no O-H bond"


def test_without_an_input_the_page_of_ethanol_shows_an_example(equi):
    code, out, err = equi("explore", "--model", "ethanol", "--json")
    assert code == 0, err
    page = json.loads(out)
    assert (page["file"], page["solvers"][0]["title"]) == ("ethanol.xyz", "ethanol (E(3))")


def test_the_torsion_of_ethanol_is_as_the_page_shows_and_warned_of_where_it_is_wrong(tmp_path):
    torsion = pytest.importorskip("benchmarks.torsion")
    record = json.loads(torsion.RESULTS.read_text(encoding="utf-8"))
    assert torsion.table(record["rows"]) in (RECIPES.parents[1] / "docs" / "howto" / "trained.md").read_text(encoding="utf-8")
    for row in record["rows"]:
        found = torsion.predicted(row["degrees"], tmp_path)
        assert found == {name: pytest.approx(row[name], abs=1e-3) for name in found}  # float32 in the layers
    first = record["rows"][0]
    missed = {row["distance"] > 1: [] for row in record["rows"]}
    for row in record["rows"]:
        missed[row["distance"] > 1].append(abs((row["model"] - first["model"]) - (row["reference"] - first["reference"])))
    assert max(missed[False]) < 0.003 < min(missed[True])
