"""Heads: every attention of one model on one input, whoever wrote the model, down to the numbers that its weights come from.

A weight is no number of its own here: it follows from queries, keys and what is added to their products, so that a page can compute
it, and say how. Where that does not give what the model gave, the weights themselves are kept, and the reason is said.
"""

from typing import Literal

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.program import VERSION

LineKind = Literal["words", "patches", "slices", "tokens"]
Role = Literal["previous", "self", "first", "content", "even", "mixed"]


class Heard(Struct, frozen=True, kw_only=True):
    """A sound as a page draws and plays it. rate: samples a second; samples: base64 of them, 16 bits each, little-endian."""

    rate: int
    samples: str


class Line(Struct, frozen=True, kw_only=True):
    """What stands in a row: words of a text, patches of a picture, slices of a sound.

    labels   one a token, as people read it
    words    of each token the number of the word that it is a piece of, from 0 on; empty: not known
    picture  data: address of the picture whose patches these are; empty for none
    grid     rows and columns of patches
    before   tokens in front of the patches or slices: a class token, registers
    seconds  when each slice begins, without tokens in front; lasts: seconds of a slice, 0: until the next one begins
    heard    the sound itself; None: it is not there
    """

    name: str
    kind: LineKind
    labels: list[str]
    picture: str = ""
    grid: list[int] = field(default_factory=list)
    before: int = 0
    seconds: list[float] = field(default_factory=list)
    lasts: float = 0.0
    words: list[int] = field(default_factory=list)
    heard: Heard | None = None


def patches(grid: list[int], before: int, picture: str = "") -> Line:
    """The line of a picture's patches, row by row. before: tokens in front of them, a class token first."""
    front = ["class", *(f"register {i}" for i in range(1, before))][:before]
    cells = [f"row {row + 1}, column {column + 1}" for row in range(grid[0]) for column in range(grid[1])]
    return Line(name="picture", kind="patches", labels=[*front, *cells], picture=picture, grid=grid, before=before)


class Head(Struct, frozen=True, kw_only=True):
    """What one head does with this input: means over rows that may look at two tokens or more; None where there is no such thing.

    previous, own, first  weight on the token before, on the token itself, on the first token
    entropy               of a row's weights, 0 where one token has all, 1 where all that may be seen have the same
    distance              tokens between who asks and who is looked at, weighted
    content               share of the weights' variation that neither the distance nor the place of the key explains
    diagonal              of one line's looks at another: share of rows whose largest weight is at most one token from where the
                          row would stand if both lines ran side by side; straight: the same share for links drawn by chance
    """

    role: Role
    previous: float | None = None
    own: float | None = None
    first: float | None = None
    entropy: float | None = None
    distance: float | None = None
    content: float | None = None
    diagonal: float | None = None
    straight: float | None = None


class Numbers(Struct, frozen=True, kw_only=True):
    """What weights are made of: softmax over m of (scale · q[n]·k[m] + bias[n, m]), among the m that n may see.

    q, k, v  [H, N, K], [G, M, K], [G, M, V]: head h reads keys and values number h·G // H
    bias     [1 or H, 1 or N, M], what is added to the scores; seen: the same shape, which tokens may be seen. None: nothing, all
    causal   of these only m <= n + M - N may be seen
    cap      scores are cap · tanh(score / cap) before anything is added; 0: they are not bounded
    sink     [H], one score more in each row's softmax, which leads nowhere; None: no such thing
    weights  [H, N, M] themselves, where they do not follow from the rest
    about    weights that a page computes may be off by this share of themselves: the file was made small; 0: as exact as the rest
    q_step, k_step  [H, N], [G, M]: q and k are whole numbers, rounded, and each row counts in this unit
    letters  one text a head in place of all the rest: a letter a weight, row by row, where causal only m <= n + M - N.
             Code 35 + l, one more from 92 on, is 2^(-l / 3); l = 90: no weight, or one below 1e-9. rows, columns: N and M of these
    """

    scale: float
    causal: bool = False
    cap: float = 0.0
    q: Array | None = None
    k: Array | None = None
    v: Array | None = None
    bias: Array | None = None
    seen: Array | None = None
    sink: Array | None = None
    weights: Array | None = None
    about: float = 0.0
    q_step: Array | None = None
    k_step: Array | None = None
    letters: list[str] = field(default_factory=list)
    rows: int = 0
    columns: int = 0


class Layer(Struct, frozen=True, kw_only=True):
    """One attention: who asks and who answers, by the number of the line; its heads; its numbers, or why there are none.

    where    path of its module
    groups   how many heads keys and values have
    rebuilt  |A·V − output|, by the output's largest number: how well these numbers give what the model gave; None: not known
    small    base64 of H · side · side bytes: 255 · √(largest weight) in each cell of a picture of the weights; empty: letters tell
    why      why it has no numbers, or weights instead of scores; empty where it has all
    """

    where: str
    cross: bool
    asks: int
    answers: int
    groups: int
    heads: list[Head]
    small: str
    side: int
    rebuilt: float | None = None
    numbers: Numbers | None = None
    why: str = ""


class Places(Struct, frozen=True, kw_only=True):
    """A learned table of places, and what became of it.

    cosines   [S, S] of rows with rows; every how many rows there is one: step
    distance  mean cosine of two rows so many apart, and its spread; of a grid: rounded distances of patches
    spectrum  share of the table's variation in each frequency: 1, 2, ... turns over the whole table; empty for a grid
    shifts    share of the cosines' variation that the distance alone explains: 1 for a table that shifts with the words
    """

    where: str
    rows: int
    width: int
    step: int
    cosines: Array
    distance: list[float]
    spread: list[float]
    spectrum: list[float]
    shifts: float
    grid: list[int] = field(default_factory=list)


class Beside(Struct, frozen=True, kw_only=True):
    """Another model on the same input: its layers, each beside the one of the first model that it is compared with.

    target   what a person named; names: short ones of both, the first model's first
    layers   as many as the first model has, by the numbers of its lines; None where no layer has the same rows and as many heads
    apart    how far the weights of each pair of heads are apart: mean over rows of half the sum of |weight − weight|, 0 to 1;
             empty where there is no pair
    """

    target: str
    names: list[str]
    model: str
    parameters: int
    dtype: str
    layers: list[Layer | None]
    apart: list[list[float]]


class Live(Struct, frozen=True, kw_only=True):
    """What a served page may ask of the model itself: /again?order=2,0,1&from=100 answers Heads of the moved tokens.

    line     the number of the line whose tokens can be moved
    shuffle  why they cannot stand in another order; empty where they can. slide: why they cannot begin at another place
    """

    line: int
    shuffle: str = ""
    slide: str = ""


class Again(Struct, frozen=True, kw_only=True):
    """A run on moved tokens, and what the weights say to that.

    run      its number: /head answers for it with &run=R
    order    for each place the token of the first run that stands there now; empty: all stay. start: what was added to every place
    differs  of each layer: largest |weight − weight| of any head between this run and the first one, moved as the tokens were
    floor    what rounding alone may make of it
    """

    run: int
    line: int
    order: list[int]
    start: int
    differs: list[float]
    floor: list[float]


class Says(Struct, frozen=True, kw_only=True):
    """What the model answers, in the pass whose attention is shown: the likeliest answers, and how probable each is.

    kind    class: an answer to all of the input; next: which token follows, an answer after each token of a line
    line    the number of that line; first: the token after which the first row answers
    names   all answers, each once
    which   [P, A], numbers of names, the likeliest first; shares: their probabilities. P is 1 for a class
    """

    kind: Literal["class", "next"]
    names: list[str]
    which: Array
    shares: Array
    line: int = 0
    first: int = 0


class Across(Struct, frozen=True, kw_only=True):
    """What one line of words draws from another: of each layer that looks across, the mean of its heads' weights.

    layers   by their numbers, first one first; weights [L, N, M]; None: they would be too many
    """

    asks: int
    answers: int
    layers: list[int]
    weights: Array | None = None


class Heads(Struct, frozen=True, kw_only=True):
    """A page of all heads.

    target   what a person named; model: the class that ran
    rolled   all layers of a stack as one, asked for after the last of `layers`: one head from the mean of each layer's heads, one
             from the largest of them
    says     what the model answered; None where it is no answer that can be read
    across   one for each two lines of words of which one looks at the other
    served   numbers of a head are asked for one by one: /head?layer=L&head=H answers Numbers of one head, with &of=beside those
             of the other model
    """

    version: int = VERSION
    title: str
    summary: str
    target: str
    model: str
    parameters: int
    dtype: str
    lines: list[Line]
    layers: list[Layer]
    places: list[Places]
    notes: list[str]
    served: bool = False
    beside: Beside | None = None
    live: Live | None = None
    again: Again | None = None
    rolled: list[Layer] = field(default_factory=list)
    says: Says | None = None
    across: list[Across] = field(default_factory=list)
