"""What a position scheme is: a module that overrides the places where it acts, and does nothing in the others."""

import inspect
from typing import Any, ClassVar, Literal, Self

from torch import Tensor, nn

from equiscope.symmetry import Action
from equiscope.trace import ops

Role = Literal["query", "key"]


class Position(nn.Module):
    """Base class: notices nothing, changes nothing.

    A scheme keeps every constructor argument under its own name, so that it can be written down and made again; sizes that
    only the model knows arrive through `sized`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str] = ""
    because: str = ""

    @property
    def preserves(self) -> frozenset[type[Action]]:
        """Actions on coordinates that attention's output does not notice, at random parameters."""
        return frozenset()

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments."""
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        parameters = inspect.signature(type(self)).parameters.values()
        return {p.name: getattr(self, p.name) for p in parameters if p.kind in named}

    def sized(self, width: int, heads: int, head_width: int) -> Self:
        """A fresh copy for a model of this size; tables are made here. Raises ShapeError where the sizes do not fit."""
        fresh = type(self)(**self.settings)
        fresh.allocate(width, heads, head_width)
        return fresh

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        """Make what depends on the model's size."""

    def widened(self, width: int) -> int:
        """Width of the tokens after `embed`."""
        return width

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        """Act on the tokens: x [..., N, D] and at [..., N, A] to [..., N, widened(D)]."""
        return x

    def turn(self, x: Tensor, at: Tensor, role: Role) -> Tensor:
        """Act on queries or keys: x [..., H, N, K], at [..., N, A]."""
        return x

    def bias(self, head: Tensor, at_q: Tensor, at_k: Tensor) -> Tensor | None:
        """Act on the scores: a number for each head and pair of places, elementwise by broadcasting."""
        return None

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items() if not isinstance(value, nn.Module))


class Added(Position):
    """A scheme that adds an encoding of the place to the token: what `encode` returns."""

    def encode(self, at: Tensor, width: int) -> Tensor:
        """at [..., N, A] to [..., N, width]."""
        raise AssertionError(f"{type(self).__name__} does not say how it encodes a place")

    def embed(self, x: Tensor, at: Tensor) -> Tensor:
        return self.put(x, self.encode(at, x.shape[-1]))

    def put(self, x: Tensor, encoding: Tensor) -> Tensor:
        """Add an encoding [..., N, D] to tokens [..., N, D]."""
        return ops.add(x, ops.cast(encoding, x.dtype), name="X′", label="words with their places")
