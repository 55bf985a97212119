"""A token at another position: which modules and tables of a model read positions, and what each reads then.

Positions are found in five places: the Tokens of this package's models; rotations of queries and keys that are given position_ids
(Llama); a table of embeddings by position (GPT-2, BERT); a table that is added as it is (ViT, timm); a table of biases by distance
(T5).
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.interventions.changes import Move
from equiscope.interventions.passes import Edit, ValuePoint
from equiscope.program.attended.position_tables import NAMED


def moved(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], move: Move
) -> tuple[tuple[Any, ...], dict[str, Any], list[tuple[ValuePoint, Edit]]]:
    """Arguments and edits with which a token is at another position.

    raises  InputError where nothing in the model is known to read positions
    """
    if callable(getattr(model, "tokens", None)) and args:
        if move.of:
            raise InputError(
                f"{type(model).__name__} moves tokens of its first argument alone, but of={move.of!r} was given. Leave it out."
            )
        return (_own(model, args[0], move), *args[1:]), dict(kwargs), []
    edits = [(point, Edit(change)) for point, change in _readers(model, move) if move.of in str(point.key)]
    if not edits:
        raise InputError(
            f"Nothing that reads positions was found in {type(model).__name__}{f' in {move.of}' if move.of else ''}: no rotation "
            "with position_ids, no table of positions, no bias by distance. A model without positions has none to move."
        )
    return args, dict(kwargs), edits


def _readers(model: nn.Module, move: Move) -> list[tuple[ValuePoint, Callable[[Tensor], Tensor]]]:
    found: list[tuple[ValuePoint, Callable[[Tensor], Tensor]]] = []
    for path, part in model.named_modules():
        if isinstance(part, nn.Embedding) and "relative" in path and "bias" in path:
            found.append((ValuePoint("positions", path), lambda buckets: _by_distance(buckets, move)))
        elif isinstance(part, nn.Embedding) and NAMED.search(f"{path}.weight"):
            found.append((ValuePoint("positions", path), lambda rows: _rows(rows, move)))
        elif "rotary" in type(part).__name__.lower() and "position_ids" in inspect.signature(part.forward).parameters:
            found.append((ValuePoint("positions", path), lambda positions: _rows(positions, move)))
    for name, parameter in model.named_parameters():
        if NAMED.search(name) and not name.endswith(".weight") and parameter.ndim >= 2:
            found.append((ValuePoint("table", name), lambda table: _table(table, move)))
    return found


def _whole(move: Move) -> int:
    if not isinstance(move.position, int):
        raise InputError(f"This model counts positions with one number, but got {move.position}.")
    return move.position


def _checked(move: Move, count: int) -> None:
    if not -count <= move.token < count:
        raise InputError(f"There are {count} tokens, counted from 0, but token {move.token} was asked for.")


def _rows(positions: Tensor, move: Move) -> Tensor:
    """Positions [..., N], where the first token may not be at 0: a table of RoBERTa begins at 2."""
    _checked(move, positions.shape[-1])
    new = positions.clone()
    new[..., move.token] = positions[..., 0] + _whole(move)
    return new


def _table(table: Tensor, move: Move) -> Tensor:
    """A table [..., N, D] that is added as it is: the token gets the row of the position."""
    count, position = table.shape[-2], _whole(move)
    _checked(move, count)
    if not 0 <= position < count:
        raise InputError(f"The table has positions 0 to {count - 1}, but got {position}.")
    new = table.clone()
    new[..., move.token, :] = table[..., position, :]
    return new


def _by_distance(buckets: Tensor, move: Move) -> Tensor:
    """Buckets [N, M] by the distance of key and query, where a token of both sequences is at another position."""
    n, m = buckets.shape[-2:]
    position = _whole(move)
    _checked(move, n)
    if n != m or not 0 <= position < n:
        raise InputError(f"This bias by distance is known between the positions 0 to {n - 1} alone, but got {position}.")
    positions = torch.arange(n, device=buckets.device)
    positions[move.token] = position
    distance = positions[None, :] - positions[:, None]
    row, column = (-distance).clamp(min=0), distance.clamp(min=0)  # a pair at this distance
    return buckets[..., row, column]


def _own(model: Any, inputs: Any, move: Move) -> Any:
    """Tokens of a model of this package, with another position."""
    tokens = model.tokens(inputs)
    positions = tokens.positions.clone()
    n = positions.shape[-2]
    _checked(move, n)
    new = torch.as_tensor(move.position).to(positions)
    if new.ndim == 0 and positions.shape[-1] > 1:
        if not 0 <= int(new) < n:
            raise InputError(f"Positions have {positions.shape[-1]} axes. Give as many numbers, such as (row, column).")
        new = tokens.positions[..., int(new), :]
    positions[..., move.token, :] = new
    return dataclasses.replace(tokens, positions=positions)
