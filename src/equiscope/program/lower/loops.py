"""A call that no operation of the page is: one step of loops, lowered from the ATen calls that torch makes of it.

Views before the call that are no operation either are taken into the loops. The page computes in float64, so the loops do.
"""

from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.program.loops import computation
from equiscope.program.lower.graph import Apply, Graph
from equiscope.program.lower.movement import Movement
from equiscope.program.program import Ref, Step, Written, each, leaves_of
from equiscope.record.computation import Computation

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class Loops:
    """Lowers calls; equal calls on equal shapes share what was made of them."""

    def __init__(self, graph: Graph, movement: Movement) -> None:
        self.graph, self.movement = graph, movement
        self._made: dict[object, Computation | None] = {}

    def of(self, value: int, planned: Any) -> Apply | None:
        """The loops that make a value; None where torch's calls have none.

        planned  whether an earlier value is something that the page shows, or else a view that is taken into the loops
        """
        step, place = self.graph.maker[value]
        sources: dict[int, tuple[int, ...]] = {}  # by value read: the values of the chain, from the one that is shown
        for x in dict.fromkeys(step.inputs):
            if x in self.graph.moving:
                sources[x] = self._chain(x, planned)
        inputs = list(dict.fromkeys(chain[0] for chain in sources.values()))
        given = {f"x{i}": _wide(self.graph.tensor(Ref(v))) for i, v in enumerate(inputs)}
        if any(t.is_complex() for t in given.values()) or self.graph.tensor(Ref(value)).is_complex():
            return None
        key = self._key(step, place, sources, inputs)
        if key not in self._made:
            self._made[key] = self._lowered(step, place, sources, inputs, given)
        found = self._made[key]
        if found is None:
            return None
        dtype = self.graph.tensor(Ref(value)).dtype
        exact = {} if dtype.is_floating_point else {"dtype": "bool" if dtype == torch.bool else "int64"}
        return Apply("loops", tuple(map(Ref, inputs)), {"call": step.op, **exact}, found)

    def _chain(self, value: int, planned: Any) -> tuple[int, ...]:
        chain = [value]
        while not planned(chain[0]):
            source = self.movement.source(chain[0])
            if source is None or source not in self.graph.moving:
                break
            chain.insert(0, source)
        return tuple(chain)

    def _lowered(
        self, step: Step, place: Any, sources: dict[int, tuple[int, ...]], inputs: list[int], given: dict[str, Tensor]
    ) -> Computation | None:
        def function(**numbers: Tensor) -> dict[str, Tensor]:
            first = {v: numbers[f"x{i}"] for i, v in enumerate(inputs)}
            read = {}
            for value, (start, *rest) in sources.items():
                made = first[start]
                for v in rest:
                    made = self.movement.again(v, made)
                read[value] = made
            return {"y": self._call(step, place, read)}

        try:
            return computation(function, given)
        except (InputError, RuntimeError, NotImplementedError):
            return None  # no loops for it: torch's reasons are many, and all mean this

    def _call(self, step: Step, place: Any, read: dict[int, Tensor]) -> Tensor:
        given: list[Tensor] = []
        written = {place.argument for _, place in step.outputs if isinstance(place, Written)}

        def filled(x: Any) -> Any:
            if isinstance(x, Ref):
                t = read[x.id] if x.id in read else _wide(self.graph.tensor(x))
                given.append(t.clone() if len(given) in written else t)
                return given[-1]
            return torch.float64 if x in FLOATS and isinstance(x, torch.dtype) else x

        args, kwargs = each((step.args, step.kwargs), filled)
        if isinstance(place, Written) and isinstance(kwargs.get("out"), Tensor):  # what is written is all that is made
            del kwargs["out"]
            place = 0
        result = step.call(*args, **kwargs)
        found = given[place.argument] if isinstance(place, Written) else list(leaves_of(result))[place]
        return found.clone() if any(found is t for t in read.values()) else found

    def _key(self, step: Step, place: Any, sources: dict[int, tuple[int, ...]], inputs: list[int]) -> object:
        def seen(x: Any) -> object:
            if not isinstance(x, Ref):
                return type(x), repr(x)
            if x.id not in sources:
                t = self.graph.tensor(x)
                return ("constant", tuple(t.shape), t.flatten().tolist() if t.numel() < 64 else x.id) if t.numel() else x.id
            views = [self._written_view(v) for v in sources[x.id][1:]]
            start = self.graph.tensor(Ref(sources[x.id][0]))
            return inputs.index(sources[x.id][0]), tuple(start.shape), str(start.dtype), str(views)

        return str(step.call), str(place), str([seen(x) for x in leaves_of((step.args, step.kwargs))])

    def _written_view(self, value: int) -> str:
        step, place = self.graph.maker[value]
        return f"{step.call}{place}{[x for x in leaves_of((step.args, step.kwargs)) if not isinstance(x, Ref)]}"


def _wide(t: Tensor) -> Tensor:
    return t.detach().double() if t.is_floating_point() else t.detach()
