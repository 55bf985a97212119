"""The cost of a check in forward passes, seconds and memory, beside the checks of other libraries.

    python -m benchmarks.check             GPT-2 with 124 million parameters, random weights; saved with date and machine
    python -m benchmarks.check --quick     a tiny model, nothing saved

The check covers permute, shift, causal, cache and pure at the default effort: at the given and at random parameters, in float64
and float32, at several lengths, with the smallest counterexample and the module where each statement breaks. Calls of the model
and rows of their batches are counted by dtype. The unit of time is one call with one row of that dtype, measured in the same run.
Memory is the peak of a fresh process, minus its memory with the model alone. The table also has the CPU time of the default check
of a tiny model.

Peers on the same model: a hand-written test (two passes per statement, one precision, no localisation), and a Lie derivative by
finite differences (as lie-deriv computes it for images, here along the positions). The checks of e3nn and escnn run on layers of
their own, where these packages are installed.
"""

import argparse
import datetime
import json
import resource
import statistics
import subprocess
import sys
import time

import torch
from benchmarks.machine import RESULTS, ROOT, machine, save, versions
from transformers import GPT2Config, GPT2LMHeadModel

STATEMENTS = {"actions": ["permute", "shift"], "properties": ["causal", "cache"]}
TINY = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 65, "n_positions": 512}
LENGTH = 64
GOALS = {"calls": 200, "memory": 4, "seconds": 10}  # calls, times the parameters, seconds of CPU of a tiny model
MEBI = 2**20


def model_of(quick):
    torch.manual_seed(0)
    sizes = TINY if quick else {}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=None, eos_token_id=None)).eval()


def given(model):
    ids = torch.randint(model.config.vocab_size, (1, LENGTH), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "position_ids": torch.arange(LENGTH)[None]}


def ours(quick):
    """Passes and seconds of every row, and the peak of memory above the model, measured in this process."""
    from equiscope.audit import check

    model, kwargs = model_of(quick), given(model_of(quick))
    with torch.no_grad():
        model(**kwargs)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    audit = check(model, kwargs=kwargs, pick="logits", **STATEMENTS)
    seconds = time.perf_counter() - begin
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    rows = {r.name: {"verdict": r.verdict, "error": r.error, "calls": r.passes, "where": r.where} for r in audit.rows}
    lengths = next((r.coverage.lengths for r in audit.rows if r.name == "causal" and r.coverage), [])
    return {
        "calls": audit.passes, "batch rows": audit.sequences, "lengths": lengths,
        "seconds": seconds, "rows": rows, "peak MiB": peak / MEBI, "weights MiB": weights / MEBI,
        "activations MiB": activations(model, kwargs) / MEBI,
    }  # fmt: skip


def activations(model, kwargs):
    """Bytes of every module's output in one pass."""
    held = []

    def keep(_, __, output):
        made = output if isinstance(output, tuple) else [output]
        held.extend(t.numel() * t.element_size() for t in made if isinstance(t, torch.Tensor))

    hooks = [m.register_forward_hook(keep) for m in model.modules()]
    with torch.no_grad():
        model(**kwargs)
    for hook in hooks:
        hook.remove()
    return sum(held)


def tiny():
    """CPU seconds of the default check of a tiny model."""
    from equiscope.audit import check

    model = model_of(True)
    begin = time.process_time()
    audit = check(model, kwargs=given(model), pick="logits")
    return {"seconds": time.process_time() - begin, "statements": len(audit.rows), "calls": sum(audit.passes.values())}


def unit(model, kwargs, turns):
    """Median seconds of one pass."""
    spent = []
    with torch.no_grad():
        for _ in range(turns + 1):
            begin = time.perf_counter()
            model(**kwargs)
            spent.append(time.perf_counter() - begin)
    return statistics.median(spent[1:])


def by_hand(model, kwargs):
    """A typical hand-written test: one sample per statement, one precision, a tolerance chosen by hand."""
    ids, places = kwargs["input_ids"], kwargs["position_ids"]
    with torch.no_grad():
        plain = model(**kwargs).logits
        order = torch.randperm(LENGTH)
        other = ids.clone()
        other[:, -1] = (other[:, -1] + 1) % model.config.vocab_size
        half = model(input_ids=ids[:, :-1], use_cache=True)
        last = model(input_ids=ids[:, -1:], position_ids=places[:, -1:], past_key_values=half.past_key_values)
        found = {
            "permute": (model(input_ids=ids[:, order], position_ids=places).logits - plain[:, order]),
            "shift": model(input_ids=ids, position_ids=places + 7).logits - plain,
            "causal": (model(input_ids=other, position_ids=places).logits - plain)[:, :-1],
            "cache": last.logits[:, 0] - plain[:, -1],
        }
    return {n: bool(d.abs().max() < 1e-4) for n, d in found.items()}, 6


def lie_derivative(model, kwargs, samples=4):
    """Lie derivative along the positions, by central differences of the rows of the table: two passes per sample."""
    table = model.transformer.wpe.weight
    places = kwargs["position_ids"]
    x = model.transformer.wte(kwargs["input_ids"]).detach()
    sizes = []
    with torch.no_grad():
        for i in range(samples):
            rows = places + i

            def moved(by, rows=rows):
                at = (1 - abs(by)) * table[rows] + abs(by) * table[rows + (1 if by > 0 else -1)]
                return model(inputs_embeds=x + at - table[places], position_ids=places).logits

            if i:
                sizes.append((moved(0.5) - moved(-0.5)).norm().item())
    return sizes, 2 * (samples - 1)


def timed(check):
    """Seconds of the check of another library on one of its own layers, or the reason why there is none."""
    try:
        begin = time.perf_counter()
        return check()(begin)
    except ImportError as error:
        return f"not installed ({error.name})" if error.name else f"cannot be imported here ({str(error)[:60]})"
    except Exception as error:
        return f"does not run here ({type(error).__name__}: {str(error)[:80]})"


def e3nn_check():
    """One trial, absolute tolerance 1e-3; also a layer with small, wrong outputs, which passes this check."""
    from e3nn import o3
    from e3nn.util.test import assert_equivariant

    class SmallAndWrong(torch.nn.Module):
        irreps_in = irreps_out = o3.Irreps("1x1o")

        def forward(self, x):
            return 1e-4 * x * x.new_tensor([1.0, 2.0, 3.0])

    def run(begin):
        assert_equivariant(o3.Linear("8x0e + 8x1o", "8x0e + 8x1o"))
        seconds = time.perf_counter() - begin
        try:
            assert_equivariant(SmallAndWrong())
            said = "passes"
        except AssertionError:
            said = "refuses"
        return f"{seconds:.2f} s for one linear layer; {said} a layer that scales the three axes differently and has small outputs"

    return run


def escnn_check():
    """Only its own layers and finite groups, with its default tolerances."""
    from escnn import gspaces, nn

    def run(begin):
        space = gspaces.rot2dOnR2(N=4)
        one, many = nn.FieldType(space, [space.trivial_repr]), nn.FieldType(space, 4 * [space.regular_repr])
        found = nn.R2Conv(one, many, kernel_size=5).eval().check_equivariance()
        return f"{time.perf_counter() - begin:.2f} s for one convolution, {len(found)} elements of the group"

    return run


def table(found):
    """The results as Markdown."""
    mine, units = found["ours"], found["unit"]
    calls, batch = sum(mine["calls"].values()), sum(mine["batch rows"].values())
    cost = sum(n * units.get(dtype, units["float32"]) for dtype, n in mine["batch rows"].items())
    lines = [f"# What a check costs ({found['date']})", "", f"{found['machine']}, {found['versions']}", "", found["model"], ""]
    lines += ["| statement | verdict | worst relative error | calls | where |", "| --- | --- | --- | --- | --- |"]
    for name, row in mine["rows"].items():
        size = "" if row["error"] is None else f"{row['error']:.1e}"
        lines.append(f"| {name} | {row['verdict']} | {size} | {row['calls']} | {row['where']} |")
    allowed = GOALS["memory"] * mine["weights MiB"]
    sizes = ", ".join(f"{size:.1e}" for size in found["lie"][0])
    lines += [
        "",
        f"In all {calls} calls ({mine['calls']}), the goal is {GOALS['calls']}; with {batch} rows ({mine['batch rows']}).",
        f"{mine['seconds']:.1f} s; as many rows of {LENGTH} tokens, one a call, take {cost:.1f} s.",
        f"Causality is asked at {len(mine['lengths'])} other lengths too, up to {max(mine['lengths'], default=LENGTH)} tokens.",
        f"Memory at most {mine['peak MiB']:.0f} MiB above the model; the goal is {allowed:.0f}, "
        f"{GOALS['memory']} x the parameters.",
        f"A tiny model's check of {found['tiny']['statements']} statements: {found['tiny']['seconds']:.1f} s of CPU, "
        f"{found['tiny']['calls']} calls; the goal is {GOALS['seconds']} s.",
        "",
        f"By hand: {found['hand'][1]} passes; says {found['hand'][0]}; no floor, no counterexample, no place.",
        f"Lie derivative along the places by finite differences: {found['lie'][1]} passes; says {sizes}. No floor says what is 0.",
        f"e3nn's assert_equivariant: {found['e3nn']}.",
        f"escnn's check_equivariance: {found['escnn']}.",
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny model, nothing saved")
    parser.add_argument("--out", default=RESULTS, help="folder of the table")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.alone:
        print(json.dumps(ours(chosen.quick)))
        return
    command = [sys.executable, "-m", "benchmarks.check", "--alone", *(["--quick"] if chosen.quick else [])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    model = model_of(chosen.quick)
    kwargs, turns = given(model), 2 if chosen.quick else 7
    found = {
        "date": datetime.date.today().isoformat(), "machine": machine(), "versions": versions("transformers", "e3nn", "escnn"),
        "model": f"GPT-2, {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, {LENGTH} tokens, random weights",
        "ours": json.loads(done.stdout.splitlines()[-1]), "tiny": tiny(),
        "hand": by_hand(model, kwargs), "lie": lie_derivative(model, kwargs),
        "e3nn": timed(e3nn_check), "escnn": timed(escnn_check),
        "unit": {str(d).removeprefix("torch."): unit(model.to(d), kwargs, turns) for d in (torch.float32, torch.float64)},
    }  # fmt: skip
    print(table(found))
    if not chosen.quick:
        save("check", found, table(found), chosen.out)


if __name__ == "__main__":
    main()
