"""Actions of groups on inputs, and the matching actions on outputs.

A class is a group, an instance one element of it (this permutation, this shift). f is equivariant if
f(g.on_input(tokens)) = g.on_output(f(tokens)). A permutation reorders the features `x` and leaves positions and order. A shift
or a reversal changes positions and order and leaves the features.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Generator, Tensor

from equiscope.symmetry.flow import Flow, still
from equiscope.symmetry.inputs import InputKind, Inputs


class Action:
    """One element of a group that acts on inputs and outputs. A custom action defines `sample`, `on_input` and `on_output`.

    A listed action takes Tokens or `Inputs`. A custom action takes the argument of its model, or `Inputs` if there are several.

    implies     actions whose symmetry follows from this one (at evenly spaced positions a reversal is a permutation)
    acts_on     kinds of input that it changes; empty for a custom action
    inside      whether every intermediate value of an equivariant model transforms as the output does. Not so for a shift:
                rotated queries change, their products with rotated keys do not
    shortens    whether a counterexample with fewer tokens may be easier to read
    by_default  whether `check` tests it on every model whose inputs it changes; the others are tested by name only
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    implies: ClassVar[tuple[str, ...]] = ()
    acts_on: ClassVar[tuple[InputKind, ...]] = ()
    inside: ClassVar[bool] = True
    shortens: ClassVar[bool] = True
    by_default: ClassVar[bool] = True

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        """A random element for these inputs."""
        raise AssertionError(f"{cls.__name__} does not say how to sample")

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        """`count` elements, the smallest first, so that a symmetry of large elements only is not taken for the whole group's."""
        return [cls.sample(inputs, generator) for _ in range(count)]

    def on_input(self, inputs: Any) -> Any:
        """The transformed inputs."""
        raise AssertionError(f"{type(self).__name__} does not say how it acts")

    def on_output(self, output: Tensor) -> Tensor:
        """The transformed output [..., N, D]. A pooled output, without token rows, is invariant."""
        return output

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        """The output, transformed by this representation; `axes` are those with one entry a token."""
        return output if representation == "invariant" else self.on_output(output)

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        """Representations that an output of this shape may have, the likeliest first."""
        return ("invariant",) if cls.on_output is Action.on_output else ("moved",)

    def sides(self, plain: Tensor, moved: Tensor, representation: str, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Expected and actual output, where they can be compared: a shift may hold in the interior of an image only."""
        return self.moved(plain, representation, axes), moved

    @classmethod
    def distinguishing(cls, inputs: Any) -> "Action | None":
        """An element that distinguishes the representations; None: any does. A small rotation barely changes a vector."""
        return None

    @classmethod
    def possible_representations(cls, given: str | None, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        """Representations to test, of which one may be given; a representation of another action restricts nothing."""
        return (given,) if given else cls.representations(output, axes, inputs)

    @classmethod
    def missing(cls, inputs: Inputs) -> str:
        """Why it cannot act on these inputs; empty if it can."""
        kinds = " or ".join(cls.acts_on)
        return "" if not cls.acts_on or inputs.has(*cls.acts_on) else f"the model is given no {kinds}"

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        """Simple elements, the simplest first, to search for a small counterexample."""
        return iter(())

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        """Subgroups that may hold where the whole group does not: a description and elements to test."""
        return iter(())

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        """Generators of a continuous group; empty for a discrete group."""
        return []

    def describe(self) -> str:
        """The element in words, with all that is needed to repeat it."""
        return self.summary

    def element(self) -> dict[str, Any]:
        """The element as plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self)} if is_dataclass(self) else {}


@dataclass(frozen=True)
class Permute(Action):
    """Permute the tokens; positions stay. order[i] is the old row that moves to row i.

    `valid` and `document` are permuted with the tokens.
    """

    order: tuple[int, ...]
    name: ClassVar[str] = "permute"
    summary: ClassVar[str] = "permute the tokens"
    implies: ClassVar[tuple[str, ...]] = ("reverse",)
    acts_on: ClassVar[tuple[InputKind, ...]] = ("tokens", "ids", "features", "steps", "points", "atoms")

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
        return super().missing(inputs) or ("" if (inputs.length or 0) > 1 else "there is only one token")

    @classmethod
    def representations(cls, output: Tensor, axes: tuple[int, ...], inputs: Any) -> tuple[str, ...]:
        return ("permuted",) if axes else ("invariant",)

    def moved(self, output: Tensor, representation: str, axes: tuple[int, ...]) -> Tensor:
        for axis in axes if representation != "invariant" else ():  # a vector for each token is permuted with its token
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

    def describe(self) -> str:
        changed = [i for i, j in enumerate(self.order) if i != j]
        if len(changed) == 2:
            return f"exchange the tokens {changed[0]} and {changed[1]} of {len(self.order)} (counted from 0)"
        return f"put {len(self.order)} tokens in the order {', '.join(map(str, self.order))}"

    def on_input(self, tokens: Any) -> Any:
        rows = list(self.order)
        if isinstance(tokens, Inputs):
            moved = tokens.rows(rows).each(self.on_input, "tokens")
            new_row = torch.empty(len(rows), dtype=torch.long)
            new_row[torch.tensor(rows)] = torch.arange(len(rows))
            return moved.each(lambda edges: new_row.to(edges.device)[edges], "edges")
        flags = {n: getattr(tokens, n, None) for n in ("valid", "document")}
        return replace(tokens, x=tokens.x[..., rows, :], **{n: f[..., rows] for n, f in flags.items() if f is not None})

    def on_output(self, output: Tensor) -> Tensor:
        return output[..., list(self.order), :]


FAR = (2**15, 2**13, 2**12, 2**11, 2**10)  # where positions may wrap around, or end
MULTIPLES = (1, 2, 3, 50, 333, 20_000)  # of a step: large ones show a symmetry that ends far away


@dataclass(frozen=True)
class Shift(Action):
    """Add the same offset to every position, or one offset for each axis.

    On one axis, ranks grow by the integer part of the offset. A shift in the plane or in space leaves them.
    """

    by: float | tuple[float, ...]
    name: ClassVar[str] = "shift"
    summary: ClassVar[str] = "shift all positions by the same offset"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("tokens", "position_ids", "coordinates")
    inside: ClassVar[bool] = False

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        axes = _axes(inputs)
        steps = torch.randint(1, 1000, (axes,), generator=generator).tolist()
        return cls(tuple(steps) if axes > 1 else steps[0])

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        """Offsets from 1 to about 1000, so that the end of a short table of positions is found too."""
        axes, elements = _axes(inputs), list[Self]()
        for i in range(count):
            far = max(round(1000 ** (i / max(count - 1, 1))), 1)
            steps = torch.randint(max(far // 2, 1), far + 1, (axes,), generator=generator).tolist()
            elements.append(cls(tuple(steps) if axes > 1 else steps[0]))
        return elements

    @classmethod
    def far(cls, inputs: Inputs, longest: int | None) -> list[Self]:
        """Offsets to the largest two powers of two at which positions may wrap around, half of the tokens on either side."""
        axes, n = _axes(inputs), inputs.length or 1
        offsets = [power - n // 2 for power in FAR if n < power and (longest is None or power + n <= longest)][:2]
        return [cls(by if axes == 1 else (by,) * axes) for by in offsets]

    @classmethod
    def simpler(cls, inputs: Any) -> Iterator[Self]:
        axes = _axes(inputs)
        for step in (1, 2, 4, 8, 64, 1024):
            yield from (cls(step) for _ in range(axes == 1))
            yield from (cls(tuple(step * (a == b) for a in range(axes))) for b in range(axes) if axes > 1)

    @classmethod
    def subgroups(cls, inputs: Any) -> Iterator[tuple[str, list[Self]]]:
        axes = _axes(inputs)
        for step in (2, 3, 4, 5, 6, 7, 8, 12, 16, 32):
            half = (inputs.length or 1) // 2 if isinstance(inputs, Inputs) else 0
            offsets = [*(k * step for k in MULTIPLES), *((power - half) // step * step for power in (FAR[0], FAR[-1]))]
            yield f"shifts by {step}", [cls(by if axes == 1 else (by,) * axes) for by in offsets]

    @classmethod
    def flows(cls, inputs: Inputs) -> list[Flow]:
        """Along each axis of floating-point positions: integer positions have no derivative."""
        positions = {n: v.positions for n, v in inputs.of("tokens").items()} | inputs.of("coordinates")
        positions = {n: p for n, p in positions.items() if p.is_floating_point()}

        def along(axis: int) -> Flow:
            def rates(given: Inputs) -> dict[str, Tensor]:
                step = {n: p.new_zeros(p.shape) for n, p in positions.items() if p.shape[-1] > axis}
                for rate in step.values():
                    rate[..., axis] = 1.0
                return step

            return Flow(f"along axis {axis}", rates, still)

        return [along(axis) for axis in range(_axes(inputs))] if positions else []

    def describe(self) -> str:
        return f"add {self.by} to every position"

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
    """Reverse the positions: the first becomes the last."""

    name: ClassVar[str] = "reverse"
    summary: ClassVar[str] = "reverse the positions"
    acts_on: ClassVar[tuple[InputKind, ...]] = ("tokens", "position_ids", "coordinates")
    inside: ClassVar[bool] = False

    @classmethod
    def sample(cls, inputs: Any, generator: Generator) -> Self:
        return cls()

    @classmethod
    def samples(cls, inputs: Any, generator: Generator, count: int) -> list[Self]:
        return [cls()]

    def describe(self) -> str:
        return "reverse the positions: the first becomes the last"

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
    """The permutation that exchanges tokens i and j."""
    order = list(range(length))
    order[i], order[j] = order[j], order[i]
    return tuple(order)


def _length(inputs: Any) -> int:
    return (inputs.length or 0) if isinstance(inputs, Inputs) else int(inputs.x.shape[-2])


def _axes(inputs: Any) -> int:
    if not isinstance(inputs, Inputs):
        return int(inputs.positions.shape[-1])
    counts = [_axes(t) for t in inputs.of("tokens").values()] + [
        int(positions.shape[-1]) for positions in inputs.of("coordinates").values()
    ]
    return max(counts, default=1)


CLAIMED: tuple[type[Action], ...] = (Permute, Shift, Reverse)  # actions about which every part of a model makes a claim


def closed(actions: frozenset[type[Action]]) -> frozenset[type[Action]]:
    """The given actions and all that they imply."""
    names = {name for action in actions for name in action.implies}
    return actions | {action for action in CLAIMED if action.name in names}
