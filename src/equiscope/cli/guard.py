"""`equiscope guard`: whether a language model, or a function that scores tokens, reads what it should predict.

The exit code is 1 where it does.
"""

import platform
from collections.abc import Callable
from typing import Any, cast

import msgspec
import torch

from equiscope import __version__
from equiscope.audit.inputs.targets import named_object, target
from equiscope.errors import GuardFailed, InputError
from equiscope.models.guard import guard, vocabulary
from equiscope.record import Guarded


def run(text: str, scorer: bool, vocab: int | None, longest: int, seed: int, json: bool) -> int:
    """The exit code."""
    guarded = record(text, scorer, vocab, longest, seed)
    print(msgspec.json.encode(guarded).decode() if json else _lines(guarded))
    return 0 if guarded.holds else 1


def record(text: str, scorer: bool, vocab: int | None, longest: int, seed: int) -> Guarded:
    """What the guard finds of a target, or of a function that scores tokens."""
    if scorer and vocab is None:
        raise InputError("The number of ids cannot be seen from a function that scores tokens. Add --vocab, such as --vocab 50257.")
    model: Callable[..., Any] = _scorer(text) if scorer else target(text, seed=seed).model
    size = vocabulary(model) if vocab is None else vocab
    common: dict[str, Any] = {
        "target": text, "scorer": scorer, "vocabulary": size, "seed": seed,
        "versions": {"equiscope": __version__, "torch": str(torch.__version__), "python": platform.python_version()},
    }  # fmt: skip
    try:
        passed = guard(model, size, longest=longest, seed=seed)
    except GuardFailed as failed:
        return Guarded(
            verdict="broken", kind=failed.kind, sentence=failed.sentence, calls=failed.calls, tokens=failed.tokens,
            changed=failed.changed, other=failed.other, position=failed.position, **common,
        )  # fmt: skip
    return Guarded(
        verdict="holds", calls=passed.calls, lengths=passed.lengths, futures=passed.positions, notes=passed.notes, **common
    )


def _scorer(text: str) -> Callable[..., Any]:
    scorer = named_object(text)
    if not callable(scorer):
        raise InputError(f"{text} is no function. With --scorer, name one that takes ids and returns a number for each token.")
    return cast(Callable[..., Any], scorer)


def _lines(guarded: Guarded) -> str:
    what = "scorer" if guarded.scorer else "model"
    if guarded.holds:
        lengths = ", ".join(map(str, guarded.lengths))
        lines = [f"{guarded.target}: the {what} passed."]
        lines += [f"{guarded.calls} calls of {lengths} tokens; the future replaced at {guarded.futures} positions.", *guarded.notes]
        return "\n".join(lines)
    lines = [f"{guarded.target}: the {what} failed ({guarded.kind}, {guarded.calls} calls).", guarded.sentence]
    lines += ["--json prints both inputs."] if guarded.other else []
    if guarded.kind == "future" and not guarded.scorer:
        lines.append(f"equiscope check {guarded.target} --property causal finds the module and the operation.")
    return "\n".join(lines)
