"""Several calls that a reader knows as one operation: a norm written out, an activation written out, a product behind a view."""

import math
from typing import Any

import torch

from equiscope.program.lower.direct import Rule
from equiscope.program.lower.graph import Apply, Expression, Graph, argument, listed
from equiscope.program.lower.movement import Movement, flat_indices
from equiscope.program.program import Ref, Step


def _norm(graph: Graph, step: Step) -> Expression | None:
    """x · rsqrt(mean(x²) + eps), with or without the mean taken from x first."""
    for x, sharp in (graph.pair(step), graph.pair(step)[::-1]):
        sharpness = _sharpness(graph, sharp)
        if sharpness is None or not isinstance(x, Ref):
            continue
        squared, eps = sharpness
        if graph.uncast(squared) != graph.uncast(x):
            continue
        centered = _centered(graph, graph.uncast(x))
        if centered is not None:
            return Apply("norm", (centered,), {"center": True, "eps": eps})
        return Apply("norm", (x,), {"center": False, "eps": eps})
    return None


def _sharpness(graph: Graph, x: Any) -> tuple[Any, float] | None:
    """Of rsqrt(mean(y²) + eps): y and eps."""
    inverse = graph.step(x, "rsqrt")
    total = graph.step(inverse.args[0], "add") if inverse is not None else None
    if total is None:
        return None
    mean, eps = total.args[0], graph.number(argument(total, 1, "other"))
    rows = graph.step(mean, "mean")
    if eps is None or rows is None or not _last(graph, rows):
        return None
    square = graph.step(rows.args[0], "pow", "square", "mul")
    if square is None:
        return None
    twice = square.op == "mul" and argument(square, 1, "other") == square.args[0]
    power = square.op == "square" or (square.op == "pow" and graph.number(argument(square, 1, "exponent")) == 2)
    return (square.args[0], eps) if twice or power else None


def _centered(graph: Graph, x: Any) -> Any:
    """Of y - mean(y): y."""
    step = graph.step(x, "sub")
    mean = graph.step(argument(step, 1, "other"), "mean") if step is not None else None
    if step is None or mean is None or not _last(graph, mean):
        return None
    return step.args[0] if mean.args[0] == step.args[0] else None


def _last(graph: Graph, mean: Step) -> bool:
    rank = graph.tensor(mean.args[0]).ndim
    return listed(argument(mean, 1, "dim")) in ([-1], [rank - 1]) and bool(argument(mean, 2, "keepdim", False))


def _gelu(graph: Graph, step: Step) -> Expression | None:
    """0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))."""
    for half, rest in (graph.pair(step), graph.pair(step)[::-1]):
        scaled, one = graph.step(half, "mul"), graph.step(rest, "add")
        x = _times(graph, scaled, 0.5) if scaled is not None else None
        inner = _plus(graph, one, 1.0) if one is not None else None
        tanh = graph.step(inner, "tanh")
        bent = graph.step(tanh.args[0], "mul") if tanh is not None else None
        total = graph.step(_times(graph, bent, math.sqrt(2 / math.pi)), "add") if bent is not None else None
        if x is None or total is None or x not in total.args:
            continue
        cubed = graph.step(next(a for a in total.args if a != x), "mul")
        power = graph.step(_times(graph, cubed, 0.044715), "pow") if cubed is not None else None
        if power is not None and power.args[0] == x and graph.number(argument(power, 1, "exponent")) == 3:
            return Apply("activation", (x,), {"kind": "gelu-tanh"})
    return None


def _times(graph: Graph, step: Step, by: float) -> Any:
    """The other factor of a product with this number."""
    return _other(graph, step, by)


def _plus(graph: Graph, step: Step, by: float) -> Any:
    """The other term of a sum with this number."""
    return _other(graph, step, by)


def _other(graph: Graph, step: Step, by: float) -> Any:
    for x, number in (graph.pair(step), graph.pair(step)[::-1]):
        value = graph.number(number)
        if value is not None and abs(value - by) < 1e-9:
            return x
    return None


def _distance(graph: Graph, step: Step) -> Expression | None:
    """|a − b|."""
    difference = graph.step(step.args[0], "sub")
    a, b = graph.pair(difference) if difference is not None else (None, None)
    return Apply("distance", (a, b)) if isinstance(a, Ref) and isinstance(b, Ref) else None


def _affine(graph: Graph, step: Step) -> Expression | None:
    """x.view(-1, D) times a matrix, plus a bias, seen again in the shape of x: as GPT-2 has it."""
    product = graph.step(step.args[0], "addmm", "mm")
    if product is None or product.kwargs:
        return None
    bias, flat, weight = (None, *product.args) if product.op == "mm" else product.args
    view = graph.step(flat, "view", "reshape")
    if view is None:
        return None
    x, result = view.args[0], graph.program.values[step.outputs[0][0]]
    before, wide = graph.tensor(x).shape, graph.tensor(weight).shape
    if (*before[:-1], wide[-1]) != tuple(result.shape) or before[-1] != wide[0]:
        return None
    matmul = Apply("matmul", (x, weight))
    return matmul if bias is None else Apply("add", (matmul, bias))


def _rotary(graph: Graph, step: Step) -> Expression | None:
    """x cos + (−x₂, x₁) sin, where both tables are of the same angles twice: pairs (w, w + W) turn."""
    for first, second in (graph.pair(step), graph.pair(step)[::-1]):
        plain, crossed = graph.step(first, "mul"), graph.step(second, "mul")
        if plain is None or crossed is None:
            continue
        for x, cosine in (graph.pair(plain), graph.pair(plain)[::-1]):
            for half, sine in (graph.pair(crossed), graph.pair(crossed)[::-1]):
                angles = _same_angles(graph, cosine, sine)
                if angles is not None and isinstance(x, Ref) and _is_half_turn(graph, half, x) and _fits(graph, x, angles):
                    return Apply("rotate", (x, angles), {"layout": "half"})
    return None


def _same_angles(graph: Graph, cosine: Any, sine: Any) -> Any:
    """[B, N, W] of tables [B, 1, N, 2W]: what both are the cosine and the sine of, in halves that are the same."""
    angle_sources = []
    for x, name in ((cosine, "cos"), (sine, "sin")):
        table = graph.step(_beneath(graph, x), name)
        twice = graph.step(table.args[0], "cat") if table is not None else None
        parts = listed(argument(twice, 0, "tensors")) if twice is not None else []
        if twice is None or len(parts) != 2 or parts[0] != parts[1]:
            return None
        if argument(twice, 1, "dim", 0) not in (-1, graph.tensor(parts[0]).ndim - 1):
            return None
        angle_sources.append(parts[0])
    return angle_sources[0] if angle_sources[0] == angle_sources[1] else None


def _beneath(graph: Graph, x: Any) -> Any:
    """A table before casts, a scale by 1, and a new axis for heads."""
    while True:
        before, x = x, graph.uncast(x)
        step = graph.step(x, "mul", "unsqueeze")
        if step is not None and (step.op == "unsqueeze" or graph.number(argument(step, 1, "other")) == 1):
            x = step.args[0]
        if x == before:
            return x


def _is_half_turn(graph: Graph, half: Any, x: Ref) -> bool:
    """Whether it is (−x₂, x₁), of the two halves of x's columns."""
    joined = graph.step(half, "cat")
    parts = listed(argument(joined, 0, "tensors")) if joined is not None else []
    negative = graph.step(parts[0], "neg") if len(parts) == 2 else None
    if joined is None or negative is None or argument(joined, 1, "dim", 0) not in (-1, graph.tensor(x).ndim - 1):
        return False
    movement, width = Movement(graph), graph.tensor(x).shape[-1]
    base, places = movement.of(x.id) or (x.id, flat_indices(graph.tensor(x)))
    halves = (places[..., width // 2 :], places[..., : width // 2])
    for part, wanted in zip((negative.args[0], parts[1]), halves, strict=True):
        move = movement.of(part.id)
        if move is None or move[0] != base or not torch.equal(move[1], wanted):
            return False
    return True


def _fits(graph: Graph, x: Ref, angles: Ref) -> bool:
    """Whether angles [B, N, W] are of all heads of x [B, H, N, 2W]."""
    wide, own = graph.tensor(x).shape, graph.tensor(angles).shape
    return len(wide) == 4 and len(own) == 3 and own[1:] == (wide[2], wide[3] // 2) and own[0] in (1, wide[0])


LIFTED: dict[str, tuple[Rule, ...]] = {
    "add": (_rotary,), "mul": (_norm, _gelu), "view": (_affine,), "reshape": (_affine,), "abs": (_distance,),
}  # fmt: skip
