"""What does watching cost when nobody watches? A model as it is, beside the same model with the notes taken out, turn by turn.

    python -m benchmarks.trace            eleven turns of each
    python -m benchmarks.trace --quick    three, to see that it runs

The peer is the same code with `note` replaced by a function that hands its output back: the least that a call can cost.
"""

import argparse
import statistics
import time

import torch
from equiscope.trace import ops

import equiscope as eq


def bare(op, output, inputs, name, label, **params):
    return output


def seconds(model, tokens, calls):
    """Seconds of one forward pass, the mean of `calls` in a row."""
    begin = time.perf_counter()
    with torch.no_grad():
        for _ in range(calls):
            model(tokens)
    return (time.perf_counter() - begin) / calls


def turns(model, tokens, calls, count):
    """Pairs of seconds: with notes, without."""
    noting, found = ops.note, []
    for _ in range(count):
        noted = seconds(model, tokens, calls)
        ops.note = bare
        try:
            found.append((noted, seconds(model, tokens, calls)))
        finally:
            ops.note = noting
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; seconds with notes / without, median of ratios (min-max)")
    for name, width, layers, length in (
        ("tiny: 8 wide, 1 layer, 3 tokens", 8, 1, 3),
        ("384 wide, 6 layers, 256 tokens", 384, 6, 256),
    ):
        attention = eq.Attention(heads=4, position=eq.position.Rope(), causal=True)
        model = eq.build(eq.Spec(width=width, layers=layers, block=eq.Block(attention=attention)))
        tokens = eq.Tokens.of(torch.randn(length, width))
        seconds(model, tokens, 2)  # warm
        ratios = [a / b for a, b in turns(model, tokens, 200 if width == 8 else 3, 3 if quick else 11)]
        print(f"{name}: {statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f})")


if __name__ == "__main__":
    main()
