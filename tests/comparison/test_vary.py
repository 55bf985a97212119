"""What varies: names of fields, values, every combination, and where they land in a recipe."""

import pytest
from tests.comparison.synthetic_runs import base
from tests.pairwise import few

from equiscope.checkpoints import load
from equiscope.comparison.plan import make_plan
from equiscope.comparison.vary import apply_change, combinations, format_value, parse_vary, slug, values
from equiscope.errors import InputError
from equiscope.models import Spec
from equiscope.record import read_run
from equiscope.training import fit, open_task
from equiscope.training.field_names import names, resolved


def test_short_names_are_the_fields_of_a_recipe():
    for short, whole in {
        "position": "model.block.attention.position", "heads": "model.block.attention.heads", "order": "model.block.norm.order",
        "readout": "model.readout", "residual": "model.block.residual", "feedforward.bias": "model.block.feedforward.bias",
        "stem": "model.input.stem", "steps": "budget.steps", "model.layers": "model.layers", "layers": "model.layers",
        "context": "data.context",
    }.items():  # fmt: skip
        assert resolved(short, "language") == whole
    assert resolved("mels", "sounds") == "data.mels"
    assert resolved("augment.flip", "images") == "data.augment.flip"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("positon", "no field positon that could vary. Did you mean position?"),
        ("bias", "bias could be model.block.attention.bias or model.block.norm.bias or .*Write more of its name"),
        ("seed", "The field seed of a recipe cannot vary. Give --seeds."),
        ("model", "The field model of a recipe cannot vary. Vary one of its fields, such as model.width."),
    ],
)
def test_unknown_and_ambiguous_names_are_refused(name, said):
    with pytest.raises(InputError, match=said):
        resolved(name, "language")


def test_every_name_is_found_by_its_whole_self():
    for task in ("language", "translation", "images", "sounds"):
        known = list(names(task))
        assert len(known) == len(set(known))
        assert all(resolved(name, task) == name for name in known)


def test_values_are_tomls_and_commas_inside_belong_to_them():
    assert values('none,{ scheme = "rope", base = 500 },[1, 2],true,3e-4,"a,b"', "x") == [
        "none", {"scheme": "rope", "base": 500}, [1, 2], True, 3e-4, "a,b",
    ]  # fmt: skip
    for text, said in (("none,", "empty value"), ("{a=", "not a value of TOML")):
        with pytest.raises(InputError, match=said):
            values(text, f"x={text}")


def test_several_fields_make_every_combination():
    found = parse_vary(["position=none,rope", "heads=2,4"], "language")
    assert list(found) == ["position none, heads 2", "position none, heads 4", "position rope, heads 2", "position rope, heads 4"]
    assert found["position rope, heads 2"] == {"model.block.attention.position": "rope", "model.block.attention.heads": 2}
    assert list(combinations({"model.block.norm.kind": ["rms"], "optimiser.kind": ["muon"]})) == [
        "norm.kind rms, optimiser.kind muon"
    ]


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        (["position"], "takes field=value,value"),
        (["position="], "takes field=value,value"),
        (["=rope"], "takes field=value,value"),
        (["heads=2,2"], "2 is given twice"),
        (["heads=2,4", "model.block.attention.heads=8"], "is given twice"),
    ],
)
def test_what_says_nothing_or_twice_the_same_is_refused(axes, said):
    with pytest.raises(InputError, match=said):
        parse_vary(axes, "language")


def test_a_change_reaches_every_block_and_the_encoder_and_replaces_the_whole_value():
    scheme = {"scheme": "rope", "base": 500}
    path = "model.block.attention.position"
    plain = {"model": {"width": 8, "block": {"attention": {"heads": 2, "position": {"scheme": "rope", "base": 1}}}}}
    assert apply_change(plain, {path: "alibi"})["model"]["block"]["attention"] == {"heads": 2, "position": "alibi"}
    listed = {"model": {"block": [{"attention": {"position": "none"}}, {}]}}
    assert [b["attention"]["position"] for b in apply_change(listed, {path: scheme})["model"]["block"]] == [scheme, scheme]
    both = apply_change({"model": {"encoder": {"width": 8}}}, {path: "t5"})
    assert both["model"]["encoder"]["block"]["attention"]["position"] == "t5"
    assert plain["model"]["block"]["attention"]["position"] == {"scheme": "rope", "base": 1}, "what is given stays as it was"


def test_values_are_told_and_become_names_of_folders():
    assert format_value({"scheme": "rope", "base": 500.0}) == "rope base 500"
    assert format_value([4, 4]) == "4×4"
    assert format_value(True) == "yes"
    assert slug("position rope base 500, heads 2") == "position-rope-base-500-heads-2"
    assert slug("../..") == "candidate"


ATTENTION = [
    "score=dot,general,additive,concat",
    'mask=everything,{ kind = "blocks", size = 4 },{ and = ["causal", { kind = "dilated", step = 2 }] },'
    '{ or = [{ kind = "window", size = 2 }, { kind = "prefix", length = 3 }] }',
    "mask=causal,documents",
    "cap=none,5.0",
]


@pytest.mark.parametrize("axis", few(ATTENTION, 1), ids=lambda axis: axis.replace("mask=causal", "documents").partition("=")[0])
def test_scores_masks_and_caps_vary_and_train(axis, tmp_path):
    data = {"separator": "\n\n", "context": 48} if "documents" in axis else {}
    made = make_plan(base(tmp_path, data=data), tmp_path, parse_vary([axis], "language"), (1,), threads=1)
    results = {}
    for job in made.jobs():
        recipe = made.recipe_of(job)
        run = fit(recipe, open_task(recipe), tmp_path / job.folder)
        points = read_run(tmp_path / job.folder).points
        assert run.state == "finished"
        assert points[-1].loss < points[0].loss, job.candidate
        results[job.candidate] = points[-1].loss
        folder = tmp_path / job.folder
        assert load(folder).spec == Spec.of(run.spec), "what was trained is read back"
    assert len(set(results.values())) == len(results), f"each is another model: {results}"


def test_masks_are_told_as_a_person_reads_them():
    window = {"kind": "window", "size": 8}
    assert format_value({"and": ["causal", {"or": [window, {"not": "causal"}]}]}) == "causal and window size 8 or not causal"
    assert format_value({"kind": "additive", "hidden": 4}) == "additive hidden 4"


@pytest.mark.parametrize(
    ("axis", "said"),
    [
        ("score=dot,dott", "Candidate 'dott': .*Did you mean dot?"),
        ("mask=everything,prefixx", "no mask called 'prefixx'.*Did you mean prefix?"),
        ("mask=everything,blocks", "blocks cannot be made from {}: missing a required argument: 'size'"),
        ("mask=causal,documents", r"Candidate 'documents': .*one document: there is no data\.separator"),
    ],
)
def test_a_score_or_mask_that_there_is_not_is_refused_before_anything_is_trained(axis, said, tmp_path):
    with pytest.raises(InputError, match=said):
        make_plan(base(tmp_path), tmp_path, parse_vary([axis], "language"), (1,))
