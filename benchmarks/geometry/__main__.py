"""How long does attention among points in space take, beside others' in one run?

    python -m benchmarks.geometry                    N 32, 128, 512; C 32 and 64; what is installed of the peers; saved
    python -m benchmarks.geometry --quick            8 points, once, nothing saved
    python -m benchmarks.geometry --sizes 128 --channels 32 --turns 9

Forward and backward (to features, places and weights) of two layers with four heads, one thread, float32; points spread so that
each has about 16 within the cutoff. One turn of each way after another (A B C D A B C D). A way that fails or takes longer than
the limit is said, and not tried with more points. Peers, beside e3nn, where they are installed: se3-transformer-pytorch,
equiformer-pytorch.
"""

import argparse
import datetime
import json
import statistics
import time

import torch
from benchmarks.geometry.attention import CUTOFF, WAYS
from benchmarks.machine import ROOT, machine, versions

PEERS = ("e3nn", "se3-transformer-pytorch", "equiformer-pytorch")
NEAR = 16  # neighbours of a point, about


def given(count, channels):
    """Features [1, N, C] and places [1, N, 3] as dense as a molecule."""
    generator = torch.Generator().manual_seed(0)
    volume = count * (4 / 3 * torch.pi * CUTOFF**3) / NEAR
    at = torch.rand(1, count, 3, generator=generator) * volume ** (1 / 3)
    return torch.randn(1, count, channels, generator=generator), at


def once(model, x, at):
    x, at = x.clone().requires_grad_(), at.clone().requires_grad_()
    began = time.perf_counter()
    model(x, at).backward()
    return time.perf_counter() - began


def measured(count, channels, turns, limit, left_out):
    """Seconds of every way, turn by turn; or why there are none."""
    x, at = given(count, channels)
    models, times, why = {}, {}, {}
    for name, make in WAYS.items():
        if name in left_out:
            why[name] = left_out[name]
            continue
        torch.manual_seed(0)
        try:
            models[name] = make(channels)
            took = once(models[name], x, at)  # the first makes plans
            if took > limit:
                raise TimeoutError(f"one pass took {took:.0f} s, more than {limit} s")
        except Exception as error:  # a peer may fail in any way: that is a result
            why[name] = left_out[name] = (
                f"{type(error).__name__}: {str(error).splitlines()[0][:90]}" if str(error) else type(error).__name__
            )
            models.pop(name, None)
            continue
        times[name] = []
    for _ in range(turns):
        for name, seconds in times.items():
            seconds.append(once(models[name], x, at))
    return times, why


def table(found):
    lines = []
    for (channels, count), (times, why) in found.items():
        base = statistics.median(times["ours, dense"])
        lines += [
            f"\n{count} points, {channels} channels\n",
            "| | ms | quartiles | over ours, dense |",
            "| --- | --- | --- | --- |",
        ]
        for name in WAYS:
            if name in why:
                lines.append(f"| {name} | – | | {why[name]} |")
                continue
            seconds = times[name]
            low, middle, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else seconds * 3
            lines.append(f"| {name} | {middle * 1e3:.1f} | {low * 1e3:.1f}–{high * 1e3:.1f} | {middle / base:.1f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--channels", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of one pass")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.quick:
        asked.sizes, asked.channels, asked.turns = [8], [8], 1
    before, found = machine(), {}
    for channels in asked.channels:
        left_out: dict[str, str] = {}
        for count in asked.sizes:
            found[channels, count] = measured(count, channels, asked.turns, asked.limit, left_out)
    text = table(found)
    print(text)
    if asked.quick:
        return
    day, after = datetime.date.today().isoformat(), machine()
    with_what = ", ".join(f"{name} {version}" for name, version in versions(*PEERS).items())
    head = [
        "# Attention among points in space\n",
        f"{day}, {before['cpu']}, {before['threads']} thread; load {before['load']} before, {after['load']} after.",
        f"Versions: {with_what}.\n",
        f"Forward and backward of two layers with four heads, float32, some {NEAR} within the cutoff; {asked.turns} turns.",
        "dense sees all pairs; local and e3nn those within the cutoff; the others the 16 nearest.",
    ]
    path = ROOT / "benchmarks" / "results" / f"geometry-{day}"
    path.with_suffix(".md").write_text("\n".join([*head, text, ""]), encoding="utf-8")
    plain = {
        "machine": {"before": before, "after": after}, "versions": versions(*PEERS), "turns": asked.turns,
        "cases": {f"{count} points, {channels} channels": {"seconds": t, "why": w} for (channels, count), (t, w) in found.items()},
    }  # fmt: skip
    path.with_suffix(".json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
