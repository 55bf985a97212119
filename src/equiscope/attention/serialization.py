"""Score functions, masks and kinds of attention to and from JSON, for specs, files and the command line.

"dot"                                   {"kind": "additive", "hidden": 16}
"causal"                                {"kind": "blocks", "size": 8}
"sigmoid"                               {"kind": "linformer", "rank": 16}
{"and": ["causal", {"kind": "dilated", "step": 2}]}, and the same with "or"; {"not": "causal"}
"""

from functools import reduce
from typing import Any

from equiscope.attention.kinds import AttentionKind
from equiscope.attention.mask import MASKS, Both, Either, Mask, Opposite
from equiscope.attention.scores import SCORES, ScoreFunction
from equiscope.errors import InputError, short_repr
from equiscope.positions.registry import from_name

JOINED: dict[str, type[Both] | type[Either]] = {"and": Both, "or": Either}
Data = dict[str, Any] | str


def score_to_json(score: ScoreFunction) -> Data:
    """The score's name, or an object with those settings that are not its defaults."""
    defaults = type(score)().settings
    return _named(score.name, {k: v for k, v in score.settings.items() if v != defaults[k]})


def score_from_json(data: Any) -> ScoreFunction:
    """The score that `score_to_json` wrote. Raises UnknownName with the list, InputError for settings that it does not have."""
    return from_name("score", ScoreFunction, SCORES, *_split("score", data))


def kind_to_json(kind: AttentionKind) -> Data:
    """The kind's name, or an object with those settings that are not its defaults."""
    return _named(kind.name, kind.settings)


def kind_from_json(data: Any) -> AttentionKind:
    """The kind that `kind_to_json` wrote. Raises UnknownName with the list, InputError for settings that it does not have."""
    name, settings = _split("kind of attention", data)
    return AttentionKind(name, **settings)


def mask_to_json(mask: Mask) -> Data:
    """The mask's name, an object with its settings, or what it joins."""
    for word, kind in JOINED.items():
        if isinstance(mask, kind):
            return {word: [mask_to_json(part) for part in mask.parts]}
    if isinstance(mask, Opposite):
        return {"not": mask_to_json(mask.of)}
    return _named(mask.name, {k: [list(pair) for pair in v] if k == "edges" else v for k, v in mask.settings.items()})


def mask_from_json(data: Any) -> Mask:
    """The mask that `mask_to_json` wrote. Raises UnknownName with the list, InputError for settings that it does not have."""
    word = next(iter(data)) if isinstance(data, dict) and len(data) == 1 else ""
    if word == "not":
        return Opposite(mask_from_json(data["not"]))
    if word in JOINED:
        if not isinstance(data[word], (list, tuple)) or len(data[word]) < 2:
            raise InputError(f'"{word}" joins a list of two masks or more, but got {short_repr(data[word])}.')
        return reduce(JOINED[word], map(mask_from_json, data[word]))
    return from_name("mask", Mask, MASKS, *_split("mask", data, ', or masks joined by "and", "or" or "not"'))


def _named(name: str, settings: dict[str, Any]) -> Data:
    return {"kind": name, **settings} if settings else name


def _split(what: str, data: Any, more: str = "") -> tuple[Any, dict[str, Any]]:
    """The name and the settings."""
    if isinstance(data, str):
        return data, {}
    if not isinstance(data, dict) or "kind" not in data:
        raise InputError(f"A {what} is a name, or an object with its kind and settings{more}, but got {short_repr(data)}.")
    return data["kind"], {k: v for k, v in data.items() if k != "kind"}
