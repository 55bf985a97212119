"""Somebody's GPT has a bug: the check names the module that it is in, and what is wrong with it."""

import sys

import pytest
import torch

import equiscope as eq
from equiscope.cli import main
from tests.audit.planted import BUGS, GPT, given, planted
from tests.drawn import SEEDS

KINDS = [(bug, rotary) for bug in BUGS for rotary in bug.rotary]
NAMES = [f"{bug.name}-{'rotary' if rotary else 'learned'}" for bug, rotary in KINDS]
FIRST = {bug.statement: bug for bug in reversed(BUGS) if bug.statement in ("causal", "shift")}.values()
ONE_OF_EACH = [  # by default one bug of a property and one of an action
    pytest.param(bug, rotary, id=name, marks=[] if bug in FIRST and rotary == bug.rotary[0] else pytest.mark.thorough)
    for (bug, rotary), name in zip(KINDS, NAMES, strict=True)
]

EACH_BUG = [
    pytest.param(bug, rotary, id=name, marks=[] if rotary == bug.rotary[0] else pytest.mark.thorough)
    for (bug, rotary), name in zip(KINDS, NAMES, strict=True)
]


def check(model, statement):
    action = {"actions": [statement], "properties": []} if statement == "shift" else {"properties": [statement], "actions": []}
    return eq.check(model, given(), **action, proof=False).rows[0]


@pytest.mark.parametrize("rotary", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["rotary", "learned"])
def test_a_gpt_without_a_bug_keeps_what_it_promises(rotary):
    audit = eq.check(
        GPT(rotary), given(), properties=["causal", "cache", "batch", "deterministic"], actions=[], proof=not rotary
    )  # a proof only with --thorough
    assert [row.verdict for row in audit.rows if row.verdict != "holds"] == []
    assert check(GPT(rotary), "shift").verdict == ("holds" if rotary else "broken")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("bug", "rotary"), EACH_BUG)
def test_a_planted_bug_is_found_where_it_is_and_named(bug, rotary, seed):
    torch.manual_seed(seed)
    row = check(planted(bug, rotary), bug.statement)
    assert row.verdict in ("approximate", "broken")
    assert row.where == bug.place
    assert bug.says in row.cause


@pytest.mark.browser
@pytest.mark.parametrize(("bug", "rotary"), ONE_OF_EACH)
def test_the_command_and_its_page_name_the_module_and_what_is_wrong(bug, rotary, tmp_path, monkeypatch, capsys, browser):
    model = (
        "import torch\nfrom tests.audit.planted import BUGS, given, planted\n\n\ndef model():\n"
        f"    bug = next(b for b in BUGS if b.name == {bug.name!r})\n    return planted(bug, {rotary}), given()\n"
    )
    (tmp_path / "theirs.py").write_text(model)
    kind, page = "--action" if bug.statement == "shift" else "--property", tmp_path / "report.html"
    words = [f"{tmp_path / 'theirs.py'}:model", kind, bug.statement, "--html", str(page)]
    monkeypatch.setattr(sys, "argv", ["equiscope", "check", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = " ".join(capsys.readouterr().out.split())
    tab = browser.new_page()
    tab.goto(page.as_uri())
    told = tab.locator(f'tr.stated[data-row="{bug.statement}"] .where').inner_text()
    tab.close()
    for place in (said, " ".join(told.split())):
        assert bug.place in place
        assert bug.says in place
