"""Character: is the model random, constant, or does it overflow? That decides what a measurement is worth.

A model that draws random numbers breaks every symmetry in a single run. A constant model keeps every symmetry. A model that
overflows in its own precision gives no result there, whatever it does in float64.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.parameter import is_lazy

from equiscope.audit.inputs.variations import resampled
from equiscope.audit.subject import ModelError, Outputs, Pass, Subject
from equiscope.audit.subject.outputs import finite
from equiscope.errors import InputError

HALF = (torch.bfloat16, torch.float16)
MAX_KINDS = 12  # classes of modules that are tested in training mode


def require_data(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raises InputError where a parameter or an input has no data: lazy, on the device 'meta', or empty."""
    tensors = {**{f"argument {i}": value for i, value in enumerate(args)}, **kwargs}
    named_tensors = [*model.named_parameters(), *model.named_buffers(), *tensors.items()]
    if lazy := [n for n, t in named_tensors if isinstance(t, Tensor) and is_lazy(t)]:
        raise InputError(
            f"{lazy[0]} has no shape yet: a lazy layer takes it from its first input. Call the model once, then check it."
        )
    if bare := [n for n, t in named_tensors if isinstance(t, Tensor) and t.is_meta]:
        raise InputError(
            f"{bare[0]} is on the device 'meta': it has a shape but no data, so nothing can be measured. "
            "Allocate the model first, for example with model.to_empty(device='cpu'), and load its weights."
        )
    if empty := [n for n, t in tensors.items() if isinstance(t, Tensor) and not t.numel()]:
        raise InputError(
            f"{empty[0]} has the shape {list(tensors[empty[0]].shape)}: there is nothing in it. Give one token or more."
        )


def require_callable(subject: Subject) -> None:
    """Call the model once. Raises InputError with the model's own message where it raises.

    The call runs on a copy whose parameters are compared afterwards. Where the model writes into them, the subject remembers that
    only copies may be run.
    """
    try:
        run = subject.on_copy()
        run(run.inputs)
        subject.gradients = run.subject.gradients
        subject.writes_parameters = not run.changed_state.isdisjoint(n for n, _ in run.model.named_parameters())
    except ModelError as crash:
        if subject.dtype in HALF:  # not every operation exists in every precision
            return
        raise InputError(
            f"{type(subject.model).__name__} could not be called with these inputs ({subject.inputs.describe()}): {crash}. "
            "Call it as model(*inputs, **kwargs) first, and pass to the check what works there."
        ) from crash


def mode_differences(subject: Subject) -> list[str]:
    """A note on a model that was passed in training mode and measured in evaluation mode: the layers whose outputs differ."""
    training_layers = [(path, m) for path, m in subject.model.named_modules() if m.training and _depends_on_mode(m)]
    if subject.mode != "eval" or not training_layers:
        return []
    run = subject.in_dtype(subject.dtype)
    try:
        original = run(run.inputs)
        if not _same(original, run.outputs_of(run.inputs.call)):  # no two calls are equal, in any mode
            return []
    except ModelError:
        return []
    kinds, modules = dict[type, list[str]](), dict(run.model.named_modules())
    for path, m in training_layers:
        kinds.setdefault(type(m), []).append(path)
    differ: list[str] = []
    for kind, paths in list(kinds.items())[:MAX_KINDS]:

        def in_training(model: nn.Module, paths: list[str] = paths) -> Any:
            for path in paths:
                modules[path].training = True
            return run.inputs.call(model)

        try:
            same = _same(original, run.outputs_of(in_training))
        except ModelError:  # a batch norm of one number raises in training mode
            same = False
        if not same:
            more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
            differ.append(f"{', '.join(p or kind.__name__ for p in paths[:2])}{more} ({kind.__name__})")
    if not differ:
        return []
    return [
        "The model was passed in training mode and measured in evaluation mode. In training mode these layers differ: "
        f"{'; '.join(differ)}. Pass mode='train' (--mode train) to measure that mode, without dropout."
    ]


def _depends_on_mode(m: nn.Module) -> bool:
    """Whether the output of a module may differ in training mode: any custom module, and torch's dropout and batch statistics."""
    own = not type(m).__module__.startswith("torch.")
    return (
        own
        or any(word in type(m).__name__ for word in ("Drop", "BatchNorm", "InstanceNorm", "RReLU"))
        or bool(getattr(m, "dropout", 0))
    )


def is_random(run: Pass) -> bool:
    """Whether another seed gives another output. One pass."""
    return not _same(run(run.inputs), run.outputs_of(run.inputs.to(run.dtype).call, seed=run.subject.seed + 1))


def is_constant(run: Pass) -> bool:
    """Whether two other inputs give the same output. At most two passes."""
    generator, original = Generator().manual_seed(run.subject.seed + 5), run(run.inputs)
    try:
        return not finite(original) and all(_same(original, run(resampled(run.inputs, generator))) for _ in range(2))
    except ModelError:  # the model rejects other inputs
        return False


def overflowing_output(run: Pass, wide: Outputs) -> str:
    """The name of an output that is finite in float64 but not in this precision; empty where there is none."""
    own = run(run.inputs)
    nonfinite = {n: t.masked_fill(~torch.isfinite(wide[n]), 0.0) for n, t in own.items() if n in wide and wide[n].shape == t.shape}
    return finite(nonfinite)  # infinite in float64 too: intended


def _same(a: Outputs, b: Outputs) -> bool:
    return a.keys() == b.keys() and all(
        t.shape == b[n].shape and torch.equal(_comparable(t), _comparable(b[n])) for n, t in a.items()
    )


def _comparable(t: Tensor) -> Tensor:
    return t.nan_to_num(nan=1e300) if t.is_floating_point() else t  # NaN compares equal to NaN
