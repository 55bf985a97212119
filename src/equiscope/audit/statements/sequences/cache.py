"""Cache exactness: reading token after token with a cache gives what one pass over all gives.

Known ways of keeping what was read: our models' `caches()`, transformers' `past_key_values` or, where a model keeps a state instead
of keys, `cache_params` or `state`. For any other module there is nothing to compare, and the row says so.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from equiscope.audit.inputs.lengths import LENGTH_BUDGETS, length_ladder, resized
from equiscope.audit.inputs.variations import sequence
from equiscope.audit.statements.pairs import RunPair, SameRows
from equiscope.audit.statements.sequences.causal import says_causal
from equiscope.audit.statements.sequences.padding import mask_name, ragged
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import Crashed, Pass, Subject, arguments, first_tokens
from equiscope.audit.subject.outputs import Picked
from equiscope.errors import InputError
from equiscope.record.audit import Claimed
from equiscope.symmetry import Inputs

SINGLE = 8  # tokens that are read one at a time
LENGTHS = 2  # longer texts that are read with a cache
KEPT = ("past_key_values", "cache_params", "state")  # what transformers' models take back, by the same name that they give


class CacheExact(Statement):
    """Outputs read in pieces with a cache equal those of one pass."""

    name = "cache"
    summary = "reading token after token with a cache gives what one pass gives"
    expected = True
    of_decoder = True

    def missing(self, subject: Subject) -> str:
        if _way(subject.model) is None:
            return f"the model keeps no cache that is known here (caches(), {', '.join(KEPT)})"
        if not subject.inputs.has("ids", "features", "tokens"):
            return "there are no tokens in an order"
        if _encodes(subject):
            return f"{type(subject.model).__name__} reads all tokens at once, so it keeps no cache"
        return "" if (subject.inputs.length or 0) > 2 else "there are too few tokens"

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        causal, reason = says_causal(subject)
        return ("yes", "a model that writes token after token has to") if causal == "yes" else (causal, reason)

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        n = run.inputs.length or 0
        third = max(n // 3, 1)
        some = min(n, SINGLE if run.high_precision and not run.random else SINGLE // 3)
        ways = [
            ([1] * some + [n - some], "one token at a time" + f" up to {some}, then the rest" * (some < n)),
            ([third, n - third], f"{third} tokens, then the rest"),
            ([n - 1, 1], "all but the last, then the last"),
            ([third, *[1] * min(n - third, SINGLE // 4), max(n - third - SINGLE // 4, 0)], f"{third} tokens, then one at a time"),
        ]
        chosen = enumerate(ways[: max(count // 2, 1)])
        made = [pieces(run, run.inputs, sizes, text, counts=i % 2 == 0) for i, (sizes, text) in chosen]
        return made + (self._longer(run, count) if run.high_precision and not run.random else []) + self._ragged(run, generator)

    def _ragged(self, run: Pass, generator: Generator) -> list[RunPair]:
        """Two texts of unlike lengths, padded on the left, as they are read when answers are written to both."""
        n = run.inputs.length or 0
        if n < 5 or run.inputs.batch is None or not run.inputs.has("ids") or mask_name(run.subject) not in run.inputs.values:
            return []
        batch = ragged(run.subject, sequence(run.inputs, 0), (n, n // 2 + 1), True, generator).batch
        across, sizes = run.subject.batch_axes(run, sequence(batch, 0), batch), [n - 2, 1, 1]
        made = []
        for row, start in enumerate((0, n - n // 2 - 1)):
            words, text = slice(start, None), f"{n - 2} tokens of two texts, one padded on the left, then one at a time"
            relation = SameRows(words, words, (n, n), (row, row), across, (2, 2))
            made.append(replace(pieces(run, batch, sizes, text), relation=relation))
        return made

    def _longer(self, run: Pass, count: int) -> list[RunPair]:
        """Longer texts, read up to where a block or window of the model ends, and one token at a time across its end."""
        budget = LENGTH_BUDGETS["quick" if count < 8 else "default"]
        if run.subject.length_ladder is None:
            run.subject.length_ladder = length_ladder(run.subject, run, budget)
        made: list[RunPair] = []
        for length in run.subject.length_ladder.lengths:
            text = resized(run.inputs, length, Generator().manual_seed(run.subject.seed + 23))
            if length <= (run.inputs.length or 0) or text is None or len(made) >= LENGTHS or not _taken(run, text):
                continue
            inner = [c for c in run.subject.length_ladder.boundaries if 1 < c < length - 1]
            end = max(inner, default=length - 3)
            rest = length - end - 1  # the last two alone too: a cache that forgets a block late is whole before that
            sizes = [end - 1, 1, 1, *([rest - 2, 1, 1] if rest > 2 else [rest])]
            made.append(pieces(run, text, sizes, f"{end - 1} of {length} tokens, then two one at a time, then the rest"))
        return made[::-1]  # what was read last is remembered

    def simpler(self, run: Pass, pair: RunPair):  # type: ignore[no-untyped-def]
        n, counts = run.inputs.length or 0, bool(pair.element.get("counts"))
        for at in range(1, n):
            rest = n - at - 1
            words = f"{at} token{'s' * (at > 1)}, then one"
            told = f"{words}, then the other {rest} at once" if rest else words
            yield pieces(run, run.inputs, [at, 1, rest] if rest else [at, 1], told, counts)
        for at in range(1, n - 1):
            yield pieces(run, run.inputs, [at, n - at], f"{at} token{'s' * (at > 1)}, then the other {n - at} at once", counts)


def _taken(run: Pass, inputs: Inputs) -> bool:
    try:
        run(inputs)
    except Crashed:
        return False
    return True


def pieces(run: Pass, inputs: Inputs, sizes: list[int], text: str, counts: bool = False) -> RunPair:
    """One pass, and the same in pieces with a cache. counts: the places that nobody gave are left to the model, as in use."""
    n, way = inputs.length or 0, _way(run.model)
    assert way is not None
    sizes = [s for s in sizes if s]
    ours = inputs.extra.get("completed", ()) if counts else ()
    values = {name: v for name, v in inputs.values.items() if name not in ours}
    left = replace(inputs, values=values) if ours else inputs

    dtype, subject = run.dtype, run.subject  # not the run itself, whose copy of the model a sample would keep

    def read(model: nn.Module) -> Any:
        return way(model, left.to(dtype), sizes, subject)

    told = f"read {text}, with a cache" + ", places counted by the model" * bool(ours)
    element = {"pieces": sizes} | ({"counts": True} if ours else {})
    return RunPair(left, read, SameRows(slice(None), slice(None), (n, n)), told, element)


def _encodes(subject: Subject) -> bool:
    """Whether it is an encoder of transformers, whose arguments speak of a cache that only its decoder keeps."""
    config = getattr(subject.model, "config", None)
    if config is None or callable(getattr(subject.model, "caches", None)) or getattr(config, "is_encoder_decoder", False):
        return False
    return getattr(config, "is_decoder", None) is False and says_causal(subject)[0] != "yes"


Way = Callable[[nn.Module, Inputs, list[int], Subject], dict[str, Tensor]]


def _refused(model: nn.Module) -> str:
    """Why one of our models keeps no cache; empty where it does."""
    try:
        model.caches() if callable(getattr(model, "caches", None)) else None  # type: ignore[operator]
    except InputError as error:
        return str(error)
    return ""


def _way(model: nn.Module) -> Way | None:
    if callable(getattr(model, "caches", None)):
        return _ours
    taken = arguments(model)
    if any(name in taken for name in KEPT) and ("use_cache" in taken or hasattr(model, "config")):
        return _theirs
    return None


def _ours(model: Any, inputs: Inputs, sizes: list[int], subject: Subject) -> dict[str, Tensor]:
    caches = model.caches()
    (name, given), *_ = inputs.of("tokens", "ids", "features").items()
    tokens = given if inputs.kinds[name] == "tokens" else model.tokens(given)
    rest = {n: v for n, v in inputs.values.items() if n != name}
    made, start = [], 0
    for size in sizes:
        part = _slice(tokens, start, start + size)
        made.append(model(part, caches=caches, **rest))
        start += size
    return {"": torch.cat(made, -2)} if made[0].ndim == tokens.x.ndim else {"": made[-1]}


def _slice(tokens: Any, start: int, end: int) -> Any:
    upto = first_tokens(tokens, end)
    flags = {n: f[..., start:] for n in ("document", "valid") if (f := getattr(upto, n)) is not None}
    return replace(
        upto,
        x=upto.x[..., start:, :],
        positions=upto.positions[..., start:, :],
        order=upto.order[..., start:],
        counted=None,
        **flags,
    )


def _theirs(model: nn.Module, inputs: Inputs, sizes: list[int], subject: Subject) -> dict[str, Tensor]:
    """transformers: the mask grows with what was read, the rest comes in pieces."""
    kept = next(name for name in KEPT if name in arguments(model))
    past, held, made, start = None, None, list[dict[str, Tensor]](), 0
    for size in sizes:
        end = start + size
        part: dict[str, Any] = {}
        for name, value in inputs.values.items():
            kind = inputs.kinds[name]
            if (
                name in ("attention_mask", "decoder_attention_mask")
                and kind != "other"
                and isinstance(value, Tensor)
                and value.ndim == 2
            ):
                part[name] = value[:, :end]
            elif kind in ("ids", "flags", "position_ids") and isinstance(value, Tensor):
                part[name] = value[..., start:end]
            elif kind == "features":
                part[name] = value[..., start:end, :]
            else:
                part[name] = value
        output = model(**part, **{kept: past}, use_cache=True)
        past = getattr(output, kept, None) if held is None else held
        if past is None:  # some give none back, and write into the one that they were given
            past = held = _empty(model, kept)
            output = model(**part, **{kept: past}, use_cache=True)
        made.append(subject.chosen(output))
        start = end
    rows, joined = subject.axes(subject.in_dtype(subject.dtype)), Picked()
    for name in made[0]:
        parts, axes = [m[name] for m in made], rows.get(name, ())
        if not axes:
            raise Crashed(f"the output {name!r} has no axis of tokens: shapes {[tuple(p.shape) for p in parts]}")
        joined[name] = torch.cat(parts, axes[0])
        if joined[name].shape[axes[0]] != inputs.length:
            raise Crashed(f"with a cache, {name or 'the output'} has {joined[name].shape[axes[0]]} rows for {inputs.length} tokens")
    return joined


def _empty(model: Any, kept: str) -> Any:
    """A cache as generate() of transformers makes it."""
    library = sys.modules.get("transformers")
    if library is None or kept != "past_key_values":
        raise Crashed(f"with use_cache=True the model gives no {kept} back")
    if getattr(model.config, "is_encoder_decoder", False):
        return library.EncoderDecoderCache(library.DynamicCache(), library.DynamicCache())
    return library.DynamicCache(config=model.config)
