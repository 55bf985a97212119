"""What is dropped at random during training, never in evaluation: single numbers, or whole parts of a layer.

Sources: Srivastava et al. 2014, "Dropout"; Huang et al. 2016, "Deep Networks with Stochastic Depth".
"""

import torch
from torch import Tensor, nn


class DropPath(nn.Dropout):
    """What a part adds, [B, ..., D]: for a share p of the sequences it is 0. The rest is scaled so that the mean stays."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        kept = torch.rand(x.shape[:1] + (1,) * (x.ndim - 1), device=x.device) >= self.p
        return x * (kept / (1 - self.p)).to(x.dtype)


def drop(share: float, path: float = 0.0) -> nn.Module | None:
    """Dropout of a share of the numbers, and of whole sequences; None where both are 0."""
    parts = [part(p) for part, p in ((DropPath, path), (nn.Dropout, share)) if p]
    return nn.Sequential(*parts) if parts else None
