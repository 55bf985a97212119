"""Golden computations: records with other inputs than they were written at, and what PyTorch gives for these.

`contract/computations` is read by the web tests, which run the steps: every operation and its gradient, a layer of torch, models of
points in space. `python -m contract.golden` writes them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope import record
from equiscope.explore.space.in_space import in_space, rotation_report
from equiscope.geometry.model import PointSpec, SpaceModel
from equiscope.program.loops import Function, computation, with_forces
from equiscope.record.computation import Computation
from equiscope.symmetry.space import Rotate

TOLERANCE = 1e-10  # relative to the largest number of an output
ETHANOL = torch.tensor([6, 6, 8, 1, 1, 1, 1, 1, 1])
TURN = Rotate((0.48, 0.6, 0.64), 100.0).matrix()


class Asked(msgspec.Struct, frozen=True):
    """What a computation is given once, and what PyTorch makes of that."""

    inputs: dict[str, record.Array]
    outputs: dict[str, record.Array]


class Computed(msgspec.Struct, frozen=True):
    """A record and what it has to give."""

    computation: Computation
    asked: list[Asked]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Numbers in float64, the same each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WEIGHT, SHARES = drawn(6, 6), drawn(4, 6, seed=3)
PICKED = torch.tensor([[1, 2, 5, 0, 2, 1], [2, 2, 2, 3, 0, 0], [0, 0, 4, 1, 1, 1], [3, 1, 0, 0, 5, 5]])


def _written(x: Tensor) -> Tensor:
    made = torch.zeros(4, 6, dtype=x.dtype)
    made[1:3, ::2] = x[:2, :3]
    made[:, 1].add_(x[:, 0])
    made[[0, 1], [2, 2]] = 7.0
    return made.mul_(2)


OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {  # of x [4, 6]
    "arithmetic": lambda x: (2 * x - 1 / (x + 9)) * x.abs().sqrt() % 0.7 + torch.rsub(x, 3, alpha=2),
    "powers": lambda x: x**2 + x**3 + x.abs() ** 0.3 + x.abs() ** -0.5 + 2.0**x + x.square().reciprocal(),
    "functions": lambda x: x.sin() * x.cos().exp() + x.tanh() + x.abs().log1p() + torch.erf(x) + torch.atan2(x, x + 1) + x.expm1(),
    "jumps": lambda x: (x * 3).ceil() * x.trunc() + x.fmod(0.7) + x.tan() * (x < 0.2) + x.sign().ne(1) + x.detach().prod(1, True),
    "activations": lambda x: F.gelu(x) + F.silu(x) + F.gelu(x, approximate="tanh") + F.softplus(x) + F.relu(x) + F.leaky_relu(x),
    "softmax": lambda x: x.softmax(-1) + x.log_softmax(0) + x.logsumexp(1, keepdim=True),
    "norms": lambda x: F.layer_norm(x, (6,)) + x / x.norm(dim=-1, keepdim=True) + F.rms_norm(x, (6,)),
    "chosen": lambda x: torch.where(x > 0, x, -2 * x).clamp(-1, 1.5) + x.masked_fill(x.ge(1) | (x == 2).logical_not(), 7.0),
    "hidden": lambda x: x.masked_fill(x.ge(1), -torch.inf).softmax(-1) + x.masked_fill(x > 0, -torch.inf).clamp_min(-5),
    "joined": lambda x: x.sum() + x.mean(0) + x.amax(1, keepdim=True) + x.amin() + x.var(1, keepdim=True) + x.std(),
    "expanded": lambda x: (x[:1].expand(4, 6) * 3).sum(0) + x[:, :1].expand(4, 6).sum(1, keepdim=True) + x[0, 0].expand(4, 6),
    "products": lambda x: x @ x.mT @ x + torch.einsum("ij,kj->ik", x, x).unsqueeze(-1).mean(1) + F.linear(x, WEIGHT, WEIGHT[0]),
    "views": lambda x: x.T.reshape(4, 6) + x.unflatten(1, (2, 3)).movedim(0, -1).flatten(1).reshape(4, 6) + x[:, ::2].repeat(1, 2),
    "slices": lambda x: torch.cat([x[:, 2:5], x[:, :3].flip(0)], 1) + torch.stack(x[:, 0].unbind(0))[:, None] + x.roll(1, 0),
    "placed": lambda x: F.pad(x, (1, -1, 2, 1))[2:6] + torch.diagonal(x[:, :4]).unsqueeze(-1) + x.tril() + x.cumsum(1),
    "indexed": lambda x: x[[0, -1, 1, 1]] + x[:, [3, 1]].repeat(1, 3) + x[[0, 1, 2, -1], [5, -1, 0, 2]].unsqueeze(-1),
    "gathered": lambda x: x.gather(1, PICKED[:, :3]).repeat(1, 2) + x.index_select(1, torch.arange(6).flip(0)),
    "sent": lambda x: torch.zeros_like(x).scatter_add(1, PICKED, x) + torch.zeros_like(x).index_add(0, PICKED[:, 1], x),
    "masked": lambda x: x[torch.tensor([True, False, True, False])].sum(0) + x,
    "crossed": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:]).repeat(1, 2) + torch.cross(x[:3], x[1:], dim=0).mean(),
    "written": lambda x: _written(x),
}  # fmt: skip


def pushing(function: Callable[[Tensor], Tensor]) -> Function:
    """A function of [4, 6] beside a gradient of it."""
    return with_forces(lambda positions: {"made": function(positions), "energy": (function(positions) * SHARES).sum()})


SMALL: dict[str, Any] = {"width": 8, "vectors": 4, "heads": 2, "value_heads": 2, "radial": 4}
SPECS = {
    "all see all": PointSpec(("H", "C", "O"), **SMALL),
    "no radial functions": PointSpec(("H", "C", "O"), **{**SMALL, "radial": 0}, layers=1),
    "left and right": PointSpec(("H", "C", "O"), "SE(3)", **SMALL, products=2),
    "within a cutoff": PointSpec(("H", "C", "O"), **SMALL, pseudo=2, products=2, cutoff=3.0, filtered=True),
    "no arrows": PointSpec(("H", "C", "O"), **{**SMALL, "vectors": 0}, layers=1),
}


def in_spaces() -> dict[str, Computed]:
    """Models of points in space: ethanol elsewhere, and turned there; one atom alone."""
    made = {}
    for i, (name, spec) in enumerate(SPECS.items()):
        model = drawn_model(spec)
        at = drawn(9, 3, seed=10 + i) * 1.5
        made[name] = _asked(in_space(model, ETHANOL, drawn(9, 3, seed=5)), answers(model.double(), ETHANOL), [at, at @ TURN.T + 1])
    model, alone = drawn_model(SPECS["within a cutoff"]), torch.tensor([8])
    made["one atom"] = _asked(in_space(model, alone, drawn(1, 3)), answers(model.double(), alone), [drawn(1, 3, seed=1)])
    return made


def drawn_model(spec: PointSpec, seed: int = 0) -> SpaceModel:
    """Random weights, and energies that do not begin at 0."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SpaceModel(spec)
    model.set_scale(torch.tensor([-1.0, -20.0, -30.0], dtype=torch.float64), 0.37)
    return model


def answers(model: SpaceModel, numbers: Tensor) -> Function:
    """What PyTorch says, by the model's own way: `answer` for energy and forces."""
    rows = model.elements(numbers[None])

    def function(positions: Tensor) -> dict[str, Tensor]:
        said = model.energy_and_forces(numbers[None], positions[None])
        return {**rotation_report(model, rows, positions), "energy": said.energy, "forces": said.forces[0]}

    return function


def cases() -> dict[str, dict[str, Computed]]:
    """By file and name."""
    places = [drawn(4, 6, seed=seed) + 0.1 for seed in (7, 8)]
    each = {
        name: _asked(computation(pushing(function), {"positions": drawn(4, 6)}), pushing(function), places)
        for name, function in OPERATIONS.items()
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu").double().eval()
    one = with_forces(lambda positions: {"energy": layer(positions).square().sum(-1)})
    rows = [drawn(2, 5, 8, seed=seed) for seed in (1, 2)]
    each["a layer of torch"] = _asked(computation(one, {"positions": drawn(2, 5, 8)}), one, rows)
    return {"operations": each, "in-space": in_spaces()}


def write(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in cases().items():
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(made) + b"\n")


def stale(folder: Path) -> list[str]:
    """Names of those that are missing or give other outputs than PyTorch does now."""
    found = []
    for file, made in cases().items():
        path = folder / f"{file}.json"
        kept = msgspec.json.decode(path.read_bytes(), type=dict[str, Computed]) if path.exists() else {}
        found += [f"{file}: {name}" for name, case in made.items() if name not in kept or not _agree(kept[name], case)]
    return found


def _asked(made: Computation, function: Function, places: list[Tensor]) -> Computed:
    asked = []
    for at in places:
        outputs = {name: record.pack(x.detach().double().numpy()) for name, x in function(positions=at).items()}
        asked.append(Asked({"positions": record.pack(at.numpy())}, outputs))
    return Computed(made, asked)


def _agree(kept: Computed, made: Computed) -> bool:
    if set(kept.computation.outputs) != set(made.computation.outputs) or len(kept.asked) != len(made.asked):
        return False
    pairs = [
        (record.unpack(a[name]), record.unpack(b[name]))
        for k, m in zip(kept.asked, made.asked, strict=True)
        for a, b in ((k.inputs, m.inputs), (k.outputs, m.outputs))
        for name in b
    ]
    return all(a.shape == b.shape and np.abs(a - b).max() <= TOLERANCE * max(np.abs(b).max(), 1.0) for a, b in pairs)
