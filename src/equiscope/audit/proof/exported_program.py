"""Program: a model as a list of ATen operations, by `torch.export`, with what goes in and what comes out told apart.

The numbers that go in lie in leaves: each knows which of its axes counts tokens, and whether its entries are free (words) or known
(places, masks).
"""

import linecache
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.subject import Pass, Subject
from equiscope.symmetry import Inputs
from equiscope.symmetry.inputs import AXIS, WORDS

FREE = ("ids", "features", "steps", "points", "vectors", "atoms", "image", "wave")


class Unexported(Exception):
    """`torch.export` gave no graph; the message says why."""


@dataclass(frozen=True)
class Leaf:
    """A tensor that the model is given.

    words  the axis that counts tokens and goes with them, from the end; None where it stays
    free   any numbers may stand there
    rows   the axis that counts the sequences of a batch; None where there is none
    """

    argument: str
    part: str
    value: Tensor
    words: int | None
    free: bool
    rows: int | None
    edges: bool = False


def leaves(inputs: Inputs) -> list[Leaf]:
    """Of Tokens the words and their flags (places stay what they are); every other tensor as it is."""
    found, batch = [], inputs.batch
    for name, value in inputs.values.items():
        kind = inputs.kinds[name]
        if kind == "tokens":
            rows = 0 if value.x.ndim > 2 else None
            found.append(Leaf(name, "x", value.x, -2, True, rows))
            for part in ("valid", "document"):
                flag = getattr(value, part)
                if flag is not None:
                    found.append(Leaf(name, part, flag, -1, False, rows if flag.ndim > 1 else None))
        elif isinstance(value, Tensor):
            first = 1 if kind == "steps" else 0
            rows = first if kind != "pairs" and value.ndim > first and value.shape[first] == batch else None
            words = AXIS[kind] if kind in WORDS else None
            found.append(Leaf(name, "", value, words, kind in FREE, rows, kind == "edges"))
    return found


def rebuilt(inputs: Inputs, parts: list[Leaf], values: tuple[Tensor, ...]) -> Inputs:
    """The same call with other tensors in the leaves."""
    made = dict(inputs.values)
    for leaf, value in zip(parts, values, strict=True):
        made[leaf.argument] = replace(made[leaf.argument], **{leaf.part: value}) if leaf.part else value
    return inputs.with_values(made)


class _Called(nn.Module):
    """The model as a function of its leaves to a tuple of its outputs."""

    def __init__(self, run: Pass, inputs: Inputs, parts: list[Leaf]) -> None:
        super().__init__()
        self.model = run.model
        self._given = (run, inputs, parts)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        run, inputs, parts = self._given
        subject = run.subject
        run.count(values)
        found = subject.chosen(rebuilt(inputs, parts, values).call(self.model))
        return tuple(t.clone() for t in found.values())


@dataclass(frozen=True)
class Program:
    """The graph of a model.

    parameters  placeholder -> name; buffers: placeholder -> its numbers; given: placeholder -> number of the leaf
    """

    graph: torch.fx.Graph
    module: torch.fx.GraphModule
    parameters: dict[str, str]
    buffers: dict[str, Tensor]
    given: dict[str, int]
    outputs: list[tuple[str, Any]]


def program(subject: Subject, inputs: Inputs, parts: list[Leaf], outputs: list[str]) -> Program:
    """Export. Raises Unexported where that cannot be done."""
    run = subject.in_dtype(subject.dtype)
    run.high_precision = False
    called = _Called(run, inputs, parts)
    try:
        with warnings.catch_warnings(), run.within(gradients=True), _slowly(), _quietly(), _forgotten():
            warnings.simplefilter("ignore")
            exported = torch.export.export(called, tuple(leaf.value for leaf in parts), strict=False)
            table = torch.export.default_decompositions()
            table.pop(torch.ops.aten.scaled_dot_product_attention.default, None)  # one operation: its parts are no view of q
            exported = exported.run_decompositions(table)
    except Exception as error:  # data-dependent control flow, operations that export does not know, anything a model does
        text = " ".join(str(error).split())
        raise Unexported(f"torch.export gave no graph: {type(error).__name__}: {text[:140]}") from error
    return _told_apart(exported, outputs, len(parts))


def _told_apart(exported: Any, names: list[str], count: int) -> Program:
    parameters: dict[str, str] = {}
    buffers: dict[str, Tensor] = {}
    given: dict[str, int] = {}
    for spec in exported.graph_signature.input_specs:
        kind, name = spec.kind.name, getattr(spec.arg, "name", "")
        if kind == "PARAMETER":
            parameters[name] = spec.target
        elif kind in ("BUFFER", "CONSTANT_TENSOR"):
            held = exported.state_dict.get(spec.target)
            buffers[name] = exported.constants[spec.target] if held is None else held
        elif kind == "USER_INPUT":
            given[name] = len(given)
        else:
            raise Unexported(f"the graph takes a {kind.lower()}, which has no rule")
    if len(given) != count:
        raise Unexported("the graph takes other inputs than the model")
    nodes = {n.name: n for n in exported.graph.nodes}
    made = [s.arg for s in exported.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    if len(made) != len(names):
        raise Unexported("the graph gives other outputs than the model")
    outputs = [(name, nodes.get(getattr(arg, "name", ""))) for name, arg in zip(names, made, strict=True)]
    return Program(exported.graph, exported.graph_module, parameters, buffers, given, outputs)


@contextmanager
def _forgotten() -> Iterator[None]:
    """Torch keeps the text of every graph module that it ever made; nothing is kept of those made here."""
    loader: Any = getattr(torch.fx.graph_module, "_loader", None)
    held: list[dict[str, Any]] = [linecache.cache, *([loader.eval_cache] if hasattr(loader, "eval_cache") else [])]
    before = [set(one) for one in held]
    try:
        yield
    finally:
        for one, names in zip(held, before, strict=True):
            for name in [n for n in one if n not in names and n.startswith("<eval_with_key>")]:
                del one[name]


@contextmanager
def _slowly() -> Iterator[None]:
    """Torch's own layers by their definition: no fused kernel that has no parts, no look at the numbers of a mask."""
    layers: Any = torch.nn.modules.transformer
    before, look = torch.backends.mha.get_fastpath_enabled(), layers._detect_is_causal_mask
    torch.backends.mha.set_fastpath_enabled(False)
    layers._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
        layers._detect_is_causal_mask = look


@contextmanager
def _quietly() -> Iterator[None]:
    import logging

    loggers = [
        logging.getLogger(n)
        for n in ("torch.export", "torch._export", "torch.fx", "torch._dynamo", "torch.fx.experimental.symbolic_shapes")
    ]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # a graph that cannot be made is printed in full
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
