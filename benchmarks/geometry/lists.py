"""Neighbour lists, ours and of other libraries, and attention over ours, for many points: time per atom, and its growth."""

import functools
import math
import statistics

import torch
from benchmarks.geometry.attention import Ours
from benchmarks.geometry.points import CUTOFF, features, spread
from benchmarks.geometry.turns import clocked

from equiscope.geometry import neighbours, pairs


def lists(left_out):
    """By name: a function of positions [N, 3] in float64."""

    def of_ase(at):
        from ase import Atoms
        from ase.neighborlist import neighbor_list

        low, high = at.amin(0), at.amax(0)  # without a box around them it would look at all pairs
        atoms = Atoms(f"H{len(at)}", positions=(at - low).numpy(), cell=(high - low + 1).numpy(), pbc=False)
        return neighbor_list("ijS", atoms, CUTOFF)

    def of_matscipy(at):
        from matscipy.neighbours import neighbour_list

        return neighbour_list("ijS", positions=at.numpy(), cutoff=CUTOFF, pbc=[False] * 3)

    known = {"ours, pairs": lambda at: pairs(at, CUTOFF), "ASE, pairs": of_ase, "matscipy, pairs": of_matscipy}
    return {name: run for name, run in known.items() if not any(name.startswith(peer) for peer in left_out)}


def ways(count, channels, left_out):
    """By name: a function that computes it once; and the lists that ours builds."""
    model, at, x = Ours(channels, "local"), spread(count), features(count, channels)
    near = neighbours(at.float(), CUTOFF)
    runs = {name: functools.partial(run, at[0]) for name, run in lists(left_out).items()}
    runs["ours, padded lists"] = lambda: neighbours(at.float(), CUTOFF)
    runs["ours, local attention, forward"] = lambda: model.over(x, at.float(), near)
    return runs, near


def measured(sizes, channels, turns, left_out):
    """By number of points: seconds of each, and the number of neighbours."""
    found = {}
    for count in sizes:
        runs, near = ways(count, channels, left_out)
        seconds = {name: [] for name in runs}
        with torch.no_grad():
            for turn in range(turns + 1):
                for name, run in runs.items():
                    took = clocked(run)
                    if turn:  # the first warms up
                        seconds[name].append(took)
        found[count] = {"seconds": seconds, "neighbours": float(near.mask.sum()) / count - 1, "longest": near.index.shape[-1]}
        print(f"  {count} points", flush=True)
    return found


def exponent(found, name):
    """The exponent p of N^p, fitted to all sizes."""
    x = [math.log(count) for count in found]
    y = [math.log(statistics.median(case["seconds"][name])) for case in found.values()]
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    spread_x = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread_x if spread_x else float("nan")
