"""What norm and residual do for depth: the size of activations going up, and of gradients coming down.

One idea: send one random gradient down from the last layer, and look at every layer at its size and at the words.
Source: He et al. 2016; Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture"; on words becoming one,
Dong et al. 2021, "Attention is not all you need".
"""

from dataclasses import replace

import torch
from torch import Tensor

from equiscope.models import Attention, Block, Norm, Spec, build
from equiscope.study.base import Curve, Each, Panel, ResultTable, Study, StudyResult, fmt
from equiscope.tokens import Tokens

WIDTH, LENGTH = 32, 8
ORDERS: dict[str, Norm | None] = {
    "no norm": None, "pre": Norm(order="pre"), "post": Norm(order="post"),
    "pre (RMS)": Norm("rms", "pre"), "post (RMS)": Norm("rms", "post"),
}  # fmt: skip
KINDS = {f"{name}, {'residual' if r else 'no residual'}": (norm, r) for r in (True, False) for name, norm in ORDERS.items()}


def measure(quick: bool, each: Each) -> StudyResult:
    """Ten kinds of block, 48 layers deep, at random parameters; medians over seeds."""
    layers, samples = (16, 1) if quick else (48, 9)
    runs = {kind: [_sizes(*KINDS[kind], layers) for _ in range(samples)] for kind in each(list(KINDS), "kinds of block")}
    size, gradient, apart = (
        {k: torch.stack([r[i] for r in of_kind]).median(0).values for k, of_kind in runs.items()} for i in range(3)
    )
    numbers: dict[str, float | None] = {f"gradient, {k}": g[0].item() for k, g in gradient.items()}
    numbers |= {f"growth, {k}": (s[-1] / s[0]).item() for k, s in size.items()}
    numbers |= {f"words apart, {k}": a[-1].item() for k, a in apart.items()}
    arrives, stays = ({k: fmt(numbers[f"{what}, {k}"]) for k in KINDS} for what in ("gradient", "words apart"))
    answer = (
        f"After {layers} layers without a norm, the gradient at the input is {arrives['no norm, residual']} times that at the top "
        f"with a residual, and {arrives['no norm, no residual']} without. A norm brings it to {arrives['pre, residual']} (pre) and "
        f"{arrives['post, residual']} (post). Only pre-norm with a residual also keeps the words apart: at the top they differ in "
        f"{stays['pre, residual']} of the stream, with post in {stays['post, residual']}, with pre but no residual in "
        f"{stays['pre, no residual']}."
    )
    notes = [
        f"Without a norm the stream of the residual grows {fmt(numbers['growth, no norm, residual'])}-fold; with pre "
        f"{fmt(numbers['growth, pre, residual'])}-fold, so that upper layers change it less; with post "
        f"{fmt(numbers['growth, post, residual'])}-fold, since every norm divides the whole stream.",
        f"Norms alone, without a residual, also keep the gradient from vanishing ({arrives['pre, no residual']} pre, "
        f"{arrives['post, no residual']} post). But untrained attention averages, and the words become one word.",
        f"RMSNorm instead of LayerNorm, with a residual: the gradient comes to {arrives['pre (RMS), residual']} (pre) and "
        f"{arrives['post (RMS), residual']} (post), and words differ in {stays['pre (RMS), residual']} and "
        f"{stays['post (RMS), residual']} of the stream: what holds sizes is the division, not the mean that is taken off.",
        f"Width {WIDTH}, {LENGTH} words, 2 heads, GELU, weights of variance 1 / inputs, untrained; the gradient starts in a random "
        f"direction behind the last block; medians of {samples}. Apart: the share of the stream that is not common to all words.",
    ]
    x = [float(i) for i in range(layers + 1)]
    panels = (("size of a feature (rms)", size), ("gradient, relative to the top", gradient), ("how far words are apart", apart))
    return StudyResult(
        "Norms keep sizes; pre-norm and residual together keep words apart", answer, numbers,
        [Panel(title, "layer", "", [Curve(k, x, y.clamp_min(1e-17).tolist()) for k, y in of_kind.items()], log="y")
         for title, of_kind in panels],
        ResultTable(["block", "gradient at 0 / at the top", "size at the top / at 0", "words apart at the top"],
              [[k, *(numbers[f"{what}, {k}"] for what in ("gradient", "growth", "words apart"))] for k in KINDS]), notes,
    )  # fmt: skip


def _sizes(norm: Norm | None, residual: bool, layers: int) -> tuple[Tensor, Tensor, Tensor]:
    """At layers 0 .. `layers`: rms of the features, the gradient relative to the top, the share that differs between words."""
    model = build(Spec(WIDTH, layers=layers, block=Block(Attention(heads=2), norm=norm, residual=residual))).double()
    x = torch.randn(LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    tokens, stream = Tokens.of(x), [x]
    for block in model.blocks:
        tokens = replace(tokens, x=block(tokens))
        stream.append(tokens.x)
    gradient = torch.stack([g.norm() for g in torch.autograd.grad(stream[-1], stream, torch.randn_like(stream[-1]))])
    rows = torch.stack(stream).detach()
    apart = (rows - rows.mean(-2, keepdim=True)).norm(dim=(-2, -1)) / rows.norm(dim=(-2, -1))
    return rows.square().mean((-2, -1)).sqrt(), gradient / gradient[-1], apart


STUDY = Study("depth", "What do norm and residual do over depth?", "He 2016; Xiong 2020; Dong 2021", measure)
