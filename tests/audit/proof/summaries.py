"""Summaries: the proofs for a small module, one word for each statement, and what a run in float64 shows.

The run is implemented here independently of the audit, so that it can judge the proofs.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.proof import prove
from equiscope.audit.subject import arguments
from equiscope.record import Proof
from equiscope.symmetry import inputs_of

N, B, D = 7, 3, 6


class Of(nn.Module):
    """A function of tokens, after a linear map of each, so that there is something to learn."""

    def __init__(self, function: Callable[[Tensor], Tensor], width: int = D) -> None:
        super().__init__()
        self.map = nn.Linear(width, width)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.map(x))


def words(batch: int = B, length: int = N, width: int = D, seed: int = 0) -> Tensor:
    return torch.randn(batch, length, width, generator=torch.Generator().manual_seed(seed))


def proofs(
    model: nn.Module, *args: Any, mode: str = "eval", kinds: dict[str, str] | None = None, **kwargs: Any
) -> dict[str, Proof]:
    torch.manual_seed(0)
    return prove(model, inputs_of(args or ((words(),) if not kwargs else ()), kwargs, arguments(model), kinds), mode=mode)


def said(model: nn.Module, *args: Any, **settings: Any) -> tuple[str, str, str]:
    """The answers about permute, causal, batch."""
    found = proofs(model, *args, **settings)
    return found["permute"].answer, found["causal"].answer, found["batch"].answer


def largest(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)) if a.numel() else 0.0


@torch.no_grad()
def shown(model: nn.Module, x: Tensor) -> dict[str, float]:
    """Relative errors of the three statements for [B, N, D] -> [B, N, ...], of several random inputs."""
    model = model.double().eval()
    worst = {"permute": 0.0, "causal": 0.0, "batch": 0.0}
    for seed in range(3):
        torch.manual_seed(seed)
        x, other = torch.randn_like(x.double()), torch.randn_like(x.double())
        order = torch.randperm(x.shape[1])
        plain = model(x)
        rows = plain.shape[1:2] == x.shape[1:2]
        wanted = plain[:, order] if rows else plain
        worst["permute"] = max(worst["permute"], largest(model(x[:, order]), wanted))
        for j in range(1, x.shape[1]) if rows else ():
            moved = model(torch.cat([x[:, :j], other[:, j:]], 1))
            worst["causal"] = max(worst["causal"], largest(moved[:, :j], plain[:, :j]))
        beside = model(torch.cat([other[:1], x[:1], other[2:]]))
        worst["batch"] = max(worst["batch"], largest(beside[1], plain[0]))
    return worst
