"""Cause: what the module does wrong, in words, found by looking at how it behaves, never at what it is called.

One question for each kind of statement: how far ahead a token is seen, which places are not told apart, how queries and keys are
turned, which operation first mixes what it must not, from which piece on a cache answers otherwise.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor, nn

from equiscope.audit.diagnose.localize import RIGHT
from equiscope.audit.diagnose.localize_cache import joined, joins
from equiscope.audit.diagnose.operations import Operation, culprit, operations
from equiscope.audit.inputs.variations import resampled
from equiscope.audit.statements.pairs import RunPair, error
from equiscope.audit.subject import Crashed, Pass
from equiscope.audit.subject.outputs import flat, of_size
from equiscope.program.hooks import hooked
from equiscope.symmetry import Inputs

FAR = 4096  # a place that no limit in use reaches
TRIED = 12  # tokens that are changed one after another
Called = tuple[tuple[Any, ...], dict[str, Any]]


def cause(statement: str, run: Pass, pair: RunPair, where: str) -> str:
    """In words; empty where nothing was found. statement: its name."""
    find: Mapping[str, Callable[[Pass, RunPair, nn.Module], str]] = {
        "causal": _causal, "batch": _batch, "permute": _order, "shift": _shift, "cache": _cache,
    }  # fmt: skip
    module = dict(run.model.named_modules()).get(where, run.model)
    try:
        return find[statement](run, pair, module) if statement in find else ""
    except (Crashed, RuntimeError, ValueError, IndexError, TypeError):  # other people's code, called in ways it does not know
        return ""


# ------------------------------------------------------------------------------------------------- order, causality, batch


def _order(run: Pass, pair: RunPair, module: nn.Module) -> str:
    name = _operation(run, pair, module)
    return f"{name} does not treat all tokens alike" if name else ""


def _batch(run: Pass, pair: RunPair, module: nn.Module) -> str:
    name = _operation(run, pair, module)
    return f"{name} over the axis of the batch" if name else ""


def _operation(run: Pass, pair: RunPair, module: nn.Module) -> str:
    return culprit(run, pair, module, resampled(pair.original, Generator().manual_seed(5)))


def _causal(run: Pass, pair: RunPair, module: nn.Module) -> str:
    """How far ahead is seen, and by which operation."""
    given = reaches(run, module, run.inputs)
    reach = given or reaches(run, module, pair.original, int(pair.element.get("changed", 0)))
    if not reach and not (isinstance(pair.transformed, Inputs) and pair.transformed.length == pair.original.length):
        return "the output does not depend on later tokens, but on how many there are: something follows the sequence length"
    step = max(reach.values(), default=0)
    if max(reach, default=0) > step and all(r == min(j, step) for j, r in reach.items()):  # before token j there are j
        return f"token i sees token i + {step}" + (": a mask off by one" if step == 1 else f", so {step} tokens ahead")
    name = _operation(run, pair, module)
    mixes = f"{name} over the axis of tokens" if name else "it mixes tokens"
    if not given:
        return f"{mixes}: tokens see later ones in sequences of {pair.original.length} tokens"
    return (
        f"{mixes}: every token sees all later ones"
        if reach and all(r == j for j, r in reach.items())
        else f"{mixes}: tokens see later ones"
    )


def reaches(run: Pass, module: nn.Module, inputs: Inputs, first: int = 0) -> dict[int, int]:
    """Token j -> how many tokens before it change, in what the module makes, when it is another; those that do.

    Asked of the last tokens, and of some from the `first` on.
    """
    from equiscope.audit.statements.sequences.causal import change_later

    n, generator = inputs.length or 0, Generator().manual_seed(run.subject.seed)
    original, found = _made(run, module, inputs), {}
    last, more = range(max(n - TRIED, 1), n), range(first, min(first + TRIED, n)) if first else ()
    for j in sorted({*last, *more}, reverse=True):
        pair = change_later(inputs, j, generator, 1)
        assert isinstance(pair.transformed, Inputs)
        transformed = _made(run, module, pair.transformed)
        changed = [i for name, t in original.items() if name in transformed for i in _changed(t, transformed[name], n) if i < j]
        if changed:
            found[j] = j - min(changed)
    return found


def _changed(a: Tensor, b: Tensor, n: int) -> list[int]:
    """Rows of tokens that differ."""
    a, b = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (a, b))
    axes = of_size(a, n)
    if a.shape != b.shape or not axes:
        return []
    axis = a.ndim - 2 if a.ndim - 2 in axes else axes[0]
    rows = a.movedim(axis, 0).flatten(1), b.movedim(axis, 0).flatten(1)
    return [i for i in range(n) if not error(rows[0][i], rows[1][i]) < RIGHT]


def _made(run: Pass, module: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """What the module makes, the first time that it is called."""
    kept: list[dict[str, Tensor]] = []

    def keep(_: str, __: nn.Module, made: Any) -> None:
        kept.append({n: t.detach().clone() for n, t in flat(made).items()})

    with hooked([("", module)], after=keep):
        run.outputs_of(lambda model: inputs.to(run.dtype).call(model))
    return kept[0] if kept else {}


# ------------------------------------------------------------------------------------------------------------------ places


def _shift(run: Pass, pair: RunPair, module: nn.Module) -> str:
    """Places that are not told apart, or queries and keys that are turned in two ways."""
    if not isinstance(pair.transformed, Inputs):
        return ""
    original, transformed = _called(run, module, pair.original), _called(run, module, pair.transformed)
    names = [n for n, t in original.items() if n in transformed and _along(t, transformed[n])]
    if not names:
        return ""
    given = _arguments(run, module, pair.original)
    return _limit(run, module, given, names, run.inputs.length or 0) or _layouts(run, module, given, names)


def _along(a: Tensor, b: Tensor) -> bool:
    """Whether the one is the other, moved along by one number."""
    if a.shape != b.shape or a.numel() == 0:
        return False
    gap = (b.double() - a.double()).flatten()
    return bool((gap == gap[0]).all()) and bool(gap[0] != 0)


def _limit(run: Pass, module: nn.Module, given: Called, names: list[str], n: int) -> str:
    """The place from which on all are the same, found by halving; empty where there is none."""

    def at(place: int) -> Tensor:
        return _answer(run, module, _with(given, {name: lambda t: _first(t, place, n) for name in names}))

    far = at(FAR)
    if not torch.equal(far, at(FAR - 1)) or torch.equal(far, at(0)):
        return ""
    low, high = 0, FAR - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if torch.equal(at(middle), far) else (middle, high)
    return f"places beyond {high} are not told apart"


def _first(t: Tensor, place: int, n: int) -> Tensor:
    """The first token's place, set."""
    axis = next(iter(of_size(t, n)), t.ndim - 1)
    t = t.clone()
    t.select(axis, 0).fill_(place)
    return t


def _layouts(run: Pass, module: nn.Module, given: Called, names: list[str]) -> str:
    """Which features of queries and keys are turned together, and by how much, from two places."""

    def products(place: int) -> tuple[Tensor, Tensor] | None:
        args, kwargs = _with(given, {name: lambda t: torch.full_like(t, place) for name in names})
        return _product(operations(run, module, lambda: run.part(module)(*args, **kwargs)))

    still, turned = products(0), products(1)
    if still is None or turned is None:
        return ""
    (q, q_angle), (k, k_angle) = _layout(still[0], turned[0]), _layout(still[1], turned[1])
    if q and k and q != k:
        return f"queries are turned in pairs {_pairs(q, still[0])}, keys in pairs {_pairs(k, still[1])}".replace(
            "queries are turned in pairs", "rotary layouts are mixed: queries in pairs"
        )
    if q and k and q_angle is not None and k_angle is not None and not torch.allclose(q_angle, k_angle, atol=1e-6):
        return "queries and keys are turned by different angles"
    return ""


def _product(found: list[Operation]) -> tuple[Tensor, Tensor] | None:
    """Queries and keys [..., N, K] of the first product of two of them."""
    for one in found:
        if one.name not in ("matmul", "bmm", "einsum", "scaled_dot_product_attention", "baddbmm") or len(one.given) < 2:
            continue
        q, k = one.given[-2:] if one.name == "baddbmm" else one.given[:2]
        if q.ndim < 3 or k.ndim < 3:
            continue
        if q.shape[-1] == k.shape[-1] and (one.name == "scaled_dot_product_attention" or q.shape[-1] != k.shape[-2]):
            return q, k
        if q.shape[-1] == k.shape[-2]:
            return q, k.mT
    return None


def _layout(still: Tensor, turned: Tensor) -> tuple[str, Tensor | None]:
    """halves or neighbours, whichever pairs keep their length; and the angles of the first token."""
    if still.shape != turned.shape or still.shape[-1] % 2 or torch.equal(still, turned):
        return "", None
    for name in ("halves", "neighbours"):
        a, b = _complex(still, name), _complex(turned, name)
        if torch.allclose(a.abs(), b.abs(), rtol=1e-6, atol=1e-9):
            return name, (b * a.conj()).angle().reshape(-1, *a.shape[-2:])[0, 0]
    return "", None


def _complex(t: Tensor, name: str) -> Tensor:
    a, b = t.double().chunk(2, -1) if name == "halves" else (t.double()[..., 0::2], t.double()[..., 1::2])
    return torch.complex(a.contiguous(), b.contiguous())


def _pairs(name: str, t: Tensor) -> str:
    return f"(i, i + {t.shape[-1] // 2})" if name == "halves" else "(2i, 2i + 1)"


# ------------------------------------------------------------------------------------------------------------------- cache


def _cache(run: Pass, pair: RunPair, module: nn.Module) -> str:
    """From which piece on, and whether it is places or keys that differ."""
    found, sizes = joined(run, pair), list(pair.element["pieces"])
    original, read = pair.outputs(run)
    n = sum(sizes)
    wrong = [i for name, t in original.items() if name in read for i in _changed(t, read[name], n)]
    if not wrong:
        return ""
    piece = next(p for p in range(len(sizes)) if sum(sizes[: p + 1]) > min(wrong))
    begins = f"it begins with token {min(wrong)}, in piece {piece + 1} of {len(sizes)}"
    path = next((p for p, m in run.model.named_modules() if m is module), "")
    counted_model = _counted(found, path, sizes) if found is not None else ""
    why = counted_model or _kept(run, pair, module, sizes)
    return f"{begins}: {why}" if why else begins


def _counted(found: Any, path: str, sizes: list[int]) -> str:
    """How far the places that a module makes are off, where whole numbers are what it makes."""
    for i, event in enumerate(found.whole):
        if event.module != path or not event.leaves:
            continue
        for name, t in event.named.items():
            made = joins(t, [part[i].named[name] for part in found.parts if name in part[i].named], sizes)
            if made is None or made.shape != t.shape or not bool((t == t.round()).all()):
                continue
            off = (made - t)[made != t].unique()
            if off.numel() == 1:
                return f"its places are {abs(int(off))} too {'small' if off < 0 else 'large'}"
            if off.numel():
                return f"its places are wrong, by {int(off.min())} to {int(off.max())}"
    return ""


def _kept(run: Pass, pair: RunPair, module: nn.Module, sizes: list[int]) -> str:
    """Whether queries or keys of the last piece are other than in one pass."""
    whole = _product(operations(run, module, lambda: pair.original.to(run.dtype).call(run.counted_model)))
    last = _product(_last_call(run, pair, module))
    if whole is None or last is None:
        return ""
    (q, k), (q_read, k_read) = whole, last
    size = sizes[-1]
    queries = error(q[..., -size:, :], q_read) < RIGHT if q[..., -size:, :].shape == q_read.shape else None
    keys = error(k, k_read) < RIGHT if k.shape == k_read.shape else None
    fresh = error(k[..., -size:, :], k_read[..., -size:, :]) < RIGHT
    if keys is None:
        count, wanted = k_read.shape[-2], k.shape[-2]
        return f"{count} keys are seen instead of {wanted}" if count != wanted else ""
    if queries is False and not fresh:
        return "queries and new keys have other places than in one pass"
    if queries and not keys:
        order = all(bool(torch.isclose(k_read, row[..., None, :], atol=1e-9).all(-1).any(-1).all()) for row in k.unbind(-2))
        return (
            "the keys are those of one pass, but in another order" if order else "the keys that were kept are not those of one pass"
        )
    return "queries and keys are those of one pass, what is hidden is not" if queries and keys else ""


def _last_call(run: Pass, pair: RunPair, module: nn.Module) -> list[Operation]:
    """Operations inside the module, the last time that it is called while the text is read in pieces."""
    calls: list[Called] = []
    with hooked([("", module)], before=lambda _, __, args, kwargs: calls.append((args, kwargs))):
        pair.outputs(run)
    args, kwargs = calls[-1]
    return operations(run, module, lambda: run.part(module)(*args, **kwargs))


# --------------------------------------------------------------------------------------------------------- a module, alone


def _arguments(run: Pass, module: nn.Module, inputs: Inputs) -> Called:
    """What the module is called with, the first time."""
    calls: list[Called] = []
    with hooked([("", module)], before=lambda _, __, args, kwargs: calls.append((args, kwargs))):
        run.outputs_of(lambda model: inputs.to(run.dtype).call(model))
    return calls[0]


def _called(run: Pass, module: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    args, kwargs = _arguments(run, module, inputs)
    return {n: t for n, t in {**{str(i): a for i, a in enumerate(args)}, **kwargs}.items() if isinstance(t, Tensor)}


def _with(given: Called, change: Mapping[str, Callable[[Tensor], Tensor]]) -> Called:
    """Arguments with some of them changed."""
    args, kwargs = given
    return (
        tuple(change[str(i)](a) if str(i) in change else a for i, a in enumerate(args)),
        {n: change[n](a) if n in change else a for n, a in kwargs.items()},
    )


def _answer(run: Pass, module: nn.Module, given: Called) -> Tensor:
    """The first tensor of floating numbers that a module makes."""
    with run.within():
        made = flat(run.part(module)(*given[0], **given[1]))
    return next(t for t in made.values() if t.is_floating_point())


__all__ = ["cause", "reaches"]
