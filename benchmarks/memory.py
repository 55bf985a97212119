"""Memory of a forward and backward pass, and its growth with the sequence length, by scheme and backend.

    python -m benchmarks.memory                  CPU, 256 to 4096 tokens; a table, and docs/pictures/memory.png
    python -m benchmarks.memory --device cuda    as torch's CUDA allocator reports it
    python -m benchmarks.memory --quick          two short lengths, nothing saved

The number is the peak of torch's allocator beyond the inputs: every tensor, including gradients and the workspace of kernels. On
the CPU it comes from the profiler's list of allocations, so it is exact and repeatable; it does not include the workspace of MKL
and oneDNN.
"""

import argparse
import datetime
import math
import pathlib

import torch
from benchmarks.machine import RESULTS, ROOT, machine, save, versions
from benchmarks.positions import ours, peers
from benchmarks.positions.__main__ import given, passes
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from equiscope.attention.multihead import BACKENDS
from equiscope.tokens import Tokens

PICTURE = ROOT / "docs" / "pictures" / "memory.png"
SHOWN = ("none", "rope", "alibi", "t5", "fire", "shaw", "transformer-xl", "cope")  # in the picture


def peak(both, device):
    """Peak memory in bytes."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        both()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        both()
    sizes = sorted(allocations(watched.profiler.kineto_results.experimental_event_tree()))
    now = most = 0
    for _, size in sizes:
        now += size
        most = max(most, now)
    return most


def allocations(events):
    """Times of allocations, and their sizes in bytes (negative for a release)."""
    for event in events:
        if event.tag == _EventType.Allocation:
            yield event.start_time_ns, event.typed[1].alloc_size
        yield from allocations(event.children)


def runs(scheme, backend, case):
    """Whether this backend computes this scheme itself, without falling back to another one."""
    made = ours.sized(scheme, case)
    module = ours.Ready(1, case.heads, case.width, output=False, mask=ours.Causal(), backend=backend).to(case.device, case.dtype)
    return module.runs_on(Tokens.of(torch.zeros(1, case.length, 1, dtype=case.dtype, device=case.device)), made) == backend


def contestants(case):
    """Name, backend and `make`."""
    yield "plain", "torch", peers.plain
    for name, scheme in ours.schemes().items():
        for backend in BACKENDS:
            if runs(scheme, backend, case):
                yield name, backend, ours.attention(scheme, backend=backend)


def exponent(found):
    """The slope of log bytes over log T, fitted to the longer half of the lengths."""
    points = [(math.log(int(t)), math.log(b)) for t, b in found.items()][-max(2, (len(found) + 1) // 2) :]
    x, y = (sum(side) / len(points) for side in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def measured(lengths, case):
    found = []
    for name, backend, make in contestants(case(lengths[0])):
        peaks = {}
        for length in lengths:
            both = passes(make, case(length), given(case(length)))
            if length == lengths[0]:
                both()  # what is made once stays
            peaks[str(length)] = peak(both, case(length).device)
        found.append({"name": name, "backend": backend, "peak": peaks, "exponent": exponent(peaks)})
        print(f"  {name}, {backend}: T^{found[-1]['exponent']:.2f}", flush=True)
    return found


def markdown(results):
    lengths, where = results["lengths"], results["machine"]
    last = lengths[-1]
    table = results["heads"] * last**2 * 4
    rows = [["", "backend", *(f"{t} tokens" for t in lengths), "grows as", f"T×T×H tables at {last}"]]
    rows.append(["---"] * len(rows[0]))
    for entry in results["found"]:
        sizes = [f"{entry['peak'][str(t)] / 2**20:.1f}" for t in lengths]
        tables = f"{entry['peak'][str(last)] / table:.2f}"
        rows.append([entry["name"], entry["backend"], *sizes, f"T^{entry['exponent']:.2f}", tables])
    return "\n".join([
        "# Memory of one causal attention, forward and backward", "",
        f"{results['date']}, {where.get('gpu', where['cpu'])}. "
        f"B 1, H {results['heads']}, K {results['width']}, {results['dtype']}.",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in results["versions"].items()) + ".", "",
        "MiB at the peak, beyond the inputs: what torch's allocator held, gradients and work space included.",
        "The exponent is that of the longer half of the lengths.",
        "The last column says how many float32 tables of all weights the peak would hold.", "",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]) + "\n"  # fmt: skip


def draw(results, path):
    import matplotlib
    from matplotlib.figure import Figure

    from equiscope.study.plot import COLOURS, STYLE

    backends = [b for b in reversed(BACKENDS) if any(e["backend"] == b for e in results["found"])]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.2 * len(backends), 3.2), layout="constrained")
        for axes, backend in zip(figure.subplots(1, len(backends), sharey=True, squeeze=False)[0], backends, strict=True):
            for entry in (e for e in results["found"] if e["backend"] in (backend, "torch")):
                if entry["name"] in ("plain", *SHOWN):
                    colour = "#b8bec5" if entry["name"] == "plain" else COLOURS[SHOWN.index(entry["name"])]
                    sizes = [size / 2**20 for size in entry["peak"].values()]
                    axes.loglog(results["lengths"], sizes, color=colour, label=entry["name"], marker=".", linewidth=1.4)
            axes.set(title=backend, xlabel="tokens")
            axes.set_xticks(results["lengths"], [str(t) for t in results["lengths"]], minor=False)
            axes.minorticks_off()
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=7, frameon=False)
        figure.axes[0].set_ylabel("MiB at the peak, forward and backward")
        figure.savefig(path, metadata={"Software": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="64 and 128 tokens, nothing saved")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--lengths", type=int, nargs="+", help="default: 256 512 1024 2048 4096")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="folder of the table")
    parser.add_argument("--picture", type=pathlib.Path, default=PICTURE)
    chosen = parser.parse_args()
    lengths = chosen.lengths or ([64, 128] if chosen.quick else [256, 512, 1024, 2048, 4096])

    def case(length):
        return ours.Case(length, batch=1, device=chosen.device)

    results = {
        "date": datetime.date.today().isoformat(), "machine": machine(chosen.device), "versions": versions(),
        "heads": case(1).heads, "width": case(1).width, "dtype": "float32", "lengths": lengths, "found": measured(lengths, case),
    }  # fmt: skip
    print(markdown(results))
    if not chosen.quick:
        save(f"memory{'-cuda' if chosen.device == 'cuda' else ''}", results, markdown(results), chosen.out)
        draw(results, chosen.picture)


if __name__ == "__main__":
    main()
