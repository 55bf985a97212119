"""Roles by structure: weights are a softmax between two products of values that depend on the input.

Back from the weights to the product of queries and keys, on to the product of which they are the left factor: Q, K, S, A, V, Z.
"""

from collections import defaultdict

import msgspec

from equiscope.record import Step, Trace

BACK = {"scale", "add", "subtract", "multiply", "divide", "mask", "cast", "activation", "maximum", "clamp", "loops"}
ON = {"cast", "multiply", "scale", "loops", "mask"}  # dropout, renormalisation
MOVED = {"transpose", "heads", "repeat_heads", "columns", "cast", "rotate", "scale"}


def with_roles(trace: Trace) -> Trace:
    """The same program with the symbols of attention, where nobody gave others."""
    maker = {step.id: step for step in trace.steps}
    users: dict[str, list[Step]] = defaultdict(list)
    for step in trace.steps:
        for x in step.inputs:
            users[x].append(step)
    fresh = _following(trace)
    symbols: dict[str, str] = {}
    for step in trace.steps:
        if step.op != "softmax":
            continue
        product, mix = _back(step, maker, fresh), _on(step, users)
        if product is None or mix is None:
            continue
        symbols |= {step.inputs[0]: "S", step.id: "A", mix.id: "Z"}
        for letter, x in (("Q", product.inputs[0]), ("K", product.inputs[1]), ("V", mix.inputs[1])):
            for ident, symbol in _named(letter, x, maker).items():
                symbols[ident] = symbol if symbols.get(ident, symbol) == symbol else ""  # keys that are values too
    steps = [msgspec.structs.replace(s, symbol=s.symbol or symbols.get(s.id, "")) for s in trace.steps]
    return msgspec.structs.replace(trace, steps=steps)


def _following(trace: Trace) -> set[str]:
    """Values that depend on the input."""
    found = {leaf.id for leaf in trace.leaves if leaf.kind == "content"}
    for step in trace.steps:
        if any(x in found for x in step.inputs):
            found.add(step.id)
    return found


def _back(step: Step, maker: dict[str, Step], fresh: set[str]) -> Step | None:
    todo, seen = [step.inputs[0]], set()
    while todo:
        found = maker.get(todo.pop(0))
        if found is None or found.id in seen:
            continue
        seen.add(found.id)
        if found.op == "matmul" and all(x in fresh for x in found.inputs):
            return found
        if found.op in BACK:
            todo += found.inputs
    return None


def _on(step: Step, users: dict[str, list[Step]]) -> Step | None:
    todo, seen = [step.id], set()
    while todo:
        here = todo.pop(0)
        for user in users[here]:
            if user.op == "matmul" and user.inputs[0] == here:
                return user
            if user.op in ON and user.id not in seen:
                seen.add(user.id)
                todo.append(user.id)
    return None


def _named(letter: str, x: str, maker: dict[str, Step]) -> dict[str, str]:
    """The letter for the projection, and with an h for what the heads are made of."""
    found: dict[str, str] = {}
    while (step := maker.get(x)) is not None:
        if step.op not in MOVED or step.op == "columns":
            return found | {x: letter}
        if step.op != "transpose":
            found[x] = f"{letter}′" if step.op == "rotate" else f"{letter}_h"
        x = step.inputs[0]
    return found
