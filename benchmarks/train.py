"""The speed of whole training loops of a character GPT: data, step, clipping, schedule and logging, in this package and in others.

    python -m benchmarks.train                     two sizes, float32 and bfloat16; every loop in its own process, in rounds
    python -m benchmarks.train --quick             tiny, one round, nothing is saved
    python -m benchmarks.train --sizes 6x384 --dtypes float32 --rounds 5 --only ours nanoGPT

The loops are common starting points: nanoGPT's (written here after train.py), transformers' Trainer, litgpt's pretrain, and the
example of x-transformers. All are timed in the same way: from the request of one batch to that of the next, without the first third
of the steps. All read one file of random characters, 65 distinct ones, and have the same layers, heads, features and positions,
with random weights.
"""

import argparse
import contextlib
import datetime
import itertools
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from functools import partial

import torch
import torch.nn.functional as F
from benchmarks import gpts
from benchmarks.machine import ROOT, machine, named, save, versions

DTYPES = ["float32", "bfloat16"]
SIZES = {"4x128": gpts.Size(4, 128, 4, places=64, batch=12), "6x384": gpts.Size(6, 384, 6)}
STEPS = {"4x128": 240, "6x384": 12, "tiny": 9}
TINY = gpts.Size(1, 32, 2, places=16, batch=2)
SIGNS = "".join(chr(33 + i) for i in range(65))


class Clock:
    """Provides batches [B, T + 1] from a sequence of ids, and records the time of each request."""

    def __init__(self, size, steps):
        self.size, self.steps, self.asked = size, steps, []
        self.line = torch.tensor([SIGNS.index(sign) for sign in text()])

    def batch(self):
        self.asked.append(time.perf_counter())
        first = torch.randint(len(self.line) - self.size.places - 1, (self.size.batch,))
        return torch.stack([self.line[i : i + self.size.places + 1] for i in first])

    def __iter__(self):
        while True:
            yield self.batch()

    def __len__(self):
        return 10**9


class Stream(torch.utils.data.IterableDataset):
    """A clock as a dataset that can be pickled, for litgpt."""

    def __init__(self, clock):
        self.clock = clock

    def __iter__(self):
        return iter(self.clock)


def text():
    return "".join(random.Random(0).choices(SIGNS, k=100_000))


def precise(dtype):
    return torch.autocast("cpu", torch.bfloat16) if dtype == "bfloat16" else contextlib.nullcontext()


def nanogpt(size, dtype, steps, compiled=False):
    clock, model = Clock(size, steps), gpts.Plain(size)
    called = torch.compile(model) if compiled else model
    decays = [[p for p in model.parameters() if p.dim() >= 2], [p for p in model.parameters() if p.dim() < 2]]
    groups = [{"params": decays[0], "weight_decay": 0.1}, {"params": decays[1], "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 1e-4 + 0.5 * (1 + math.cos(math.pi * step / steps)) * 9e-4
        ids = clock.batch()
        with precise(dtype):
            loss = F.cross_entropy(called(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if step % 10 == 0:
            print(step, loss.item(), file=sys.stderr)
    return clock.asked


def trainer(size, dtype, steps):
    from transformers import GPT2LMHeadModel, Trainer, TrainingArguments

    clock = Clock(size, steps)

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return size.batch * (steps + 2)

        def __getitem__(self, i):
            if i % size.batch == 0:
                self.rows = clock.batch()[:, :-1]
            row = self.rows[i % size.batch]
            return {"input_ids": row, "labels": row}

    class InOrder(Trainer):
        def _get_train_sampler(self, *args, **named):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=size.batch, max_steps=steps, logging_steps=10, report_to=[], save_strategy="no",
            use_cpu=True, bf16=dtype == "bfloat16", learning_rate=1e-3, lr_scheduler_type="cosine", disable_tqdm=True,
            optim="adamw_torch_fused", dataloader_num_workers=0,
        )  # fmt: skip
        InOrder(GPT2LMHeadModel(gpts.gpt2_config(size)), arguments, train_dataset=Rows()).train()
    return clock.asked


def litgpt(size, dtype, steps):
    from litgpt import pretrain
    from litgpt.args import EvalArgs, TrainArgs
    from litgpt.data import DataModule

    clock = Clock(size, steps)

    class Characters(DataModule):
        def connect(self, tokenizer=None, batch_size=1, max_seq_length=None):
            pass

        def train_dataloader(self):
            return torch.utils.data.DataLoader(Stream(clock), batch_size=None)

        def val_dataloader(self):
            return torch.utils.data.DataLoader(Stream(clock), batch_size=None)

        def __str__(self):
            return "characters"

    pretrain.save_hyperparameters = lambda *given: None  # after the loop; it reads the command line, which is ours
    config = gpts.litgpt_config(size)
    tokens = steps * size.batch * size.places
    with tempfile.TemporaryDirectory() as folder:
        pretrain.setup(
            "bench", config, pathlib.Path(folder), "bf16-mixed" if dtype == "bfloat16" else "32-true", data=Characters(),
            train=TrainArgs(save_interval=None, log_interval=10, global_batch_size=size.batch, micro_batch_size=size.batch,
                            lr_warmup_steps=2, max_tokens=tokens, max_norm=1.0, max_seq_length=size.places),
            eval=EvalArgs(interval=10**9, max_iters=1, final_validation=False), logger_name="csv", devices=1,
        )  # fmt: skip
    return clock.asked[1:]  # the first is a validation


def x_transformers(size, dtype, steps):
    from x_transformers import AutoregressiveWrapper

    clock, model = Clock(size, steps), AutoregressiveWrapper(gpts.x_transformers(size))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    for _ in range(steps):
        model.train()
        with precise(dtype):
            loss = model(clock.batch()[:, :-1])  # it takes the next tokens out of them itself
        loss.backward()
        print(f"training loss: {loss.item()}", file=sys.stderr)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        optimiser.zero_grad()
    return clock.asked


def ours(size, dtype, steps, compiled=False, products="torch", **shape):
    from equiscope.models import PRESETS
    from equiscope.training import Watcher, fit, open_task, recipe

    spec = PRESETS["gpt2"](size.width, size.layers, size.heads, size.vocabulary, size.places, **shape).to_dict()
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "text.txt")
        file.write_text(text())
        made = recipe({
            "title": "benchmark", "data": {"task": "language", "train": str(file), "context": size.places},
            "model": {name: value for name, value in spec.items() if name not in ("version", "vocabulary", "outputs")},
            "budget": {"steps": steps, "batch": size.batch}, "evaluation": {"every": steps, "samples": 0},
            "engine": {"precision": dtype, "compile": compiled, "products": products},
        })  # fmt: skip
        asked = []
        fit(made, open_task(made), pathlib.Path(folder, "run"), Watcher(entry=lambda entry: asked.append(time.perf_counter())))
    return asked[1:-1]  # without the two evaluations


CHARACTERS = {"bias": False, "activation": "gelu"}  # nanoGPT's models of characters, as in benchmarks/models.py
LOOPS = {
    "nanoGPT's loop": (nanogpt, None), "nanoGPT's loop, compiled": (partial(nanogpt, compiled=True), None),
    "transformers Trainer": (trainer, "accelerate"), "litgpt pretrain (compiles)": (litgpt, "litgpt"),
    "x-transformers loop": (x_transformers, "x_transformers"),
    "ours": (ours, None), "ours, compiled": (partial(ours, compiled=True), None),
    "ours, oneDNN's products": (partial(ours, products="onednn"), None),
    "ours, oneDNN's products, compiled": (partial(ours, compiled=True, products="onednn"), None),
    "ours, nanogpt-char, compiled": (partial(ours, compiled=True, **CHARACTERS), None),
    "ours, nanogpt-char, oneDNN's products, compiled": (partial(ours, compiled=True, products="onednn", **CHARACTERS), None),
}  # fmt: skip
PEERS = ("transformers Trainer", "litgpt pretrain (compiles)", "x-transformers loop")


def worker(name, size, dtype, steps):
    """Seconds of each step, without the first third, printed as the last line."""
    torch.manual_seed(0)
    asked = LOOPS[name][0](size, dtype, steps)
    spent = [b - a for a, b in itertools.pairwise(asked)][steps // 3 :]
    print(json.dumps(spent))


def measured(name, size_name, dtype, steps):
    """The median step of a loop in its own process, or the reason why there is none."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.train",
        "--worker",
        name,
        "--sizes",
        size_name,
        "--dtypes",
        dtype,
        "--steps",
        str(steps),
    ]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "WANDB_MODE": "disabled"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["?"])[-1][:120]
    spent = sorted(json.loads(done.stdout.strip().splitlines()[-1]))
    return spent[len(spent) // 2], ""


def measure(size_name, dtype, rounds, steps, names):
    found, missing = {name: [] for name in names}, {}
    for turn in range(rounds):
        for name in names:
            if name in missing:
                continue
            median, why = measured(name, size_name, dtype, steps)
            if median is None:
                missing[name] = why
            else:
                found[name].append(median)
            said = f"{median * 1e3:.1f} ms" if median else why
            print(f"  {size_name} {dtype}, round {turn + 1} of {rounds}: {name}: {said}", file=sys.stderr, flush=True)
    return {"seconds": {name: times for name, times in found.items() if times}, "missing": missing}


def markdown(results):
    lines = [f"# A whole training loop ({results['date']})", "", f"{results['machine']}", "", f"{results['versions']}", ""]
    lines += ["Seconds of a step: medians of each round's process; the best peer is the fastest of " + ", ".join(PEERS) + ".", ""]
    for title, found in results["runs"].items():
        rows = {name: sorted(times) for name, times in found["seconds"].items()}
        middle = {name: times[len(times) // 2] for name, times in rows.items()}
        best = min((middle[name], name) for name in middle if name in PEERS) if set(middle) & set(PEERS) else (None, "none")
        lines += [
            f"## {title}",
            "",
            "| loop | ms a step | least and most | speed over the best peer |",
            "| --- | --- | --- | --- |",
        ]
        for name, seconds in sorted(middle.items(), key=lambda item: item[1]):
            over = f"{best[0] / seconds:.2f}" if best[0] else ""
            lines.append(f"| {name} | {seconds * 1e3:.1f} | {rows[name][0] * 1e3:.1f}-{rows[name][-1] * 1e3:.1f} | {over} |")
        lines += ["", f"Best peer: {best[1]}. Missing: {found['missing'] or 'none'}.", ""]
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny, one round, nothing saved")
    parser.add_argument("--sizes", nargs="+", choices=[*SIZES, "tiny"], default=list(SIZES))
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--only", nargs="+", default=[""], help="words in the names of loops")
    parser.add_argument("--eager", action="store_true", help="leave out what is compiled")
    parser.add_argument("--worker", choices=LOOPS, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    chosen = arguments()
    sizes = SIZES | {"tiny": TINY}
    if chosen.worker:
        worker(chosen.worker, sizes[chosen.sizes[0]], chosen.dtypes[0], chosen.steps)
        return
    names = [name for name in LOOPS if any(word in name for word in chosen.only) and not (chosen.eager and "compile" in name)]
    runs = {}
    results = {"date": datetime.date.today().isoformat(), "machine": machine(), "runs": runs,
               "versions": versions("transformers", "accelerate", "x-transformers", "litgpt")}  # fmt: skip
    for size in ["tiny"] if chosen.quick else chosen.sizes:
        for dtype in chosen.dtypes:
            steps = chosen.steps or STEPS[size]
            here = [name for name in names if dtype == "float32" or "oneDNN" not in name]  # of float32 there are two kinds
            runs[f"{size}, {dtype} ({sizes[size]})"] = measure(size, dtype, 1 if chosen.quick else chosen.rounds, steps, here)
    results["machine"]["load after"] = machine()["load"]
    made = markdown(results)
    print(made)
    if not chosen.quick:
        save(named("train", (chosen.sizes, SIZES), (chosen.dtypes, DTYPES)), results, made)


if __name__ == "__main__":
    main()
