"""What is left out at random while a model is trained, never in evaluation: single numbers, or whole parts of a layer.

Sources: Srivastava et al. 2014, "Dropout"; Huang et al. 2016, "Deep Networks with Stochastic Depth".
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from equiscope.kernels.private import transformed

KINDS = 1 << 16  # of sixteen random bits
PLAIN = (Tensor, nn.Parameter)
TOLD: Mapping[str, Any] = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
INTEL = "intel" in TOLD.get("cpu_name", "").lower()
FEW = 1 << 12  # numbers for which torch's draws take less time than the calls around ours


class Dropout(nn.Dropout):
    """`nn.Dropout`. On a CPU a number takes sixteen random bits instead of a draw of its own: `python -m benchmarks.dropout`.

    The share is then p to the nearest 1/65536. torch's own is taken for few numbers, under transforms of functions, and on Intel's
    CPUs, where it may draw through MKL, on all cores, and ours was not measured.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not _drawn_slowly(x) or self.inplace:
            return super().forward(x)
        left = round(self.p * KINDS)
        if not 0 < left < KINDS:
            return super().forward(x)
        # like a tensor of its own: a compiler takes two calls with one tensor for the same numbers
        return x * _kept(torch.empty_like(x, requires_grad=False), left)


def _drawn_slowly(x: Tensor) -> bool:
    """Whether torch would draw these numbers one by one, and nothing but plain running or a compiler is at work on them."""
    if INTEL or x.device.type != "cpu" or x.numel() < FEW:
        return False
    if torch.compiler.is_compiling():
        return not torch._C._are_functorch_transforms_active()
    return type(x) in PLAIN and not transformed(x)


@torch.library.custom_op("equiscope::kept", mutates_args=(), device_types="cpu", tags=torch.Tag.nondeterministic_seeded)
def _kept(like: Tensor, left: int) -> Tensor:
    """Factors in the shape of `like`: 0 for `left` of the 65536 kinds, else what keeps the mean. A draw serves four numbers."""
    bits = torch.empty(-(-like.numel() // 4), dtype=torch.int64, device=like.device).random_(-(2**63), None).view(torch.int16)
    stays = bits[: like.numel()].view(like.shape) >= left - KINDS // 2
    return stays.to(like.dtype).mul_(KINDS / (KINDS - left))


@_kept.register_fake
def _(like: Tensor, left: int) -> Tensor:
    return torch.empty(like.shape, dtype=like.dtype, device=like.device)


KEPT = torch.ops.equiscope.kept.default


class Skip(_DropoutNd):
    """What a part adds, [B, ..., D]: for a share p of the sequences it is 0. The rest is scaled so that the mean stays."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        kept = torch.rand(x.shape[:1] + (1,) * (x.ndim - 1), device=x.device) >= self.p
        return x * (kept / (1 - self.p)).to(x.dtype)


def drop(share: float, skip: float = 0.0) -> nn.Module | None:
    """Dropout of a share of the numbers, and of whole sequences; None where both are 0."""
    parts = [part(p) for part, p in ((Skip, skip), (Dropout, share)) if p]
    return nn.Sequential(*parts) if parts else None
