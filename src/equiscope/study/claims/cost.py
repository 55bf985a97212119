"""Claims about cost: multiply-adds as torch counts them while it runs, and memory as the largest tensor that an operation makes.

Torch counts 2 for a multiply-add (halved here) and 0 for softmax, norm, bias and activation.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from equiscope.attention import Additive, Causal, LinearAttention, MultiHeadAttention, ScaledDot
from equiscope.models import Attention, Block, Spec, build
from equiscope.positions import Alibi, NoPosition
from equiscope.program.modes import Operations
from equiscope.study import cost, parallel
from equiscope.study.base import fmt, time_interleaved, timing_curve
from equiscope.study.claims.base import ROUNDING, ClaimMeasurement, Setting, claim, curve, figure_panel, normal, text, verdict_of
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens, patches


def largest(call: Callable[[], object]) -> int:
    """Numbers in the largest tensor that an operation makes in one call."""
    sizes = [0]

    def handler(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        sizes.extend(t.numel() for t in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(t, Tensor))
        return result

    with torch.no_grad(), Operations(handler):
        call()
    return max(sizes)


def _parts(n: int, d: int) -> tuple[int, int]:
    """Multiply-adds of attention and of the feed-forward, of N words of width D."""
    counted = cost.multiply_adds(n, d)
    forward = counted.pop("feed-forward")
    return sum(counted.values()), forward


# --- attention and what stands beside it --------------------------------------------------------------------------------
@claim(
    "Attention, being quadratic, always costs more than the feed-forward layer.",
    "a common reading of Tay 2022 (“Efficient Transformers: A Survey”), section 2",
)
def attention_costs_most(setting: Setting) -> ClaimMeasurement:
    d = 16
    lengths = [d // 2, d, 2 * d, 4 * d, 8 * d]
    parts = {n: _parts(n, d) for n in lengths}
    ratio = {n: a / f for n, (a, f) in parts.items()}
    more = [n for n in lengths if ratio[n] > 1]
    listed = ", ".join(f"{fmt(r)} at N = {n / d:g} D" for n, r in ratio.items())
    x = [n / d for n in lengths]
    return ClaimMeasurement(
        f"Multiply-adds of attention over those of a feed-forward layer of inner width 4D: {listed}.",
        verdict_of(len(more) == len(lengths), bool(more)),
        "Beyond N = 2D; for D = 4096, that is a text of more than 8192 tokens.",
        {f"N = {n / d:g} D": r for n, r in ratio.items()},
        figure_panel(
            f"multiply-adds at D = {d}",
            "N / D",
            "",
            curve("attention", x, [float(a) for a, _ in parts.values()]),
            curve("feed-forward", x, [float(f) for _, f in parts.values()]),
            log="xy",
        ),
    )


@claim(
    "Attention's cost passes a 4D feed-forward at N = 2D, its two products alone at N = 4D.",
    "Vaswani 2017, table 1; Kaplan 2020, table 1",
)
def attention_overtakes_at_2_d(setting: Setting) -> ClaimMeasurement:
    widths = (8, 16) if setting.quick else (8, 16, 32, 64)
    whole, alone = ({d: cost.crossing(d, projections) / d for d in widths} for projections in (True, False))
    return ClaimMeasurement(
        f"Found by counting, for D = {', '.join(map(str, widths))}: equal at N = {', '.join(f'{c:g}' for c in whole.values())} D "
        f"with projections, at {', '.join(f'{c:g}' for c in alone.values())} D without.",
        verdict_of(set(whole.values()) == {2.0} and set(alone.values()) == {4.0}),
        "Counted over all pairs; a kernel that skips masked blocks comes to 4D and 8D.",
        {f"with projections, D = {d}": c for d, c in whole.items()} | {f"alone, D = {d}": c for d, c in alone.items()},
    )


@claim("For texts shorter than 12 D, what attention spends on context is a small part of all compute.", "Kaplan 2020, section 2.1")
def context_is_cheap_below_12_d(setting: Setting) -> ClaimMeasurement:
    d = 16
    shares = {}
    for times in (1, 2, 6, 12):
        parts = cost.multiply_adds(times * d, d)
        shares[times] = (parts["QKᵀ"] + parts["AV"]) / sum(parts.values())
    listed = ", ".join(f"{fmt(100 * s)} % at N = {t} D" for t, s in shares.items())
    return ClaimMeasurement(
        f"QKᵀ and AV are {listed}.",
        verdict_of(max(shares.values()) < 0.25, shares[1] < 0.25),
        "Below about 2 D; at 6 D they are as much as all else. Their table counts one product of the two; with a causal mask "
        "whose masked half is skipped, both together cost that much, and N = 12 D is where half of all compute is context.",
        {f"share at N = {t} D": s for t, s in shares.items()},
        figure_panel("share of context in a block", "N / D", "", curve("QKᵀ and AV", list(shares), list(shares.values())), log="x"),
    )


@claim("Training costs 6 operations per parameter and token: 2 forward, 4 backward.", "Kaplan 2020, section 2.1")
def training_costs_six_a_parameter(setting: Setting) -> ClaimMeasurement:
    width = 32
    model = build(Spec(width, layers=2, block=Block(Attention(heads=2, backend="eager"))))
    weights = sum(p.numel() for p in model.blocks.parameters() if p.ndim == 2)
    per: dict[int, tuple[float, float]] = {}
    for n in (4, 12 * width):
        x = torch.randn(1, n, width)
        forward, both = FlopCounterMode(display=False), FlopCounterMode(display=False)
        with forward, torch.no_grad():
            model(x)
        with both:
            model(x.requires_grad_()).sum().backward()
        per[n] = (forward.get_total_flops() / weights / n, both.get_total_flops() / weights / n)
    near = {n: abs(whole / 6 - 1) < 0.1 for n, (_, whole) in per.items()}
    return ClaimMeasurement(
        f"Counted for each parameter and token: {fmt(per[4][0])} forward and {fmt(per[4][1])} with the backward pass for 4 "
        f"tokens; {fmt(per[12 * width][0])} and {fmt(per[12 * width][1])} for N = 12 D.",
        verdict_of(all(near.values()), near[4]),
        "While N is well below D times 12: the products of attention have no parameters.",
        {f"forward, N = {n}": f for n, (f, _) in per.items()} | {f"both, N = {n}": b for n, (_, b) in per.items()},
    )


@claim("Several narrow heads cost the same as one wide head.", "Vaswani 2017, section 3.2.2")
def heads_cost_the_same(setting: Setting) -> ClaimMeasurement:
    n, d = 64, 32
    tokens = Tokens.of(torch.randn(1, n, d))
    many = {h: MultiHeadAttention(d, heads=h, backend="eager") for h in (1, 2, 8, 32)}
    products = {h: cost.count(partial(a, tokens)) for h, a in many.items()}
    weights = {h: a.attend(tokens)[1].numel() for h, a in many.items()}
    same, room = len(set(products.values())) == 1, len(set(weights.values())) == 1
    return ClaimMeasurement(
        f"Multiply-adds with 1, 2, 8 and 32 heads: {', '.join(map(str, products.values()))}. Weights, each an exponential: "
        f"{', '.join(map(str, weights.values()))}.",
        verdict_of(same and room, same),
        "In products; softmax and the table of weights grow with the heads.",
        {f"products, {h} heads": float(p) for h, p in products.items()}
        | {f"weights, {h} heads": float(w) for h, w in weights.items()},
    )


# --- against recurrence -------------------------------------------------------------------------------------------------
@claim(
    "A self-attention layer needs fewer operations than a recurrent layer while the text is shorter than it is wide.",
    "Vaswani 2017, section 4 and table 1",
)
def attention_is_cheaper_than_recurrence(setting: Setting) -> ClaimMeasurement:
    d = 32
    ratio: dict[str, list[float]] = {}
    lengths = (d // 8, d // 2, d - 1)
    for n in lengths:
        x = torch.randn(1, n, d)
        whole = cost.count(partial(MultiHeadAttention(d, heads=4, backend="eager"), Tokens.of(x)))
        parts = cost.multiply_adds(n, d)
        rnn = cost.count(partial(parallel.one_by_one, nn.RNN(d, d, batch_first=True), x))
        ratio.setdefault("with projections", []).append(whole / rnn)
        ratio.setdefault("its products", []).append((parts["QKᵀ"] + parts["AV"]) / rnn)
        ratio.setdefault("with projections, of an LSTM", []).append(whole / (4 * rnn))
    listed = "; ".join(f"{name} {', '.join(map(fmt, r))}" for name, r in ratio.items())
    fewer = {name: max(r) < 1 for name, r in ratio.items()}
    return ClaimMeasurement(
        "Multiply-adds of attention over those of an RNN of the same width, at N/D = "
        f"{', '.join(f'{n / d:.3g}' for n in lengths)}: {listed}.",
        verdict_of(fewer["with projections"], fewer["its products"]),
        "In the two products, which is what table 1 lists. The four projections alone cost twice a plain RNN; against an LSTM, "
        "which has four gates, the sentence holds as it stands.",
        {f"{name}, N = {n}": v for name, r in ratio.items() for n, v in zip(lengths, r, strict=True)},
    )


@claim("Self-attention needs a constant number of sequential operations, a recurrent layer N.", "Vaswani 2017, table 1")
def attention_takes_one_sequential_step(setting: Setting) -> ClaimMeasurement:
    rnn = nn.RNN(parallel.WIDTH, parallel.WIDTH, batch_first=True)
    steps = {n: parallel.longest_wait(rnn, n) for n in (4, 16, 64)}
    deep = {
        n: _longest_chain(MultiHeadAttention(16, heads=2, backend="eager")(Tokens.of(normal(n, 16).float()))) for n in (4, 16, 64)
    }
    return ClaimMeasurement(
        f"For 4, 16 and 64 words, sequential steps: {', '.join(map(str, steps.values()))} in an RNN; operations in "
        f"a row in attention: {', '.join(map(str, deep.values()))}.",
        verdict_of(len(set(deep.values())) == 1 and all(s == n for n, s in steps.items())),
        "When a text is read. Generation is sequential with attention too.",
        {f"RNN, N = {n}": s for n, s in steps.items()} | {f"attention, N = {n}": c for n, c in deep.items()},
    )


def _longest_chain(y: Tensor) -> int:
    """Operations, one behind the other, in autograd's graph."""
    known: dict[Any, int] = {}

    def chain(node: Any) -> int:
        if node not in known:
            known[node] = 1 + max((chain(parent) for parent, _ in node.next_functions if parent), default=0)
        return known[node]

    return chain(y.grad_fn)


# --- room ---------------------------------------------------------------------------------------------------------------
@claim(
    "Self-attention needs memory that grows with the square of the length.",
    "Child 2019, abstract; refuted by Rabe 2021, section 2",
)
def memory_is_quadratic(setting: Setting) -> ClaimMeasurement:
    n = 512 if setting.quick else 1024
    growth = {}
    for backend in ("eager", "chunked", "sdpa"):
        attention = MultiHeadAttention(8, heads=2, backend=backend)
        once, twice = (largest(partial(attention, Tokens.of(torch.randn(1, m, 8)))) for m in (n, 2 * n))
        growth[backend] = twice / once
    grows = {backend: g > 3 for backend, g in growth.items()}
    listed = ", ".join(f"{fmt(g)}-fold ({b})" for b, g in growth.items())
    return ClaimMeasurement(
        f"From N = {n} to {2 * n} the largest tensor that is made grows {listed}.",
        verdict_of(all(grows.values())),
        "Only if the table of weights is made: chunks of queries, or a fused kernel, need memory that grows with N, and all "
        "three give the same numbers (see flash-attention-is-exact). Time stays quadratic. A kernel's own workspace is not "
        "counted.",
        {f"growth, {b}": g for b, g in growth.items()},
    )


@claim(
    "FlashAttention is exact: it computes the same attention, not an approximation.",
    "Dao 2022, section 3.1, theorem 1",
)
def flash_attention_is_exact(setting: Setting) -> ClaimMeasurement:
    n, errors, narrow = (300 if setting.quick else 1500), {}, {}
    for name, scheme in {"causal": NoPosition(), "causal, with ALiBi": Alibi().sized(16, 2, 8)}.items():
        exact = MultiHeadAttention(16, heads=2, mask=Causal(), backend="eager").double()
        for backend in ("sdpa", "chunked"):
            other = MultiHeadAttention(16, heads=2, mask=Causal(), backend=backend).double()
            other.load_state_dict(exact.state_dict())
            tokens = text(n, 16)
            errors[f"{backend}, {name}"] = relative_error(other(tokens, scheme), exact(tokens, scheme))
            few = tokens.to(torch.float32)
            narrow[f"{backend}, {name}"] = relative_error(other.float()(few, scheme), exact.float()(few, scheme))
            exact.double()
    return ClaimMeasurement(
        f"Torch's fused kernel and chunks of queries, against the eager computation, {n} words: off by "
        f"{fmt(max(errors.values()))} at most in float64, by {fmt(max(narrow.values()))} in float32.",
        verdict_of(max(errors.values()) < ROUNDING),
        "Up to rounding: sums are taken in another order, so not every bit is the same.",
        {f"float64, {name}": e for name, e in errors.items()} | {f"float32, {name}": e for name, e in narrow.items()},
    )


@claim(
    "Dot-product attention is more space-efficient than additive attention, at a similar count of operations.",
    "Vaswani 2017, section 3.2.1",
)
def additive_scores_take_more_memory(setting: Setting) -> ClaimMeasurement:
    n, k = 64, 32
    q, key = torch.randn(1, n, k), torch.randn(1, n, k)
    dot, additive = ScaledDot(), Additive().sized(1, k)
    score_functions = {"dot": partial(dot, q, key, k), "additive": partial(additive, q, key, k)}
    room, work = ({name: measure(ask) for name, ask in score_functions.items()} for measure in (largest, cost.count))
    more, alike = room["additive"] / room["dot"], work["additive"] / work["dot"]
    return ClaimMeasurement(
        f"For {n} queries and keys of width {k}, the largest tensor of additive scores is {fmt(more)} times that of products; "
        f"its multiply-adds are {fmt(alike)} times as many, and it takes {n * n * k} tanh besides.",
        verdict_of(more >= k and alike < 4),
        "",
        {"room": more, "multiply-adds": alike},
    )


@claim("One key head for all query heads makes the cache smaller by the number of heads.", "Shazeer 2019, section 3")
def multi_query_shrinks_the_cache(setting: Setting) -> ClaimMeasurement:
    tokens, held = Tokens.of(torch.randn(10, 64)), {}
    for groups in (8, 2, 1):
        attention = MultiHeadAttention(64, heads=8, kv_heads=groups, mask=Causal())
        cache = attention.cache()
        attention(tokens, cache=cache)
        held[groups] = cache.rows["k"].numel() + cache.rows["v"].numel()
    less = held[8] / held[1]
    return ClaimMeasurement(
        f"Of 10 words and 8 heads the cache holds {held[8]} numbers with 8 key heads, {held[2]} with 2 and {held[1]} with 1: "
        f"{less:g} times fewer.",
        verdict_of(less == 8 and held[8] / held[2] == 4),
        "",
        {f"{g} key heads": float(h) for g, h in held.items()},
    )


# --- time ---------------------------------------------------------------------------------------------------------------
@claim(
    "With a cache, the cost of writing the next word grows with the length, not with its square.",
    "Shazeer 2019, section 2.4; Pope 2023, section 2.1",
)
def a_cache_makes_decoding_linear(setting: Setting) -> ClaimMeasurement:
    model = build(Spec(16, layers=2, block=Block(Attention(heads=2, causal=True, backend="eager"))))
    lengths = (32, 64, 128) if setting.quick else (64, 128, 256, 512)
    with_cache, without = [], []
    for n in lengths:
        x = torch.randn(1, n, 16)
        caches = model.caches()
        with torch.no_grad():
            model(x[:, :-1], caches)
        last = Tokens.of(x[:, -1:], start=n - 1)
        with_cache.append(cost.count(partial(model, last, caches)))
        without.append(cost.count(partial(model, x)))
    end = [counts[-1] / counts[-2] for counts in (with_cache, without)]
    x_axis = [float(n) for n in lengths]
    return ClaimMeasurement(
        f"Multiply-adds of the last of {lengths[-1]} words: {with_cache[-1]} with the cache, {without[-1]} without. From "
        f"{lengths[-2]} words to {lengths[-1]} they grow {fmt(end[0])}-fold with it, {fmt(end[1])}-fold without.",
        verdict_of(end[0] < 2.0 and end[1] > 2.0),
        "The whole text still costs O(N²).",
        {"growth with": end[0], "growth without": end[1]},
        figure_panel(
            "multiply-adds of one more word",
            "words so far",
            "",
            curve("with the cache", x_axis, [float(c) for c in with_cache]),
            curve("without", x_axis, [float(c) for c in without]),
            log="xy",
        ),
    )


@claim("Linear attention takes time and memory that grow with the length, not with its square.", "Katharopoulos 2020, section 3.2")
def linear_attention_is_linear(setting: Setting) -> ClaimMeasurement:
    n = 256 if setting.quick else 1024
    texts = [Tokens.of(torch.randn(1, m, 16)) for m in (n, 2 * n)]
    layers = {"linear": LinearAttention(16, heads=2), "softmax": MultiHeadAttention(16, heads=2, backend="eager")}
    work, room = (
        {name: [measure(partial(layer, tokens)) for tokens in texts] for name, layer in layers.items()}
        for measure in (cost.count, largest)
    )
    grown = {f"{what}, {name}": b / a for what, measured in (("work", work), ("room", room)) for name, (a, b) in measured.items()}
    return ClaimMeasurement(
        f"From N = {n} to {2 * n}, multiply-adds grow {fmt(grown['work, linear'])}-fold and the largest tensor "
        f"{fmt(grown['room, linear'])}-fold; of softmax attention {fmt(grown['work, softmax'])}- and "
        f"{fmt(grown['room, softmax'])}-fold.",
        verdict_of(abs(grown["work, linear"] - 2) < 0.01 and abs(grown["room, linear"] - 2) < 0.01),
        "",
        grown,
    )


@claim("Linear attention is faster than softmax attention.", "Katharopoulos 2020, section 4.1, figure 1", timed=True)
def linear_attention_is_faster(setting: Setting) -> ClaimMeasurement:
    lengths = (32, 1024) if setting.quick else (32, 128, 512, 2048, 4096)
    linear, exact = LinearAttention(64, heads=4), MultiHeadAttention(64, heads=4)
    times = []
    for n in lengths:
        tokens = Tokens.of(torch.randn(1, n, 64))
        times.append(time_interleaved({"linear": partial(linear, tokens), "softmax": partial(exact, tokens)}, 5))
    faster = [t["linear"][0] < t["softmax"][0] for t in times]
    pairs = zip(lengths, times, strict=True)
    listed = ", ".join(f"{fmt(t['linear'][0])} against {fmt(t['softmax'][0])} ms at {n}" for n, t in pairs)
    x = [float(n) for n in lengths]
    return ClaimMeasurement(
        f"One forward pass, one core, width 64: {listed} words.",
        verdict_of(all(faster), any(faster)),
        "For long texts; torch's fused softmax kernel may win short ones. Times of one machine.",
        {f"{name}, N = {n} (ms)": t[name][0] for n, t in zip(lengths, times, strict=True) for name in ("linear", "softmax")},
        figure_panel(
            "milliseconds of one pass",
            "N",
            "",
            *(timing_curve(name, x, [t[name] for t in times]) for name in ("linear", "softmax")),
            log="xy",
        ),
    )


@claim(
    "Patches of P × P pixels make attention over a picture P⁴ times cheaper than pixels.",
    "follows from Dosovitskiy 2021, sections 2 and 3.1",
)
def patches_save_the_fourth_power(setting: Setting) -> ClaimMeasurement:
    image, d, p = torch.randn(1, 8, 16, 16), 16, 4
    rows = {size: patches(image, (size, size)).x.shape[-2] for size in (1, p)}
    parts = {size: cost.multiply_adds(n, d) for size, n in rows.items()}
    products = (parts[1]["QKᵀ"] + parts[1]["AV"]) / (parts[p]["QKᵀ"] + parts[p]["AV"])
    others = parts[1]["projections"] / parts[p]["projections"]
    return ClaimMeasurement(
        f"A picture of 16 × 16: {rows[1]} pixels or {rows[p]} patches of {p} × {p}. The products of attention cost {products:g} "
        f"times less (P⁴ = {p**4}), projections and feed-forward {others:g} times less (P² = {p**2}).",
        verdict_of(products == others == p**4, products == p**4),
        "The two products; all else falls by P².",
        {"products": products, "projections": others},
    )
