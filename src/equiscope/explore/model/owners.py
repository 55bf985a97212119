"""Owners: the box of a drawing that each step of a program belongs to. Steps of layers without a box belong to none.

Most steps name their module. A position scheme acts inside the attention that calls it, and a model has a few steps of its own
before the first layer: the inputs of those steps decide.
"""

from collections.abc import Mapping

from equiscope import record

UNKNOWN = ""
LOOSE = ("", "model", "model.encoder")  # paths of a model's own steps, outside its parts


def owners(program: record.ProgramRecord, paths: Mapping[str, str], inside: Mapping[str, str]) -> dict[str, list[str]]:
    """Ids of the steps of every box, in the order in which they ran.

    paths   the box of each module path
    inside  the box around each box: it owns the steps of the inner box too
    """
    leaves = {leaf.id: leaf for leaf in program.leaves}
    kinds: dict[str, frozenset[str]] = {leaf.id: frozenset({leaf.kind}) for leaf in program.leaves}
    owner_of: dict[str, str | None] = {}
    for step in program.steps:
        kinds[step.id] = frozenset().union(*(kinds[i] for i in step.inputs))
        owner_of[step.id] = _owner(step, leaves, kinds, owner_of, paths, inside)
    for step in reversed(program.steps):  # an unknown step belongs to the owner of its first use
        for source in step.inputs:
            if owner_of.get(source) == UNKNOWN:
                owner_of[source] = owner_of[step.id]
    boxes: dict[str, list[str]] = {}
    for step in program.steps:
        box = owner_of[step.id] or ""
        while box:
            boxes.setdefault(box, []).append(step.id)
            box = inside.get(box, "")
    for one in inside:  # a scheme that acts at two points of an attention: both boxes own its steps
        twin = next((o for o in inside if o != one and inside[o] and inside[o] == inside[one] and _stem(o) == _stem(one)), "")
        if inside[one] and one not in boxes and twin in boxes:
            boxes[one] = boxes[twin]
    return boxes


def _stem(box: str) -> str:
    return box.rpartition(".")[0]


def _owner(
    step: record.StepRecord, leaves: Mapping[str, record.LeafRecord], kinds: Mapping[str, frozenset[str]],
    owner_of: Mapping[str, str | None], paths: Mapping[str, str], inside: Mapping[str, str],
) -> str | None:  # fmt: skip
    source = "source" in step.axes
    if box := _module(step.where, paths, source):
        within = [one for one, around in inside.items() if around == box]
        return _within(step, kinds, owner_of, box, within) if within else box
    if step.where.rpartition(".")[0].endswith("blocks"):  # a sum in the residual stream belongs to the part that is added
        return owner_of[step.inputs[-1]]
    if step.where not in LOOSE:
        return None
    weights = [leaves[i] for i in step.inputs if i in leaves and leaves[i].kind == "weight"]
    for leaf in weights:
        if (box := _module(leaf.id, paths, source)) or ".blocks." in leaf.where:
            return box or None
    places = {path: box for path, box in paths.items() if path.rpartition(".")[2] == "position" or ".others." in path}
    own = [box for path, box in places.items() if (".encoder." in path) == source]
    if own and "content" not in kinds[step.id]:
        return own[0]
    before = [owner_of[i] for i in reversed(step.inputs) if i in owner_of]
    return None if None in before else next((box for box in before if box), own[0] if own else UNKNOWN)


def _module(path: str, paths: Mapping[str, str], source: bool) -> str:
    """The box of the innermost module on a path that has a box; a table shared with an encoder has a box in each tower."""
    while path and path not in paths:
        path = path.rpartition(".")[0]
    box = paths.get(path, "")
    if source and (twin := paths.get(path.replace("model.", "model.encoder.", 1))) and path == "model.embedding":
        return twin
    return box


def _within(
    step: record.StepRecord, kinds: Mapping[str, frozenset[str]], owner_of: Mapping[str, str | None], box: str, within: list[str]
) -> str:  # fmt: skip
    """In an attention: steps of order alone belong to the mask, steps of positions, and those that use them, to the scheme."""
    masks = [one for one in within if one.endswith(".mask")]
    schemes = [one for one in within if one not in masks]
    if "content" not in kinds[step.id]:
        ranks = kinds[step.id] & {"order", "valid", "document"}
        of_ranks = ranks and "coordinate" not in kinds[step.id]
        return [*(masks if of_ranks else schemes), box][0]
    if masks and step.op == "mask":
        return masks[0]
    met = [one for i in step.inputs for one in schemes if owner_of.get(i) == one and "content" not in kinds[i]]
    return [*met, box][0]
