"""Attribution: what decides one answer of a model: its tokens, layers and parts, by cheap scores and by measured removal."""

from msgspec import Struct, field

from equiscope.record.array import Array
from equiscope.record.program import VERSION
from equiscope.record.token_sequence import TokenSequence


class TokenScore(Struct, frozen=True, kw_only=True):
    """A number for each token that a cheap method gives, and how well it predicts the effect of removal.

    explanation  how it is computed
    signed       whether a positive number means that the token raises the metric
    correlation  Spearman's, of numbers with a sign with the drop of the metric, of others with the size of its change; None where
                 one of the two does not vary
    """

    name: str
    explanation: str
    signed: bool
    values: list[float]
    correlation: float | None = None


class LensLayer(Struct, frozen=True, kw_only=True):
    """What the last part of the model answers to the residual stream of one layer.

    value        the metric that is read
    best         its most probable answer; probability, rank: of the model's answer, 1 for the most probable
    agreement    share of all rows of the output whose most probable answer is the model's
    divergence   KL(model ‖ layer) in nats, the mean over rows
                 None, and best empty, where the output is no distribution
    """

    name: str
    value: float
    best: str = ""
    probability: float | None = None
    rank: int | None = None
    agreement: float | None = None
    divergence: float | None = None


class LogitShare(Struct, frozen=True, kw_only=True):
    """A part of the model and its share of the metric.

    kind     embeddings, head, attention, feed-forward, bias, block, offset or atom
    block    number of its block; head: of the head
    removed  change of the metric when this part alone is set to 0, or the atom is silent; None: not measured
    """

    name: str
    share: float
    kind: str
    block: int | None = None
    head: int | None = None
    removed: float | None = None


class AnswerCandidate(Struct, frozen=True, kw_only=True):
    """Another answer that the model could give here. index: among its outputs."""

    index: int
    name: str
    probability: float


class Attribution(Struct, frozen=True, kw_only=True):
    """A page of what decides one answer.

    answer       of the model, as text; empty where the metric is of no single answer
    metric       what is explained, in words; value: its number in the unchanged run
    probability  of the answer; None where the output is no distribution
    sequence     the tokens of the input; tokens: those that were removed; removed: change of the metric for each
    read         tokens at which the answer is read: of `answers`, or of `sequence` where there is none
    answers      tokens after which the model answers, where they are not those of the input
    removal      what removal means here, in a sentence
    scores       of the same tokens, by cheap methods
    lens         a row for each layer, may be empty; lens_note: what read the streams, and the limits
    lens_names   labels of the answers in `lens_best`; lens_best: [L, N] for the answer after each token; lens_probability: of each;
                 lens_first: the first token shown; None for one answer
    parts        in the order of the forward pass, may be empty; parts_note: what was held fixed; parts_error: |sum − value|
    parts_correlation  Spearman's, of the shares with the drop of the metric, for parts that have both
    drawing      of each atom of a molecule two coordinates in its plane of largest spread, in its unit of length; else empty
    bonds        pairs of atoms
    chosen       index of the answer among the outputs; candidates: the most probable answers here
    served       whether a server computes the page for other answers, and after other tokens
    calls        of the model, for everything
    """

    version: int = VERSION
    title: str
    model: str
    answer: str
    metric: str
    value: float
    probability: float | None = None
    sequence: TokenSequence
    tokens: list[int]
    removed: list[float]
    read: list[int]
    answers: TokenSequence | None = None
    removal: str
    scores: list[TokenScore]
    lens: list[LensLayer] = field(default_factory=list)
    lens_note: str = ""
    lens_names: list[str] = field(default_factory=list)
    lens_best: Array | None = None
    lens_probability: Array | None = None
    lens_first: int = 0
    parts: list[LogitShare] = field(default_factory=list)
    parts_note: str = ""
    parts_error: float = 0.0
    parts_correlation: float | None = None
    drawing: list[list[float]] = field(default_factory=list)
    bonds: list[list[int]] = field(default_factory=list)
    chosen: int | None = None
    candidates: list[AnswerCandidate] = field(default_factory=list)
    served: bool = False
    calls: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """Which score predicts removal best, in a sentence."""
        known = [one for one in self.scores if one.correlation is not None]
        if not known:
            return "No score can be compared with removal: the numbers do not vary."
        best = max(known, key=lambda one: one.correlation or 0.0)
        rollout = next((one for one in known if one.name == "rollout" and one is not best), None)
        text = f"The score nearest to the measured effect of removal is “{best.name}”: rank correlation {best.correlation:.2f}"
        return f"{text}; rollout has {rollout.correlation:.2f}." if rollout else f"{text}."
