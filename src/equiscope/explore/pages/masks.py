"""The page of masks: one sentence and one small model under every mask.

The model is built as any other; its numbers follow from the seed, its words' numbers from their letters. Weights are traced, so
that the page can run them again under any mask; losses, influence and decoding are measured here, in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from typing import Any, cast

import msgspec
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equiscope import blocks
from equiscope.attention import Blocks, Cache, Causal, Dilated, Everything, Mask, Prefix, Window
from equiscope.errors import InputError, counted
from equiscope.explore.page import PLAIN, number, table
from equiscope.explore.sentence.exhibit import numbers
from equiscope.models import Attention, Block, FeedForward, Model, Spec, build, windowed
from equiscope.positions import Rope
from equiscope.program import watch
from equiscope.program.hooks import hooked
from equiscope.program.lower import lowered
from equiscope.record import Masks, ProgramRecord, pack, unpack
from equiscope.record.array import Array
from equiscope.record.masks import DecodingStep, Knob, Pattern, Rule, TrainingExample
from equiscope.tokens import Tokens, spelled, vocabulary, words

LIMIT = 24  # words: a grid of more is no longer read cell by cell
LAYERS, WIDTH, HEADS = 4, 8, 2
BEGIN = "‹begin›"
EMPTY = 4  # padding positions before the words, at most


@dataclass(frozen=True)
class _RuleOffer:
    """A rule before it is traced. knob: label, lowest, highest and first number, what it sets, the operation that takes it."""

    name: str
    title: str
    summary: str
    seen: str
    hidden: str
    mask: Callable[[int], Mask] = lambda _: Everything()
    knob: tuple[str, int, int, int, str] | None = None


def masks(sentence: str, seed: int) -> Masks:
    """Trace and measure. Raises InputError for a sentence without words, or with more than LIMIT."""
    names = words(sentence)
    if len(names) > LIMIT:
        raise InputError(
            f"The page of masks draws every word against every word and takes {LIMIT} words, but the sentence has {len(names)}. "
            "Give fewer words."
        )
    known = vocabulary([BEGIN, *names])
    ids = torch.tensor([known[name] for name in names])
    decoder = model(list(known), seed)
    pool: dict[str, Array] = {}
    rules = [_rule(offer, decoder, ids, pool) for offer in _offers(len(names))]
    cached, whole = _multiply_adds(decoder, ids)
    return Masks(
        title=f"Masks: {' '.join(names)}", summary=_summary(), words=names, bos=BEGIN, model=_model_text(seed),
        parameters=sum(p.numel() for p in decoder.parameters()), heads=HEADS, seed=seed, rules=rules,
        patterns=[p for p in PATTERNS if {*p.rules} <= {r.name for r in rules}], pool=pool,
        examples=training_examples(decoder, [known[BEGIN], *ids.tolist()], names),
        influence=pack(influence(list(known), ids, seed).numpy()),
        decoding=[*(decoded(windowed(decoder, size), ids) for size in range(1, len(names))), decoded(decoder, ids)],
        cached_multiply_adds=cached, full_multiply_adds=whole, token_multiply_adds=_row(decoder.spec),
        pair_multiply_adds=LAYERS * 2 * WIDTH,
    )  # fmt: skip


def plain(decoder: Masks) -> str:
    """Markup for a browser without JavaScript: what was measured, as tables."""
    words, reach = decoder.words, unpack(decoder.influence)
    examples = [
        [
            " ".join([decoder.bos, *words][: one.prefix_length]),
            one.next,
            number(one.full_pass_loss),
            number(abs(one.full_pass_loss - one.own_pass_loss)),
        ]
        for one in decoder.examples
    ]
    heard = [
        [str(size), *(str(int((reach[layers, size - 1, 0] > 0).sum())) for layers in range(LAYERS))]
        for size in range(1, len(words) + 1)
    ]
    steps = [
        [
            words[step],
            " ".join(words[i] for i in turn.cached_positions),
            str(decoder.cached_multiply_adds[len(turn.cached_positions)]),
            str(decoder.full_multiply_adds[step]),
            number(turn.difference),
        ]
        for step, turn in enumerate(decoder.decoding[-1])
    ]
    counts = [counted(n, "layer") for n in range(1, LAYERS + 1)]
    columns = ["reads", "from the cache", "multiply-adds", "without the cache", "difference"]
    return (
        f"<h1>{escape(decoder.title)}</h1>\n<p>{escape(decoder.summary)}</p>\n<p>{PLAIN}</p>\n"
        + table("The training examples of one sentence", ["given", "next", "loss", "difference to a pass of its own"], examples)
        + table("How many words reach the last one", ["window", *counts], heard)
        + table("Decoding with a KV cache", columns, steps)
    )


def model(names: list[str], seed: int, layers: int = LAYERS) -> Model:
    """A small decoder in float64: a layer has the same numbers however many there are."""
    attention = Attention(heads=HEADS, position=Rope(), causal=True, backend="eager")
    block = Block(attention=attention, feedforward=FeedForward(2 * WIDTH, "relu"))
    decoder = build(Spec(width=WIDTH, vocabulary=len(names), layers=layers, block=block, outputs=len(names))).double().eval()
    with torch.no_grad():
        for name, parameter in decoder.named_parameters():
            if name == "embedding.weight":
                parameter.copy_(spelled(names, WIDTH, seed))
            elif parameter.ndim > 1:
                parameter.copy_(numbers(name, tuple(parameter.shape), WIDTH, seed + 1))
    return decoder


def _model_text(seed: int) -> str:
    return f"a decoder of {LAYERS} layers, {WIDTH} wide, {HEADS} heads, RoPE; its weights are random numbers of seed {seed}"


def _summary() -> str:
    return (
        "An attention mask says which keys a query may attend to. It makes one sentence into many training examples, it limits the "
        "receptive field, and it lets a decoder cache keys and values instead of recomputing them."
    )


# --- which pairs may attend --------------------------------------------------------------------------------------------
def _offers(count: int) -> list[_RuleOffer]:
    """The rules for a sentence of `count` words."""
    far = max(count - 1, 1)
    decoder = [
        _RuleOffer("full", "full", "Every word may attend to every word.", "no pair is masked", ""),
        _RuleOffer(
            "causal", "causal", "A word may attend to itself and to earlier words.", "{key} does not come after {query}",
            "{key} comes after {query}", lambda _: Causal(),
        ),
        _RuleOffer(
            "window", "window", "A word may attend to words less than so many away, on both sides.",
            "{key} is less than {n} away from {query}", "{key} is {n} or more away from {query}", Window,
            ("window", 1, count, min(2, count), "below"),
        ),
        _RuleOffer(
            "dilated", "dilated", "A word may attend to every second one, or third one, counted from itself.",
            "the distance is a multiple of {n}", "the distance is no multiple of {n}", Dilated,
            ("step", 1, far, min(2, far), "modulo"),
        ),
        _RuleOffer(
            "blocks", "blocks", "The sentence is split into blocks; a word may attend within its own.",
            "both are in one block of {n}", "they are in different blocks of {n}", Blocks,
            ("block", 1, count, min(2, count), "block"),
        ),
        _RuleOffer(
            "prefix", "prefix", "Every word may attend to the first words, and to no others.",
            "{key} is one of the first {n}", "{key} is not one of the first {n}", Prefix, ("prefix", 0, count, 1, "below"),
        ),
        _RuleOffer(
            "texts", "packed texts", "Two texts are packed into one row; a word may attend within its own.",
            "both belong to one text", "{key} belongs to another text: the second text begins at position {n}",
            knob=("first text", 1, count - 1, max(count // 2, 1), "document"),
        ),
        _RuleOffer(
            "padded", "padding", "No word may attend to the padding before the sentence.",
            "{key} is a word", "{key} is padding", knob=("padding", 0, EMPTY, 1, "valid"),
        ),
    ]  # fmt: skip
    return [offer for offer in decoder if offer.knob is None or offer.knob[1] <= offer.knob[2]]


PATTERNS = [
    Pattern(name="full", title="full", summary="An encoder: every word may attend to every word.", rules=["full"]),
    Pattern(name="causal", title="causal", summary="A decoder: a word attends to itself and earlier words.", rules=["causal"]),
    Pattern(name="window", title="window", summary="A word may attend to near words, on both sides.", rules=["window"]),
    Pattern(
        name="sliding", title="sliding window", summary="Only the nearest earlier words, as in decoders for long texts.",
        rules=["causal", "window"],
    ),
    Pattern(
        name="dilated", title="dilated", summary="Earlier words, with gaps: as many keys reach further.",
        rules=["causal", "dilated"],
    ),
    Pattern(name="blocks", title="blocks", summary="Blocks of words; no word attends outside its own block.", rules=["blocks"]),
    Pattern(
        name="prefix", title="prefix", summary="A prompt that every word may attend to, and an answer written word by word.",
        rules=["causal", "prefix"], join="or",
    ),
    Pattern(
        name="packed", title="two texts packed", summary="Two texts in one row that do not attend to each other.",
        rules=["causal", "texts"],
    ),
    Pattern(
        name="padded", title="padded left",
        summary="Padding before a short sentence, so that it ends where a longer one does.",
        rules=["causal", "padded"],
    ),
]  # fmt: skip


def _rule(offer: _RuleOffer, decoder: Model, ids: Tensor, pool: dict[str, Array]) -> Rule:
    label, low, high, start, takes = offer.knob or ("", 0, 0, 0, "")
    tokens = decoder.tokens(ids)
    if takes == "document":
        tokens = replace(tokens, document=torch.arange(len(ids)) // max(start, 1))
    if takes == "valid":
        tokens = replace(tokens, valid=torch.ones(len(ids), dtype=torch.bool))
    program = _recorded(decoder, offer.mask(max(start, 1)), tokens, pool)
    hiding = next((step for step in program.steps if step.op == "mask"), None)
    knob: Knob | None = None
    if takes in ("document", "valid"):
        knob = Knob(label=label, low=low, high=high, start=start, sets="document" if takes == "document" else "valid")
    elif takes:
        step = next(s for s in program.steps if s.op == takes)
        knob = Knob(label=label, low=low, high=high, start=start, sets="parameter", op=takes, parameter=next(iter(step.params)))
    return Rule(
        name=offer.name, title=offer.title, summary=offer.summary, allowed_reason=offer.seen, masked_reason=offer.hidden,
        program=program,
        mask=hiding.inputs[1] if hiding else "", weights=next(s.id for s in program.steps if s.op == "softmax"), knob=knob,
    )  # fmt: skip


def _recorded(decoder: Model, mask: Mask, tokens: Tokens, pool: dict[str, Array]) -> ProgramRecord:
    """The first layer's attention under a mask; its numbers stand in the pool, by leaf."""
    attention = cast(blocks.TransformerBlock, decoder.blocks[0]).attention
    read: list[Any] = []
    with torch.no_grad(), hooked([("", attention)], before=lambda _, __, given, ___: read.extend(given[:2])):
        decoder(tokens)
    before, attention.mask = attention.mask, mask
    try:
        program = lowered(watch(attention, *read), arrays=False, title=mask.name)
    finally:
        attention.mask = before
    for leaf in program.leaves:
        assert leaf.array is not None
        assert pool.setdefault(leaf.id, leaf.array) == leaf.array
    return msgspec.structs.replace(
        program, leaves=[msgspec.structs.replace(leaf, array=None, pool=leaf.id) for leaf in program.leaves]
    )


# --- one sentence, many examples --------------------------------------------------------------------------------------
@torch.no_grad()
def training_examples(decoder: Model, ids: list[int], names: list[str]) -> list[TrainingExample]:
    """What comes after each prefix, with its loss in one pass over all of them and in a pass of its own."""
    given, wanted = torch.tensor(ids[:-1]), torch.tensor(ids[1:])
    together = cross_entropy(decoder(given), wanted, reduction="none")
    alone = [cross_entropy(decoder(given[: t + 1])[-1:], wanted[t : t + 1]) for t in range(len(given))]
    return [
        TrainingExample(prefix_length=t + 1, next=name, full_pass_loss=float(together[t]), own_pass_loss=float(alone[t]))
        for t, name in enumerate(names)
    ]  # fmt: skip


# --- how far a word sees ----------------------------------------------------------------------------------------------
def influence(names: list[str], ids: Tensor, seed: int) -> Tensor:
    """[layers, windows, layers + 1, words]: norm of d(last word's output) / d(a word after each layer)."""
    shares = torch.zeros(LAYERS, len(ids), LAYERS + 1, len(ids), dtype=torch.float64)
    for layers in range(1, LAYERS + 1):
        deep = model(names, seed, layers)
        for size in range(1, len(ids) + 1):
            shares[layers - 1, size - 1, : layers + 1] = _influence_of(windowed(deep, size), ids)
    return shares


def _influence_of(decoder: Model, ids: Tensor) -> Tensor:
    """[layers + 1, words]. One copy of the sentence for each feature of the output, so that one way back gives all rows."""
    tokens = decoder.embed(decoder.tokens(ids.expand(WIDTH, -1)))
    streams = [tokens.x.detach().requires_grad_()]
    for block in decoder.blocks:
        streams.append(block(replace(tokens, x=streams[-1]), decoder.position))
    last = streams[-1][:, -1].diagonal().sum()  # copy d asks for feature d
    return torch.stack([g.square().sum((0, -1)).sqrt() for g in torch.autograd.grad(last, streams)])


# --- word by word, with a cache ---------------------------------------------------------------------------------------
@torch.no_grad()
def decoded(decoder: Model, ids: Tensor) -> list[DecodingStep]:
    """Read one word after the other with the model's own caches, beside the full pass."""
    whole, caches, turns = decoder(ids), decoder.caches(), []
    for step in range(len(ids)):
        before = _cached_positions(caches[0])
        row = decoder(ids[step : step + 1], caches)[0]
        gone = sorted({*before, step} - {*_cached_positions(caches[0])})
        difference = float((row - whole[step]).abs().max())
        turns.append(DecodingStep(cached_positions=before, evicted_positions=gone, difference=difference))
    return turns


def _cached_positions(cache: Cache) -> list[int]:
    return [int(rank) for rank in cache.rows["order"]] if cache.rows else []


@torch.no_grad()
def _multiply_adds(decoder: Model, ids: Tensor) -> tuple[list[int], list[int]]:
    """Of a cached step that reads 1, 2, ... keys, and of a pass over 1, 2, ... tokens. Torch counts 2 for one."""
    from torch.utils.flop_counter import FlopCounterMode

    cached, whole, caches = [], [], decoder.caches()
    for step in range(len(ids)):
        with FlopCounterMode(display=False) as counter:
            decoder(ids[step : step + 1], caches)
        cached.append(counter.get_total_flops() // 2)
        with FlopCounterMode(display=False) as counter:
            decoder(ids[: step + 1])
        whole.append(counter.get_total_flops() // 2)
    return cached, whole


def _row(spec: Spec) -> int:
    """Four projections and a feed-forward in every layer, and the map to the vocabulary."""
    forward = spec.blocks[0].feedforward
    assert forward is not None
    assert forward.inner is not None
    assert spec.outputs is not None
    return spec.layers * (4 * WIDTH * WIDTH + 2 * WIDTH * forward.inner) + WIDTH * spec.outputs
