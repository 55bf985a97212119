"""Operations: which operation inside a module is the first that does not follow.

Once the module is known, both runs are read again, operation by operation, inside it only. An operation is the culprit when what
it was given is right and what it made is not. A mean over the wrong axis has no rows to compare; it is the culprit when the first
wrong rows were made with it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.diagnose.localize import RIGHT
from equiscope.audit.statements.pairs import RunPair, error
from equiscope.audit.subject import Pass
from equiscope.program.hooks import hooked
from equiscope.program.modes import Functions
from equiscope.symmetry import Inputs

ROOM = 2**23  # numbers that are kept of one reading; a fault is mostly near the beginning of the module that makes it
PASSING = ("lift_fresh", "detach", "alias", "from_numpy")  # they hand on what they are given


@dataclass(frozen=True)
class Operation:
    """One call of a function of torch: its name, the tensors it was given and those it made, as they were then.

    makers  for each tensor that it was given, the number of the operation that made it; None where that was before
    """

    name: str
    given: list[Tensor]
    made: list[Tensor]
    makers: list[int | None]


class _Reader:
    """Keeps operations as they were, while there is room."""

    def __init__(self) -> None:
        self.found: list[Operation] = []
        self.alive: list[Tensor] = []  # so that no two tensors ever have one id
        self.maker: dict[int, int] = {}
        self.room = ROOM

    def answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call and keep it."""
        if self.room <= 0:
            return func(*args, **kwargs)
        given = list(_tensors([args, kwargs]))
        before = [self._kept(t) for t in given]
        made = func(*args, **kwargs)
        out = list(_tensors(made))
        if out and _named(func) not in PASSING:
            makers = [self.maker.get(id(t)) for t in given]
            self.found.append(Operation(_named(func), before, [self._kept(t) for t in out], makers))
            self.alive += [*given, *out]
            self.maker |= {id(t): len(self.found) - 1 for t in out}
        return made

    def _kept(self, t: Tensor) -> Tensor:
        """As it is now. Parameters do not change, and need no copy."""
        if isinstance(t, nn.Parameter):
            return t.detach()
        self.room -= t.numel()
        return t.detach().clone()


def operations(run: Pass, module: nn.Module, call: Callable[[], Any]) -> list[Operation]:
    """Those inside the first call of a module, while something is called."""
    reader = _Reader()
    with run.within(), _inside(module, Functions(reader.answer)):
        call()
    return reader.found


@contextmanager
def _inside(module: nn.Module, reader: Functions) -> Iterator[None]:
    """The reader is on between the module's beginning and its end, the first time."""
    state = {"on": False, "done": False}

    def enter(*_: Any) -> None:
        if not state["on"] and not state["done"]:
            state["on"] = True
            reader.__enter__()

    def leave(*_: Any) -> None:
        if state["on"]:
            reader.__exit__(None, None, None)
            state.update(on=False, done=True)

    with hooked([("", module)], enter, leave):
        try:
            yield
        finally:
            leave()


def culprit(run: Pass, pair: RunPair, module: nn.Module, other: Inputs) -> str:
    """The name of the first operation that does not follow; empty where none can be told.

    other  inputs with other words: what is the same for them does not depend on words, and need not follow
    """
    found = _first_wrong(run, pair, module, other)
    if found is None:
        return ""
    original, transformed, _, i = found
    return original[_source(pair, original, transformed, i)].name


def bearer(run: Pass, pair: RunPair, module: nn.Module, other: Inputs) -> str:
    """The path of the parameter or buffer that the first operation which breaks the statement adds to the tokens, or of the layer
    that holds it; empty where there is none."""
    found = _first_wrong(run, pair, module, other)
    if found is None or (told := found[2]) is None:
        return ""
    original, i = found[0], found[3]
    held = {p.data_ptr(): name for name, p in run.model.named_parameters()}
    seen, waiting = set[int](), [i]
    while waiting:
        number = waiting.pop()
        for t, maker in zip(original[number].given, original[number].makers, strict=True):
            name = held.get(t.data_ptr()) or next((n for n, b in run.model.named_buffers() if maker is None and _same(b, t)), "")
            if name and t.ndim > 1:
                owner = run.model.get_submodule(name.rpartition(".")[0])
                return name.rpartition(".")[0] if name.count(".") and not list(owner.children()) else name
            if maker is not None and maker not in seen and all(map(_same, original[maker].made, told[maker].made)):
                seen.add(maker)
                waiting.append(maker)
    return ""


def _first_wrong(
    run: Pass, pair: RunPair, module: nn.Module, other: Inputs
) -> tuple[list[Operation], list[Operation], list[Operation] | None, int] | None:
    """Operations of both runs and of one with other words, and the number of the first that does not follow."""
    if not isinstance(pair.transformed, Inputs):
        return None
    original, transformed, told = (_read(run, module, given) for given in (pair.original, pair.transformed, other))
    if [a.name for a in original] != [b.name for b in transformed]:
        return None
    fixed = told if [o.name for o in told] == [a.name for a in original] else None
    for i, (a, b) in enumerate(zip(original, transformed, strict=True)):
        if _wrong(pair, a.made, b.made, fixed[i].made if fixed else None):
            return original, transformed, fixed, i
    return None


def _read(run: Pass, module: nn.Module, inputs: Inputs) -> list[Operation]:
    return operations(run, module, lambda: inputs.to(run.dtype).call(run.counted_model))


def _source(pair: RunPair, original: list[Operation], transformed: list[Operation], i: int) -> int:
    """Back from an operation to the one that made what it was given without rows of tokens, and other than before."""
    for a, b, maker in zip(original[i].given, transformed[i].given, original[i].makers, strict=True):
        if maker is not None and a.is_floating_point() and pair.relation.inner(a, b) is None and not _same(a, b):
            return _source(pair, original, transformed, maker)
    return i


def _wrong(pair: RunPair, original: list[Tensor], transformed: list[Tensor], told: list[Tensor] | None) -> bool:
    for k, (a, b) in enumerate(zip(original, transformed, strict=False)):
        if not a.is_floating_point() or (told is not None and k < len(told) and _same(a, told[k])):
            continue
        sides = pair.relation.inner(a, b)
        if sides is not None and not error(*sides) < RIGHT:
            return True
    return False


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a, b)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _named(func: Any) -> str:
    name = getattr(func, "__name__", str(func)).removesuffix(".default").strip("_")
    return {"rsub": "sub", "radd": "add", "rmul": "mul", "rtruediv": "div", "truediv": "div"}.get(name, name)


__all__ = ["Operation", "bearer", "culprit", "operations"]
