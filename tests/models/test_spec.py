"""A spec is data: it survives a file, and says what does not fit."""

import json

import pytest
from tests.drawn import LISTED, VARIANTS, title

import equiscope as eq
from equiscope.errors import EquiscopeError, InputError, ShapeError, UnknownName
from equiscope.models import READOUTS

FULL = eq.Spec(
    width=8, vocabulary=20, layers=3, readout="mean", outputs=4,
    block=eq.Block(
        attention=eq.Attention(heads=2, head_width=6, value_width=5, causal=True, bias=True, backend="eager"),
        norm=eq.Norm("rms", "post", 1e-6), feedforward=eq.FeedForward(9, "silu", False), residual=False,
    ),
)  # fmt: skip


@pytest.mark.parametrize("scheme", LISTED + VARIANTS, ids=title)
def test_a_spec_survives_json_with_every_scheme(scheme, tmp_path):
    for spec in (FULL.with_position(scheme), eq.Spec(width=8).with_position(scheme)):
        file = tmp_path / "spec.json"
        file.write_text(spec.to_json(), encoding="utf-8")
        assert eq.Spec.of(file) == eq.Spec.of(str(file)) == eq.Spec.of(json.loads(spec.to_json())) == spec
        assert hash(eq.Spec.of(file)) == hash(spec)
        assert eq.Spec.of(file).to_json() == spec.to_json()


@pytest.mark.parametrize("readout", READOUTS)
def test_a_spec_survives_json_with_every_read_out(readout):
    spec = eq.Spec(width=4, readout=readout)
    assert eq.Spec.of(spec.to_dict()) == spec


@pytest.mark.parametrize("block", [eq.Block(norm=None), eq.Block(feedforward=None), eq.Block(norm=None, feedforward=None)])
def test_an_absent_part_stays_absent(block):
    spec = eq.Spec(width=4, block=block)
    again = eq.Spec.of(json.loads(spec.to_json()))
    assert again == spec
    assert (again.block.norm, again.block.feedforward) == (block.norm, block.feedforward)


def test_defaults_are_left_out_of_the_file():
    assert eq.Spec(width=8).to_dict() == {"version": 1, "width": 8}
    assert eq.Spec.of({"width": 8}) == eq.Spec(width=8, block=eq.Block())
    assert eq.Spec(width=8) != FULL


WRONG = [
    ({"width": 8, "heigth": 2}, "field of spec called 'heigth'. Known: .*width"),
    ({"width": 8, "block": {"atention": {}}}, "field of spec.block called 'atention'. Known: attention"),
    ({"width": 8, "block": {"attention": {"head": 2}}}, "field of spec.block.attention called 'head'. Known: .*heads"),
    ({"width": 8, "block": {"attention": {"position": "rop"}}}, "position scheme called 'rop'"),
    ({"width": 8, "block": {"attention": {"position": {"scheme": "rope", "bass": 2}}}}, "rope cannot be made"),
    ({"width": 8, "block": {"norm": 3}}, "spec.block.norm should be an object"),
    ({"width": 8, "readout": "median"}, "read-out called 'median'. Known: each, mean"),
    ({"width": 8, "version": 2}, "version 2, but this equiscope reads version 1"),
    ({"width": 0}, "width cannot be 0: Expected `int` >= 1"),
    ({"width": 8, "layers": 0}, "layers cannot be 0: Expected `int` >= 1"),
    ({"width": 8, "readout": "concatenation", "outputs": 3}, "no linear map can follow"),
    ({}, "spec is incomplete"),
    ({"width": "eight"}, "spec.width cannot be 'eight'"),
    ({"width": 8, "layers": 1.5}, "spec.layers cannot be 1.5"),
    ({"width": 8, "block": {"attention": {"heads": "two"}}}, "spec.block.attention.heads cannot be 'two'"),
    ({"width": 8, "block": {"attention": {"causal": "no"}}}, "spec.block.attention.causal cannot be"),
    ({"width": 8, "block": {"attention": {"backend": "flash"}}}, "spec.block.attention.backend cannot be"),
    ({"width": 8, "block": {"feedforward": {"activation": "swish"}}}, "spec.block.feedforward.activation cannot be"),
    ({"width": 8, "block": {"norm": {"kind": "batch"}}}, "spec.block.norm.kind cannot be"),
    ({"width": 8, "block": {"norm": {"order": "middle"}}}, "spec.block.norm.order cannot be"),
    ({"width": 8, "block": {"attention": {"position": {"scheme": "rope", "pairs": "thirds"}}}}, "thirds"),
    ({"width": 8, "block": {"attention": {"position": 7}}}, "a name or an object with its settings, but got 7"),
    (
        {"width": 8, "block": {"attention": {"position": {"scheme": "rope", "base": "big"}}}},
        "rope.base cannot be 'big'",
    ),
    (
        {"width": 8, "block": {"attention": {"position": {"scheme": "learned", "length": 2.5}}}},
        "learned.length cannot be 2.5",
    ),
    (
        {"width": 8, "block": {"attention": {"position": {"scheme": "sinusoidal", "waves": "saw"}}}},
        "sinusoidal.waves cannot be",
    ),
    (
        {"width": 8, "block": {"attention": {"position": {"scheme": "concatenated", "of": 7}}}},
        "concatenated.of cannot be 7",
    ),
    ({"width": 8, "block": {"attention": None}}, "spec.block.attention"),
    ({"width": 8, "block": None}, "spec.block"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("data", "words"), WRONG, ids=[w for _, w in WRONG])
def test_what_does_not_fit_is_named(data, words):
    with pytest.raises(EquiscopeError, match=words):
        eq.build(data)


@pytest.mark.parametrize(("content", "words"), [("{", "is not JSON"), ("[1]", "should hold an object"), ("\udcff", "is not JSON")])
def test_a_file_that_is_no_spec_is_refused(tmp_path, content, words):
    file = tmp_path / "spec.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=words):
        eq.Spec.of(file)


def test_a_missing_file_is_named():
    with pytest.raises(InputError, match=r"no file nowhere\.json"):
        eq.Spec.of("nowhere.json")


def test_sizes_that_do_not_fit_together_are_refused():
    with pytest.raises(ShapeError, match="3 heads do not divide a width of 8"):
        eq.build({"width": 8, "block": {"attention": {"heads": 3}}})
    with pytest.raises(ShapeError, match="Sinusoidal pairs a sine"):
        eq.build({"width": 7, "block": {"attention": {"position": "sinusoidal"}}})
    with pytest.raises(UnknownName, match="Known"):
        eq.build({"width": 8, "nothing": 1})
