"""Causes of a difference between one process and several. Each is confirmed by numbers: with the change that it names, one process
computes what the processes have.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.audit.parity.alignment import difference, is_rounding
from equiscope.audit.parity.causes.finding import Finding
from equiscope.audit.parity.ranks.layouts import columns, joined
from equiscope.audit.parity.ranks.values import PairedCall, Processes

NEAR = 6  # calls before the first difference in which a cause is sought


@dataclass(frozen=True)
class Cause:
    """finding: of the cause; call: the module that it lies in."""

    finding: Finding
    call: PairedCall


def find_cause(sides: Processes, first: PairedCall) -> Cause | None:
    """The first cause that is confirmed; None where none is. first: the first call that differs."""
    for hypothesis in HYPOTHESES:
        found = hypothesis(sides, first)
        if found is not None:
            return found
    return None


# --- what a module itself does


def parameter(sides: Processes, first: PairedCall) -> Cause | None:
    """A parameter of the module is not A's, or not this process's share of it."""
    own = {name: t for name, t in sides.one[torch.float64].parameters.items() if name.rpartition(".")[0] == first.path}
    for name, t in own.items():
        for rank, recordings in enumerate(sides.many):
            other = recordings[torch.float64].parameters.get(name)
            if other is None:
                continue
            if other.shape == t.shape:
                if not is_rounding(error := difference(t.double(), other.double())):
                    text = f"another one on process {rank} (relative difference {error:.1e})"
                    return Cause(Finding("weights", name, text, f"the numbers of {name} on process {rank}"), first)
                continue
            for axis in range(t.ndim):
                if other.ndim != t.ndim or other.shape[axis] * sides.count != t.shape[axis]:
                    continue
                shares = t.chunk(sides.count, axis)
                held = [n for n, share in enumerate(shares) if share.shape == other.shape and torch.equal(share, other.to(t.dtype))]
                if held and rank not in held:
                    text = f"process {rank} holds the shard of process {held[0]}"
                    return Cause(Finding("shard order", f"the shards of {name} in order", text, f"the numbers of {name}"), first)
    return None


def counted(sides: Processes, first: PairedCall) -> Cause | None:
    """Something is added once too often, or not at all: a bias, a residual, or the whole that is summed once more."""
    one, ranks = first.shared.one.double(), [t.double() for t in first.shared.ranks]
    if any(t.numel() != one.numel() for t in ranks):
        return None
    ranks = [t.reshape(one.shape) for t in ranks]
    for name, z in _addends(sides, first):
        times = [_times(t - one, z, one) for t in ranks]
        if None not in times and any(times):
            return _of_times(name, [0 if n is None else n for n in times], first)
        extra = (
            None if not name else _times(torch.stack(ranks).sum(0) - one, z, one)
        )  # the ranks hold partial sums, each with all of it
        if extra:
            return _of_partial(sides, first, name, extra)
    return None


def _addends(sides: Processes, first: PairedCall) -> Iterator[tuple[str, Tensor]]:
    """What may be added: parameters with one number a column, the output itself, inputs, outputs of earlier calls."""
    one = first.shared.one
    inside = f"{first.path}." if first.path else ""
    for name, p in sides.one[torch.float64].parameters.items():
        if name.startswith(inside) and p.ndim == 1 and one.ndim and p.shape[0] == one.shape[-1]:
            yield name, p.double().expand(one.shape)
            yield "", one.double() - p.double()
    yield "", one.double()
    for number, t in enumerate(first.one.inputs):
        if t.shape == one.shape:
            yield f"input {number} of {first.name}", t.double()
    for call in sides.before(first)[: 4 * NEAR]:
        if call.shared.one.shape == one.shape and call.layout is not None:
            yield f"the output of {call.name}", call.shared.one.double()


def _times(extra: Tensor, z: Tensor, size: Tensor) -> float | None:
    """The number n with extra = n z, up to rounding relative to `size`; None where there is none."""
    scale = z.norm().item()
    if scale == 0:
        return None
    n = (extra * z).sum().item() / scale**2
    rounded = round(24 * n) / 24  # shares of up to four and eight processes
    if not is_rounding((extra - rounded * z).norm().item() / max(size.norm().item(), 1e-300)):
        return None
    return rounded


def _of_times(name: str, times: list[float], first: PairedCall) -> Cause:
    parts = [f"{n + 1:g} times" for n in times]
    if len(set(times)) == 1:
        text = parts[0]
    else:
        text = ", ".join(
            f"{part if n else 'once'} on process {rank}" for rank, (part, n) in enumerate(zip(parts, times, strict=True))
        )
        text = text.replace("0 times", "not at all")
    if not name:
        finding = Finding("all-reduce", "once", f"{text}: what is whole on every process is summed again", "the sum")
        return Cause(finding, first)
    return Cause(Finding("count", f"{name} counts once", f"it counts {text}", f"the output of {first.name} less that of A"), first)


def _of_partial(sides: Processes, first: PairedCall, name: str, extra: float) -> Cause | None:
    """Partial sums, each with the addend: it counts several times if they are summed afterwards, else the sum is missing."""
    after = [c for c in sides.unexplained if sides.calls.index(c) > sides.calls.index(first)]
    summed, key = torch.stack(first.shared.ranks).sum(0), (first.path, first.count)
    text = f"every process adds it before the sum: it counts {extra + 1:g} times"
    if not after or sides.reproduced(after[0], [sides.replay({key: summed})]):
        return Cause(
            Finding("count", f"{name} counts once", text, f"one process with the sum of the outputs of {first.name}"), first
        )
    return _all_reduce(sides, first, after[0])


# --- what happens between modules


def all_reduce(sides: Processes, first: PairedCall) -> Cause | None:
    """Partial sums that nothing adds."""
    candidates = [c for c in [first, *sides.before(first)] if c.layout is not None and c.layout.kind == "partial"]
    if first in candidates:  # the model returns a partial sum
        return _missing(_origin(first, candidates))
    for call in candidates[:NEAR]:
        if (found := _all_reduce(sides, call, first)) is not None:
            return _missing(_origin(found.call, candidates))
    return None


def _origin(call: PairedCall, candidates: list[PairedCall]) -> PairedCall:
    """The first of these calls, the last first, that returned the same numbers: a module that returns those of a submodule."""
    one = call.shared.one
    return [c for c in candidates if c.shared.one.shape == one.shape and torch.equal(c.shared.one, one)][-1]


def _all_reduce(sides: Processes, call: PairedCall, first: PairedCall) -> Cause | None:
    runs = [sides.replay({(call.path, call.count): t}) for t in call.shared.ranks]
    return _missing(call) if sides.reproduced(first, runs) else None


def _missing(call: PairedCall) -> Cause:
    text = "each process goes on with its own partial sum"
    finding = Finding(
        "all-reduce", f"{call.name} gives the whole sum", text, f"one process with each of the outputs of {call.name}"
    )
    return Cause(finding, call)


def order(sides: Processes, first: PairedCall) -> Cause | None:
    """Columns in another order than the one in which they are read."""
    held = [c for c in [first, *sides.before(first)] if c.layout is not None and c.layout.kind == "permuted"]
    if first in held:
        return _of_order(sides, [_origin(first, held)])
    near = held[: 2 * NEAR]
    siblings = [c for c in near if c.path.rpartition(".")[0] == near[0].path.rpartition(".")[0]]
    for chosen in [*([c] for c in near), siblings, near]:
        values = {(c.path, c.count): joined(c.shared) for c in chosen}
        run = sides.replay({key: t for key, t in values.items() if t is not None})
        if chosen and sides.reproduced(first, [run]):
            return _of_order(sides, chosen)
    return None


def _of_order(sides: Processes, calls: list[PairedCall]) -> Cause:
    call = calls[-1]
    layout = call.layout
    assert layout is not None
    size = len(layout.order) // sides.count
    blocks = [layout.order[rank * size] // size for rank in range(sides.count)]
    whole = tuple(n for block in blocks for n in range(block * size, (block + 1) * size))
    names = " and ".join(c.name for c in calls[::-1])
    if layout.order == whole and size:
        text = f"in the order of processes {', '.join(map(str, blocks))}"
        return Cause(Finding("shard order", f"the columns of {names} in order", text, "the columns, reordered"), call)
    text = "; ".join(f"process {rank} holds the columns {columns(layout.order, rank, sides.count)}" for rank in range(sides.count))
    return Cause(
        Finding("shard order", f"the columns of {names} in order", text, "one process with the columns in that order"), call
    )


def fused(sides: Processes, first: PairedCall) -> Cause | None:
    """A fused projection that was cut as if it were one: a process holds no equal shares of queries, keys and values."""
    sharded = [c for c in sides.before(first) if c.layout is not None and c.layout.kind == "sharded"]
    for call in [c for c in sharded if c.layout is not None and c.layout.axis == c.shared.one.ndim - 1][:NEAR]:
        width = call.shared.one.shape[-1]
        heads = {t.shape[-1] for c in sides.calls for t in c.one.inputs if c.path.startswith(call.path.rpartition(".")[0])}
        three = {(w, (width - w) // 2, (width - w) // 2) for w in heads if w < width and (width - w) % 2 == 0}
        for parts in sorted({(width // 3,) * 3} | three | {(width // 2,) * 2}, key=len, reverse=True):
            if sum(parts) != width or any(part % sides.count for part in parts):
                continue
            cut = [t.split([part // sides.count for part in parts], -1) for t in call.shared.ranks]
            value = torch.cat([torch.cat([pieces[n] for pieces in cut], -1) for n in range(len(parts))], -1)
            if sides.reproduced(first, [sides.replay({(call.path, call.count): value})]):
                text = f"cut into {sides.count} contiguous parts, and read as {len(parts)} parts on every process"
                words = f"{call.name} of {' + '.join(map(str, parts))} columns, each shared out"
                return Cause(Finding("fused layout", words, text, f"one process with the columns of {call.name} as read"), call)
    return None


HYPOTHESES: tuple[Callable[[Processes, PairedCall], Cause | None], ...] = (parameter, counted, all_reduce, order, fused)
