"""Cost: multiply-adds of a transformer's parts as formulas of its sizes, and times that were measured. No torch.

A formula is a sum of products of sizes, so that whoever has the sizes has the number: `amount` here, its twin in the page.
"""

from collections.abc import Collection, Mapping
from math import prod
from typing import Literal

from msgspec import Struct, field

from equiscope.record.program import VERSION

Group = Literal["attention", "feed-forward", "ends"]
Run = Literal["attention", "step by step", "feed-forward"]


class Term(Struct, frozen=True):
    """A product: `times`, and the size of each letter in `of`; "NDD" is N·D². only: what the model must have for it to count."""

    times: int
    of: str
    only: list[str] = field(default_factory=list)


def amount(terms: list[Term], sizes: Mapping[str, int], has: Collection[str]) -> int:
    """The sum of these products. K, the width of a head, follows from D and H."""
    known = {**sizes, "K": sizes["D"] // sizes["H"]}
    return sum(t.times * prod(known[letter] for letter in t.of) for t in terms if all(one in has for one in t.only))


class Size(Struct, frozen=True, kw_only=True):
    """A size that a person chooses: its letter in formulas, its name, from where to where, and the places of its slider."""

    letter: str
    name: str
    low: int
    high: int
    stops: list[int] = field(default_factory=list)


class Work(Struct, frozen=True, kw_only=True):
    """A part of a model, and what it costs.

    layers      whether every layer has one
    whole       multiply-adds of one pass over B sequences of N tokens
    step        of one token more for each sequence, which asks N tokens, itself among them; the others' keys and values are kept
    parameters  how many numbers it learns
    counted     False where `whole` and `step` are no multiply-adds but exponentials, which no counter of products sees
    """

    name: str
    group: Group
    about: str
    layers: bool = True
    whole: list[Term] = field(default_factory=list)
    step: list[Term] = field(default_factory=list)
    parameters: list[Term] = field(default_factory=list)
    counted: bool = True


class Store(Struct, frozen=True, kw_only=True):
    """Numbers that have to be held in memory: how many, and the bytes of one; None: of the format that is chosen."""

    name: str
    about: str
    numbers: list[Term]
    bytes: int | None = None


class Preset(Struct, frozen=True, kw_only=True):
    """A known model.

    sizes  by letter: B sequences, N tokens, D width, H heads, G heads of keys and values, F features inside the feed-forward,
           L layers, V words or classes, P numbers of a patch, T places in a learned table, E tokens beside those of the input
    has    what `Term.only` asks for
    """

    name: str
    title: str
    sizes: dict[str, int]
    has: list[str]


class Timed(Struct, frozen=True, kw_only=True):
    """One part of one layer, run on this machine: one sequence of n tokens, d wide.

    part           "attention" with torch's fused kernel, "step by step" with the table of weights, "feed-forward"
    heads          0 for a feed-forward
    multiply_adds  as torch counts them while the part runs step by step
    median, low, high  milliseconds: the middle, and the quartiles
    fitted         whether the rate of this part was fitted to it
    """

    part: Run
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

    part: Run
    overhead: float
    rate: float


class Speeds(Struct, frozen=True, kw_only=True):
    """Times of this machine: medians of so many rounds, the parts turn by turn."""

    timed: list[Timed]
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
    work: list[Work]
    stores: list[Store]
    presets: list[Preset]
    speeds: Speeds | None = None
    notes: list[str] = field(default_factory=list)
