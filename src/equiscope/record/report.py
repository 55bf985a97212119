"""Report: an audit and its sentences. Plain data, no torch.

The sentences are written here, once, so that the terminal, the page and a test report agree and compute nothing.
"""

import re
import shlex
from collections.abc import Iterator

from msgspec import Struct

from equiscope.errors import counted
from equiscope.record.audit import TOLERANCE, Audit, Coverage, Row, ServedModel
from equiscope.record.program import VERSION


class ReportRow(Struct, frozen=True, kw_only=True):
    """One row in words.

    id        of the row on its page and in links; unique, also where several rows have one name
    finding   sentences, the most important first
    samples   number of samples and the bound that follows: "no violation in 12 samples (95 % interval: below ...)"
    command   what repeats this row alone
    """

    id: str
    finding: list[str]
    samples: str
    command: str


class Report(Struct, frozen=True, kw_only=True):
    """The content of a report page. rows: of every row of the audit, in its order."""

    version: int = VERSION
    title: str
    summary: str
    audit: Audit
    rows: list[ReportRow]


def report(audit: Audit) -> Report:
    """The page's data."""
    ids: list[str] = []
    for row in audit.rows:
        count = sum(1 for other in ids if other == row.name or other.startswith(f"{row.name}~"))
        ids.append(row.name if not count else f"{row.name}~{count + 1}")
    report_rows = [
        ReportRow(id=i, finding=finding(audit, row, has_evidence=True), samples=samples(row), command=repeat_command(audit, row))
        for i, row in zip(ids, audit.rows, strict=True)
    ]
    return Report(title=audit.target, summary=summary(audit), audit=audit, rows=report_rows)


def summary(audit: Audit) -> str:
    """One sentence: how many statements hold, which fail, which do not hold and need not."""
    rows = audit.rows
    if not rows:
        return "Nothing was asked of this model."
    stopped = "." if audit.finished else ". It was stopped before everything was measured."
    if not audit.decided:
        but_pure = " but pure" if any(r.name == "pure" and r.holds for r in rows) else ""
        return f"Nothing{but_pure} could be decided: {_names([r for r in rows if not r.holds])}{stopped}"
    rows = [r for r in rows if r.verdict != "not applicable"]
    held = [r for r in rows if r.holds]
    undecided = [r for r in rows if r.verdict == "undecided" and not r.fails]
    others = [r for r in rows if not (r.fails or r.accepted) and r.verdict not in ("holds", "undecided")]
    parts = [f"{len(held)} of {len(rows)} statements hold"]
    failed = audit.failed
    parts.append(f"{counted(len(failed), 'fails', 'fail')}: {_names(failed)}" if failed else "nothing fails")
    if audit.accepted:
        parts.append(f"{len(audit.accepted)} {'are' if len(audit.accepted) > 1 else 'is'} accepted: {_names(audit.accepted)}")
    if others:
        parts.append(f"{len(others)} {'do' if len(others) > 1 else 'does'} not hold and need not: {_names(others)}")
    if undecided:
        parts.append(f"{len(undecided)} {'are' if len(undecided) > 1 else 'is'} undecided: {_names(undecided)}")
    return "; ".join(parts) + stopped


def finding(audit: Audit, row: Row, has_evidence: bool = False) -> list[str]:
    """The result of a row in plain sentences: the error, the smallest counterexample, where it breaks, why, what still holds.

    shown  whether the counterexample and the location are displayed beside the sentences, which then leave them out
    """
    evidence = [] if has_evidence else [_smallest(audit, row), _location(audit, row)]
    size = _size(row) if audit.served is None else _served_size(row, audit.served)
    cause = [f"{_capital(_bare(row.cause))}."] if audit.served is not None and has_evidence and row.cause else []
    return [sentence for sentence in (size, *cause, *evidence, *_details(row)) if sentence]


def _smallest(audit: Audit, row: Row) -> str:
    counterexample = row.counterexample
    if counterexample is not None and row.error is None and audit.served is not None:
        return f"Smallest counterexample: {_bare(counterexample.text)}."
    return (
        f"Smallest counterexample: {_bare(counterexample.text)} (error {number(counterexample.error)})." if counterexample else ""
    )


def _details(row: Row) -> Iterator[str]:
    if row.accepted:
        yield f"Accepted by the baseline file: {_bare(row.accepted)}."
    if row.subgroup:
        yield f"What does hold: {_bare(row.subgroup)}."
    if row.verdict in ("undecided", "not applicable"):
        return
    if len(row.outputs) > 1:
        yield f"By output: {'; '.join(outputs(row))}."
    if covered := coverage(row.coverage):
        yield f"It was asked {covered}."
    if row.claimed == "yes":
        yield f"The model promises it: {_bare(row.reason)}." if row.reason else "The model's spec promises it."
    elif row.claimed == "no":
        yield (
            f"The model's spec does not promise it: {_bare(row.reason)}." if row.reason else "The model's spec does not promise it."
        )
    if row.proof is not None and row.proof.answer == "proved" and not row.holds:
        yield "The graph of operations says the contrary. One of the two is wrong, which is a fault of equiscope: please report it."


def _size(row: Row) -> str:
    random = " at random parameters" if row.parameters == "random" else ""
    least = f" (rounding alone: {number(row.floor)})" if row.floor is not None else ""
    tried = counted(row.samples, "sample")
    if row.verdict in ("undecided", "not applicable"):
        verdict = row.verdict.capitalize()
        return f"{verdict}: {_bare(row.note)}." if row.note else f"{verdict}, and no reason was given."
    worst = number(row.error)
    if row.holds and not row.error:
        return f"Not one bit differs in {tried}{random}." if row.samples else f"It holds without any error{random}."
    if row.holds:
        return f"In {tried}{random} the worst error is {worst}, which is rounding{least}."
    if row.verdict == "approximate":
        return f"A true difference, but a small one: at most {worst} of the output's size in {tried}{random}{least}."
    if row.error is None:
        return f"The outputs cannot be compared by a number{random}: one of the two is not finite, or has another shape."
    return f"The output is off by up to {worst} of its size in {tried}{random}{least}."


def _served_size(row: Row, served: ServedModel) -> str:
    """The result of a row of a served model, in nats."""
    tried = counted(row.samples, "comparison")
    if row.verdict in ("undecided", "not applicable"):
        return _size(row)
    if row.error is None:
        return f"Found in {row.samples} answers." if row.holds and row.samples else ""
    worst = row.error * served.size
    if row.holds and not worst:
        return f"Not one bit differs in {tried}."
    size = f"{worst:.2g} nats" + (f", {percent(row.error)} of the spread of the logprobs" if row.error >= 1e-3 else "")
    noise = f"rounding changes a logprob by {served.noise:.1g} nats, typically"
    if row.holds:
        return f"In {tried} the worst change is {size}, which is rounding ({noise})."
    drift = "A small change, but no rounding: " if row.verdict == "approximate" else "Logprobs change by up to "
    return f"{drift}{size} ({noise})."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _location(audit: Audit, row: Row) -> str:
    why = f": {_bare(row.cause)}" if row.cause else ""
    if not row.where:
        return f"Cause{why}." if why else ""
    if row.where == audit.model:
        return f"It breaks in {row.where} itself, between its parts{why}."
    return f"It first breaks in {row.where}{why}."


def outputs(row: Row) -> list[str]:
    """Every output of a row with its verdict: "pooler_output: broken (98 %), it reads position 0, which is padding"."""
    lines = []
    for one in row.outputs:
        size = f" ({number(one.error)})" if one.verdict in ("approximate", "broken") else ""
        lines.append(f"{one.name or 'the output'}: {one.verdict}{size}" + (f", {one.note}" if one.note else ""))
    return lines


def coverage(of: Coverage | None) -> str:
    """Which positions and lengths were asked, in words; empty where that is no part of the statement."""
    if of is None:
        return ""
    every = f"at all {of.of} positions" if of.positions == of.of else f"at {of.positions} of {of.of} positions"
    longest = max(of.lengths, default=0)
    lengths = f" and at {counted(len(of.lengths), 'other length')}, up to {counted(longest, 'token')}" if of.lengths else ""
    refused = f" ({_bare(of.refused)})" if of.refused else ""
    return f"{every}{lengths}{refused}"


def samples(row: Row) -> str:
    """How often it was tried, and what that says of inputs that were not."""
    if not row.samples:
        return "not measured"
    if row.holds and row.violation_bound is not None and row.violation_bound >= 1:
        return f"no violation in {row.samples} samples: too few to bound the rest"
    if row.holds and row.violation_bound is not None:
        return f"no violation in {row.samples} samples (95 % interval: below {percent(row.violation_bound)} of inputs)"
    return f"{row.samples} tried"


def repeat_command(audit: Audit, row: Row) -> str:
    """What repeats one row: on the command line where the check was made there, else in Python."""
    tolerance = ["--tolerance", f"{audit.tolerance:g}"] if audit.tolerance != TOLERANCE else []
    if audit.served is not None:
        words = ["equiscope", "check", audit.target, "--model", audit.model, "--property", row.name, "--seed", str(audit.seed)]
        return shlex.join(words + (["--effort", audit.effort] if audit.effort != "default" else []) + tolerance)
    if audit.target == audit.model:
        argument = "actions" if row.kind == "action" else "properties"
        mode = f", mode={audit.mode!r}" if audit.mode != "eval" else ""
        limit = f", tolerance={audit.tolerance:g}" * bool(tolerance)
        return f"eq.check(model, ..., {argument}=[{row.name!r}], effort={audit.effort!r}, seed={audit.seed}{mode}{limit})"
    named = re.sub(r" \([^()]*\)$", "", audit.target)  # what stands in brackets behind it was said of it
    words = ["equiscope", "check", named, f"--{row.kind}", row.name, "--seed", str(audit.seed)]
    words += ["--effort", audit.effort] if audit.effort != "default" else []
    words += ["--mode", audit.mode] if audit.mode != "eval" else []
    return shlex.join(words + tolerance)


def number(value: float | None) -> str:
    """An error as a person reads it: small ones as powers of ten, larger ones as percent, huge ones as a factor."""
    if value is None or value < 0 or value != value or value == float("inf"):
        return "not finite"
    if value == 0:
        return "0"
    if value < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-")
    return percent(value) if value < 9.995 else f"{value:.0f} times"


def percent(share: float) -> str:
    """A share of one, in two or three digits."""
    return f"{100 * share:.3g} %"


def _names(rows: list[Row]) -> str:
    names = [row.name for row in rows]
    return ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:4])} and {len(names) - 4} more"


def _bare(text: str) -> str:
    return text.strip().rstrip(".")
