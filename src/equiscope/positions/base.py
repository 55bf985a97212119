"""What a position scheme is: a module that overrides the places where it acts, and does nothing in the others."""

import inspect
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from equiscope.errors import InputError, ShapeError
from equiscope.functional import semantic
from equiscope.symmetry import Action

Role = Literal["query", "key"]
AxisPositions = tuple[Tensor, ...]  # one tensor for each axis of a coordinate: of queries [..., N, 1], of keys [..., 1, M]


class Position(nn.Module):
    """Base class: notices nothing, changes nothing.

    A scheme keeps every constructor argument under its own name, so that it can be written down and made again; sizes that
    only the model knows arrive through `sized`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    longer: ClassVar[str] = ""  # what its paper reports on inputs longer than those of training
    cost: ClassVar[str] = ""  # beyond plain attention, for N tokens
    because: str = ""
    axes: ClassVar[int | None] = 1  # numbers in a coordinate: 1 for text, 2 for images; None: any
    sized_for: int | None = None  # heads of the model that `sized` was told
    relative: ClassVar[bool] = False  # `bias` depends on the difference of two places only: one value for each distance will do

    @property
    def uniform(self) -> bool:
        """Whether it does nothing but add one number to all features of a token, as a norm that subtracts the mean takes off."""
        return False

    @property
    def preserves(self) -> frozenset[type[Action]]:
        """Actions on coordinates that attention's output does not notice, at random parameters."""
        return frozenset()

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return arguments(self)

    def sized(self, width: int, heads: int, head_width: int) -> Self:
        """A fresh copy for a model of this size; tables are made here. Raises ShapeError where the sizes do not fit."""
        fresh = type(self)(**self.settings)
        fresh.allocate(width, heads, head_width)
        fresh.sized_for = heads
        return fresh

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        """Make what depends on the model's size."""

    def widened(self, width: int) -> int:
        """Width of the tokens after `embed`."""
        return width

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Act on the tokens: x [..., N, D] and positions [..., N, A] to [..., N, widened(D)]."""
        return x

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        """Act on queries or keys: x [..., H, N, K], positions [..., N, A]. The result may be wider, for both alike."""
        return x

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor | None:
        """Act on the scores: a number for each head and pair of places, elementwise by broadcasting.

        head [H, 1, 1] (or a number), and a tensor for each axis of the coordinates: at_q [..., N, 1], at_k [..., 1, M].
        """
        return None

    def content_bias(self, q: Tensor, k: Tensor, at_q: AxisPositions, at_k: AxisPositions, mask: Tensor | None) -> Tensor | None:
        """Act on the scores by what the tokens hold: q [..., H, N, K], k [..., H, M, K] to [..., H, N, M], added to scaled scores.

        mask  who may look, bool, broadcast to [..., H, N, M]; None: everybody
        """
        return None

    def value_bias(self, weights: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor | None:
        """Act on the values: weights [..., H, N, M] to what is added to their mix, [..., H, N, V]."""
        return None

    def acts(self, place: str) -> bool:
        """Whether this scheme overrides a method, e.g. acts("bias")."""
        return getattr(type(self), place) is not getattr(Position, place)

    @semantic
    def check(self, positions: Tensor) -> None:
        """Look at coordinates [..., N, A].

        raises  ShapeError for another number of axes than the scheme reads, InputError for NaN
        """
        if self.axes is not None and positions.shape[-1] != self.axes:
            raise ShapeError(
                f"{type(self).__name__} reads {self.axes} coordinate{'s' if self.axes > 1 else ''} a token, but got "
                f"{positions.shape[-1]}. Use positions [..., N, {self.axes}], or a scheme for {positions.shape[-1]} axes."
            )
        if (
            positions.device.type == "cpu"
            and not torch.compiler.is_compiling()
            and positions.is_floating_point()
            and bool(positions.isnan().any())
        ):
            raise InputError("Some coordinates are NaN. Give every token a place, padding too (any number will do there).")

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items() if not isinstance(value, nn.Module))


def arguments(part: nn.Module) -> dict[str, Any]:
    """What a part was made from: it keeps every constructor argument under its own name."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(type(part)).parameters.values()
    return {p.name: getattr(part, p.name) for p in parameters if p.kind in named}


class Added(Position):
    """A scheme that adds an encoding of the place to the token: what `encode` returns."""

    def encode(self, positions: Tensor, width: int) -> Tensor:
        """positions [..., N, A] to [..., N, width]."""
        raise AssertionError(f"{type(self).__name__} does not say how it encodes a place")

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.put(x, self.encode(positions, x.shape[-1]))

    def put(self, x: Tensor, encoding: Tensor) -> Tensor:
        """Add an encoding [..., N, D] to tokens [..., N, D]."""
        return x + encoding.to(x.dtype)
