"""Determinism: the same inputs give the same answer, whatever the seed, and whatever was asked before."""

from equiscope.audit.pairs import error
from equiscope.audit.statement import Statement
from equiscope.audit.subject import Pass, Subject
from equiscope.audit.verdicts import bound, median
from equiscope.record import Row
from equiscope.record.audit import Verdict


class Deterministic(Statement):
    """Two runs with different seeds of torch's random numbers, and two runs one after the other, bit for bit."""

    name = "deterministic"
    summary = "the same inputs give the same answer"
    expected = True

    def own(self, subject: Subject, tolerance: float, count: int) -> Row:
        run = subject.at(subject.dtype)
        plain = run.made(run.inputs.call)
        errors = []
        for seed in range(1, max(count // 2, 1) + 1):
            again = run.made(run.inputs.call, seed=seed)
            errors.append(max((error(t, again[n]) for n, t in plain.items() if n in again), default=0.0))
        drawn = max(errors, default=0.0)
        twice = second(run)
        errors += twice
        worst = max(errors, default=0.0)
        note = cause = where = ""
        if run.moved:
            names = ", ".join(sorted(run.moved)[:4])
            note = f"calls move {names}; every run began from the same state"
        if worst != worst:
            note = "; ".join(filter(None, ["the output is not finite", note]))
        elif drawn > 0:
            cause = "it draws random numbers in evaluation"
        elif max(twice, default=0.0) > 0:
            state = ", ".join(sorted(run.moved)[:3]) or "state that is not its own"
            cause = f"a call changes what the next one gives: it moves {state}"
            where = next((n.rpartition(".")[0] or type(subject.model).__name__ for n in sorted(run.moved)), "")
        verdict: Verdict = (
            "undecided" if worst != worst else "exact" if worst == 0 else "broken" if worst >= tolerance else "approximate"
        )
        return Row(
            name=self.name, kind="property", verdict=verdict, summary=self.summary, error=worst, median=median(errors),
            errors=errors, samples=len(errors), bound=bound(len(errors)) if worst == 0 else None, cause=cause, where=where,
            note=note, parameters="given",
        )  # fmt: skip


def second(run: Pass) -> list[float]:
    """Two calls in a row without putting anything back between them."""
    kept: list[dict[str, object]] = []

    def twice(model):  # type: ignore[no-untyped-def]
        kept.append({n: t.detach().clone() for n, t in run.subject.chosen(run.inputs.call(model)).items()})
        return run.inputs.call(model)

    after = run.made(twice, count=True)
    return [max((error(t.cpu(), after[n].to(t.dtype)) for n, t in kept[0].items() if n in after), default=0.0)]  # type: ignore[attr-defined]
