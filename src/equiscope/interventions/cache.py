"""ActivationCache: values of a run by the names of sites, ours and those of TransformerLens."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from equiscope.errors import UnknownName
from equiscope.interventions.sites import LENS, TRANSFORMER_LENS, site
from equiscope.record import display

BY_QUANTITY = {quantity: name for name, quantity in TRANSFORMER_LENS.items() if name != "hook_resid_post"}
TOKENS_FIRST = ("attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_z")  # [B, N, H, K] there, [B, H, N, K] here


class ActivationCache(Mapping[str, Tensor]):
    """Values by our names ("layers.2.attention.weights"), [B, H, N, M] and so on; names of TransformerLens are understood.

    cache["blocks.2.attn.hook_z"] is [B, N, H, K], as TransformerLens has it.
    """

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        """values: by our names or those of TransformerLens, each in the order of axes of its name."""
        self._values = dict(_ours(name, value) for name, value in values.items())

    def __getitem__(self, name: str) -> Tensor:
        plain = LENS.fullmatch(name)
        lens = plain is not None and plain[2] in TRANSFORMER_LENS
        ours = our_name(name) if lens else name
        if ours not in self._values:
            raise UnknownName("value in this cache", name, list(self._values), "Ask for it in cache(names).")
        value = self._values[ours]
        return value.transpose(1, 2) if lens and plain is not None and plain[2] in TOKENS_FIRST else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def transformer_lens(self) -> dict[str, Tensor]:
        """The values that TransformerLens has a name for, under that name and in its order of axes."""
        names = ((name, lens_name(name)) for name in self._values)
        return {lens: self[lens] for _, lens in names if lens}

    def __repr__(self) -> str:
        return display.text(self._heading, self._rows)

    def _repr_html_(self) -> str:
        return display.html(self._heading, ("value", "shape"), self._rows)

    @property
    def _heading(self) -> str:
        return f"ActivationCache of {len(self)} values"

    @property
    def _rows(self) -> list[tuple[str, str]]:
        return [(name, str(list(value.shape))) for name, value in self._values.items()]


def our_name(name: str) -> str:
    """Our name of a value that TransformerLens names; another name as it is."""
    plain = LENS.fullmatch(name)
    if plain is None or plain[2] not in TRANSFORMER_LENS:
        return name
    found = site(name)
    room = {"stream": "stream", "neurons": "feedforward.neurons"}.get(found.quantity, f"attention.{found.quantity}")
    return f"layers.{found.layer}.{room}"


def lens_name(name: str) -> str:
    """The name that TransformerLens has for a value of ours; empty for others."""
    found = site(name)
    return (
        f"blocks.{found.layer}.{BY_QUANTITY[found.quantity]}" if found.layer is not None and found.quantity in BY_QUANTITY else ""
    )


def _ours(name: str, value: Tensor) -> tuple[str, Tensor]:
    plain = LENS.fullmatch(name)
    first = plain is not None and plain[2] in TOKENS_FIRST
    return our_name(name), value.transpose(1, 2) if first else value


def by_site(values: Mapping[Any, Any]) -> Mapping[str, Tensor] | None:
    """A mapping whose keys are names of sites, with our axes; None for named arguments of a model."""
    if isinstance(values, ActivationCache):
        return values
    names = [name for name in values if isinstance(name, str) and ("hook_" in name or "." in name or name == "embeddings")]
    return ActivationCache({name: values[name] for name in names}) if names else None
