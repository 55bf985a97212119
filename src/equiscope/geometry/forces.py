"""Energies and forces learned in one compiled pass: a loss of both, and how it falls with every weight.

Forces are slopes, so what is learned from them needs slopes of slopes, which `torch.compile` refuses. Written down operation by
operation first (`make_fx`), the whole is one plain graph without slopes in it, and that it does compile: once for each shape.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from equiscope.geometry.attend import Neighbours, listed
from equiscope.geometry.model import SpaceModel

Lost = Callable[[Tensor, Tensor | None, dict[str, Tensor]], Tensor]  # energies [B], forces [B, N, 3] and the batch to one number
STEP = 8  # lists are padded to multiples of it, so that shapes repeat


class Slopes:
    """The loss of batches of one model; what it gives flows back to the model's weights.

    lost      of energies [B] in float64, forces [B, N, 3] and the batch, a number; only operations of torch
    forces    False: energies alone are learned, and `lost` is given None for forces
    compiled  by inductor, which takes a minute for each shape of a batch and needs a C++ compiler; False: the graph as it is
    """

    def __init__(self, model: SpaceModel, lost: Lost, compiled: bool = True, forces: bool = True) -> None:
        self.model, self.lost, self.compiled, self.forces = model, lost, compiled, forces
        self.made: dict[tuple[Any, ...], Callable[..., list[Tensor]]] = {}

    def __call__(self, batch: dict[str, Tensor]) -> Tensor:
        """The loss of a batch: numbers [B, N], positions [B, N, 3], cell [B, 3, 3] or none, and whatever `lost` reads.

        Ways are computed in the precision of the weights. Raises as the model does.
        """
        model, numbers, at = self.model, batch["numbers"], batch["positions"].to(self.model.table.dtype)
        near = model.near(numbers, batch["positions"], batch.get("cell"))
        read = {name: x for name, x in batch.items() if name not in ("positions", "cell")}
        read |= {"row": model.elements(numbers), "positions": at} | _lists(near, batch["positions"])
        names, weights = zip(*model.named_parameters(), strict=True)
        shape = tuple((name, x.shape, x.dtype) for name, x in sorted(read.items()))
        held = [weight.detach() for weight in weights]
        if shape not in self.made:
            self.made[shape] = self._made(names, held, read)
        with torch.no_grad():
            loss, *slopes = self.made[shape](held, read)
        found: Tensor = _Known.apply(loss, len(weights), *weights, *slopes)
        return found

    def _made(self, names: tuple[str, ...], held: list[Tensor], read: dict[str, Tensor]) -> Callable[..., list[Tensor]]:
        inside = _Energies(self.model)
        full = [f"model.{name}" for name in names]

        def all_of_it(weights: list[Tensor], batch: dict[str, Tensor]) -> list[Tensor]:
            at = batch["positions"].detach().requires_grad_(self.forces)
            energy = torch.func.functional_call(inside, dict(zip(full, weights, strict=True)), (batch, at))
            slope = torch.autograd.grad(energy.sum(), [at], create_graph=True)[0] if self.forces else None
            loss = self.lost(energy, None if slope is None else -slope, batch)
            slopes = torch.autograd.grad(loss, weights, materialize_grads=True)
            return [loss.detach(), *slopes]

        graph = make_fx(all_of_it)([weight.detach().requires_grad_() for weight in held], read)
        return torch.compile(graph, fullgraph=True, dynamic=False) if self.compiled else graph


class _Energies(nn.Module):
    """A model's energies, of what has been looked at before."""

    def __init__(self, model: SpaceModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: dict[str, Tensor], at: Tensor) -> Tensor:
        index, near = batch.get("index"), None
        if index is not None:
            near = listed(at, index, batch["seen"], batch["wraps"])
        return self.model.energies(batch["row"], batch["numbers"] > 0, at, near)


class _Known(torch.autograd.Function):
    """A number whose slopes are known already."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, count: int, *both: Tensor) -> Tensor:
        ctx.count, ctx.slopes = count, both[count:]
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *along: Tensor) -> Any:
        return None, None, *torch._foreach_mul(ctx.slopes, along[0]), *[None] * ctx.count


def _lists(near: Neighbours | None, at: Tensor) -> dict[str, Tensor]:
    """Lists without their ways, which are computed again; padded to shapes that repeat."""
    if near is None or near.index is None:
        return {}
    index, seen = near.index, near.seen
    wraps = near.way.detach() - listed(at, index, seen, torch.zeros_like(near.way)).way.detach()
    more = -index.shape[-1] % STEP
    own = torch.arange(index.shape[1], device=index.device)[:, None].expand(len(index), -1, more)
    return {
        "index": torch.cat([index, own], -1), "seen": nn.functional.pad(seen, (0, more)),
        "wraps": nn.functional.pad(wraps, (0, 0, 0, more)),
    }  # fmt: skip
