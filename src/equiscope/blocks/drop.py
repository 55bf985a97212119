"""What is left out at random while a model is trained, never in evaluation: single numbers, or whole parts of a layer.

Sources: Srivastava et al. 2014, "Dropout"; Huang et al. 2016, "Deep Networks with Stochastic Depth".
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from equiscope.trace.transforms import transformed

KINDS = 1 << 16  # of sixteen random bits


class Dropout(nn.Dropout):
    """`nn.Dropout`. On a CPU a number takes sixteen random bits in the place of a draw: `python -m benchmarks.dropout`.

    The share is then p to the nearest 1/65536, and the mean stays.
    """

    def forward(self, x: Tensor) -> Tensor:
        left, plain = round(self.p * KINDS), transformed(x) and not torch.compiler.is_compiling()
        if not self.training or not 0 < left < KINDS or self.inplace or x.device.type != "cpu" or plain:
            return super().forward(x)
        kept = _compiled(x.detach(), left) if torch.compiler.is_compiling() else _kept(x, left)
        return x * kept.to(x.dtype).mul_(KINDS / (KINDS - left))


def _kept(like: Tensor, left: int) -> Tensor:
    """True where a number stays, in the shape of `like`: all but `left` of the 65536 kinds. A draw serves four numbers."""
    bits = torch.empty(-(-like.numel() // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    return bits[: like.numel()].view(like.shape) >= left - KINDS // 2


_compiled = torch.library.custom_op(
    "equiscope::kept", _kept, mutates_args=(), device_types="cpu", tags=torch.Tag.nondeterministic_seeded
)


@_compiled.register_fake
def _(like: Tensor, left: int) -> Tensor:
    return torch.empty(like.shape, dtype=torch.bool)


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
