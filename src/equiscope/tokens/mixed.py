"""Several parts in one sequence: text and images, or many short texts packed into a row.

`join` makes one document, `pack` one document for each part, and `share_rank` makes a part bidirectional under a causal mask.
A function of the parts decides their positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.tokens.base import Tokens

PositionRule = Callable[[Sequence[Tokens]], list[Tensor]]


def keep_positions(parts: Sequence[Tokens]) -> list[Tensor]:
    """Every part keeps its positions; missing axes are prepended and 0.

    So text next to an image lies along a line of it, and an image next to a video is its first frame. Two parts may share
    positions: a model then distinguishes them by their features alone.
    """
    axes = max(part.positions.shape[-1] for part in parts)
    return [_pad_axes(part.positions, axes) for part in parts]


def consecutive_positions(parts: Sequence[Tokens]) -> list[Tensor]:
    """Every part begins one step beyond the largest coordinate of the part before, on all axes.

    A part with one axis (text) moves along all axes together; in other parts, missing axes are prepended and 0.
    With text [N, 1] and images [N, 3] at (0, row, column) these are the positions of multimodal RoPE.
    source  Wang et al. 2024, "Qwen2-VL", section 2.1 (transformers goes on after max(rows, columns), also of a longer video)
    """
    axes = max(part.positions.shape[-1] for part in parts)
    moved: list[Tensor] = []
    start: Tensor | float = 0.0
    for part in parts:
        positions = part.positions if part.positions.is_floating_point() else part.positions.double()  # whole numbers may be large
        positions = positions.expand(*positions.shape[:-1], axes) if positions.shape[-1] == 1 else _pad_axes(positions, axes)
        low, high = _span(positions, part.valid)
        moved.append(
            (positions - low + start).to(part.positions.dtype if part.positions.is_floating_point() else torch.get_default_dtype())
        )
        start = start + (high - low).amax(-1, keepdim=True) + 1
    return moved


def join(parts: Sequence[Tokens], positions: PositionRule = keep_positions) -> Tokens:
    """Join parts to one text, within which the mask alone decides what attends to what.

    parts      of one width and one batch; ranks continue from part to part
    positions  `keep_positions`, `consecutive_positions`, or any function from the parts to their positions [..., N, A]
    returns    Tokens with x [..., N, D] and positions [..., N, A], A the largest number of axes among the parts
    raises     ShapeError for parts of different widths or batches, InputError for a part that is packed already
    """
    _check(parts)
    for i, part in enumerate(parts):
        if part.document is not None:
            raise InputError(f"Part {i} has documents already, but join makes one. Use pack(parts), or join before packing.")
    return _row(parts, positions)


def pack(parts: Sequence[Tokens], positions: PositionRule = keep_positions) -> Tokens:
    """Pack parts into one row without attention between them: each is a document, or keeps its documents. Otherwise as `join`."""
    _check(parts)
    documents, before = [], 0
    for part in parts:
        number = torch.zeros_like(part.order) if part.document is None else part.document - part.document.min()
        documents.append(number + before)
        before += int(number.max()) + 1
    return replace(_row(parts, positions), document=_cat(documents, parts, 1))


def share_rank(tokens: Tokens) -> Tokens:
    """Give all rows the lowest rank, so that they attend to one another under a causal mask: an image in a text (Transfusion)."""
    return replace(tokens, order=tokens.order.amin(-1, keepdim=True).expand_as(tokens.order).contiguous())


def _row(parts: Sequence[Tokens], rule: PositionRule) -> Tokens:
    ranks: list[Tensor] = []
    first: Tensor | int = 0
    for part in parts:
        ranks.append(part.order - part.order.amin(-1, keepdim=True) + first)
        first = ranks[-1].amax(-1, keepdim=True) + 1
    valid = [torch.ones_like(p.order, dtype=torch.bool) if p.valid is None else p.valid for p in parts]
    return Tokens(
        x=torch.cat([part.x for part in parts], -2),
        positions=_cat(rule(parts), parts, 2),
        order=_cat(ranks, parts, 1),
        valid=None if all(part.valid is None for part in parts) else _cat(valid, parts, 1),
        mapped=all(part.mapped for part in parts),
        convolved=all(part.convolved for part in parts),
    )


def _check(parts: Sequence[Tokens]) -> None:
    if not parts:
        raise InputError("There are no parts. Give at least one Tokens.")
    if any(part.x.shape[-2] == 0 for part in parts):
        raise ShapeError("A part has no tokens. Leave it out.")
    first = parts[0].x.shape
    for i, part in enumerate(parts):
        if part.x.shape[-1] != first[-1]:
            raise ShapeError(
                f"Part 0 has {first[-1]} features a token, part {i} has {part.x.shape[-1]}. Bring all parts to the model's width "
                "first: nn.Linear for patches and samples, Embedding for ids."
            )
        if part.x.shape[:-2] != first[:-2]:
            raise ShapeError(f"Part 0 is a batch of {tuple(first[:-2])}, part {i} of {tuple(part.x.shape[:-2])}. Use one batch.")


def _cat(tensors: list[Tensor], parts: Sequence[Tokens], axes: int) -> Tensor:
    """Concatenate along the token axis, the `axes`-th from the end; expand lists for the whole batch if one has a batch axis."""
    if any(tensor.ndim > axes for tensor in tensors):
        lead = parts[0].x.shape[:-2]
        tensors = [tensor.expand(*lead, *tensor.shape[-axes:]) for tensor in tensors]
    return torch.cat(tensors, -axes)


def _pad_axes(positions: Tensor, axes: int) -> Tensor:
    return torch.nn.functional.pad(positions, (axes - positions.shape[-1], 0))


def _span(positions: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """Smallest and largest coordinate of each axis, [..., 1, A], padding left out; 0 and -1 where all is padding."""
    if valid is None:
        return positions.amin(-2, keepdim=True), positions.amax(-2, keepdim=True)
    no, far = ~valid.unsqueeze(-1), float("inf")
    low, high = positions.masked_fill(no, far).amin(-2, keepdim=True), positions.masked_fill(no, -far).amax(-2, keepdim=True)
    return low.masked_fill(low == far, 0.0), high.masked_fill(high == -far, -1.0)
