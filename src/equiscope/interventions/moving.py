"""A token at another position: what of a model reads positions, and how each reads others."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from equiscope.errors import InputError
from equiscope.interventions.changes import Move
from equiscope.interventions.layers import Layer
from equiscope.interventions.passes import Edit, Point


def moved(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], move: Move, layers: Sequence[Layer]
) -> tuple[tuple[Any, ...], dict[str, Any], list[tuple[Point, Edit]]]:
    """Arguments and edits with which a token is at another position.

    raises  InputError where nothing in the model is known to read positions
    """
    if hasattr(model, "tokens") and args:
        return (_own(model, args[0], move), *args[1:]), dict(kwargs), []
    raise InputError(f"Nothing that reads positions was found in {type(model).__name__}, so no token can be moved.")


def _own(model: Any, inputs: Any, move: Move) -> Any:
    """Tokens of a model of this package, with another position."""
    tokens = model.tokens(inputs)
    positions = tokens.positions.clone()
    n = positions.shape[-2]
    if not -n <= move.token < n:
        raise InputError(f"There are {n} tokens, counted from 0, but token {move.token} was asked for.")
    new = torch.as_tensor(move.position).to(positions)
    if new.ndim == 0 and positions.shape[-1] > 1:
        if not 0 <= int(new) < n:
            raise InputError(f"Positions have {positions.shape[-1]} axes. Give as many numbers, such as (row, column).")
        new = tokens.positions[..., int(new), :]
    positions[..., move.token, :] = new
    return dataclasses.replace(tokens, positions=positions)
