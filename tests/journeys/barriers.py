"""What keeps people from using a page, as axe-core finds it (https://github.com/dequelabs/axe-core)."""

import os
from pathlib import Path

import pytest

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
GRAVITY = ("minor", "moderate", "serious", "critical")


def barriers(tab, least="minor", within="html"):
    """[gravity, rule, HTML of the first element] of each rule that is broken, at least so grave, in the elements of a selector."""
    if not AXE.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("axe-core is not here: `npm ci` in web/ brings it")
    tab.evaluate(AXE.read_text(encoding="utf-8"))
    run = """(within) => axe.run(within, { resultTypes: ["violations"] })
        .then((r) => r.violations.map((v) => [v.impact, v.id, v.nodes[0].html]))"""
    return [found for found in tab.evaluate(run, within) if found[0] in GRAVITY[GRAVITY.index(least) :]]
