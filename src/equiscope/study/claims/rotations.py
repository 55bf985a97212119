"""Claims about rotary positions: invariance to shifts, decay with distance, caches and precision."""

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
from equiscope.study import decay
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
from equiscope.symmetry import relative_error


@claim("With RoPE a score depends on the positions m and n through m − n only.", "Su 2021, section 3.2, equations 11 to 16")
def rope_is_relative(setting: Setting) -> ClaimMeasurement:
    q, k, at = normal(12, 16), normal(12, 16), position_column(12)
    moves = {by: relative_error(_scores(Rope(), q, k, at + by), _scores(Rope(), q, k, at)) for by in (1, 1000, 100_000)}
    one_sided = relative_error(_scores(Rope(key_angle_factor=0), q, k, at + 5), _scores(Rope(key_angle_factor=0), q, k, at))
    narrow = relative_error(_scores(Rope(), q, k, (at + 4096).bfloat16().double()), _scores(Rope(), q, k, at))
    return ClaimMeasurement(
        f"Moved by 1, 1000 and 100 000 positions, scores change by {', '.join(fmt(e) for e in moves.values())}, the rounding of "
        f"their angles. With queries rotated alone they change by {fmt(one_sided)}.",
        verdict_of(max(e for by, e in moves.items() if by < 1e5) < ROUNDING and moves[100_000] < 1e-9),
        f"With positions in sufficient precision: in bfloat16, a text at position 4096 has scores that are off by {fmt(narrow)} "
        "(see "
        "bfloat16-breaks-rope).",
        {f"moved by {by}": e for by, e in moves.items()} | {"queries alone": one_sided, "positions in bfloat16": narrow},
    )


def _scores(scheme: Position, q: Tensor, k: Tensor, at: Tensor) -> Tensor:
    return scaled_dot(scheme.rotate(q, at, "query"), scheme.rotate(k, at, "key"))


@claim("Rotary positions preserve the norms of queries and keys.", "Su 2021, section 3.2.2 (the matrix is orthogonal)")
def rope_preserves_norms(setting: Setting) -> ClaimMeasurement:
    q, at = normal(50, 32), position_column(50) * 1000
    schemes: dict[str, Position] = {
        "RoPE": Rope(),
        "with YaRN": Rope(scaling=Yarn(4.0, trained=1024)),
        "xPos": XPos(scale_base=1e5),
    }
    ratio = {name: (scheme.rotate(q, at, "query").norm(dim=-1) / q.norm(dim=-1)) for name, scheme in schemes.items()}
    off = {name: (r - 1).abs().max().item() for name, r in ratio.items()}
    return ClaimMeasurement(
        f"At positions up to 49 000 norms change by {fmt(off['RoPE'])} of themselves; with YaRN's gain by "
        f"{fmt(off['with YaRN'])}, alike at every position, and under xPos, which also scales, by up to {fmt(off['xPos'])}.",
        verdict_of(off["RoPE"] < ROUNDING),
        "The rotation alone. So no score grows because of where its words are.",
        off,
    )


@claim("With RoPE, scores decay as the distance grows.", "Su 2021, section 3.3 (“long-term decay”)")
def rope_scores_decay(setting: Setting) -> ClaimMeasurement:
    result = setting.result(decay.STUDY)
    line = next(line for panel in result.panels for line in panel.lines if line.name.startswith("rope (mean"))
    alike = torch.tensor([v or 0.0 for v in line.y], dtype=torch.float64)
    rises, far = int((alike.diff() > 0).sum()), alike[len(alike) // 2 :].mean().item()
    q, k = normal(400, 1, 64), normal(400, 1, 64)
    at = torch.tensor([[1.0], [200.0]], dtype=torch.float64)
    product = (Rope().rotate(q.expand(-1, 2, -1), at, "query") * Rope().rotate(k, at[:1] * 0, "key")).sum(-1).std(0)
    same = (product[1] / product[0]).item()
    return ClaimMeasurement(
        f"For a vector and itself, rotated, the product rises on average in {rises} of {len(line.y) - 1} steps, and over the "
        "farther "
        f"half it stays at {fmt(far)}. For independent queries and keys, the size of scores at distance 200 is {fmt(same)} "
        "times that at 1.",
        verdict_of(rises == 0 and same < 0.5, far < 0.75),
        "For queries that resemble their keys, in the mean, and never to 0 within these distances. Unrelated ones do not decay "
        "at all: a rotation preserves norms.",
        {"rises": rises, "mean of the far half": far, "independent, far over near": same},
        result.panels[1:2],
    )


@claim(
    "Interleaved and half-split RoPE are one scheme, up to a permutation of the weights' columns.",
    "Su 2021, equation 34, against Hugging Face's conversion of Llama's weights",
)
def rotary_layouts_are_one(setting: Setting) -> ClaimMeasurement:
    tokens, ours, theirs = text(12, 16), MultiHeadAttention(16, heads=2).double(), MultiHeadAttention(16, heads=2).double()
    theirs.load_state_dict(ours.state_dict())
    unchanged = relative_error(theirs(tokens, Rope(pairs="half")), ours(tokens, Rope()))
    with torch.no_grad():
        for name in ("q_proj.weight", "k_proj.weight"):
            theirs.get_parameter(name).copy_(half_from_interleaved(ours.get_parameter(name), 2))
    moved = relative_error(theirs(tokens, Rope(pairs="half")), ours(tokens, Rope()))
    return ClaimMeasurement(
        f"With the columns of W_Q and W_K permuted, outputs agree up to {fmt(moved)}; with the same weights they differ by "
        f"{fmt(unchanged)}.",
        verdict_of(moved < ROUNDING < unchanged),
        "",
        {"permuted": moved, "as they are": unchanged},
    )


@claim(
    "Of a head of 128 at base 10000, 92 dimensions complete a full period within 4096 tokens.",
    "Liu 2024, “Scaling Laws of RoPE-based Extrapolation”, section 3",
)
def ninety_two_dimensions_complete_a_period(setting: Setting) -> ClaimMeasurement:
    periods = 2 * math.pi / Rope().frequencies(128)
    turned = 2 * int((periods <= 4096).sum())
    larger = 2 * int((2 * math.pi / Rope(base=500_000.0).frequencies(128) <= 4096).sum())
    x = [i + 1 for i in range(64)]
    return ClaimMeasurement(
        f"{turned} of 128; at base 500 000 they are {larger}. The slowest completes a period in {fmt(periods[-1].item())} tokens.",
        verdict_of(turned == 92),
        "Beyond 4096 tokens, the others take angles that did not occur within them.",
        {"turned": turned, "base 500 000": larger},
        figure_panel(
            "tokens of one period",
            "pair",
            "",
            curve("base 10000", x, periods),
            curve("4096 tokens", x, [4096.0] * 64, dashed=True),
            log="y",
        ),
    )


@claim(
    "NTK-aware scaling divides the lowest frequency by the factor and leaves the highest unchanged.",
    "bloc97 2023, “NTK-Aware Scaled RoPE”; Peng 2023, section 3.1",
)
def ntk_slows_the_slow(setting: Setting) -> ClaimMeasurement:
    plain = Rope().frequencies(64)
    ntk, linear = (Rope(scaling=s).frequencies(64) / plain for s in (Ntk(8.0), Linear(8.0)))
    slowest, fastest = (1 / ntk[-1]).item(), (1 / ntk[0]).item()
    x = [i + 1 for i in range(32)]
    return ClaimMeasurement(
        f"With a factor of 8 the slowest of 32 frequencies has {slowest:.6g} times the period, the fastest {fastest:.6g} "
        f"times; linear interpolation slows them all {(1 / linear[0]).item():g}-fold.",
        verdict_of(abs(slowest / 8 - 1) < ROUNDING and abs(fastest - 1) < ROUNDING),
        "",
        {"slowest": slowest, "fastest": fastest},
        figure_panel(
            "each frequency, scaled by 8", "frequency", "relative", curve("NTK-aware", x, ntk), curve("linear", x, linear)
        ),
    )


@claim(
    "Scaling that depends on the length of the text (dynamic NTK) invalidates the keys in a cache.", "Peng 2023 (YaRN), section 3.3"
)
def dynamic_ntk_breaks_caches(setting: Setting) -> ClaimMeasurement:
    q, k = normal(1, 32), normal(24, 32)

    def turned(rows: Tensor, start: int, length: int, role: Role) -> Tensor:
        scheme = Rope(scaling=DynamicNtk(4.0, trained=16, length=length))
        return scheme.rotate(rows, position_column(start + len(rows))[start:], role)

    query = turned(q, 24, 25, "query")
    full = scaled_dot(query, turned(k, 0, 25, "key"))
    followed = torch.cat([turned(k[i : i + 1], i, i + 1, "key") for i in range(24)])
    stale = relative_error(scaled_dot(query, followed), full)
    fixed = torch.cat([turned(k[i : i + 1], i, 25, "key") for i in range(24)])
    kept = relative_error(scaled_dot(query, fixed), full)
    short = relative_error(torch.cat([turned(k[i : i + 1], i, i + 1, "key") for i in range(16)]), turned(k[:16], 0, 16, "key"))
    return ClaimMeasurement(
        "Keys that were rotated while the text was short give the 25th word of a model trained to 16 scores that are off by "
        f"{fmt(stale)}. Within the trained length they are off by {fmt(short)}, and with a length fixed before the text by "
        f"{fmt(kept)}.",
        verdict_of(stale > 1e-3 and kept < ROUNDING and short < ROUNDING),
        "Keys must be cached before they are rotated, or the length fixed, as here.",
        {"length followed": stale, "length fixed": kept, "within the trained length": short},
    )


@claim(
    "In bfloat16, RoPE is no longer relative at long distances from the start.",
    "Wang 2024, “When Precision Meets Position: BFloat16 Breaks Down RoPE”, abstract",
)
def bfloat16_breaks_rope(setting: Setting) -> ClaimMeasurement:
    q, k, at = normal(16, 32), normal(16, 32), position_column(16)
    wanted = _scores(Rope(), q, k, at)
    starts = (0, 64, 240, 256, 1024, 4096, 16384)
    positions = [relative_error(_scores(Rope(), q, k, (at + s).bfloat16().double()), wanted) for s in starts]
    rows = [relative_error(_bfloat16_scores(Rope(), q, k, at + s), wanted) for s in starts]
    far = starts.index(4096)
    return ClaimMeasurement(
        f"A text that starts at 4096: with positions in bfloat16 its scores are off by {fmt(positions[far])}; with angles in "
        "float32 "
        f"or better and only the rotated rows in bfloat16, as here, by {fmt(rows[far])}, and by {fmt(rows[0])} at the start.",
        verdict_of(rows[far] > 0.1 and positions[far] > 0.1, positions[far] > 0.1),
        "Where positions or angles are kept in bfloat16, which counts to 256 only. Rows that are rounded after the rotation lose "
        "the "
        "usual precision only.",
        {f"positions, start {s}": e for s, e in zip(starts, positions, strict=True)}
        | {f"rows, start {s}": e for s, e in zip(starts, rows, strict=True)},
        figure_panel(
            "how far scores are off",
            "where the text starts",
            "",
            curve("positions in bfloat16", list(starts[1:]), [max(e, 1e-16) for e in positions[1:]]),
            curve("rotated rows in bfloat16", list(starts[1:]), rows[1:]),
            log="xy",
        ),
    )


def _bfloat16_scores(scheme: Position, q: Tensor, k: Tensor, at: Tensor) -> Tensor:
    """Scores of queries and keys that are turned, then rounded to bfloat16."""
    queries, keys = scheme.rotate(q.bfloat16(), at, "query"), scheme.rotate(k.bfloat16(), at, "key")
    return scaled_dot(queries.double(), keys.double())


@claim("xPos makes the product of a query and a key fall with every step of distance.", "Sun 2022 (xPos), section 3")
def xpos_decays(setting: Setting) -> ClaimMeasurement:
    far = 256
    at, ones = position_column(far + 1), torch.ones(1, 64, dtype=torch.float64)
    turned = (XPos().rotate(ones.expand(far + 1, -1), at, "query") @ XPos().rotate(ones, at[:1], "key").T).squeeze(-1) / 64
    plain = (Rope().rotate(ones.expand(far + 1, -1), at, "query") @ ones.T).squeeze(-1) / 64
    shrunk = torch.exp(at * XPos().rates(64)).mean(-1)
    rises = int((turned.diff() > 0).sum())
    falls = bool((shrunk.diff() < 0).all())
    return ClaimMeasurement(
        f"The factor that it adds to RoPE falls in every one of {far} steps{'' if falls else ' but some'}, to "
        f"{fmt(shrunk[-1].item())} of itself. The product, which also rotates, rises in {rises} of them, and ends at "
        f"{fmt(turned[-1].item())} (RoPE: {fmt(plain[-1].item())}).",
        verdict_of(rises == 0 and falls),
        "The factor does fall; the ripple of the rotation stays.",
        {"rises": rises, "factor at the end": shrunk[-1].item()},
        figure_panel(
            "product of a vector with itself",
            "distance",
            "",
            curve("xPos", at[:, 0], turned),
            curve("RoPE", at[:, 0], plain),
            curve("xPos's factor", at[:, 0], shrunk, dashed=True),
        ),
    )
