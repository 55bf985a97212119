"""Request: the statements of one check, their numbers of samples, and the results so far."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from equiscope.audit.diagnose.localize import BreakLocation
from equiscope.audit.statements.pairs import MeasuredPair
from equiscope.audit.statements.properties import PROPERTIES
from equiscope.audit.statements.statement import ActionChoice, Output, PropertyChoice, Statement, Symmetry
from equiscope.audit.subject import Subject
from equiscope.audit.verdict import StatementErrors
from equiscope.errors import InputError, UnknownName
from equiscope.record import Counterexample, Coverage, Row
from equiscope.symmetry import ACTIONS
from equiscope.symmetry.registry import named
from equiscope.symmetry.representations import family


@dataclass(frozen=True)
class Effort:
    """Samples of each statement in high and low precision, at the given and at random parameters.

    shrink_steps  candidates that are tried for the smallest counterexample
    """

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
    """A statement to check, and its results so far.

    requested          asked for by name: the check fails where it does not hold
    missing            why it does not apply to this model and these inputs; empty where it does
    given_errors       at the given parameters; random_errors: at random ones
    samples            errors of all pairs in high precision
    worst              the pair that is diagnosed, and the parameters ("given" or "random") at which it was measured
    own_row            of a property that measures in its own way
    crash              the message of the model where it could not be run
    rejected           whether the model raised on transformed inputs of the shape that it accepted
    screened_errors    of the current pass, measured several in one call
    secondary          outputs that are reported but do not decide -> how they behave
    inputs_changed     whether any pair changed the input of the second run
    explaining_tables  float32 tables that explain the error of the current pass
    """

    statement: Statement
    requested: bool
    subject: Subject | None = None
    missing: str = ""
    given_errors: StatementErrors | None = None
    random_errors: StatementErrors | None = None
    samples: list[float] = field(default_factory=list)
    worst: MeasuredPair | None = None
    worst_parameters: str = "given"
    counterexample: Counterexample | None = None
    location: BreakLocation | None = None
    subgroup: str = ""
    cause: str = ""
    lie_derivative: float | None = None
    own_row: Row | None = None
    crash: str = ""
    rejected: bool = False
    notes: list[str] = field(default_factory=list)
    outputs_compared: int = 0
    screened_errors: list[float] = field(default_factory=list)
    coverage: Coverage | None = None
    secondary: dict[str, str] = field(default_factory=dict)
    inputs_changed: bool = False
    explaining_tables: str = ""
    seconds: float = 0.0
    passes: int = 0


def requests_of(
    subject: Subject, actions: ActionChoice | Sequence[ActionChoice] | None,
    properties: PropertyChoice | Sequence[PropertyChoice] | None, output: Output, decoder: Subject | None = None,
) -> list[Request]:  # fmt: skip
    """The statements in the order of the report: properties first, then actions.

    With neither list given, these are all statements that apply. A single name is a list of one. `pure` is always included, last
    where it was not named.

    decoder  the same model as a subject whose tokens are those of its decoder, for statements about these
    """
    chosen_actions, chosen_properties = _as_list(actions), _as_list(properties)
    if all(isinstance(choice, str) for choice in chosen_actions or ()):  # a class of the user may have its own representations
        for representation in [] if output is None else [output] if isinstance(output, str) else output.values():
            family(representation)  # raises UnknownName
    requests = []
    properties_by_name = {p.name: p for p in PROPERTIES}
    if chosen_properties is not None or chosen_actions is None:
        for choice in [p for p in PROPERTIES if p.by_default] if chosen_properties is None else chosen_properties:
            if isinstance(choice, str):
                if choice not in properties_by_name:
                    hint = f"{choice} is an action: give it as one." if choice in {a.name for a in ACTIONS} else ""
                    raise UnknownName("property", choice, list(properties_by_name), hint)
                choice = properties_by_name[choice]
            requests.append(Request(choice() if isinstance(choice, type) else choice, chosen_properties is not None))
    if chosen_actions is not None or chosen_properties is None:
        for choice in [a for a in ACTIONS if a.by_default] if chosen_actions is None else chosen_actions:
            requests.append(Request(Symmetry(_action(choice), output), chosen_actions is not None))
    if not any(request.statement.name == "pure" for request in requests):
        requests.append(Request(properties_by_name["pure"](), False))
    for request in requests:
        request.subject = decoder if decoder is not None and request.statement.of_decoder else subject
        request.missing = request.statement.missing(request.subject)
    return [request for request in requests if request.requested or not request.missing]


def _as_list(choice: Any) -> list[Any] | None:
    return None if choice is None else list(choice) if isinstance(choice, (list, tuple, set, frozenset)) else [choice]


def _action(choice: Any) -> Any:
    if isinstance(choice, str):
        if choice in {p.name for p in PROPERTIES}:
            raise UnknownName("action", choice, [a.name for a in ACTIONS], f"{choice} is a property: give it as one.")
        return named(choice)
    if not hasattr(choice, "on_input"):
        raise InputError(f"An action is a name, or a class with sample, on_input and on_output, but got {choice!r}.")
    return choice
