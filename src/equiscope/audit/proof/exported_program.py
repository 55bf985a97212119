"""Exported program: a model as a graph of ATen operations from `torch.export`, with its inputs, parameters and outputs.

Its inputs are leaves: each records its axis of tokens, and whether its values are free (tokens) or fixed (positions, masks).
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
from equiscope.program.private import decomposed
from equiscope.symmetry import Inputs
from equiscope.symmetry.inputs import AXIS, WORDS, pair_axes

FREE = ("ids", "features", "steps", "points", "vectors", "atoms", "image", "wave")


class ExportError(Exception):
    """`torch.export` gave no graph; the message says why."""


@dataclass(frozen=True)
class ProofLeaf:
    """An input tensor of the model.

    token_axes  the axes of tokens, counted from the end, of values that move with the tokens: two of an adjacency
    free        whether the statement is about all values; otherwise the values are fixed
    batch_axis  the axis of sequences; None where there is none
    """

    argument: str
    part: str
    value: Tensor
    token_axes: tuple[int, ...]
    free: bool
    batch_axis: int | None
    edges: bool = False


def proof_leaves(inputs: Inputs) -> list[ProofLeaf]:
    """The leaves of the inputs: of Tokens the features and their flags (positions are fixed); every other tensor."""
    leaves, batch = [], inputs.batch
    for name, value in inputs.values.items():
        kind = inputs.kinds[name]
        if kind == "tokens":
            rows = 0 if value.x.ndim > 2 else None
            leaves.append(ProofLeaf(name, "x", value.x, (-2,), True, rows))
            for part in ("valid", "document"):
                flag = getattr(value, part)
                if flag is not None:
                    leaves.append(ProofLeaf(name, part, flag, (-1,), False, rows if flag.ndim > 1 else None))
        elif isinstance(value, Tensor):
            first = 1 if kind == "steps" else 0
            rows = first if kind != "pairs" and value.ndim > first and value.shape[first] == batch else None
            words: tuple[int, ...] = (AXIS[kind],) if kind in WORDS else ()
            if kind == "adjacency":
                words = pair_axes(value, inputs.length)
                rows = None if value.ndim + words[0] == 0 else rows
            leaves.append(ProofLeaf(name, "", value, words, kind in FREE, rows, kind == "edges"))
    return leaves


def with_leaf_values(inputs: Inputs, leaves: list[ProofLeaf], values: tuple[Tensor, ...]) -> Inputs:
    """The same call with other tensors in the leaves."""
    arguments = dict(inputs.values)
    for leaf, value in zip(leaves, values, strict=True):
        arguments[leaf.argument] = replace(arguments[leaf.argument], **{leaf.part: value}) if leaf.part else value
    return inputs.with_values(arguments)


class _LeafFunction(nn.Module):
    """The model as a function from its leaves to a tuple of its outputs."""

    def __init__(self, run: Pass, inputs: Inputs, leaves: list[ProofLeaf]) -> None:
        super().__init__()
        self.model = run.model
        self._call = (run, inputs, leaves)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        run, inputs, leaves = self._call
        subject = run.subject
        run.count(values)
        outputs_by_name = subject.select_outputs(with_leaf_values(inputs, leaves, values).call(self.model))
        return tuple(t.clone() for t in outputs_by_name.values())


@dataclass(frozen=True)
class ExportedProgram:
    """The graph of a model.

    parameters    placeholder -> name; buffers: placeholder -> values
    leaf_numbers  placeholder -> number of the leaf
    """

    graph: torch.fx.Graph
    module: torch.fx.GraphModule
    parameters: dict[str, str]
    buffers: dict[str, Tensor]
    leaf_numbers: dict[str, int]
    outputs: list[tuple[str, Any]]


def export_program(subject: Subject, inputs: Inputs, leaves: list[ProofLeaf], outputs: list[str]) -> ExportedProgram:
    """Export the model. Raises ExportError where that fails."""
    run = subject.in_dtype(subject.dtype)
    run.high_precision = False
    function = _LeafFunction(run, inputs, leaves)
    try:
        with warnings.catch_warnings(), run.within(gradients=True), _without_fast_paths(), _silenced(), _without_linecache():
            warnings.simplefilter("ignore")
            exported = torch.export.export(function, tuple(leaf.value for leaf in leaves), strict=False)
            exported = decomposed(exported)
    except Exception as error:  # data-dependent control flow, operations that export does not know, anything a model does
        text = " ".join(str(error).split())
        raise ExportError(f"torch.export gave no graph: {type(error).__name__}: {text[:140]}") from error
    return _split_signature(exported, outputs, len(leaves))


def _split_signature(exported: Any, names: list[str], count: int) -> ExportedProgram:
    parameters: dict[str, str] = {}
    buffers: dict[str, Tensor] = {}
    leaf_numbers: dict[str, int] = {}
    for spec in exported.graph_signature.input_specs:
        kind, name = spec.kind.name, getattr(spec.arg, "name", "")
        if kind == "PARAMETER":
            parameters[name] = spec.target
        elif kind in ("BUFFER", "CONSTANT_TENSOR"):
            buffer = exported.state_dict.get(spec.target)
            buffers[name] = exported.constants[spec.target] if buffer is None else buffer
        elif kind == "USER_INPUT":
            leaf_numbers[name] = len(leaf_numbers)
        else:
            raise ExportError(f"the graph takes a {kind.lower()}, which has no rule")
    if len(leaf_numbers) != count:
        raise ExportError("the graph has other inputs than the model")
    nodes = {n.name: n for n in exported.graph.nodes}
    results = [s.arg for s in exported.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    if len(results) != len(names):
        raise ExportError("the graph has other outputs than the model")
    outputs = [(name, nodes.get(getattr(arg, "name", ""))) for name, arg in zip(names, results, strict=True)]
    return ExportedProgram(exported.graph, exported.graph_module, parameters, buffers, leaf_numbers, outputs)


@contextmanager
def _without_linecache() -> Iterator[None]:
    """Inside, torch caches the source of every graph module; those of modules created here are removed afterwards."""
    loader: Any = getattr(torch.fx.graph_module, "_loader", None)
    caches: list[dict[str, Any]] = [linecache.cache, *([loader.eval_cache] if hasattr(loader, "eval_cache") else [])]
    before = [set(one) for one in caches]
    try:
        yield
    finally:
        for one, names in zip(caches, before, strict=True):
            for name in [n for n in one if n not in names and n.startswith("<eval_with_key>")]:
                del one[name]


@contextmanager
def _without_fast_paths() -> Iterator[None]:
    """Inside, torch's own layers run by their definition: no fused kernels, and no test of the values of a mask."""
    layers: Any = torch.nn.modules.transformer
    before, detect_causal = torch.backends.mha.get_fastpath_enabled(), layers._detect_is_causal_mask
    torch.backends.mha.set_fastpath_enabled(False)
    layers._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
        layers._detect_is_causal_mask = detect_causal


@contextmanager
def _silenced() -> Iterator[None]:
    import logging

    loggers = [
        logging.getLogger(n)
        for n in (
            "torch.export",
            "torch._export",
            "torch.fx",
            "torch._dynamo",
            "torch.fx.experimental.symbolic_shapes",
            "torch.__trace",
        )
    ]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):  # torch prints the graph where export fails
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
