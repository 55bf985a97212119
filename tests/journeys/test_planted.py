"""Somebody's GPT has a bug: the check names the module that it is in, and what is wrong with it."""

import pytest
import torch

import equiscope as eq
from tests.audit.planted import BUGS, GPT, given, planted

KINDS = [(bug, rotary) for bug in BUGS for rotary in bug.rotary]


def check(model, statement):
    action = {"actions": [statement], "properties": []} if statement == "shift" else {"properties": [statement], "actions": []}
    return eq.check(model, given(), **action).rows[0]


@pytest.mark.parametrize("rotary", [True, False], ids=["rotary", "learned"])
def test_a_gpt_without_a_bug_keeps_what_it_promises(rotary):
    audit = eq.check(GPT(rotary), given(), properties=["causal", "cache", "batch", "deterministic"], actions=[])
    assert [row.verdict for row in audit.rows if row.verdict not in ("exact", "rounding")] == []
    assert check(GPT(rotary), "shift").verdict == ("rounding" if rotary else "broken")


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("bug", "rotary"), KINDS, ids=[f"{bug.name}-{'rotary' if r else 'learned'}" for bug, r in KINDS])
def test_a_planted_bug_is_found_where_it_is_and_named(bug, rotary, seed):
    torch.manual_seed(seed)
    row = check(planted(bug, rotary), bug.statement)
    assert row.verdict in ("approximate", "broken")
    assert row.where == bug.place
    assert bug.says in row.cause
