"""The scripts and styles of the pages: one for each page, none larger than its budget, licences in front."""

import gzip

import pytest

from equiscope.explore.page import BUNDLES, NAMES

LARGEST = 56_000  # bytes, gzip: script and style of a page
HEADS = 60_000  # it also changes the model
THREE = 180_000  # the page of a molecule contains three.js
SMALL = 8_000  # what makes a page a figure, on either side of its frame


def packed(name: str) -> int:
    return sum(len(gzip.compress(file.read_bytes())) for file in BUNDLES.glob(f"{name}.*") if file.suffix in {".js", ".css"})


@pytest.mark.parametrize("name", sorted(set(NAMES.values())))
def test_a_page_keeps_its_budget_of_bytes(name):
    assert 0 < packed(name) <= {"molecule": THREE, "heads": HEADS}.get(name, LARGEST)


@pytest.mark.parametrize("name", ["figure", "frame", "widget"])
def test_what_makes_a_page_a_figure_is_small(name):
    assert 0 < packed(name) <= SMALL


@pytest.mark.parametrize(("name", "package"), [("compare", "d3-scale"), ("run", "d3-shape"), ("molecule", "three")])
def test_a_script_begins_with_the_licences_of_what_it_contains(name, package):
    comment = (BUNDLES / f"{name}.js").read_text(encoding="utf-8").split("*/")[0]
    assert f"{package}: Copyright" in comment
    assert "permission" in comment.lower()
