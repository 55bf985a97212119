"""The badge of an audit: what it says and its colour, for an audit that passes, fails, or decides nothing."""

import json

import msgspec
import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.audit.integrations.badge import badge


@pytest.fixture(scope="module")
def audit():
    torch.manual_seed(0)
    return eq.check(nn.Linear(4, 4), torch.randn(2, 5, 4), actions=["permute"], properties=["batch"])


def said(audit):
    found = json.loads(badge(audit))
    assert (found["schemaVersion"], found["label"]) == (1, "equiscope")
    return found["message"], found["color"]


def test_what_holds_fails_is_known_or_undecided_is_told_apart(audit):
    count = sum(row.verdict == "holds" for row in audit.rows)
    assert said(audit) == (f"{count} checked, 0 failed", "brightgreen")
    first, *others = audit.rows
    broken = msgspec.structs.replace(first, verdict="broken", fails=True)
    assert said(msgspec.structs.replace(audit, rows=[broken, *others])) == (f"{count} checked, 1 failed", "red")
    known = msgspec.structs.replace(broken, fails=False, accepted="issue 12")
    assert said(msgspec.structs.replace(audit, rows=[known, *others])) == (f"{count} checked, 0 failed, 1 known", "yellow")
    nothing = [msgspec.structs.replace(row, verdict="undecided", fails=False) for row in audit.rows]
    assert said(msgspec.structs.replace(audit, rows=nothing)) == ("undecided", "lightgrey")
