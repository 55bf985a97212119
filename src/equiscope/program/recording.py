"""Recording: the calls that the two torch modes intercept become leaves, steps and values.

Each call runs once. Computation of the recorder itself, and the calls inside a call that is already a step, are hidden from both
modes.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.errors import counted
from equiscope.program.calls import (
    DROPOUT,
    EXITS,
    NOTHING,
    PROPERTIES,
    generator_state,
    op_name,
    raw_name,
    set_generator_state,
    written,
)
from equiscope.program.composites import COMPOSITES, drawn
from equiscope.program.hooks import hooked_everywhere
from equiscope.program.modes import Functions
from equiscope.program.origins import legend_of, named, tensors
from equiscope.program.private import draws, is_wrapped, opened, storage_of, version
from equiscope.program.program import Kind, Leaf, Level, Program, Ref, Step, ValueLabel, Written, each, leaves_of
from equiscope.program.source import NOWHERE, here
from equiscope.program.values import ValueTable, location


class Recording:
    """A program during its recording. hidden: nothing is recorded while it is above 0."""

    def __init__(self, model: nn.Module) -> None:
        self.program, self.hidden, self.count = Program(), 0, 0
        self.values = ValueTable(self.program.values, self._alias_step)
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.scope, self.name_counts = [""], defaultdict[str, int](int)
        self.named_tensors = dict(named(model))
        layers = (m for m in model.modules() if isinstance(m, (nn.TransformerEncoder, nn.TransformerEncoderLayer)))
        self.fast = torch.backends.mha.get_fastpath_enabled() and any(not m.training for m in layers)
        paths, self.of_caller = set(self.paths.values()), set[int]()
        for path, module in model.named_modules():
            for name, (symbol, axes, label) in legend_of(module).items():
                full = f"{path}.{name}" if path else name
                self.program.legend.setdefault(full, ValueLabel(symbol, tuple(axes.split()), label))
                if full in paths:
                    self.program.inside.setdefault(full, path)
            if hasattr(module, "legend") and type(module).forward is nn.Module.forward:  # others call its parts, as a scheme's
                self.of_caller |= {id(part) for part in module.modules()}

    # --- the two modes
    def function(self, net: Functions, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call from the function mode."""
        name, inputs = raw_name(func), [x for x in leaves_of((args, kwargs)) if isinstance(x, Tensor)]
        attribute = getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__")
        if self.hidden or torch.is_grad_enabled() or any(is_wrapped(t) for t in inputs):
            return func(*args, **kwargs)  # the dispatch mode records inside gradients and vmap
        if name in NOTHING or (attribute and name not in PROPERTIES):
            return func(*args, **kwargs)
        if func in COMPOSITES and (result := self._decomposed(net, func, args, kwargs)) is not NotImplemented:
            return result
        if name in DROPOUT:
            return self._dropout(func, args, kwargs)
        inner = None if name in EXITS else opened(func)
        if inner is not None:
            with net:
                return inner(*args, **kwargs)
        if draws(func):
            return func(*args, **kwargs)  # the dispatch mode records the random numbers
        with self.silence():
            return self.call(func, args, kwargs, "function")

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call from the dispatch mode."""
        if self.hidden:
            return func(*args, **kwargs)
        with self.silence():  # the function mode is on where C++ calls
            return self.call(func, args, kwargs, "aten")

    def _decomposed(self, net: Functions, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A composite call as its parts, which also run; NotImplemented where it has none for these arguments."""
        whole = func is F.scaled_dot_product_attention and drawn(args, kwargs)
        with net:
            parts = COMPOSITES[func](*args, **kwargs)
        if whole or parts is NotImplemented:
            return parts
        with self.silence():
            result = func(*args, **kwargs)
            for t, part in zip(leaves_of(result), leaves_of(parts), strict=True):
                if isinstance(t, Tensor):
                    self.values.assign(t, self.ref(part).id)
        return result

    def _dropout(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Dropout as a product with its random factor: drawn again on ones, from the generator's saved state."""
        x = args[0] if args else kwargs["input"]
        with self.silence():
            before = generator_state(x)
            result = func(*args, **kwargs)
            if result is x:
                return result
            after = generator_state(x)
            set_generator_state(x, before)
            factor = func(torch.ones_like(x), *args[1:], **{name: given for name, given in kwargs.items() if name != "input"})
            set_generator_state(x, after)
            refs = self.ref(x), Ref(self.leaf(factor, self._unique("dropped"), "chance"))
            self._write(Step("mul", torch.mul, refs, {}, [], self.scope[-1]), [(0, result)], [], [])
        return result

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: Level) -> Any:
        """Run a call and record it, hidden from both modes."""
        op, in_place = op_name(func)
        frozen = each(args, self._frozen), each(kwargs, self._frozen)
        given = [x for x in leaves_of((args, kwargs)) if isinstance(x, Tensor)]
        targets = written(func, in_place, args, kwargs)
        for t in targets:
            self.values.preserve(t)
        versions = [version(t) for t in given]
        chance = [generator_state(t) for t in given or [torch.empty(0)]] if draws(func) else []
        result = func(*args, **kwargs)
        by_chance = any(not torch.equal(a, generator_state(t)) for a, t in zip(chance, given or [torch.empty(0)], strict=False))
        secret = [t for t, before in zip(given, versions, strict=True) if version(t) != before and not _shares(t, targets)]
        if secret:
            self.note(f"{op} in {self.scope[-1] or 'the model'} writes an argument unannounced; the earlier value is lost")
        if raw_name(func) in EXITS:
            self._push(Step(op, func, *frozen, [], self.scope[-1], level, _copied(result), exits=True))
            return result
        new_tensors = [(i, x) for i, x in enumerate(leaves_of(result)) if isinstance(x, Tensor) and not any(x is t for t in given)]
        if by_chance:
            for t in targets:
                self.values.mark_written(t, self._leaf(t, self._unique(op), "chance"))
            for _, t in new_tensors:
                self.leaf(t, self._unique(op), "chance")
        elif not targets and ("empty" in op or not any(isinstance(x, Ref) for x in leaves_of(frozen))):
            for _, t in new_tensors:
                self.leaf(t, self._unique(op), "constant")
        elif new_tensors or targets or secret:
            self._write(Step(op, func, *frozen, [], self.scope[-1], level), new_tensors, given, targets + secret)
        return result

    def _write(self, step: Step, results: list[tuple[int, Tensor]], given: list[Tensor], targets: list[Tensor]) -> None:
        for t in targets:
            value = self._value(step.op)
            step.outputs.append((value, Written(next(i for i, x in enumerate(given) if x is t))))
            self.values.mark_written(t, value)
        for index, t in results:
            value = self._value(step.op)
            step.outputs.append((value, index))
            self.values.assign(t, value)
        self._push(step)

    # --- values
    def ref(self, t: Tensor) -> Ref:
        """The value of a tensor; a new leaf where no step computed it."""
        value = self.values.find(t)
        if value is None:
            name, kind = self.named_tensors.get(location(t), ("", "unknown"))
            value = self.leaf(t, name or self._unique("unknown"), kind)
        return Ref(value)

    def _frozen(self, x: Any) -> Any:
        return self.ref(x) if isinstance(x, Tensor) else x

    def add_input(self, t: Tensor, name: str, called: ValueLabel | None = None) -> None:
        """Add an input; a tensor that is passed twice is one leaf with two names."""
        value = self.values.find(t)
        if value is None:
            value = self.leaf(t, name, "input")
        else:
            self.program.names[name] = value
        if called is not None:
            self.program.labels.setdefault(value, called)

    def leaf(self, t: Tensor, name: str, kind: Kind) -> int:
        """Add a leaf with the numbers of a tensor."""
        value = self._leaf(t, name, kind)
        self.values.assign(t, value)
        return value

    def _leaf(self, t: Tensor, name: str, kind: Kind) -> int:
        value = self._value(name, exact=True)
        source = here() if kind in ("constant", "chance") else NOWHERE
        self.program.leaves.append(Leaf(value, name, kind, t, self.scope[-1], source))
        return value

    def _value(self, name: str, exact: bool = False) -> int:
        value, self.count = self.count, self.count + 1
        name = name if exact and name not in self.program.names else self._unique(name)
        self.program.names[name] = value
        return value

    def _unique(self, name: str) -> str:
        where = self.scope[-1]
        base = f"{where}.{name}" if where else name
        names = self.program.names
        if base not in names:
            return base
        self.name_counts[base] += 1
        return f"{base}~{self.name_counts[base] + 1}"

    # --- steps
    def _alias_step(self, op: str, func: Callable[..., Tensor], args: tuple[Any, ...]) -> int:
        """A step of the capture that reads or writes a storage: its tensor arguments are values."""
        value = self._value(op)
        refs = 2 if op == "put" else 1
        self._push(Step(op, func, (*map(Ref, args[:refs]), *args[refs:]), {}, [(value, 0)], self.scope[-1], "alias"))
        self.program.values[value] = func(*(self.program.values[x] for x in args[:refs]), *args[refs:])
        return value

    def _push(self, step: Step) -> None:
        step.inputs = tuple(x.id for x in leaves_of((step.args, step.kwargs)) if isinstance(x, Ref))
        step.source = here()
        self.program.steps.append(step)

    def note(self, text: str) -> None:
        if text not in self.program.notes:
            self.program.notes.append(text)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Inside, nothing is recorded."""
        self.hidden += 1
        try:
            yield
        finally:
            self.hidden -= 1

    @contextmanager
    def scopes(self) -> Iterator[None]:
        """Inside, the last scope is the path of the module that runs."""

        def enter(module: nn.Module, _: Any) -> None:
            caller = self.scope[-1]
            path = caller if id(module) in self.of_caller else self.paths.get(id(module), caller)
            self.scope.append(path)

        def leave(module: nn.Module, given: Any, output: Any) -> None:
            self.scope.pop()
            path = self.paths.get(id(module), "")
            value = self.values.find(output) if isinstance(output, Tensor) and path in self.program.inside else None
            if value is not None:
                self.program.labels.setdefault(value, self.program.legend[path])

        with hooked_everywhere(enter, leave):
            yield

    def finish(self, output: Any) -> Program:
        """The finished program, with the model's output."""
        program = self.program
        program.output = output
        program.outputs = {path: self.ref(t).id for path, t in tensors(output)}
        for leaf in program.leaves:
            leaf.value = program.values[leaf.id]
        if self.fast and any(leaf.kind == "input" and leaf.value.dtype == torch.bool for leaf in program.leaves):
            self.note(
                "Unwatched, torch may run its layers on a fast path, where padding rows are 0. Watched, it runs the plain path: "
                "compare with torch.backends.mha.set_fastpath_enabled(False)."
            )
        unknown = [leaf.name for leaf in program.leaves if leaf.kind == "unknown"]
        if unknown:
            self.note(
                f"{counted(len(unknown), 'tensor was', 'tensors were')} computed by code that was not recorded (a "
                "thread, another library): "
                f"{', '.join(unknown[:4])}. Values that depend on them do not change in a replay."
            )
        return program


def _shares(t: Tensor, targets: list[Tensor]) -> bool:
    return any(storage_of(t) == storage_of(other) for other in targets)


def _copied(value: Any) -> Any:
    """A copy of a value whose memory the model may still write."""
    return value.copy() if hasattr(value, "copy") else value
