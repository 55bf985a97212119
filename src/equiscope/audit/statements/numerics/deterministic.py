"""Determinism: the same inputs give the same output, whatever the random seeds are and whatever calls came before."""

from equiscope.audit.statements.measured_property import MeasuredProperty, max_error
from equiscope.audit.statements.numerics.pure import effects
from equiscope.audit.subject import Subject
from equiscope.audit.verdict import violation_bound
from equiscope.record import Row


class Deterministic(MeasuredProperty):
    """Outputs are equal bit for bit with other seeds of torch, Python and NumPy, and after calls with other inputs."""

    name = "deterministic"
    summary = "the same inputs give the same output"
    expected = True

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        run = subject.in_dtype(subject.dtype)
        reference = run.outputs_of(run.inputs.call)
        errors = [
            max_error(reference, run.outputs_of(run.inputs.call, seed=subject.seed + n)) for n in range(1, max(count // 2, 1) + 1)
        ]
        worst = max(errors, key=lambda e: float("inf") if e != e else e)
        if worst != worst:
            return self.row("undecided", errors, note="the output is not finite")
        side_effects = effects(subject) if subject.mode == "eval" else None  # in training, layers update statistics
        faults = [f for f in side_effects.faults if f.changes_output] if side_effects is not None else []
        if worst == 0 and not faults:
            return self.row(
                "holds",
                errors,
                violation_bound=violation_bound(len(errors)),
                note=side_effects.note() if side_effects is not None else "",
            )
        errors += [f.error for f in faults if f.error is not None]
        small = max(errors) < tolerance and all(f.error is not None for f in faults)
        cause = "; ".join(dict.fromkeys(f.cause for f in faults)) or "it draws random numbers"
        where = next((f.where for f in faults if f.where), "")
        return self.row("approximate" if small else "broken", errors, cause=cause, where=where)
