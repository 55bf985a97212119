"""State: everything that a call of a model can leave behind, remembered and put back, so that one call cannot colour the next.

A model holds buffers and parameters, plain attributes, and objects of its own. Code beside it may keep state in its class, in a
default argument, in a closure or in a global of its file. All of these are looked through as far as Python shows them: containers,
tensors and arrays, and plain values. What hides elsewhere (a file, a C extension) is not seen.
"""

import collections
import functools
import pickle
import random
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

PLAIN = (int, float, bool, str, bytes, type(None), torch.Size, torch.dtype, torch.device)
CONTAINERS = (list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter)
LIBRARIES = ("torch", "numpy", "builtins", "typing", "collections", "abc", "functools")  # their state is not the model's
DEEPEST, MOST, CALLS = 6, 20_000, 4  # levels of containers in containers, things in all, and calls of functions that are followed


class State:
    """What a module and the code of its classes hold. parameters: whether their numbers are kept too, which costs their memory."""

    def __init__(self, model: nn.Module, parameters: bool = False) -> None:
        self.modules = dict(model.named_modules())
        self.buffers = {n: (b, b.detach().clone(), b._version) for n, b in model.named_buffers() if not b.is_inference()}
        self.parameters = {n: (p, p._version) for n, p in model.named_parameters() if not p.is_inference()}
        self.numbers = {n: p.detach().clone() for n, (p, _) in self.parameters.items()} if parameters else {}
        self.kept = _Kept()
        for path, module in self.modules.items():
            self.kept.attributes(path, module)
        for name, place in _outside(self.modules.values()):
            self.kept.place(name, place)

    def restore(self) -> set[str]:
        """Put everything back; names of what had changed."""
        changed = set(self._buffers()) | set(self._parameters())
        return changed | set(self.kept.restore())

    def _buffers(self) -> Iterator[str]:
        for name, (buffer, saved, version) in list(self.buffers.items()):
            path, _, key = name.rpartition(".")
            if _rebound(self.modules[path], "_buffers", key, buffer):
                yield name
            differs = not equal(buffer, saved)  # a batch norm's kernel writes without a new version
            if differs or buffer._version != version:
                with torch.no_grad():
                    buffer.copy_(saved)
                self.buffers[name] = (buffer, saved, buffer._version)
                if differs:
                    yield name
        for path, module in self.modules.items():
            if isinstance(module, torch.jit.ScriptModule):
                continue
            for key in [k for k in module._buffers if f"{path}.{k}".lstrip(".") not in self.buffers]:
                if module._buffers[key] is not None and not module._buffers[key].is_inference():
                    module._buffers[key] = None  # one that a call filled
                    yield f"{path}.{key}".lstrip(".")

    def _parameters(self) -> Iterator[str]:
        for name, (p, version) in self.parameters.items():
            path, _, key = name.rpartition(".")
            if _rebound(self.modules[path], "_parameters", key, p):
                yield name
            kept = self.numbers.get(name)
            changed = p._version != version if kept is None else not equal(p, kept)  # a write through .data has no version
            if changed:
                if kept is not None:
                    with torch.no_grad():
                        p.copy_(kept)
                self.parameters[name] = (p, p._version)
                yield name


def _rebound(module: nn.Module, held: str, key: str, tensor: Tensor) -> bool:
    """Put a tensor back under its name; whether another one was there. A ScriptModule's attributes cannot be replaced."""
    if isinstance(module, torch.jit.ScriptModule) or (holder := getattr(module, held)).get(key) is tensor:
        return False
    holder[key] = tensor
    return True


@dataclass(frozen=True)
class _Place:
    """Somewhere that a name is bound: how to read it, bind it again and unbind it."""

    read: Callable[[], Any]
    bind: Callable[[Any], None]


class _Kept:
    """Bindings, containers and tensors as they were."""

    def __init__(self) -> None:
        self.places: list[tuple[str, _Place, Any]] = []
        self.namespaces: list[tuple[str, dict[str, Any], set[str]]] = []  # attributes of modules, in which new names may appear
        self.contents: dict[int, tuple[str, Any, Any]] = {}  # id -> name, container, shallow copy
        self.tensors: dict[int, tuple[str, Any, Any]] = {}
        self.generators: dict[int, tuple[str, _Place, Any]] = {}

    def attributes(self, path: str, module: nn.Module) -> None:
        """Everything in a module but its parameters, buffers, parts and hooks."""
        held = vars(module)
        names = {n for n in held if n not in _INNER}
        self.namespaces.append((path, held, names))
        for name in names:
            self.place(f"{path}.{name}".lstrip("."), _attribute(held, name))
        for name, t in (
            [*module._parameters.items(), *module._buffers.items()] if not isinstance(module, torch.jit.ScriptModule) else []
        ):
            if t is not None:
                self.attached(f"{path}.{name}".lstrip("."), t)

    def attached(self, name: str, t: Tensor) -> None:
        """What somebody's code hangs on a tensor as an attribute."""
        held = vars(t)
        if id(held) not in self.contents:
            self.contents[id(held)] = (f"attributes of {name}", held, dict(held))
            for item in list(held.values()):
                self._within(name, item, 1)

    def place(self, name: str, place: _Place) -> None:
        """One name that is bound somewhere, with all that hangs on it."""
        value = place.read()
        self.places.append((name, place, value))
        self._within(name, value, 0)

    def _within(self, name: str, value: Any, depth: int) -> None:
        if isinstance(value, (*PLAIN, nn.Module, type, types.ModuleType)) or len(self.contents) > MOST:
            return
        if isinstance(value, Tensor):
            if not value.is_meta and not isinstance(value, nn.Parameter):
                self.attached(name, value)
                self.tensors.setdefault(id(value), (name, value, value.detach().clone()))
        elif type(value).__module__ == "numpy" and hasattr(value, "copy") and hasattr(value, "ndim"):
            self.tensors.setdefault(id(value), (name, value, value.copy()))
        elif (drawn := _generator(value)) is not None:
            self.generators.setdefault(id(value), (name, drawn, drawn.read()))
        elif depth >= DEEPEST or id(value) in self.contents:
            return
        elif isinstance(value, (functools.partial, types.MethodType, types.BuiltinMethodType)):
            for item in (
                [value.func, *value.args, *value.keywords.values()] if isinstance(value, functools.partial) else [value.__self__]
            ):
                self._within(name, item, depth + 1)
        elif _container(value):
            self.contents[id(value)] = (name, value, _shallow(value))
            for item in list(value.values()) if isinstance(value, dict) else list(value):
                self._within(name, item, depth + 1)
        elif isinstance(value, tuple):
            for item in value:
                self._within(name, item, depth + 1)
        elif _own_object(value):
            held = vars(value)
            self.contents[id(value)] = (name, held, dict(held))
            for item in list(held.values()):
                self._within(name, item, depth + 1)

    def restore(self) -> Iterator[str]:
        """Put everything back; the names of what had changed."""
        for path, held, names in self.namespaces:
            for name in [n for n in held if n not in names and n not in _INNER and not _is_hook(n)]:
                del held[name]
                yield f"{path}.{name}".lstrip(".")
        for name, place, value in self.places:
            now = place.read()
            if now is not value:
                place.bind(value)
                if not (isinstance(value, PLAIN) and type(now) is type(value) and now == value):
                    yield name
        for name, held, saved in self.contents.values():
            if not _alike(held, saved):
                _refill(held, saved)
                yield name
        for name, t, saved in self.tensors.values():
            if isinstance(t, Tensor):
                if t.shape == saved.shape and not equal(t.detach(), saved):
                    with torch.no_grad():
                        t.copy_(saved)
                    yield name
            elif t.shape == saved.shape and t.tobytes() != saved.tobytes():
                t[...] = saved
                yield name
        for name, place, state in self.generators.values():
            if pickle.dumps(place.read()) != pickle.dumps(state):
                place.bind(state)
                yield name


# ------------------------------------------------------------------------------------------- state beside the model's objects


def _outside(modules: Any) -> Iterator[tuple[str, _Place]]:
    """Where the code of the modules' classes keeps state: class attributes, defaults, closures, globals, memoised calls."""
    seen: set[int] = set()
    for owner in dict.fromkeys(type(m) for m in modules):
        for cls in (c for c in owner.__mro__ if not _library(c.__module__)):
            for name, value in list(vars(cls).items()):
                if (
                    type(value) in CONTAINERS
                    or isinstance(value, Tensor)
                    or (isinstance(value, PLAIN) and not name.startswith("__"))
                ):
                    yield f"{cls.__name__}.{name}", _class_attribute(cls, name)
        if not _library(owner.__module__):
            yield from _of_code(owner.forward, owner, seen, 0)


def _of_code(function: Any, owner: type, seen: set[int], depth: int) -> Iterator[tuple[str, _Place]]:
    """What a function may write into, and the functions that it calls: those of its class, its closure and its file.

    The results that a memoised function of the same file keeps are thrown away, now and whenever state is put back.
    """
    if hasattr(function, "cache_clear") and hasattr(function, "cache_info"):
        if getattr(function, "__module__", None) == owner.__module__ and id(function) not in seen:
            seen.add(id(function))
            function.cache_clear()
            yield f"the memoised results of {function.__qualname__}", _memoised(function)
        function = getattr(function, "__wrapped__", None)
    if not isinstance(function, types.FunctionType) or id(function) in seen or depth > CALLS:
        return
    seen.add(id(function))
    if _library(function.__module__ or ""):
        return
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        if type(value) in CONTAINERS:
            yield f"a default argument of {function.__qualname__}", _Place(lambda value=value: value, lambda _: None)  # type: ignore[misc]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        if type(value) in CONTAINERS or isinstance(value, (Tensor, *PLAIN)):
            yield f"{name} of {function.__qualname__}", _cell(cell)
        yield from _of_code(getattr(value, "__func__", value), owner, seen, depth + 1)
    names = _names(function.__code__)
    for held, name, value in _reached(function, names):
        if held is not function.__globals__ and isinstance(held, type):
            if _container(value) or isinstance(value, (Tensor, *PLAIN)):
                yield f"{held.__name__}.{name}", _class_attribute(held, name)
            yield from _of_code(getattr(value, "__func__", value), owner, seen, depth + 1)
        elif type(value) in CONTAINERS or isinstance(value, (Tensor, *PLAIN)) or _own_object(value):
            yield f"the global {name}", _attribute(held, name)
        elif isinstance(value, types.FunctionType) or hasattr(value, "cache_clear"):
            yield from _of_code(value, owner, seen, depth + 1)
    for name in names - function.__globals__.keys():
        method = getattr(owner, name, None)
        yield from _of_code(getattr(method, "__func__", method), owner, seen, depth + 1)
    yield f"attributes of {function.__qualname__}", _Place(lambda: vars(function), lambda _: None)


def _reached(function: types.FunctionType, names: set[str]) -> Iterator[tuple[Any, str, Any]]:
    """Globals that code names, and what it names of other files and classes among them: where they are held, name and value."""
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield function.__globals__, name, value
        if isinstance(value, types.ModuleType) and not _library(value.__name__):
            yield from ((vars(value), n, vars(value)[n]) for n in names & vars(value).keys())
        elif isinstance(value, type) and not _library(value.__module__) and not issubclass(value, nn.Module):
            yield from ((value, n, vars(value)[n]) for n in names & vars(value).keys())


def _memoised(function: Any) -> _Place:
    return _Place(lambda: function.cache_info().currsize, lambda _: function.cache_clear())


def _names(code: types.CodeType) -> set[str]:
    """Global names that code uses, in functions inside it too."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*(_names(c) for c in inner))


def _library(module: str) -> bool:
    return module.partition(".")[0] in LIBRARIES or module.partition(".")[0] in sys.stdlib_module_names


def _own_object(value: Any) -> bool:
    """Whether it is an object of somebody's class, with attributes that a call may change."""
    cls = type(value)
    if isinstance(value, type | types.ModuleType | types.FunctionType | types.MethodType | nn.Module | torch.Generator):
        return False
    return hasattr(value, "__dict__") and not _library(cls.__module__) and isinstance(vars(value), dict)


def _generator(value: Any) -> _Place | None:
    """The state of an object that draws random numbers."""
    if isinstance(value, torch.Generator):
        return _Place(lambda: value.get_state().tolist(), lambda state: _set_state(value, state))
    if isinstance(value, random.Random):
        return _Place(value.getstate, value.setstate)
    if type(value).__module__.startswith("numpy.random") and hasattr(value, "bit_generator"):
        return _Place(lambda: value.bit_generator.state, lambda state: setattr(value.bit_generator, "state", state))
    if type(value).__module__.startswith("numpy.random") and hasattr(value, "get_state"):
        return _Place(value.get_state, value.set_state)
    return None


def _set_state(generator: torch.Generator, state: list[int]) -> None:
    generator.set_state(torch.tensor(state, dtype=torch.uint8))


def _attribute(held: dict[str, Any], name: str) -> _Place:
    def bind(value: Any) -> None:
        if value is _INNER:
            held.pop(name, None)
        else:
            held[name] = value

    return _Place(lambda: held.get(name, _INNER), bind)


def _class_attribute(cls: type, name: str) -> _Place:
    return _Place(lambda: vars(cls).get(name), lambda value: setattr(cls, name, value))


def _cell(cell: Any) -> _Place:
    return _Place(lambda: cell.cell_contents, lambda value: setattr(cell, "cell_contents", value))


# -------------------------------------------------------------------------------------------------------------- containers


_INNER = {
    "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_non_persistent_buffers_set",
    "_is_full_backward_hook", "training",
}  # fmt: skip


def _is_hook(name: str) -> bool:
    return name.startswith("_") and name.endswith("_hooks")


def _container(value: Any) -> bool:
    """A list, dict, set or queue, or one of somebody's own class that is read as these are."""
    cls = type(value)
    if cls in CONTAINERS:
        return True
    plain = next((c for c in CONTAINERS if isinstance(value, c)), None)
    return plain is not None and not _library(cls.__module__) and cls.__iter__ is plain.__iter__ and cls.__len__ is plain.__len__


def _shallow(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else set(value) if isinstance(value, set) else list(value)


def _alike(a: Any, b: Any) -> bool:
    """Whether a container holds the very same things."""
    if len(a) != len(b):
        return False
    if isinstance(a, dict):
        return all(k in b and _same(v, b[k]) for k, v in a.items())
    if isinstance(a, set):
        return bool(a == b)
    return all(_same(x, y) for x, y in zip(a, b, strict=True))


def _same(x: Any, y: Any) -> bool:
    return x is y or (isinstance(x, PLAIN) and type(x) is type(y) and x == y)


def _refill(held: Any, saved: Any) -> None:
    held.clear()
    held.update(saved) if isinstance(held, dict | set) else held.extend(saved)


def equal(a: Tensor, b: Tensor) -> bool:
    """Whether not one bit differs; NaN equals NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if torch.equal(a, b):
        return True
    return a.is_floating_point() and bool(((a == b) | ((a != a) & (b != b))).all())
