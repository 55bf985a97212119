"""Claims about attention itself: weights, scores, heads."""

import math
from typing import cast

import torch
from torch import nn

from equiscope import functional
from equiscope.attention import (
    Additive,
    Causal,
    Concat,
    MultiHeadAttention,
    Sigmoid,
    Softmax,
    scaled_dot,
)
from equiscope.attention.special_cases import Offsets
from equiscope.positions import NoPosition
from equiscope.study import lookup, scaling
from equiscope.study.base import fmt
from equiscope.study.claims.base import ROUNDING, ClaimMeasurement, Setting, claim, curve, figure_panel, normal, text, verdict_of
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens


# --- weights ----------------------------------------------------------------------------------------------------------
@claim(
    "Every row of attention weights is a distribution: not negative, and its sum is 1.", "Vaswani 2017, section 3.2.1, equation 1"
)
def rows_sum_to_one(setting: Setting) -> ClaimMeasurement:
    x = normal(12, 16)
    attention, theirs = MultiHeadAttention(16, heads=2, mask=Causal()).double(), nn.MultiheadAttention(16, 2).double()
    weights = attention.attend(Tokens.of(x))[1]
    padding = torch.zeros(12, dtype=torch.bool)
    hidden = attention.attend(Tokens.of(x, valid=padding))[1].sum(-1)
    sink = MultiHeadAttention(16, heads=2, normalizer=Softmax(sink=True)).double().attend(Tokens.of(x))[1].sum(-1)
    rivals = theirs(x, x, x, key_padding_mask=~padding)[1].sum(-1)
    off, least = (weights.sum(-1) - 1).abs().max().item(), weights.min().item()
    proper = off < ROUNDING and least >= 0
    every = proper and bool(((hidden - 1).abs() < ROUNDING).all())
    return ClaimMeasurement(
        f"Under a causal mask sums are off 1 by {fmt(off)} at most, and the smallest weight is {fmt(least)}. A fully "
        f"masked row sums to {fmt(hidden.mean().item())} here, and to {'NaN' if rivals.isnan().all() else 'a number'} in "
        f"torch's nn.MultiheadAttention. With a sink, rows sum to {fmt(sink.mean().item())}.",
        verdict_of(every, proper),
        "A row needs at least one unmasked key, and no sink.",
        {"off": off, "smallest": least, "hidden row": hidden.mean().item(), "with a sink": sink.mean().item()},
    )


@claim("Each output of attention is a weighted mean of the values, so it lies in their convex hull.", "Vaswani 2017, section 3.2")
def outputs_are_convex_combinations(setting: Setting) -> ClaimMeasurement:
    attention, tokens = MultiHeadAttention(16, value_width=40, output=False).double(), text(24, 16)
    z, weights = attention.attend(tokens)
    values = attention.project_key_values(tokens, NoPosition())[1]
    mixed = relative_error(weights @ values, z)
    convex = weights.min().item() >= 0 and (weights.sum(-1) - 1).abs().max().item() < ROUNDING
    inside = ((z <= values.amax(-2)) & (z >= values.amin(-2))).double().mean().item()
    outside = setting.result(lookup.STUDY).numbers["outside the span"] or 0.0
    return ClaimMeasurement(
        f"Weights times values give the output up to {fmt(mixed)}; {fmt(100 * inside)} % of its numbers lie between the "
        f"smallest and the largest value of their column, and {fmt(outside)} of it lies outside the span of the values.",
        verdict_of(convex and mixed < ROUNDING and inside == 1 and outside < ROUNDING),
        "Of one head, before W_O and the residual.",
        {"mix": mixed, "inside": inside, "outside the span": outside},
    )


@claim(
    "The attention weights explain an output: no other weights would give it.",
    "the belief that Brunner 2020, section 3, tests",
)
def weights_are_unique(setting: Setting) -> ClaimMeasurement:
    deviations = {n: _other_weights(n, 8) for n in (4, 8, 16, 32)}
    alone = {n: apart == 0 for n, (apart, _) in deviations.items()}
    far, same = deviations[32]
    return ClaimMeasurement(
        f"With values of width 8 and 32 words, weights that differ by {fmt(far)} (sum of |difference| in a row, at most 2) give "
        f"the same output up to {fmt(same)}. With 4 and 8 words there are no others.",
        verdict_of(all(alone.values()), alone[4] and alone[8]),
        "Unique while there are no more words than values are wide: differences of weights that change nothing are "
        "orthogonal to all columns of V and to the ones.",
        {f"{n} words, weights apart": apart for n, (apart, _) in deviations.items()} | {"outputs apart": same},
    )


def _other_weights(words: int, width: int) -> tuple[float, float]:
    """How far other weights [N, N] of the same output may be, and how far apart the outputs then are."""
    values, weights = normal(words, width), functional.softmax(normal(words, words))
    constraints = torch.cat([values, torch.ones(words, 1, dtype=values.dtype)], 1)
    _, sizes, rows = torch.linalg.svd(constraints.T)
    free = rows[int((sizes > 1e-10).sum()) :]
    if not len(free):
        return 0.0, 0.0
    step = free[0].expand(words, -1)
    room = torch.where(step < 0, -weights / step, torch.inf).amin(-1, keepdim=True)  # so far no weight becomes negative
    other = weights + room * step
    return (other - weights).abs().sum(-1).mean().item(), relative_error(other @ values, weights @ values)


@claim(
    "Softmax weights always sum to 1: a head with nothing to attend to cannot abstain.",
    "Miller 2023, “Attention is off by one”; Xiao 2024, section 3.1",
)
def softmax_must_attend(setting: Setting) -> ClaimMeasurement:
    low = torch.full((1, 16), -20.0, dtype=torch.float64)
    plain = Softmax()(low, None).sum().item()
    normalizer = Softmax(sink=True).sized(1)
    sink, gates = normalizer(low[None], None).sum().item(), Sigmoid()(low, None).sum().item()
    return ClaimMeasurement(
        f"All 16 scores at −20: the softmax weights sum to {fmt(plain)}; with a sink of 0 (softmax off by one) {fmt(sink)}, with "
        "sigmoids "
        f"{fmt(gates)}.",
        verdict_of(abs(plain - 1) < ROUNDING and sink < 1e-6 and gates < 1e-6),
        "A word without meaning, such as the first one, can serve as the sink.",
        {"softmax": plain, "sink": sink, "sigmoid": gates},
    )


@claim("Hiding a score with −1e9 is the same as with −∞.", "Rush 2018, “The Annotated Transformer”, attention")
def minus_1e9_is_a_mask(setting: Setting) -> ClaimMeasurement:
    scores, seen = normal(6, 6).float(), Causal().allowed(torch.arange(6)[:, None], torch.arange(6)[None])
    cheap, proper = scores.masked_fill(~seen, -1e9).softmax(-1), functional.softmax(scores.masked_fill(~seen, -math.inf))
    partly = (cheap - proper).abs().max().item()
    none = torch.zeros_like(seen)
    cheap_row, proper_row = scores.masked_fill(~none, -1e9).softmax(-1), functional.softmax(scores.masked_fill(~none, -math.inf))
    hidden = (cheap_row - proper_row).abs().max().item()
    half = scores.half()
    try:
        half.masked_fill(~seen, -1e9)
        fits = True
    except RuntimeError:
        fits = False
    return ClaimMeasurement(
        f"For rows with an unmasked key, weights differ by {fmt(partly)} in float32. A fully masked row becomes the mean of "
        f"all values ({fmt(cheap_row[0, 0].item())} each of 6), here {fmt(proper_row[0, 0].item())}. In float16, −1e9 "
        f"{'fits' if fits else 'is refused by torch: it does not fit'}.",
        verdict_of(partly == 0 and hidden == 0 and fits, partly == 0),
        "In float32 and bfloat16, for rows with at least one unmasked key.",
        {"rows with a key": partly, "fully masked rows": hidden, "float16 holds it": float(fits)},
    )


@claim("Attention matrices are low rank.", "Wang 2020 (Linformer), section 3")
def weights_are_low_rank(setting: Setting) -> ClaimMeasurement:
    n, k = (64, 16) if setting.quick else (256, 16)
    q, key = normal(n, k), normal(n, k)
    sizes = {f: torch.linalg.svdvals(functional.softmax(f * scaled_dot(q, key))) for f in (0.1, 1.0, 3.0, 10.0)}
    ranks = {f: int((s > 1e-12 * s[0]).sum()) for f, s in sizes.items()}
    missed = {f: (s[n // 8 :].norm() / s.norm()).item() for f, s in sizes.items()}
    near = {f: e < 0.1 for f, e in missed.items()}
    listed = ", ".join(f"{fmt(e)} at scores × {f:g}" for f, e in missed.items())
    x = [i + 1 for i in range(n)]
    return ClaimMeasurement(
        f"Softmax of {n} random words (K = {k}) has rank {min(ranks.values())} to {max(ranks.values())}: full. The best matrix of "
        f"rank {n // 8} misses {listed}.",
        verdict_of(max(ranks.values()) <= k or all(near.values()), any(near.values())),
        "Nearly so while scores are small and weights even. Heads with sharp weights are not: a permutation has singular values "
        "that are all 1.",
        {f"missed by rank N/8, scores x {f:g}": e for f, e in missed.items()} | {"largest rank": max(ranks.values())},
        figure_panel(
            f"singular values of the weights, N = {n}",
            "number",
            "relative to the first",
            *[curve(f"scores × {f:g}", x, (s / s[0]).clamp_min(1e-17)) for f, s in sizes.items()],
            log="y",
        ),
    )


@claim(
    "As scores grow, attention becomes a hard look-up: it returns the value of the best key.",
    "Graves 2014, section 3.3.1 (key strength)",
)
def large_scores_approach_the_maximum(setting: Setting) -> ClaimMeasurement:
    result = setting.result(lookup.STUDY)
    distances = [cast(float, row[3]) for row in result.table.rows]
    twins = torch.tensor([[2.0, 2.0, 1.0]], dtype=torch.float64)
    shared = functional.softmax(1000 * twins)[0]
    falls, apart = distances[-1] < distances[0] / 10, shared[0].item() > 0.99
    return ClaimMeasurement(
        f"With scores × 1 the output is off the best value by {fmt(distances[0])}, with × 1000 by {fmt(distances[-1])}. Two "
        f"keys with equal scores share it: {fmt(shared[0].item())} each, at any size.",
        verdict_of(falls and apart, falls),
        "Where one score is the largest.",
        {"x1": distances[0], "x1000": distances[-1], "weight of a twin": shared[0].item()},
        result.panels[:1],
    )


# --- scores and softmax -----------------------------------------------------------------------------------------------
@claim("A number added to all scores of a row changes nothing: softmax(z) = softmax(z + c).", "Goodfellow 2016, section 6.2.2.3")
def softmax_ignores_a_constant(setting: Setting) -> ClaimMeasurement:
    z = normal(200, 32)
    wide = {c: (functional.softmax(z + c) - functional.softmax(z)).abs().max().item() for c in (1.0, 100.0)}
    narrow = {c: (functional.softmax(z.float() + c) - functional.softmax(z.float())).abs().max().item() for c in (1.0, 1e4, 1e7)}
    exact = max(wide.values()) < ROUNDING
    return ClaimMeasurement(
        f"In float64 weights move by {fmt(max(wide.values()))} at c = 1 and 100. In float32 they move by {fmt(narrow[1.0])} at "
        f"c = 1, {fmt(narrow[1e4])} at 10 000 and {fmt(narrow[1e7])} at ten million, where scores lose their digits.",
        verdict_of(exact and narrow[1e7] < 1e-5, exact),
        "While c leaves the scores their digits: what is lost is lost in z + c.",
        {f"float64, c = {c:g}": e for c, e in wide.items()} | {f"float32, c = {c:g}": e for c, e in narrow.items()},
    )


@claim("Subtracting the largest score of each row before the exponential prevents overflow.", "Goodfellow 2016, section 4.1")
def maximum_prevents_overflow(setting: Setting) -> ClaimMeasurement:
    numbers = setting.result(scaling.STUDY).numbers
    naive, careful = numbers["overflows, not scaled"] or 0.0, numbers["overflows, maximum subtracted"] or 0.0
    large = torch.tensor([[1e4, 1e4 - 1, -1e4]])
    kept = functional.softmax(large).isfinite().all().item()
    return ClaimMeasurement(
        f"Of unscaled rows at K = 1024, {fmt(100 * naive)} % are not finite in float32 without it and {fmt(100 * careful)} % "
        f"with it; scores of ±10 000 {'also give' if kept else 'do not give'} finite weights.",
        verdict_of(naive > 0 and careful == 0 and bool(kept)),
        "",
        {"without": naive, "with": careful},
    )


@claim(
    "Scores are divided by √K for numerical stability, so that the exponential does not overflow.",
    "a common reading of Vaswani 2017, section 3.2.1; Alammar 2018, “The Illustrated Transformer” (“more stable gradients”)",
)
def scale_is_for_stability(setting: Setting) -> ClaimMeasurement:
    result = setting.result(scaling.STUDY)
    needed = result.numbers["overflows, maximum subtracted"] or 0.0
    scores = scaled_dot(normal(64, 64), normal(64, 64)).float() * 300
    naive = scores.exp()
    left = 1 - (naive / naive.sum(-1, keepdim=True)).isfinite().all(-1).double().mean().item()
    return ClaimMeasurement(
        f"Without the scale, but with the maximum subtracted, {fmt(100 * needed)} % of rows overflow: nothing is left for it to "
        f"prevent. And with the scale alone, {fmt(100 * left)} % of rows overflow once queries and keys have grown 17-fold.",
        verdict_of(needed > 0 and left == 0, needed > 0),
        "What it prevents is saturation: see large-products-saturate. Stability is the maximum's work: see "
        "maximum-prevents-overflow.",
        {"overflows, not scaled, maximum subtracted": needed, "overflows, scaled, maximum not subtracted": left},
    )


@claim("For queries and keys of mean 0 and variance 1, q·k has mean 0 and variance K.", "Vaswani 2017, section 3.2.1, footnote 4")
def variance_of_a_product_is_its_width(setting: Setting) -> ClaimMeasurement:
    result = setting.result(scaling.STUDY)
    ratio = result.numbers["variance / K, not scaled"] or 0.0
    table = [(row[0], row[2]) for row in result.table.rows if row[1] == "not scaled"]
    worst = max(abs(cast(float, v) / cast(float, k) - 1) for k, v in table)
    q = normal(4000, 64)
    own = (q * q).sum(-1)
    return ClaimMeasurement(
        f"Variance / K is {fmt(ratio)} at K = {table[-1][0]}, and off 1 by {fmt(worst)} at most from K = {table[0][0]} on. A "
        f"vector with itself has mean {fmt(own.mean().item() / 64)} K and variance {fmt(own.var().item() / 64)} K.",
        verdict_of(worst < 0.1),
        "Queries and keys have to be independent, as they are before training.",
        {"variance / K": ratio, "worst": worst, "of a vector with itself": own.var().item() / 64},
        result.panels[:1],
    )


@claim("Without 1/√K, large products push softmax into regions with extremely small gradients.", "Vaswani 2017, section 3.2.1")
def large_products_saturate(setting: Setting) -> ClaimMeasurement:
    result = setting.result(scaling.STUDY)
    n = {name: value or 0.0 for name, value in result.numbers.items()}
    typical, mean = (n[f"{kind} gradient, last"] / n[f"{kind} gradient, first"] for kind in ("median", "mean"))
    return ClaimMeasurement(
        f"From K = 4 to 1024 the median gradient of softmax falls to {fmt(typical)} of itself, the mean gradient to "
        f"{fmt(mean)}; with the scale the median stays at {fmt(n['median gradient, scaled, last'])}.",
        verdict_of(typical < 0.01 and mean < 0.01, typical < 0.01),
        f"In most rows. The mean falls only as K^{fmt(n['power of the mean'])}: rows in which two scores are close still learn.",
        {"median": typical, "mean": mean, "power of the mean": n["power of the mean"]},
        result.panels[2:],
    )


@claim("QKᵀ has rank K at most, however many words there are: narrow heads are a bottleneck.", "Bhojanapalli 2020, section 3")
def scores_have_rank_k(setting: Setting) -> ClaimMeasurement:
    n = 32 if setting.quick else 128
    ranks = {k: int(torch.linalg.matrix_rank(scaled_dot(normal(n, k), normal(n, k)))) for k in (2, 8, n // 2)}
    after = {k: int(torch.linalg.matrix_rank(functional.softmax(3 * scaled_dot(normal(n, k), normal(n, k))))) for k in (2, 8)}
    listed = ", ".join(f"{r} at K = {k}" for k, r in ranks.items())
    return ClaimMeasurement(
        f"Of {n} words, scores have rank {listed}; their softmax has {after[2]} and {after[8]} at K = 2 and 8.",
        verdict_of(all(r <= k for k, r in ranks.items())),
        "A bottleneck of the scores: the weights have more rank than they.",
        {f"rank at K = {k}": r for k, r in ranks.items()} | {f"rank of softmax at K = {k}": r for k, r in after.items()},
    )


@claim("Luong's concat score is Bahdanau's additive score.", "Luong 2015, section 3.1; Bahdanau 2015, appendix A.1.2")
def concat_is_additive(setting: Setting) -> ClaimMeasurement:
    concat, additive = Concat().sized(2, 8), Additive().sized(2, 8)
    with torch.no_grad():
        joined = torch.cat([additive.query_weight, additive.key_weight], -2)
        concat.weight.copy_(joined)
        concat.out.copy_(additive.out)
    q, k = normal(2, 5, 8), normal(2, 7, 8)
    error = relative_error(concat.double()(q, k, 8), additive.double()(q, k, 8))
    with torch.no_grad():
        concat.weight.copy_(joined.flip(-2))
    other = relative_error(concat(q, k, 8), additive(q, k, 8))
    return ClaimMeasurement(
        f"With W = [W_q; W_k] scores differ by {fmt(error)}, with the halves reversed by {fmt(other)}.",
        verdict_of(error < ROUNDING < other),
        "",
        {"same weights": error, "reversed": other},
    )


# --- heads ------------------------------------------------------------------------------------------------------------
@claim("With a single head, averaging keeps a word from attending to two positions at once.", "Vaswani 2017, section 3.2.2")
def one_head_averages(setting: Setting) -> ClaimMeasurement:
    n, width = 8, 16
    x = normal(n, width)
    wanted = torch.cat([x.roll(1, 0)[:, : width // 2], x.roll(-1, 0)[:, width // 2 :]], 1)
    both = MultiHeadAttention(width, heads=2, output=False).double()
    with torch.no_grad():
        both.q_proj.weight.zero_()
        both.v_proj.weight.copy_(torch.eye(width))
    two = relative_error(both(Tokens.of(x), Offsets(torch.tensor([[-1], [1]]), None, (n,))), wanted)
    best = torch.linalg.lstsq(x.T, wanted.T).solution.T  # any weights at all, negative ones too
    one = relative_error(best @ x, wanted)
    return ClaimMeasurement(
        f"Wanted: half of the word before and half of the word after. Two heads give it up to {fmt(two)}; the best weights of "
        f"one head, negative ones allowed, miss {fmt(one)} of it.",
        verdict_of(two < ROUNDING and one > 0.1),
        "",
        {"two heads": two, "one head": one},
    )


@claim(
    "Grouped queries interpolate: as many groups as heads is multi-head attention, one group is multi-query.",
    "Ainslie 2023, section 2.2",
)
def grouped_queries_interpolate(setting: Setting) -> ClaimMeasurement:
    tokens = text(10, 16)
    errors = {}
    for groups in (1, 2, 4):
        few = MultiHeadAttention(16, heads=4, kv_heads=groups).double()
        full = MultiHeadAttention(16, heads=4).double()
        with torch.no_grad():
            for name in ("q_proj.weight", "o_proj.weight"):
                full.get_parameter(name).copy_(few.get_parameter(name))
            for name in ("k_proj.weight", "v_proj.weight"):
                kept = few.get_parameter(name).unflatten(0, (groups, -1))
                full.get_parameter(name).copy_(kept.repeat_interleave(4 // groups, 0).flatten(0, 1))
        errors[groups] = relative_error(few(tokens), full(tokens))
    return ClaimMeasurement(
        f"Of 4 heads, with keys and values repeated for the heads that share them, grouped equals multi-head attention up to "
        f"{fmt(max(errors.values()))}, with 1, 2 and 4 groups.",
        verdict_of(max(errors.values()) < ROUNDING),
        "",
        {f"{g} groups": e for g, e in errors.items()},
    )
