"""State: everything that a call of a model can change, saved and restored, so that one call does not affect the next.

A model holds buffers and parameters, plain attributes, and objects of its own. Its code may also keep state in a class, in a
default argument, in a closure or in a global of its file. All of these are saved as far as Python exposes them: containers,
tensors, arrays and plain values. State elsewhere (a file, a C extension) is not covered.
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
MAX_DEPTH, MAX_OBJECTS, MAX_CALLS = (
    6,
    20_000,
    4,
)  # levels of containers in containers, things in all, and calls of functions that are followed


class State:
    """The state of a module and of the code of its classes. parameters: whether their values are saved too, which costs memory."""

    def __init__(self, model: nn.Module, parameters: bool = False) -> None:
        self.modules = dict(model.named_modules())
        self.buffers = {n: (b, b.detach().clone(), b._version) for n, b in model.named_buffers() if not b.is_inference()}
        self.parameters = {n: (p, p._version) for n, p in model.named_parameters() if not p.is_inference()}
        self.numbers = {n: p.detach().clone() for n, (p, _) in self.parameters.items()} if parameters else {}
        self.snapshot = _Snapshot()
        for path, module in self.modules.items():
            self.snapshot.add_attributes(path, module)
        for name, binding in _code_state(self.modules.values()):
            self.snapshot.add_binding(name, binding)

    def restore(self) -> set[str]:
        """Restore everything. Returns the names of what had changed."""
        changed = set(self._buffers()) | set(self._parameters())
        return changed | set(self.snapshot.restore())

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
            snapshot = self.numbers.get(name)
            changed = p._version != version if snapshot is None else not equal(p, snapshot)  # a write through .data has no version
            if changed:
                if snapshot is not None:
                    with torch.no_grad():
                        p.copy_(snapshot)
                self.parameters[name] = (p, p._version)
                yield name


def _rebound(module: nn.Module, namespace: str, key: str, tensor: Tensor) -> bool:
    """Bind a tensor to its name again; whether another one was bound. Attributes of a ScriptModule cannot be replaced."""
    if isinstance(module, torch.jit.ScriptModule) or (holder := getattr(module, namespace)).get(key) is tensor:
        return False
    holder[key] = tensor
    return True


@dataclass(frozen=True)
class _Binding:
    """A place where a name is bound: how to read it and how to bind it again."""

    read: Callable[[], Any]
    bind: Callable[[Any], None]


class _Snapshot:
    """Bindings, containers and tensors as they were before the call."""

    def __init__(self) -> None:
        self.bindings: list[tuple[str, _Binding, Any]] = []
        self.namespaces: list[tuple[str, dict[str, Any], set[str]]] = []  # attributes of modules, where new names may appear
        self.contents: dict[int, tuple[str, Any, Any]] = {}  # id -> name, container, shallow copy
        self.tensors: dict[int, tuple[str, Any, Any]] = {}
        self.generators: dict[int, tuple[str, _Binding, Any]] = {}

    def add_attributes(self, path: str, module: nn.Module) -> None:
        """Save everything in a module except its parameters, buffers, submodules and hooks."""
        namespace = vars(module)
        names = {n for n in namespace if n not in _INNER}
        self.namespaces.append((path, namespace, names))
        for name in names:
            self.add_binding(f"{path}.{name}".lstrip("."), _attribute(namespace, name))
        for name, t in (
            [*module._parameters.items(), *module._buffers.items()] if not isinstance(module, torch.jit.ScriptModule) else []
        ):
            if t is not None:
                self.add_tensor_attributes(f"{path}.{name}".lstrip("."), t)

    def add_tensor_attributes(self, name: str, t: Tensor) -> None:
        """Save attributes that code has set on a tensor."""
        namespace = vars(t)
        if id(namespace) not in self.contents:
            self.contents[id(namespace)] = (f"attributes of {name}", namespace, dict(namespace))
            for item in list(namespace.values()):
                self._add_value(name, item, 1)

    def add_binding(self, name: str, binding: _Binding) -> None:
        """Save one bound name, with everything reachable from it."""
        value = binding.read()
        self.bindings.append((name, binding, value))
        self._add_value(name, value, 0)

    def _add_value(self, name: str, value: Any, depth: int) -> None:
        if isinstance(value, (*PLAIN, nn.Module, type, types.ModuleType)) or len(self.contents) > MAX_OBJECTS:
            return
        if isinstance(value, Tensor):
            if not value.is_meta and not isinstance(value, nn.Parameter):
                self.add_tensor_attributes(name, value)
                self.tensors.setdefault(id(value), (name, value, value.detach().clone()))
        elif type(value).__module__ == "numpy" and hasattr(value, "copy") and hasattr(value, "ndim"):
            self.tensors.setdefault(id(value), (name, value, value.copy()))
        elif (generator := _generator(value)) is not None:
            self.generators.setdefault(id(value), (name, generator, generator.read()))
        elif depth >= MAX_DEPTH or id(value) in self.contents:
            return
        elif isinstance(value, (functools.partial, types.MethodType, types.BuiltinMethodType)):
            for item in (
                [value.func, *value.args, *value.keywords.values()] if isinstance(value, functools.partial) else [value.__self__]
            ):
                self._add_value(name, item, depth + 1)
        elif _is_container(value):
            self.contents[id(value)] = (name, value, _shallow(value))
            for item in list(value.values()) if isinstance(value, dict) else list(value):
                self._add_value(name, item, depth + 1)
        elif isinstance(value, tuple):
            for item in value:
                self._add_value(name, item, depth + 1)
        elif _is_user_object(value):
            namespace = vars(value)
            self.contents[id(value)] = (name, namespace, dict(namespace))
            for item in list(namespace.values()):
                self._add_value(name, item, depth + 1)

    def restore(self) -> Iterator[str]:
        """Restore everything; the names of what had changed."""
        for path, namespace, names in self.namespaces:
            for name in [n for n in namespace if n not in names and n not in _INNER and not _is_hook(n)]:
                del namespace[name]
                yield f"{path}.{name}".lstrip(".")
        for name, binding, value in self.bindings:
            current = binding.read()
            if current is not value:
                binding.bind(value)
                if not (isinstance(value, PLAIN) and type(current) is type(value) and current == value):
                    yield name
        for name, namespace, saved in self.contents.values():
            if not _same_items(namespace, saved):
                _refill(namespace, saved)
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
        for name, binding, state in self.generators.values():
            if pickle.dumps(binding.read()) != pickle.dumps(state):
                binding.bind(state)
                yield name


# ------------------------------------------------------------------------------------------- state beside the model's objects


def _code_state(modules: Any) -> Iterator[tuple[str, _Binding]]:
    """State in the code of the modules' classes: class attributes, defaults, closures, globals, memoised calls."""
    visited: set[int] = set()
    for owner in dict.fromkeys(type(m) for m in modules):
        for cls in (c for c in owner.__mro__ if not _is_library(c.__module__)):
            for name, value in list(vars(cls).items()):
                if (
                    type(value) in CONTAINERS
                    or isinstance(value, Tensor)
                    or (isinstance(value, PLAIN) and not name.startswith("__"))
                ):
                    yield f"{cls.__name__}.{name}", _class_attribute(cls, name)
        if not _is_library(owner.__module__):
            yield from _function_state(owner.forward, owner, visited, 0)


def _function_state(function: Any, owner: type, visited: set[int], depth: int) -> Iterator[tuple[str, _Binding]]:
    """State that a function may change, and that of the functions it calls: those of its class, its closure and its file.

    The cache of a memoised function of the same file is cleared, now and whenever state is restored.
    """
    if hasattr(function, "cache_clear") and hasattr(function, "cache_info"):
        if getattr(function, "__module__", None) == owner.__module__ and id(function) not in visited:
            visited.add(id(function))
            function.cache_clear()
            yield f"the memoised results of {function.__qualname__}", _memoised(function)
        function = getattr(function, "__wrapped__", None)
    if not isinstance(function, types.FunctionType) or id(function) in visited or depth > MAX_CALLS:
        return
    visited.add(id(function))
    if _is_library(function.__module__ or ""):
        return
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        if type(value) in CONTAINERS:
            yield f"a default argument of {function.__qualname__}", _Binding(lambda value=value: value, lambda _: None)  # type: ignore[misc]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            value = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        if type(value) in CONTAINERS or isinstance(value, (Tensor, *PLAIN)):
            yield f"{name} of {function.__qualname__}", _cell(cell)
        yield from _function_state(getattr(value, "__func__", value), owner, visited, depth + 1)
    names = _global_names(function.__code__)
    for namespace, name, value in _named_globals(function, names):
        if namespace is not function.__globals__ and isinstance(namespace, type):
            if _is_container(value) or isinstance(value, (Tensor, *PLAIN)):
                yield f"{namespace.__name__}.{name}", _class_attribute(namespace, name)
            yield from _function_state(getattr(value, "__func__", value), owner, visited, depth + 1)
        elif type(value) in CONTAINERS or isinstance(value, (Tensor, *PLAIN)) or _is_user_object(value):
            yield f"the global {name}", _attribute(namespace, name)
        elif isinstance(value, types.FunctionType) or hasattr(value, "cache_clear"):
            yield from _function_state(value, owner, visited, depth + 1)
    for name in names - function.__globals__.keys():
        method = getattr(owner, name, None)
        yield from _function_state(getattr(method, "__func__", method), owner, visited, depth + 1)
    yield f"attributes of {function.__qualname__}", _Binding(lambda: vars(function), lambda _: None)


def _named_globals(function: types.FunctionType, names: set[str]) -> Iterator[tuple[Any, str, Any]]:
    """Globals that code names, also through modules and classes among them: namespace, name and value."""
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield function.__globals__, name, value
        if isinstance(value, types.ModuleType) and not _is_library(value.__name__):
            yield from ((vars(value), n, vars(value)[n]) for n in names & vars(value).keys())
        elif isinstance(value, type) and not _is_library(value.__module__) and not issubclass(value, nn.Module):
            yield from ((value, n, vars(value)[n]) for n in names & vars(value).keys())


def _memoised(function: Any) -> _Binding:
    return _Binding(lambda: function.cache_info().currsize, lambda _: function.cache_clear())


def _global_names(code: types.CodeType) -> set[str]:
    """Global names that code uses, in functions inside it too."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*(_global_names(c) for c in inner))


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in LIBRARIES or module.partition(".")[0] in sys.stdlib_module_names


def _is_user_object(value: Any) -> bool:
    """Whether it is an object of a user's class, with attributes that a call may change."""
    cls = type(value)
    if isinstance(value, type | types.ModuleType | types.FunctionType | types.MethodType | nn.Module | torch.Generator):
        return False
    return hasattr(value, "__dict__") and not _is_library(cls.__module__) and isinstance(vars(value), dict)


def _generator(value: Any) -> _Binding | None:
    """The state of an object that draws random numbers."""
    if isinstance(value, torch.Generator):
        return _Binding(lambda: value.get_state().tolist(), lambda state: _set_state(value, state))
    if isinstance(value, random.Random):
        return _Binding(value.getstate, value.setstate)
    if type(value).__module__.startswith("numpy.random") and hasattr(value, "bit_generator"):
        return _Binding(lambda: value.bit_generator.state, lambda state: setattr(value.bit_generator, "state", state))
    if type(value).__module__.startswith("numpy.random") and hasattr(value, "get_state"):
        return _Binding(value.get_state, value.set_state)
    return None


def _set_state(generator: torch.Generator, state: list[int]) -> None:
    generator.set_state(torch.tensor(state, dtype=torch.uint8))


def _attribute(namespace: dict[str, Any], name: str) -> _Binding:
    def bind(value: Any) -> None:
        if value is _INNER:
            namespace.pop(name, None)
        else:
            namespace[name] = value

    return _Binding(lambda: namespace.get(name, _INNER), bind)


def _class_attribute(cls: type, name: str) -> _Binding:
    return _Binding(lambda: vars(cls).get(name), lambda value: setattr(cls, name, value))


def _cell(cell: Any) -> _Binding:
    return _Binding(lambda: cell.cell_contents, lambda value: setattr(cell, "cell_contents", value))


# -------------------------------------------------------------------------------------------------------------- containers


_INNER = {
    "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_non_persistent_buffers_set",
    "_is_full_backward_hook", "training",
}  # fmt: skip


def _is_hook(name: str) -> bool:
    return name.startswith("_") and name.endswith("_hooks")


def _is_container(value: Any) -> bool:
    """A list, dict, set or queue, or a subclass of a user that is iterated like these."""
    cls = type(value)
    if cls in CONTAINERS:
        return True
    plain = next((c for c in CONTAINERS if isinstance(value, c)), None)
    return plain is not None and not _is_library(cls.__module__) and cls.__iter__ is plain.__iter__ and cls.__len__ is plain.__len__


def _shallow(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else set(value) if isinstance(value, set) else list(value)


def _same_items(a: Any, b: Any) -> bool:
    """Whether two containers hold identical items."""
    if len(a) != len(b):
        return False
    if isinstance(a, dict):
        return all(k in b and _same(v, b[k]) for k, v in a.items())
    if isinstance(a, set):
        return bool(a == b)
    return all(_same(x, y) for x, y in zip(a, b, strict=True))


def _same(x: Any, y: Any) -> bool:
    return x is y or (isinstance(x, PLAIN) and type(x) is type(y) and x == y)


def _refill(namespace: Any, saved: Any) -> None:
    namespace.clear()
    namespace.update(saved) if isinstance(namespace, dict | set) else namespace.extend(saved)


def equal(a: Tensor, b: Tensor) -> bool:
    """Whether no bit differs; NaN equals NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if torch.equal(a, b):
        return True
    return a.is_floating_point() and bool(((a == b) | ((a != a) & (b != b))).all())
