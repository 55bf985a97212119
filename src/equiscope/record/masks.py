"""Masks: which tokens may attend to which, the training examples of one sentence, and decoding token by token with a cache."""

from typing import Literal

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.program import VERSION, ProgramRecord


class Knob(Struct, frozen=True, kw_only=True):
    """A number that a rule takes, from `low` to `high`.

    sets       what the page changes: "parameter" of a step, "document" (words from this one on belong to a second text) or
               "valid" (this many padding positions before the words)
    op         whose parameter it is, in every step of the program that has this operation, and the parameter's name; empty for
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
    """One mask, and the program of the first layer's attention under it.

    allowed_reason  why a query may attend to a key, as a sentence with {query}, {key} and {n} in it; masked_reason: why it may not
    mask     id of the step that computes the mask; empty for a full mask
    weights  id of the attention weights
    """

    name: str
    title: str
    summary: str
    allowed_reason: str
    masked_reason: str
    program: ProgramRecord
    mask: str
    weights: str
    knob: Knob | None = None


class Pattern(Struct, frozen=True, kw_only=True):
    """A mask that people know by name: one rule, or two joined by "and" or "or"."""

    name: str
    title: str
    summary: str
    rules: list[str]
    join: Literal["and", "or"] = "and"


class TrainingExample(Struct, frozen=True, kw_only=True):
    """One training example of the sentence: its first `prefix_length` tokens, and the word that comes next.

    full_pass_loss  cross-entropy of that word in one pass over the whole sentence
    own_pass_loss  the same in a pass over these tokens only
    """

    prefix_length: int
    next: str
    full_pass_loss: float
    own_pass_loss: float


class DecodingStep(Struct, frozen=True, kw_only=True):
    """One step of decoding with a cache.

    cached_positions  positions whose keys and values are in the cache before the step
    evicted_positions  positions removed after it, since no later query attends to them
    difference  largest |cached step's output - same row of the full pass|
    """

    cached_positions: list[int]
    evicted_positions: list[int]
    difference: float


class Masks(Struct, frozen=True, kw_only=True):
    """A page of masks: one sentence, one small model.

    words      of the sentence; bos: the start token before them in training
    model      what the model is, in words
    parameters how many numbers it learns
    heads      of the recorded attention
    rules      masks that can be chosen and joined; patterns: those with a name
    pool       numbers that the rules' programs share
    examples   examples of the sentence under the causal mask
    influence  [layers, windows, layers + 1, words]: for a model of this many layers and this window, the Frobenius norm of the
               Jacobian of the last word's output with respect to each word, before the first layer, after it, and so on; 0
               beyond the last layer
    decoding   steps by window: of 1 word, of 2 words, ...; the last has no window
    cached_multiply_adds  multiply-adds of one cached step that reads 1 key, 2 keys, ...; counted by torch while it ran
    full_multiply_adds  multiply-adds of a pass over 1 token, 2 tokens, ...
    token_multiply_adds  multiply-adds of one token in all layers but for its pairs with others; pair_multiply_adds: of one pair
    """

    version: int = VERSION
    title: str
    summary: str
    words: list[str]
    bos: str
    model: str
    parameters: int
    heads: int
    seed: int
    rules: list[Rule]
    patterns: list[Pattern]
    pool: dict[str, Array]
    examples: list[TrainingExample]
    influence: Array
    decoding: list[list[DecodingStep]]
    cached_multiply_adds: list[int]
    full_multiply_adds: list[int]
    token_multiply_adds: int
    pair_multiply_adds: int
    notes: list[str] = field(default_factory=list)
