"""How claims compose: a model respects an action if each of its parts does, so the first part that does not decides.

A part is any submodule with a `preserves` attribute; modules without one act on every token alone and break nothing.
"""

from torch import nn

from equiscope.record import Claim
from equiscope.symmetry.actions import ACTIONS, Action


def derive(model: nn.Module) -> list[Claim]:
    """What the model claims about every action, and which part decides."""
    return [_claim(model, action) for action in ACTIONS]


def _claim(model: nn.Module, action: type[Action]) -> Claim:
    for path, part in model.named_modules():
        preserves = getattr(part, "preserves", None)
        if preserves is not None and action not in preserves:
            reason = getattr(part, "because", "") or f"{type(part).__name__} notices when you {action.summary}"
            return Claim(action=action.name, holds=False, decided_by=path or type(part).__name__, reason=reason)
    return Claim(action=action.name, holds=True, reason="every part treats the tokens alike")
