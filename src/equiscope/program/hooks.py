"""Calls of modules as they run: the package's one way to hook into a model."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

Key = TypeVar("Key")
Before = Callable[[Key, nn.Module, tuple[Any, ...], dict[str, Any]], None]
After = Callable[[Key, nn.Module, Any], Any]


@contextmanager
def hooked(
    modules: Iterable[tuple[Key, nn.Module]], before: Before[Key] | None = None, after: After[Key] | None = None
) -> Iterator[None]:  # fmt: skip
    """Inside, each call of these modules is told of, under the key that each has here. Scripted modules take no hooks.

    before  gets key, module, arguments and named arguments; it changes nothing
    after   gets key, module and output, also where the module raised; what it returns, unless None, takes the output's place
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
    def told(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        before(key, module, args, kwargs)

    return told


def _after(after: After[Key], key: Key) -> Any:
    return lambda module, args, output: after(key, module, output)
