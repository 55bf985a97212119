"""The time of a training step of a character GPT: forward, loss, backward and AdamW, in this package and in others.

    python -m benchmarks.models                    CPU: float32 and bfloat16 (autocast), three sizes
    python -m benchmarks.models --quick            tiny, two turns, nothing is compiled or saved
    python -m benchmarks.models --sizes 6x384 --dtypes float32 --turns 20

Every contestant has one turn in every round. The table has medians with quartiles, as speed relative to nanoGPT (eager). All use
the same optimiser, torch's fused AdamW. Ours has the weights of transformers' GPT-2, and the logits are compared before the timing.
The limit is the time of the matrix products alone, at the speed of the fastest product on this machine, measured in the same run;
in float32, among products whose error is that of float32.
"""

import argparse
import contextlib
import datetime
import tempfile
import time

import torch
import torch.nn.functional as F
from benchmarks import gpts
from benchmarks.machine import RESULTS, machine, named, save, versions

import equiscope as eq
from equiscope.models import PRESETS, Mixed
from equiscope.training.engine import onednn_products

DTYPES = ["float32", "bfloat16"]
SIZES = {
    "4x128": gpts.Size(4, 128, 4, places=64, batch=12), "6x384": gpts.Size(6, 384, 6), "12x768": gpts.Size(12, 768, 12, batch=4),
}  # fmt: skip
FLOAT32 = 1e-5  # relative error of a product of 2048 x 2048 that is one in float32
TINY = gpts.Size(1, 32, 2, places=16, batch=2)
BASE = "nanoGPT's way"


def same_weights(size):
    """Our model with the weights of GPT-2 of transformers, through a checkpoint folder, and the difference of the logits."""
    torch.manual_seed(0)
    theirs = gpts.hf_gpt2(size).eval()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        theirs.model.save_pretrained(folder)
        ours = eq.load(folder)
        ids = torch.randint(size.vocabulary, (2, size.places))
        apart = eq.symmetry.relative_error(ours(ids), theirs(ids))
    return ours.train(), apart


def characters(size):
    """The presets nanogpt-char: without biases, with the exact GELU, which is faster than GPT-2's approximation."""
    torch.manual_seed(0)
    shape = size.width, size.layers, size.heads, size.vocabulary, size.places
    return eq.build(PRESETS["gpt2"](*shape, bias=False, activation="gelu")).train()


def stepper(model, size, autocast):
    """One training step, as a function that returns the loss."""
    ids, target = torch.randint(size.vocabulary, (2, size.batch, size.places), generator=torch.Generator().manual_seed(1))
    mixed = isinstance(model, Mixed)
    optimiser = torch.optim.AdamW((model.model if mixed else model).parameters(), lr=1e-4, fused=True)

    def step():
        with torch.autocast("cpu", torch.bfloat16) if autocast and not mixed else contextlib.nullcontext():
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1).float(), target.flatten())
        loss.backward()
        if mixed:
            model.accumulate_gradients()
        optimiser.step()
        optimiser.zero_grad()
        if mixed:
            model.update_copy()
        return loss.item()

    return step


def contestants(size, autocast, only=("",)):
    """By name: a training step of our model and of each peer."""
    there, missing = gpts.present()
    steps, notes = {}, {}
    for name, make in there.items():
        if name != BASE and not any(word in name for word in only):
            continue
        torch.manual_seed(0)
        try:
            steps[name] = stepper(make(size).train(), size, autocast)
            steps[name]()
        except Exception as error:  # a peer that does not run here is named, not hidden
            steps.pop(name, None)
            missing.append(f"{name} ({type(error).__name__}: {str(error)[:80]})")
    ours, apart = same_weights(size)
    notes["ours"] = {"logits against transformers GPT-2": apart}
    steps["ours"] = stepper(ours, size, autocast)
    steps["ours, compiled"] = stepper(torch.compile(same_weights(size)[0]), size, autocast)
    steps["ours, nanogpt-char"] = stepper(characters(size), size, autocast)
    steps["ours, nanogpt-char, compiled"] = stepper(torch.compile(characters(size)), size, autocast)
    if not autocast and torch.backends.mkldnn.is_available():
        steps["ours, oneDNN's products"] = onednn_products()(stepper(same_weights(size)[0], size, autocast))
    if autocast:
        steps["ours, mixed"] = stepper(Mixed(same_weights(size)[0]), size, autocast)
        for name, make in (("ours", lambda s: same_weights(s)[0]), ("ours, nanogpt-char", characters)):
            both = Mixed(make(size))
            both.inner = torch.compile(both.inner)
            steps[f"{name}, mixed, compiled"] = stepper(both, size, autocast)
    for name, step in steps.items():
        if name.startswith("ours"):
            notes.setdefault("first loss", {})[name] = step()
    return steps, missing, notes


def limit(size, autocast):
    """Seconds that the products of a step would take at this machine's best speed, of 2048 x 2048 or of the step's widest layer.

    In float32 a way counts if its error is that of float32: oneDNN's products of bfloat16 parts are not.
    """
    dtype, rows = torch.bfloat16 if autocast else torch.float32, size.batch * size.places
    pairs = [
        [torch.randn(*shape, dtype=dtype) for shape in shapes]
        for shapes in (((2048, 2048), (2048, 2048)), ((rows, size.width), (size.width, 4 * size.width)))
    ]
    best, before = 0.0, torch.backends.mkldnn.matmul.fp32_precision
    for way in ("ieee",) if autocast else ("ieee", "bf16"):
        torch.backends.mkldnn.matmul.fp32_precision = way
        exact = pairs[0][0].double() @ pairs[0][1].double()
        far = float((pairs[0][0] @ pairs[0][1] - exact).norm() / exact.norm())
        for a, b in pairs if autocast or far < FLOAT32 else ():
            for _ in range(12):
                begin = time.perf_counter()
                a @ b
                best = max(best, 2 * a.shape[0] * b.numel() / (time.perf_counter() - begin))
        torch.backends.mkldnn.matmul.fp32_precision = before
    spec = PRESETS["gpt2"](size.width, size.layers, size.heads, size.vocabulary, size.places)
    return 3 * 2 * eq.describe(spec, size.places).multiply_adds * size.batch / best, best


def measure(size, autocast, turns, only=("",)):
    torch.compiler.reset()  # or what was compiled for other sizes counts against the limit of recompilations
    steps, missing, notes = contestants(size, autocast, only)
    spent = {name: [] for name in steps}
    for turn in range(turns + 1):
        for name, step in steps.items():
            begin = time.perf_counter()
            step()
            if turn:
                spent[name].append(time.perf_counter() - begin)
        print(f"  {size} {'bfloat16' if autocast else 'float32'}: turn {turn} of {turns}", flush=True)
    seconds, best = limit(size, autocast)
    return {"seconds": spent, "missing": missing, "notes": notes, "limit": seconds, "best product": best}


def summary(found):
    """Per contestant: median seconds, and the middle half of its speed relative to the base, turn by turn."""
    base, rows = found["seconds"][BASE], {}
    for name, times in found["seconds"].items():
        ratios = sorted(b / t for b, t in zip(base, times, strict=True))
        n = len(ratios)
        rows[name] = (sorted(times)[n // 2], ratios[n // 2], ratios[n // 4], ratios[(3 * n) // 4])
    return rows


def markdown(results):
    lines = [f"# A training step ({results['date']})", "", f"{results['machine']}", "", f"{results['versions']}", ""]
    for title, found in results["runs"].items():
        rows = summary(found)
        best = max((r[1], n) for n, r in rows.items() if not n.startswith("ours"))
        lines += [
            f"## {title}",
            "",
            "| who | median, ms | speed, nanoGPT's way = 1 | middle half | over the best peer |",
            "| --- | --- | --- | --- | --- |",
        ]
        for name, (seconds, middle, low, high) in sorted(rows.items(), key=lambda r: -r[1][1]):
            over = f"{middle / best[0]:.2f}" if name.startswith("ours") else ""
            lines.append(f"| {name} | {seconds * 1e3:.1f} | {middle:.2f} | {low:.2f}-{high:.2f} | {over} |")
        speed, alone = found["best product"] / 1e9, found["limit"] * 1e3
        lines += ["", f"Best peer: {best[1]}. The products alone, at {speed:.0f} GFLOP/s: {alone:.1f} ms."]
        lines += [f"Notes: {found['notes']}. Missing: {', '.join(found['missing']) or 'none'}.", ""]
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny, two turns, nothing saved")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--only", nargs="+", default=[""], help="words in the names of peers; nanoGPT's way always runs")
    parser.add_argument("--out", default=RESULTS, help="folder of the table")
    return parser.parse_args()


def main():
    chosen = arguments()
    if chosen.quick:
        torch.compiler.set_stance("force_eager")
    sizes = {"tiny": TINY} if chosen.quick else {name: SIZES[name] for name in chosen.sizes}
    runs, name = {}, named("models", (chosen.sizes, SIZES), (chosen.dtypes, DTYPES))
    results = {"date": datetime.date.today().isoformat(), "machine": machine(), "runs": runs,
               "versions": versions("transformers", "x-transformers", "litgpt")}  # fmt: skip
    for title, size in sizes.items():
        for dtype in chosen.dtypes:
            runs[f"{title}, {dtype} ({size})"] = measure(
                size, dtype == "bfloat16", 2 if chosen.quick else chosen.turns, chosen.only
            )
            results["machine"]["load after"] = machine()["load"]
            if not chosen.quick:  # a later size may take long
                save(name, results, markdown(results), chosen.out)
    print(markdown(results))


if __name__ == "__main__":
    main()
