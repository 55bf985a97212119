"""The time of an intervention on GPT-2 124M (random weights), relative to a plain forward pass.

    python -m benchmarks.interventions            eleven turns, two of a ranking
    python -m benchmarks.interventions --quick    one turn of a model of two layers

All take turns in one process. A cell is the median of the seconds divided by those of a plain pass in the same turn (min-max). The
unchanged run is computed once for an experiment, and is not part of a change.
"""

import argparse
import statistics
import time

import torch
import transformers

import equiscope as eq
from equiscope.interventions import head, logit, neuron, stream

TOKENS = 64


def seconds(call):
    begin = time.perf_counter()
    with torch.no_grad():
        call()
    return time.perf_counter() - begin


def relative(plain, call, turns, warm=1):
    """Seconds relative to the mean of plain calls just before and after, in each turn but the first ones."""
    found = []
    for _ in range(turns + warm):
        before, own, after = seconds(plain), seconds(call), seconds(plain)
        found.append(2 * own / (before + after))
    return found[warm:]


def spread(numbers, digits=2):
    return f"{statistics.median(numbers):.{digits}f} ({min(numbers):.{digits}f}-{max(numbers):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    turns, rankings = (1, 1) if quick else (11, 2)
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=2, n_embd=96) if quick else transformers.GPT2Config()
    model = transformers.GPT2LMHeadModel(config).eval()
    ids, other = torch.randint(0, config.vocab_size, (2, 1, TOKENS))
    experiment = eq.Experiment(model, ids, logit(17))
    last = len(experiment.layers) - 1
    experiment.run(stream(last).patch(other))  # the other input is run once
    ways = {
        "zero a head": lambda: experiment.run(head(last, 2).zero()),
        "remove an edge": lambda: experiment.run(head(last, 2).cut(40, 3)),
        "remove an edge in every head": lambda: experiment.run(head().cut(40, 3)),
        "patch the stream": lambda: experiment.run(stream(last).patch(other)),
        "zero a neuron": lambda: experiment.run(neuron(last, 5).zero()),
        "a new experiment: the unchanged run": lambda: eq.Experiment(model, ids, logit(17)),
    }
    parameters = sum(p.numel() for p in model.parameters()) / 1e6
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.get_num_threads()} threads;", end=" ")
    print(f"{parameters:.0f}M parameters, {TOKENS} tokens; times a plain pass\n\n| | passes |\n| --- | --- |")

    def plain():
        model(ids)

    for name, call in ways.items():
        print(f"| {name} | {spread(relative(plain, call, turns))} |", flush=True)
    for copies in (1,) if quick else (16, 1):
        result = []
        name = f"rank {len(experiment.layers) * config.n_head} heads, {copies} cop{'ies' if copies > 1 else 'y'} in a call"
        numbers = relative(plain, lambda copies=copies, result=result: result.append(experiment.rank(copies=copies)), rankings, 0)
        print(f"| {name}: {result[-1].calls} calls | {spread(numbers, 0)} |", flush=True)
    print(f"| estimate the same by a gradient | {spread(relative(plain, lambda: experiment.estimate(check=0), rankings))} |")


if __name__ == "__main__":
    main()
