"""The ledger of claims: what people say about transformers, one sentence each, measured when asked, with a verdict.

`LEDGER` is the one list. A new claim is one decorated function in the file of its theme.
"""

from difflib import get_close_matches

from equiscope.errors import InputError
from equiscope.study.claims import attention, biases, cases, cost, depth, models, rotations, sinusoids, symmetry, tokens
from equiscope.study.claims.base import ROUNDING, VERDICTS, Claim, Measured, Ruling, Setting, Verdict, claim, ledger_to_json, ruled

THEMES: dict[str, tuple[Claim, ...]] = {
    theme: tuple(found for found in vars(file).values() if isinstance(found, Claim))
    for theme, file in {
        "Attention": attention,
        "What attention also is": cases,
        "Positions that are added": sinusoids,
        "Positions that turn": rotations,
        "Positions that act on scores": biases,
        "Order, places and reach": symmetry,
        "Tokens": tokens,
        "Blocks and depth": depth,
        "Training and writing": models,
        "Cost": cost,
    }.items()
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
