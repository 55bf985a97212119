"""Training against evaluation: what a model computes differently in training mode, apart from dropout.

Batch norm uses the statistics of the batch, stochastic depth skips layers, some models add losses or noise. None of this is a
fault, but it explains why validation differs from training. The row names the module where the difference begins.
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
        low = _pass(subject, "eval", torch.float32)
        reference, train_outputs = evaluated(evaluated.inputs), trained(trained.inputs)
        other_seed = trained.outputs_of(trained.inputs.call, seed=subject.seed + 1)
        low_reference = low(low.inputs)
        low.subject.mode = "train"
        low_error = max_error(low_reference, low.outputs_of(low.inputs.call))
        low.subject.mode = "eval"
        errors = [max_error(reference, train_outputs), max_error(reference, other_seed)]
        if bad := finite(reference):
            raise Undecided(f"{bad} is not finite in evaluation mode")
        verdict = verdict_of(errors, [low_error], max_error(reference, low_reference), tolerance)
        if verdict == "holds":
            return self.row(verdict, errors, error32=low_error, samples=2)
        where, kind = _first_difference(evaluated, trained)
        is_random = max_error(train_outputs, other_seed) > 0
        cause = f"the difference begins at {where} ({kind})" if where else "outputs differ"
        if is_random:
            cause += "; in training mode the model draws random numbers besides dropout"
        return self.row(verdict, errors, error32=low_error, where=where, cause=cause, note=_statistics(trained))


def _pass(subject: Subject, mode: str, dtype: torch.dtype) -> Pass:
    """A pass in one mode."""
    return subject.like(mode=mode).in_dtype(dtype)


def _first_difference(evaluated: Pass, trained: Pass) -> tuple[str, str]:
    """The first innermost module that gets the same inputs in both modes and returns different outputs."""
    a, b = events(evaluated, evaluated.inputs), events(trained, trained.inputs)
    modules: dict[str, nn.Module] = dict(trained.model.named_modules())
    whole = type(trained.model).__name__
    for x, y in zip(a, b, strict=False):
        if (x.module, x.is_output) != (y.module, y.is_output):
            path = _common(x.module, y.module)
            return path or whole, type(modules[path]).__name__
        pairs = zip(x.tensors, y.tensors, strict=False)
        if len(x.tensors) != len(y.tensors) or any(not error(s, t) < 1e-9 for s, t in pairs):
            path = x.module if x.is_output else x.module.rpartition(".")[0]
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
    return f"training mode updates the statistics of {', '.join(transformed[:3])}" if transformed else ""
