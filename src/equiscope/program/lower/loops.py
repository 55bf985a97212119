"""A call that no operation of the page is: one step of loops, lowered from the ATen calls that torch makes of it.

Views and complex numbers before the call, which are no operation either, are taken into the loops. The page computes in float64, so
the loops do.
"""

from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.program.loops.computation import computation
from equiscope.program.lower.graph import Apply, Graph
from equiscope.program.lower.movement import Movement
from equiscope.program.program import Ref, Written, each, leaves_of
from equiscope.record.computation import Computation

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}


class Loops:
    """Lowers calls; equal calls on equal shapes share what was made of them."""

    def __init__(self, graph: Graph, movement: Movement) -> None:
        self.graph, self.movement = graph, movement
        self._cache: dict[object, Computation | None] = {}

    def of(self, value: int, planned: Any) -> Apply | None:
        """The loops that make a value; None where torch's calls have none.

        planned  whether an earlier value is something that the page shows, or else a view that is taken into the loops
        """
        if self.graph.tensor(Ref(value)).is_complex():
            return None
        step = self.graph.maker[value][0]
        inputs: list[int] = []
        inside: list[int] = []  # values that the loops compute themselves, each after those that it reads
        for x in dict.fromkeys(step.inputs):
            self._read(x, planned, inputs, inside)
        if any(self.graph.tensor(Ref(x)).is_complex() for x in inputs):
            return None
        given = {f"x{i}": _wide(self.graph.tensor(Ref(v))) for i, v in enumerate(inputs)}
        key = str([self._key(v, inputs, inside) for v in (*inside, value)])
        if key not in self._cache:
            self._cache[key] = self._lowered(value, inputs, inside, given)
        loops = self._cache[key]
        if loops is None:
            return None
        dtype = self.graph.tensor(Ref(value)).dtype
        exact = {} if dtype.is_floating_point else {"dtype": "bool" if dtype == torch.bool else "int64"}
        before = [self.graph.maker[v][0].op for v in reversed(inside) if self.graph.tensor(Ref(v)).is_complex()]
        taken = {"before": "∘".join(before)} if before else {}
        return Apply("loops", tuple(map(Ref, inputs)), {"call": step.op, **taken, **exact}, loops)

    def _read(self, value: int, planned: Any, inputs: list[int], inside: list[int]) -> None:
        """Where a value that is read comes from: it is shown, or it is a view or complex and is made in the loops."""
        if value not in self.graph.moving or value in inputs or value in inside:
            return
        source = self.movement.source(value)
        hidden = not planned(value) and value in self.graph.maker
        if hidden and self.graph.tensor(Ref(value)).is_complex():
            before = self.graph.maker[value][0].inputs
        elif hidden and source is not None and source in self.graph.moving:
            before = (source,)
        else:
            inputs.append(value)
            return
        for x in dict.fromkeys(before):
            self._read(x, planned, inputs, inside)
        inside.append(value)

    def _lowered(self, value: int, inputs: list[int], inside: list[int], given: dict[str, Tensor]) -> Computation | None:
        def function(**numbers: Tensor) -> dict[str, Tensor]:
            read = {v: numbers[f"x{i}"] for i, v in enumerate(inputs)}
            for v in (*inside, value):
                read[v] = self._call(v, read)
            result = read[value]
            return {"y": result.clone() if any(result is read[v] for v in inputs) else result}

        try:
            return computation(function, given)
        except (InputError, RuntimeError, NotImplementedError):
            return None  # no loops for it: torch's reasons are many, and all mean this

    def _call(self, value: int, read: dict[int, Tensor]) -> Tensor:
        step, place = self.graph.maker[value]
        given: list[Tensor] = []
        written = {place.argument for _, place in step.outputs if isinstance(place, Written)}

        def filled(x: Any) -> Any:
            if isinstance(x, Ref):
                t = read[x.id] if x.id in read else _wide(self.graph.tensor(x))
                given.append(t.clone() if len(given) in written else t)
                return given[-1]
            return WIDE.get(x, x) if isinstance(x, torch.dtype) else x

        args, kwargs = each((step.args, step.kwargs), filled)
        if isinstance(place, Written) and isinstance(kwargs.get("out"), Tensor):  # what is written is all that is made
            del kwargs["out"]
            place = 0
        result = step.call(*args, **kwargs)
        return given[place.argument] if isinstance(place, Written) else list(leaves_of(result))[place]

    def _key(self, value: int, inputs: list[int], inside: list[int]) -> object:
        step, place = self.graph.maker[value]

        def seen(x: Any) -> object:
            if not isinstance(x, Ref):
                return type(x), repr(x)
            if x.id in inside:
                return inside.index(x.id)
            t = self.graph.tensor(x)
            if x.id in inputs:
                return "input", inputs.index(x.id), tuple(t.shape), str(t.dtype)
            return ("constant", tuple(t.shape), t.flatten().tolist() if t.numel() < 64 else x.id) if t.numel() else x.id

        return str(step.call), str(place), str([seen(x) for x in leaves_of((step.args, step.kwargs))])


def _wide(t: Tensor) -> Tensor:
    return t.detach().to(WIDE.get(t.dtype, t.dtype))
