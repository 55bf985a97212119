"""Training against evaluation: what a model computes otherwise while it is trained, dropout aside.

Batch norm takes its batch's mean, stochastic depth leaves out layers, some models add losses or noise. None of this is wrong; who
wonders why validation differs from training wants to know where it begins.
"""

import torch
from torch import nn

from equiscope.audit.diagnose.localize import events
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided, max_error, verdict_of
from equiscope.audit.statements.pairs import error
from equiscope.audit.subject import Pass, Subject
from equiscope.audit.subject.outputs import finite
from equiscope.record import Row


class TrainEval(MeasuredProperty):
    """Outputs in training mode, without dropout, equal those in evaluation mode."""

    name = "train-eval"
    summary = "training mode, without dropout, computes what evaluation mode does"

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        evaluated, trained = _pass(subject, "eval", torch.float64), _pass(subject, "train", torch.float64)
        narrow = _pass(subject, "eval", torch.float32)
        original, learning = evaluated(evaluated.inputs), trained(trained.inputs)
        again = trained.outputs_of(trained.inputs.call, seed=subject.seed + 1)
        narrow_plain = narrow(narrow.inputs)
        narrow.subject.mode = "train"
        rough = max_error(narrow_plain, narrow.outputs_of(narrow.inputs.call))
        narrow.subject.mode = "eval"
        errors = [max_error(original, learning), max_error(original, again)]
        if bad := finite(original):
            raise Undecided(f"{bad} is not finite in evaluation")
        verdict = verdict_of(errors, [rough], max_error(original, narrow_plain), tolerance)
        if verdict == "holds":
            return self.row(verdict, errors, error32=rough, samples=2)
        where, kind = _begins(evaluated, trained)
        drawn = max_error(learning, again) > 0
        cause = f"it begins at {where} ({kind})" if where else "outputs differ"
        if drawn:
            cause += "; it draws random numbers in training besides dropout"
        return self.row(verdict, errors, error32=rough, where=where, cause=cause, note=_statistics(trained))


def _pass(subject: Subject, mode: str, dtype: torch.dtype) -> Pass:
    """A pass in one mode."""
    return subject.like(mode=mode).in_dtype(dtype)


def _begins(evaluated: Pass, trained: Pass) -> tuple[str, str]:
    """The innermost module that is given the same in both modes and first makes something else."""
    a, b = events(evaluated, evaluated.inputs), events(trained, trained.inputs)
    modules: dict[str, nn.Module] = dict(trained.model.named_modules())
    whole = type(trained.model).__name__
    for x, y in zip(a, b, strict=False):
        if (x.module, x.leaves) != (y.module, y.leaves):
            path = _common(x.module, y.module)
            return path or whole, type(modules[path]).__name__
        pairs = zip(x.tensors, y.tensors, strict=False)
        if len(x.tensors) != len(y.tensors) or any(not error(s, t) < 1e-9 for s, t in pairs):
            path = x.module if x.leaves else x.module.rpartition(".")[0]
            return path or whole, type(modules[path]).__name__
    return "", ""


def _common(a: str, b: str) -> str:
    shared = []
    for x, y in zip(a.split("."), b.split("."), strict=False):
        if x != y:
            break
        shared.append(x)
    return ".".join(shared)


def _statistics(run: Pass) -> str:
    transformed = sorted({n.rpartition(".")[0] for n in run.changed_state if n.endswith(("running_mean", "running_var"))})
    return f"training moves the statistics of {', '.join(transformed[:3])}" if transformed else ""
