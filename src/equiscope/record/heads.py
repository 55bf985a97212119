"""Heads: every attention of any model on one input, down to the tensors behind its weights.

The record stores queries, keys and what is added to the scores instead of the weights, so that a page can compute each weight and
explain it. Where the recomputed weights do not reproduce the model's output, the record stores the weights and the reason.
"""

from typing import Literal

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.interventions import InterventionOptions
from equiscope.record.program import VERSION
from equiscope.record.token_sequence import TokenSequence

Role = Literal["previous", "self", "first", "content", "uniform", "mixed"]


class HeadStatistics(Struct, frozen=True, kw_only=True):
    """What one head does on this input: means over rows that may attend to two tokens or more; None where undefined.

    previous, own, first  weight on the previous token, on the token itself, on the first token
    entropy               of a row's weights: 0 for all weight on one token, 1 for uniform weights over the allowed tokens
    distance              mean distance in tokens between query and key, weighted
    content               share of the weights' variance that neither the distance nor the position of the key explains
    diagonal              for cross-attention: share of rows whose largest weight is at most one token from the straight line from
                          the first tokens of both sequences to the last ones; diagonal_chance: that share for random links
    """

    role: Role
    previous: float | None = None
    own: float | None = None
    first: float | None = None
    entropy: float | None = None
    distance: float | None = None
    content: float | None = None
    diagonal: float | None = None
    diagonal_chance: float | None = None


class AttentionTensors(Struct, frozen=True, kw_only=True):
    """The tensors behind attention weights: softmax over m of (scale · q[n]·k[m] + bias[n, m]), over the m that the mask allows.

    q, k, v          [H, N, K], [G, M, K], [G, M, V]: head h reads keys and values of group h·G // H
    bias             [1 or H, 1 or N, M], added to the scores; None: zero
    mask             the same shape, True: may attend; None: all may
    causal           also requires m <= n + M - N
    cap              scores are cap · tanh(score / cap) before the bias is added; 0: no cap
    sink             [H], one more score in each row's softmax, which has no value; None: no sink
    weights          [H, N, M], stored where they cannot be recomputed
    relative_error   bound on the relative error of recomputed weights in a compact file; 0: exact
    q_scale, k_scale [H, N], [G, M]: scale of each row of q and k, which are quantized to int8
    encoded_weights  one string per head instead of the rest: one letter per weight, row by row, where causal only m <= n + M - N.
                     Code 35 + l, one more from 92 on, is 2^(-l / 3); l = 90: no weight, or one below 1e-9. rows, columns: N and M
    """

    scale: float
    causal: bool = False
    cap: float = 0.0
    q: Array | None = None
    k: Array | None = None
    v: Array | None = None
    bias: Array | None = None
    mask: Array | None = None
    sink: Array | None = None
    weights: Array | None = None
    relative_error: float = 0.0
    q_scale: Array | None = None
    k_scale: Array | None = None
    encoded_weights: list[str] = field(default_factory=list)
    rows: int = 0
    columns: int = 0


class AttentionLayer(Struct, frozen=True, kw_only=True):
    """One attention: its query and key sequences by index, its heads, and its tensors, or the reason why there are none.

    where                 path of its module
    kv_heads              number of heads of keys and values
    thumbnail             base64 of H · side · side bytes: 255 · √(largest weight) in each cell of a picture of the weights; empty
                          where a page computes it from `encoded_weights`. thumbnail_side: cells along a side
    reconstruction_error  max |A·V − output| / max |output|: how well these tensors reproduce the model's output; None: not known
    reason                why it has no tensors, or weights instead of scores; empty where it has all
    """

    where: str
    cross: bool
    query_sequence: int
    key_sequence: int
    kv_heads: int
    heads: list[HeadStatistics]
    thumbnail: str
    thumbnail_side: int
    reconstruction_error: float | None = None
    tensors: AttentionTensors | None = None
    reason: str = ""


class PositionTable(Struct, frozen=True, kw_only=True):
    """A learned table of position embeddings, measured.

    cosines           [S, S] cosines between every `step`-th rows
    distance          mean cosine of two rows at each distance, and its spread; for a grid: rounded distances of patches
    spectrum          share of the table's variance at each frequency: 1, 2, ... periods over the whole table; empty for a grid
    shift_invariance  share of the cosines' variance that the distance alone explains: 1 for a shift-invariant table
    """

    where: str
    rows: int
    width: int
    step: int
    cosines: Array
    distance: list[float]
    spread: list[float]
    spectrum: list[float]
    shift_invariance: float
    grid: list[int] = field(default_factory=list)


class SideBySide(Struct, frozen=True, kw_only=True):
    """Another model on the same input: its layers, each paired with a layer of the first model.

    target           the name that the user gave; names: short names of both models, the first model's first
    layers           one per layer of the first model, with its sequence indices; None where no layer has these rows and heads
    total_variation  of the weights of two heads: mean over rows of half the sum of |weight − weight|, 0 to 1; empty for no pair
    """

    target: str
    names: list[str]
    model: str
    parameters: int
    dtype: str
    layers: list[AttentionLayer | None]
    total_variation: list[list[float]]


class RerunOptions(Struct, frozen=True, kw_only=True):
    """What a served page may request of the model: /rerun?order=2,0,1&offset=100 responds with the Heads of another run.

    sequence    index of the sequence whose tokens are permuted or shifted
    no_shuffle  why its tokens cannot be permuted; empty where they can. no_shift: why its positions cannot be shifted
    """

    sequence: int
    no_shuffle: str = ""
    no_shift: str = ""


class Rerun(Struct, frozen=True, kw_only=True):
    """A run on permuted or shifted tokens, and how the weights changed.

    run              its number: /head responds for it with &run=R
    order            for each position the token of the first run that has it now; empty: unchanged. offset: added to every position
    max_differences  of each layer: largest |weight − weight| of any head between this run and the first, permuted as the tokens are
    rounding_floors  the change that rounding can cause
    """

    run: int
    sequence: int
    order: list[int]
    offset: int
    max_differences: list[float]
    rounding_floors: list[float]


class Predictions(Struct, frozen=True, kw_only=True):
    """What the model predicts in the recorded pass: the most probable outputs and their probabilities.

    kind       class: one prediction for the whole input; next: the next token, after each token of a sequence
    sequence   index of that sequence; first_row: the token of the first row
    names      all predictions, each once
    indices    [P, A] into names, the most probable first; probabilities: the same shape. P is 1 for a class
    """

    kind: Literal["class", "next"]
    names: list[str]
    indices: Array
    probabilities: Array
    sequence: int = 0
    first_row: int = 0


class CrossAlignment(Struct, frozen=True, kw_only=True):
    """How one sequence of words attends to another: of each cross-attention layer the mean of its heads' weights.

    layers   their indices, the first layer first; weights [L, N, M]; None: too many to store
    """

    query_sequence: int
    key_sequence: int
    layers: list[int]
    weights: Array | None = None


class Heads(Struct, frozen=True, kw_only=True):
    """The page of all heads. Layers and heads are counted from 0.

    target            the name that the user gave; model: the class that ran
    rollout           all layers of a stack as one, numbered after the last of `layers`: one head from the mean over heads, one from
                      the maximum
    predictions       None where the output cannot be read as predictions
    interventions     what the page may change in the model; None on a rerun
    cross_alignments  one for each two sequences of words of which one attends to the other
    served            the page requests the tensors of single heads: /head?layer=L&head=H responds with the AttentionTensors of a
                      head, with &of=side_by_side those of the other model
    """

    version: int = VERSION
    title: str
    summary: str
    target: str
    model: str
    parameters: int
    dtype: str
    sequences: list[TokenSequence]
    layers: list[AttentionLayer]
    position_tables: list[PositionTable]
    notes: list[str]
    served: bool = False
    side_by_side: SideBySide | None = None
    rerun_options: RerunOptions | None = None
    rerun: Rerun | None = None
    rollout: list[AttentionLayer] = field(default_factory=list)
    predictions: Predictions | None = None
    cross_alignments: list[CrossAlignment] = field(default_factory=list)
    interventions: InterventionOptions | None = None
