"""Roles by structure: attention weights are a softmax between two products of values that depend on the input.

From the weights back to the product of queries and keys, and on to the product with the values: Q, K, S, A, V, Z.
"""

from collections import defaultdict
from dataclasses import dataclass

from equiscope.record import ProgramRecord, StepRecord

BACK = {"scale", "add", "subtract", "multiply", "divide", "mask", "cast", "activation", "maximum", "clamp", "loops", "concat"}
ON = {"cast", "multiply", "scale", "loops", "mask", "columns"}  # dropout, renormalisation, a sink's column
WIDE = {"transpose", "repeat_heads", "cast"}  # rotations come before these


@dataclass(frozen=True)
class AttentionRoles:
    """One attention of a program, by the ids of its values.

    scores  scores before the mask; output: the weights times the values
    chain   steps from the product of queries and keys to the softmax, in order
    """

    queries: str
    keys: str
    values: str
    product: StepRecord
    chain: tuple[StepRecord, ...]
    weights: StepRecord
    output: StepRecord

    @property
    def scores(self) -> str:
        """The scores before the mask."""
        return next(step.id for step in reversed((self.product, *self.chain)) if step.op != "mask")


def attention_roles(program: ProgramRecord) -> list[AttentionRoles]:
    """Every attention of a program, in order."""
    maker = {step.id: step for step in program.steps}
    users: dict[str, list[StepRecord]] = defaultdict(list)
    for step in program.steps:
        for x in step.inputs:
            users[x].append(step)
    fresh = following(program)
    roles = []
    for step in program.steps:
        if step.op != "softmax" and not (step.op == "function" and step.params.get("kind") == "sigmoid"):
            continue
        chain, (weights, mixed) = _back(step, maker, fresh), _on(step, users)
        if chain and mixed is not None:
            q, k = chain[0].inputs
            keys = maker[k].inputs[0] if k in maker and maker[k].op == "transpose" else k
            roles.append(AttentionRoles(q, keys, mixed.inputs[1], chain[0], tuple(chain[1:]), weights, mixed))
    return roles


def names(program: ProgramRecord) -> dict[str, tuple[str, str]]:
    """Symbol and label by id of every value that has a role in attention."""
    maker = {step.id: step for step in program.steps}
    fresh = following(program)
    symbols: dict[str, tuple[str, str]] = {}
    for look in attention_roles(program):
        given = {look.product.id: ("QKᵀ", "products of queries and keys")}
        for step in look.chain:
            given |= _chain_symbols(step, {one.id for one in (look.product, *look.chain)}, maker)
        given |= {look.weights.id: ("A", "attention weights"), look.output.id: ("Z", "weighted sum of the values")}
        for letter, word, x in (("Q", "queries", look.queries), ("K", "keys", look.keys), ("V", "values", look.values)):
            for ident, name in _path_symbols(letter, word, x, maker, fresh).items():
                given[ident] = name if symbols.get(ident, name) == name and given.get(ident, name) == name else ("", "")
        symbols |= given
    for step in program.steps:
        if step.op == "join" and symbols.get(step.inputs[0], ("",))[0] == "Z":
            symbols[step.id] = ("Z_all", "the heads side by side")
    return symbols


def following(program: ProgramRecord) -> set[str]:
    """Values that depend on the input."""
    moving = {leaf.id for leaf in program.leaves if leaf.kind == "content"}
    for step in program.steps:
        if any(x in moving for x in step.inputs):
            moving.add(step.id)
    return moving


def _back(step: StepRecord, maker: dict[str, StepRecord], fresh: set[str]) -> list[StepRecord]:
    """From the product of two values that depend on the input to the softmax, which is not among them."""
    todo: list[tuple[str, list[StepRecord]]] = [(step.inputs[0], [])]
    seen = set()
    while todo:
        ident, after = todo.pop(0)
        maker_step = maker.get(ident)
        if maker_step is None or maker_step.id in seen:
            continue
        seen.add(maker_step.id)
        if maker_step.op == "matmul" and all(x in fresh for x in maker_step.inputs):
            return [maker_step, *after]
        if maker_step.op in BACK:
            todo += [(x, [maker_step, *after]) for x in maker_step.inputs]
    return []


def _on(step: StepRecord, users: dict[str, list[StepRecord]]) -> tuple[StepRecord, StepRecord | None]:
    """The weights as they meet the values, and the product of both."""
    todo, seen = [step], set()
    while todo:
        here = todo.pop(0)
        for user in users[here.id]:
            if user.op == "matmul" and user.inputs[0] == here.id:
                return (here if here.op == "columns" else step), user
            if user.op in ON and user.id not in seen:
                seen.add(user.id)
                todo.append(user)
    return step, None


def _chain_symbols(step: StepRecord, own: set[str], maker: dict[str, StepRecord]) -> dict[str, tuple[str, str]]:
    """What a step between the product and the softmax is called, and what it brings in."""
    other = next((x for x in step.inputs if x not in own), None)
    match step.op:
        case "scale" | "divide" | "activation":
            return {step.id: ("S", "scores")}
        case "add":
            beside = {other: ("B", "what is added to the scores")} if other in maker else {}
            return {step.id: ("S′", "scores with what is added"), **beside}
        case "mask":
            beside = {other: ("M", "mask: the pairs that may attend")} if other in maker else {}
            return {step.id: ("S∘M", "scores, minus infinity where a pair is not visible"), **beside}
        case _:
            return {}


def _path_symbols(letter: str, word: str, x: str, maker: dict[str, StepRecord], fresh: set[str]) -> dict[str, tuple[str, str]]:
    """From the projection to what the product takes: X, X_h for heads, X′ for what a position made of it."""
    symbols: dict[str, tuple[str, str]] = {}
    turned = False
    while (step := maker.get(x)) is not None:
        if step.op == "heads":
            symbols[x] = (f"{letter}_h", f"{word}, one matrix for each head")
        elif _projects(step, maker, fresh) or (
            step.op == "columns" and not any(i in maker and maker[i].op == "heads" for i in step.inputs)
        ):
            return symbols | {x: (letter, word)}
        elif step.op == "repeat_heads":
            symbols[x] = (f"{letter}×", f"{word}, one matrix for each head of the queries")
        elif step.op not in WIDE and not turned:
            symbols[x], turned = (f"{letter}′", f"{word} after their positions"), True
        x = next((i for i in step.inputs if i in fresh), "")
    return {}


def _projects(step: StepRecord, maker: dict[str, StepRecord], fresh: set[str]) -> bool:
    """Whether it is a product with weights, or the sum of one with a bias."""
    if step.op == "add" and step.inputs[0] in maker and step.inputs[1] not in fresh:
        step = maker[step.inputs[0]]
    return step.op == "matmul" and step.inputs[0] in fresh and step.inputs[1] not in fresh
