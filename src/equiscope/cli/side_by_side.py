"""`equiscope explore ... --model A --side-by-side B`: the same input for both models, so that their rows match."""

from pathlib import Path

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.explore.heads.model_inputs import LabelledInputs
from equiscope.models import folder_of

ANSWER = "The decoders of both models read the answer of the first one."


def align_inputs(one: LabelledInputs, other: LabelledInputs, generated: bool) -> None:
    """Where both models read the same ids, label their rows alike, and give both decoders the same tokens.

    generated  no input was given: the second model gets the example input of the first
    raises     InputError where the second model takes other inputs
    """
    ours, theirs = dict(one.tensors()), dict(other.tensors())
    if generated:
        shapes = [", ".join(f"{name} {list(v.shape)}" for name, v in inputs.items()) for inputs in (ours, theirs)]
        if shapes[0] != shapes[1]:
            raise InputError(f"The models bring inputs of their own that differ: {shapes[0]}, and {shapes[1]}. Give a text.")
        other.args, other.kwargs = one.args, dict(one.kwargs)
        return
    reads, answers = (_ids(ours), _ids(theirs)), (_answer(ours), _answer(theirs))
    if None in reads or not torch.equal(ours[reads[0] or ""], theirs[reads[1] or ""]):
        return
    other.sequences = list(one.sequences)
    if answers[0] is None or answers[1] is None:
        return
    answer = ours[answers[0]]
    if not torch.equal(answer, theirs[answers[1]]):
        other.args = tuple(answer if str(i) == answers[1] else a for i, a in enumerate(other.args))
        other.kwargs |= {answers[1]: answer} if answers[1] in other.kwargs else {}
        one.notes.append(ANSWER)


def short_names(source: str, other: str) -> list[str]:
    """Short names of two models that differ."""
    short = [Path(one).resolve().name if folder_of(one) else one for one in (source, other)]
    return short if short[0] != short[1] else [source, other]


def _ids(arguments: dict[str, Tensor]) -> str | None:
    """The argument for the ids of a text."""
    names = [name for name in ("source", "input_ids", "0") if name in arguments and not arguments[name].is_floating_point()]
    return names[0] if names else None


def _answer(arguments: dict[str, Tensor]) -> str | None:
    """The argument for the ids of the decoder."""
    return "decoder_input_ids" if "decoder_input_ids" in arguments else "0" if "source" in arguments else None
