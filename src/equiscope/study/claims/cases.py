"""Claims that relate attention to convolutions, recurrences, graphs, kernels and memories; and approximations of it."""

import math

import torch
from torch import Tensor, nn

from equiscope.attention import (
    Causal,
    GraphAttention,
    LinearAttention,
    convolution_as_attention,
    convolution_as_dense,
    eager_attention,
    recurrence_of,
    unrolled_rnn_as_mlp,
)
from equiscope.study import approximate
from equiscope.study.base import fmt
from equiscope.study.claims.base import ROUNDING, ClaimMeasurement, Setting, claim, normal, text, verdict_of
from equiscope.symmetry import relative_error


@claim("Multi-head self-attention with relative positions can express any convolution.", "Cordonnier 2020, theorem 1")
def a_convolution_is_attention(setting: Setting) -> ClaimMeasurement:
    errors = {}
    for name, layer in {
        "3 × 3": nn.Conv2d(3, 5, 3),
        "3 × 3, zeros around": nn.Conv2d(3, 5, 3, padding=1),
        "3 × 3 on a ring, stride 2": nn.Conv2d(3, 5, 3, padding=1, padding_mode="circular", stride=2),
    }.items():
        layer = layer.double()
        x = normal(2, 3, 8, 8)
        with torch.no_grad():
            errors[name] = relative_error(convolution_as_attention(layer)(x), layer(x))
    return ClaimMeasurement(
        "Nine heads, one for each number of the kernel, equal torch's convolution: "
        f"{', '.join(f'{n} up to {fmt(e)}' for n, e in errors.items())}.",
        verdict_of(max(errors.values()) < ROUNDING),
        "It takes K² heads for a K × K kernel, and a null key for zeros around the picture.",
        errors,
    )


@claim("A convolution is a dense layer whose matrix repeats itself along diagonals.", "Goodfellow 2016, section 9.1")
def a_convolution_is_a_toeplitz_matrix(setting: Setting) -> ClaimMeasurement:
    layer, x = nn.Conv1d(1, 1, 3, padding=1).double(), normal(1, 1, 16)
    dense = convolution_as_dense(layer, (16,))
    with torch.no_grad():
        error = relative_error(dense(x.flatten(1)), layer(x).flatten(1))
    diagonals = max((dense.weight.diagonal(d) - dense.weight.diagonal(d)[0]).abs().max().item() for d in range(-15, 16))
    filled = (dense.weight != 0).double().mean().item()
    return ClaimMeasurement(
        f"The dense layer of 16 cells gives the convolution up to {fmt(error)}; along each diagonal its numbers differ by "
        f"{fmt(diagonals)}, and {fmt(100 * filled)} % of them are not 0.",
        verdict_of(error < ROUNDING and diagonals == 0),
        "",
        {"error": error, "along a diagonal": diagonals, "filled": filled},
    )


@claim(
    "A recurrent network, unrolled, is a deep feed-forward network whose layers share their weights.",
    "Goodfellow 2016, section 10.1",
)
def an_unrolled_rnn_is_an_mlp(setting: Setting) -> ClaimMeasurement:
    rnn, x = nn.RNN(4, 8, batch_first=True).double(), normal(2, 12, 4)
    deep = unrolled_rnn_as_mlp(rnn, 12)
    with torch.no_grad():
        error = relative_error(deep(x), rnn(x)[0])
    many = len({id(layer) for layer in deep.layers})
    return ClaimMeasurement(
        f"12 layers with {many} set of weights give torch's RNN over 12 steps up to {fmt(error)}.",
        verdict_of(error < ROUNDING and many == 1),
        "It reads an input in every layer.",
        {"error": error, "different layers": many},
    )


@claim("Causal linear attention is a recurrent network.", "Katharopoulos 2020, section 3.4, equations 18 to 20")
def linear_attention_is_an_rnn(setting: Setting) -> ClaimMeasurement:
    attention, tokens = LinearAttention(16, heads=2, mask=Causal()).double(), text(96, 16)
    error = relative_error(recurrence_of(attention)(tokens), attention(tokens))
    state = 2 * 8 * 8 + 2 * 8
    return ClaimMeasurement(
        f"Row after row, with a state of {state} numbers that does not grow, gives the parallel form up to {fmt(error)}, 96 words.",
        verdict_of(error < ROUNDING),
        "Softmax attention has no such finite state: its cache grows with every word.",
        {"error": error},
    )


@claim(
    "A transformer is a graph network: attention is message passing on the complete graph.",
    "Joshi 2020, “Transformers are Graph Neural Networks”",
)
def attention_is_message_passing(setting: Setting) -> ClaimMeasurement:
    graph, tokens = GraphAttention(16, heads=2).double(), text(10, 16)
    every = torch.cartesian_prod(torch.arange(10), torch.arange(10)).T
    full = relative_error(graph(tokens, every), graph.attention(tokens))
    fewer = relative_error(graph(tokens, every[:, :-10]), graph.attention(tokens))
    return ClaimMeasurement(
        f"Messages along all 100 edges of 10 words equal attention up to {fmt(full)}; without the last 10 edges they are off by "
        f"{fmt(fewer)}.",
        verdict_of(full < ROUNDING < fewer),
        "",
        {"all edges": full, "ten fewer": fewer},
    )


@claim(
    "Attention is kernel smoothing (Nadaraya–Watson) with a Gaussian kernel.",
    "Zhang 2023, “Dive into Deep Learning”, section 11.3; Tsai 2019, abstract",
)
def attention_is_gaussian_smoothing(setting: Setting) -> ClaimMeasurement:
    q, k, v = normal(20, 8), normal(30, 8), normal(30, 5)
    sized = k / k.norm(dim=-1, keepdim=True) * math.sqrt(8)
    equal, free = (relative_error(_smoothed(q, keys, v), eager_attention(q, keys, v)) for keys in (sized, k))
    return ClaimMeasurement(
        f"With a bandwidth of K^¼ both agree up to {fmt(equal)} where keys have one length, and differ by {fmt(free)} where "
        "keys are random.",
        verdict_of(free < ROUNDING, equal < ROUNDING),
        "Keys of one length (a norm of the keys sees to it). Else the kernel is exp(q·k), which is not symmetric and prefers "
        "long keys.",
        {"keys of one length": equal, "random keys": free},
    )


def _smoothed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The mean of values, weighted by exp(-|q - k|^2 / 2h^2) with h^2 = sqrt(K), by loops over pairs."""
    far = (q[:, None] - k[None]).square().sum(-1)
    kernel = torch.exp(-far / (2 * math.sqrt(q.shape[-1])))
    return (kernel[..., None] * v[None]).sum(1) / kernel.sum(1, keepdim=True)


@claim(
    "Attention is the update of a modern Hopfield network: one step retrieves a stored pattern.",
    "Ramsauer 2021, section 2, equation 3, and theorem 4",
)
def attention_retrieves_a_pattern(setting: Setting) -> ClaimMeasurement:
    many, width = (200 if setting.quick else 2000), 64
    stored = normal(many, width)
    noisy = stored[:50] + 0.5 * normal(50, width)
    errors = {
        beta: relative_error(eager_attention(noisy * beta * math.sqrt(width), stored, stored), stored[:50])
        for beta in (0.01, 0.125, 1.0)
    }
    start = relative_error(noisy, stored[:50])
    return ClaimMeasurement(
        f"Of {many} random patterns of width {width}, a query that is off by {fmt(start)} comes, in one step, to within "
        f"{fmt(errors[1.0])} of its pattern at β = 1, {fmt(errors[0.125])} at β = 1/√K and {fmt(errors[0.01])} at β = 0.01.",
        verdict_of(max(errors.values()) < 1e-3, errors[1.0] < 1e-3),
        "With β large against the distance of the patterns. With attention's own 1/√K the step ends in a mean of several.",
        {f"error at beta = {b:g}": e for b, e in errors.items()} | {"error before": start},
    )


@claim(
    "Cheaper kinds of attention are good approximations of full attention.",
    "Xiong 2021 (Nyströmformer), abstract; Wang 2020 (Linformer), section 4",
)
def cheap_attention_approximates(setting: Setting) -> ClaimMeasurement:
    result = setting.result(approximate.STUDY)
    kinds = ("sliding window", "blocks", "dilated", "Linformer", "Nystrom")
    errors = {kind: result.numbers[f"{kind}, N/4"] or 0.0 for kind in kinds}
    errors["linear (elu + 1)"] = result.numbers["linear"] or 0.0
    near = [kind for kind, e in errors.items() if e < 0.1]
    best = min(errors, key=lambda kind: errors[kind])
    return ClaimMeasurement(
        f"On random queries and keys, untrained, with a quarter of the keys, they are off by "
        f"{', '.join(f'{fmt(e)} ({kind})' for kind, e in errors.items())} of the output's size.",
        verdict_of(len(near) == len(errors), bool(near)),
        f"None comes within 0.1 here; the nearest is {best}. A model trained with a kind learns to live with it, which is another "
        "claim."
        if not near
        else f"Within 0.1: {', '.join(near)}.",
        errors,
        result.panels[:1],
    )
