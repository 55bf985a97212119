"""The cost of attention among points in space, and of learning energies and forces with it, beside other libraries.

    python -m benchmarks.geometry                                  all parts, one thread, float32; saved
    python -m benchmarks.geometry --quick                          8 points, once, nothing saved
    python -m benchmarks.geometry --parts energies --sizes 128 --channels 32 --only ours MACE

Parts: attention (forward and backward of two layers), energies (a training step of energy and forces), exact (errors in float64 of
equivariance and of the gradient), lists (neighbour lists and attention over them, 500 to 20 000 points).
All contestants take turns in one run. One that fails or exceeds the limit is reported, and not tried with more points.
"""

import argparse
import datetime
import functools
import pathlib
import warnings

import torch
from benchmarks.geometry import attention, energies, exact, lists, peers, points, table, turns
from benchmarks.machine import RESULTS, machine, save, versions

PARTS = ("attention", "energies", "exact", "lists")
MANY = [500, 1000, 2000, 5000, 10000, 20000]


def passing(x, at):
    """Forward and backward as a function of the model."""

    def run(model):
        model.zero_grad(set_to_none=True)
        model(x.clone().requires_grad_(), at.clone().requires_grad_()).backward()

    return run


def stepping(numbers, at):
    return lambda model: energies.step(model, numbers, at)


def cases(part, makers, chosen, found):
    """Add the measurements to `found`, by channels and points; yields after each."""
    for channels in chosen.channels:
        left_out = {}
        for count in chosen.sizes if part == "attention" else chosen.energy_sizes:
            at = points.places(count)
            run = passing(points.features(count, channels), at) if part == "attention" else stepping(points.atoms(count), at)
            ready = {
                n: functools.partial(make, channels)
                for n, make in makers.items()
                if count in chosen.compiled or "compiled" not in n
            }
            torch.manual_seed(0)
            found[channels, count] = turns.measured(ready, run, chosen.turns, chosen.budget, chosen.limit, left_out)
            print(f"  {part}: {count} points, {channels} channels", flush=True)
            yield


def errors(makers, chosen):
    """Errors in float64 with eight points; a compiled model has the same errors."""
    return {
        part: {
            name: exact.exactness(make, chosen.channels[0], 8, part == "energies")
            for name, make in some.items() if "compiled" not in name
        }
        for part, some in makers.items()
    }  # fmt: skip


def measure(chosen):
    """The results so far, after each measurement."""
    left_out = peers.missing()
    makers = {
        part: {name: make for name, make in peers.without(some, left_out).items() if any(word in name for word in chosen.only)}
        for part, some in {"attention": attention.WAYS, "energies": energies.CONTESTANTS}.items()
    }
    results = {
        "date": datetime.date.today().isoformat(), "machine": machine() | {"load after": "?"},
        "versions": versions(*peers.PACKAGES),
        "missing": [f"{peer} is left out ({why})." for peer, why in left_out.items()],
    }  # fmt: skip
    if left_out:
        results["missing"].append(f"Install the peers: {peers.INSTALL}")
    for part in chosen.parts:
        if part == "exact":
            results[part] = errors(makers, chosen)
        elif part == "lists":
            results[part] = lists.measured(chosen.many, chosen.channels[0], chosen.turns, left_out)
        else:
            results[part] = {}
            for _ in cases(part, makers[part], chosen, results[part]):
                yield results
        results["machine"]["load after"] = machine()["load"]
        yield results


def saved(results, folder):
    """Save the results as JSON and Markdown."""
    plain = dict(results)
    for part in ("attention", "energies"):
        if part in results:
            plain[part] = {f"{count} points, {channels} channels": case for (channels, count), case in results[part].items()}
    save("geometry", plain, table.markdown(results), folder)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="8 points, 8 channels, one turn, nothing saved")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", type=int, nargs="+", help="points; default: 32 128 512, for energies 32 128")
    parser.add_argument("--channels", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--many", type=int, nargs="+", default=MANY, help="points of the lists")
    parser.add_argument(
        "--compiled", type=int, nargs="*", default=[128], help="points where ours is compiled too, which takes minutes"
    )
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--budget", type=float, default=3.0, help="seconds after which a slow one has turns enough (3 at least)")
    parser.add_argument("--limit", type=float, default=8.0, help="seconds of one pass")
    parser.add_argument("--only", nargs="+", default=[""], help="words in the names of contestants")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="folder of the table")
    chosen = parser.parse_args()
    chosen.energy_sizes = chosen.sizes or [32, 128]
    chosen.sizes = chosen.sizes or [32, 128, 512]
    if chosen.quick:
        chosen.sizes = chosen.energy_sizes = [8]
        chosen.channels, chosen.turns, chosen.many = [8], 1, [64, 128]
    return chosen


def main():
    chosen = arguments()
    torch.set_num_threads(chosen.threads)
    warnings.filterwarnings("ignore", module="e3nn|mace|torchmdnet|se3_transformer_pytorch|equiformer_pytorch")
    for results in measure(chosen):
        if not chosen.quick:
            saved(results, chosen.out)
    print(table.markdown(results))


if __name__ == "__main__":
    main()
