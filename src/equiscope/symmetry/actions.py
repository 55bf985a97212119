"""Actions: what one may do to tokens, and what a symmetric model does to its output in return.

An instance is one group element (this permutation, this shift); the class is the group. f is equivariant when
f(g.on_input(tokens)) = g.on_output(f(tokens)). Words carry x; places carry at and order: a permutation moves the words
over places that stay, a shift or a reversal moves the places under words that stay.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.symmetry.flow import Flow, still
from equiscope.symmetry.inputs import Inputs, Kind


class Action:
    """One element of a group that acts on what goes in and on what comes out. A user's own says `sample`, `on_input`, `on_output`.

    A listed action takes Tokens or `Inputs`. A user's own takes what its model is called with: the one argument itself, or
    `Inputs` where there are several.

    implies    actions whose symmetry follows from this one's (on evenly spaced places a reversal is a permutation)
    acts_on    kinds of input that it moves; empty for a user's own
    inside     whether every number inside an equivariant model moves as the output does. Not so for a shift: turned queries
               change, their products do not
    shortens   whether fewer tokens may show the same fault more plainly
    usual      whether it is asked of every model whose inputs it moves; the others are asked for by name
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    implies: ClassVar[tuple[str, ...]] = ()
    acts_on: ClassVar[tuple[Kind, ...]] = ()
    inside: ClassVar[bool] = True
    shortens: ClassVar[bool] = True
    usual: ClassVar[bool] = True

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        """A random element for these inputs."""
        raise AssertionError(f"{cls.__name__} does not say how to sample")

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        """So many elements, the smallest first: a symmetry that holds for large ones only is none."""
        return [cls.sample(inputs, generator) for _ in range(count)]

    def on_input(self, inputs: Any) -> Any:
        """The moved inputs."""
        raise AssertionError(f"{type(self).__name__} does not say how it acts")

    def on_output(self, output: Tensor) -> Tensor:
        """The moved output [..., N, D]; a read-out without token rows is left as it is."""
        return output

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        """An output that moves in this way; `axes` are those along which it has one entry a token."""
        return output if representation == "invariant" else self.on_output(output)

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        """How an output of this shape may move, the likeliest first."""
        return ("invariant",) if cls.on_output is Action.on_output else ("moved",)

    def sides(self, plain: Tensor, moved: Tensor, representation: str, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """What is wanted and what was found, of the part that can be compared: a shift may hold inside a picture only."""
        return self.moved(plain, representation, axes), moved

    @classmethod
    def telling(cls, inputs: Any) -> "Action | None":
        """An element by which the ways of moving are told apart; None: any. A small turn moves a vector hardly at all."""
        return None

    @classmethod
    def ways(cls, said: str | None, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        """How an output may move that was said to move so; of what was said for other actions, all it may do."""
        return (said,) if said else cls.representations(output, axes, inputs)

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        """Why it cannot act on these inputs, in words; empty where it can."""
        kinds = " or ".join(cls.acts_on)
        return "" if not cls.acts_on or inputs.has(*cls.acts_on) else f"the model is given no {kinds}"

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        """Simple elements, the simplest first: where a counterexample is looked for."""
        return iter(())

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        """Smaller groups that may hold where the whole does not: in words, with elements that tell."""
        return iter(())

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        """Directions in which a continuous group begins; empty for a group without."""
        return []

    def told(self) -> str:
        """In words, to whoever wants to repeat it."""
        return self.summary

    def element(self) -> dict[str, Any]:
        """The element as plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self)} if is_dataclass(self) else {}


@dataclass(frozen=True)
class Permute(Action):
    """Put the words in another order; places stay. order[i] is the old row that comes to row i.

    Whether a row is a word at all, and of which document, goes with the word.
    """

    order: tuple[int, ...]
    name: ClassVar[str] = "permute"
    summary: ClassVar[str] = "put the words in another order"
    implies: ClassVar[tuple[str, ...]] = ("reverse",)
    acts_on: ClassVar[tuple[Kind, ...]] = ("tokens", "ids", "features", "steps", "points", "atoms")

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls(tuple(torch.randperm(_length(inputs), generator=generator).tolist()))

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        length = _length(inputs)
        swap = torch.randint(max(length - 1, 1), (), generator=generator).item()
        first = [exchanged(length, int(swap), int(swap) + 1)] if length > 1 else []
        return [cls(order) for order in first] + [cls.sample(inputs, generator) for _ in range(count - len(first))]

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        return super().missing(inputs) or ("" if (inputs.length or 0) > 1 else "there is one token only")

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        return ("permuted",) if axes else ("invariant",)

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        for axis in axes if representation != "invariant" else ():  # a vector for each token moves with its token
            output = output.index_select(axis, torch.tensor(self.order, device=output.device))
        return output

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        length = _length(inputs)
        yield from (cls(exchanged(length, i, i + 1)) for i in range(length - 1))
        yield from (cls(exchanged(length, i, j)) for i in range(length) for j in range(i + 2, length))

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        n = _length(inputs)
        yield "order of all but the first token", [cls(exchanged(n, i, i + 1)) for i in range(1, n - 1)]
        yield "order of all but the last token", [cls(exchanged(n, i, i + 1)) for i in range(n - 2)]
        yield "cyclic shifts", [cls((*range(k, n), *range(k))) for k in range(1, n)]
        yield "reversal", [cls(tuple(range(n - 1, -1, -1)))]

    def told(self) -> str:
        changed = [i for i, j in enumerate(self.order) if i != j]
        if len(changed) == 2:
            return f"exchange the tokens {changed[0]} and {changed[1]} of {len(self.order)} (counted from 0)"
        return f"put {len(self.order)} tokens in the order {', '.join(map(str, self.order))}"

    def on_input(self, tokens: Any) -> Any:
        rows = list(self.order)
        if isinstance(tokens, Inputs):
            moved = tokens.rows(rows).each(self.on_input, "tokens")
            place = torch.empty(len(rows), dtype=torch.long)
            place[torch.tensor(rows)] = torch.arange(len(rows))
            return moved.each(lambda edges: place.to(edges.device)[edges], "edges")
        flags = {n: getattr(tokens, n, None) for n in ("valid", "document")}
        return replace(tokens, x=tokens.x[..., rows, :], **{n: f[..., rows] for n, f in flags.items() if f is not None})

    def on_output(self, output: Tensor) -> Tensor:
        return output[..., list(self.order), :]


MULTIPLES = (1, 2, 3, 50, 333, 20_000)  # of a step: a symmetry that ends far away is none


@dataclass(frozen=True)
class Shift(Action):
    """Move the whole text along: every coordinate grows by the same number, or by one number for each axis.

    Ranks grow too, by the whole steps of a shift along the one axis of a text; a shift in the plane or in space leaves them.
    """

    by: float | tuple[float, ...]
    name: ClassVar[str] = "shift"
    summary: ClassVar[str] = "move the whole text along"
    acts_on: ClassVar[tuple[Kind, ...]] = ("tokens", "position_ids", "coordinates")
    inside: ClassVar[bool] = False

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        axes = _axes(inputs)
        steps = torch.randint(1, 1000, (axes,), generator=generator).tolist()
        return cls(tuple(steps) if axes > 1 else steps[0])

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        """By one, by a few, ..., by about a thousand: a table that ends is then met near its beginning too."""
        axes, made = _axes(inputs), list[Self]()
        for i in range(count):
            far = max(round(1000 ** (i / max(count - 1, 1))), 1)
            steps = torch.randint(max(far // 2, 1), far + 1, (axes,), generator=generator).tolist()
            made.append(cls(tuple(steps) if axes > 1 else steps[0]))
        return made

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        axes = _axes(inputs)
        for step in (1, 2, 3, 4, 8, 16, 64, 256):
            yield from (cls(step) for _ in range(axes == 1))
            yield from (cls(tuple(step * (a == b) for a in range(axes))) for b in range(axes) if axes > 1)

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        axes = _axes(inputs)
        for step in (2, 3, 4, 5, 6, 7, 8, 12, 16, 32):
            yield f"shifts by {step}", [cls(k * step if axes == 1 else (k * step,) * axes) for k in MULTIPLES]

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        """Along each axis of places that are no whole numbers by nature: a table has no place between two rows."""
        places = {n: v.positions for n, v in inputs.of("tokens").items()} | inputs.of("coordinates")
        places = {n: positions for n, positions in places.items() if positions.is_floating_point()}

        def along(axis: int) -> Flow:
            def rates(given: Inputs) -> dict[str, Tensor]:
                step = {n: positions.new_zeros(positions.shape) for n, positions in places.items() if positions.shape[-1] > axis}
                for rate in step.values():
                    rate[..., axis] = 1.0
                return step

            return Flow(f"along axis {axis}", rates, still)

        return [along(axis) for axis in range(_axes(inputs))] if places else []

    def told(self) -> str:
        return f"add {self.by} to every place"

    def on_input(self, tokens: Any) -> Any:
        if isinstance(tokens, Inputs):
            by = torch.tensor(self.by)
            moved = tokens.each(
                lambda positions: positions + by.to(positions.device, positions.dtype), "position_ids", "coordinates"
            )
            return moved.each(self.on_input, "tokens")
        if isinstance(self.by, tuple):
            return replace(tokens, positions=tokens.positions + tokens.positions.new_tensor(self.by))
        return replace(tokens, positions=tokens.positions + self.by, order=tokens.order + int(self.by))


@dataclass(frozen=True)
class Reverse(Action):
    """Mirror the places: what came first comes last."""

    name: ClassVar[str] = "reverse"
    summary: ClassVar[str] = "read from right to left"
    acts_on: ClassVar[tuple[Kind, ...]] = ("tokens", "position_ids", "coordinates")
    inside: ClassVar[bool] = False

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls()

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [cls()]

    def told(self) -> str:
        return "mirror the places: what came first comes last"

    def on_input(self, tokens: Any) -> Any:
        if isinstance(tokens, Inputs):
            moved = tokens.each(
                lambda positions: positions.amin(-1, keepdim=True) + positions.amax(-1, keepdim=True) - positions, "position_ids"
            )
            moved = moved.each(
                lambda positions: positions.amin(-2, keepdim=True) + positions.amax(-2, keepdim=True) - positions, "coordinates"
            )
            return moved.each(self.on_input, "tokens")
        ends = tokens.positions.amin(-2, keepdim=True) + tokens.positions.amax(-2, keepdim=True)
        ranks = tokens.order.amin(-1, keepdim=True) + tokens.order.amax(-1, keepdim=True)
        return replace(tokens, positions=ends - tokens.positions, order=ranks - tokens.order)


def exchanged(length: int, i: int, j: int) -> tuple[int, ...]:
    """The order in which two tokens have changed places."""
    order = list(range(length))
    order[i], order[j] = order[j], order[i]
    return tuple(order)


def _length(inputs: Any) -> int:
    return (inputs.length or 0) if isinstance(inputs, Inputs) else int(inputs.x.shape[-2])


def _axes(inputs: Any) -> int:
    if not isinstance(inputs, Inputs):
        return int(inputs.positions.shape[-1])
    found = [_axes(t) for t in inputs.of("tokens").values()] + [
        int(positions.shape[-1]) for positions in inputs.of("coordinates").values()
    ]
    return max(found, default=1)


CLAIMED: tuple[type[Action], ...] = (Permute, Shift, Reverse)  # those about which every part of a model says something


def closed(actions: frozenset[type[Action]]) -> frozenset[type[Action]]:
    """With everything that the given actions imply."""
    names = {name for action in actions for name in action.implies}
    return actions | {action for action in CLAIMED if action.name in names}
