"""Claims about encodings that are added to words: what they tell apart, and what becomes of the word."""

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
from equiscope.study.base import mean_of, shown
from equiscope.study.claims.base import ROUNDING, Measured, Setting, claim, counted, curve, normal, picture, ruled
from equiscope.symmetry import relative_error


# --- sinusoids --------------------------------------------------------------------------------------------------------
@claim(
    "Sinusoidal encodings give every place a row of its own, up to the period.",
    "Kazemnejad 2019, “Transformer Architecture: The Positional Encoding”; Vaswani 2017, section 3.5",
)
def sinusoids_are_unique(setting: Setting) -> Measured:
    found = setting.finding(collide.STUDY)
    one, pair, ladder, places = (int(found.numbers[n] or 0) for n in ("one sine", "pair", "ladder", "places"))
    narrow = len(torch.unique(Sinusoidal().encode(counted(places), collide.WIDTH).bfloat16(), dim=0))
    period = collide.PERIOD
    return Measured(
        f"One sine of period {period} takes {one} values on {period} places; with its cosine {pair}, and no more after the "
        f"period. A ladder of {collide.WIDTH // 2} pairs tells {ladder} of {places} places apart, {narrow} in bfloat16.",
        ruled(one == period and pair == period and ladder == places == narrow, pair == period and ladder == places),
        "For sines with their cosines; a sine alone collides at once (i and period/2 − i).",
        {"one sine": one, "sine and cosine": pair, "ladder": ladder, "ladder, bfloat16": narrow, "places": places},
        found.panels[:1],
    )


@claim("The wavelengths of the sinusoids go from 2π to 10000 · 2π.", "Vaswani 2017, section 3.5")
def wavelengths_reach_ten_thousand(setting: Setting) -> Measured:
    ends = {d: (2 * math.pi / Sinusoidal().frequencies(d)) / (2 * math.pi) for d in (8, 64, 512)}
    last = {d: w[-1].item() for d, w in ends.items()}
    first = max(abs(w[0].item() - 1) for w in ends.values())
    return Measured(
        f"In units of 2π the longest is {', '.join(f'{shown(w)} at D = {d}' for d, w in last.items())}; the shortest is off 1 by "
        f"{shown(first)}.",
        ruled(all(abs(w / 1e4 - 1) < 1e-6 for w in last.values()), abs(last[512] / 1e4 - 1) < 0.05),
        "As D grows: with the exponent 2k/D the last one is 10000^(1 − 2/D).",
        {f"longest / 2 pi, D = {d}": w for d, w in last.items()},
    )


@claim("For any fixed offset k, PE(pos + k) is a linear function of PE(pos).", "Vaswani 2017, section 3.5")
def a_step_is_linear(setting: Setting) -> Measured:
    numbers = setting.finding(collide.STUDY).numbers
    both, sines = numbers["sine + cosine"] or 0.0, numbers["sines only"] or 0.0
    p = Sinusoidal().encode(counted(60), 8)
    turn = torch.linalg.lstsq(p[:20], p[5:25], driver="gelsd").solution
    elsewhere = relative_error(p[30:50] @ turn, p[35:55])
    return Measured(
        f"The best linear map from place i to i + {collide.STEPS} leaves {shown(both)}, with sines alone {shown(sines)}. The map "
        f"found on places 0..19 serves places 30..49 up to {shown(elsewhere)}.",
        ruled(both < ROUNDING and elsewhere < 1e-9),
        "It needs each sine's cosine.",
        {"sine and cosine": both, "sines alone": sines, "elsewhere": elsewhere},
    )


@claim(
    "The product of two sinusoidal encodings decays monotonically with the distance of their places.",
    "Kazemnejad 2019, “Transformer Architecture: The Positional Encoding” (“decays nicely with time”)",
)
def sinusoids_decay_monotonically(setting: Setting) -> Measured:
    far = 64 if setting.quick else 256
    products = {d: _products(Sinusoidal(), d, far) for d in (32, 64, 512)}
    rises = {d: int((p.diff() > 0).sum()) for d, p in products.items()}
    five, six = (products[64][k].item() * 32 for k in (5, 6))
    envelope = {d: bool((p[1:].unfold(0, 16, 16).amax(-1).diff() < 0).all()) for d, p in products.items()}
    return Measured(
        f"Of {far} steps the product rises in {', '.join(f'{r} (D = {d})' for d, r in rises.items())}: at D = 64, p₀·p₅ = "
        f"{five:.2f} < p₀·p₆ = {six:.2f}. The highest of every 16 steps "
        f"{'falls' if all(envelope.values()) else 'does not always fall either'}.",
        ruled(not any(rises.values())),
        "It falls in the large and ripples in the small, and levels off: slow clocks hardly turn.",
        {f"rises, D = {d}": r for d, r in rises.items()},
        picture(
            "cosine of two encodings", "distance", "", *[curve(f"D = {d}", list(range(far + 1)), p) for d, p in products.items()]
        ),
    )


def _products(scheme: Sinusoidal, width: int, far: int) -> Tensor:
    """Cosine of the encodings of place 0 and of places 0 .. far."""
    p = scheme.encode(counted(far + 1), width)
    return p @ p[0] / (width / 2)


@claim("Sinusoids know the distance of two places, but not the direction.", "Yan 2019 (TENER), section 3.2")
def sinusoids_have_no_direction(setting: Setting) -> Measured:
    p, mid = Sinusoidal().encode(counted(41), 32), 20
    bare = p @ p[mid]
    symmetric = relative_error(bare.flip(0), bare)
    turn = torch.linalg.lstsq(p[:-3], p[3:], driver="gelsd").solution  # one step of the query, three places on
    asked = p @ (p[mid] @ turn)
    best = int(asked.argmax()) - mid
    return Measured(
        f"p_t · p_(t+k) and p_t · p_(t−k) differ by {shown(symmetric)}. With a matrix between them that turns by three places, the "
        f"largest product is at k = {best:+d}, and the two sides differ by {shown(relative_error(asked.flip(0), asked))}.",
        ruled(symmetric < ROUNDING and best == 0, symmetric < ROUNDING),
        "The bare product. W_Q and W_K can turn one side; that they must is what the paper criticises.",
        {"bare": symmetric, "largest with a matrix at": best},
    )


@claim("What two sinusoidal places contribute to a score depends on their distance only.", "Yan 2019 (TENER), section 3.2")
def sinusoid_scores_are_relative(setting: Setting) -> Measured:
    numbers = setting.finding(split.STUDY).numbers
    bare, mapped = (numbers[f"place-place off its diagonals, W {w}"] or 0.0 for w in ("= 1", "random"))
    return Measured(
        f"What of p_i W p_j is no function of i − j: {shown(bare)} for W = 1, {shown(mapped)} of its size for random W_Q and W_K.",
        ruled(mapped < ROUNDING, bare < ROUNDING),
        "Without weights in between (or weights that commute with every rotation).",
        {"W = 1": bare, "W random": mapped},
    )


@claim("The product of random Fourier features approximates a Gaussian kernel of the distance.", "Rahimi 2007, section 3, claim 1")
def fourier_features_make_a_kernel(setting: Setting) -> Measured:
    at, errors = counted(200) / 50, {}
    wanted = torch.exp(-(at - at.T).square() / 2)
    for width in (32, 512, 8192):
        found = (Fourier(seed=setting.seed + draw).sized(width, 1, width).encode(at, width) for draw in range(8))
        errors[width] = mean_of((p @ p.T / (width / 2) - wanted).abs().max().item() for p in found)
    power = math.log(errors[8192] / errors[32]) / math.log(8192 / 32)
    return Measured(
        f"The largest error, mean of 8 draws, is {', '.join(f'{shown(e)} at D = {d}' for d, e in errors.items())}: it falls as "
        f"D^{shown(power)} (1/√D would be D^-0.5).",
        ruled(errors[8192] < 0.1 and power < -0.3),
        "",
        {f"D = {d}": e for d, e in errors.items()} | {"power": power},
    )


# --- added, beside, and what becomes of the word ----------------------------------------------------------------------
@claim(
    "Adding a position and concatenating it are the same, once a linear map follows.",
    "Kazemnejad 2019, “Transformer Architecture: The Positional Encoding”, FAQ (summed or concatenated)",
)
def adding_is_concatenating(setting: Setting) -> Measured:
    n, d = 24, 16
    x, at = normal(n, d), counted(n)
    wide = Concatenated().sized(d, 1, d)
    weights = normal(2 * d, d) / math.sqrt(d)
    joined, p = wide.embed(x, at) @ weights, Sinusoidal().encode(at, d)
    projected = relative_error(joined, x @ weights[:d] + p @ weights[d:])
    many = normal(400, d)
    places = Sinusoidal().encode(torch.arange(400, dtype=torch.float64)[:, None] % n, d)
    wanted = many @ weights[:d] + places @ weights[d:]
    best = torch.linalg.lstsq(many + places, wanted, driver="gelsd").solution
    added = relative_error((many + places) @ best, wanted)
    tied = relative_error(torch.cat([x, p], 1) @ torch.cat([weights[:d], weights[:d]]), (x + p) @ weights[:d])
    return Measured(
        f"[x; p] W is x W₁ + p W₂ up to {shown(projected)}, and x + p is its case W₁ = W₂ ({shown(tied)}). The other way round, "
        f"the best map of x + p misses {shown(added)} of x W₁ + p W₂ when W₁ and W₂ differ.",
        ruled(max(projected, tied) < ROUNDING and added < ROUNDING, max(projected, tied) < ROUNDING),
        "Concatenation is adding a projected position. Adding the position itself is less: one map for both.",
        {"projected": projected, "tied": tied, "added, best": added},
    )


@claim(
    "Adding a position vector does not disturb the meaning of the word.",
    "Kazemnejad 2019, “Transformer Architecture: The Positional Encoding”, FAQ (meaning stays separable)",
)
def positions_do_not_disturb_meaning(setting: Setting) -> Measured:
    found = setting.finding(orthogonality.STUDY)
    one, own, word = (found.numbers[n] or 0.0 for n in (
        "neighbours kept, one place, sinusoidal", "neighbours kept, own places, sinusoidal", "word read at 64"))  # fmt: skip
    small = found.numbers["neighbours kept, own places, learned"] or 0.0
    return Measured(
        f"Of each word's nearest neighbours, {shown(100 * one)} % stay while all words share a place, and {shown(100 * own)} % "
        f"when every word has its own (sinusoids, D = 64; {shown(100 * small)} % with a small learned table). A linear map still "
        f"reads the word in {shown(100 * word)} % of unseen pairs.",
        ruled(own > 0.95, word > 0.95),
        "A linear map can take both apart; distances and analogies are disturbed as much as the encoding is long.",
        {"one place": one, "own places": own, "own places, learned": small, "word read": word},
        found.panels[:1],
        found.data,
    )


@claim(
    "In many dimensions, random vectors are nearly orthogonal, so words and positions hardly meet.",
    "Vershynin 2018, “High-Dimensional Probability”, section 3.2",
)
def random_vectors_hardly_meet(setting: Setting) -> Measured:
    study = setting.finding(orthogonality.STUDY)
    found, formula, between, meeting = (
        study.numbers[n] or 0.0 for n in ("random at 64", "formula at 64", "between places", "word and place")
    )
    return Measured(
        f"At D = 64, mean |cos| is {shown(found)} for random vectors (√(2/(πD)) = {shown(formula)}), {shown(meeting)} between "
        f"words and sinusoids, and {shown(between)} between one place and another.",
        ruled(max(found, meeting, between) < 1.5 * formula, max(found, meeting) < 1.5 * formula),
        "Words and places do; places among themselves do not: sinusoids are no random vectors.",
        {"random": found, "formula": formula, "word and place": meeting, "between places": between},
        study.panels[:1],
        study.data,
    )


@claim(
    "With added positions, a score is a sum of four: word–word, word–place, place–word, place–place.",
    "Dai 2019 (Transformer-XL), section 3.3; He 2021 (DeBERTa), section 3.1",
)
def scores_split_into_four(setting: Setting) -> Measured:
    found = setting.finding(split.STUDY)
    off = found.numbers["sum against the score"] or 0.0
    shares = {part: found.numbers[f"share of {part}"] or 0.0 for part in split.PARTS}
    return Measured(
        f"The four sum to the score up to {shown(off)}. With words as long as places their shares of the squared size are "
        f"{', '.join(f'{shown(100 * s)} % {part}' for part, s in shares.items())}.",
        ruled(off < ROUNDING),
        "",
        {"off": off, **shares},
        found.panels,
    )


# --- learned tables ---------------------------------------------------------------------------------------------------
@claim("A table of learned positions cannot be used beyond its length.", "Press 2022, section 2")
def learned_positions_end(setting: Setting) -> Measured:
    scheme = Learned(16).sized(8, 1, 8).double()
    try:
        scheme.encode(counted(17), 8)
        refused = False
    except InputError:
        refused = True
    stretched = Learned(16, stretch=32).sized(8, 1, 8).double()
    with torch.no_grad():
        stretched.table.weight.copy_(scheme.table.weight)
        longer = stretched.encode(counted(32), 8)
        ends = relative_error(longer[[0, -1]], scheme.table.weight[[0, -1]])
    return Measured(
        f"Place 16 of a table of 16 rows is {'refused' if refused else 'answered'}. Read by interpolation, the table answers 32 "
        f"places, and the first and last are its own rows up to {shown(ends)}.",
        ruled(refused and ends > ROUNDING, refused),
        "As it is. Interpolated (Dosovitskiy 2021, section 3.2) it has an answer, which nobody trained.",
        {"refused": float(refused), "ends": ends},
    )


@claim(
    "Learned absolute positions come to be translation invariant: products depend on the distance.",
    "the property tested by Wang 2021, “On Position Embeddings in BERT”, abstract",
)
def learned_positions_become_relative(setting: Setting) -> Measured:
    with torch.no_grad():
        table = Learned(64).sized(64, 1, 64).double().table.weight
        fresh = split.off_diagonals(table @ table.T - torch.diag((table * table).sum(-1)))
    waves = Sinusoidal().encode(counted(64), 64)
    bare = split.off_diagonals(waves @ waves.T)
    trained, wanted = _table_of_distances(300 if setting.quick else 1500)
    return Measured(
        f"What of p_i·p_j is no function of i − j: {shown(fresh)} for a fresh table ({shown(bare)} for sinusoids). Trained until "
        f"its products are e^(−|i−j|/4) up to {shown(wanted)}, the table has {shown(trained)}.",
        ruled(fresh < 0.1, trained < 0.1),
        "Nothing in a table makes it so; training can, where the task wants it.",
        {"fresh": fresh, "sinusoids": bare, "trained": trained},
    )


def _table_of_distances(steps: int) -> tuple[float, float]:
    """A table fitted to products that fall with distance: what is no function of i - j, and what is left of the target."""
    table = (0.02 * normal(32, 32)).requires_grad_()
    target = torch.exp(-(counted(32) - counted(32).T).abs() / 4)
    optimiser = torch.optim.Adam([table], 0.01)
    for _ in range(steps):
        optimiser.zero_grad()
        (table @ table.T - target).square().sum().backward()
        optimiser.step()
    products = (table @ table.T).detach()
    return split.off_diagonals(products), relative_error(products, target)
