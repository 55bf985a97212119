"""Agreement of proofs and measurements. Where they disagree, one of them is wrong, a fault of equiscope: a note reports it."""

from collections.abc import Sequence

import msgspec
import torch

from equiscope.audit.proof.proving import STATEMENTS, proofs_of
from equiscope.audit.subject import Subject
from equiscope.record import Proof, Row

LARGEST = 10_000_000  # parameters up to which a check proves by default
FAILS = ("approximate", "broken")


def with_proofs(rows: Sequence[Row], subject: Subject, requested: bool | None, finished: bool) -> tuple[list[Row], list[str]]:
    """The rows with their proofs, and notes where a proof and a measurement disagree.

    wanted  True or False; None: for models of up to 10 million parameters, where the check finished in time
    """
    small = sum(p.numel() for p in subject.model.parameters()) <= LARGEST
    if requested is False or (requested is None and not (small and finished)):
        return list(rows), []
    names = tuple(row.name for row in rows if row.name in STATEMENTS and (row.error is not None or row.verdict != "undecided"))
    if not names:
        return list(rows), []
    try:
        proofs = proofs_of(subject, names)
    except Exception as error:  # the graph may contain anything; the check continues without proofs
        proofs = {n: Proof(answer="unknown", reason=f"{type(error).__name__}: {' '.join(str(error).split())[:120]}") for n in names}
    rows_with_proofs, notes = [], []
    for row in rows:
        proof = proofs.get(row.name)
        if proof is not None and proof.answer == "proved" and row.verdict in FAILS and _is_longer(row, subject):
            proof = Proof(answer="unknown", reason=f"it holds {proof.reason}, but not for the longer inputs that were measured")
        words = disagreement(row, proof) if proof is not None else ""
        if words:
            notes.append(words)
        note = "; ".join(w for w in (words, row.note) if w)
        rows_with_proofs.append(msgspec.structs.replace(row, proof=proof, note=note) if proof is not None else row)
    return rows_with_proofs, notes


def _is_longer(row: Row, subject: Subject) -> bool:
    """Whether a violation was found only in inputs longer than the given ones, of which a proof says nothing.

    The smallest counterexample is longer only where the given inputs show no violation.
    """
    found, given = row.counterexample, subject.inputs.length
    if found is None or given is None:
        return False
    shapes = {name: torch.empty(array.shape) for name, array in found.inputs.items() if name in subject.inputs.values}
    lengths = [subject.inputs.with_values(shapes).length or 0] if shapes else []
    if row.name == "causal":  # long inputs are not stored, but which tokens were changed or read is
        lengths += [int(found.element.get(name, 0)) for name in ("to", "of")]
    return max(lengths, default=0) > given


def disagreement(row: Row, proof: Proof) -> str:
    """The disagreement in words; empty where there is none."""
    if proof.answer == "proved" and row.verdict in FAILS:
        return f"DISAGREEMENT: {row.name} is proved ({proof.reason}), but measured {row.verdict} ({row.error})"
    if proof.answer == "refuted" and row.verdict == "holds":
        place = f"{proof.operation} in {proof.where or 'the model itself'}"
        return f"DISAGREEMENT: {row.name} is refuted by {place} ({proof.reason}), but measured {row.verdict}"
    return ""
