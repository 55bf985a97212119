"""Engines: compiled, exported, and with each kernel for attention, a model computes what it computes as it is.

Both precisions are compared: rounding shrinks with the precision, another computation does not. torch.compile does not compile
under a mode that promotes casts, so here casts inside the model stay; their rounding is measured and taken into account.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from equiscope.audit.inputs.variations import resampled
from equiscope.audit.statements.measured_property import MeasuredProperty, max_error, verdict_of
from equiscope.audit.subject import ModelError, Outputs, Pass, Subject, copy_in_dtype
from equiscope.audit.verdict import SEVERITY
from equiscope.record import OutputVerdict, Row
from equiscope.symmetry import Inputs

KERNELS = {
    "math kernel": SDPBackend.MATH, "flash kernel": SDPBackend.FLASH_ATTENTION,
    "efficient kernel": SDPBackend.EFFICIENT_ATTENTION, "cudnn kernel": SDPBackend.CUDNN_ATTENTION,
}  # fmt: skip
HIDDEN = 32  # times the rounding of casts inside the model: a smaller error in float64 is rounding
Forward = Callable[..., Any]
Engine = Callable[[Forward], Forward]


class Engines(MeasuredProperty):
    """The same outputs from torch.compile, torch.export and every kernel of scaled_dot_product_attention.

    backend  of torch.compile
    """

    name = "engines"
    summary = "compiled, exported and with other attention kernels, the outputs are the same"
    by_default = False

    def __init__(self, backend: str = "inductor") -> None:
        self.backend = backend

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        bench = _Bench(subject, tolerance)
        engines: dict[str, Engine] = {"compiled": self._compiled}
        if bench.attends:
            engines |= {name: using_kernel(kernel) for name, kernel in KERNELS.items()}
        found = {name: bench.compared(engine) for name, engine in engines.items()}
        found = {name: measured for name, measured in found.items() if "No viable backend" not in measured[2]}  # of this device
        found["exported"] = bench.exported()
        outputs = [OutputVerdict(name=name, verdict=v, error=error, note=note) for name, (v, error, note) in found.items()]
        decided = [o for o in outputs if o.verdict != "undecided"]
        notes = [f"{o.name}: {o.note}" for o in outputs if o.note]
        if not decided:
            return self.row("undecided", note="; ".join(notes), outputs=outputs)
        verdict = max((o.verdict for o in decided), key=SEVERITY.__getitem__)
        errors = [o.error for o in decided if o.error is not None]
        wrong = [o.name for o in decided if o.verdict != "holds"]
        where = next((bench.where(engines[name]) for name in wrong if name in engines), "")
        cause = f"another computation: {', '.join(wrong)}" if wrong else ""
        return self.row(verdict, errors, where=where, cause=cause, note="; ".join(notes), outputs=outputs)

    def _compiled(self, forward: Forward) -> Forward:
        compiled: Forward = torch.compile(forward, backend=self.backend)
        return compiled


def using_kernel(kernel: SDPBackend) -> Engine:
    """Run with one kernel of scaled_dot_product_attention."""

    def engine(forward: Forward) -> Forward:
        def run(*args: Any, **kwargs: Any) -> Any:
            with sdpa_kernel(kernel):
                return forward(*args, **kwargs)

        return run

    return engine


def _copy(subject: Subject, dtype: torch.dtype) -> Pass:
    other = subject.like(copy_in_dtype(subject.model, dtype))
    other.dtype = dtype
    return Pass(other, dtype, False)


Measured = tuple[Any, float | None, str]  # verdict, error, note


class _Bench:
    """The model as it is, in both precisions, on the given inputs and on others."""

    def __init__(self, subject: Subject, tolerance: float) -> None:
        self.subject, self.tolerance = subject, tolerance
        self.graph: Any = None
        self.runs = {dtype: _copy(subject, dtype) for dtype in (torch.float64, torch.float32)}
        promoted = subject.in_dtype(torch.float64)
        exact = promoted(promoted.inputs)
        self.plain: dict[torch.dtype, list[Outputs]] = {}
        self.attends = False
        with _counting_attention() as seen:
            for dtype, run in self.runs.items():
                run.high_precision = False
                self.plain[dtype] = [self._outputs(run, inputs) for inputs in self._inputs(run)]
        self.attends = bool(seen)
        self.hidden = max_error(exact, self.plain[torch.float64][0])
        self.floor = max_error(exact, self.plain[torch.float32][0])

    def _inputs(self, run: Pass) -> list[Inputs]:
        other = resampled(self.subject.inputs.to(torch.float32), Generator().manual_seed(self.subject.seed + 37))
        return [run.inputs, other.to(run.dtype)]

    def _outputs(self, run: Pass, inputs: Inputs, model: Any = None) -> Outputs:
        return run.outputs_of(lambda counted: inputs.call(counted if model is None else model))

    def compared(self, engine: Engine, path: str = "") -> Measured:
        """Verdict, error and note of an engine for the model, or for one of its modules."""

        def outputs(run: Pass) -> list[Outputs]:
            module = run.model.get_submodule(path)
            forward = module.forward
            module.forward = engine(forward)
            try:
                return [self._outputs(run, inputs) for inputs in self._inputs(run)]
            finally:
                module.__dict__.pop("forward", None)

        return self._judged(outputs)

    def exported(self) -> Measured:
        """The same for the graph of torch.export, made on the given inputs and run on others too."""

        def outputs(run: Pass) -> list[Outputs]:
            def export(model: Any) -> Any:
                args, kwargs = run.inputs.call(lambda *args, **kwargs: (args, kwargs))
                graph = torch.export.export(run.model, args, kwargs, strict=False).module(check_guards=False)
                self.graph = graph
                return run.inputs.call(graph)

            first = run.outputs_of(export)
            return [first, self._outputs(run, self._inputs(run)[1], self.graph)]

        return self._judged(outputs)

    def _judged(self, outputs: Callable[[Pass], list[Outputs]]) -> Measured:
        errors: dict[torch.dtype, float] = {}
        for dtype, run in self.runs.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = outputs(run)
            except (ModelError, RuntimeError) as crash:
                text = " ".join(str(crash).split())
                return "undecided", None, text if len(text) <= 120 else text[:117] + "..."
            errors[dtype] = max(map(max_error, self.plain[dtype], found))
        error = errors[torch.float64]
        if error <= HIDDEN * self.hidden:
            return "holds", error, ""
        return verdict_of([error], [errors[torch.float32]], self.floor, self.tolerance), error, ""

    def where(self, engine: Engine, path: str = "") -> str:
        """The smallest module that the engine changes."""
        module = self.runs[torch.float64].model.get_submodule(path)
        for inner in _called_inside(module, path):
            if self.compared(engine, inner)[0] in ("approximate", "broken"):
                return self.where(engine, inner)
        return path or type(self.subject.model).__name__


def _called_inside(module: nn.Module, path: str) -> Iterator[str]:
    """Paths of the submodules; lists and dicts of modules are not called, so theirs stand for them."""
    for name, child in module.named_children():
        inner = f"{path}.{name}".lstrip(".")
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield from _called_inside(child, inner)
        else:
            yield inner


@contextmanager
def _counting_attention() -> Iterator[list[str]]:
    """Inside, calls of scaled_dot_product_attention are listed."""
    from torch.overrides import TorchFunctionMode

    seen: list[str] = []

    class Counting(TorchFunctionMode):
        """Lists the calls."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is nn.functional.scaled_dot_product_attention:
                seen.append("")
            return func(*args, **(kwargs or {}))

    with Counting():
        yield seen


__all__ = ["Engines"]
