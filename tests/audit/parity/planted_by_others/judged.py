"""Runs `equiscope.parity` on the planted and the healthy pairs and judges its answers."""

from collections.abc import Callable
from dataclasses import dataclass

import equiscope as eq

from . import cases, healthy
from .cases import Case
from .further import FURTHER, FURTHER_HEALTHY
from .small_models import SMALL

CASES = (*cases.CASES, *SMALL, *FURTHER)
HEALTHY = healthy.HEALTHY | FURTHER_HEALTHY


@dataclass
class Answer:
    """What parity said of one pair. `step` and `cause`: whether they are right; of a healthy pair, whether no alarm was raised."""

    name: str
    step: bool
    cause: bool
    said: str


def judge(case: Case) -> Answer:
    """Compare the two models of the case."""
    a, b, inputs, kwargs = case.make()
    try:
        parity = eq.parity(a, b, *inputs, kwargs=kwargs, differences=1)
    except Exception as error:  # a crash is a wrong answer, not the end of the table
        return Answer(case.name, False, False, f"{type(error).__name__}: {str(error).splitlines()[0][:120]}")
    return Answer(case.name, case.right_step(parity), case.right_cause(parity), sentence(parity))


def judge_healthy(name: str, make: Callable[[], tuple]) -> Answer:
    """Compare the two models of a healthy pair."""
    a, b, inputs, kwargs = make()
    try:
        parity = eq.parity(a, b, *inputs, kwargs=kwargs, differences=1)
    except Exception as error:
        return Answer(name, False, False, f"{type(error).__name__}: {str(error).splitlines()[0][:120]}")
    return Answer(name, parity.holds, parity.holds, sentence(parity))


def sentence(parity) -> str:
    """Verdict, step and cause in one line."""
    return "; ".join(part for part in (parity.verdict, parity.where, parity.cause) if part)
