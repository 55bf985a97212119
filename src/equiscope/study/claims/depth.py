"""Claims about blocks: norms, residuals, depth, initialisation."""

from dataclasses import replace

import torch
from torch import nn

from equiscope.attention import MultiHeadAttention
from equiscope.blocks import norm as norm_of
from equiscope.models import Attention, Block, Norm, Spec, build
from equiscope.study import depth
from equiscope.study.base import StudyResult, fmt
from equiscope.study.claims.base import ROUNDING, ClaimMeasurement, Setting, claim, curve, figure_panel, normal, text, verdict_of
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens


# --- norms ------------------------------------------------------------------------------------------------------------
@claim("LayerNorm is invariant to shifting or scaling all features of a word.", "Ba 2016, section 5.1 and table 1")
def layer_norm_ignores_shift_and_scale(setting: Setting) -> ClaimMeasurement:
    x, errors = normal(20, 64), {}
    with torch.no_grad():
        for kind in ("layer", "rms"):
            norm = norm_of(64, kind).double()
            errors[kind] = {
                "shifted": relative_error(norm(x + 3), norm(x)), "times 100": relative_error(norm(100 * x), norm(x)),
                "times 0.001": relative_error(norm(x / 1000), norm(x)),
            }  # fmt: skip
            bare = norm_of(64, kind, eps=0.0).double()
            errors[kind]["times 0.001, eps 0"] = relative_error(bare(x / 1000), bare(x))
    ours = errors["layer"]
    exact = max(ours["shifted"], ours["times 0.001, eps 0"]) < ROUNDING
    return ClaimMeasurement(
        f"Shifted by 3, the result changes by {fmt(ours['shifted'])}; times 100 by {fmt(ours['times 100'])}, times 0.001 by "
        f"{fmt(ours['times 0.001'])} (eps = 1e-5), by {fmt(ours['times 0.001, eps 0'])} without eps. RMSNorm is not "
        f"invariant to the shift: {fmt(errors['rms']['shifted'])}.",
        verdict_of(exact and max(ours.values()) < ROUNDING, exact),
        "For words whose variance is far above eps.",
        {f"{kind}, {what}": e for kind, of_kind in errors.items() for what, e in of_kind.items()},
    )


@claim("Where features have mean 0, RMSNorm is LayerNorm.", "Zhang 2019 (RMSNorm), section 4")
def rms_norm_is_layer_norm_without_mean(setting: Setting) -> ClaimMeasurement:
    x = normal(20, 64)
    centred = x - x.mean(-1, keepdim=True)
    with torch.no_grad():
        layer, rms = norm_of(64, eps=1e-6).double(), norm_of(64, "rms", eps=1e-6).double()
        same, other = relative_error(rms(centred), layer(centred)), relative_error(rms(x + 1), layer(x + 1))
    return ClaimMeasurement(
        f"On features of mean 0 they differ by {fmt(same)}, on features of mean 1 by {fmt(other)}.",
        verdict_of(same < ROUNDING < other),
        "",
        {"mean 0": same, "mean 1": other},
    )


@claim("LayerNorm treats each case alone, while batch normalisation ties the cases of a batch together.", "Ba 2016, section 3")
def layer_norm_ignores_the_batch(setting: Setting) -> ClaimMeasurement:
    x, others = normal(4, 6, 16), normal(4, 6, 16)
    mixed = torch.cat([x[:1], others[1:]])
    model = build(Spec(16, layers=2, block=Block(Attention(heads=2)))).double()
    batch = nn.BatchNorm1d(16).double()
    with torch.no_grad():
        errors = {
            "model with LayerNorm": relative_error(model(Tokens.of(mixed))[0], model(Tokens.of(x))[0]),
            "batch norm, training": relative_error(batch(mixed.mT).mT[0], batch(x.mT).mT[0]),
        }
    return ClaimMeasurement(
        f"With other cases in the batch, a case's output changes by {fmt(errors['model with LayerNorm'])} in a transformer, by "
        f"{fmt(errors['batch norm, training'])} in a batch norm while it is trained.",
        verdict_of(errors["model with LayerNorm"] < ROUNDING < errors["batch norm, training"]),
        "",
        errors,
    )


# --- depth ------------------------------------------------------------------------------------------------------------
def _layers(result: StudyResult, panel: int, kind: str) -> list[float]:
    line = next(line for line in result.panels[panel].lines if line.name == kind)
    return [v or 0.0 for v in line.y]


@claim("With pre-norm, the size of the residual stream grows with the square root of the depth.", "Xiong 2020, lemma 2")
def pre_norm_streams_grow(setting: Setting) -> ClaimMeasurement:
    result = setting.result(depth.STUDY)
    size = torch.tensor(_layers(result, 0, "pre, residual"), dtype=torch.float64)
    square = size.square() / size[0].square()
    layer = torch.arange(len(size), dtype=torch.float64)
    line = torch.stack([layer, torch.ones_like(layer)], 1)
    fit = line @ torch.linalg.lstsq(line, square[:, None]).solution
    off = relative_error(fit[:, 0], square)
    post = result.numbers["growth, post, residual"] or 0.0
    return ClaimMeasurement(
        f"After {len(size) - 1} layers the stream is {fmt((size[-1] / size[0]).item())} times as large; its square lies on a "
        f"straight line up to {fmt(off)}. With post-norm it is {fmt(post)} times as large.",
        verdict_of(off < 0.2 and size[-1].item() > 1.5 * size[0].item()),
        "Untrained, random weights.",
        {"growth, pre": (size[-1] / size[0]).item(), "off a line": off, "growth, post": post},
        figure_panel(
            "square of the stream's size, relative",
            "layer",
            "",
            curve("pre-norm", layer, square),
            curve("straight line", layer, fit[:, 0], dashed=True),
        ),
    )


@claim(
    "Residual connections keep gradients from vanishing in deep networks.",
    "He 2016, “Identity Mappings in Deep Residual Networks”, section 2",
)
def residuals_carry_gradients(setting: Setting) -> ClaimMeasurement:
    result = setting.result(depth.STUDY)
    n = {kind: result.numbers[f"gradient, {kind}"] or 0.0 for kind in depth.KINDS}
    with_it, without, normed, neither = (
        n[k] for k in ("no norm, residual", "no norm, no residual", "pre, residual", "pre, no residual")
    )
    kept = with_it > 0.1
    return ClaimMeasurement(
        f"The gradient that arrives at the input, over that at the top, without a norm: {fmt(with_it)} with residuals, "
        f"{fmt(without)} without. With pre-norm: {fmt(normed)} with, {fmt(neither)} without.",
        verdict_of(kept and without < 0.01 and max(with_it, normed) < 100, kept and without < 0.01),
        "They keep it from vanishing; without a norm it explodes instead, and with one it does not vanish without residuals "
        "either.",
        n,
        result.panels[1:2],
    )


@claim(
    "Attention alone, without residuals and feed-forward, makes all words equal, doubly exponentially with depth.",
    "Dong 2021, “Attention Is Not All You Need”, section 2.1",
)
def pure_attention_collapses(setting: Setting) -> ClaimMeasurement:
    result = setting.result(depth.STUDY)
    apart = {kind: result.numbers[f"words apart, {kind}"] or 0.0 for kind in ("pre, residual", "pre, no residual")}
    curves = {f"weights × {size:g}": _collapse(size) for size in (0.3, 1.0, 3.0)}
    tripled = {name: _quickening(y) for name, y in curves.items()}
    layers = {name: next((i for i, v in enumerate(y) if v < ROUNDING), None) for name, y in curves.items()}
    collapsed = None not in layers.values() and apart["pre, no residual"] < 0.01 < apart["pre, residual"]
    return ClaimMeasurement(
        f"Words are equal, up to rounding, after {', '.join(f'{n} layers ({name})' for name, n in layers.items())}. Near the end "
        f"the exponent of the fall grows {', '.join(fmt(t) for t in tripled.values())}-fold a layer (cubic convergence is 3). "
        f"In blocks with pre-norm words differ in {fmt(apart['pre, residual'])} with residuals, in "
        f"{fmt(apart['pre, no residual'])} without.",
        verdict_of(collapsed and min(tripled.values()) > 2, collapsed),
        "Random weights. The larger W_Q and W_K, the later it begins: sharp weights average less.",
        {f"quickening, {n}": t for n, t in tripled.items()} | {f"layers, {n}": c for n, c in layers.items()},
        figure_panel(
            "how far words are apart",
            "layer",
            "",
            *[curve(n, list(range(len(y))), [max(v, 1e-17) for v in y]) for n, y in curves.items()],
            log="y",
        ),
    )


def _quickening(distances: list[float]) -> float:
    """By what factor the exponent of the fall grew in the last layer before rounding."""
    logs = torch.tensor([v for v in distances if v > ROUNDING], dtype=torch.float64).log()
    steps = -logs.diff()
    return (steps[-1] / steps[-2]).item() if len(steps) > 1 else 0.0


def _collapse(size: float, layers: int = 12) -> list[float]:
    """The differences between 16 words, before and after each layer of attention alone."""
    x = normal(16, 32)
    apart = []
    for layer in range(layers + 1):
        apart.append(relative_error(x, x.mean(0, keepdim=True).expand_as(x)))
        attention = MultiHeadAttention(32, heads=2).double()
        with torch.no_grad():
            for parameter in (attention.q_proj.weight, attention.k_proj.weight):
                parameter.mul_(size)
            x = attention(Tokens.of(x)) if layer < layers else x
    return apart


# --- initialisation --------------------------------------------------------------------------------------------------
@claim(
    "A block whose sublayers end in zero weights starts as the identity, and still learns.",
    "Bachlechner 2021 (ReZero), section 3; Zhang 2019 (Fixup), section 3",
)
def zero_weights_begin_as_the_identity(setting: Setting) -> ClaimMeasurement:
    tokens, moved, learns = text(8, 16), {}, {}
    for order in ("pre", "post"):
        model = build(Spec(16, layers=4, block=Block(Attention(heads=2), Norm(order=order)))).double()
        with torch.no_grad():
            for name, parameter in model.blocks.named_parameters():
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    parameter.zero_()
        y, seen = tokens.x, tokens
        for block in model.blocks:
            y = block(seen)
            seen = replace(seen, x=y)
        moved[order] = relative_error(y, tokens.x)
        (y * normal(8, 16)).sum().backward()
        grads = {name: parameter.grad for name, parameter in model.blocks.named_parameters()}
        learns[order] = min(
            g.norm().item() for n, g in grads.items() if g is not None and n.endswith(("o_proj.weight", "down_proj.weight"))
        )
    same = {order: m < ROUNDING for order, m in moved.items()}
    return ClaimMeasurement(
        f"Four blocks with W_O and W₂ at zero move words by {fmt(moved['pre'])} with pre-norm, {fmt(moved['post'])} with "
        f"post-norm; the gradients of these weights are {fmt(learns['pre'])} or more.",
        verdict_of(all(same.values()) and min(learns.values()) > 0, same["pre"] and learns["pre"] > 0),
        "With pre-norm; a norm behind the residual changes the words themselves.",
        {f"moved, {o}": m for o, m in moved.items()} | {f"gradient, {o}": g for o, g in learns.items()},
    )


@claim("Heads that start equal stay equal: random weights must break the symmetry.", "Goodfellow 2016, section 8.4")
def equal_heads_stay_equal(setting: Setting) -> ClaimMeasurement:
    apart = {}
    for name, differ in {"equal": 0.0, "nearly equal": 1e-3}.items():
        attention = MultiHeadAttention(8, heads=2).double()
        with torch.no_grad():
            for part, axis in (("q", 0), ("k", 0), ("v", 0), ("o", 1)):
                parameter = attention.get_parameter(f"{part}_proj.weight")
                first, second = parameter.chunk(2, axis)
                second.copy_(first + differ * torch.randn_like(first))
        x, wanted = normal(64, 6, 8), normal(64, 6, 8)
        rate = 0.5
        for _ in range(30 if setting.quick else 200):
            loss = (attention(Tokens.of(x)) - wanted).square().mean()
            gradients = torch.autograd.grad(loss, list(attention.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(attention.parameters(), gradients, strict=True):
                    parameter.sub_(rate * gradient)
        first, second = attention.q_proj.weight.detach().chunk(2)
        apart[name] = relative_error(second, first)
    return ClaimMeasurement(
        f"After {30 if setting.quick else 200} steps two heads that started equal differ by {fmt(apart['equal'])}, two that "
        "started "
        f"0.001 apart by {fmt(apart['nearly equal'])}.",
        verdict_of(apart["equal"] < 1e-9 < apart["nearly equal"]),
        "",
        apart,
    )
