"""What `equiscope guard` found: whether a model, or a function that scores tokens, reads what it should predict. No torch."""

from typing import Literal

from msgspec import Struct, field

from equiscope.errors import Leak
from equiscope.record.program import VERSION


class Guarded(Struct, frozen=True, kw_only=True):
    """One run of the guard: how it looked, and the smallest counterexample.

    version     of the record; another version has other fields
    target      as it was named
    scorer      whether it is a function that returns one number for each token
    vocabulary  number of ids
    verdict     holds where no counterexample was found
    kind        of the counterexample: "future": an output depends on later tokens; "batch": on other sequences; "state": on earlier
                calls; "random": on chance; "sum": probabilities sum to more than one; empty where it holds
    sentence    the counterexample in words; empty where it holds
    calls       of the model; lengths: tokens of these calls; futures: at how many positions the later tokens were replaced
    tokens      the input of the counterexample; changed: indices of the tokens that were replaced in it
    other       the input with them replaced
    position    whose output changes
    seed        of the tokens; versions: of equiscope, torch and Python
    notes       what could not be measured
    """

    version: int = VERSION
    target: str
    scorer: bool
    vocabulary: int
    verdict: Literal["holds", "broken"]
    kind: Leak | Literal[""] = ""
    sentence: str = ""
    calls: int = 0
    lengths: list[int] = field(default_factory=list)
    futures: int = 0
    tokens: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    other: list[int] = field(default_factory=list)
    position: int | None = None
    seed: int = 0
    versions: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no counterexample was found."""
        return self.verdict == "holds"
