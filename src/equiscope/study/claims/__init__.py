"""The ledger of claims: what people say about transformers, one sentence each, measured when asked, with a verdict.

`LEDGER` is the one list. A new claim is one decorated function in the file of its theme and one name in that file's CLAIMS.
"""

from difflib import get_close_matches

from equiscope.errors import InputError
from equiscope.study.claims import attention, biases, cases, cost, depth, models, rotations, sinusoids, symmetry, tokens
from equiscope.study.claims.base import ROUNDING, VERDICTS, Claim, Measured, Ruling, Setting, Verdict, claim, ledger_to_json, ruled

THEMES: dict[str, tuple[Claim, ...]] = {
    "Attention": attention.CLAIMS,
    "What attention also is": cases.CLAIMS,
    "Positions that are added": sinusoids.CLAIMS,
    "Positions that turn": rotations.CLAIMS,
    "Positions that act on scores": biases.CLAIMS,
    "Order, places and reach": symmetry.CLAIMS,
    "Tokens": tokens.CLAIMS,
    "Blocks and depth": depth.CLAIMS,
    "Training and writing": models.CLAIMS,
    "Cost": cost.CLAIMS,
}
LEDGER: tuple[Claim, ...] = tuple(claim for claims in THEMES.values() for claim in claims)

__all__ = [
    "LEDGER",
    "ROUNDING",
    "THEMES",
    "VERDICTS",
    "Claim",
    "Measured",
    "Ruling",
    "Setting",
    "Verdict",
    "claim",
    "known",
    "ledger_to_json",
    "ruled",
]


def known(name: str) -> Claim:
    """The claim of this name. Raises InputError with the nearest names."""
    for each in LEDGER:
        if each.name == name:
            return each
    near = get_close_matches(name, [each.name for each in LEDGER], 3, 0.3)
    hint = f"The nearest: {', '.join(near)}. " if near else ""
    raise InputError(f"The ledger has no claim called {name!r}. {hint}equiscope study claims --list names all {len(LEDGER)}.")
