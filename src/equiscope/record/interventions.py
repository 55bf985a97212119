"""Interventions on a page of heads: what the page may change in the model, and the model's answer before and after.

A change is a text, the same in the page's link and in its request: ACTION_QUANTITY_LAYER.HEAD_TOKEN.ENTRY_VALUE, where parts at the
end that an action does not need are left out.

    zero_output_2.3         head 3 of layer 2 set to 0; without ".3" every head; mean_output_2.3: to its mean
    scale_output_2.3__0.5   half of it
    patch_output_2.3        taken from the second input; patch_stream_2_5: the residual stream of token 5 that enters layer 2
    freeze_weights_2.3      its pattern stays that of the unchanged run
    cut_weights_2.3_7.1     token 7 no longer attends to token 1; set_weights_2.3_7.1_0.5: with this weight
    set_q_2.3_5.7_0.25      feature 7 of token 5's query, of k of its key
    move_token__4_9         token 4 at position 9; move_token_2_4_9: of the encoder or decoder to which layer 2 belongs
"""

from typing import Literal

from msgspec import Struct, field

from equiscope.record.token_sequence import TokenSequence

AnswerKind = Literal["next", "class", "vector"]
By = Literal["zero", "mean", "patch"]


class AnswerRow(Struct, frozen=True, kw_only=True):
    """One number of the answer, unchanged, after the changes, and for the second input.

    id      of the token or the class; -1 for a cosine
    before  a probability; for vectors a cosine
    """

    id: int
    name: str
    before: float
    after: float
    second: float | None = None


class SecondInput(Struct, frozen=True, kw_only=True):
    """Another input of the model, whose values replace those of the first.

    no_patch  why they cannot; empty where they can
    """

    sequence: TokenSequence
    no_patch: str = ""


class InterventionEffect(Struct, frozen=True, kw_only=True):
    """The response to /effect?changes=C,C&after=N&second=S: the answer before and after the changes.

    changes, after, other   what was asked: `after` is the token whose next token is predicted, `other` names the second input
    largest, cosine         largest change of a number of the output, and the cosine of the outputs
    passes                  forward passes that it took, beside the unchanged one
    code                    the changes in plain torch; empty where there is no such text, for the reason `no_code`
    setup                   the lines that make the variables which the text reads
    """

    changes: list[str]
    after: int
    other: str
    rows: list[AnswerRow]
    largest: float
    cosine: float
    passes: int
    code: str
    setup: str
    no_code: str = ""
    second: SecondInput | None = None


class RankedHeads(Struct, frozen=True, kw_only=True):
    """The response to /rank?by=B&layer=L&after=N&answer=A&second=S: each head of a layer changed alone.

    effects  change of the metric by each head; before: the metric unchanged
    metric   log-probability, in nats, of the answer of this name; or a cosine, which has no name
    calls    forward calls of the model; copies: of the input in one call
    """

    by: By
    layer: int
    after: int
    answer: int
    other: str
    metric: str
    name: str
    before: float
    effects: list[float]
    calls: int
    copies: int
    notes: list[str] = field(default_factory=list)


class InterventionOptions(Struct, frozen=True, kw_only=True):
    """What a page of heads may request of the model, and what was computed so far.

    answer    next: the token after each one; class: of the whole input; vector: the output, the mean where each token has one
    sequence  index of the sequence of the tokens that the answer follows
    second    text: a person writes the second input; choice: it is one of `choices`; none
    """

    answer: AnswerKind
    sequence: int
    second: Literal["text", "choice", "none"] = "none"
    choices: list[str] = field(default_factory=list)
    effects: list[InterventionEffect] = field(default_factory=list)
    rankings: list[RankedHeads] = field(default_factory=list)
