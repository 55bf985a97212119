"""How claims compose: a model respects an action if each of its parts does, so the first part that does not decides.

A part is any submodule with a `preserves` attribute; modules without one act on every token alone and break nothing.
A model that respects an action also respects what follows from it, whatever its parts say about that: without positions a
class token, which does not turn round with the words, cannot be told from one that does.
"""

from collections.abc import Iterator

from torch import nn

from equiscope.record import Claim
from equiscope.symmetry.actions import CLAIMED, Action


def derive(model: nn.Module) -> list[Claim]:
    """What the model claims about every action, and which part decides. Of a model with `claimed`: about those actions."""
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
    """Every part that says what it respects; a module with `moving_parts` says it for those inside."""
    if (inside := getattr(module, "moving_parts", None)) is not None:
        for name, part, preserves in inside():
            yield f"{path}.{name}" if path else name, part, preserves
        return
    if (own := getattr(module, "preserves", None)) is not None:
        yield path, module, own
    for name, child in module.named_children():
        yield from _parts(child, f"{path}.{name}" if path else name)


def _cause(model: nn.Module, action: type[Action]) -> type[Action] | None:
    """An action that the model respects and that implies this one."""
    listed = getattr(model, "claimed", CLAIMED)
    return next((a for a in listed if action.name in a.implies and _claim(model, a).holds), None)
