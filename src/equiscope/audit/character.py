"""Character: what a model is like before anything is asked of it, since it decides what an answer is worth.

A model that draws random numbers breaks every symmetry in one run; one that answers the same to everything keeps every one; one
that leaves the range of its own precision answers nothing, whatever it would do in float64.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.parameter import is_lazy

from equiscope.audit.inputs.variations import varied
from equiscope.audit.subject import Crashed, Outputs, Pass, Subject
from equiscope.audit.subject.outputs import finite
from equiscope.errors import InputError

HALF = (torch.bfloat16, torch.float16)
MAX_KINDS = 12  # kinds of modules of which it is asked


def require_data(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Whether there are numbers to compute with. Raises InputError where there are none."""
    tensors = {**{f"argument {i}": value for i, value in enumerate(args)}, **kwargs}
    named_tensors = [*model.named_parameters(), *model.named_buffers(), *tensors.items()]
    if lazy := [n for n, t in named_tensors if isinstance(t, Tensor) and is_lazy(t)]:
        raise InputError(
            f"{lazy[0]} has no shape yet: a lazy layer gets it from its first input. Call the model once, then check it."
        )
    if bare := [n for n, t in named_tensors if isinstance(t, Tensor) and t.is_meta]:
        raise InputError(
            f"{bare[0]} is on the device 'meta': it has a shape and no numbers, so nothing can be measured. "
            "Make the model with numbers first, as with model.to_empty(device='cpu') and its weights loaded."
        )
    if empty := [n for n, t in tensors.items() if isinstance(t, Tensor) and not t.numel()]:
        raise InputError(
            f"{empty[0]} has the shape {list(tensors[empty[0]].shape)}: there is nothing in it. Give one token or more."
        )


def require_callable(subject: Subject) -> None:
    """Run the model once as it is given. Raises InputError with the model's own message where it raises.

    The call is made on a copy, and its parameters are compared afterwards: a model that writes into them stays as it was, and the
    subject knows that only copies may be run.
    """
    try:
        run = subject.on_copy()
        run(run.inputs)
        subject.gradients = run.subject.gradients
        subject.writes_parameters = not run.changed_state.isdisjoint(n for n, _ in run.model.named_parameters())
    except Crashed as crash:
        if subject.dtype in HALF:  # not every operation is there in every precision
            return
        raise InputError(
            f"{type(subject.model).__name__} could not be called with these inputs ({subject.inputs.told()}): {crash}. "
            "Call it as model(*inputs, **kwargs) first, and check with what works there."
        ) from crash


def mode_differences(subject: Subject) -> list[str]:
    """Of a model that came in training mode and was measured in evaluation: the layers whose answers differ between the two."""
    training_layers = [(path, m) for path, m in subject.model.named_modules() if m.training and _depends_on_mode(m)]
    if subject.mode != "eval" or not training_layers:
        return []
    run = subject.in_dtype(subject.dtype)
    try:
        original = run(run.inputs)
    except Crashed:
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
        except Crashed:  # a batch norm of one number raises while it learns
            same = False
        if not same:
            more = f" and {len(paths) - 2} more" if len(paths) > 2 else ""
            differ.append(f"{', '.join(p or kind.__name__ for p in paths[:2])}{more} ({kind.__name__})")
    if not differ:
        return []
    return [
        "The model came in training mode and was measured in evaluation mode. The outputs of these layers differ in training mode: "
        f"{'; '.join(differ)}. Pass mode='train' (--mode train) to measure that mode, without dropout."
    ]


def _depends_on_mode(m: nn.Module) -> bool:
    """Whether the output of a module may differ in training mode: of torch's own, dropout and layers with batch statistics."""
    own = not type(m).__module__.startswith("torch.")
    return (
        own
        or any(word in type(m).__name__ for word in ("Drop", "BatchNorm", "InstanceNorm", "RReLU"))
        or bool(getattr(m, "dropout", 0))
    )


def is_random(run: Pass) -> bool:
    """Whether another seed gives another answer. One pass."""
    return not _same(run(run.inputs), run.outputs_of(run.inputs.to(run.dtype).call, seed=run.subject.seed + 1))


def is_constant(run: Pass) -> bool:
    """Whether two other texts get the very same answer. Two passes at most."""
    generator, original = Generator().manual_seed(run.subject.seed + 5), run(run.inputs)
    try:
        return not finite(original) and all(_same(original, run(varied(run.inputs, generator))) for _ in range(2))
    except Crashed:  # it refuses other words
        return False


def overflowing_output(run: Pass, wide: Outputs) -> str:
    """The name of an output that is finite in float64 and not in this precision; empty where there is none."""
    own = run(run.inputs)
    nonfinite = {n: t.masked_fill(~torch.isfinite(wide[n]), 0.0) for n, t in own.items() if n in wide and wide[n].shape == t.shape}
    return finite(nonfinite)  # what is infinite in float64 too is meant


def _same(a: Outputs, b: Outputs) -> bool:
    return a.keys() == b.keys() and all(
        t.shape == b[n].shape and torch.equal(_comparable(t), _comparable(b[n])) for n, t in a.items()
    )


def _comparable(t: Tensor) -> Tensor:
    return t.nan_to_num(nan=1e300) if t.is_floating_point() else t  # no number equals itself here
