"""The citation file can be read, and names the version of the package."""

from pathlib import Path

import pytest

import equiscope

FILE = Path(__file__).parents[1] / "CITATION.cff"
REQUIRED = {"cff-version", "message", "title", "authors"}  # by the schema of the Citation File Format 1.2.0


def test_the_citation_file_names_this_version():
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    assert set(found) >= REQUIRED
    assert found["cff-version"] == "1.2.0"
    assert found["type"] == "software"
    assert found["title"] == "equiscope"
    assert found["version"] == equiscope.__version__
    assert found["license"] == "MIT"
    assert all(author.get("name") or author.get("family-names") for author in found["authors"])
