"""Masks: what may look at what, the training examples that one sentence makes, and decoding token by token with a cache."""

from typing import Literal

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.program import VERSION, ProgramRecord


class Knob(Struct, frozen=True, kw_only=True):
    """A number that a rule takes, from `low` to `high`.

    sets       what the page changes: "parameter" of a step, "document" (words from this one on belong to a second text) or
               "valid" (so many empty places stand before the words)
    op         whose parameter it is, in every step of the trace that has this operation, and the parameter's name; empty for
               the other two
    """

    label: str
    low: int
    high: int
    start: int
    sets: Literal["parameter", "document", "valid"]
    op: str = ""
    parameter: str = ""


class Rule(Struct, frozen=True, kw_only=True):
    """One mask, and the first layer's attention traced under it.

    seen     why a pair may look, as a sentence with {asks}, {answers} and {n} in it; hidden: why it may not
    visible  id of the step that says who may look; empty where nobody is hidden
    weights  id of the attention weights
    """

    name: str
    title: str
    summary: str
    seen: str
    hidden: str
    program: ProgramRecord
    visible: str
    weights: str
    knob: Knob | None = None


class Pattern(Struct, frozen=True, kw_only=True):
    """A mask that people know by name: one rule, or two joined by "and" or "or"."""

    name: str
    title: str
    summary: str
    rules: list[str]
    join: Literal["and", "or"] = "and"


class Lesson(Struct, frozen=True, kw_only=True):
    """One training example of the sentence: its first `given` tokens, and the word that comes next.

    together  minus the logarithm of what the model gives that word, from one pass over the whole sentence
    alone     the same from a pass over these tokens only
    """

    given: int
    next: str
    together: float
    alone: float


class Turn(Struct, frozen=True, kw_only=True):
    """One step of decoding.

    kept        places whose keys and values the cache held before
    dropped     places that it let go afterwards, since no later query can see them
    difference  largest |cached step's output - same row of the full pass|
    """

    kept: list[int]
    dropped: list[int]
    difference: float


class Masks(Struct, frozen=True, kw_only=True):
    """A page of masks: one sentence, one small model.

    words      of the sentence; begin: the token that stands before them in training
    model      what the model is, in words
    parameters how many numbers it learns
    heads      of the traced attention
    rules      masks that can be chosen and joined; patterns: those with a name
    pool       numbers that the rules' programs share
    lessons    examples of the sentence under the causal mask
    influence  [layers, windows, layers + 1, words]: of a model with so many layers and such a window, how much the last
               word's output changes with the numbers at each word, before the first layer, after it, and so on: size of the
               Jacobian (root of the sum of squares); 0 beyond the layers that there are
    decoding   steps by window: of 1 word, of 2 words, ...; the last has no window
    cached     multiply-adds of one cached step that reads 1 key, 2 keys, ...; counted by torch while it ran
    whole      multiply-adds of a pass over 1 token, 2 tokens, ...
    row        multiply-adds of one token in all layers but for its pairs with others; pair: of one pair
    """

    version: int = VERSION
    title: str
    summary: str
    words: list[str]
    begin: str
    model: str
    parameters: int
    heads: int
    seed: int
    rules: list[Rule]
    patterns: list[Pattern]
    pool: dict[str, Array]
    lessons: list[Lesson]
    influence: Array
    decoding: list[list[Turn]]
    cached: list[int]
    whole: list[int]
    row: int
    pair: int
    notes: list[str] = field(default_factory=list)
