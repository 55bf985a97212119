"""Cache exactness: running token by token with a cache gives the outputs of one pass over all tokens.

Supported caches: `caches()` of our models, `past_key_values` of transformers and, for models with a state instead of keys,
`cache_params` or `state`. For any other module there is nothing to compare, and the row says so.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from equiscope.audit.inputs.lengths import LENGTH_BUDGETS, length_ladder, resized
from equiscope.audit.inputs.padded import ragged
from equiscope.audit.inputs.padding_mask import mask_name, pads_left
from equiscope.audit.inputs.variations import sequence
from equiscope.audit.statements.pairs import RunPair, SameRows
from equiscope.audit.statements.sequences.causal import claims_causal
from equiscope.audit.statements.statement import Statement
from equiscope.audit.subject import ModelError, Pass, Subject, arguments, first_tokens
from equiscope.audit.subject.outputs import SelectedOutputs
from equiscope.errors import counted
from equiscope.record.audit import Claimed
from equiscope.symmetry import Inputs

MAX_SINGLE = 8  # tokens that are run one at a time
LENGTHS = 2  # longer inputs that are run with a cache
CACHE_ARGUMENTS = ("past_key_values", "cache_params", "state")  # of transformers' models; the output has the same name


class CacheExact(Statement):
    """Outputs computed in pieces with a cache equal those of one pass."""

    name = "cache"
    summary = "running token by token with a cache gives the outputs of one pass"
    expected = True
    of_decoder = True

    def missing(self, subject: Subject) -> str:
        if _cached_run(subject.model) is None:
            return f"the model keeps no cache of a supported kind (caches(), {', '.join(CACHE_ARGUMENTS)})"
        if not subject.inputs.has("ids", "features", "tokens"):
            return "the inputs have no ordered tokens"
        if _is_encoder(subject):
            return f"{type(subject.model).__name__} is bidirectional, so it keeps no cache"
        return "" if (subject.inputs.length or 0) > 2 else "there are too few tokens"

    def claimed(self, subject: Subject) -> tuple[Claimed, str]:
        causal, reason = claims_causal(subject)
        return ("yes", "it generates token by token") if causal == "yes" else (causal, reason)

    def pairs(self, run: Pass, count: int, generator: Generator) -> list[RunPair]:
        n = run.inputs.length or 0
        third = max(n // 3, 1)
        single_count = min(n, MAX_SINGLE if run.high_precision and not run.random else MAX_SINGLE // 3)
        plans = [
            (
                [1] * single_count + [n - single_count],
                "one token at a time" + f" up to {single_count}, then the rest" * (single_count < n),
            ),
            ([third, n - third], f"{counted(third, 'token')}, then the rest"),
            ([n - 1, 1], "all but the last, then the last"),
            (
                [third, *[1] * min(n - third, MAX_SINGLE // 4), max(n - third - MAX_SINGLE // 4, 0)],
                f"{third} tokens, then one at a time",
            ),
        ]
        chosen = enumerate(plans[: max(count // 2, 1)])
        pairs = [read_in_pieces(run, run.inputs, sizes, text, counts=i % 2 == 0) for i, (sizes, text) in chosen]
        return pairs + (self._longer(run, count) if run.high_precision and not run.random else []) + self._ragged(run, generator)

    def _ragged(self, run: Pass, generator: Generator) -> list[RunPair]:
        """Two sequences of different lengths, padded on the left, as in batched generation."""
        n = run.inputs.length or 0
        if n < 5 or run.inputs.batch is None or not run.inputs.has("ids") or mask_name(run.subject) not in run.inputs.values:
            return []
        if not pads_left(run.subject):
            return []
        batch = ragged(run.subject, sequence(run.inputs, 0), (n, n // 2 + 1), True, generator).batch
        batch_axes, sizes = run.subject.batch_axes(run, sequence(batch, 0), batch), [n - 2, 1, 1]
        pairs = []
        for row, start in enumerate((0, n - n // 2 - 1)):
            rows, text = (
                slice(start, None),
                f"{counted(n - 2, 'token')} of two sequences, one padded on the left, then one at a time",
            )
            relation = SameRows(rows, rows, (n, n), (row, row), batch_axes, (2, 2))
            pairs.append(replace(read_in_pieces(run, batch, sizes, text), relation=relation))
        return pairs

    def _longer(self, run: Pass, count: int) -> list[RunPair]:
        """Longer inputs, run up to the end of a block or window of the model, and one token at a time across it."""
        budget = LENGTH_BUDGETS["quick" if count < 8 else "default"]
        if run.subject.length_ladder is None:
            run.subject.length_ladder = length_ladder(run.subject, run, budget)
        pairs: list[RunPair] = []
        for length in run.subject.length_ladder.lengths:
            text = resized(run.inputs, length, Generator().manual_seed(run.subject.seed + 23))
            if length <= (run.inputs.length or 0) or text is None or len(pairs) >= LENGTHS or not _accepted(run, text):
                continue
            inner = [c for c in run.subject.length_ladder.boundaries if 1 < c < length - 1]
            end = max(inner, default=length - 3)
            rest = length - end - 1  # the last two alone too: a cache may drop a block late
            sizes = [end - 1, 1, 1, *([rest - 2, 1, 1] if rest > 2 else [rest])]
            pairs.append(read_in_pieces(run, text, sizes, f"{end - 1} of {length} tokens, then two one at a time, then the rest"))
        return pairs[::-1]  # the last outputs are cached

    def simpler(self, run: Pass, pair: RunPair) -> Iterator[RunPair]:
        n, counts = run.inputs.length or 0, bool(pair.element.get("counts"))
        for split in range(1, n):
            rest = n - split - 1
            label = f"{counted(split, 'token')}, then one"
            description = f"{label}, then the other {rest} at once" if rest else label
            yield read_in_pieces(run, run.inputs, [split, 1, rest] if rest else [split, 1], description, counts)
        for split in range(1, n - 1):
            yield read_in_pieces(
                run, run.inputs, [split, n - split], f"{counted(split, 'token')}, then the other {n - split} at once", counts
            )


def _accepted(run: Pass, inputs: Inputs) -> bool:
    try:
        run(inputs)
    except ModelError:
        return False
    return True


def read_in_pieces(run: Pass, inputs: Inputs, sizes: list[int], text: str, counts: bool = False) -> RunPair:
    """One pass, and the same in pieces with a cache. counts: the model counts the positions that the call does not give."""
    n, cached_run = inputs.length or 0, _cached_run(run.model)
    assert cached_run is not None
    sizes = [s for s in sizes if s]
    completed_names = inputs.extra.get("completed", ()) if counts else ()
    values = {name: v for name, v in inputs.values.items() if name not in completed_names}
    reduced = replace(inputs, values=values) if completed_names else inputs

    dtype, subject = run.dtype, run.subject  # not the run itself, whose copy of the model a sample would keep

    def run_cached(model: nn.Module) -> Any:
        return cached_run(model, reduced.to(dtype), sizes, subject)

    description = f"run {text}, with a cache" + ", positions counted by the model" * bool(completed_names)
    element = {"pieces": sizes} | ({"counts": True} if completed_names else {})
    return RunPair(reduced, run_cached, SameRows(slice(None), slice(None), (n, n)), description, element)


def _is_encoder(subject: Subject) -> bool:
    """Whether it is an encoder of transformers, whose arguments name a cache that only its decoder uses."""
    config = getattr(subject.model, "config", None)
    if config is None or callable(getattr(subject.model, "caches", None)) or getattr(config, "is_encoder_decoder", False):
        return False
    return getattr(config, "is_decoder", None) is False and claims_causal(subject)[0] != "yes"


CachedRun = Callable[[nn.Module, Inputs, list[int], Subject], dict[str, Tensor]]


def _cached_run(model: nn.Module) -> CachedRun | None:
    if callable(getattr(model, "caches", None)):
        return _run_ours
    names = arguments(model)
    if any(name in names for name in CACHE_ARGUMENTS) and ("use_cache" in names or hasattr(model, "config")):
        return run_transformers
    return None


def _run_ours(model: Any, inputs: Inputs, sizes: list[int], subject: Subject) -> dict[str, Tensor]:
    caches = model.caches()
    (name, given), *_ = inputs.of("tokens", "ids", "features").items()
    tokens = given if inputs.kinds[name] == "tokens" else model.tokens(given)
    rest = {n: v for n, v in inputs.values.items() if n != name}
    results, start = [], 0
    for size in sizes:
        part = _slice(tokens, start, start + size)
        results.append(model(part, caches=caches, **rest))
        start += size
    return {"": torch.cat(results, -2)} if results[0].ndim == tokens.x.ndim else {"": results[-1]}


def _slice(tokens: Any, start: int, end: int) -> Any:
    prefix = first_tokens(tokens, end)
    flags = {n: f[..., start:] for n in ("document", "valid") if (f := getattr(prefix, n)) is not None}
    return replace(
        prefix,
        x=prefix.x[..., start:, :],
        positions=prefix.positions[..., start:, :],
        order=prefix.order[..., start:],
        counted=None,
        **flags,
    )


def _part(inputs: Inputs, start: int, end: int) -> dict[str, Any]:
    """The arguments for the tokens from `start` to `end`; a mask, and lengths in place of one, are of all tokens so far."""
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
        elif kind == "lengths":
            part[name] = value.clamp(max=end)
        else:
            part[name] = value
    return part


def run_transformers(
    model: Any, inputs: Inputs, sizes: list[int], subject: Subject, cache: Any = None, rewound: Inputs | None = None
) -> dict[str, Tensor]:
    """transformers: the mask grows with the tokens so far, other arguments come in pieces.

    cache    to write into; by default the one that the model returns
    rewound  other tokens that are read after the first piece, and then removed from the cache by `crop`
    """
    cache_argument = next(name for name in CACHE_ARGUMENTS if name in arguments(subject.model))
    past, own_cache, results, start = cache, cache, list[dict[str, Tensor]](), 0
    for size in sizes:
        end = start + size
        part = _part(inputs, start, end)
        output = model(**part, **{cache_argument: past}, use_cache=True)
        past = _returned(output, cache_argument) if own_cache is None else own_cache
        if past is None:  # some return none and write into the cache that is passed
            past = own_cache = _empty_cache(model, cache_argument)
            output = model(**part, **{cache_argument: past}, use_cache=True)
        results.append(subject.select_outputs(output))
        if rewound is not None and start == 0:
            model(**_part(rewound, end, inputs.length or end), **{cache_argument: past}, use_cache=True)
            past.crop(end - (inputs.length or end))  # negative: the number of tokens to remove
        start = end
    rows, joined = subject.axes(subject.in_dtype(subject.dtype)), SelectedOutputs()
    for name in results[0]:
        parts, axes = [m[name] for m in results], rows.get(name, ())
        if not axes:
            raise ModelError(f"the output {name!r} has no axis of tokens: shapes {[tuple(p.shape) for p in parts]}")
        joined[name] = torch.cat(parts, axes[0])
        if joined[name].shape[axes[0]] != inputs.length:
            raise ModelError(
                f"with a cache, {name or 'the output'} has {joined[name].shape[axes[0]]} rows for {inputs.length} tokens"
            )
    return joined


def _returned(output: Any, name: str) -> Any:
    """The cache that a model returns, as an attribute of its output or as a key; None where it returns none."""
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def _empty_cache(model: Any, cache_argument: str) -> Any:
    """A cache as generate() of transformers makes it."""
    library, config = sys.modules.get("transformers"), getattr(model, "config", None)
    if library is None or config is None or cache_argument != "past_key_values":
        raise ModelError(f"with use_cache=True the output has no {cache_argument}, as an attribute or a key")
    if getattr(config, "is_encoder_decoder", False):
        return library.EncoderDecoderCache(library.DynamicCache(), library.DynamicCache())
    return library.DynamicCache(config=config)
