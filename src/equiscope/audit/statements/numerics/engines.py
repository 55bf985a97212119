"""Engines: compiled, exported, with each kernel for attention and each kind of cache, a model computes what it computes as it is.

Gradients are compared too: compiled against as it is, and with each kernel. A cache is one of transformers, filled in pieces; a
rewound one has read other tokens, which `crop` removed, as in speculative decoding.

Both precisions are compared: rounding shrinks with the precision, another computation does not. torch.compile does not compile
under a mode that promotes casts, so here casts inside the model stay; their rounding is measured and taken into account.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Generator, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from equiscope.audit.inputs.variations import resampled
from equiscope.audit.statements.measured_property import MeasuredProperty, max_error, verdict_of
from equiscope.audit.statements.sequences.cache import run_transformers
from equiscope.audit.subject import ModelError, Outputs, Pass, Subject, arguments, copy_in_dtype
from equiscope.audit.subject.outputs import SelectedOutputs
from equiscope.audit.verdict import SEVERITY
from equiscope.record import OutputVerdict, Row
from equiscope.symmetry import Inputs

KERNELS = {
    "math kernel": SDPBackend.MATH, "flash kernel": SDPBackend.FLASH_ATTENTION,
    "efficient kernel": SDPBackend.EFFICIENT_ATTENTION, "cudnn kernel": SDPBackend.CUDNN_ATTENTION,
}  # fmt: skip
REWOUND = "rewound cache"
HIDDEN = 32  # times the rounding of casts inside the model: a smaller error in float64 is rounding
Forward = Callable[..., Any]
Engine = Callable[[Forward], Forward]


class Engines(MeasuredProperty):
    """The same outputs from torch.compile, torch.export, every kernel of scaled_dot_product_attention and every kind of cache.

    backend  of torch.compile
    """

    name = "engines"
    summary = "compiled, exported, with other attention kernels and kinds of caches, outputs and gradients are the same"
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
        same = [name for name, measured in found.items() if measured[0] == "holds" and bench.trainable]
        found |= {f"gradient, {name}": bench.gradients(engines[name]) for name in same}
        found["exported"] = bench.exported()
        found |= {name: bench.cached(make, name == REWOUND) for name, make in cache_kinds(subject).items()}
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


def cache_kinds(subject: Subject) -> dict[str, Callable[[Any, int], Any]]:
    """The caches of transformers that a model takes: a function of its config and of a length for each; empty for other models."""
    library, model = sys.modules.get("transformers"), subject.model
    config = getattr(model, "config", None)
    is_decoder = "past_key_values" in arguments(model) and subject.inputs.has("ids") and (subject.inputs.length or 0) > 3
    if library is None or config is None or not is_decoder or getattr(config, "is_encoder_decoder", False):
        return {}
    return {
        "dynamic cache": lambda config, _: library.DynamicCache(config=config),
        "static cache": lambda config, length: library.StaticCache(config=config, max_cache_len=length),
        "offloaded cache": lambda config, _: library.DynamicCache(config=config, offloading=True),
        REWOUND: lambda config, _: library.DynamicCache(config=config),
    }


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

    def cached(self, make: Callable[[Any, int], Any], rewound: bool) -> Measured:
        """The same from tokens that are read in pieces with a cache."""

        def outputs(run: Pass) -> list[Outputs]:
            first, other = self._inputs(run)
            return [self._cached(run, inputs, make, other if rewound else None) for inputs in (first, other)]

        return self._judged(outputs)

    def _cached(self, run: Pass, inputs: Inputs, make: Callable[[Any, int], Any], rewound: Inputs | None) -> Outputs:
        length = inputs.length or 0
        sizes = [length - 2, 1, 1] if rewound is None else [length // 2, length - length // 2 - 1, 1]
        if rewound is not None:  # the other tokens, in another order where they are the same
            rewound = rewound.each(lambda ids: ids.flip(-1), "ids")
        cache = make(run.model.config, length)
        return run.outputs_of(lambda model: run_transformers(model, inputs, sizes, self.subject, cache, rewound))

    @property
    def trainable(self) -> bool:
        """Whether there are parameters with a gradient."""
        return any(p.requires_grad for p in self.runs[torch.float64].model.parameters())

    def gradients(self, engine: Engine) -> Measured:
        """The same for the gradients of a random sum of the outputs with respect to every parameter."""
        plain = {dtype: [self._gradients(run, None)] for dtype, run in self.runs.items()}
        return self._judged(lambda run: [self._gradients(run, engine)], plain)

    def _gradients(self, run: Pass, engine: Engine | None) -> Outputs:
        parameters = {n: p for n, p in run.model.named_parameters() if p.requires_grad and p.is_floating_point()}

        def call(model: Any) -> Any:
            with torch.enable_grad():
                outputs = self.subject.select_outputs(run.inputs.call(model))
                generator = Generator().manual_seed(self.subject.seed + 41)
                numbers = [t for t in outputs.values() if t.is_floating_point()]
                random = [torch.randn(t.shape, dtype=torch.float64, generator=generator).to(t) for t in numbers]
                loss = torch.stack([(t * r).sum() for t, r in zip(numbers, random, strict=True)]).sum()
                found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
            parts = (torch.zeros_like(p) if g is None else g for p, g in zip(parameters.values(), found, strict=True))
            # one vector: the gradient of a bias of keys is zero but for rounding, and has no size of its own
            return SelectedOutputs({"": torch.cat([part.flatten() for part in parts])})

        forward = run.model.forward
        if engine is not None:
            run.model.forward = engine(forward)
        try:
            return run.outputs_of(call)
        finally:
            run.model.__dict__.pop("forward", None)

    def _judged(self, outputs: Callable[[Pass], list[Outputs]], plain: dict[torch.dtype, list[Outputs]] | None = None) -> Measured:
        errors: dict[torch.dtype, float] = {}
        for dtype, run in self.runs.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = outputs(run)
            except (ModelError, RuntimeError) as crash:
                text = " ".join(str(crash).split())
                return "undecided", None, text if len(text) <= 120 else text[:117] + "..."
            errors[dtype] = max(map(max_error, (plain or self.plain)[dtype], found))
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
