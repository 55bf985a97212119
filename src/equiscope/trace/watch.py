"""Watch a model on an input: run it once and keep every named number.

A part names its own numbers in `legend`: attribute -> (symbol, axes in words, label). Inputs name themselves when they
have a method `leaves()` (Tokens do); bare tensors become content leaves.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from equiscope import record
from equiscope.errors import InputError
from equiscope.program import watch as capture
from equiscope.program.lower import lowered
from equiscope.trace.recorder import Given, Recorder, using


def watch(
    model: nn.Module,
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    only: str = "",
    arrays: bool = True,
    title: str = "",
    packed: dict[bytes, record.Array] | None = None,
) -> record.Trace:
    """The program that `model(*inputs, **kwargs)` runs, with its numbers. The result of the model is not changed.

    only    path of one submodule, e.g. "blocks.0.attention": the rest runs at full speed and is not written down
    arrays  keep the numbers of steps too; leaves always keep theirs
    packed  arrays already written down, by their bytes: traces that share this dict share their arrays

    A model that is not made of our operations is captured from outside: `equiscope.program`.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps: a compiled graph has no steps to watch
    modules = dict(model.named_modules())
    if only and only not in modules:
        raise InputError(f"The model has no part {only!r}. Its parts: {', '.join(list(modules)[1:12])}, ...")
    recorder = Recorder(only=only, arrays=arrays, packed={} if packed is None else packed)
    for tensor, given in _inputs([*inputs, *(kwargs or {}).values()]):
        recorder.introduce(tensor, given)
    for path, module in modules.items():
        _introduce_parameters(recorder, path, module)
    with torch.no_grad(), _scopes(recorder, modules), using(recorder):
        foreign = not only and not any(type(module).__module__.startswith("equiscope.") for module in modules.values())
        program = capture(model, *inputs, kwargs=kwargs) if foreign else None  # run once: it may write into what it is given
        output = model(*inputs, **(kwargs or {})) if program is None else program.output
    outputs = [recorder.ids[id(t)] for t in _tensors(output) if id(t) in recorder.ids]
    if not outputs and not (only and recorder.steps):
        if only:
            raise InputError(f"{type(modules[only]).__name__} makes none of our operations in {only!r}. Watch the whole model.")
        return lowered(program or capture(model, *inputs, kwargs=kwargs), arrays, title or type(model).__name__, packed)
    return record.Trace(title=title, leaves=recorder.leaves, steps=recorder.steps, outputs=outputs or [recorder.steps[-1].id])


def _inputs(inputs: Sequence[Any]) -> Iterator[tuple[Tensor, Given]]:
    """The first tokens ask and may answer; a second sequence only answers, and its rows are called "source"."""
    axis = "token"
    for value in inputs:
        if hasattr(value, "leaves"):
            yield from ((t, Given(name, *rest)) for t, (name, *rest) in value.leaves(axis))
            axis = "source"
        elif isinstance(value, Tensor):
            ends = ("token", "feature") if value.is_floating_point() else ("token",)
            axes = ("batch",) * (value.ndim - len(ends)) + ends[-value.ndim :] if value.ndim else ()
            yield (
                value,
                Given(
                    "X" if value.is_floating_point() else "ids",
                    "X" if value.is_floating_point() else "i",
                    "the input",
                    axes,
                    "content",
                ),
            )


NORM = {"weight": ("g", "feature", "gain of the norm"), "bias": ("s", "feature", "shift of the norm")}


def _introduce_parameters(recorder: Recorder, path: str, module: nn.Module) -> None:
    """Names of a module's parameters: a legend may speak of parts ("q_proj.weight"), and comes before what those say."""
    recorder.paths[id(module)] = path
    if isinstance(module, nn.Embedding):
        recorder.tables.add(id(module.weight))
    legend = NORM if isinstance(module, (nn.LayerNorm, nn.RMSNorm)) else getattr(module, "legend", {})
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if name in legend or "." not in name:
            symbol, axes, label = legend.get(name, (name, " ".join(["channel"] * tensor.ndim), name))
            recorder.introduce(tensor, Given(name, symbol, label, tuple(axes.split()), "weight", path))


@contextmanager
def _scopes(recorder: Recorder, modules: Mapping[str, nn.Module]) -> Iterator[None]:
    def enter(path: str) -> Any:
        def hook(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            recorder.scope.append(path)
            if path and path == recorder.only:
                for tensor, given in _inputs(inputs):
                    recorder.introduce(tensor, given)

        return hook

    def leave(*_: Any) -> None:
        recorder.scope.pop()

    with ExitStack() as stack:
        for path, module in modules.items():
            before = module.register_forward_pre_hook(enter(path))
            after = module.register_forward_hook(leave, always_call=True)
            stack.callback(before.remove)
            stack.callback(after.remove)
        yield


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
