"""torch's Muon (Jordan 2024) with matrices of the same shape batched, which is faster for many small ones."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from equiscope.kernels.private import bfloat16_supported

SMALL = 64  # rows or columns to which float32 is taken: three of 64 x 224 took 0.6 ms on an Intel with AMX, in bfloat16 0.8


class Muon(torch.optim.Muon):
    """`torch.optim.Muon` for float32 weights: the same arguments, state and rule. Sharded weights are left to torch."""

    stacked = 1 << 20  # numbers of matrices that are computed together

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step; matrices without a gradient do not change."""
        if closure is not None or any(hasattr(p, "full_tensor") for group in self.param_groups for p in group["params"]):
            return super().step(closure)
        for group in self.param_groups:
            for some in _alike(group["params"], self.stacked):
                going = torch.stack(self._going(some, group))
                changes = orthogonal(going, group["ns_coefficients"], group["ns_steps"], group["eps"])
                if group["weight_decay"]:
                    torch._foreach_mul_(some, 1 - float(group["lr"]) * group["weight_decay"])
                torch._foreach_add_(some, list(changes.to(some[0].dtype)), alpha=-_rate(group, some[0].shape))
        return None

    def _going(self, some: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """Update the momentum; returns the directions to orthogonalise."""
        slopes = [p.grad for p in some if p.grad is not None]
        for p, slope in zip(some, slopes, strict=True):
            if not self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(slope)
        means = [self.state[p]["momentum_buffer"] for p in some]
        torch._foreach_lerp_(means, slopes, 1 - group["momentum"])
        return list(torch._foreach_lerp(slopes, means, group["momentum"])) if group["nesterov"] else means


def orthogonal(x: Tensor, by: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Matrices [M, A, B] with singular values near 1, by Newton-Schulz iteration.

    In bfloat16; in float32 where matrices are small, or on a CPU without instructions for bfloat16.
    """
    a, b, c = by
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    half = x.shape[-2] > SMALL and (x.device.type != "cpu" or bfloat16_supported())
    x = x.bfloat16() if half else x.float()
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(eps)
    for _ in range(steps):
        products = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(products, products, products, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def _alike(params: list[Tensor], most: int) -> Iterator[list[Tensor]]:
    """Groups of parameters with a gradient and the same shape, dtype and device, of at most `AT_ONCE` numbers."""
    groups: dict[Any, list[Tensor]] = defaultdict(list)
    for p in params:
        if p.grad is not None:
            groups[p.shape, p.dtype, p.device].append(p)
    for some in groups.values():
        many = max(1, most // max(1, some[0].numel()))
        yield from (some[first : first + many] for first in range(0, len(some), many))


def _rate(group: dict[str, Any], shape: torch.Size) -> float:
    """Learning rate that matches AdamW's update size (Liu et al. 2025), or Jordan's."""
    by = 0.2 * max(shape) ** 0.5 if group["adjust_lr_fn"] == "match_rms_adamw" else max(1, shape[0] / shape[1]) ** 0.5
    return float(group["lr"]) * float(by)
