"""Sums of several terms, whatever the order in which the two sides add them: a term that is missing, or other rows of a table."""

from collections.abc import Iterator, Set

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.replayed import kind_of, leaf_name, lookup, reproduces
from equiscope.audit.parity.divergence import Divergence
from equiscope.audit.parity.sides import MOVEMENT, SOFTMAX, Side

ADDITIONS = {"add", "radd", "iadd", "add_", "Add"}
SHIFTS = 64  # offsets of positions that are tried
TERMS = 8
FORBIDDEN = -50.0  # a number that hides a pair when it is added to its score
NEAR = 6  # values of B that may be the sum


def changed_term(d: Divergence) -> Finding | None:
    """A's sum without one of its constant terms, or with other rows of a table, is a sum of B."""
    if d.a_step.op not in ADDITIONS:
        return None
    top = _whole(d.a, d.a_step.value)
    total, terms = d.a.numbers(top), list(_terms(d.a, top, d.a_explained))
    if not 2 <= len(terms) <= TERMS:
        return None
    numbers = [d.a.numbers(t).expand(total.shape) for t in terms]
    if not is_rounding(difference(total, torch.stack(numbers).sum(0))):
        return None  # a term that is no value, such as a number in the code
    constant = [(t, n) for t, n in zip(terms, numbers, strict=True) if t not in d.a.moving]
    for term, added in constant:
        if bool(added.any()) and _is_sum(d, top, total - added):
            if before_softmax(d.a, top):
                hides = bool((added < FORBIDDEN).any())
                says = ["a mask", "no mask"] if hides else [f"{_named(d.a, term)} is added to the scores", "it is not"]
                return Finding("mask" if hides else "position bias", says[0], says[1], "the scores of {0} without it are {1}'s")
            kind = "bias" if len(d.a.users.get(term, [])) == 1 else "exchanged"  # B may add it elsewhere, as positions to keys
            return Finding(kind, f"{_named(d.a, term)} is added", "it is not added", "the sum of {0} without it is {1}'s")
    for term, added in constant:
        for shift, rows in _other_rows(d.a, term):
            if _is_sum(d, top, total - added + rows.expand(total.shape)):
                return offset(shift, _named(d.a, term))
        if (step := _own_rows(d, total, added)) is not None:
            return offset(step, _named(d.a, term))
        if (found := _rows_read(d, top, total, term, added)) is not None:
            return found
    return None


def offset(shift: int, table: str) -> Finding:
    """The finding that the rows of a table are read so many later."""
    says = f"{abs(shift)} {'later' if shift > 0 else 'earlier'}"
    return Finding("position offset", f"the rows of {table} as they are", says, f"{{0}}'s table read {says} gives {{1}}'s numbers")


def before_softmax(side: Side, value: int) -> bool:
    """Whether these are scores: a softmax reads them, perhaps after they were moved or a mask was added."""
    for _ in range(6):
        users = side.users.get(value, [])
        if any(node.op in SOFTMAX for node in users):
            return True
        if len(users) != 1 or users[0].op not in MOVEMENT | ADDITIONS:
            return False
        value = users[0].value
    return False


def _is_sum(d: Divergence, top: int, t: Tensor) -> bool:
    """Whether B computes these numbers, and not on the way to a longer sum; recorded activations may hold what follows alone."""
    if d.a.program is not None:
        return reproduces(d, {top: t})
    value = d.hit(t)
    return value is not None and _whole(d.b, value) == value


def _whole(side: Side, value: int) -> int:
    """The sum that this sum is part of: up to the first that is read by anything but a sum of its shape."""
    while len(users := side.users.get(value, [])) == 1 and users[0].op in ADDITIONS:
        if side.high[users[0].value].shape != side.high[value].shape:
            break
        value = users[0].value
    return value


def _terms(side: Side, value: int, done: Set[int], first: bool = True) -> Iterator[int]:
    node = side.maker.get(value)
    if node is not None and node.op in ADDITIONS and (first or value not in done):
        for part in node.inputs:
            yield from _terms(side, part, done, False)
    else:
        yield value


def _named(side: Side, value: int) -> str:
    """The name of the parameter that a constant term is, or was taken from."""
    todo = [value]
    while todo:
        one = todo.pop(0)
        if kind_of(side, one) == "parameter":
            return leaf_name(side, one)
        todo += side.maker[one].inputs if one in side.maker else ()
    return "a constant"


def _other_rows(side: Side, term: int) -> Iterator[tuple[int, Tensor]]:
    """(shift, rows): the rows of the table of this term that are so many later."""
    for table, ids in _tables(side, term):
        for shift in shifts():
            if int(ids.min()) + shift >= 0 and int(ids.max()) + shift < len(table):
                yield shift, table[ids + shift]


def _tables(side: Side, term: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(table, indices): where the rows of a constant term are from."""
    node = side.maker.get(term)
    while node is not None and node.op in MOVEMENT and node.inputs and node.op not in ("getitem", "narrow", "slice", "select"):
        node = side.maker.get(node.inputs[0])
    if node is not None and (found := lookup(node, side)) is not None:
        yield side.numbers(found[0]), side.high[found[1]].long()
        return
    added = side.numbers(term)
    if added.ndim < 2 or added.numel() != added.shape[-1] * added.shape[-2]:
        return
    rows = added.reshape(added.shape[-2:])
    for leaf in side.program.leaves if side.program else ():
        if leaf.kind in ("parameter", "buffer", "constant") and leaf.value.ndim >= 2 and leaf.value.shape[-1] == rows.shape[-1]:
            table = side.numbers(leaf.id).reshape(-1, rows.shape[-1])
            start = next((i for i in range(len(table) - len(rows) + 1) if torch.equal(table[i : i + len(rows)], rows)), None)
            if start is not None:
                yield table, torch.arange(start, start + len(rows))


def _rows_read(d: Divergence, top: int, total: Tensor, term: int, added: Tensor) -> Finding | None:
    """Any rows of A's table, one for each token: what is left of a sum of B without the other terms of A."""
    for value in d.b_region[:NEAR]:
        theirs = d.b.numbers(value) if d.b.is_number(value) else total[:0]
        if theirs.shape != total.shape or _whole(d.b, value) != value:
            continue
        left = (theirs - (total - added)).flatten(0, -2)
        for table, ids in _tables(d.a, term):
            read = torch.cdist(left, table, compute_mode="donot_use_mm_for_euclid_dist").argmin(-1)
            if is_rounding(difference(left, table[read])) and _is_sum(d, top, total - added + table[read].view(total.shape)):
                ours, rows = ids.expand(total.shape[:-1]).reshape(-1, total.shape[-2]), read.reshape(-1, total.shape[-2])
                which = next(i for i in range(len(rows)) if not torch.equal(rows[i], ours[i]))
                says = [f"rows {', '.join(map(str, x[which].tolist()))}" for x in (ours, rows)]
                kind = "exchanged" if torch.equal(rows.sort(-1).values, ours.sort(-1).values) else "position offset"
                return Finding(kind, says[0], says[1], "{0}'s sum with these rows of its table is {1}'s")
    return None


def _own_rows(d: Divergence, total: Tensor, added: Tensor) -> int | None:
    """The shift of the rows within their own table, where B adds none to the tokens beyond its end."""
    for shift in (-1, 1):
        rows = added.roll(-shift, -2)
        inner = slice(1, None) if shift < 0 else slice(None, -1)
        if d.hit((total - added + rows)[..., inner, :]) is not None:
            return shift
    return None


def shifts() -> list[int]:
    return [s for n in range(1, SHIFTS + 1) for s in (n, -n)]
