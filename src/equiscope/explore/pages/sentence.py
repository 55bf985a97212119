"""From a sentence to an explorable: one program for each scheme and setting, sharing one pool of numbers."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch
from torch import Tensor

from equiscope import record
from equiscope.errors import InputError, ShapeError, UnknownName
from equiscope.explore.sentence.clocks import facts, tour
from equiscope.explore.sentence.exhibit import PLACES, exhibit
from equiscope.positions import SCHEMES, Alibi, Deberta, Fire, Learned, Position, Rope, Sinusoidal
from equiscope.program import watch
from equiscope.program.lower import attention_roles, lowered
from equiscope.symmetry import derive
from equiscope.tokens import Tokens, spelled, words

LIMIT = 256  # words of a sentence that the number-by-number pages take
TRACED = 3  # words that programs are traced with: the page runs them again on all words
SETTINGS = ("plain", "causal", "padded", "padded-causal", "class", "class-causal")
GIVEN = {  # words of the docs' examples, width 2
    "Love": [1.0, 2.0], "conquers": [0.0, 2.0], "all": [1.0, 1.0],
    "the": [0.1, -0.3], "dog": [0.6, 0.2], "is": [-0.4, -0.1], "good": [0.2, -0.7],
}  # fmt: skip
GROUPS = {  # a place where schemes act, and the heading of their group; of several places the last one decides
    "embed": "In the tokens",
    "rotate": "In queries and keys",
    "score_bias": "In the scores, by position",
    "content_bias": "In the scores, by position and content",
}
BROKEN = "Broken on purpose"
COMPARED = ("none", "sinusoidal", "rope")  # schemes that a comparison begins with; the page offers all others
EXTRA: list[tuple[str, str, str, str, Callable[[], Position]]] = [  # name, title, summary, what it breaks, how it is made
    ("one-sine", "one sine", "A single sine of period 36: some places look the same.", "", lambda: Sinusoidal(waves="sine")),
    ("sine-cosine", "sine + cosine", "One clock hand of period 36: unique for one turn.", "", lambda: Sinusoidal(waves="pair")),
    ("rope-half", "RoPE, halves", "RoPE with columns paired as in Hugging Face: (i, i + K/2).", "", lambda: Rope(pairs="half")),
    (
        "rope-query-only", "RoPE, only queries rotated", "Broken on purpose: keys stay where they are.", "rope",
        lambda: Rope(key_angle_factor=0.0),
    ),
    (
        "rope-two-speeds", "RoPE, two speeds", "Broken on purpose: keys turn at half the speed of queries.", "rope",
        lambda: Rope(key_angle_factor=0.5),
    ),
]  # fmt: skip
BLOCK = {  # the values of the block around attention: symbol and label, by the module that makes them
    "add": ("R_1", "residual connection: input plus attention"),
    "attention_norm.rms_norm.norm": ("N_1", "normalized rows"),
    "attention_norm.rms_norm": ("H", "normalized rows times the weight"),
    "feedforward.up_proj.linear.matmul": ("HW_1", "before the bias"),
    "feedforward.relu": ("F", "hidden features after the activation"),
    "feedforward.down_proj.linear.matmul": ("FW_2", "before the bias"),
    "add~2": ("R_2", "residual connection: H plus feed-forward"),
    "feedforward_norm.rms_norm.norm": ("N_2", "normalized rows"),
    "feedforward_norm.rms_norm": ("output", "output of the layer"),
}
WORDS_OF = {  # what code of a scheme computes, in words; of other code the equation on the page says it
    "k.mT": ("", "keys, transposed"),
    "one_axis(positions).to(dtype) * omega": ("θ", "angle of each position"),
    "sinusoid(angles(": ("", "sine and cosine of each angle"),
    "x + encoding": ("", "words plus encoding"),
    "concat(x, encoding": ("", "words and encoding side by side"),
    "one_axis(positions) * step": ("", "number of each position"),
    "self.table(one_axis": ("", "row of the learned table for each position"),
    "(at_q[0] - at_k[0]).abs()": ("", "distance of query and key"),
    "slopes * distance": ("", "slope times distance"),
    "functional.concat(x, tokens.x": ("", "class token in front of the words"),
    "scores.masked_fill(": ("", "scores, −∞ where masked"),
    "torch.exp(-math.log(base)": ("ω", "frequencies, in radians a step"),
    "self.frequencies(": ("ω", "frequencies, in radians a step"),
    "2 * math.pi /": ("ω", "frequencies, in radians a step"),
}
CODE = re.compile(r"[()\[\]*@.]")
PARAGRAPH = (
    "They met at school and nobody thought it would last but Love conquers all and so they wrote each other every week "
    "until the war was over and the trains ran again"
)


@dataclass(frozen=True)
class Choice:
    """What a person asks for on the command line; heads divide the width."""

    sentence: str = "Love conquers all"
    position: str = "none"
    width: int = 2
    heads: int = 1
    causal: bool = False
    seed: int = 0


@dataclass(frozen=True)
class _SchemeOffer:
    variant: record.SchemeVariant
    make: Callable[[], Position]


def offers(heads: int, length: int = 0) -> list[_SchemeOffer]:
    """Every listed scheme for places on a line, and variants that teach: one speed, another layout, two ways to break RoPE."""
    special: dict[type[Position], Callable[[], Position]] = {
        Learned: lambda: Learned(length=max(PLACES, length) + 1),
        Deberta: lambda: Deberta(max_distance=16),  # as many as Shaw's; the paper's 128 would be the largest table of a page
        Fire: lambda: Fire(length=2.0),  # the paper's threshold is longer than a sentence, which would then notice nothing
    }
    if heads == 1:
        special[Alibi] = lambda: Alibi(slopes=(0.5,))  # the paper's slope for one head, 1/256, would not be seen on a page
    listed = [(s.name, s.title, s.summary, "", special.get(s, s)) for s in SCHEMES if s().axes in (1, None)]
    all_offers = [
        _SchemeOffer(_variant(make(), name, title, summary, switch), make) for name, title, summary, switch, make in listed + EXTRA
    ]
    groups = ["", *GROUPS.values(), BROKEN]
    return sorted(all_offers, key=lambda offer: groups.index(offer.variant.group))


def explorable(choice: Choice) -> record.Explorable:
    """Trace every scheme on the sentence.

    raises  InputError, ShapeError or UnknownName in a person's words: no words, widths that do not divide, unknown scheme
    """
    names, notes = _words(choice)
    available = offers(choice.heads, len(names))
    if choice.position not in [o.variant.name for o in available]:
        raise UnknownName("position scheme", choice.position, [o.variant.name for o in available])
    pool: dict[str, record.Array] = {}
    array_cache: dict[bytes, record.Array] = {}
    programs: list[record.SchemeProgram] = []
    schemes: list[record.SchemeVariant] = []
    for offer in available:
        try:
            programs += [_program(offer, setting, choice, names, pool, array_cache) for setting in SETTINGS]
            schemes.append(offer.variant)
        except ShapeError as error:
            if offer.variant.name == choice.position:
                raise
            notes.append(f"{offer.variant.title} is left out: {error}")
    return record.Explorable(
        title=" ".join(names), words=names, fixed_embeddings=fixed_embeddings(choice), limit=LIMIT, max_positions=PLACES,
        recorded_length=min(len(names), TRACED),
        width=choice.width, heads=choice.heads, seed=choice.seed, causal=choice.causal,
        scheme=choice.position, versus=_compared_scheme(choice.position, schemes), schemes=schemes,
        compared=_compared_schemes(choice.position, schemes), programs=programs, pool=pool,
        tour=tour(), examples=_examples(names, choice), paragraph=words(PARAGRAPH), facts=facts(), notes=notes,
    )  # fmt: skip


def rows(names: list[str], choice: Choice) -> Tensor:
    """Numbers of the words: those of the docs for the smallest page, spelled from the letters elsewhere. [N, width]."""
    spelt = spelled(names, choice.width, choice.seed)
    for i, name in enumerate(names):
        if name in (known := fixed_embeddings(choice)):
            spelt[i] = torch.tensor(known[name], dtype=spelt.dtype)
    return spelt


def fixed_embeddings(choice: Choice) -> dict[str, list[float]]:
    """Words whose numbers the docs fix, for the page size that they speak of."""
    return GIVEN if choice.width == 2 and choice.seed == 0 else {}


def _compared_scheme(scheme: str, schemes: list[record.SchemeVariant]) -> str:
    """What to compare with at first: no positions, or the oldest scheme where that is the choice itself."""
    rest = [v.name for v in schemes if v.name != scheme]
    preferred = [name for name in ("none", "sinusoidal") if name in rest]
    return (preferred or rest)[0]


def _compared_schemes(scheme: str, schemes: list[record.SchemeVariant]) -> list[str]:
    """Few enough to be read at once, the chosen one among them, in the page's order."""
    return [v.name for v in schemes if v.name in (*COMPARED, scheme)]


def _words(choice: Choice) -> tuple[list[str], list[str]]:
    if choice.heads < 1 or choice.width < 1 or choice.width % choice.heads:
        raise ShapeError(f"{choice.heads} heads do not divide a width of {choice.width}. Use --width {max(choice.heads, 1) * 2}.")
    if choice.width > 1024:
        raise InputError(f"A page with a width of {choice.width} would hold millions of numbers. Use --width 1024 or less.")
    names = words(choice.sentence)
    if len(names) <= LIMIT:
        return names, []
    note = f"The sentence has {len(names)} words; the number-by-number pages take {LIMIT}, so they show the first {LIMIT}."
    return names[:LIMIT], [note]


def _variant(scheme: Position, name: str, title: str, summary: str, switch: str) -> record.SchemeVariant:
    places = [heading for place, heading in GROUPS.items() if scheme.acts(place)]
    group = BROKEN if switch else places[-1] if places else ""
    return record.SchemeVariant(name=name, title=title, summary=summary, group=group, switch=switch)


def _program(
    offer: _SchemeOffer, setting: str, choice: Choice, names: list[str], pool: dict[str, record.Array],
    array_cache: dict[bytes, record.Array],
) -> record.SchemeProgram:  # fmt: skip
    page = exhibit(
        offer.make(), choice.width, choice.heads, choice.seed, causal="causal" in setting, class_token="class" in setting
    )  # fmt: skip
    tokens = Tokens.of(rows(names[:TRACED], choice))
    if "padded" in setting:
        tokens = replace(tokens, valid=torch.ones(len(tokens.x), dtype=torch.bool))
    program = _readable(
        lowered(watch(page, *page.inputs(tokens)), arrays=False, title=offer.variant.title, array_cache=array_cache)
    )
    return record.SchemeProgram(
        scheme=offer.variant.name, setting=setting, program=_pooled(program, offer.variant.name, pool), claims=derive(page.model),
        roles=_roles(program),
    )  # fmt: skip


def _readable(program: record.ProgramRecord) -> record.ProgramRecord:
    """The program with the literature's symbols for the block, and no code in its labels."""

    def named(value: Any) -> Any:
        found = BLOCK.get(value.id.removeprefix("model.blocks.0."))
        if found is None and CODE.search(value.label):
            symbol, label = next((known for code, known in WORDS_OF.items() if value.label.startswith(code)), ("", ""))
            constant = not value.symbol or value.symbol == "c" or value.symbol[:1].isdigit()
            found = (symbol if symbol and constant else value.symbol), label
        return value if found is None else msgspec.structs.replace(value, symbol=found[0], label=found[1])

    return msgspec.structs.replace(program, leaves=list(map(named, program.leaves)), steps=list(map(named, program.steps)))


def _pooled(program: record.ProgramRecord, scheme: str, pool: dict[str, record.Array]) -> record.ProgramRecord:
    """Put the leaves' numbers into the pool: one entry where programs hold the same, an entry of their own where not."""
    leaves = []
    for leaf in program.leaves:
        assert leaf.array is not None
        candidates = (leaf.id, f"{scheme}/{leaf.id}", *(f"{scheme}/{leaf.id}/{n}" for n in range(2, 9)))
        key = next(c for c in candidates if pool.setdefault(c, leaf.array) is leaf.array)
        leaves.append(msgspec.structs.replace(leaf, array=None, pool=key))
    return msgspec.structs.replace(
        program, leaves=leaves, named=msgspec.UNSET, notes=msgspec.UNSET
    )  # what Python asked for were checks of positions


def _roles(program: record.ProgramRecord) -> dict[str, str]:
    """Where a view finds what it asks for: what the exhibit returns by name, and the parts of its attention."""
    words = next(leaf.id for leaf in program.leaves if leaf.kind == "content")
    (look,) = attention_roles(program)
    terms = {f"split-{step.symbol[2:]}": step.id for step in program.steps if step.symbol in ("s_cp", "s_pc")}
    return terms | {
        "words": words, "queries": look.queries, "keys": look.keys, "values": look.values, "scores": look.scores,
        "weights": look.weights.id, "mixed": look.output.id, **(program.named or {}),
    }  # fmt: skip


def _examples(names: list[str], choice: Choice) -> list[record.Example]:
    fires = words("only who can prevent forest fires")
    ready = [
        record.Example(name=" ".join(names) if len(names) < 8 else "your sentence", words=names),
        record.Example(
            name="only who can prevent forest fires", words=fires, order=[1, 2, 3, 4, 5, 0],
            note="One word moves, and the sentence says something else. Without positions the mean read-out cannot tell.",
        ),
    ]  # fmt: skip
    if fixed_embeddings(choice):
        ready.append(record.Example(name="the dog is good", words=words("the dog is good")))
    return [ready[0], *(example for example in ready[1:] if example.words != names)]
