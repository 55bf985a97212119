"""Places: learned tables of positions, and what became of them."""

import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from equiscope.record import Places, pack

NAMED = re.compile(
    r"(^|\.)(wpe|pos_embed\w*|\w*embed_positions|\w*position(al)?_?(embed\w*|enc\w*|table)|position\.table)(\.weight)?$"
)
SIDE = 96  # rows of the picture of cosines
FAR = 512  # distances that are told
TURNS = 64  # frequencies that are told


def places(model: nn.Module, grids: Sequence[tuple[int, list[int]]] = ()) -> Iterator[Places]:
    """Every learned table of places of a model. grids: tokens before, and rows and columns, of pictures that it reads."""
    for name, parameter in model.named_parameters():
        rows = parameter.detach().cpu().double()
        while rows.ndim > 2 and rows.shape[0] == 1:
            rows = rows[0]
        if NAMED.search(name) and rows.ndim == 2 and len(rows) > 3:
            grid = next((g for before, g in grids if before + g[0] * g[1] == len(rows)), [])
            before = next((b for b, g in grids if g is grid), 0)
            yield table(name, rows[before:] if grid else rows, grid)


def table(name: str, rows: Tensor, grid: Sequence[int] = ()) -> Places:
    """What can be measured on a table of places, [rows, width]. grid: rows and columns, where they are places on a picture."""
    centred = rows - rows.mean(0)
    unit = centred / centred.norm(dim=-1, keepdim=True).clamp(min=1e-300)
    cosines = unit @ unit.T
    at = torch.arange(len(rows)).double()
    apart = (at[:, None] - at).abs()
    if grid:
        y, x = torch.meshgrid(torch.arange(grid[0]).double(), torch.arange(grid[1]).double(), indexing="ij")
        spots = torch.stack([y.flatten(), x.flatten()], -1)
        apart = torch.cdist(spots, spots)
    kinds = apart.round().long()
    off = ~torch.eye(len(rows), dtype=torch.bool)
    means, spread, inside = _by(cosines[off], kinds[off])
    total = ((cosines[off] - cosines[off].mean()) ** 2).sum().item()
    power = (torch.fft.rfft(centred, dim=0).abs() ** 2).sum(-1)[1:] if not grid else torch.zeros(0, dtype=torch.float64)
    step = -(-len(rows) // SIDE)
    return Places(
        where=name.removesuffix(".weight"), rows=len(rows), width=rows.shape[-1], step=step,
        cosines=pack(cosines[::step, ::step].float().numpy()), distance=[1.0, *means[:FAR]], spread=[0.0, *spread[:FAR]],
        spectrum=(power / power.sum().clamp(min=1e-300))[:TURNS].tolist(), shifts=max(0.0, 1 - inside / total) if total else 1.0,
        grid=list(grid),
    )  # fmt: skip


def _by(values: Tensor, kinds: Tensor) -> tuple[list[float], list[float], float]:
    """Mean and spread of each kind from 1 on, and the sum of squares that is left inside of kinds."""
    count = torch.bincount(kinds).clamp(min=1)
    mean = torch.bincount(kinds, values) / count
    rest = (values - mean[kinds]) ** 2
    return mean[1:].tolist(), (torch.bincount(kinds, rest) / count).sqrt()[1:].tolist(), rest.sum().item()


def places_of(model: nn.Module) -> int | None:
    """How many places a model of transformers knows; None where its positions go on, as angles do, or where it does not say."""
    most = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    turns = any("rotary" in type(module).__name__.lower() for module in model.modules())
    return most if isinstance(most, int) and not turns else None


def patch(model: nn.Module) -> int | None:
    """The side of the patches into which a model cuts pictures: the first convolution that neither overlaps nor leaves gaps."""
    convolutions = (m for m in model.modules() if isinstance(m, nn.Conv2d))
    return next((int(m.stride[0]) for m in convolutions if m.stride == m.kernel_size and m.stride[0] > 1), None)
