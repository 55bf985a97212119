"""Composition of claims: a model preserves an action if all of its parts do; the first part that does not is the reason.

A part is any submodule with a `preserves` attribute; modules without one act on every token separately and preserve every action.
A model that preserves an action also preserves the actions that it implies, whatever its parts claim: without positions, a class
token that a reversal leaves in front is equivalent to one that it moves.
"""

from collections.abc import Iterator

from torch import nn

from equiscope.record import Claim
from equiscope.symmetry.actions import CLAIMED, Action


def derive(model: nn.Module) -> list[Claim]:
    """The model's claim about every action, and the part that decides. A model with `claimed` lists its actions."""
    return [_claim(model, action) for action in getattr(model, "claimed", CLAIMED)]


def _claim(model: nn.Module, action: type[Action]) -> Claim:
    for path, part, preserves in _parts(model):
        if action not in preserves:
            if cause := _cause(model, action):
                return Claim(action=action.name, holds=True, reason=f"it follows, as you may {cause.summary}")
            reason = getattr(part, "because", "") or f"{type(part).__name__} notices when you {action.summary}"
            return Claim(action=action.name, holds=False, decided_by=path or type(part).__name__, reason=reason)
    return Claim(action=action.name, holds=True, reason=getattr(model, "because", "") or "every part treats the tokens alike")


def _parts(module: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module, frozenset[type[Action]]]]:
    """Every part with a claim; a module with `moving_parts` makes the claims of its submodules."""
    if (inside := getattr(module, "moving_parts", None)) is not None:
        for name, part, preserves in inside():
            yield f"{path}.{name}" if path else name, part, preserves
        return
    if (own := getattr(module, "preserves", None)) is not None:
        yield path, module, own
    for name, child in module.named_children():
        yield from _parts(child, f"{path}.{name}" if path else name)


def _cause(model: nn.Module, action: type[Action]) -> type[Action] | None:
    """An action that the model preserves and that implies this one."""
    listed = getattr(model, "claimed", CLAIMED)
    return next((a for a in listed if action.name in a.implies and _claim(model, a).holds), None)
