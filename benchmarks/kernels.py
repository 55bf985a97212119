"""The speed of a training step on a CPU with the fused attention kernels, relative to torch's public call or the plain formula.

    python -m benchmarks.kernels            a table, and benchmarks/results
    python -m benchmarks.kernels --quick    tiny, two turns, nothing is saved

A step is forward, loss, backward and AdamW of a character GPT. It runs with and without the kernel, in turns in one process.
Seconds are CPU seconds of the process, so that other processes have little influence. The ratio is computed in each turn; the
table has its median and its middle half. A kernel stays if some usual size trains at least 1.2 times as fast with it.
"""

import argparse
import datetime
import time

import torch
import torch.nn.functional as F
from benchmarks.machine import machine, save, versions

import equiscope as eq
from equiscope.attention import scores
from equiscope.kernels import cpu, short
from equiscope.models import PRESETS, Mixed
from equiscope.positions import Alibi, Shaw, T5Bias

VOCABULARY = 65
BIAS, SHORT, SHOWN = "a bias on the CPU (cpu.py)", "short rows in bfloat16 (short.py)", "weights that are returned (shown.py)"
ROOMS = {BIAS: cpu, SHORT: short, SHOWN: scores}  # whose `takes` says whether the fast way serves
CASES = {  # layers, width, heads, tokens, batch; the position; whether in bfloat16
    BIAS: {
        "ALiBi, 4x256, 256 tokens": ((4, 256, 4, 256, 8), Alibi(), False),
        "ALiBi, 4x256, 1024 tokens": ((4, 256, 4, 1024, 2), Alibi(), False),
        "T5's bias, 4x256, 256 tokens": ((4, 256, 4, 256, 8), T5Bias(), False),
        "T5's bias, 4x256, 1024 tokens": ((4, 256, 4, 1024, 2), T5Bias(), False),
    },
    SHORT: {
        "4x128, 64 tokens": ((4, 128, 4, 64, 12), None, True),
        "6x384, 256 tokens": ((6, 384, 6, 256, 16), None, True),
    },
    SHOWN: {
        "Shaw, 4x256, 256 tokens": ((4, 256, 4, 256, 8), Shaw(), False),
        "Shaw, 4x256, 1024 tokens": ((4, 256, 4, 1024, 2), Shaw(), False),
    },
}
TINY = 1, 32, 2, 16, 2


def stepper(size, position, bfloat16):
    """One training step as a function."""
    layers, width, heads, tokens, batch = size
    torch.manual_seed(0)
    spec = PRESETS["gpt2"](width, layers, heads, VOCABULARY, tokens, bias=False, activation="gelu")
    model = eq.build(spec if position is None else spec.with_position(position)).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    computes = Mixed(model) if bfloat16 else model
    ids, target = torch.randint(VOCABULARY, (2, batch, tokens))

    def step():
        F.cross_entropy(computes(ids).flatten(0, 1).float(), target.flatten()).backward()
        if bfloat16:
            computes.accumulate_gradients()
        optimiser.step()
        optimiser.zero_grad()
        if bfloat16:
            computes.update_copy()

    return step


def measured(kind, step, turns):
    """Seconds of each turn with the kernel and without it; the first turn is a warm-up and is not counted."""
    module, spent = ROOMS[kind], {"fast": [], "public": []}
    supports = module.supports
    try:
        for turn in range(turns + 1):
            for way, times in spent.items():
                module.supports = supports if way == "fast" else lambda *_: False
                begin = time.process_time()
                step()
                if turn:
                    times.append(time.process_time() - begin)
    finally:
        module.supports = supports
    return spent


def markdown(results):
    lines = [f"# Fast ways of attention ({results['date']})", "", f"{results['machine']}", "", f"{results['versions']}", ""]
    for kind, cases in results["seconds"].items():
        lines += [f"## {kind}", "", "| step | fast, ms | public call, ms | times as fast | middle half |", "| --- " * 5 + "|"]
        for case, spent in cases.items():
            fast, public = (1e3 * sorted(times)[len(times) // 2] for times in spent.values())
            ratios = sorted(b / a for a, b in zip(*spent.values(), strict=True))
            n = len(ratios)
            half = f"{ratios[n // 4]:.2f}-{ratios[3 * n // 4]:.2f}"
            lines.append(f"| {case} | {fast:.1f} | {public:.1f} | {ratios[n // 2]:.2f} | {half} |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny, two turns, nothing saved")
    parser.add_argument("--turns", type=int, default=7)
    chosen = parser.parse_args()
    results = {"date": datetime.date.today().isoformat(), "machine": machine(), "versions": versions(), "seconds": {}}
    for kind, cases in CASES.items():
        results["seconds"][kind] = {
            case: measured(kind, stepper(TINY if chosen.quick else size, *more), 2 if chosen.quick else chosen.turns)
            for case, (size, *more) in cases.items()
        }
    print(markdown(results))
    if not chosen.quick:
        save("kernels", results, markdown(results))


if __name__ == "__main__":
    main()
