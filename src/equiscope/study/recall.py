"""Recall: one task for three networks of the same width, which shows how far each reaches, and how long it takes.

One idea: one token is marked, and every output from there on has to name its symbol. Replace that symbol, and the outputs that
change are those that depend on it. `python -m equiscope.study.recall` trains, measures and writes the record of the reach page.
Source: the task is ours; Vaswani et al. 2017, table 1 (path lengths, sequential operations).
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from equiscope import outputs
from equiscope.explore.pages.reach import RECORD
from equiscope.models import Attention, Baseline, Block, Built, Lstm, Spec, build
from equiscope.record import Array, pack
from equiscope.record.reach import Reach, ReachNetwork, Weights
from equiscope.study.base import Each, no_progress, seeded, time_interleaved
from equiscope.training.folder import processor

SYMBOLS = "ABCDEFGH"
WIDTH, TIMED_WIDTH, HEADS, LAYERS, KERNEL = 32, 256, 4, 4, 3
LENGTH, TRAINED = 64, 32
BATCH, RATE, CASES, SEEDS = 64, 1e-2, 64, (0, 1, 2)
TIMED = [16, 32, 64, 128, 256, 512, 1024, 2048]
NOTES = [
    "A token is one of eight symbols, and one token is marked. From there on, each output has to name the marked symbol.",
    f"All networks are {WIDTH} wide, have one layer (the convolution {LAYERS}), use no positions, and read from left to right: an "
    "output depends on the tokens up to its own.",
    f"Trained: Adam, rate {RATE:g}, batches of {BATCH} texts of up to {TRAINED} tokens. Random: the same networks before that.",
    f"Changes and shares of right answers are of {CASES} texts for each marked token, in float64.",
    f"Timed: the same networks, {TIMED_WIDTH} wide, with random weights; CPU time of one thread.",
]


class Convolutions(nn.Module):
    """Ids [..., N] to scores [..., N, outputs]; each layer depends on a token and the KERNEL − 1 before it."""

    def __init__(self, width: int, vocabulary: int, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, KERNEL) for _ in range(LAYERS))
        self.output_layer = nn.Linear(width, outputs)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids).mT
        for layer in self.layers:
            x = layer(nn.functional.pad(x, (KERNEL - 1, 0))).tanh()
        y: Tensor = self.output_layer(x.mT)
        return y


def lstm(width: int = WIDTH) -> Built:
    return build(Baseline("lstm", width=width, vocabulary=2 * len(SYMBOLS), outputs=len(SYMBOLS)))


def convolutions(width: int = WIDTH) -> nn.Module:
    return Convolutions(width, 2 * len(SYMBOLS), len(SYMBOLS))


def attention(width: int = WIDTH) -> Built:
    block = Block(Attention(heads=HEADS, causal=True), feedforward=None)
    return build(Spec(width, vocabulary=2 * len(SYMBOLS), outputs=len(SYMBOLS), block=block))


NETWORKS: list[tuple[str, str, str, Callable[..., nn.Module], int]] = [  # the last is the number of training steps
    (
        "lstm", "LSTM", "One token after the other: what it knows of all earlier tokens is a state of fixed size.",
        lstm, 300,
    ),
    (
        "convolution", f"{LAYERS} convolutions", f"Each layer combines a token with the {KERNEL - 1} before it.", convolutions, 300,
    ),
    (
        "attention", "attention", "Each output is a weighted sum over all tokens up to its own, in one layer.", attention, 300,
    ),
]  # fmt: skip


def reach(each: Each = no_progress, quick: bool = False) -> Reach:
    """Train and measure.

    each   wraps the networks and seeds, so that a terminal can show how far they are
    quick  few steps and texts, one seed: to try it
    """
    seeds, timed, rounds, cases = (SEEDS[:1], TIMED[:2], 3, 2) if quick else (SEEDS, TIMED, 15, CASES)
    with seeded(0):
        built = {
            name: [_pair(make, seed, 20 if quick else steps) for seed in each(seeds, name)] for name, _, _, make, steps in NETWORKS
        }
        rivals = {name: make(TIMED_WIDTH).eval() for name, _, _, make, _ in NETWORKS}
        times = {n: _times(rivals, n, rounds) for n in each(timed, "lengths")}
        networks = [
            ReachNetwork(
                name=name, title=title, about=about, parameters=sum(p.numel() for p in built[name][0]["random"].parameters()),
                influence={kind: _packed(influence(model, cases)) for kind, model in built[name][0].items()},
                right={kind: [right(pair[kind], cases) for pair in built[name]] for kind in ("random", "trained")},
                steps=[sequential_steps(built[name][0]["random"], n) for n in timed],
                times=[times[n][name] for n in timed],
            )
            for name, title, about, _, _ in NETWORKS
        ]  # fmt: skip
        example = torch.randint(len(SYMBOLS), (LENGTH,)).tolist()
    return Reach(
        title="How far does a network reach, and how long does it take?",
        summary="Three networks of the same width read the same text. Choose a token: the bars show how much each output changes "
        "when that token is replaced.",
        symbols=list(SYMBOLS), example=example, length=LENGTH, trained_length=TRAINED, networks=networks, timed_lengths=timed,
        timed_width=TIMED_WIDTH, rounds=rounds, dtype="float32", cpu=processor(), torch=str(torch.__version__), notes=NOTES,
    )  # fmt: skip


def _pair(make: Callable[[], nn.Module], seed: int, steps: int) -> dict[Weights, nn.Module]:
    """The network with random weights, and the same after training; both in float64."""
    models: list[nn.Module] = []
    for _ in range(2):
        torch.manual_seed(seed)
        models.append(make().double())
    train(models[1], steps, seed)
    return {"random": models[0].eval(), "trained": models[1].eval()}


def texts(cases: int, length: int, marked: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ids [cases, length], of which the one at `marked` [cases] is raised by the number of symbols, and that symbol [cases]."""
    symbols = torch.randint(len(SYMBOLS), (cases, length), generator=generator)
    wanted = symbols.gather(1, marked[:, None])
    return symbols.scatter(1, marked[:, None], wanted + len(SYMBOLS)), wanted[:, 0]


def train(model: nn.Module, steps: int, seed: int) -> None:
    """On texts of 4 to TRAINED tokens; the loss is of every output from the marked token on."""
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        length = int(torch.randint(4, TRAINED + 1, (), generator=generator))
        marked = torch.randint(length, (BATCH,), generator=generator)
        ids, wanted = texts(BATCH, length, marked, generator)
        counted = torch.arange(length) >= marked[:, None]
        loss = nn.functional.cross_entropy(model(ids)[counted], wanted[:, None].expand(-1, length)[counted])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()


@torch.no_grad()
def influence(model: nn.Module, cases: int = CASES) -> Tensor:
    """[LENGTH, LENGTH]: row i, column j is the change of the output at j when the marked symbol at i is replaced."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for i in range(LENGTH):
        ids, symbol = texts(cases, LENGTH, torch.full((cases,), i), generator)
        other = ids.clone()
        other[:, i] = len(SYMBOLS) + (symbol + torch.randint(1, len(SYMBOLS), (cases,), generator=generator)) % len(SYMBOLS)
        y, changed = model(ids), model(other)
        rows.append((changed - y).norm(dim=(0, 2)) / y.norm(dim=(0, 2)))
    return torch.stack(rows)


@torch.no_grad()
def right(model: nn.Module, cases: int = CASES) -> list[float]:
    """Share of right answers at the last of LENGTH tokens, by how many tokens back the marked one is."""
    generator = torch.Generator().manual_seed(1)
    shares = []
    for back in range(LENGTH):
        ids, wanted = texts(cases, LENGTH, torch.full((cases,), LENGTH - 1 - back), generator)
        shares.append((model(ids)[:, -1].argmax(-1) == wanted).double().mean().item())
    return shares


# --- steps and time --------------------------------------------------------------------------------------------------------
def sequential_steps(model: nn.Module, n: int) -> int:
    """Matrix products on the longest chain in which each needs the one before, counted in autograd's graph.

    An LSTM is counted step by step: torch's own is one node of that graph.
    """
    ids = torch.zeros(1, n, dtype=torch.long)

    @cache
    def longest(node: Any) -> int:
        return max((longest(parent) for parent, _ in node.next_functions if parent), default=0) + _products(node.name())

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 50 * n + 1000))  # a graph of n steps is some ten nodes deep for each
    try:
        return longest((step_by_step(model, ids) if isinstance(model, Lstm) else model(ids)).sum().grad_fn)
    finally:
        sys.setrecursionlimit(before)


def _products(name: str) -> int:
    """Of a fused attention kernel there are two: QKᵀ and AV."""
    if name.startswith("ScaledDotProduct"):
        return 2
    return int(name.removesuffix("Backward0") in ("Mm", "Addmm", "Bmm", "Baddbmm", "Convolution", "Linear"))


def step_by_step(model: Lstm, ids: Tensor) -> Tensor:
    """The same LSTM in Python, each state from the one before: ids [1, N] to scores [1, N, outputs]."""
    layer = model.blocks[0]
    assert isinstance(layer, nn.LSTM)
    w_in, w_back, b_in, b_back = layer.all_weights[0]
    inputs = model.embedding(ids) @ w_in.T + b_in
    state = memory = torch.zeros_like(inputs[:, 0, :WIDTH])
    states = []
    for row in inputs.unbind(1):
        write, keep, content, show = (row + torch.addmm(b_back, state, w_back.T)).chunk(4, -1)
        memory = keep.sigmoid() * memory + write.sigmoid() * content.tanh()
        state = show.sigmoid() * memory.tanh()
        states.append(state)
    y: Tensor = model.output_layer(torch.stack(states, 1))
    return y


def _times(models: dict[str, nn.Module], n: int, rounds: int) -> dict[str, list[float]]:
    ids = torch.randint(2 * len(SYMBOLS), (1, n))
    calls: dict[str, Callable[[], object]] = {name: partial(model, ids) for name, model in models.items()}
    return {name: [low, median, high] for name, (median, low, high) in time_interleaved(calls, rounds, process_time).items()}


def _packed(x: Tensor) -> Array:
    """In float32 with eight bits of the fraction: three digits, which is what a page shows, and half the bytes."""
    bits = x.float().numpy().view(np.uint32)
    return pack(((bits + 0x4000) & np.uint32(0xFFFF8000)).view(np.float32))


def _printed(items: Iterable[Any], what: str) -> Iterator[Any]:
    for item in items:
        print(what, item, flush=True)
        yield item


def main(arguments: list[str]) -> int:
    path = outputs.write(arguments[0] if arguments else RECORD, msgspec.json.encode(reach(_printed)).decode() + "\n")
    print(f"wrote {path} ({Path(path).stat().st_size / 1000:.0f} kB)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
