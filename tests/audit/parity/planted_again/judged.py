"""Judges the answers of `equiscope.parity` to these pairs."""

import equiscope as eq

from ..planted_by_others.judged import Answer, judge, sentence
from .cases import HEALTHY

__all__ = ["judge", "judge_healthy"]


def judge_healthy(name: str) -> Answer:
    """Compare the two models of a healthy pair."""
    a, b, inputs, kwargs = HEALTHY[name]()
    try:
        parity = eq.parity(a, b, *inputs, kwargs=kwargs)
    except Exception as error:
        return Answer(name, False, False, f"{type(error).__name__}: {str(error).splitlines()[0][:120]}")
    return Answer(name, parity.holds, parity.holds, sentence(parity))
