"""State: everything that resuming a run needs, as named tensors, independent of the number of processes.

Sharded weights (DTensor) are gathered when they are written, and sharded again when they are read.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.checkpoints.run_folder import saved_tensors
from equiscope.errors import InputError

OPTIMISER = "optimiser.safetensors"


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The weights of a checkpoint by name, gathered, on the CPU. Every process must call it."""
    return gather(saved_tensors(model))


def gather(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor gathered, on the CPU."""
    return {name: whole(tensor) for name, tensor in tensors.items()}


def optimiser_state(model: nn.Module, optimisers: Iterable[Any]) -> dict[str, Tensor]:
    """The state of the optimisers for each parameter, as "exp_avg/name"; their settings come from the recipe.

    optimisers  torch's, or views of them (`together.MemberOptimiser`): they have `state` and `param_groups`
    """
    names = {id(p): name for name, p in model.named_parameters()}
    states = {
        f"{what}/{names[id(p)]}": value
        for optimiser in optimisers
        for p, state in optimiser.state.items()
        for what, value in state.items()
    }
    return gather(dict(sorted(states.items())))  # every process asks for them in one order


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load these parameters. Raises InputError if names or shapes differ, before any parameter has changed."""
    own = saved_tensors(model)
    if own.keys() != tensors.keys():
        wrong = sorted(own.keys() ^ tensors.keys())[0]
        raise InputError(f"The checkpoint has {'no' if wrong in own else 'a'} {wrong}: it is of another model.")
    for name, p in own.items():
        if p.shape != tensors[name].shape:
            raise InputError(f"The checkpoint's {name} is {tuple(tensors[name].shape)}, but the model's is {tuple(p.shape)}.")
    copy_into(own, tensors)


def load_optimiser_state(model: nn.Module, optimisers: Iterable[Any], tensors: Mapping[str, Tensor]) -> None:
    """Load the state of the optimisers."""
    states: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        what, _, name = key.partition("/")
        states.setdefault(name, {})[what] = value
    names = {id(p): name for name, p in model.named_parameters()}
    for optimiser in optimisers:
        optimiser.state.clear()
        for p in (p for group in optimiser.param_groups for p in group["params"]):
            state = states.get(names[id(p)], {})
            if state:
                optimiser.state[p] = {what: _like(p, value) for what, value in state.items()}


@torch.no_grad()
def copy_into(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy tensors into those of the same name."""
    for name, tensor in own.items():
        tensor.copy_(sharded(tensors[name], tensor))


def whole(tensor: Tensor) -> Tensor:
    """A tensor, gathered if it is sharded, on the CPU."""
    put_together: Any = getattr(tensor, "full_tensor", None)
    full: Tensor = tensor.detach() if put_together is None else put_together().detach()
    return full.to("cpu", copy=True)


def sharded(tensor: Tensor, like: Tensor) -> Tensor:
    """A tensor, sharded like another one; each process takes its shard of what it read itself."""
    mesh: Any = getattr(like, "device_mesh", None)
    if mesh is None:
        return tensor.to(like.device)
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor.to(like.device), mesh, like.placements, src_data_rank=None)  # type: ignore[attr-defined]


def _like(p: Tensor, value: Tensor) -> Tensor:
    """A step count is one number, the same everywhere; other state has the shape of the parameter."""
    return sharded(value, p).clone() if value.shape == p.shape and value.ndim else value.to(p.device, copy=True)
