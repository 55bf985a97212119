"""Claims about position schemes that add a bias to the scores, and about all relative schemes."""

from dataclasses import replace

import torch
from torch import Tensor

from equiscope.attention import Causal, MultiHeadAttention
from equiscope.models import Attention, Block, Spec, build
from equiscope.positions import (
    Alibi,
    Cope,
    Deberta,
    Fire,
    Kerple,
    Learned,
    Pope,
    Position,
    Rope,
    Shaw,
    Sinusoidal,
    T5Bias,
    TransformerXL,
    XPos,
)
from equiscope.study.base import fmt
from equiscope.study.claims.base import (
    ROUNDING,
    ClaimMeasurement,
    Setting,
    claim,
    curve,
    figure_panel,
    normal,
    position_column,
    text,
    verdict_of,
)
from equiscope.symmetry import Shift, relative_error
from equiscope.tokens import Tokens


@claim("ALiBi's scores depend on the distance of two words, not on where the text starts.", "Press 2022, section 3")
def alibi_is_relative(setting: Setting) -> ClaimMeasurement:
    tokens = text(10, 16)
    attention = MultiHeadAttention(16, heads=4, mask=Causal()).double()
    logits, outputs = {}, {}
    for kind in ("symmetric", "key"):
        scheme = Alibi(kind=kind).sized(16, 4, 4)
        moved = Shift(1000).on_input(tokens)
        logits[kind] = relative_error(_bias(scheme, moved.positions), _bias(scheme, tokens.positions))
        outputs[kind] = relative_error(attention(moved, scheme), attention(tokens, scheme))
    return ClaimMeasurement(
        f"Moved by 1000 positions, the biases −m|i−j| change by {fmt(logits['symmetric'])}. In the form of the authors' code and "
        f"of BLOOM, +m·j, they change by {fmt(logits['key'])} times their size, all of a row alike, and outputs by "
        f"{fmt(outputs['key'])}.",
        verdict_of(max(logits.values()) < ROUNDING and max(outputs.values()) < ROUNDING, max(outputs.values()) < ROUNDING),
        "Outputs always; scores in the form of the paper only. A sink or a sigmoid is sensitive to the other form.",
        {f"scores, {k}": e for k, e in logits.items()} | {f"outputs, {k}": e for k, e in outputs.items()},
    )


def _bias(scheme: Position, at: Tensor, heads: int = 4) -> Tensor:
    """[H, N, N]: what a scheme adds to the scores."""
    bias = scheme.score_bias(torch.arange(heads)[:, None, None], (at,), (at.mT,))
    assert bias is not None
    return bias.expand(heads, len(at), len(at))


@claim("In every head of ALiBi, the penalty grows with the distance.", "Press 2022, section 3")
def alibi_is_monotone(setting: Setting) -> ClaimMeasurement:
    curves = _penalties(Alibi().sized(64, 8, 8), 256)
    rises = int((curves.diff(dim=-1) >= 0).sum())
    halves = [int((c.exp() < 0.5).nonzero()[0]) for c in curves]
    return ClaimMeasurement(
        f"In 8 heads and {curves.shape[-1] - 1} steps the penalty decreases {rises} times; weights are halved after {halves[0]} "
        f"(steepest) to {halves[-1]} steps.",
        verdict_of(rises == 0),
        "",
        {"rises": rises, "half, steepest": halves[0], "half, flattest": halves[-1]},
    )


def _penalties(scheme: Position, far: int) -> Tensor:
    """[H, N]: the bias for a key 0, 1, ... steps back."""
    bias = scheme.score_bias(
        torch.arange(8)[:, None, None], (torch.zeros(1, 1, dtype=torch.float64),), (-position_column(far + 1).T,)
    )
    assert bias is not None
    return bias.squeeze(-2)


@claim("ALiBi extrapolates, since words beyond the trained length get almost no weight.", "Press 2022, section 3")
def alibi_suppresses_distant_tokens(setting: Setting) -> ClaimMeasurement:
    lengths = (64, 1024)
    weights = _penalties(Alibi().sized(64, 8, 8), 8 * max(lengths) - 1).exp()
    beyond = {t: [(w[t : 8 * t].sum() / w[: 8 * t].sum()).item() for w in weights] for t in lengths}
    quiet = {t: sum(b < 0.01 for b in largest) for t, largest in beyond.items()}
    return ClaimMeasurement(
        f"With equal words, the share of the weights beyond T in a text of 8 T is below 1 % in {quiet[64]} of 8 heads for T = 64 "
        f"(flattest head: {fmt(100 * beyond[64][-1])} %) and in {quiet[1024]} of 8 for T = 1024 "
        f"({fmt(100 * beyond[1024][-1])} %).",
        verdict_of(all(q == 8 for q in quiet.values()), any(quiet.values())),
        "For the steep heads, and for T well above 1/slope: the flattest slope is 1/256. That scores exist at any length is true "
        "of every scheme without a table.",
        {f"beyond {t}, head {h + 1}": b for t, largest in beyond.items() for h, b in enumerate(largest)},
        figure_panel(
            "share of weights beyond T, at 8 T", "head", "", *[curve(f"T = {t}", list(range(1, 9)), b) for t, b in beyond.items()]
        ),
    )


@claim("Beyond an offset of 128, T5 gives all distances the same bias.", "Raffel 2020, section 2.1")
def t5_buckets_saturate(setting: Setting) -> ClaimMeasurement:
    scheme = T5Bias().sized(64, 8, 8).double()
    with torch.no_grad():
        curves = _penalties(scheme, 1000)
    changes = (curves[0].diff() != 0).nonzero().flatten() + 1
    last, values = int(changes[-1]), len(changes) + 1
    return ClaimMeasurement(
        f"Keys behind the query have {values} buckets; the last begins {last} steps back, and the bias is one number from there "
        "to 1000.",
        verdict_of(last <= 128),
        f"Already from {last} on: logarithmic buckets are rounded down.",
        {"last change": last, "buckets": values},
        figure_panel("bias of one head, untrained", "steps back", "", curve("T5", list(range(1001)), curves[0]), log="x"),
    )


@claim(
    "Methods called relative depend on the distance of two words only.",
    "Dufter 2022, “Position Information in Transformers”, section 3",
)
def relative_schemes_are_relative(setting: Setting) -> ClaimMeasurement:
    schemes: tuple[Position, ...] = (
        Rope(),
        XPos(),
        Pope(),
        Alibi(),
        T5Bias(),
        Kerple(),
        Fire(),
        Shaw(),
        TransformerXL(),
        Deberta(),
        Cope(),
    )
    tokens, errors = text(12, 16), {}
    for scheme in schemes:
        sized, attention = scheme.sized(16, 2, 8).double(), MultiHeadAttention(16, heads=2, mask=Causal()).double()
        with torch.no_grad():
            for parameter in sized.parameters():
                parameter.normal_()
            errors[scheme.name] = relative_error(attention(Shift(5000).on_input(tokens), sized), attention(tokens, sized))
    broken = [name for name, e in errors.items() if e > 1e-9]
    return ClaimMeasurement(
        f"Of {len(errors)} schemes at random parameters, {len(errors) - len(broken)} give the same output to a text moved by 5000 "
        f"positions, up to {fmt(max(e for n, e in errors.items() if n not in broken))}"
        + (f"; not so {', '.join(f'{n} ({fmt(errors[n])})' for n in broken)}." if broken else "."),
        verdict_of(not broken, len(broken) < len(errors) / 2),
        "FIRE divides by the query's own position, and so depends on where the text starts." if "fire" in broken else "",
        errors,
    )


@claim(
    "With a padding mask, padding on the left changes nothing.",
    "Hugging Face 2024, “Generation with LLMs”, wrong padding side",
)
def left_padding_is_harmless(setting: Setting) -> ClaimMeasurement:
    x, errors = normal(8, 16), {}
    for scheme in (Sinusoidal(), Learned(64), Rope(), Alibi(), T5Bias()):
        model = build(Spec(16, layers=2, block=Block(Attention(heads=2, position=scheme, causal=True)))).double()
        with torch.no_grad():
            for parameter in model.position.parameters():
                parameter.normal_()
            valid = torch.arange(13) >= 5
            padded = Tokens.of(torch.cat([normal(5, 16), x]), valid=valid)
            errors[scheme.name] = relative_error(model(padded)[5:], model(Tokens.of(x)))
            if scheme.name == "learned":
                shifted = replace(padded, positions=(padded.positions - 5).clamp(min=0))
                counted_on = relative_error(model(shifted)[5:], model(Tokens.of(x)))
    keeps = [name for name, e in errors.items() if e < 1e-9]
    return ClaimMeasurement(
        f"Five padded words in front change the answer by {', '.join(f'{fmt(e)} ({name})' for name, e in errors.items())}; with "
        f"positions counted from the first word, {fmt(counted_on)} (learned).",
        verdict_of(len(keeps) == len(errors), bool(keeps)),
        f"For schemes that a shift does not change ({', '.join(keeps)}); others need positions that do not count the padding.",
        errors | {"learned, positions counted on": counted_on},
    )
