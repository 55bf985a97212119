"""Determinism: the same inputs give the same answer, whatever the seeds of random numbers are, and whatever was asked before."""

from equiscope.audit.statements.measured_property import MeasuredProperty, max_error
from equiscope.audit.statements.numerics.pure import effects
from equiscope.audit.subject import Subject
from equiscope.audit.verdict import bound
from equiscope.record import Row


class Deterministic(MeasuredProperty):
    """Runs with other seeds of torch's, Python's and NumPy's random numbers, bit for bit; and runs after other questions."""

    name = "deterministic"
    summary = "the same inputs give the same answer"
    expected = True

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        run = subject.in_dtype(subject.dtype)
        original = run.outputs_of(run.inputs.call)
        errors = [
            max_error(original, run.outputs_of(run.inputs.call, seed=subject.seed + n)) for n in range(1, max(count // 2, 1) + 1)
        ]
        worst = max(errors, key=lambda e: float("inf") if e != e else e)
        if worst != worst:
            return self.row("undecided", errors, note="the output is not finite")
        found = effects(subject) if subject.mode == "eval" else None  # layers in training keep statistics of what they see
        faults = [f for f in found.faults if f.answers] if found is not None else []
        if worst == 0 and not faults:
            return self.row("holds", errors, bound=bound(len(errors)), note=found.note() if found is not None else "")
        errors += [f.error for f in faults if f.error is not None]
        small = max(errors) < tolerance and all(f.error is not None for f in faults)
        cause = "; ".join(dict.fromkeys(f.cause for f in faults)) or "it draws random numbers"
        where = next((f.where for f in faults if f.where), "")
        return self.row("approximate" if small else "broken", errors, cause=cause, where=where)
