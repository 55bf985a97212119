"""Explorable: everything one interactive page holds; it shows these programs and computes nothing of its own."""

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.program import VERSION, ProgramRecord


class Claim(Struct, frozen=True, kw_only=True):
    """What a built model says about one action, and the part that decides it.

    holds  True: every part promises it. False: a part notices the action; another part may still hide that again
    """

    action: str
    holds: bool
    decided_by: str = ""
    reason: str = ""


class SchemeVariant(Struct, frozen=True, kw_only=True):
    """A choice that a page offers, e.g. a position scheme.

    group   the heading under which a list shows it, e.g. where it acts; empty for none
    switch  the name of the scheme that this variant breaks on purpose, for teaching; empty for a real scheme
    """

    name: str
    title: str
    summary: str
    group: str = ""
    switch: str = ""


class SchemeProgram(Struct, frozen=True, kw_only=True):
    """One traced program: for which scheme, in which setting, with what it claims.

    setting  "plain", "causal" (later words hidden), "padded" (empty places hidden), "class" (a class token in front), and
             the last two with "-causal"
    roles    ids of the values that views ask for: input, scores, weights, mixed, output and the read-outs
    """

    scheme: str
    setting: str
    program: ProgramRecord
    claims: list[Claim]
    roles: dict[str, str] = field(default_factory=dict)


class Example(Struct, frozen=True, kw_only=True):
    """A ready input; order is how the words are shuffled to begin with, empty for not at all."""

    name: str
    words: list[str]
    order: list[int] = field(default_factory=list)
    note: str = ""


class Fact(Struct, frozen=True, kw_only=True):
    """A number that Python measured when the page was made, with the function that anyone can run again."""

    name: str
    value: float
    text: str
    source: str


class Explorable(Struct, frozen=True, kw_only=True):
    """A page's content.

    scheme    the one to begin with; versus, the one beside it; compared: those that a comparison of schemes begins with
    fixed_embeddings  numbers of words that are not spelled from their letters
    recorded_length  how many words the programs were traced with
    limit     how many words the page takes
    max_positions  how far the sentence can slide: rows of a learned table
    pool      arrays that programs share, so that an edited weight is edited in all of them
    tour      named programs that are not schemes of the model (clocks, the rotation that carries p_i to p_i+k)
    paragraph words in which the sentence slides
    """

    version: int = VERSION
    title: str
    words: list[str]
    fixed_embeddings: dict[str, list[float]]
    max_positions: int
    limit: int
    recorded_length: int
    width: int
    heads: int
    seed: int
    scheme: str
    versus: str
    compared: list[str]
    causal: bool
    schemes: list[SchemeVariant]
    programs: list[SchemeProgram]
    tour: dict[str, ProgramRecord]
    pool: dict[str, Array]
    examples: list[Example]
    paragraph: list[str]
    facts: list[Fact]
    notes: list[str] = field(default_factory=list)
