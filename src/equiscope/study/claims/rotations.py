"""Claims about rotary positions: what stays when a text moves, what fades, what caches and narrow numbers do to it."""

import math

import torch
from torch import Tensor

from equiscope.attention import MultiHeadAttention, scaled_dot
from equiscope.positions import (
    Position,
    Rope,
    XPos,
)
from equiscope.positions.base import Role
from equiscope.positions.rope import half_from_interleaved
from equiscope.positions.scaling import DynamicNtk, Linear, Ntk, Yarn
from equiscope.study import decay, token_back
from equiscope.study.base import shown
from equiscope.study.claims.base import ROUNDING, Measured, Setting, claim, counted, curve, normal, picture, ruled, text
from equiscope.symmetry import relative_error


@claim("With RoPE a score depends on the places m and n through m − n only.", "Su 2021, section 3.2, equations 11 to 16")
def rope_is_relative(setting: Setting) -> Measured:
    q, k, at = normal(12, 16), normal(12, 16), counted(12)
    moves = {by: relative_error(_scores(Rope(), q, k, at + by), _scores(Rope(), q, k, at)) for by in (1, 1000, 100_000)}
    one_sided = relative_error(_scores(Rope(key_speed=0), q, k, at + 5), _scores(Rope(key_speed=0), q, k, at))
    narrow = relative_error(_scores(Rope(), q, k, (at + 4096).bfloat16().double()), _scores(Rope(), q, k, at))
    return Measured(
        f"Moved by 1, 1000 and 100 000 places, scores change by {', '.join(shown(e) for e in moves.values())}, the rounding of "
        f"their angles. With queries turned alone they change by {shown(one_sided)}.",
        ruled(max(e for by, e in moves.items() if by < 1e5) < ROUNDING and moves[100_000] < 1e-9),
        f"With places in enough digits: in bfloat16, a text at place 4096 has scores that are off by {shown(narrow)} (see "
        "bfloat16-breaks-rope).",
        {f"moved by {by}": e for by, e in moves.items()} | {"queries alone": one_sided, "places in bfloat16": narrow},
    )


def _scores(scheme: Position, q: Tensor, k: Tensor, at: Tensor) -> Tensor:
    return scaled_dot(scheme.rotate(q, at, "query"), scheme.rotate(k, at, "key"))


@claim("Rotary positions keep the lengths of queries and keys.", "Su 2021, section 3.2.2 (the matrix is orthogonal)")
def rope_keeps_lengths(setting: Setting) -> Measured:
    q, at = normal(50, 32), counted(50) * 1000
    schemes: dict[str, Position] = {
        "RoPE": Rope(),
        "with YaRN": Rope(scaling=Yarn(4.0, trained=1024)),
        "xPos": XPos(scale_base=1e5),
    }
    ratio = {name: (scheme.rotate(q, at, "query").norm(dim=-1) / q.norm(dim=-1)) for name, scheme in schemes.items()}
    off = {name: (r - 1).abs().max().item() for name, r in ratio.items()}
    return Measured(
        f"At places up to 49 000 lengths change by {shown(off['RoPE'])} of themselves; with YaRN's gain by "
        f"{shown(off['with YaRN'])}, alike at every place, and under xPos, which also scales, by up to {shown(off['xPos'])}.",
        ruled(off["RoPE"] < ROUNDING),
        "The rotation alone. So no score grows because of where its words are.",
        off,
    )


@claim("With RoPE, scores decay as the distance grows.", "Su 2021, section 3.3 (“long-term decay”)")
def rope_scores_decay(setting: Setting) -> Measured:
    found = setting.finding(decay.STUDY)
    line = next(line for panel in found.panels for line in panel.lines if line.name.startswith("rope (mean"))
    alike = torch.tensor([v or 0.0 for v in line.y], dtype=torch.float64)
    rises, far = int((alike.diff() > 0).sum()), alike[len(alike) // 2 :].mean().item()
    q, k = normal(400, 1, 64), normal(400, 1, 64)
    at = torch.tensor([[1.0], [200.0]], dtype=torch.float64)
    product = (Rope().rotate(q.expand(-1, 2, -1), at, "query") * Rope().rotate(k, at[:1] * 0, "key")).sum(-1).std(0)
    same = (product[1] / product[0]).item()
    return Measured(
        f"A vector and itself, turned: on average the product rises in {rises} of {len(line.y) - 1} steps, and over the farther "
        f"half it stays at {shown(far)}. For independent queries and keys, the size of scores at distance 200 is {shown(same)} "
        "times that at 1.",
        ruled(rises == 0 and same < 0.5, far < 0.75),
        "For queries that resemble their keys, in the mean, and never to 0 within these distances. Unrelated ones do not decay "
        "at all: a rotation keeps lengths.",
        {"rises": rises, "mean of the far half": far, "independent, far over near": same},
        found.panels[1:2],
    )


@claim(
    "Interleaved and half-split RoPE are one scheme, up to a permutation of the weights' columns.",
    "Su 2021, equation 34, against Hugging Face's conversion of Llama's weights",
)
def rotary_layouts_are_one(setting: Setting) -> Measured:
    tokens, ours, theirs = text(12, 16), MultiHeadAttention(16, heads=2).double(), MultiHeadAttention(16, heads=2).double()
    theirs.load_state_dict(ours.state_dict())
    unchanged = relative_error(theirs(tokens, Rope(pairs="half")), ours(tokens, Rope()))
    with torch.no_grad():
        for name in ("q_proj.weight", "k_proj.weight"):
            theirs.get_parameter(name).copy_(half_from_interleaved(ours.get_parameter(name), 2))
    moved = relative_error(theirs(tokens, Rope(pairs="half")), ours(tokens, Rope()))
    return Measured(
        f"With the columns of W_Q and W_K permuted, outputs agree up to {shown(moved)}; with the same weights they differ by "
        f"{shown(unchanged)}.",
        ruled(moved < ROUNDING < unchanged),
        "",
        {"permuted": moved, "as they are": unchanged},
    )


@claim(
    "Of a head of 128 at base 10000, 92 dimensions have seen a whole turn within 4096 tokens.",
    "Liu 2024, “Scaling Laws of RoPE-based Extrapolation”, section 3",
)
def ninety_two_dimensions_turn(setting: Setting) -> Measured:
    periods = 2 * math.pi / Rope().frequencies(128)
    turned = 2 * int((periods <= 4096).sum())
    larger = 2 * int((2 * math.pi / Rope(base=500_000.0).frequencies(128) <= 4096).sum())
    x = [i + 1 for i in range(64)]
    return Measured(
        f"{turned} of 128; at base 500 000 they are {larger}. The slowest turns once in {shown(periods[-1].item())} tokens.",
        ruled(turned == 92),
        "The others meet angles beyond 4096 tokens that they never met before.",
        {"turned": turned, "base 500 000": larger},
        picture(
            "tokens of one turn",
            "pair",
            "",
            curve("base 10000", x, periods),
            curve("4096 tokens", x, [4096.0] * 64, dashed=True),
            log="y",
        ),
    )


@claim(
    "NTK-aware scaling slows the slowest clock by the factor and leaves the fastest as it was.",
    "bloc97 2023, “NTK-Aware Scaled RoPE”; Peng 2023, section 3.1",
)
def ntk_slows_the_slow(setting: Setting) -> Measured:
    plain = Rope().frequencies(64)
    ntk, linear = (Rope(scaling=s).frequencies(64) / plain for s in (Ntk(8.0), Linear(8.0)))
    slowest, fastest = (1 / ntk[-1]).item(), (1 / ntk[0]).item()
    x = [i + 1 for i in range(32)]
    return Measured(
        f"With a factor of 8 the slowest of 32 clocks takes {slowest:.6g} times as long for a turn, the fastest {fastest:.6g} "
        f"times; linear interpolation slows them all {(1 / linear[0]).item():g}-fold.",
        ruled(abs(slowest / 8 - 1) < ROUNDING and abs(fastest - 1) < ROUNDING),
        "",
        {"slowest": slowest, "fastest": fastest},
        picture("speed of each clock, scaled by 8", "clock", "of its own", curve("NTK-aware", x, ntk), curve("linear", x, linear)),
    )


@claim("Scaling that follows the length of the text (dynamic NTK) spoils the keys in a cache.", "Peng 2023 (YaRN), section 3.3")
def dynamic_ntk_breaks_caches(setting: Setting) -> Measured:
    q, k = normal(1, 32), normal(24, 32)

    def turned(rows: Tensor, start: int, length: int, role: Role) -> Tensor:
        scheme = Rope(scaling=DynamicNtk(4.0, trained=16, length=length))
        return scheme.rotate(rows, counted(start + len(rows))[start:], role)

    asked = turned(q, 24, 25, "query")
    full = scaled_dot(asked, turned(k, 0, 25, "key"))
    followed = torch.cat([turned(k[i : i + 1], i, i + 1, "key") for i in range(24)])
    stale = relative_error(scaled_dot(asked, followed), full)
    fixed = torch.cat([turned(k[i : i + 1], i, 25, "key") for i in range(24)])
    kept = relative_error(scaled_dot(asked, fixed), full)
    short = relative_error(torch.cat([turned(k[i : i + 1], i, i + 1, "key") for i in range(16)]), turned(k[:16], 0, 16, "key"))
    return Measured(
        "Keys that were turned while the text was short give the 25th word of a model trained to 16 scores that are off by "
        f"{shown(stale)}. Within the trained length they are off by {shown(short)}, and with a length fixed before the text by "
        f"{shown(kept)}.",
        ruled(stale > 1e-3 and kept < ROUNDING and short < ROUNDING),
        "Keys must be cached before they are turned, or the length fixed, as here.",
        {"length followed": stale, "length fixed": kept, "within the trained length": short},
    )


@claim(
    "In bfloat16, RoPE is no longer relative at long distances from the start.",
    "Wang 2024, “When Precision Meets Position: BFloat16 Breaks Down RoPE”, abstract",
)
def bfloat16_breaks_rope(setting: Setting) -> Measured:
    q, k, at = normal(16, 32), normal(16, 32), counted(16)
    wanted = _scores(Rope(), q, k, at)
    starts = (0, 64, 240, 256, 1024, 4096, 16384)
    places = [relative_error(_scores(Rope(), q, k, (at + s).bfloat16().double()), wanted) for s in starts]
    rows = [relative_error(_narrow(Rope(), q, k, at + s), wanted) for s in starts]
    far = starts.index(4096)
    return Measured(
        f"A text that starts at 4096: with places in bfloat16 its scores are off by {shown(places[far])}; with angles in float32 "
        f"or better and only the turned rows in bfloat16, as here, by {shown(rows[far])}, and by {shown(rows[0])} at the start.",
        ruled(rows[far] > 0.1 and places[far] > 0.1, places[far] > 0.1),
        "Where places or angles are kept in bfloat16, which counts to 256 only. Rows that are rounded after turning lose their "
        "usual digits and no more.",
        {f"places, start {s}": e for s, e in zip(starts, places, strict=True)}
        | {f"rows, start {s}": e for s, e in zip(starts, rows, strict=True)},
        picture(
            "how far scores are off",
            "where the text starts",
            "",
            curve("places in bfloat16", list(starts[1:]), [max(e, 1e-16) for e in places[1:]]),
            curve("turned rows in bfloat16", list(starts[1:]), rows[1:]),
            log="xy",
        ),
    )


def _narrow(scheme: Position, q: Tensor, k: Tensor, at: Tensor) -> Tensor:
    """Scores of queries and keys that are turned, then rounded to bfloat16."""
    asked, found = scheme.rotate(q.bfloat16(), at, "query"), scheme.rotate(k.bfloat16(), at, "key")
    return scaled_dot(asked.double(), found.double())


@claim("xPos makes the product of a query and a key fall with every step of distance.", "Sun 2022 (xPos), section 3")
def xpos_decays(setting: Setting) -> Measured:
    far = 256
    at, ones = counted(far + 1), torch.ones(1, 64, dtype=torch.float64)
    turned = (XPos().rotate(ones.expand(far + 1, -1), at, "query") @ XPos().rotate(ones, at[:1], "key").T).squeeze(-1) / 64
    plain = (Rope().rotate(ones.expand(far + 1, -1), at, "query") @ ones.T).squeeze(-1) / 64
    shrunk = torch.exp(at * XPos().rates(64)).mean(-1)
    rises = int((turned.diff() > 0).sum())
    falls = bool((shrunk.diff() < 0).all())
    return Measured(
        f"The factor that it adds to RoPE falls in every one of {far} steps{'' if falls else ' but some'}, to "
        f"{shown(shrunk[-1].item())} of itself. The product, which also turns, rises in {rises} of them, and ends at "
        f"{shown(turned[-1].item())} (RoPE: {shown(plain[-1].item())}).",
        ruled(rises == 0 and falls),
        "The factor does fall; the ripple of the rotation stays.",
        {"rises": rises, "factor at the end": shrunk[-1].item()},
        picture(
            "product of a vector with itself",
            "distance",
            "",
            curve("xPos", at[:, 0], turned),
            curve("RoPE", at[:, 0], plain),
            curve("xPos's factor", at[:, 0], shrunk, dashed=True),
        ),
    )


@claim("RoPE learns faster than absolute encodings.", "Su 2021, section 4.2 and figure 3")
def rope_learns_faster(setting: Setting) -> Measured:
    short = Setting(True, setting.seed, setting.each).finding(token_back.STUDY)
    steps = {name: short.numbers[f"steps, {name}"] for name in token_back.SHORT}
    rope, waves = steps["rope"], steps["sinusoidal"]
    said = ", ".join(f"{name} {'not' if s is None else f'{s:g}'}" for name, s in steps.items())
    return Measured(
        f"Steps until 95 % of “the token {token_back.BACK} back” are right, at most 50: {said}.",
        ruled(rope is not None and (waves is None or rope < waves)),
        "On this task, of one layer and one seed, where distance is all there is to know; `equiscope study token-back` has every "
        "scheme and three seeds.",
        {f"steps, {name}": s for name, s in steps.items()},
        short.panels[:1],
    )
