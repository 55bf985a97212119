"""Baselines: models without attention as data, to see beside them what the parts of a transformer buy and cost.

An LSTM reads texts; a multilayer perceptron takes a whole picture or sound at once; a small convolutional network takes pictures.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import torch

from equiscope.errors import InputError, UnknownName
from equiscope.models import spec as specs
from equiscope.models.spec import Share, Size, Spec
from equiscope.record import Claim

if TYPE_CHECKING:
    from equiscope.models.describe import Description, Part
    from equiscope.models.space import PointSpec

KINDS = ("lstm", "mlp", "convnet")


@dataclass(frozen=True)
class Baseline(specs._Written):
    """A model without attention.

    baseline    "lstm": reads a text step by step, with a state (Hochreiter & Schmidhuber 1997, with forget gates); "mlp": all
                numbers in one line, through layers with ReLU; "convnet": convolutions 3×3 with ReLU, the channels of each place
                normed, and the mean over all places
    width       hidden features; channels of every convolution
    layers      hidden layers
    vocabulary  ids that an LSTM knows; the data says it
    shape       of what is taken whole, (channels, rows, columns) or (tokens, features); the data says it
    outputs     of the final map; the data says it
    halve       of a convnet: the first of so many convolutions takes every second place along each axis
    dropout     share of the numbers that each layer gives, set to 0 while it is trained
    """

    baseline: str
    width: Size
    layers: Size = 1
    vocabulary: Size | None = None
    shape: tuple[Size, ...] | None = None
    outputs: Size = 1
    halve: Size = 2
    dropout: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.baseline not in KINDS:
            raise UnknownName("baseline", self.baseline, list(KINDS))
        if self.shape is not None:
            object.__setattr__(self, "shape", tuple(self.shape))
        if self.baseline != "convnet" and self.halve != type(self).halve:
            raise InputError(f'halve belongs to a baseline "convnet", but this one is "{self.baseline}". Leave it out.')
        reads, other = ("vocabulary", "shape") if self.baseline == "lstm" else ("shape", "vocabulary")
        if getattr(self, reads) is None or getattr(self, other) is not None:
            raise InputError(
                f'A baseline "{self.baseline}" needs {reads} and no {other}, but got vocabulary={self.vocabulary} and '
                f"shape={self.shape}."
            )
        if self.baseline == "convnet" and len(self.shape or ()) != 3:
            raise InputError(f'A "convnet" takes pictures of a shape (channels, rows, columns), but got {self.shape}.')

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Rows and columns that each convolution gives."""
        found, size = [], (self.shape or (1, 1, 1))[1:]
        for layer in range(self.layers):
            size = tuple((n + 1) // 2 for n in size) if layer % self.halve == 0 else size
            found.append((size[0], size[1]))
        return found

    def describe(self, tokens: int | None = None, source: int = 128) -> "Description":
        """Parameters and multiply-adds, as of a `Spec`. tokens: of a text; all else takes what `shape` says."""
        from equiscope.models.describe import Description
        from equiscope.models.networks import NETWORKS
        from equiscope.symmetry import derive

        tokens = (128 if tokens is None else tokens) if self.baseline == "lstm" else 1
        if tokens < 1:
            raise InputError(f"A description is of one token or more, but got tokens={tokens}.")
        claims: tuple[Claim, ...] = ()  # about tokens: what is taken whole has none
        if self.baseline == "lstm":
            with torch.device("meta"):
                claims = tuple(derive(NETWORKS[self.baseline](self)))
        return Description(tokens, None, tuple(self._parts(tokens)), claims, pairs=False)

    def _parts(self, tokens: int) -> Iterator["Part"]:
        from equiscope.models.describe import Part

        d, out = self.width, self.outputs
        if self.baseline == "lstm":
            assert self.vocabulary is not None
            yield Part("embedding", f"table of {self.vocabulary}", (tokens, d), self.vocabulary * d, 0)
            yield Part("blocks", "LSTM, four gates", (tokens, d), 8 * d * d + 8 * d, tokens * 8 * d * d, self.layers)
            yield Part("head", "a map of its own", (tokens, out), d * out + out, tokens * d * out)
            return
        assert self.shape is not None
        for layer in range(self.layers):
            before = d if layer else self.shape[0] if self.baseline == "convnet" else math.prod(self.shape)
            if self.baseline == "mlp":
                yield Part(f"blocks.{layer}", "relu", (d,), before * d + d, before * d)
            else:
                rows, columns = self.sizes[layer]
                what = "3×3" + (", every second place" if layer % self.halve == 0 else "")
                yield Part(f"blocks.{layer}", what, (d, rows, columns), 9 * before * d + 2 * d, rows * columns * 9 * before * d)
        yield Part("head", "a map of its own", (out,), d * out + out, d * out)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Self:
        """A baseline from plain data. Raises InputError naming the fields that only a transformer has, or that do not fit."""
        data = cls._unversioned(data, "baseline")
        if others := foreign(data):
            raise InputError(
                f'A baseline "{data["baseline"]}" has no {" and no ".join(others)}: of a transformer only. Leave that out, or '
                "leave baseline out."
            )
        made: Self = specs._object(cls, data, "spec")
        return made


def foreign(data: dict[str, Any]) -> list[str]:
    """The fields that a `Spec` has and a baseline has not."""
    own = {f.name for f in fields(Baseline)}
    return [name for name in data if name not in own and name in {f.name for f in fields(Spec)}]


def spec_of(data: dict[str, Any]) -> "Spec | Baseline | PointSpec":
    """What a run's record says of its model: a baseline where it says one, points in space where it has elements, else a spec."""
    if "elements" in data:
        from equiscope.models.space import PointSpec

        return PointSpec.of(data)
    return Baseline.of(data) if "baseline" in data else Spec.of(data)
