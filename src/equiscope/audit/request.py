"""Request: the statements of one check, how many samples each gets, and what is known of each so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from equiscope.audit.diagnose.localize import BreakLocation
from equiscope.audit.statements.pairs import MeasuredPair
from equiscope.audit.statements.properties import PROPERTIES
from equiscope.audit.statements.statement import Output, Statement, Symmetry
from equiscope.audit.subject import Subject
from equiscope.audit.verdict import StatementErrors
from equiscope.errors import InputError, UnknownName
from equiscope.record import Counterexample, Coverage, Row
from equiscope.symmetry import ACTIONS


@dataclass(frozen=True)
class Effort:
    """Samples of each statement: in float64 and in the narrower precision, at given and at random parameters; and how many
    candidates are tried for a smallest counterexample."""

    high_samples: int
    low_samples: int
    random_high_samples: int
    random_low_samples: int
    shrink_steps: int


EFFORTS = {
    "quick": Effort(4, 2, 2, 1, 6), "default": Effort(8, 4, 4, 2, 12), "thorough": Effort(64, 16, 32, 8, 200),
}  # fmt: skip


@dataclass
class Request:
    """A statement to check. requested: by name, so that it makes the check fail where it does not hold."""

    statement: Statement
    requested: bool
    subject: Subject | None = None
    missing: str = ""
    given_errors: StatementErrors | None = None
    random_errors: StatementErrors | None = None
    samples: list[float] = field(default_factory=list)
    worst: MeasuredPair | None = None  # that which is looked into, measured in the wide precision
    worst_parameters: str = "given"
    counterexample: Counterexample | None = None
    location: BreakLocation | None = None
    subgroup: str = ""
    cause: str = ""
    lie: float | None = None
    own_row: Row | None = None  # of a property that measures in its own way
    crash: str = ""
    rejected: bool = False  # whether the model raised on moved inputs of the very shape that it took
    notes: list[str] = field(default_factory=list)
    outputs_compared: int = 0
    screened_errors: list[float] = field(default_factory=list)  # errors of the pass under way that were measured together
    coverage: Coverage | None = None
    secondary: dict[str, str] = field(default_factory=dict)  # outputs that do not decide, and what they do
    inputs_changed: bool = False  # whether some pair gave the second run anything else than the first
    explaining_tables: str = ""  # that explain the error of the pass under way
    seconds: float = 0.0
    passes: int = 0


def requests_of(
    subject: Subject, actions: str | Sequence[Any] | None, properties: str | Sequence[Any] | None, output: Output,
    decoder: Subject | None = None,
) -> list[Request]:  # fmt: skip
    """Statements in the order of the report: properties first. With neither list given, all that can be asked. A name alone is a
    list of one. `pure` is asked in any case, in the end where nobody named it.

    decoder  the same model as a subject whose words are those of its decoder, for statements about these
    """
    actions, properties = _several(actions), _several(properties)
    requests = []
    properties_by_name = {p.name: p for p in PROPERTIES}
    if properties is not None or actions is None:
        for one in properties_by_name.values() if properties is None else properties:
            if isinstance(one, str):
                if one not in properties_by_name:
                    raise UnknownName("property", one, list(properties_by_name))
                one = properties_by_name[one]
            requests.append(Request(one() if isinstance(one, type) else one, properties is not None))
    if actions is not None or properties is None:
        for one in [a for a in ACTIONS if a.usual] if actions is None else actions:
            requests.append(Request(Symmetry(_action(one), output), actions is not None))
    if not any(one.statement.name == "pure" for one in requests):
        requests.append(Request(properties_by_name["pure"](), False))
    for one in requests:
        one.subject = decoder if decoder is not None and one.statement.of_decoder else subject
        one.missing = one.statement.missing(one.subject)
    return [one for one in requests if one.requested or not one.missing]


def _several(names: Any) -> Sequence[Any] | None:
    return None if names is None else list(names) if isinstance(names, (list, tuple, set, frozenset)) else [names]


def _action(one: Any) -> Any:
    if isinstance(one, str):
        found = next((a for a in ACTIONS if a.name == one), None)
        if found is None:
            raise UnknownName("action", one, [a.name for a in ACTIONS])
        return found
    if not hasattr(one, "on_input"):
        raise InputError(f"An action is a name, or a class with sample, on_input and on_output, but got {one!r}.")
    return one
