"""The cost of watching a model, relative to a plain call: the watched call, the record, and running the program again.

    python -m benchmarks.program            eleven turns of each
    python -m benchmarks.program --quick    three turns

All take turns in one process. A cell is the median of the seconds divided by those of the plain call in the same turn (min-max).
The last line is the overhead of a function of `equiscope.functional` while nothing is watched, relative to the unwrapped function.
"""

import argparse
import statistics
import time

import torch

import equiscope as eq
from equiscope.functional import rotate
from equiscope.program.lower import lowered

MODELS = {"tiny: 8 wide, 1 layer, 3 tokens": (8, 1, 3), "384 wide, 6 layers, 256 tokens": (384, 6, 256)}


def seconds(call, calls=1):
    """Seconds of one call, the mean of `calls` consecutive calls."""
    begin = time.perf_counter()
    with torch.no_grad():
        for _ in range(calls):
            call()
    return (time.perf_counter() - begin) / calls


def turns(model, tokens, count):
    """By activity: its seconds relative to the plain call in each turn; the first turn is a warm-up and is not counted."""
    program = eq.watch(model, tokens)
    ways = {
        "watched": lambda: eq.watch(model, tokens),
        "record": lambda: lowered(program, arrays=False),
        "run again": program.run,
    }
    found = {way: [] for way in ways}
    for turn in range(count + 1):
        own = seconds(lambda: model(tokens), 3)
        for way, call in ways.items():
            ratio = seconds(call) / own
            if turn:
                found[way].append(ratio)
    return found


def wrapping(count):
    """Microseconds of a call beyond those of the unwrapped function, in each turn but the first."""
    x, angles = torch.randn(2, 3, 4), torch.randn(3, 2)
    ways = [lambda f=f: f(x, angles, "half") for f in (rotate, rotate.__wrapped__)]
    return [1e6 * (a - b) for a, b in ([seconds(way, 1000) for way in ways] for _ in range(count + 1))][1:]


def spread(numbers, digits):
    return f"{statistics.median(numbers):.{digits}f} ({min(numbers):.{digits}f}-{max(numbers):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    count = 3 if parser.parse_args().quick else 11
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; times the model's own call\n")
    print("| model | watched | record | run again |\n| --- | --- | --- | --- |")
    for name, (width, layers, length) in MODELS.items():
        attention = eq.Attention(heads=4, position=eq.positions.Rope(), causal=True)
        model = eq.build(eq.Spec(width=width, layers=layers, block=eq.Block(attention=attention)))
        found = turns(model, eq.Tokens.of(torch.randn(length, width)), count)
        print(f"| {name} | {' | '.join(spread(ratios, 1) for ratios in found.values())} |", flush=True)
    print(f"\nunwatched, a function of equiscope.functional: {spread(wrapping(count), 2)} microseconds a call")


if __name__ == "__main__":
    main()
