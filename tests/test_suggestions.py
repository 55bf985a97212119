"""A wrong name is answered with the right one, wherever a name of a known set is requested: one function, `errors.suggestion`."""

import re
import sys

import pytest
import torch

import equiscope as eq
from equiscope.cli import main
from equiscope.data.catalogue import dataset_named
from equiscope.errors import OTHER_LIBRARIES, EquiscopeError, UnknownName, did_you_mean, suggestion, wrong_choice
from equiscope.study.claims import claim_named
from equiscope.symmetry.representations import family
from equiscope.training.reading import read_recipe
from equiscope.units import electronvolts

pytestmark = [pytest.mark.quick, pytest.mark.usefixtures("unchecked")]

SIMILAR = [
    ("rop", ["alibi", "rope"], "rope"),
    ("RoPE", ["alibi", "rope"], "rope"),
    ("transformerxl", ["rope", "transformer-xl"], "transformer-xl"),
    ("sin", ["swin", "sinusoidal"], "sinusoidal"),  # a beginning is nearer than a name of the same length
    ("padding", ["packing", "left-padding"], "left-padding"),
    ("causal_mask", ["causal", "cache"], "causal"),
    ("kv-cache", ["causal", "cache"], "cache"),
    ("permutation", ["shift", "permute", "permute-like"], "permute"),
    ("d_model", ["width", "layers"], "width"),
    ("num_attention_heads", ["heads", "kv_heads"], "heads"),
]


@pytest.mark.parametrize(("name", "known", "nearest"), SIMILAR, ids=[name for name, _, _ in SIMILAR])
def test_the_most_similar_name_is_suggested(name, known, nearest):
    assert did_you_mean(name, known) == f"Did you mean {nearest}?"


@pytest.mark.parametrize("name", ["zzz", "", "a", 7, None, "\ud800", "x" * 10**6], ids=lambda name: str(name)[:3] or "empty")
def test_nothing_is_suggested_where_nothing_is_similar(name):
    assert did_you_mean(name, ["rope", "alibi"]) == ""
    assert suggestion(name, ["rope", "alibi"]) == "Known: rope, alibi."
    assert suggestion(name, []) == ""


def test_of_a_long_list_only_the_nearest_names_are_in_the_message():
    names = [f"layer.{i}.weight" for i in range(200)]
    assert str(UnknownName("value", "layer.7.wieght", names, "See names.")).count("layer") == 4
    assert "Known" not in suggestion("unlike", names)


def test_a_choice_names_its_values_and_the_most_similar_one():
    error = wrong_choice("Rope.pairs", "haf", ["interleaved", "half", None])
    assert str(error) == 'Rope.pairs cannot be \'haf\': it should be "interleaved", "half" or None. Did you mean half?'


def test_the_names_of_other_libraries_stand_for_fields_and_names_that_exist():
    specs = (eq.Spec, eq.Block, eq.Attention, eq.FeedForward)
    known = {name for spec in specs for name in spec.__dataclass_fields__} | {scheme.name for scheme in eq.positions.SCHEMES}
    known |= {action.name for action in eq.symmetry.ACTIONS} | {"rate", "steps", "length"}
    assert set(OTHER_LIBRARIES.values()) <= known
    assert not known & set(OTHER_LIBRARIES)


COMMANDS = [
    (("chekc",), "check"),
    (("check", "gpt2", "--propertys", "causal"), "--property"),
    (("explore", "--page", "mask"), "masks"),
    (("explore", "--position", "rop"), "rope"),
    (("table", "rop"), "rope"),
    (("describe", "gtp2"), "gpt2"),
    (("check", "gtp2"), "gpt2"),
    (("check", "gpt2", "--action", "permutation"), "permute"),
    (("check", "gpt2", "--property", "causality"), "causal"),
    (("check", "gpt2", "--output", "vectr"), "vector"),
    (("check", "gpt2", "--effort", "quik"), "quick"),
    (("check", "collections:OrderedDct"), "OrderedDict"),
    (("study", "scalling"), "scaling"),
    (("study", "claims", "rope-is-relativ"), "rope-is-relative"),
    (("data", "fsd"), "fsdd"),
    (("compare", "r.toml", "--vary", "positon=none,rope"), "position"),
    (("compare", "r.toml", "--vary", "position=none,rope", "--equal", "parameter"), "parameters"),
]


@pytest.mark.parametrize(("words", "nearest"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_the_command_line_suggests_a_name(words, nearest, recipe_with, monkeypatch, capsys):
    monkeypatch.chdir(recipe_with().parent)
    monkeypatch.setattr(sys, "argv", ["equiscope", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    message = " ".join(capsys.readouterr().err.split())
    assert ended.value.code == 2
    assert re.search(rf"(Did you mean|Possible options:) '?{nearest}\b", message), message  # options are checked by typer


RECIPE = """title = "A test"
[data]
task = "language"
train = "words.txt"
context = 8
[model]
width = 8
[model.block.attention]
position = "rope"
[model.block.feedforward]
activation = "gelu"
[budget]
steps = 20
batch = 4
[optimiser]
rate = 1e-3
warmup = 5
"""


@pytest.fixture
def recipe_with(tmp_path):
    """Write the recipe with one text replaced by another, and return its path."""

    def write(old="", new=""):
        path = tmp_path / "r.toml"
        path.write_text(RECIPE.replace(old, new, 1) if old else RECIPE)
        return path

    return write


FILES = [
    ("steps", "stepz", "steps"),
    ("[budget]", "[bugdet]", "budget"),
    ('"language"', '"langauge"', "language"),
    ("width = 8", "width = 8\nd_model = 8", "width"),
    ("width = 8", 'preset = "gtp2"', "gpt2"),
    ("width = 8", 'baseline = "lstmm"', "lstm"),
    ('"rope"', '"rop"', "rope"),
    ('"rope"', '{ scheme = "rope", bass = 3 }', "base"),
    ('"gelu"', '"gelo"', "gelu"),
    ('position = "rope"', 'mask = "casual"', "causal"),
    ('position = "rope"', 'score = "dott"', "dot"),
    ('position = "rope"', 'kind = "linfomer"', "linformer"),
    ("rate = 1e-3", 'rate = 1e-3\nkind = "admw"', "adamw"),
]


@pytest.mark.parametrize(("old", "new", "nearest"), FILES, ids=[new for _, new, _ in FILES])
def test_a_recipe_suggests_a_name(old, new, nearest, recipe_with):
    with pytest.raises(EquiscopeError, match=rf"Did you mean {nearest}\?"):
        read_recipe(recipe_with(old, new))


def model():
    return eq.build({"width": 8, "vocabulary": 5, "block": {"attention": {"heads": 2}}})


IDS = torch.tensor([[1, 2, 3]])
PYTHON = {
    "eq": (lambda: eq.chekc, "check"),
    "check": (lambda: eq.check(model(), IDS, properties="causality"), "causal"),
    "check actions": (lambda: eq.check(model(), IDS, actions=["shift", "permutation"]), "permute"),
    "check output": (lambda: eq.check(model(), IDS, output="vectr"), "vector"),
    "check mode": (lambda: eq.check(model(), IDS, mode="training"), "train"),
    "audit": (lambda: eq.check(model(), IDS, properties="causal", effort="quick")["causality"], "causal"),
    "program": (lambda: eq.watch(model(), IDS).id("input"), "input.0"),
    "preset": (lambda: eq.build("gtp2"), "gpt2"),
    "Spec": (lambda: eq.Spec(d_model=8), "width"),
    "Attention": (lambda: eq.Attention(num_heads=8), "heads"),
    "position": (lambda: eq.Attention(position="rop"), "rope"),
    "backend": (lambda: eq.Attention(backend="flexx"), "flex"),
    "spec": (lambda: eq.Spec.of({"width": 8, "block": {"attention": {"headz": 2}}}), "heads"),
    "readout": (lambda: eq.Spec(8, readout="meen"), "mean"),
    "Rope": (lambda: eq.positions.Rope(pairs="haf"), "half"),
    "AxialRope": (lambda: eq.positions.AxialRope(speeds="dealed"), "dealt"),
    "Alibi": (lambda: eq.positions.Alibi(kind="asymetric"), "asymmetric"),
    "Beams": (lambda: eq.models.Beams(2, early_stopping="nevr"), "never"),
    "claim": (lambda: claim_named("rope-is-relativ"), "rope-is-relative"),
    "representation": (lambda: family("vectr"), "vector"),
    "unit": (lambda: electronvolts("Hartre"), "hartree"),
    "data set": (lambda: dataset_named("fsd"), "fsdd"),
}


@pytest.mark.parametrize("door", PYTHON)
def test_a_call_suggests_a_name(door):
    call, nearest = PYTHON[door]
    with pytest.raises((EquiscopeError, AttributeError, KeyError), match=rf"Did you mean {re.escape(nearest)}( or .*)?\?"):
        call()
