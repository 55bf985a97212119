"""The ledger of claims: statements of the literature about transformers, one sentence each, measured on demand, with a verdict.

`LEDGER` is the one list. A new claim is one decorated function in the file of its theme.
"""

from equiscope.errors import UnknownName
from equiscope.study.claims import attention, biases, cases, cost, depth, models, rotations, sinusoids, symmetry, tokens, trained
from equiscope.study.claims.base import (
    ROUNDING,
    VERDICTS,
    ClaimMeasurement,
    ClaimResult,
    LedgerClaim,
    Setting,
    Verdict,
    claim,
    ledger_to_json,
    verdict_of,
)

THEMES: dict[str, tuple[LedgerClaim, ...]] = {
    theme: tuple(found for found in vars(file).values() if isinstance(found, LedgerClaim))
    for theme, file in {
        "Attention": attention,
        "Attention as other models": cases,
        "Positions that are added": sinusoids,
        "Positions that rotate": rotations,
        "Positions as score biases": biases,
        "Symmetries and receptive fields": symmetry,
        "Tokens": tokens,
        "Blocks and depth": depth,
        "Training and generation": models,
        "Small trained models": trained,
        "Cost": cost,
    }.items()
}
LEDGER: tuple[LedgerClaim, ...] = tuple(claim for claims in THEMES.values() for claim in claims)

__all__ = [
    "LEDGER",
    "ROUNDING",
    "THEMES",
    "VERDICTS",
    "ClaimMeasurement",
    "ClaimResult",
    "LedgerClaim",
    "Setting",
    "Verdict",
    "claim",
    "claim_named",
    "ledger_to_json",
    "verdict_of",
]


def claim_named(name: str) -> LedgerClaim:
    """The claim of this name. Raises UnknownName with the nearest names."""
    for each in LEDGER:
        if each.name == name:
            return each
    hint = f"equiscope study claims --list names all {len(LEDGER)}."
    raise UnknownName("claim in the ledger", name, [each.name for each in LEDGER], hint)
