"""Proof and measurement: the row has both, and a note reports where they disagree."""

import pytest
import torch
from torch import nn

from equiscope.audit import check
from equiscope.audit.proof import agreement
from equiscope.record import Proof
from equiscope.record.report import finding
from tests.audit.proof.summaries import Of, words

pytestmark = pytest.mark.quick

FEW = {"actions": ["permute"], "properties": ["causal", "batch"], "effort": "quick"}


def test_a_check_says_what_is_proved_and_what_is_refuted():
    audit = check(Of(lambda x: x - x.mean(1, keepdim=True)), words(), **FEW)
    assert {row.name: row.proof.answer for row in audit if row.proof} == {
        "causal": "refuted",
        "batch": "proved",
        "permute": "proved",
    }
    assert not [note for note in audit.notes if note.startswith("DISAGREEMENT")]


def test_a_check_without_proofs_has_none():
    audit = check(nn.Linear(6, 6), words(), proof=False, **FEW)
    assert all(row.proof is None for row in audit)


@pytest.mark.thorough  # ten million parameters
def test_a_large_model_is_proved_on_request_only():
    large = nn.Linear(6, 6)
    large.unused = nn.Parameter(torch.zeros(agreement.LARGEST))
    assert all(row.proof is None for row in check(large, words(), **FEW))
    assert all(row.proof.answer == "proved" for row in check(large, words(), proof=True, **FEW) if row.name != "pure")


@pytest.mark.parametrize(("answer", "model"), [("refuted", nn.Linear(6, 6)), ("proved", Of(lambda x: x.flip(1).cumsum(1)))])
def test_a_proof_that_the_measurement_contradicts_is_reported(monkeypatch: pytest.MonkeyPatch, answer: str, model: nn.Module):
    wrong = {n: Proof(answer=answer, operation="aten.add", where="map", reason="planted") for n in ("permute", "causal")}
    monkeypatch.setattr(agreement, "proofs_of", lambda *args: wrong)
    audit = check(model, words(), **FEW)
    loud = [note for note in audit.notes if note.startswith("DISAGREEMENT:")]
    assert len(loud) == 2
    assert "planted" in loud[0]
    assert audit["permute"].note.startswith("DISAGREEMENT: permute is")


class Stretched(nn.Module):
    """A causal mean whose weights depend on the number of tokens, from 17 tokens on: dynamic NTK in little."""

    def __init__(self, ahead: bool = False) -> None:
        super().__init__()
        self.map, self.ahead = nn.Linear(6, 6), ahead

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[-2]
        mask = torch.ones(n, n).tril(1 if self.ahead and n > 150 else 0)
        steps = torch.arange(n)[:, None] - torch.arange(n)
        weights = mask * torch.exp(-steps.abs() / max(n, 16))
        return self.map(weights.to(x) @ x)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [False, True])
def test_a_violation_in_longer_inputs_contradicts_no_proof(ahead: bool):
    audit = check(Stretched(ahead), words(), properties=["causal"], effort="quick")
    row = audit["causal"]
    assert row.verdict == "broken"
    assert row.proof is not None
    assert row.proof.answer != "proved"
    assert not [note for note in audit.notes if note.startswith("DISAGREEMENT")]
    assert "please report it" not in " ".join(finding(audit, row))


def test_a_proof_that_fails_ends_no_check(monkeypatch: pytest.MonkeyPatch):
    def failing(*args: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(agreement, "proofs_of", failing)
    row = check(nn.Linear(6, 6), words(), **FEW)["permute"]
    assert row.proof is not None
    assert row.proof.answer == "unknown"
    assert "planted" in row.proof.reason
    assert row.verdict == "holds"
