"""Optimiser: which parameters follow which rule, the learning-rate schedule, and the average of the weights."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.training.muon import Muon
from equiscope.training.recipe import Optimiser

TINY = 1e-12  # beside the length of a gradient, where nothing pulls


def optimisers(model: nn.Module, config: Optimiser, members: Sequence[nn.Module] = ()) -> list[torch.optim.Optimizer]:
    """AdamW for all parameters; or Muon for the matrices of the layers and AdamW for the rest. 1-D parameters have no weight
    decay.

    members  models whose parameters are stacked along a first axis in `model`, and are views of it: AdamW computes each number
             by itself and updates the stack; Muon updates the matrices of each member
    """
    parameters, members = dict(model.named_parameters()), members or [model]
    axes = {name: p.ndim for name, p in members[0].named_parameters() if p.requires_grad}
    if not axes:
        raise InputError("This model has no parameter that could learn.")
    names = [name for name, ndim in axes.items() if config.kind == "muon" and ndim == 2 and "blocks." in name]
    matrices = [member.get_parameter(name) for name in names for member in members]
    rest = [name for name in axes if name not in names]
    groups = [
        {"params": [parameters[name] for name in rest if axes[name] >= 2], "weight_decay": config.decay},
        {"params": [parameters[name] for name in rest if axes[name] < 2], "weight_decay": 0.0},
    ]
    optimisers_: list[torch.optim.Optimizer] = [
        torch.optim.AdamW([g for g in groups if g["params"]], lr=config.rate, betas=config.betas, eps=config.eps, fused=True)
    ]
    if matrices:
        optimisers_.append(Muon(matrices, lr=config.muon_rate, weight_decay=config.decay, adjust_lr_fn="match_rms_adamw"))
    for optimiser in optimisers_:
        for group in optimiser.param_groups:
            group["highest"] = group["lr"]
    return optimisers_


def share(config: Optimiser, step: int, steps: int) -> float:
    """The learning rate of a step as a share of its peak, steps counted from 0."""
    if step < config.warmup:
        return (step + 1) / config.warmup
    done = (step - config.warmup) / max(1, steps - config.warmup)
    if config.schedule == "cosine":
        return config.floor + (1 - config.floor) * 0.5 * (1 + math.cos(math.pi * done))
    if config.schedule == "linear":
        return 1 - (1 - config.floor) * done
    if config.schedule == "wsd":
        return 1 - (1 - config.floor) * max(0.0, done - (1 - config.fall)) / max(config.fall, 1e-12)
    if config.schedule == "root":
        return math.sqrt(max(config.warmup, 1) / (step + 1))
    return 1.0


def set_rates(optimisers_: list[torch.optim.Optimizer], part: float) -> float:
    """Set the learning rate of every group to this share of its peak; returns that of the first group."""
    for optimiser in optimisers_:
        for group in optimiser.param_groups:
            group["lr"] = group["highest"] * part
    return float(optimisers_[0].param_groups[0]["lr"])


@contextmanager
def uphill(model: nn.Module, far: float) -> Iterator[None]:
    """Inside, the weights are moved along their gradient by a distance `far`, and the gradient is cleared; afterwards they are
    restored.

    A gradient taken there leads to flat minima. Source: Foret et al. 2021, "Sharpness-Aware Minimization"
    """
    weights = [p for p in model.parameters() if p.grad is not None]
    original = [p.detach().clone() for p in weights]
    gradients = [p.grad for p in weights if p.grad is not None]
    part: Any = far / (nn.utils.get_total_norm(gradients) + TINY)
    part = part.full_tensor() if hasattr(part, "full_tensor") else part  # of weights that are spread
    try:
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.add_(gradient * part)
        model.zero_grad(set_to_none=True)
        yield
    finally:
        with torch.no_grad():
            for weight, before in zip(weights, original, strict=True):
                weight.copy_(before)


class Average:
    """Exponential moving average of the weights with decay `factor`. It starts as a plain mean."""

    def __init__(self, model: nn.Module, factor: float) -> None:
        self.factor, self.weights = factor, {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def follow(self, model: nn.Module, step: int) -> None:
        """Update after step number `step`, counted from 1."""
        part = max(1 - self.factor, 1 / step)
        torch._foreach_lerp_([self.weights[n] for n, _ in model.named_parameters()], [p.detach() for p in model.parameters()], part)

    @torch.no_grad()
    def swap(self, model: nn.Module) -> None:
        """Exchange the weights of the model and the average; a second call restores both."""
        for name, p in model.named_parameters():
            current: Tensor = p.detach().clone()
            p.copy_(self.weights[name])
            self.weights[name].copy_(current)
