"""State: what a module holds besides its parameters, put back after every call, so that one run cannot colour the next."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

PLAIN = (int, float, bool, str, type(None), tuple, torch.Size)


class State:
    """What a module holds besides parameters: buffers, and plain attributes. Models that count calls are put back."""

    def __init__(self, model: nn.Module) -> None:
        self.modules = dict(model.named_modules())
        self.buffers = {n: (b, b.detach().clone(), b._version) for n, b in model.named_buffers() if not b.is_inference()}
        self.parameters = {n: (p, p._version) for n, p in model.named_parameters() if not p.is_inference()}
        self.plain = {path: self._of(m) for path, m in self.modules.items()}

    @staticmethod
    def _of(module: nn.Module) -> dict[str, Any]:
        held: dict[str, Any] = {}
        for name, value in vars(module).items():
            if name in _INNER:
                continue
            if isinstance(value, (list, dict, set)):
                held[name] = (value, copy.copy(value))
            elif isinstance(value, Tensor):
                held[name] = (value, value.detach().clone())
            elif isinstance(value, PLAIN):
                held[name] = (value, value)
        return held

    def restore(self) -> set[str]:
        """Put everything back; names of what had moved."""
        moved = set()
        for name, (buffer, saved, version) in list(self.buffers.items()):
            path, _, key = name.rpartition(".")
            holder = self.modules[path]._buffers
            if holder.get(key) is not buffer:
                holder[key] = buffer
                moved.add(name)
            changed = not torch.equal(buffer, saved)  # a batch norm's kernel writes without a new version
            if changed or buffer._version != version:
                with torch.no_grad():
                    buffer.copy_(saved)
                self.buffers[name] = (buffer, saved, buffer._version)
                if changed:
                    moved.add(name)
        for name, (p, version) in self.parameters.items():
            if p._version != version:
                moved.add(name)
                self.parameters[name] = (p, p._version)
        for path, module in self.modules.items():
            moved |= {f"{path}.{n}".lstrip(".") for n in self._plain(module, self.plain[path])}
        return moved

    def _plain(self, module: nn.Module, held: dict[str, Any]) -> Iterator[str]:
        now = vars(module)
        for name, (value, saved) in held.items():
            if isinstance(value, (list, dict, set)):
                if len(value) != len(saved) or not _alike(value, saved):
                    value.clear()
                    value.extend(saved) if isinstance(value, list) else value.update(saved)
                    yield name
            elif isinstance(value, Tensor) and value.shape == saved.shape and not torch.equal(value.detach(), saved):
                with torch.no_grad():
                    value.copy_(saved)
                yield name
            if now.get(name, _INNER) is not value:
                same = isinstance(value, PLAIN) and now.get(name, _INNER) == value
                now[name] = value
                if not same:
                    yield name
        for name in [
            n for n in now if n not in held and not n.startswith("_") and isinstance(now[n], (*PLAIN, Tensor, list, dict))
        ]:
            if name not in _INNER:
                del now[name]
                yield name


_INNER = {
    "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_non_persistent_buffers_set",
    "_is_full_backward_hook", "training",
}  # fmt: skip


def _alike(a: Any, b: Any) -> bool:
    """Whether a list or a dictionary holds the very same things."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(a[k] is b[k] for k in a)
    if isinstance(a, set):
        return bool(a == b)
    return all(x is y for x, y in zip(a, b, strict=True))
