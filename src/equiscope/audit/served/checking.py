"""Checking: which statements hold for a served model. `equiscope.check` calls it for an address."""

import math
import os
import platform
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from equiscope import __version__
from equiscope.audit.listeners import notify
from equiscope.audit.served.answers import AnswerDifference
from equiscope.audit.served.connection import Connection, Refused
from equiscope.audit.served.endpoint import BudgetSpent, Endpoint, connect
from equiscope.audit.served.noise import Noise, noise_of
from equiscope.audit.served.prompts import Prompts
from equiscope.audit.served.reproduction import script
from equiscope.audit.served.session import EFFORTS, Findings, Session
from equiscope.audit.served.statements import SERVED, ServedStatement
from equiscope.errors import InputError, UnknownName
from equiscope.record import Audit, Counterexample, Row, ServedModel
from equiscope.record.audit import Verdict

KEY = "EQUISCOPE_KEY"
REQUESTS = {"quick": 150, "default": 250, "thorough": 600}
Progress = Callable[[float, str], None]
REFERENCE = ("run-to-run", "chunks")  # always measured: they show how large rounding is
NO_ROUNDING = ("temperature", "greedy", "probabilities")  # differences that other rows do not judge by


def check_served(
    url: str, *, model: str | None = None, properties: Sequence[str] | None = None, effort: str = "default", seed: int = 0,
    requests: int | None = None, key: str | None = None, timeout: float = 60.0, proxy: bool = False, tolerance: float = 1e-2,
    seconds: float | None = None, progress: Progress | None = None, run: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> tuple[Audit, str]:  # fmt: skip
    """Measure what a served model does that a model would not.

    url          of an OpenAI-compatible endpoint, which ends before /completions
    model        its name, where the server has several
    properties   names of rows; by default all
    effort       "quick", "default" or "thorough"
    seed         of the words in the prompts
    requests     that may be made; by default 150, 250 or 600 by effort. Rows beyond them are undecided
    key          the environment variable with the key; by default EQUISCOPE_KEY, where it is set
    timeout      seconds within which an answer must be complete
    proxy        whether the proxies of the environment are used
    tolerance    a fault whose change, relative to the spread of the logprobs, is below it is *approximate*
    run          what makes the prompts of this run differ from those of others; drawn by default
    returns      the audit, and a script that makes the requests of the failing rows again; empty where none fails
    raises       InputError where there is nothing that can be asked
    """
    start = time.perf_counter()
    chosen = _chosen(properties)
    if effort not in EFFORTS:
        raise UnknownName("effort", effort, list(EFFORTS))
    budget = REQUESTS[effort] if requests is None else requests
    if budget < 10:
        raise InputError(f"A check needs at least 10 requests, but got {budget}. The default is {REQUESTS[effort]}.")
    connection = Connection(url.strip().rstrip("/"), _key(key, environment), timeout, proxy)
    _announce(connection, budget)
    prompts = Prompts(seed, secrets.token_hex(8) if run is None else run)
    endpoint = connect(connection, model, budget, [prompts.text(7), prompts.text(20)])
    session = Session(endpoint, prompts, EFFORTS[effort])
    findings, finished = _measure(session, chosen, None if seconds is None else start + seconds, progress)
    noise = noise_of(
        [found for name, one in findings.items() if name not in NO_ROUNDING for found in one.differences], endpoint.answers
    )
    judge = _Judge(noise, tolerance, properties is not None, findings)
    rows = [judge.row(statement, findings.get(statement.name)) for statement in chosen]
    audit = Audit(
        target=connection.url, model=endpoint.model, parameters=0, dtype="", device="",
        inputs="prompts of random English words, new in each run", rows=rows, seed=seed, effort=effort, tolerance=tolerance,
        passes={}, seconds=time.perf_counter() - start, finished=finished,
        versions={"equiscope": __version__, "python": platform.python_version()},
        notes=list(dict.fromkeys([*endpoint.notes, *_other_models(endpoint)])),
        served=ServedModel(
            api="chat completions" if endpoint.chat else "completions", requests=endpoint.spent, budget=budget,
            prompt_tokens=_tokens(endpoint, "prompt_tokens"), completion_tokens=_tokens(endpoint, "completion_tokens"),
            noise=max(noise.floor, noise.step), size=noise.size,
        ),
    )  # fmt: skip
    return notify(audit), script(endpoint, audit, judge.evidence)


def _chosen(properties: Sequence[str] | None) -> list[ServedStatement]:
    if properties is None:
        return list(SERVED)
    names = [statement.name for statement in SERVED]
    for name in properties:
        if name not in names:
            raise UnknownName("property of a served model", name, names)
    return [statement for statement in SERVED if statement.name in properties]


def _key(name: str | None, environment: Mapping[str, str]) -> str | None:
    if name is None:
        return environment.get(KEY) or None
    if not environment.get(name):
        raise InputError(f"The environment variable {name} is empty or not set. Set it to the key, or leave --key out.")
    return environment[name]


def _announce(connection: Connection, budget: int) -> None:
    key = "with a key" if connection.key is not None else "without a key"
    print(f"At most {budget} requests go to {connection.url}, {key}, and nowhere else.", file=sys.stderr)


def _measure(
    session: Session, chosen: list[ServedStatement], deadline: float | None, progress: Progress | None
) -> tuple[dict[str, Findings], bool]:
    """What each statement found; those beyond the budget or the time are missing."""
    findings: dict[str, Findings] = {}
    names = {statement.name for statement in chosen}
    wanted = [statement for statement in SERVED if statement.name in names or statement.name in REFERENCE]
    try:
        session.prepare()
        for number, statement in enumerate(wanted):
            if deadline is not None and time.perf_counter() > deadline:
                return findings, False
            if progress is not None:
                progress((number + 1) / (len(wanted) + 1), statement.name)
            try:
                findings[statement.name] = statement.measure(session)
            except Refused as refused:
                findings[statement.name] = _crashed(refused)
    except BudgetSpent:
        for statement in wanted:  # what needs no further request
            if statement.last:
                findings[statement.name] = statement.measure(session)
        return findings, False
    except Refused as refused:
        raise InputError(f"The server answered the first requests, and then not: {refused}. See its log.") from None
    except InputError as error:
        raise InputError(f"The server answered the first requests, and then not: {error}") from None
    except KeyboardInterrupt:
        return findings, False
    return findings, True


def _crashed(refused: Refused) -> Findings:
    if refused.status < 500:
        return Findings(missing=str(refused))
    found = Findings(samples=1)
    found.violated("a valid request", str(refused))
    return found


def _other_models(endpoint: Endpoint) -> list[str]:
    """A note where answers name another model than was asked for, or several."""
    if endpoint.named <= {endpoint.model}:
        return []
    names = ", ".join(sorted(endpoint.named)[:4])
    differ = ", so differences may be those of the models" if len(endpoint.named) > 1 else ""
    return [f"{endpoint.model} was asked for, and the answers name {names}{differ}."]


def _tokens(endpoint: Endpoint, name: str) -> int:
    """As the server counts them."""
    usages = [found.get("usage") for _, _, found in endpoint.requests if isinstance(found, dict)]
    return sum(usage[name] for usage in usages if isinstance(usage, dict) and isinstance(usage.get(name), int))


class _Judge:
    """Turns findings into rows. evidence: of each failing row, what was asked and the answers that show it."""

    def __init__(self, noise: Noise, tolerance: float, requested: bool, findings: dict[str, Findings]) -> None:
        self.noise, self.tolerance, self.requested = noise, tolerance, requested
        again = [finding for finding in findings["run-to-run"].differences] if "run-to-run" in findings else []
        wrong = [finding for finding in again if not noise.is_rounding(finding)]
        self.unsteady = max((finding.most for finding in wrong), default=0.0)
        self.evidence: dict[str, tuple[str, tuple[tuple[int, int], ...]]] = {}

    def row(self, statement: ServedStatement, finding: Findings | None) -> Row:
        common: dict[str, Any] = {"name": statement.name, "kind": "property", "summary": statement.summary}
        if finding is None:
            return Row(verdict="undecided", note="the budget of requests, or the time, ended before it was measured", **common)
        if not finding.samples:
            note = finding.missing or "; ".join(finding.notes) or "no answer could be compared"
            return Row(verdict="not applicable" if finding.missing else "undecided", note=note, **common)
        errors = [one.most / self.noise.size for one in finding.differences]
        wrong = [one for one in finding.differences if not self.noise.is_rounding(one)]
        largest = max(wrong, key=lambda one: one.most, default=None)
        notes = list(dict.fromkeys([*finding.notes, *([finding.missing] if finding.missing else []), *self._ties(finding)]))
        facts: dict[str, Any] = {
            "samples": finding.samples, "errors": [error if error < math.inf else -1.0 for error in errors],
            "error": _finite(max(errors, default=math.inf)), "median": _finite(statistics.median(errors) if errors else math.inf),
            "floor": max(self.noise.floor, self.noise.step) / self.noise.size if errors else None, "passes": 0,
        }  # fmt: skip
        if finding.violations:
            first = finding.violations[0]
            more = len(finding.violations) - 1
            self.evidence[statement.name] = (first.text, tuple(answer.request for answer in first.answers))
            cause = first.cause + (f" ({more} more of {finding.samples})" if more else "")
            return self._broken(statement, "broken", cause, first.text, None, facts, notes, common)
        if largest is None:
            bound = min(1.0, 3 / finding.samples)
            return Row(verdict="holds", violation_bound=bound, note="; ".join(notes), **facts, **common)
        if self.unsteady and statement.name != "run-to-run" and not statement.last:  # the last look within one answer
            why = f"the same request asked again changes logprobs by up to {self.unsteady:.2g} nats, so this cannot be measured"
            return Row(verdict="undecided", note="; ".join([why, *notes]), **facts, **common)
        self.evidence[statement.name] = (wrong[0].what, (wrong[0].a.request, wrong[0].b.request))
        verdict: Verdict = "broken" if largest.most / self.noise.size >= self.tolerance else "approximate"
        return self._broken(
            statement, verdict, self._cause(wrong[0], len(wrong), finding), wrong[0].what, wrong[0].most / self.noise.size, facts,
            notes, common,
        )  # fmt: skip

    def _broken(
        self, statement: ServedStatement, verdict: Verdict, cause: str, text: str, error: float | None, facts: dict[str, Any],
        notes: list[str], common: dict[str, Any],
    ) -> Row:  # fmt: skip
        return Row(
            verdict=verdict, cause=cause, fails=statement.expected or self.requested, note="; ".join(notes),
            counterexample=Counterexample(text=text, error=-1.0 if error in (None, math.inf) else error or 0.0), **facts, **common,
        )  # fmt: skip

    def _cause(self, first: AnswerDifference, wrong: int, finding: Findings) -> str:
        if first.worst is None:
            return f"the answers have no token in common; {wrong} of {finding.samples} comparisons differ by more than rounding"
        change, other = first.worst, f"{'at most ' * first.worst.bound}{first.worst.b:.6g}"
        return (
            f"the logprob of {change.token!r} (token {change.position + 1}) is {change.a:.6g} in one answer and {other} in the "
            f"other; {wrong} of {finding.samples} comparisons differ by more than rounding"
        )

    def _ties(self, finding: Findings) -> list[str]:
        flips = [one.gap for one in finding.differences if one.gap is not None and self.noise.is_rounding(one)]
        if not flips:
            return []
        apart = f"{max(flips):.1g} nats apart"
        return [f"{len(flips)} of {finding.samples} answers took another token at a near tie ({apart} at most): rounding"]


def _finite(value: float) -> float | None:
    return value if value < math.inf else None
