"""Claims about encodings that are added to words: which positions they distinguish, and what becomes of the word."""

import math

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.positions import (
    Concatenated,
    Fourier,
    Learned,
    Sinusoidal,
)
from equiscope.study import collide, orthogonality, split
from equiscope.study.base import fmt, mean_of
from equiscope.study.claims.base import (
    ROUNDING,
    ClaimMeasurement,
    Setting,
    claim,
    curve,
    figure_panel,
    normal,
    position_column,
    verdict_of,
)
from equiscope.symmetry import relative_error


# --- sinusoids --------------------------------------------------------------------------------------------------------
@claim(
    "Sinusoidal encodings give every position a different vector, up to the period.",
    "Kazemnejad 2019, “Transformer Architecture: The Positional Encoding”; Vaswani 2017, section 3.5",
)
def sinusoids_are_unique(setting: Setting) -> ClaimMeasurement:
    result = setting.result(collide.STUDY)
    one, pair, ladder, positions = (int(result.numbers[n] or 0) for n in ("one sine", "pair", "ladder", "positions"))
    narrow = len(torch.unique(Sinusoidal().encode(position_column(positions), collide.WIDTH).bfloat16(), dim=0))
    period = collide.PERIOD
    return ClaimMeasurement(
        f"One sine of period {period} takes {one} values on {period} positions; with its cosine {pair}, and no more after the "
        f"period. A ladder of {collide.WIDTH // 2} pairs distinguishes {ladder} of {positions} positions, {narrow} in bfloat16.",
        verdict_of(one == period and pair == period and ladder == positions == narrow, pair == period and ladder == positions),
        "For sines with their cosines; a sine alone collides at once (i and period/2 − i).",
        {"one sine": one, "sine and cosine": pair, "ladder": ladder, "ladder, bfloat16": narrow, "positions": positions},
        result.panels[:1],
    )


@claim("The wavelengths of the sinusoids go from 2π to 10000 · 2π.", "Vaswani 2017, section 3.5")
def wavelengths_reach_ten_thousand(setting: Setting) -> ClaimMeasurement:
    ends = {d: (2 * math.pi / Sinusoidal().frequencies(d)) / (2 * math.pi) for d in (8, 64, 512)}
    last = {d: w[-1].item() for d, w in ends.items()}
    first = max(abs(w[0].item() - 1) for w in ends.values())
    return ClaimMeasurement(
        f"In units of 2π the longest is {', '.join(f'{fmt(w)} at D = {d}' for d, w in last.items())}; the shortest is off 1 by "
        f"{fmt(first)}.",
        verdict_of(all(abs(w / 1e4 - 1) < 1e-6 for w in last.values()), abs(last[512] / 1e4 - 1) < 0.05),
        "As D grows: with the exponent 2k/D the last one is 10000^(1 − 2/D).",
        {f"longest / 2 pi, D = {d}": w for d, w in last.items()},
    )


@claim("For any fixed offset k, PE(pos + k) is a linear function of PE(pos).", "Vaswani 2017, section 3.5")
def a_shift_of_sinusoids_is_linear(setting: Setting) -> ClaimMeasurement:
    numbers = setting.result(collide.STUDY).numbers
    both, sines = numbers["sine + cosine"] or 0.0, numbers["sines only"] or 0.0
    p = Sinusoidal().encode(position_column(60), 8)
    turn = torch.linalg.lstsq(p[:20], p[5:25], driver="gelsd").solution
    elsewhere = relative_error(p[30:50] @ turn, p[35:55])
    return ClaimMeasurement(
        f"The best linear map from position i to i + {collide.STEPS} leaves {fmt(both)}, with sines alone {fmt(sines)}. The map "
        f"found on positions 0..19 serves positions 30..49 up to {fmt(elsewhere)}.",
        verdict_of(both < ROUNDING and elsewhere < 1e-9),
        "It needs each sine's cosine.",
        {"sine and cosine": both, "sines alone": sines, "elsewhere": elsewhere},
    )


@claim(
    "The product of two sinusoidal encodings decays monotonically with the distance of their positions.",
    "Kazemnejad 2019, “Transformer Architecture: The Positional Encoding” (“decays nicely with time”)",
)
def sinusoids_decay_monotonically(setting: Setting) -> ClaimMeasurement:
    far = 64 if setting.quick else 256
    products = {d: _products(Sinusoidal(), d, far) for d in (32, 64, 512)}
    rises = {d: int((p.diff() > 0).sum()) for d, p in products.items()}
    five, six = (products[64][k].item() * 32 for k in (5, 6))
    envelope = {d: bool((p[1:].unfold(0, 16, 16).amax(-1).diff() < 0).all()) for d, p in products.items()}
    return ClaimMeasurement(
        f"Of {far} steps the product rises in {', '.join(f'{r} (D = {d})' for d, r in rises.items())}: at D = 64, p₀·p₅ = "
        f"{five:.2f} < p₀·p₆ = {six:.2f}. The highest of every 16 steps "
        f"{'falls' if all(envelope.values()) else 'does not always fall either'}.",
        verdict_of(not any(rises.values())),
        "It falls on a large scale with ripples on a small one, and levels off: low frequencies change little.",
        {f"rises, D = {d}": r for d, r in rises.items()},
        figure_panel(
            "cosine of two encodings", "distance", "", *[curve(f"D = {d}", list(range(far + 1)), p) for d, p in products.items()]
        ),
    )


def _products(scheme: Sinusoidal, width: int, far: int) -> Tensor:
    """Cosine of the encodings of position 0 and of positions 0 .. far."""
    p = scheme.encode(position_column(far + 1), width)
    return p @ p[0] / (width / 2)


@claim("Sinusoids encode the distance of two positions, but not the direction.", "Yan 2019 (TENER), section 3.2")
def sinusoids_have_no_direction(setting: Setting) -> ClaimMeasurement:
    p, mid = Sinusoidal().encode(position_column(41), 32), 20
    bare = p @ p[mid]
    symmetric = relative_error(bare.flip(0), bare)
    turn = torch.linalg.lstsq(p[:-3], p[3:], driver="gelsd").solution  # one step of the query, three positions on
    products = p @ (p[mid] @ turn)
    best = int(products.argmax()) - mid
    return ClaimMeasurement(
        f"p_t · p_(t+k) and p_t · p_(t−k) differ by {fmt(symmetric)}. With a matrix between them that rotates by three positions, "
        f"the largest product is at k =  {best:+d}, and the two sides differ by {fmt(relative_error(products.flip(0), products))}.",
        verdict_of(symmetric < ROUNDING and best == 0, symmetric < ROUNDING),
        "The bare product. W_Q and W_K can rotate one side; that they must is what the paper criticises.",
        {"bare": symmetric, "largest with a matrix at": best},
    )


@claim("What two sinusoidal positions contribute to a score depends on their distance only.", "Yan 2019 (TENER), section 3.2")
def sinusoid_scores_are_relative(setting: Setting) -> ClaimMeasurement:
    numbers = setting.result(split.STUDY).numbers
    bare, mapped = (numbers[f"position-position off its diagonals, W {w}"] or 0.0 for w in ("= 1", "random"))
    return ClaimMeasurement(
        f"What of p_i W p_j is no function of i − j: {fmt(bare)} for W = 1, {fmt(mapped)} of its size for random W_Q and W_K.",
        verdict_of(mapped < ROUNDING, bare < ROUNDING),
        "Without weights in between (or weights that commute with every rotation).",
        {"W = 1": bare, "W random": mapped},
    )


@claim("The product of random Fourier features approximates a Gaussian kernel of the distance.", "Rahimi 2007, section 3, claim 1")
def fourier_features_make_a_kernel(setting: Setting) -> ClaimMeasurement:
    at, errors = position_column(200) / 50, {}
    wanted = torch.exp(-(at - at.T).square() / 2)
    for width in (32, 512, 8192):
        encodings = (Fourier(seed=setting.seed + draw).sized(width, 1, width).encode(at, width) for draw in range(8))
        errors[width] = mean_of((p @ p.T / (width / 2) - wanted).abs().max().item() for p in encodings)
    power = math.log(errors[8192] / errors[32]) / math.log(8192 / 32)
    return ClaimMeasurement(
        f"The largest error, mean of 8 draws, is {', '.join(f'{fmt(e)} at D = {d}' for d, e in errors.items())}: it falls as "
        f"D^{fmt(power)} (1/√D would be D^-0.5).",
        verdict_of(errors[8192] < 0.1 and power < -0.3),
        "",
        {f"D = {d}": e for d, e in errors.items()} | {"power": power},
    )


# --- added, beside, and what becomes of the word ----------------------------------------------------------------------
@claim(
    "Adding a position and concatenating it are the same, once a linear map follows.",
    "Kazemnejad 2019, “Transformer Architecture: The Positional Encoding”, FAQ (summed or concatenated)",
)
def adding_is_concatenating(setting: Setting) -> ClaimMeasurement:
    n, d = 24, 16
    x, at = normal(n, d), position_column(n)
    wide = Concatenated().sized(d, 1, d)
    weights = normal(2 * d, d) / math.sqrt(d)
    joined, p = wide.embed(x, at) @ weights, Sinusoidal().encode(at, d)
    projected = relative_error(joined, x @ weights[:d] + p @ weights[d:])
    many = normal(400, d)
    positions = Sinusoidal().encode(torch.arange(400, dtype=torch.float64)[:, None] % n, d)
    wanted = many @ weights[:d] + positions @ weights[d:]
    best = torch.linalg.lstsq(many + positions, wanted, driver="gelsd").solution
    added = relative_error((many + positions) @ best, wanted)
    tied = relative_error(torch.cat([x, p], 1) @ torch.cat([weights[:d], weights[:d]]), (x + p) @ weights[:d])
    return ClaimMeasurement(
        f"[x; p] W is x W₁ + p W₂ up to {fmt(projected)}, and x + p is its case W₁ = W₂ ({fmt(tied)}). The other way round, "
        f"the best map of x + p misses {fmt(added)} of x W₁ + p W₂ when W₁ and W₂ differ.",
        verdict_of(max(projected, tied) < ROUNDING and added < ROUNDING, max(projected, tied) < ROUNDING),
        "Concatenation is adding a projected position. Adding the position itself is less: one map for both.",
        {"projected": projected, "tied": tied, "added, best": added},
    )


@claim(
    "Adding a position vector does not disturb the meaning of the word.",
    "Kazemnejad 2019, “Transformer Architecture: The Positional Encoding”, FAQ (meaning stays separable)",
)
def positions_do_not_disturb_meaning(setting: Setting) -> ClaimMeasurement:
    result = setting.result(orthogonality.STUDY)
    one, own, word = (result.numbers[n] or 0.0 for n in (
        "neighbours kept, one position, sinusoidal", "neighbours kept, own positions, sinusoidal", "word read at 64"))  # fmt: skip
    small = result.numbers["neighbours kept, own positions, learned"] or 0.0
    return ClaimMeasurement(
        f"Of each word's nearest neighbours, {fmt(100 * one)} % stay while all words share a position, and {fmt(100 * own)} % "
        f"when every word has its own (sinusoids, D = 64; {fmt(100 * small)} % with a small learned table). A linear map still "
        f"reads the word in {fmt(100 * word)} % of unseen pairs.",
        verdict_of(own > 0.95, word > 0.95),
        "A linear map can take both apart; distances and analogies are disturbed as much as the encoding is long.",
        {"one position": one, "own positions": own, "own positions, learned": small, "word read": word},
        result.panels[:1],
        result.data,
    )


@claim(
    "In many dimensions, random vectors are nearly orthogonal, so words and positions hardly overlap.",
    "Vershynin 2018, “High-Dimensional Probability”, section 3.2",
)
def random_vectors_are_nearly_orthogonal(setting: Setting) -> ClaimMeasurement:
    study = setting.result(orthogonality.STUDY)
    cosines, formula, between, meeting = (
        study.numbers[n] or 0.0 for n in ("random at 64", "formula at 64", "between positions", "word and position")
    )
    return ClaimMeasurement(
        f"At D = 64, mean |cos| is {fmt(cosines)} for random vectors (√(2/(πD)) = {fmt(formula)}), {fmt(meeting)} between "
        f"words and sinusoids, and {fmt(between)} between one position and another.",
        verdict_of(max(cosines, meeting, between) < 1.5 * formula, max(cosines, meeting) < 1.5 * formula),
        "Words and positions do; positions among themselves do not: sinusoids are no random vectors.",
        {"random": cosines, "formula": formula, "word and position": meeting, "between positions": between},
        study.panels[:1],
        study.data,
    )


@claim(
    "With added positions, a score is a sum of four: word–word, word–position, position–word, position–position.",
    "Dai 2019 (Transformer-XL), section 3.3; He 2021 (DeBERTa), section 3.1",
)
def scores_split_into_four(setting: Setting) -> ClaimMeasurement:
    result = setting.result(split.STUDY)
    off = result.numbers["sum against the score"] or 0.0
    shares = {part: result.numbers[f"share of {part}"] or 0.0 for part in split.PARTS}
    return ClaimMeasurement(
        f"The four sum to the score up to {fmt(off)}. With words as long as positions their shares of the squared size are "
        f"{', '.join(f'{fmt(100 * s)} % {part}' for part, s in shares.items())}.",
        verdict_of(off < ROUNDING),
        "",
        {"off": off, **shares},
        result.panels,
    )


# --- learned tables ---------------------------------------------------------------------------------------------------
@claim("A table of learned positions cannot be used beyond its length.", "Press 2022, section 2")
def learned_positions_do_not_extrapolate(setting: Setting) -> ClaimMeasurement:
    scheme = Learned(16).sized(8, 1, 8).double()
    try:
        scheme.encode(position_column(17), 8)
        refused = False
    except InputError:
        refused = True
    stretched = Learned(16, stretch=32).sized(8, 1, 8).double()
    with torch.no_grad():
        stretched.table.weight.copy_(scheme.table.weight)
        longer = stretched.encode(position_column(32), 8)
        ends = relative_error(longer[[0, -1]], scheme.table.weight[[0, -1]])
    return ClaimMeasurement(
        f"Place 16 of a table of 16 rows is {'refused' if refused else 'answered'}. Read by interpolation, the table answers 32 "
        f"positions, and the first and last are its own rows up to {fmt(ends)}.",
        verdict_of(refused and ends > ROUNDING, refused),
        "As it is. With interpolation (Dosovitskiy 2021, section 3.2) it gives vectors that were not trained.",
        {"refused": float(refused), "ends": ends},
    )


@claim(
    "Learned absolute positions come to be translation invariant: products depend on the distance.",
    "the property tested by Wang 2021, “On Position Embeddings in BERT”, abstract",
)
def learned_positions_become_relative(setting: Setting) -> ClaimMeasurement:
    with torch.no_grad():
        table = Learned(64).sized(64, 1, 64).double().table.weight
        fresh = split.off_diagonals(table @ table.T - torch.diag((table * table).sum(-1)))
    waves = Sinusoidal().encode(position_column(64), 64)
    bare = split.off_diagonals(waves @ waves.T)
    trained, wanted = _table_of_distances(300 if setting.quick else 1500)
    return ClaimMeasurement(
        f"What of p_i·p_j is no function of i − j: {fmt(fresh)} for a fresh table ({fmt(bare)} for sinusoids). Trained until "
        f"its products are e^(−|i−j|/4) up to {fmt(wanted)}, the table has {fmt(trained)}.",
        verdict_of(fresh < 0.1, trained < 0.1),
        "Nothing in a table makes it so; training can, where the task wants it.",
        {"fresh": fresh, "sinusoids": bare, "trained": trained},
    )


def _table_of_distances(steps: int) -> tuple[float, float]:
    """A table fitted to products that fall with distance: what is no function of i - j, and what is left of the target."""
    table = (0.02 * normal(32, 32)).requires_grad_()
    target = torch.exp(-(position_column(32) - position_column(32).T).abs() / 4)
    optimiser = torch.optim.Adam([table], 0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        (table @ table.T - target).square().sum().backward()
        optimiser.step()
    products = (table @ table.T).detach()
    return split.off_diagonals(products), relative_error(products, target)
