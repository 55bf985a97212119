"""Dropout and stochastic depth: at random, in training mode only.

Sources: Srivastava et al. 2014, "Dropout"; Huang et al. 2016, "Deep Networks with Stochastic Depth".
"""

import torch
from torch import Tensor, nn


class DropPath(nn.Dropout):
    """Stochastic depth: set the output [B, ..., D] of a residual branch to 0 for each sequence with probability p.

    The other sequences are multiplied by 1 / (1 - p), so that the mean stays.
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        keep = torch.rand(x.shape[:1] + (1,) * (x.ndim - 1), device=x.device) >= self.p
        return x * (keep / (1 - self.p)).to(x.dtype)


def drop(share: float, path: float = 0.0) -> nn.Module | None:
    """Stochastic depth with probability `path`, then dropout with probability `share`; None where both are 0."""
    parts = [part(p) for part, p in ((DropPath, path), (nn.Dropout, share)) if p]
    return nn.Sequential(*parts) if parts else None
