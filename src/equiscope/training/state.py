"""State: what a run's going on depends on, as named tensors. The same for any number of processes, whatever each of them holds.

Weights that are spread over processes (DTensor) are put together to be written, and shared out again when they are read.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.checkpoints.run_folder import kept
from equiscope.errors import InputError

OPTIMISER = "optimiser.safetensors"


def weights(model: nn.Module) -> dict[str, Tensor]:
    """What a checkpoint holds of a model, by name, whole, on the CPU. Every process has to ask."""
    return gather(kept(model))


def gather(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor whole, on the CPU."""
    return {name: whole(tensor) for name, tensor in tensors.items()}


def optimiser_state(model: nn.Module, optimisers: Iterable[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """What the optimisers remember of each parameter, as "exp_avg/name"; their settings come from the recipe."""
    names = {id(p): name for name, p in model.named_parameters()}
    states = {
        f"{what}/{names[id(p)]}": value
        for optimiser in optimisers
        for p, known in optimiser.state.items()
        for what, value in known.items()
    }
    return gather(dict(sorted(states.items())))  # every process asks for them in one order


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give the model these parameters. Raises InputError where they are others than its own, before one has changed."""
    own = kept(model)
    if own.keys() != tensors.keys():
        wrong = sorted(own.keys() ^ tensors.keys())[0]
        raise InputError(f"The checkpoint has {'no' if wrong in own else 'a'} {wrong}: it is of another model.")
    for name, p in own.items():
        if p.shape != tensors[name].shape:
            raise InputError(f"The checkpoint's {name} is {tuple(tensors[name].shape)}, but the model's is {tuple(p.shape)}.")
    copy_into(own, tensors)


def load_optimiser_state(model: nn.Module, optimisers: Iterable[torch.optim.Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """Give the optimisers what they remembered."""
    states: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        what, _, name = key.partition("/")
        states.setdefault(name, {})[what] = value
    names = {id(p): name for name, p in model.named_parameters()}
    for optimiser in optimisers:
        optimiser.state.clear()
        for p in (p for group in optimiser.param_groups for p in group["params"]):
            known = states.get(names[id(p)], {})
            if known:
                optimiser.state[p] = {what: _like(p, value) for what, value in known.items()}


@torch.no_grad()
def copy_into(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Each of our own tensors takes the numbers of its name."""
    for name, tensor in own.items():
        tensor.copy_(sharded(tensors[name], tensor))


def whole(tensor: Tensor) -> Tensor:
    """A tensor that may be spread over processes, as one of its own, on the CPU."""
    put_together: Any = getattr(tensor, "full_tensor", None)
    full: Tensor = tensor.detach() if put_together is None else put_together().detach()
    return full.to("cpu", copy=True)


def sharded(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, spread as another one is; each process takes its share of what it read itself."""
    mesh: Any = getattr(like, "device_mesh", None)
    if mesh is None:
        return tensor.to(like.device)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(like.device), mesh, like.placements, src_data_rank=None)  # type: ignore[attr-defined]


def _like(p: Tensor, value: Tensor) -> Tensor:
    """A count of steps is one number, everywhere the same; all else is of the parameter's shape."""
    return sharded(value, p).clone() if value.shape == p.shape and value.ndim else value.to(p.device, copy=True)
