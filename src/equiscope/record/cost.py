"""Cost: multiply-adds of a transformer's parts as formulas of its sizes, and times that were measured. No torch.

A formula is a sum of products of sizes, so that the sizes determine the number: `amount` here, and the same function in the page.
"""

from collections.abc import Collection, Mapping
from math import prod
from typing import Literal

from msgspec import Struct, field

from equiscope.record.program import VERSION

Group = Literal["attention", "feed-forward", "ends"]
TimedKind = Literal["attention", "step by step", "feed-forward"]


class CostTerm(Struct, frozen=True):
    """A product: `coefficient` times the size of each letter in `symbols`; "NDD" is N·D². requires: features that it needs."""

    coefficient: int
    symbols: str
    requires: list[str] = field(default_factory=list)


def amount(terms: list[CostTerm], sizes: Mapping[str, int], has: Collection[str]) -> int:
    """The sum of these products. K, the width of a head, follows from D and H."""
    known = {**sizes, "K": sizes["D"] // sizes["H"]}
    return sum(t.coefficient * prod(known[letter] for letter in t.symbols) for t in terms if all(one in has for one in t.requires))


class Size(Struct, frozen=True, kw_only=True):
    """A size that a person chooses: its letter in formulas, its name, from where to where, and the places of its slider."""

    letter: str
    name: str
    low: int
    high: int
    stops: list[int] = field(default_factory=list)


class CostPart(Struct, frozen=True, kw_only=True):
    """A part of a model, and what it costs.

    per_layer   whether every layer has one
    full_pass   multiply-adds of one pass over B sequences of N tokens
    decoding_step  of one token more for each sequence, which asks N tokens, itself among them; the others' keys and values are kept
    parameters  how many numbers it learns
    counted     False where `full_pass` and `decoding_step` are no multiply-adds but exponentials, which no counter of products sees
    """

    name: str
    group: Group
    about: str
    per_layer: bool = True
    full_pass: list[CostTerm] = field(default_factory=list)
    decoding_step: list[CostTerm] = field(default_factory=list)
    parameters: list[CostTerm] = field(default_factory=list)
    counted: bool = True


class MemoryItem(Struct, frozen=True, kw_only=True):
    """Numbers that have to be held in memory: how many, and the bytes of one; None: of the format that is chosen."""

    name: str
    about: str
    numbers: list[CostTerm]
    bytes: int | None = None


class Preset(Struct, frozen=True, kw_only=True):
    """A known model.

    sizes  by letter: B sequences, N tokens, D width, H heads, G heads of keys and values, F features inside the feed-forward,
           L layers, V words or classes, P numbers of a patch, T places in a learned table, E tokens beside those of the input
    features  what `Term.only` asks for
    """

    name: str
    title: str
    sizes: dict[str, int]
    features: list[str]


class Timing(Struct, frozen=True, kw_only=True):
    """One part of one layer, run on this machine: one sequence of n tokens, d wide.

    part           "attention" with torch's fused kernel, "step by step" with the table of weights, "feed-forward"
    heads          0 for a feed-forward
    multiply_adds  as torch counts them while the part runs step by step
    median, low, high  milliseconds: the middle, and the quartiles
    fitted         whether the rate of this part was fitted to it
    """

    part: TimedKind
    n: int
    d: int
    heads: int
    multiply_adds: int
    median: float
    low: float
    high: float
    fitted: bool = True


class Rate(Struct, frozen=True, kw_only=True):
    """What fits the times of a part best: milliseconds before the first multiply-add, and multiply-adds in a millisecond."""

    part: TimedKind
    overhead: float
    rate: float


class Speeds(Struct, frozen=True, kw_only=True):
    """Times of this machine: medians over `rounds`; in a round each part runs once."""

    timings: list[Timing]
    rates: list[Rate]
    rounds: int
    dtype: str
    threads: int
    cpu: str
    torch: str


class Cost(Struct, frozen=True, kw_only=True):
    """A page of costs.

    sizes    that can be chosen; all others are those of a preset
    speeds   None where nothing was measured
    """

    version: int = VERSION
    title: str
    summary: str
    sizes: list[Size]
    parts: list[CostPart]
    memory: list[MemoryItem]
    presets: list[Preset]
    speeds: Speeds | None = None
    notes: list[str] = field(default_factory=list)
