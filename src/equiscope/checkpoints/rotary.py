"""Rotary positions as configs say them, in the words of today and of before.

Source: transformers' modeling_rope_utils; its rotations are by halves.
"""

from typing import Any

from equiscope.checkpoints.fields import Fields
from equiscope.errors import InputError
from equiscope.positions import Rope
from equiscope.positions.scaling import Linear, Llama3, Scaling, Yarn

NUMBERS = frozenset({"beta_fast", "beta_slow", "attention_factor", "original_max_position_embeddings"})  # each may be left out


def read(f: Fields, base_name: str = "rope_theta", part: tuple[str, float] | None = None) -> Rope:
    """Both ways in which configs say it: rope_parameters, or the base and rope_scaling side by side.

    Where a file has both, rope_scaling counts, as it does in transformers.

    part  old name and default of the share of columns that turn, where not all do
    """
    new = f.get("rope_parameters", dict, None)
    old = f.get("rope_scaling", dict, None)
    settings = {name: value for name, value in (old or new or {}).items() if value is not None}
    plain = f.get(base_name, float, 10000.0)
    base = settings.pop("rope_theta", plain)
    fraction = settings.pop("partial_rotary_factor", None)
    if fraction is None:
        fraction = f.get(part[0], float, part[1]) if part else 1.0
    if part is None and fraction != 1:
        raise InputError(f"config.json: partial_rotary_factor is {fraction}, which transformers does not look at in a {f.family}.")
    longest = f.get("max_position_embeddings", int, 2048)
    wanted = {"linear": ("factor",), "yarn": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor",
              "original_max_position_embeddings")}  # fmt: skip
    kind = settings.pop("rope_type", None) or settings.pop("type", "default")
    settings.pop("type", None)
    if not isinstance(kind, str):
        raise InputError(f"config.json: rope_type is {kind!r}, but should be a word, such as default.")
    optional = (name for name in settings if name in NUMBERS)
    for name in (*wanted.get(kind, ()), *optional):
        if isinstance(settings.get(name), bool) or not isinstance(settings.get(name), (int, float)):
            raise InputError(
                f"config.json: rope_parameters of the kind {kind!r} needs a number {name}, but has {settings.get(name)!r}."
            )
    if (original := settings.get("original_max_position_embeddings")) is not None:
        if original != int(original):
            raise InputError(f"config.json: original_max_position_embeddings is {original!r}, but should be a whole number.")
        settings["original_max_position_embeddings"] = int(original)
    if isinstance(base, bool) or not isinstance(base, (int, float)):
        raise InputError(f"config.json: rope_theta is {base!r}, but should be a number.")
    scaling: Scaling | None = None
    if kind == "linear":
        scaling = Linear(float(settings.pop("factor")))
    elif kind == "yarn":
        trained = settings.pop("original_max_position_embeddings", None) or longest
        renamed = {"beta_fast": "beta_fast", "beta_slow": "beta_slow", "attention_factor": "attention", "truncate": "truncate"}
        scaling = Yarn(
            float(settings.pop("factor")), trained, **{renamed[k]: settings.pop(k) for k in list(settings) if k in renamed}
        )
    elif kind == "llama3":
        scaling = Llama3(
            float(settings.pop("factor")), float(settings.pop("low_freq_factor")), float(settings.pop("high_freq_factor")),
            settings.pop("original_max_position_embeddings"),
        )  # fmt: skip
    elif kind != "default":
        raise InputError(
            f"config.json: rope_type is {kind!r}, but only default, linear, yarn and llama3 can be built: others follow the length "
            "of the text, which breaks causality and caches."
        )
    for name, value in settings.items():
        raise InputError(f"config.json: rope_parameters has {name!r} = {value!r}, which is not known here for {kind!r}.")
    return Rope(base=float(base), pairs="half", fraction=float(fraction), scaling=scaling)


def write(scheme: Rope) -> dict[str, Any]:
    """rope_parameters of a scheme. Raises InputError for a scaling that configs have no words for."""
    part = {} if scheme.fraction == 1 else {"partial_rotary_factor": scheme.fraction}
    return {"rope_theta": scheme.base, **part, **_scaling(scheme.scaling)}


def _scaling(scaling: Scaling | None) -> dict[str, Any]:
    if scaling is None:
        return {"rope_type": "default"}
    if isinstance(scaling, Linear):
        return {"rope_type": "linear", "factor": scaling.factor}
    if isinstance(scaling, Yarn):
        settings = {"rope_type": "yarn", "factor": scaling.factor, "original_max_position_embeddings": scaling.trained,
                "beta_fast": scaling.beta_fast, "beta_slow": scaling.beta_slow, "truncate": scaling.truncate}  # fmt: skip
        return settings | ({} if scaling.attention is None else {"attention_factor": scaling.attention})
    if isinstance(scaling, Llama3):
        return {"rope_type": "llama3", "factor": scaling.factor, "low_freq_factor": scaling.low, "high_freq_factor": scaling.high,
                "original_max_position_embeddings": scaling.trained}  # fmt: skip
    raise InputError(f"its scalings are linear, yarn and llama3, not {type(scaling).__name__}.")
