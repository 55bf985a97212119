"""One change of the numbers: a factor, a soft-cap, another row of a position table, a residual that is missing."""

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding, sorted_numbers
from equiscope.audit.parity.causes.activations import CANDIDATES
from equiscope.audit.parity.causes.exchanged import described
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.causes.replayed import first_nodes, first_reader, leaf_name, lookup, parameters_of, reproduces
from equiscope.audit.parity.causes.sums import ADDITIONS, before_softmax, offset, shifts
from equiscope.audit.parity.divergence import Divergence, frontier
from equiscope.audit.parity.sides import MOVEMENT, Node

NEAR = 6
TERM = 12  # steps after the divergence of which one may add a term that B lacks
SIBLINGS = 8  # the most values of one kind that are scaled together


def embedding_scale(d: Divergence) -> Finding | None:
    """B multiplies the token embedding by another factor than A, also where several inputs read one table."""
    for value in [*d.explained_inputs(4), *d.a_region[:2]]:
        rows = _embedding(d, value)
        found = None if rows is None else next(_factors(d, value), None)
        if rows is None or found is None:
            continue
        table = parameters_of(d.a, rows)
        same = [node.value for node in d.a.nodes if node.op == rows.op and parameters_of(d.a, node) == table]
        scaled = [{v: d.a.numbers(v) * found[0] for v in values} for values in ([value], same)]
        if not any(reproduces(d, changes, far=True) for changes in (scaled if len(same) > 1 else scaled[:1])):
            continue
        width = d.a.high[value].shape[-1]
        words = in_words(found[0], width)
        evidence = f"{{0}} times {words} gives {{1}}'s numbers"
        is_next = value in d.a_region or d.a.users.get(value, [])[:1] == [d.a_step]
        at_a = None if is_next else value  # a norm undoes the scale, so that the first step that differs is further on
        at_b = None if found[1] in d.b_region else found[1]
        return Finding("embedding scale", "1 time the embedding", f"{words} times", evidence, at_a, at_b)
    return None


def _embedding(d: Divergence, value: int) -> Node | None:
    """The step that read these numbers, moved or multiplied, as rows of a table; None for other numbers."""
    for _ in range(4):
        node = d.a.maker.get(value)
        if node is None:
            return None
        if node.op in ("embedding", "index_select", "getitem", "Gather") and parameters_of(d.a, node):
            return node
        moving = d.a.parents(value)
        if len(moving) != 1 or node.op not in {"mul", "rmul", "Mul", "dropout", *MOVEMENT}:
            return None
        value = moving[0]
    return None


def factor(d: Divergence) -> Finding | None:
    """B's numbers are a constant multiple of A's, or of what A's step reads."""
    if d.a.program is None and d.b.program is not None:
        return None  # a file cannot run again: what B computes with the inverse factor decides
    for value in [*d.a_region[:NEAR], *d.explained_inputs(3)]:
        if d.a.program is None and value in d.a_explained:
            continue  # the factor may be elsewhere, and a file cannot run again
        groups = [[value], *(g for g in _alike(d, value) if 1 < len(g) <= SIBLINGS)]
        for rate, other in _factors(d, value):
            scaled = ({v: d.a.numbers(v) * rate for v in values} for values in groups)
            if d.a.program is not None and not any(reproduces(d, changes) for changes in scaled):
                continue
            if (gate := _gate(d, rate)) is not None:
                return gate
            words = in_words(rate, d.a.high[value].shape[-1])
            kind = "softmax scale" if before_softmax(d.a, value) else "scale"
            before = value in d.a_explained and first_reader(d.a, value) is not d.a_step  # a norm undoes the scale
            at_a, at_b = (value, None if other in d.b_region else other) if before else (None, None)
            return Finding(kind, "1 times", f"{words} times", f"{{0}} times {words} gives {{1}}'s numbers", at_a, at_b)
    return None


def _alike(d: Divergence, value: int) -> list[list[int]]:
    """Values that may be scaled together, as the rows and the columns of a grid: siblings, and first steps of one kind."""
    if value not in d.a_region:
        return []
    shape, op = d.a.high[value].shape, d.a.maker[value].op
    first = [node.value for node in frontier(d.a, set(d.a_explained)) if (d.a.high[node.value].shape, node.op) == (shape, op)]
    return [d.a.siblings.get(value, []), first if value in first else []]


def _gate(d: Divergence, rate: float) -> Finding | None:
    """A factor that is one learned number: B multiplies by it as it is, and A by a function of it, or the other way round."""
    for leaf in d.a.program.leaves if d.a.program else ():
        if leaf.kind != "parameter" or leaf.value.numel() != 1:
            continue
        number = d.a.numbers(leaf.id).reshape(1)
        for name, function in CANDIDATES.items():
            ratio = (function(number) / number).item()
            for says, expected in (((name, "as it is"), 1 / ratio if ratio else 0.0), (("as it is", name), ratio)):
                if abs(rate - expected) <= 1e-9 * rate:
                    return Finding("activation", f"{leaf.name}: {says[0]}", says[1], "this gives the ratio of the two factors")
    return None


def _factors(d: Divergence, value: int) -> Iterator[tuple[float, int]]:
    """The factors from this value of A to one of the first of B, or to one before B's step that A has not."""
    mine = sorted_numbers(d.a.numbers(value)) if d.a.is_number(value) else None
    if mine is None or not bool(mine.isfinite().all()):
        return
    read = [] if d.b_step is None else [v for v in d.b.ancestors(d.b_step.value, NEAR) if v not in d.alignment.back]
    seen = set[float]()
    for other in dict.fromkeys([*d.b_region[:NEAR], *read]):
        theirs = sorted_numbers(d.b.numbers(other)) if d.b.is_number(other) else None
        if theirs is None or theirs.shape != mine.shape or not bool(theirs.isfinite().all()):
            continue
        rate = (theirs.norm() / mine.norm()).item()
        new = rate > 0 and abs(rate - 1) > 1e-9 and round(rate, 9) not in seen
        if new and is_rounding(difference(theirs, mine * rate)):
            seen.add(round(rate, 9))
            yield rate, other


def term(d: Divergence) -> Finding | None:
    """In a sum of two terms of A, B multiplies one of them by another factor."""
    for node in first_nodes(d.a, d.a_region, NEAR) if d.a.program is not None else ():
        parts, total = [v for v in dict.fromkeys(node.inputs) if d.a.is_number(v)], d.a.numbers(node.value)
        if node.op not in ADDITIONS or len(parts) != 2:
            continue
        terms = torch.stack([d.a.numbers(v).expand(total.shape).flatten() for v in parts], -1)
        own = _rates(terms, total.flatten())
        for other in d.b_region[:NEAR] if own is not None else ():
            theirs = d.b.numbers(other) if d.b.is_number(other) else total[:0]
            same = [n for n in theirs.shape if n > 1] == [n for n in total.shape if n > 1]
            rates = _rates(terms, theirs.flatten()) if same else None
            if rates is None or own is None:
                continue
            changed = [i for i in range(2) if abs(rates[i] / own[i] - 1) > 1e-9]
            if len(changed) == 1 and reproduces(d, {node.value: (terms @ terms.new_tensor(rates)).view(total.shape)}):
                words = in_words(rates[changed[0]] / own[changed[0]], total.shape[-1])
                what = f"{described(d.a, parts[changed[0]])} in the sum in {node.module or 'the model'}"
                kind = "softmax scale" if before_softmax(d.a, node.value) else "scale"
                return Finding(
                    kind, f"1 times {what}", f"{words} times", f"{{0}} with {words} times this term computes {{1}}'s numbers"
                )
    return None


def _rates(terms: Tensor, total: Tensor) -> tuple[float, float] | None:
    """The factors with which two terms give a total; None where none do."""
    found = torch.linalg.lstsq(terms, total.unsqueeze(-1)).solution.squeeze(-1)
    return (found[0].item(), found[1].item()) if is_rounding(difference(total, terms @ found)) and bool(found.all()) else None


def in_words(rate: float, width: int) -> str:
    """A factor as people write it."""
    for root in {width, *range(2, 257)}:
        if abs(rate - math.sqrt(root)) < 1e-9 * rate and math.isqrt(root) ** 2 != root:
            return f"√{root}"
        if abs(rate * math.sqrt(root) - 1) < 1e-9 and math.isqrt(root) ** 2 != root:
            return f"1/√{root}"
    return f"{rate:.6g}"


def cap(d: Divergence) -> Finding | None:
    """B caps A's numbers: cap · tanh(x / cap)."""
    for value in [*d.explained_inputs(3), *d.a_region[:2]]:
        mine = sorted_numbers(d.a.numbers(value)) if d.a.is_number(value) else None
        if mine is None or not bool(mine.isfinite().all()):
            continue
        for other in d.b_region[:NEAR]:
            theirs = sorted_numbers(d.b.numbers(other)) if d.b.is_number(other) else None
            if theirs is None or theirs.shape != mine.shape or not bool(theirs.isfinite().all()):
                continue
            bound = solve_cap(mine, theirs)
            capped = d.a.numbers(value) if bound is None else bound * torch.tanh(d.a.numbers(value) / bound)
            if bound is not None and (d.a.program is None or reproduces(d, {value: capped})):
                if abs(bound - 1) < 1e-9:
                    return Finding("activation", "none", "tanh", "tanh of {0}'s numbers gives {1}'s")
                kind = "output cap" if d.b.source(other) in {d.b.source(v) for v in _outputs(d)} else "soft-cap"
                at = value if value in d.a_region else None
                return Finding(kind, "no cap", f"{bound:.6g}", f"tanh(x / {bound:.6g}) · {bound:.6g} of {{0}} is {{1}}'s", at)
    return None


def _outputs(d: Divergence) -> list[int]:
    """The outputs of B, and the value before each."""
    return [v for output in d.b.outputs.values() for v in (output, *d.b.parents(output))]


def solve_cap(x: Tensor, y: Tensor) -> float | None:
    """The cap with y = cap · tanh(x / cap), if there is one that explains at least 99 % of the change from x to y."""
    change = difference(y, x)
    if is_rounding(change):
        return None
    i = int(x.abs().argmax())
    start, end = x[i].item(), y[i].item()
    if not 0 < end / (start or 1.0) < 1:
        return None
    low, high = math.log(abs(end)), math.log(abs(start) * 1e4)
    for _ in range(200):
        middle = (low + high) / 2
        bound = math.exp(middle)
        low, high = (middle, high) if bound * math.tanh(abs(start) / bound) < abs(end) else (low, middle)
    bound = math.exp((low + high) / 2)
    return bound if difference(y, bound * torch.tanh(x / bound)) < min(1e-7, change / 100) else None


def position_offset(d: Divergence) -> Finding | None:
    """B reads other rows of the table of positions than A."""
    found = lookup(d.a_step, d.a)
    if found is None:
        return None
    rows, ids = d.a.numbers(found[0]), d.a.high[found[1]].long()
    for shift in shifts():
        for moved in dict.fromkeys((ids + shift, torch.where(ids > 0, ids + shift, ids))):  # row 0 may be that of the padding
            if int(moved.min()) >= 0 and int(moved.max()) < len(rows) and reproduces(d, {d.a_step.value: rows[moved]}):
                finding = offset(shift, leaf_name(d.a, found[0]))
                return finding if _are_positions(ids) else replace(finding, kind="exchanged")
    for least in sorted({int(ids.min()), int(ids[ids > 0].min())} if _are_positions(ids) else ()):
        turned = torch.where(ids >= least, int(ids.max()) + least - ids, ids)
        if reproduces(d, {d.a_step.value: rows[turned]}):
            evidence = "{0}'s table read so gives {1}'s numbers"
            return Finding(
                "exchanged", f"the rows of {leaf_name(d.a, found[0])} as they are", "counted from the other end", evidence
            )
    return None


def _are_positions(ids: Tensor) -> bool:
    """Whether indices look like positions of tokens: most differences are 0 or 1, and somewhere two in a row are 1.

    Segments, such as 0 0 0 1 1, have no two in a row.
    """
    if not ids.ndim or ids.shape[-1] < 3:
        return False
    steps = ids.diff(dim=-1)
    on = steps == 1
    return bool((on | (steps == 0)).double().mean() > 0.5) and bool((on[..., 1:] & on[..., :-1]).any())


def residual(d: Divergence) -> Finding | None:
    """B does not add the residual, or a term that A computes from its first step on: A without it computes B's numbers."""
    for i, node in enumerate([d.a_step, *first_nodes(d.a, d.a_region, TERM)]):
        terms = d.a.parents(node.value)
        known = [x for x in terms if x in d.a_explained]
        if node.op not in ("add", "radd") or len(terms) != 2 or not known or (i > 2 and len(known) > 1):
            continue
        for kept in known:
            if d.a.high[kept].shape == d.a.high[node.value].shape and reproduces(d, {node.value: d.a.numbers(kept)}):
                kind = "residual" if len(known) > 1 else "exchanged"
                where = node.module or "the model"
                learned = d.a.program is not None and d.a_step.value not in d.a.program.depending_on("input", "chance")
                at_a = node.value if learned else None  # what is computed from parameters alone is no step that differs
                return Finding(kind, f"a sum of two terms in {where}", "one of them", "{0} without the other computes {1}'s", at_a)
    return None


__all__ = ["MOVEMENT", "cap", "embedding_scale", "factor", "position_offset", "residual", "solve_cap"]
