"""Sentence pages of three schemes: every scheme in every setting is traced in seconds, these in a moment."""

import pytest

from equiscope.explore.pages import sentence


@pytest.fixture
def short_page(monkeypatch):
    """For tests of what stands around the schemes of a page."""
    monkeypatch.setattr(sentence, "SCHEMES", [scheme for scheme in sentence.SCHEMES if scheme.name in sentence.COMPARED])
    monkeypatch.setattr(sentence, "EXTRA", [])
