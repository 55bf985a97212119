"""Actions: what one may do to tokens, and what a symmetric model does to its output in return.

An instance is one group element (this permutation, this shift); the class is the group. f is equivariant when
f(g.on_input(tokens)) = g.on_output(f(tokens)). Words carry x; places carry at and order: a permutation moves the words
over places that stay, a shift or a reversal moves the places under words that stay.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.errors import UnknownName


class Action:
    """One element of a group that acts on tokens and on outputs.

    implies  actions whose symmetry follows from this one's (on evenly spaced places a reversal is a permutation)
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    implies: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def sample(cls, tokens: Any, generator: Generator) -> Self:
        """A random element for these tokens."""
        raise AssertionError(f"{cls.__name__} does not say how to sample")

    def on_input(self, tokens: Any) -> Any:
        """The moved tokens."""
        raise AssertionError(f"{type(self).__name__} does not say how it acts")

    def on_output(self, output: Tensor) -> Tensor:
        """The moved output [..., N, D]; a read-out without token rows is left as it is."""
        return output


@dataclass(frozen=True)
class Permute(Action):
    """Put the words in another order; places stay. order[i] is the old row that comes to row i.

    Whether a row is a word at all, and of which document, goes with the word.
    """

    order: tuple[int, ...]
    name: ClassVar[str] = "permute"
    summary: ClassVar[str] = "put the words in another order"
    implies: ClassVar[tuple[str, ...]] = ("reverse",)

    @classmethod
    def sample(cls, tokens: Any, generator: Generator) -> Self:
        return cls(tuple(torch.randperm(tokens.x.shape[-2], generator=generator).tolist()))

    def on_input(self, tokens: Any) -> Any:
        rows = list(self.order)
        flags = {n: getattr(tokens, n, None) for n in ("valid", "document")}
        return replace(tokens, x=tokens.x[..., rows, :], **{n: f[..., rows] for n, f in flags.items() if f is not None})

    def on_output(self, output: Tensor) -> Tensor:
        return output[..., list(self.order), :]


@dataclass(frozen=True)
class Shift(Action):
    """Move the whole text along: every coordinate grows by the same number, or by one number for each axis.

    Ranks grow too, by the whole steps of a shift along the one axis of a text; a shift in the plane or in space leaves them.
    """

    by: float | tuple[float, ...]
    name: ClassVar[str] = "shift"
    summary: ClassVar[str] = "move the whole text along"

    @classmethod
    def sample(cls, tokens: Any, generator: Generator) -> Self:
        axes = tokens.at.shape[-1]
        steps = torch.randint(1, 1000, (axes,), generator=generator).tolist()
        return cls(tuple(steps) if axes > 1 else steps[0])

    def on_input(self, tokens: Any) -> Any:
        if isinstance(self.by, tuple):
            return replace(tokens, at=tokens.at + tokens.at.new_tensor(self.by))
        return replace(tokens, at=tokens.at + self.by, order=tokens.order + int(self.by))


@dataclass(frozen=True)
class Reverse(Action):
    """Mirror the places: what came first comes last."""

    name: ClassVar[str] = "reverse"
    summary: ClassVar[str] = "read from right to left"

    @classmethod
    def sample(cls, tokens: Any, generator: Generator) -> Self:
        return cls()

    def on_input(self, tokens: Any) -> Any:
        ends = tokens.at.amin(-2, keepdim=True) + tokens.at.amax(-2, keepdim=True)
        ranks = tokens.order.amin(-1, keepdim=True) + tokens.order.amax(-1, keepdim=True)
        return replace(tokens, at=ends - tokens.at, order=ranks - tokens.order)


ACTIONS: tuple[type[Action], ...] = (Permute, Shift, Reverse)


def named(name: str) -> type[Action]:
    """The action of that name. Raises UnknownName with the list."""
    for action in ACTIONS:
        if action.name == name:
            return action
    raise UnknownName("action", name, [a.name for a in ACTIONS])


def closed(actions: frozenset[type[Action]]) -> frozenset[type[Action]]:
    """With everything that the given actions imply."""
    return actions | {named(name) for action in actions for name in action.implies}
