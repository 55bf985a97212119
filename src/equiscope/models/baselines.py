"""Baselines: specs of models without attention, for comparison with transformers.

An LSTM takes texts, a multilayer perceptron whole images or sounds, and a small convolutional network images.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from equiscope.errors import InputError, UnknownName
from equiscope.models.spec import Spec
from equiscope.spec_base import ModelSpec, Share, Size

KINDS = ("lstm", "mlp", "convnet")


@dataclass(frozen=True)
class Baseline(ModelSpec):
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

    kind: ClassVar[str] = "baseline"
    label: ClassVar[str] = "baseline"

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
        kernel_sizes, size = [], (self.shape or (1, 1, 1))[1:]
        for layer in range(self.layers):
            size = tuple((n + 1) // 2 for n in size) if layer % self.halve == 0 else size
            kernel_sizes.append((size[0], size[1]))
        return kernel_sizes

    @classmethod
    def _of_data(cls, data: dict[str, Any]) -> Self:
        if others := foreign(data):
            raise InputError(
                f'A baseline "{data["baseline"]}" has no {" and no ".join(others)}: of a transformer only. Leave that out, or '
                "leave baseline out."
            )
        return super()._of_data(data)


def foreign(data: dict[str, Any]) -> list[str]:
    """The fields that a `Spec` has and a baseline has not."""
    own = {f.name for f in fields(Baseline)}
    return [name for name in data if name not in own and name in {f.name for f in fields(Spec)}]
