"""All positions at once against one step after the other: attention and a recurrent net of the same width.

One idea: a recurrent net has N sequential steps; attention has one, with N times as much work in it.
Source: Vaswani et al. 2017, section 4 and table 1 (sequential operations).
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.attention import MultiHeadAttention
from equiscope.study.base import Cell, Each, Panel, ResultTable, Study, StudyResult, fmt, time_interleaved, timing_curve
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

WIDTH = 64


def measure(quick: bool, each: Each) -> StudyResult:
    """Width 64, forward, float32: attention (torch's fused kernel), the RNN in one call of torch, the RNN step by step."""
    lengths, rounds = ([16, 64, 256], 3) if quick else ([16, 32, 64, 128, 256, 512, 1024, 2048], 9)
    attention, rnn = MultiHeadAttention(WIDTH, heads=4), nn.RNN(WIDTH, WIDTH, batch_first=True)
    agree = relative_error(one_by_one(rnn, x := torch.randn(1, 16, WIDTH)), rnn(x)[0])
    times = {n: _times(attention, rnn, n, rounds) for n in each(lengths, "lengths")}
    chain = {n: longest_wait(rnn, n) for n in (16, 64)}
    rivals = list(times[lengths[0]])
    n = lengths[-2]
    answer = (
        f"An RNN needs N sequential steps ({', '.join(f'{c} at N = {m}' for m, c in chain.items())}, counted), "
        f"attention one. At N = {n} and width {WIDTH}: "
        + ", ".join(f"{rival} {fmt(times[n][rival][0])} ms" for rival in rivals) + "."
    )  # fmt: skip
    notes = [
        "On one core, as here, attention gains by making few large products instead of many small ones; its work grows as N "
        "squared, so a long text can lose. Cores and GPUs take its rows at once, and cannot do so with an RNN's steps.",
        f"Both RNNs are one net: their outputs differ by {'rounding' if agree < 1e-5 else fmt(agree)}.",
        f"Medians of {rounds} calls made turn by turn, without gradient; one sequence, one thread.",
    ]
    rows: list[list[Cell]] = [[m, *(v for r in rivals for v in t[r][:1])] for m, t in times.items()]
    x_axis = [float(m) for m in lengths]
    return StudyResult(
        "One step for all positions, or N steps in a row", answer,
        {"steps at N = 16": chain[16], "steps at N = 64": chain[64], "both RNNs": agree},
        [Panel(f"forward at width {WIDTH}", "N", "milliseconds", [
            timing_curve(r, x_axis, [t[r] for t in times.values()]) for r in rivals],
               log="xy")],
        ResultTable(["N", *(f"{r} (ms)" for r in rivals)], rows), notes,
    )  # fmt: skip


def one_by_one(rnn: nn.RNN, x: Tensor) -> Tensor:
    """The same net in Python: [B, N, D] to [B, N, D], each state from the one before."""
    w_in, w_back, b_in, b_back = rnn.all_weights[0]
    state, states = torch.zeros_like(x[:, 0]), []
    for row in x.unbind(1):
        state = (row @ w_in.T + b_in + state @ w_back.T + b_back).tanh()
        states.append(state)
    return torch.stack(states, 1)


def longest_wait(rnn: nn.RNN, n: int) -> int:
    """How many tanh stand one behind the other between the first word and the last state, counted in autograd's graph."""

    @cache
    def steps(node: Any) -> int:
        return max((steps(parent) for parent, _ in node.next_functions if parent), default=0) + node.name().startswith("Tanh")

    return steps(one_by_one(rnn, torch.randn(1, n, WIDTH))[:, -1].sum().grad_fn)


def _times(attention: MultiHeadAttention, rnn: nn.RNN, n: int, rounds: int) -> dict[str, tuple[float, float, float]]:
    x = torch.randn(1, n, WIDTH)
    tokens = Tokens.of(x)
    rivals = {
        "attention": lambda: attention(tokens),
        "RNN, torch's": lambda: rnn(x)[0],
        "RNN, step by step": lambda: one_by_one(rnn, x),
    }
    return time_interleaved(rivals, rounds)


STUDY = Study("parallel", "Why all positions at once?", "Vaswani 2017, section 4", measure)
