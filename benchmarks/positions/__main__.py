"""The cost of a position scheme in one causal attention, forward and backward, relative to attention without positions.

    python -m benchmarks.positions                       CPU, float32, 512 and 2048 tokens
    python -m benchmarks.positions --device cuda         bfloat16, 4096 to 32768
    python -m benchmarks.positions --quick               short and small; nothing is saved
    python -m benchmarks.positions --only alibi t5       contestants whose names contain one of these words

Every turn of a contestant follows a turn of plain SDPA (A B A B), and the ratio of the two is recorded. The table also has the
error against the same function in float64, and the operations and bytes. Peers are not dependencies; missing ones are listed.
"""

import argparse
import dataclasses
import datetime
import time

import torch
from benchmarks.machine import RESULTS, machine, named, save, versions

from . import ours, peers, table
from .count import count

PACKAGES = ("transformers", "rotary-embedding-torch", "x-transformers")


def given(case, dtype=None):
    """Queries, keys, values as projections return them, [B, H, T, K] in the memory layout [B, T, H, K]; and a gradient."""
    torch.manual_seed(0)
    shape = (case.batch, case.length, case.heads, case.width)
    q, k, v, g = (torch.randn(shape).to(case.device, case.dtype) for _ in range(4))
    if dtype is not None:
        q, k, v, g = (t.cpu().to(dtype) for t in (q, k, v, g))
    return [t.transpose(1, 2).requires_grad_() for t in (q, k, v)], g.flatten(2)


def passes(make, case, data):
    """A function that does one forward and one backward pass and returns output and gradients."""
    (run, parameters), (inputs, g) = make(case), data

    def both():
        z = run(*inputs)
        return [z.detach(), *torch.autograd.grad(z, [*inputs, *parameters], g)]

    return both


def seconds(both, device):
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    both()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def error(contestant, case):
    """The relative error of the output and of the worst gradient against float64, for one sequence of at most 512 tokens."""
    small = dataclasses.replace(case, batch=1, length=min(case.length, 512))
    found = passes(contestant.make, small, given(small))()
    exactly = passes(lambda c: ours.exact(contestant.same, c), small, given(small, torch.float64))()
    gaps = [(a.double().cpu() - b, b) for a, b in zip(found, exactly, strict=True)]
    learned = [
        torch.cat([t.flatten() for t in side]) for side in zip(*gaps[4:], strict=True)
    ]  # one list: some are nothing but rounding
    relative = [float(gap.norm() / b.norm()) for gap, b in [*gaps[:4], *([tuple(learned)] if learned else [])]]
    return {"output": relative[0], "gradient": max(relative[1:])}


def measure(case, some, turns, budget):
    """For each contestant its seconds, those of the plain turn before, its error, its operations and bytes."""
    data = given(case)
    ready = {c.name: passes(c.make, case, data) for c in some}
    plain = passes(peers.PLAIN.make, case, data)
    found = {}
    for c in some:
        found[c.name] = {"who": c.who, "note": c.note, "same": c.same, "error": error(c, case), "turns": []}
        found[c.name] |= {"operations": None, "bytes": None}
        if case.device == "cpu":  # on CUDA FlexAttention may run, which no mode looks into
            ratios = (a / b for a, b in zip(count(ready[c.name]), count(plain), strict=True))
            found[c.name] |= dict(zip(("operations", "bytes"), ratios, strict=True))
        print(f"  {case.length}: {c.name}", flush=True)
    for turn in range(turns + 1):
        for name, both in ready.items():
            spent = [own for _, own in found[name]["turns"]]
            if len(spent) >= 3 and sum(spent) > budget:
                continue  # a slow one has had its share
            pair = seconds(plain, case.device), seconds(both, case.device)
            if turn:  # the first warms up
                found[name]["turns"].append(pair)
    return found


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="64 tokens, two turns, nothing saved")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="default: float32 on the CPU, bfloat16 on CUDA")
    parser.add_argument("--lengths", type=int, nargs="+", help="default: 512 2048; on CUDA 4096 8192 16384 32768")
    parser.add_argument("--batch", type=int, help="default: 4; on CUDA 1")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument(
        "--budget", type=float, default=15.0, help="seconds after which a slow contestant has turns enough (3 at least)"
    )
    parser.add_argument("--threads", type=int, help="of torch; default: all cores")
    parser.add_argument("--only", nargs="+", default=[""], help="words in the names of contestants")
    parser.add_argument("--out", default=RESULTS, help="folder of the table")
    return parser.parse_args()


def main():
    chosen = arguments()
    cuda = chosen.device == "cuda"
    lengths = chosen.lengths or ([64] if chosen.quick else [4096, 8192, 16384, 32768] if cuda else [512, 2048])
    dtype = getattr(torch, chosen.dtype or ("bfloat16" if cuda else "float32"))
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    batch = chosen.batch or (1 if cuda or chosen.quick else 4)
    cases = [ours.Case(length, batch=batch, dtype=dtype, device=chosen.device) for length in lengths]
    others, missing = peers.present(cases[0])
    some = [c for c in [*ours.contestants(), *others] if any(word in c.name for word in chosen.only)]
    results = {
        "date": datetime.date.today().isoformat(), "machine": machine(chosen.device), "versions": versions(*PACKAGES),
        "dtype": str(dtype), "batch": batch, "heads": cases[0].heads, "width": cases[0].width, "missing": missing,
        "lengths": {str(c.length): measure(c, some, 2 if chosen.quick else chosen.turns, chosen.budget) for c in cases},
    }  # fmt: skip
    results["machine"]["load after"] = machine()["load"]
    text = table.markdown(results)
    print(text)
    if not chosen.quick:
        save(named("positions-cuda" if cuda else "positions", (chosen.lengths or [], [])), results, text, chosen.out)


if __name__ == "__main__":
    main()
