"""A loss of energies and forces, and its gradient, in one compiled graph.

Forces are gradients, so a loss of forces needs second derivatives, which `torch.compile` does not support. `make_fx` first records
forward and backward passes as one graph of plain operations, which does compile, once for each shape.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from equiscope.geometry.attend import Neighbours, listed
from equiscope.geometry.model import SpaceModel

LossFunction = Callable[[Tensor, Tensor | None, dict[str, Tensor]], Tensor]  # energies, forces, batch
STEP = 8  # lists are padded to multiples of it, so that shapes repeat


class ForceLoss:
    """The loss of batches of one model, differentiable in the model's weights.

    loss      a function of energies [B] in float64, forces [B, N, 3] and the batch to a scalar, of torch operations only
    forces    False: no forces are computed, and `loss` gets None for them
    compiled  compile with inductor, which takes a minute for each shape of a batch and needs a C++ compiler; False: run the graph
    """

    def __init__(self, model: SpaceModel, loss: LossFunction, compiled: bool = True, forces: bool = True) -> None:
        self.model, self.loss, self.compiled, self.forces = model, loss, compiled, forces
        self.compiled_steps: dict[tuple[Any, ...], Callable[..., list[Tensor]]] = {}

    def __call__(self, batch: dict[str, Tensor]) -> Tensor:
        """The loss of a batch: numbers [B, N], positions [B, N, 3], cell [B, 3, 3] or none, and whatever `loss` reads.

        Displacements are computed in the precision of the weights. Raises as the model does.
        """
        model, numbers, at = self.model, batch["numbers"], batch["positions"].to(self.model.table.dtype)
        near = model.near(numbers, batch["positions"], batch.get("cell"))
        inputs = {name: x for name, x in batch.items() if name not in ("positions", "cell")}
        inputs |= {"row": model.elements(numbers), "positions": at} | _lists(near, batch["positions"])
        names, weights = zip(*model.named_parameters(), strict=True)
        shape = tuple((name, x.shape, x.dtype) for name, x in sorted(inputs.items()))
        weights_now = [weight.detach() for weight in weights]
        if shape not in self.compiled_steps:
            self.compiled_steps[shape] = self._compile(names, weights_now, inputs)
        with torch.no_grad():
            loss, *gradients = self.compiled_steps[shape](weights_now, inputs)
        result: Tensor = _PrecomputedGradients.apply(loss, len(weights), *weights, *gradients)
        return result

    def _compile(self, names: tuple[str, ...], weights_now: list[Tensor], inputs: dict[str, Tensor]) -> Callable[..., list[Tensor]]:
        inside = _Energies(self.model)
        full = [f"model.{name}" for name in names]

        def step(weights: list[Tensor], batch: dict[str, Tensor]) -> list[Tensor]:
            at = batch["positions"].detach().requires_grad_(self.forces)
            energy = torch.func.functional_call(inside, dict(zip(full, weights, strict=True)), (batch, at))
            gradient = torch.autograd.grad(energy.sum(), [at], create_graph=True)[0] if self.forces else None
            loss = self.loss(energy, None if gradient is None else -gradient, batch)
            gradients = torch.autograd.grad(loss, weights, materialize_grads=True)
            return [loss.detach(), *gradients]

        graph = make_fx(step)([weight.detach().requires_grad_() for weight in weights_now], inputs)
        return torch.compile(graph, fullgraph=True, dynamic=False) if self.compiled else graph


class _Energies(nn.Module):
    """A model's energies, from checked inputs."""

    def __init__(self, model: SpaceModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: dict[str, Tensor], at: Tensor) -> Tensor:
        index, near = batch.get("index"), None
        if index is not None:
            near = listed(at, index, batch["mask"], batch["wraps"])
        return self.model.energies(batch["row"], batch["numbers"] > 0, at, near)


class _PrecomputedGradients(torch.autograd.Function):
    """A scalar whose gradients were computed in the forward pass."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, count: int, *both: Tensor) -> Tensor:
        ctx.count, ctx.gradients = count, both[count:]
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *along: Tensor) -> Any:
        return None, None, *torch._foreach_mul(ctx.gradients, along[0]), *[None] * ctx.count


def _lists(near: Neighbours | None, at: Tensor) -> dict[str, Tensor]:
    """Neighbour lists without displacements, which are recomputed; padded so that shapes repeat."""
    if near is None or near.index is None:
        return {}
    index, mask = near.index, near.mask
    wraps = near.displacement.detach() - listed(at, index, mask, torch.zeros_like(near.displacement)).displacement.detach()
    more = -index.shape[-1] % STEP
    own = torch.arange(index.shape[1], device=index.device)[:, None].expand(len(index), -1, more)
    return {
        "index": torch.cat([index, own], -1), "mask": nn.functional.pad(mask, (0, more)),
        "wraps": nn.functional.pad(wraps, (0, 0, 0, more)),
    }  # fmt: skip
