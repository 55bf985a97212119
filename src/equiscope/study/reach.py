"""Receptive fields: the gradient of one output with respect to every input, against their distance.

One idea: an LSTM forgets step by step, a stack of convolutions depends on its window only, attention on all words alike.
Source: Hochreiter & Schmidhuber 1997; Luo et al. 2016 (receptive fields); Vaswani et al. 2017, table 1 (path lengths).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from equiscope.attention import MultiHeadAttention
from equiscope.study.base import Curve, Each, Panel, ResultTable, Study, StudyResult, fmt
from equiscope.tokens import Tokens

WIDTH, LENGTH, LAYERS, KERNEL, MOVED = 32, 64, 8, 3, 5
FAR = [0, 1, 2, 4, 8, 9, 16, 32, 63]


def measure(quick: bool, each: Each) -> StudyResult:
    """64 words of width 32, read at the last one; untrained nets, medians over nets of the gradient's size."""
    nets = {
        "LSTM": _lstm,
        f"{LAYERS} convolutions of {KERNEL}": _convolutions,
        "attention": _attention,
    }
    curves = {name: _median(net, 3 if quick else 40) for name, net in each(list(nets.items()), "nets")}
    lstm, convolution, attention = curves.values()
    fading = (lstm[0] / lstm[16]).item() ** (1 / 16)
    edge = int((convolution > 0).nonzero().max())
    moved = {circular: _shift_error(circular) for circular in (True, False)}
    equivariance = {circular: (_worst(e, inside=True), _worst(e, inside=False)) for circular, e in moved.items()}
    numbers: dict[str, float | None] = {
        "LSTM, factor a step": fading, "LSTM at 63": lstm[63].item(), "reach of the convolutions": edge,
        "convolutions beyond": convolution[edge + 1 :].max().item(),
        "attention at 63 / at 1": (attention[63] / attention[1]).item(),
        "shift, circular": equivariance[True][0], "shift, zeros, inside": equivariance[False][0],
        "shift, zeros, at the edge": equivariance[False][1],
    }  # fmt: skip
    answer = (
        f"In an LSTM the gradient shrinks {fmt(fading)}-fold a step, to {fmt(lstm[63].item())} of itself at 63 words; {LAYERS} "
        f"convolutions of {KERNEL} reach {edge} words and exactly {fmt(numbers['convolutions beyond'])} beyond; one attention "
        f"layer reaches a word 63 away {fmt(numbers['attention at 63 / at 1'])} times as strongly as its neighbour."
    )
    notes = [
        f"The convolutions commute with a shift: on a circle up to {fmt(numbers['shift, circular'])}; with zeros at the ends "
        f"up to {fmt(numbers['shift, zeros, inside'])} further than {LAYERS} words from the ends, and within that distance the "
        f"error is {fmt(numbers['shift, zeros, at the edge'])}.",
        "What sets the reach: for convolutions the kernel and the layers, for an LSTM its gates "
        "(torch's random ones here: a trained forget gate near 1 reaches further), for attention only the mask.",
        f"Kernels of {KERNEL} along a line: a stack of {KERNEL}×{KERNEL} reaches as far along each axis of an image.",
        "All curves are relative to distance 0; attention is used without its residual here.",
    ]
    x = [float(d) for d in range(LENGTH)]
    lines = [Curve(name, x, [v if v > 0 else None for v in c.tolist()]) for name, c in curves.items()]
    return StudyResult(
        "An LSTM fades, convolutions end, attention reaches all", answer, numbers,
        [Panel("gradient of the last output, relative", "words back", "", lines, log="y"),
         Panel(f"{LAYERS} convolutions of words moved by {MOVED}: error of the moved output", "position", "relative error", [
             Curve("a circle" if circular else "zeros at the ends", x, e.clamp_min(1e-17).tolist()) for circular, e in moved.items()
         ], log="y")],
        ResultTable(["net", *(f"at {d}" for d in FAR)], [[name, *(c[d].item() for d in FAR)] for name, c in curves.items()]), notes,
    )  # fmt: skip


def stack(x: Tensor, circular: bool = False) -> Tensor:
    """Convolutions over [N, D] with tanh between them; weights follow from torch's generator."""
    for _ in range(LAYERS):
        weight = torch.randn(WIDTH, WIDTH, KERNEL, dtype=x.dtype) / math.sqrt(WIDTH * KERNEL)
        rows = x.T[None]
        rows = torch.cat([rows[..., -1:], rows, rows[..., :1]], -1) if circular else nn.functional.pad(rows, (1, 1))
        x = nn.functional.conv1d(rows, weight)[0].T.tanh()
    return x


def _convolutions(x: Tensor) -> Tensor:
    return stack(x)[-1]


def _lstm(x: Tensor) -> Tensor:
    return nn.LSTM(WIDTH, WIDTH, batch_first=True).double()(x[None])[0][0, -1]


def _attention(x: Tensor) -> Tensor:
    return MultiHeadAttention(WIDTH, heads=4).double()(Tokens.of(x))[-1]


def _median(net: Callable[[Tensor], Tensor], nets: int) -> Tensor:
    """Size of the gradient at each distance from the last word, relative to distance 0: [N]."""
    sizes = []
    for _ in range(nets):
        x = torch.randn(LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
        y = net(x)
        gradient = torch.autograd.grad(y, x, torch.randn_like(y))[0]
        sizes.append(gradient.norm(dim=-1).flip(0))
    median = torch.stack(sizes).median(0).values
    return median / median[0]


def _shift_error(circular: bool) -> Tensor:
    """How far the convolutions of moved words are from moved outputs, at each position, relative to a row's size: [N]."""
    x = torch.randn(LENGTH, WIDTH, dtype=torch.float64)
    state = torch.random.get_rng_state()
    y = stack(x, circular)
    torch.random.set_rng_state(state)  # the same weights
    output, expected = stack(x.roll(MOVED, 0), circular), y.roll(MOVED, 0)
    return (output - expected).norm(dim=-1) / expected.norm(dim=-1).mean()


def _worst(error: Tensor, inside: bool) -> float:
    """The largest error further from the ends than the convolutions reach, or the largest of those nearer."""
    middle = slice(LAYERS + MOVED, LENGTH - LAYERS)
    return (error[middle] if inside else torch.cat([error[: middle.start], error[middle.stop :]])).max().item()


STUDY = Study("reach", "How large is the receptive field?", "Vaswani 2017, table 1", measure)
