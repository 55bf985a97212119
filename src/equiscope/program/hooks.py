"""Hooks into a model as it runs: on the calls of its modules, on every module's calls, on gradients. The package has no others."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

Key = TypeVar("Key")
Before = Callable[[Key, nn.Module, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]] | None]
After = Callable[[Key, nn.Module, Any], Any]


@contextmanager
def hooked(
    modules: Iterable[tuple[Key, nn.Module]], before: Before[Key] | None = None, after: After[Key] | None = None
) -> Iterator[None]:  # fmt: skip
    """Inside, each call of these modules is reported, under the key that each has here. Scripted modules take no hooks.

    before  gets key, module, arguments and named arguments; a return value other than None replaces both
    after   gets key, module and output, also where the module raised; a return value other than None replaces the output
    """
    with ExitStack() as stack:
        for key, module in modules:
            if isinstance(module, torch.jit.ScriptModule):
                continue
            if before is not None:
                stack.callback(module.register_forward_pre_hook(_before(before, key), with_kwargs=True).remove)
            if after is not None:
                stack.callback(module.register_forward_hook(_after(after, key), always_call=True).remove)
        yield


def _before(before: Before[Key], key: Key) -> Any:
    return lambda module, args, kwargs: before(key, module, args, kwargs)


def _after(after: After[Key], key: Key) -> Any:
    return lambda module, args, output: after(key, module, output)


@contextmanager
def hooked_everywhere(before: Callable[[nn.Module, Any], None], after: Callable[[nn.Module, Any, Any], None]) -> Iterator[None]:
    """Inside, each call of any module is reported: also of modules that the model makes or borrows as it runs.

    before  gets module and arguments; after: module, arguments and output, also where the module raised
    """
    with ExitStack() as stack:
        stack.callback(register_module_forward_pre_hook(before).remove)
        stack.callback(register_module_forward_hook(after, always_call=True).remove)
        yield


def on_gradient(tensor: Tensor, report: Callable[[Tensor], None]) -> None:
    """Call `report` with the gradient that reaches a tensor in the next backward pass."""
    tensor.register_hook(report)
