"""Several parts in one sequence: text beside pictures, or many short ones to fill a row.

Two things are decided here and nowhere else. Who may look at whom: `join` makes one document, `pack` one for each part, and
`together` lets a part see all of itself under a causal mask. Where each part is: `places`, a function of the parts.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from equiscope.errors import InputError, ShapeError
from equiscope.tokens.base import Tokens

Placing = Callable[[Sequence[Tokens]], list[Tensor]]


def own(parts: Sequence[Tokens]) -> list[Tensor]:
    """Every part keeps its own coordinates; axes that it does not have stand in front and are 0.

    So text beside a picture lies along a line of it, and a picture beside a video is its first frame. Two parts may lie at the
    same place: a model then tells them apart by their features alone.
    """
    axes = max(part.positions.shape[-1] for part in parts)
    return [_in_front(part.positions, axes) for part in parts]


def one_after_another(parts: Sequence[Tokens]) -> list[Tensor]:
    """Every part begins where the one before ended: one step beyond its largest coordinate, on all axes.

    A part with one axis (text) moves along all axes together; in the others, axes that are missing stand in front and are 0.
    With text [N, 1] and pictures [N, 3] at (0, row, column) these are the places of multimodal RoPE.
    source  Wang et al. 2024, "Qwen2-VL", section 2.1 (transformers goes on after max(rows, columns), also of a longer video)
    """
    axes = max(part.positions.shape[-1] for part in parts)
    placed: list[Tensor] = []
    start: Tensor | float = 0.0
    for part in parts:
        positions = part.positions if part.positions.is_floating_point() else part.positions.double()  # whole numbers may be large
        positions = positions.expand(*positions.shape[:-1], axes) if positions.shape[-1] == 1 else _in_front(positions, axes)
        low, high = _span(positions, part.valid)
        placed.append(
            (positions - low + start).to(part.positions.dtype if part.positions.is_floating_point() else torch.get_default_dtype())
        )
        start = start + (high - low).amax(-1, keepdim=True) + 1
    return placed


def join(parts: Sequence[Tokens], places: Placing = own) -> Tokens:
    """Parts as one text, in which everything may look at everything that the mask allows.

    parts   of one width and one batch; ranks go on from part to part, as `together` or the part itself has them
    places  where each part is: `own`, `one_after_another`, or a function of yours from the parts to their [..., N, A]
    returns Tokens with x [..., N, D] and positions [..., N, A], A the largest number of axes among the parts
    raises  ShapeError for parts of different widths or batches, InputError for a part that is packed already
    """
    _check(parts)
    for i, part in enumerate(parts):
        if part.document is not None:
            raise InputError(f"Part {i} holds documents already, and a join is one. Use pack(parts), or join before packing.")
    return _row(parts, places)


def pack(parts: Sequence[Tokens], places: Placing = own) -> Tokens:
    """Parts in one row that do not see one another: each is a document, or keeps those that it has. Otherwise as `join`."""
    _check(parts)
    documents, before = [], 0
    for part in parts:
        number = torch.zeros_like(part.order) if part.document is None else part.document - part.document.min()
        documents.append(number + before)
        before += int(number.max()) + 1
    return replace(_row(parts, places), document=_cat(documents, parts, 1))


def together(tokens: Tokens) -> Tokens:
    """All rows get the first one's rank, so that under a causal mask they see one another: a picture in a text (Transfusion)."""
    return replace(tokens, order=tokens.order.amin(-1, keepdim=True).expand_as(tokens.order).contiguous())


def _row(parts: Sequence[Tokens], places: Placing) -> Tokens:
    ranks: list[Tensor] = []
    first: Tensor | int = 0
    for part in parts:
        ranks.append(part.order - part.order.amin(-1, keepdim=True) + first)
        first = ranks[-1].amax(-1, keepdim=True) + 1
    valid = [torch.ones_like(p.order, dtype=torch.bool) if p.valid is None else p.valid for p in parts]
    return Tokens(
        x=torch.cat([part.x for part in parts], -2),
        positions=_cat(places(parts), parts, 2),
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
    """End to end along the token axis, the `axes`-th from the back; a list that serves the whole batch stays one where all are."""
    if any(tensor.ndim > axes for tensor in tensors):
        lead = parts[0].x.shape[:-2]
        tensors = [tensor.expand(*lead, *tensor.shape[-axes:]) for tensor in tensors]
    return torch.cat(tensors, -axes)


def _in_front(positions: Tensor, axes: int) -> Tensor:
    return torch.nn.functional.pad(positions, (axes - positions.shape[-1], 0))


def _span(positions: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
    """Smallest and largest coordinate of each axis, [..., 1, A], padding left out; 0 and -1 where all is padding."""
    if valid is None:
        return positions.amin(-2, keepdim=True), positions.amax(-2, keepdim=True)
    no, far = ~valid.unsqueeze(-1), float("inf")
    low, high = positions.masked_fill(no, far).amin(-2, keepdim=True), positions.masked_fill(no, -far).amax(-2, keepdim=True)
    return low.masked_fill(low == far, 0.0), high.masked_fill(high == -far, -1.0)
