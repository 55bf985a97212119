"""Watch any module from outside: two nets under a running model, and every call of torch belongs to exactly one step.

The upper net (a function mode) sees calls as the model wrote them; Python functions of torch are opened, so that a step is a
function that torch has in C. The lower net (a dispatch mode) takes each ATen call outside of these: scripted modules, vmap,
gradients, C++. The model's own call always runs; the capture's own arithmetic is hidden from both nets.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from equiscope.program.calls import EXITS, NOTHING, PROPERTIES, op_name, raw_name, written
from equiscope.program.composites import COMPOSITES, drawn
from equiscope.program.private import draws, is_wrapped, opened, storage_of, version
from equiscope.program.program import Kind, Leaf, Level, Program, Ref, Step, Written, each, leaves_of
from equiscope.program.values import Values, lies


def watch(model: nn.Module, *inputs: Any, kwargs: Mapping[str, Any] | None = None) -> Program:
    """The program that `model(*inputs, **kwargs)` runs, with its numbers. What the model returns is not changed.

    Tensors of inputs and outputs may stand in lists, mappings and objects. A compiled model runs as it was before compilation.
    """
    model = getattr(model, "_orig_mod", model)
    capture = _Capture(model)
    for path, t in tensors([list(inputs), dict(kwargs or {})]):
        capture.take(t, f"input.{path.split('.', 1)[-1]}")
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(capture.scopes())
        stack.enter_context(_Lower(capture))
        stack.enter_context(_Upper(capture))
        output = model(*inputs, **(kwargs or {}))
    return capture.finish(output)


class _Upper(TorchFunctionMode):
    def __init__(self, capture: "_Capture") -> None:
        super().__init__()
        self.capture = capture

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.capture.function(self, func, args, kwargs or {})


class _Lower(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, capture: "_Capture") -> None:
        super().__init__()
        self.capture = capture

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.capture.hidden:
            return func(*args, **(kwargs or {}))
        with self.capture.silence():  # the upper net is on where C++ calls
            return self.capture.call(func, args, kwargs or {}, "aten")


class _Capture:
    """A program in the making. hidden: above 0 nothing is written down."""

    def __init__(self, model: nn.Module) -> None:
        self.program, self.hidden, self.count = Program(), 0, 0
        self.values = Values(self.program.values, self._own)
        self.paths = {id(module): path for path, module in model.named_modules()}
        self.scope, self.turns = [("", 0)], defaultdict[str, int](int)
        self.given = dict(_named(model))
        layers = (m for m in model.modules() if isinstance(m, (nn.TransformerEncoder, nn.TransformerEncoderLayer)))
        self.fast = torch.backends.mha.get_fastpath_enabled() and any(not m.training for m in layers)
        for path, module in model.named_modules():
            for name, called in getattr(module, "legend", {}).items():
                self.program.legend[f"{path}.{name}" if path else name] = called

    # --- the two nets
    def function(self, net: _Upper, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that the upper net saw."""
        name, inputs = raw_name(func), [x for x in leaves_of((args, kwargs)) if isinstance(x, Tensor)]
        attribute = getattr(func, "__name__", "") in ("__get__", "__set__", "__delete__")
        if self.hidden or torch.is_grad_enabled() or any(is_wrapped(t) for t in inputs):
            return func(*args, **kwargs)  # of gradients and vmap the lower net sees the inside
        if name in NOTHING or (attribute and name not in PROPERTIES):
            return func(*args, **kwargs)
        if func in COMPOSITES and (found := self._apart(net, func, args, kwargs)) is not NotImplemented:
            return found
        inner = None if name in EXITS else opened(func)
        if inner is not None:
            with net:
                return inner(*args, **kwargs)
        if draws(func):
            return func(*args, **kwargs)  # the lower net sees what is drawn
        with self.silence():
            return self.call(func, args, kwargs, "function")

    def _apart(self, net: _Upper, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call as its parts, which run beside it; NotImplemented where it has none on these arguments."""
        whole = func is F.scaled_dot_product_attention and drawn(args, kwargs)
        with net:
            parts = COMPOSITES[func](*args, **kwargs)
        if whole or parts is NotImplemented:
            return parts
        with self.silence():
            result = func(*args, **kwargs)
            for t, part in zip(leaves_of(result), leaves_of(parts), strict=True):
                if isinstance(t, Tensor):
                    self.values.know(t, self.ref(part).id)
        return result

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: Level) -> Any:
        """Run a call and write it down, in silence."""
        op, in_place = op_name(func)
        frozen = each(args, self._frozen), each(kwargs, self._frozen)
        given = [x for x in leaves_of((args, kwargs)) if isinstance(x, Tensor)]
        targets = written(func, in_place, args, kwargs)
        for t in targets:
            self.values.keep(t)
        versions, chance = [version(t) for t in given], torch.get_rng_state() if draws(func) else None
        result = func(*args, **kwargs)
        by_chance = chance is not None and not torch.equal(chance, torch.get_rng_state())
        secret = [t for t, before in zip(given, versions, strict=True) if version(t) != before and not _shares(t, targets)]
        if secret:
            self.note(
                f"{op} in {self.scope[-1][0] or 'the model'} writes an argument without saying so; what it was before is lost"
            )
        if raw_name(func) in EXITS:
            self._push(Step(op, func, *frozen, [], *self.scope[-1], level, _kept(result), exits=True))
            return result
        made = [(i, x) for i, x in enumerate(leaves_of(result)) if isinstance(x, Tensor) and not any(x is t for t in given)]
        if by_chance:
            for t in targets:
                self.values.written(t, self._leaf(t, self._unique(op), "chance"))
            for _, t in made:
                self.leaf(t, self._unique(op), "chance")
        elif not targets and ("empty" in op or not any(isinstance(x, Ref) for x in leaves_of(frozen))):
            for _, t in made:
                self.leaf(t, self._unique(op), "constant")
        elif made or targets or secret:
            self._write(Step(op, func, *frozen, [], *self.scope[-1], level), made, given, targets + secret)
        return result

    def _write(self, step: Step, made: list[tuple[int, Tensor]], given: list[Tensor], targets: list[Tensor]) -> None:
        for t in targets:
            value = self._value(step.op)
            step.outputs.append((value, Written(next(i for i, x in enumerate(given) if x is t))))
            self.values.written(t, value)
        for place, t in made:
            value = self._value(step.op)
            step.outputs.append((value, place))
            self.values.know(t, value)
        self._push(step)

    # --- values
    def ref(self, t: Tensor) -> Ref:
        """The value that a tensor is; a leaf where nobody made it."""
        found = self.values.find(t)
        if found is None:
            name, kind = self.given.get(lies(t), ("", "unknown"))
            found = self.leaf(t, name or self._unique("unknown"), kind)
        return Ref(found)

    def _frozen(self, x: Any) -> Any:
        return self.ref(x) if isinstance(x, Tensor) else x

    def take(self, t: Tensor, name: str) -> None:
        """An input; a tensor that is given twice is one leaf with two names."""
        found = self.values.find(t)
        if found is None:
            self.leaf(t, name, "input")
        else:
            self.program.names[name] = found

    def leaf(self, t: Tensor, name: str, kind: Kind) -> int:
        """A leaf with the numbers of a tensor."""
        found = self._leaf(t, name, kind)
        self.values.know(t, found)
        return found

    def _leaf(self, t: Tensor, name: str, kind: Kind) -> int:
        value = self._value(name, exact=True)
        self.program.leaves.append(Leaf(value, name, kind, t, self.scope[-1][0]))
        return value

    def _value(self, name: str, exact: bool = False) -> int:
        value, self.count = self.count, self.count + 1
        name = name if exact and name not in self.program.names else self._unique(name)
        self.program.names[name] = value
        return value

    def _unique(self, name: str) -> str:
        where = self.scope[-1][0]
        base = f"{where}.{name}" if where else name
        names = self.program.names
        if base not in names:
            return base
        self.turns[f"~{base}"] += 1
        return f"{base}~{self.turns[f'~{base}'] + 1}"

    # --- steps
    def _own(self, op: str, func: Callable[..., Tensor], args: tuple[Any, ...]) -> int:
        """A step of our own: the whole, and what is put into it, are values."""
        value = self._value(op)
        refs = 2 if op == "put" else 1
        self._push(Step(op, func, (*map(Ref, args[:refs]), *args[refs:]), {}, [(value, 0)], *self.scope[-1], "alias"))
        self.program.values[value] = func(*(self.program.values[x] for x in args[:refs]), *args[refs:])
        return value

    def _push(self, step: Step) -> None:
        step.inputs = tuple(x.id for x in leaves_of((step.args, step.kwargs)) if isinstance(x, Ref))
        self.program.steps.append(step)

    def note(self, text: str) -> None:
        if text not in self.program.notes:
            self.program.notes.append(text)

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Arithmetic of the capture's own, and the inside of a call that is a step already."""
        self.hidden += 1
        try:
            yield
        finally:
            self.hidden -= 1

    @contextmanager
    def scopes(self) -> Iterator[None]:
        """Inside, the scope ends with the module that runs, and which of its calls this is."""

        def enter(module: nn.Module, _: Any) -> None:
            path = self.paths.get(id(module), self.scope[-1][0])
            self.scope.append((path, self.turns[path]))
            self.turns[path] += 1

        def leave(*_: Any) -> None:
            self.scope.pop()

        with ExitStack() as stack:
            stack.callback(register_module_forward_pre_hook(enter).remove)
            stack.callback(register_module_forward_hook(leave, always_call=True).remove)
            yield

    def finish(self, output: Any) -> Program:
        """The program, with what the model returned."""
        program = self.program
        program.output = output
        program.outputs = {path: self.ref(t).id for path, t in tensors(output)}
        for leaf in program.leaves:
            leaf.value = program.values[leaf.id]
        if self.fast and any(leaf.kind == "input" and leaf.value.dtype == torch.bool for leaf in program.leaves):
            self.note(
                "Unwatched, torch may run its layers on a fast path, where rows that are padding are 0. Watched it runs the plain "
                "path: compare with torch.backends.mha.set_fastpath_enabled(False)."
            )
        unknown = [leaf.name for leaf in program.leaves if leaf.kind == "unknown"]
        if unknown:
            self.note(
                f"{len(unknown)} tensors were made by code that the capture did not see (a thread, another library): "
                f"{', '.join(unknown[:4])}. What depends on them is as it was."
            )
        return program


def _shares(t: Tensor, targets: list[Tensor]) -> bool:
    return any(storage_of(t) == storage_of(other) for other in targets)


def _kept(said: Any) -> Any:
    """What was said, where it is memory that the model may still write."""
    return said.copy() if hasattr(said, "copy") else said


def _named(model: nn.Module) -> Iterator[tuple[Any, tuple[str, Kind]]]:
    """The model's own tensors by where they lie: parameters, buffers, and what stands as a plain attribute of a module."""
    for path, module in model.named_modules():
        for name, x in vars(module).items():
            for inner, t in tensors(x, name) if isinstance(x, (Tensor, list, tuple, dict)) and not name.startswith("_") else ():
                yield lies(t), (f"{path}.{inner}" if path else inner, "constant")
    for name, t in model.named_buffers():
        yield lies(t), (name, "buffer")
    for name, t in model.named_parameters():
        yield lies(t), (name, "parameter")


def tensors(some: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Tensor]]:
    """Tensors in arguments or outputs, also inside objects such as dataclasses and caches, each with its path."""
    seen = set() if seen is None else seen
    if isinstance(some, Tensor):
        yield path, some
    elif id(some) not in seen and not isinstance(some, (str, int, float, bool, type(None), torch.dtype, nn.Module, type)):
        seen.add(id(some))
        if isinstance(some, Mapping):
            items: Any = some.items()
        elif isinstance(some, (list, tuple)):
            items = enumerate(some)
        else:
            items = getattr(some, "__dict__", {}).items()
        for key, value in items:
            yield from tensors(value, f"{path}.{key}" if path else str(key), seen)
