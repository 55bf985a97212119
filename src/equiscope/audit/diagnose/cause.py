"""Cause: what the module does wrong, in words, inferred from its behaviour and never from its name.

Each kind of statement has its own analysis: how far ahead tokens are attended to, beyond which position all are equal, how queries
and keys are rotated, which operation first mixes tokens or sequences, from which piece on the outputs with a cache differ.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn

from equiscope.audit.diagnose.localize import EXACT
from equiscope.audit.diagnose.localize_cache import compare_pieces, join_pieces
from equiscope.audit.diagnose.operations import Operation, culprit, operations, responsible_parameter
from equiscope.audit.inputs.variations import resampled
from equiscope.audit.statements.pairs import RunPair, error
from equiscope.audit.subject import ModelError, Pass
from equiscope.audit.subject.outputs import flat, of_size
from equiscope.program.hooks import hooked
from equiscope.symmetry import Inputs

FAR = 4096  # a position beyond the limits in use
MAX_TOKENS = 12  # tokens that are changed one after another
MERGING = ("reshape", "view", "flatten")  # that may join the axes of batch and tokens
Call = tuple[tuple[Any, ...], dict[str, Any]]


def cause(statement: str, run: Pass, pair: RunPair, where: str) -> str:
    """The cause in words; empty where none is found. statement: its name."""
    causes: Mapping[str, Callable[[Pass, RunPair, nn.Module], str]] = {
        "causal": _causal, "batch": _batch, "permute": _order, "shift": _shift, "cache": _cache,
    }  # fmt: skip
    module = dict(run.model.named_modules()).get(where, run.model)
    try:
        return causes[statement](run, pair, module) if statement in causes else ""
    except (ModelError, RuntimeError, ValueError, IndexError, TypeError):  # user code, called in unusual ways
        return ""


# ------------------------------------------------------------------------------------------------- order, causality, batch


def _order(run: Pass, pair: RunPair, module: nn.Module) -> str:
    name = _operation(run, pair, module)
    if name == "add" and (table := responsible_parameter(run, pair, module, _other(pair))):
        return f"{table} is added to the tokens, and its rows differ"
    return f"{name} does not treat all tokens equally" if name else ""


def _batch(run: Pass, pair: RunPair, module: nn.Module) -> str:
    operation = culprit(run, pair, module, _other(pair))
    if operation is None:
        return ""
    if operation.name in MERGING and operation.outputs[0].ndim < operation.inputs[0].ndim:  # no row of a sequence can be compared
        return f"after {operation.name}, which puts all sequences of the batch into one axis"
    return f"{operation.name} over the batch axis"


def _operation(run: Pass, pair: RunPair, module: nn.Module) -> str:
    operation = culprit(run, pair, module, _other(pair))
    return "" if operation is None else operation.name


def _other(pair: RunPair) -> Inputs:
    return resampled(pair.original, Generator().manual_seed(5))


def _causal(run: Pass, pair: RunPair, module: nn.Module) -> str:
    """How far ahead tokens are attended to, and by which operation."""
    call = lookahead(run, module, run.inputs)
    reach = call or lookahead(run, module, pair.original, int(pair.element.get("changed", 0)))
    if not reach and not (isinstance(pair.transformed, Inputs) and pair.transformed.length == pair.original.length):
        return "the output does not depend on later tokens, but on their number: something depends on the sequence length"
    step, name = max(reach.values(), default=0), _operation(run, pair, module)
    if max(reach, default=0) > step and all(r == min(j, step) for j, r in reach.items()):  # before token j there are j
        convolves = name.startswith("conv") or name == "pad"
        reads = "reads" if convolves else "attends to"
        inputs, first = (run.inputs, 0) if call else (pair.original, int(pair.element.get("changed", 0)))
        if some := [j for j in tried_positions(inputs.length or 0, first) if j >= step and j not in reach]:
            j = next(j for j in sorted(reach) if reach[j] == step)
            return f"token {j - step} {reads} token {j}; no earlier token {reads} token {some[-1]}"
        wrong = f": the {'padding' if convolves else 'mask'} is off by one" if step == 1 else f", {step} tokens ahead"
        return f"token i {reads} token i + {step}{wrong}"
    mixes = f"{name} over the axis of tokens" if name else "it mixes tokens"
    if not call:
        return f"{mixes}: tokens depend on later ones in sequences of {pair.original.length} tokens"
    return (
        f"{mixes}: every token depends on all later ones"
        if reach and all(r == j for j, r in reach.items())
        else f"{mixes}: tokens depend on later ones"
    )


def lookahead(run: Pass, module: nn.Module, inputs: Inputs, first: int = 0) -> dict[int, int]:
    """Token j -> how many tokens before it change in the output of the module when j changes; only where some do."""
    from equiscope.audit.statements.sequences.causal import change_later

    n, generator = inputs.length or 0, Generator().manual_seed(run.subject.seed)
    original, changes = _module_output(run, module, inputs), {}
    for j in reversed(tried_positions(n, first)):
        pair = change_later(inputs, j, generator, 1)
        assert isinstance(pair.transformed, Inputs)
        transformed = _module_output(run, module, pair.transformed)
        changed = [i for name, t in original.items() if name in transformed for i in _changed(t, transformed[name], n) if i < j]
        if changed:
            changes[j] = j - min(changed)
    return changes


def tried_positions(n: int, first: int) -> list[int]:
    """The last tokens, and some from `first` on."""
    last, more = range(max(n - MAX_TOKENS, 1), n), range(first, min(first + MAX_TOKENS, n)) if first else ()
    return sorted({*last, *more})


def _changed(a: Tensor, b: Tensor, n: int) -> list[int]:
    """The rows of tokens that differ."""
    a, b = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (a, b))
    axes = of_size(a, n)
    if a.shape != b.shape or not axes:
        return []
    axis = a.ndim - 2 if a.ndim - 2 in axes else axes[0]
    rows = a.movedim(axis, 0).flatten(1), b.movedim(axis, 0).flatten(1)
    return [i for i in range(n) if not error(rows[0][i], rows[1][i]) < EXACT]


def _module_output(run: Pass, module: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """The outputs of the module in its first call."""
    outputs_seen: list[dict[str, Tensor]] = []

    def keep_output(_: str, __: nn.Module, outputs: Any) -> None:
        outputs_seen.append({n: t.detach().clone() for n, t in flat(outputs).items()})

    with hooked([("", module)], after=keep_output):
        run.outputs_of(lambda model: inputs.to(run.dtype).call(model))
    return outputs_seen[0] if outputs_seen else {}


# --------------------------------------------------------------------------------------------------------------- positions


def _shift(run: Pass, pair: RunPair, module: nn.Module) -> str:
    """Positions that are not distinguished, or queries and keys that are rotated differently."""
    if not isinstance(pair.transformed, Inputs):
        return ""
    original, transformed = _tensor_arguments(run, module, pair.original), _tensor_arguments(run, module, pair.transformed)
    names = [n for n, t in original.items() if n in transformed and _shifted(t, transformed[n])]
    if not names:
        return ""
    call = _first_call(run, module, pair.original)
    return _position_limit(run, module, call, names, run.inputs.length or 0) or _layout_difference(run, module, call, names)


def _shifted(a: Tensor, b: Tensor) -> bool:
    """Whether b is a plus one constant."""
    if a.shape != b.shape or a.numel() == 0:
        return False
    gap = (b.double() - a.double()).flatten()
    return bool((gap == gap[0]).all()) and bool(gap[0] != 0)


def _position_limit(run: Pass, module: nn.Module, call: Call, names: list[str], n: int) -> str:
    """The position from which on, or up to which, all are equal, found by bisection; empty if there is none.

    A distance that is clipped, as in T5, gives equal outputs for a first token far away, but not for tokens that are all far away.
    """

    def output_at(first: int, others: int | None = None) -> Tensor:
        """The output with the first token at a position, and, where a second is given, all others at that."""
        return _float_output(run, module, _replaced(call, {name: lambda t: _set_positions(t, first, others, n) for name in names}))

    def limit(end: int, inner: int) -> int:
        """The position nearest to `inner` that gives the output of `end`."""
        equal, other, expected = end, inner, output_at(end)
        while abs(other - equal) > 1:
            middle = (equal + other) // 2
            equal, other = (middle, other) if torch.equal(output_at(middle), expected) else (equal, middle)
        return equal

    def indistinct(a: int, b: int) -> bool:
        return torch.equal(output_at(a), output_at(b)) and torch.equal(output_at(a, b), output_at(a, a))

    if torch.equal(output_at(0), output_at(FAR)):
        return ""
    if indistinct(FAR, FAR - 1):
        return f"positions beyond {limit(FAR, 0)} are not distinguished"
    return f"positions up to {limit(0, FAR)} are not distinguished" if indistinct(0, 1) else ""


def _set_positions(t: Tensor, first: int, others: int | None, n: int) -> Tensor:
    """A copy with the position of the first token set, and with that of all others where it is given."""
    axis = next(iter(of_size(t, n)), t.ndim - 1)
    t = t.clone() if others is None else torch.full_like(t, others)
    t.select(axis, 0).fill_(first)
    return t


def _layout_difference(run: Pass, module: nn.Module, call: Call, names: list[str]) -> str:
    """How the rotations of queries and keys differ, from their values at two positions; empty where they do not."""

    def products(position: int) -> tuple[Tensor, Tensor] | None:
        args, kwargs = _replaced(call, {name: lambda t: torch.full_like(t, position) for name in names})
        return _product(operations(run, module, lambda: run.part(module)(*args, **kwargs)))

    unrotated, rotated = products(0), products(1)
    if unrotated is None or rotated is None:
        return ""
    (q, q_angle), (k, k_angle) = _layout(unrotated[0], rotated[0]), _layout(unrotated[1], rotated[1])
    if q and k and q != k:
        pairs = _pair_formula(q, unrotated[0]), _pair_formula(k, unrotated[1])
        return f"rotary layouts are mixed: queries in pairs {pairs[0]}, keys in pairs {pairs[1]}"
    if q and k and q_angle is not None and k_angle is not None and not torch.allclose(q_angle, k_angle, atol=1e-6):
        return "queries and keys are rotated by different angles"
    return ""


def _product(changes: list[Operation]) -> tuple[Tensor, Tensor] | None:
    """Queries and keys [..., N, K] of the first product of two tensors."""
    for one in changes:
        if one.name not in ("matmul", "bmm", "einsum", "scaled_dot_product_attention", "baddbmm") or len(one.inputs) < 2:
            continue
        q, k = one.inputs[-2:] if one.name == "baddbmm" else one.inputs[:2]
        if q.ndim < 3 or k.ndim < 3:
            continue
        if q.shape[-1] == k.shape[-1] and (one.name == "scaled_dot_product_attention" or q.shape[-1] != k.shape[-2]):
            return q, k
        if q.shape[-1] == k.shape[-2]:
            return q, k.mT
    return None


def _layout(unrotated: Tensor, rotated: Tensor) -> tuple[str, Tensor | None]:
    """ "halves" or "neighbours", whichever pairs keep their length; and the angles of the first token."""
    if unrotated.shape != rotated.shape or unrotated.shape[-1] % 2 or torch.equal(unrotated, rotated):
        return "", None
    for name in ("halves", "neighbours"):
        a, b = _complex(unrotated, name), _complex(rotated, name)
        if torch.allclose(a.abs(), b.abs(), rtol=1e-6, atol=1e-9):
            return name, (b * a.conj()).angle().reshape(-1, *a.shape[-2:])[0, 0]
    return "", None


def _complex(t: Tensor, name: str) -> Tensor:
    a, b = t.double().chunk(2, -1) if name == "halves" else (t.double()[..., 0::2], t.double()[..., 1::2])
    return torch.complex(a.contiguous(), b.contiguous())


def _pair_formula(name: str, t: Tensor) -> str:
    return f"(i, i + {t.shape[-1] // 2})" if name == "halves" else "(2i, 2i + 1)"


# ------------------------------------------------------------------------------------------------------------------- cache


def _cache(run: Pass, pair: RunPair, module: nn.Module) -> str:
    """From which piece on the outputs differ, and whether positions or keys differ."""
    changes, sizes = compare_pieces(run, pair), list(pair.element["pieces"])
    original, cached = pair.outputs(run)
    n = sum(sizes)
    violations = [i for name, t in original.items() if name in cached for i in _changed(t, cached[name], n)]
    if not violations:
        return ""
    piece = next(p for p in range(len(sizes)) if sum(sizes[: p + 1]) > min(violations))
    begins = f"the difference begins at token {min(violations)}, in piece {piece + 1} of {len(sizes)}"
    path = next((p for p, m in run.model.named_modules() if m is module), "")
    counted_model = _position_error(changes, path, sizes) if changes is not None else ""
    why = counted_model or _cached_keys(run, pair, module, sizes)
    return f"{begins}: {why}" if why else begins


def _position_error(changes: Any, path: str, sizes: list[int]) -> str:
    """The error of the positions that a module computes, where its outputs are integers."""
    for i, event in enumerate(changes.single_pass):
        if event.module != path or not event.is_output:
            continue
        for name, t in event.named.items():
            outputs = join_pieces(t, [part[i].named[name] for part in changes.pieces if name in part[i].named], sizes)
            if outputs is None or outputs.shape != t.shape or not bool((t == t.round()).all()):
                continue
            offsets = (outputs - t)[outputs != t].unique()
            if offsets.numel() == 1:
                return f"its positions are {abs(int(offsets))} too {'small' if offsets < 0 else 'large'}"
            if offsets.numel():
                return f"its positions are wrong by {int(offsets.min())} to {int(offsets.max())}"
    return ""


def _cached_keys(run: Pass, pair: RunPair, module: nn.Module, sizes: list[int]) -> str:
    """How queries or keys of the last piece differ from those of one pass."""
    single_pass = _product(operations(run, module, lambda: pair.original.to(run.dtype).call(run.counted_model)))
    last = _product(_last_call(run, pair, module))
    if single_pass is None or last is None:
        return ""
    (q, k), (q_cached, k_cached) = single_pass, last
    size = sizes[-1]
    queries = error(q[..., -size:, :], q_cached) < EXACT if q[..., -size:, :].shape == q_cached.shape else None
    keys = error(k, k_cached) < EXACT if k.shape == k_cached.shape else None
    new_keys_equal = error(k[..., -size:, :], k_cached[..., -size:, :]) < EXACT
    if keys is None:
        count, expected = k_cached.shape[-2], k.shape[-2]
        return f"{count} keys are attended to instead of {expected}" if count != expected else ""
    if queries is False and not new_keys_equal:
        return "queries and new keys have other positions than in one pass"
    if queries and not keys:
        order = all(bool(torch.isclose(k_cached, row[..., None, :], atol=1e-9).all(-1).any(-1).all()) for row in k.unbind(-2))
        return "the keys are those of one pass, but in another order" if order else "the cached keys are not those of one pass"
    return "queries and keys are those of one pass, but the values, the mask or a bias are not" if queries and keys else ""


def _last_call(run: Pass, pair: RunPair, module: nn.Module) -> list[Operation]:
    """The operations inside the module in its last call while the tokens are run in pieces."""
    calls: list[Call] = []
    with hooked([("", module)], before=lambda _, __, args, kwargs: calls.append((args, kwargs))):
        pair.outputs(run)
    args, kwargs = calls[-1]
    return operations(run, module, lambda: run.part(module)(*args, **kwargs))


# --------------------------------------------------------------------------------------------------------- a module, alone


def _first_call(run: Pass, module: nn.Module, inputs: Inputs) -> Call:
    """The arguments of the first call of the module."""
    calls: list[Call] = []
    with hooked([("", module)], before=lambda _, __, args, kwargs: calls.append((args, kwargs))):
        run.outputs_of(lambda model: inputs.to(run.dtype).call(model))
    return calls[0]


def _tensor_arguments(run: Pass, module: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    args, kwargs = _first_call(run, module, inputs)
    return {n: t for n, t in {**{str(i): a for i, a in enumerate(args)}, **kwargs}.items() if isinstance(t, Tensor)}


def _replaced(call: Call, change: Mapping[str, Callable[[Tensor], Tensor]]) -> Call:
    """Arguments with some of them changed."""
    args, kwargs = call
    return (
        tuple(change[str(i)](a) if str(i) in change else a for i, a in enumerate(args)),
        {n: change[n](a) if n in change else a for n, a in kwargs.items()},
    )


def _float_output(run: Pass, module: nn.Module, call: Call) -> Tensor:
    """The first floating-point output of a module."""
    with run.within():
        outputs = flat(run.part(module)(*call[0], **call[1]))
    return next(t for t in outputs.values() if t.is_floating_point())


__all__ = ["cause", "lookahead"]
