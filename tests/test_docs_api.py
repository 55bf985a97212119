"""The pages of the Python API: docstrings become reStructuredText, and every public name has one page."""

import sys
from pathlib import Path

import pytest

import equiscope as eq

DOCS = Path(__file__).parents[1] / "docs"
if not DOCS.exists():
    pytest.skip("docs/ is not in the source archive", allow_module_level=True)
sys.path.insert(0, str(DOCS))
import api  # noqa: E402


def test_columns_become_a_list_of_definitions():
    doc = ["Cut a sound.", "", "wave    [T] samples", "        in [-1, 1]", "a, b    two", "raises  ShapeError where it is short"]
    assert api.convert(doc) == [
        "Cut a sound.", "", "",
        "``wave``", "    [T] samples", "    in [-1, 1]", "``a``, ``b``", "    two",
        "Raises", "    ShapeError where it is short", "",
    ]  # fmt: skip


def test_an_indented_block_stays_as_it_is():
    assert api.convert(["For example:", "", "    eq.show(*x)"]) == ["For example:", "", "", "::", "", "        eq.show(*x)", ""]


def test_public_names_in_backticks_are_links_and_the_rest_is_literal():
    assert api.inline("`eq.Spec` of `x @ y`, a*b_") == ("\\ :py:obj:`eq.Spec <equiscope.Spec>`\\  of \\ ``x @ y``\\ , a\\*b\\_")


def test_a_span_of_code_may_go_over_two_lines():
    assert api.convert(["Say `eq.build(spec,", "seed=1)` here."])[0].count("``") == 2


def test_every_public_name_is_on_a_page():
    text = api.top_page() + "".join(api.room_page(room) for room in api.ROOMS)
    names = [*(f"equiscope.{name}" for name in api.TOP), *api.HOMES.values()]
    assert [name for name in names if f":: {name}\n" not in text] == []


def test_signatures_say_types_without_bounds():
    bounded = "(heads: ~typing.Annotated[int, msgspec.Meta(ge=1)] = 1, position: Position = <factory>)"
    assert api.to_short(None, "class", "", eq.Attention, None, bounded, None)[0] == "(heads: int = 1, position: Position = ...)"
