"""The interface of a position scheme: a module that overrides the methods where it acts; the base class changes nothing."""

import inspect
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from equiscope.errors import InputError, ShapeError, counted
from equiscope.functional import semantic
from equiscope.symmetry import Action

Role = Literal["query", "key"]
AxisPositions = tuple[Tensor, ...]  # one tensor per axis of the positions: queries [..., N, 1] or keys [..., 1, M]


class Position(nn.Module):
    """Base class: changes nothing, so it preserves every action on positions.

    A scheme keeps every constructor argument as an attribute of the same name, so that it can be saved and built again. Sizes
    that only the model knows are passed to `sized`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    longer: ClassVar[str] = ""  # what its paper reports on inputs longer than those of training
    cost: ClassVar[str] = ""  # beyond plain attention, for N tokens
    because: str = ""
    axes: int | None = 1  # numbers in a coordinate: 1 for text, 2 for images; None: any
    sized_for: int | None = None  # heads that `sized` was called with
    relative: ClassVar[bool] = (
        False  # `score_bias` depends on the difference of two positions only, so one value per distance is enough
    )

    @property
    def uniform(self) -> bool:
        """Whether it only adds one number to all features of a token, which a norm that subtracts the mean removes."""
        return False

    @property
    def preserves(self) -> frozenset[type[Action]]:
        """The actions to which attention with this scheme is equivariant.

        A shift or a reversal of the positions then leaves the output unchanged; a permutation of the tokens permutes it.
        """
        return frozenset()

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return arguments(self)

    def sized(self, width: int, heads: int, head_width: int) -> Self:
        """A new copy for a model of this size, with its parameters. Raises ShapeError where the sizes do not fit."""
        fresh = type(self)(**self.settings)
        fresh.allocate(width, heads, head_width)
        fresh.sized_for = heads
        return fresh

    def allocate(self, width: int, heads: int, head_width: int) -> None:
        """Create what depends on the model's size."""

    def widened(self, width: int) -> int:
        """Width of the tokens after `embed`."""
        return width

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Transform the tokens: x [..., N, D] and positions [..., N, A] to [..., N, widened(D)]."""
        return x

    def rotate(self, x: Tensor, positions: Tensor, role: Role) -> Tensor:
        """Transform queries or keys: x [..., H, N, K], positions [..., N, A]. The result may be wider, equally for both."""
        return x

    def score_bias(self, head: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor | None:
        """Add to the scores: a number for each head and (query, key) pair, elementwise by broadcasting.

        head [H, 1, 1] (or a scalar); at_q [..., N, 1] and at_k [..., 1, M], one tensor per axis of the positions.
        """
        return None

    def content_bias(self, q: Tensor, k: Tensor, at_q: AxisPositions, at_k: AxisPositions, mask: Tensor | None) -> Tensor | None:
        """Add to the scaled scores, by content: q [..., H, N, K], k [..., H, M, K] to [..., H, N, M].

        mask  bool, True = may attend, broadcast to [..., H, N, M]; None: no mask
        """
        return None

    def value_bias(self, weights: Tensor, at_q: AxisPositions, at_k: AxisPositions) -> Tensor | None:
        """Add to the attention output: weights [..., H, N, M] to [..., H, N, V]."""
        return None

    def acts(self, method: str) -> bool:
        """Whether this scheme overrides a method, e.g. acts("score_bias")."""
        return getattr(type(self), method) is not getattr(Position, method)

    @semantic
    def check(self, positions: Tensor) -> None:
        """Check positions [..., N, A].

        raises  ShapeError for another number of axes than the scheme reads, InputError for NaN
        """
        if self.axes is not None and positions.shape[-1] != self.axes:
            raise ShapeError(
                f"{type(self).__name__} reads {counted(self.axes, 'coordinate')} a token, but got "
                f"{positions.shape[-1]}. Use positions [..., N, {self.axes}], or a scheme for {positions.shape[-1]} axes."
            )
        if (
            positions.device.type == "cpu"
            and not torch.compiler.is_compiling()
            and positions.is_floating_point()
            and bool(positions.isnan().any())
        ):
            raise InputError("Some positions are NaN. Give every token a position, padding too (any number will do there).")

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items() if not isinstance(value, nn.Module))


def arguments(part: nn.Module) -> dict[str, Any]:
    """The constructor arguments of a part, which keeps each as an attribute of the same name."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(type(part)).parameters.values()
    return {p.name: getattr(part, p.name) for p in parameters if p.kind in named}


class Added(Position):
    """A scheme that adds an encoding of the position to the token: the result of `encode`."""

    def encode(self, positions: Tensor, width: int) -> Tensor:
        """positions [..., N, A] to [..., N, width]."""
        raise AssertionError(f"{type(self).__name__} does not define `encode`")

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.put(x, self.encode(positions, x.shape[-1]))

    def put(self, x: Tensor, encoding: Tensor) -> Tensor:
        """Add an encoding [..., N, D] to tokens [..., N, D]."""
        return x + encoding.to(x.dtype)
