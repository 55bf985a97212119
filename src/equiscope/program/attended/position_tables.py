"""Learned tables of position embeddings, measured."""

import re
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from equiscope.record import PositionTable, pack

NAMED = re.compile(
    r"(^|\.)(wpe|pos_embed\w*|\w*embed_positions|\w*position(al)?_?(embed\w*|enc\w*|table)|position\.table)(\.weight)?$"
)
SIDE = 96  # rows of the picture of cosines
FAR = 512  # distances that are recorded
FREQUENCIES = 64  # that are recorded


def position_tables(model: nn.Module, grids: Sequence[tuple[int, list[int]]] = ()) -> Iterator[PositionTable]:
    """Every learned position table of a model. grids: of its pictures, prefix tokens, and rows and columns of patches."""
    for name, parameter in model.named_parameters():
        rows = parameter.detach().cpu().double()
        while rows.ndim > 2 and rows.shape[0] == 1:
            rows = rows[0]
        if NAMED.search(name) and rows.ndim == 2 and len(rows) > 3:
            grid = next((g for before, g in grids if before + g[0] * g[1] == len(rows)), [])
            before = next((b for b, g in grids if g is grid), 0)
            yield position_table(name, rows[before:] if grid else rows, grid)


def position_table(name: str, rows: Tensor, grid: Sequence[int] = ()) -> PositionTable:
    """Measurements of a position table [rows, width]. grid: rows and columns, where its rows are patches of a picture."""
    centred = rows - rows.mean(0)
    unit = centred / centred.norm(dim=-1, keepdim=True).clamp(min=1e-300)
    cosines = unit @ unit.T
    positions = torch.arange(len(rows)).double()
    distances = (positions[:, None] - positions).abs()
    if grid:
        y, x = torch.meshgrid(torch.arange(grid[0]).double(), torch.arange(grid[1]).double(), indexing="ij")
        cells = torch.stack([y.flatten(), x.flatten()], -1)
        distances = torch.cdist(cells, cells)
    bins = distances.round().long()
    off = ~torch.eye(len(rows), dtype=torch.bool)
    means, spread, inside = _by(cosines[off], bins[off])
    total = ((cosines[off] - cosines[off].mean()) ** 2).sum().item()
    power = (torch.fft.rfft(centred, dim=0).abs() ** 2).sum(-1)[1:] if not grid else torch.zeros(0, dtype=torch.float64)
    step = -(-len(rows) // SIDE)
    return PositionTable(
        where=name.removesuffix(".weight"), rows=len(rows), width=rows.shape[-1], step=step,
        cosines=pack(cosines[::step, ::step].float().numpy()), distance=[1.0, *means[:FAR]], spread=[0.0, *spread[:FAR]],
        spectrum=(power / power.sum().clamp(min=1e-300))[:FREQUENCIES].tolist(),
        shift_invariance=max(0.0, 1 - inside / total) if total else 1.0,
        grid=list(grid),
    )  # fmt: skip


def _by(values: Tensor, bins: Tensor) -> tuple[list[float], list[float], float]:
    """Mean and standard deviation in each bin from 1 on, and the sum of squares within bins."""
    count = torch.bincount(bins).clamp(min=1)
    mean = torch.bincount(bins, values) / count
    rest = (values - mean[bins]) ** 2
    return mean[1:].tolist(), (torch.bincount(bins, rest) / count).sqrt()[1:].tolist(), rest.sum().item()


def max_positions(model: nn.Module) -> int | None:
    """How many positions a model of transformers has; None for rotary models, which have no limit, and where it does not say."""
    most = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    rotary = any("rotary" in type(module).__name__.lower() for module in model.modules())
    return most if isinstance(most, int) and not rotary else None


def patch_side(model: nn.Module) -> int | None:
    """The patch size of a model: the stride of the first convolution whose stride equals its kernel."""
    convolutions = (m for m in model.modules() if isinstance(m, nn.Conv2d))
    return next((int(m.stride[0]) for m in convolutions if m.stride == m.kernel_size and m.stride[0] > 1), None)
