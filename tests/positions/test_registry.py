"""Schemes by name, and schemes as data: what is written can be read again."""

import json

import pytest
import torch
from tests.drawn import LISTED, VARIANTS, title

from equiscope.errors import InputError, UnknownName
from equiscope.positions import SCHEMES, Concatenated, Learned, NoPosition, Rope, from_json, make, to_json

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("scheme", LISTED + VARIANTS, ids=title)
def test_a_scheme_survives_a_file(scheme):
    again = from_json(json.loads(json.dumps(to_json(scheme))))
    assert type(again) is type(scheme)
    assert to_json(again) == to_json(scheme)
    assert repr(again) == repr(scheme)


@pytest.mark.parametrize("scheme", SCHEMES, ids=title)
def test_every_scheme_is_made_by_its_name_and_says_what_it_is(scheme):
    assert type(make(scheme.name)) is scheme
    assert type(from_json(scheme.name)) is scheme
    assert to_json(make(scheme.name)) == {"scheme": scheme.name}
    assert scheme.title and scheme.summary.endswith(".") and scheme.__doc__  # noqa: PT018
    assert scheme is NoPosition or scheme().because


def test_settings_that_are_not_the_defaults_are_written():
    assert to_json(Rope(base=500.0)) == {"scheme": "rope", "base": 500.0}
    assert to_json(Concatenated(of=Learned(9))) == {"scheme": "concatenated", "of": {"scheme": "learned", "length": 9}}


def test_an_unknown_scheme_lists_the_known_ones():
    with pytest.raises(
        UnknownName, match=r"no position scheme called 'rop'. Did you mean rope. Known: none, index, sinusoidal, learned"
    ):
        make("rop")


def test_an_unknown_setting_is_named():
    with pytest.raises(InputError, match=r"no setting of rope called 'bass'. Did you mean base"):
        from_json({"scheme": "rope", "bass": 1})


@pytest.mark.parametrize("scheme", LISTED + VARIANTS, ids=title)
def test_sizing_makes_a_fresh_copy_and_leaves_the_scheme_alone(scheme):
    before, state = repr(scheme), len(scheme.state_dict())
    torch.manual_seed(1)
    one, other = scheme.sized(8, 2, 4), scheme.sized(8, 2, 4)
    assert one is not scheme
    assert (repr(scheme), len(scheme.state_dict())) == (before, state)
    assert not {id(p) for p in one.parameters()} & {id(p) for p in other.parameters()}
