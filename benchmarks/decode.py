"""Decoding speed of one sequence, token by token, beside transformers with the same weights.

    python -m benchmarks.decode            two GPTs, float32 and bfloat16, 128 tokens after 64; saved with date and machine
    python -m benchmarks.decode --quick    a tiny model and few tokens, nothing saved
    python -m benchmarks.decode --only 124M --dtype float32 --turns 9

Batch 1, greedy. Every contestant generates the whole sequence once per turn, and contestants take turns (A B C D A B C D), so that
a busy machine slows all alike. The time includes the prompt. Weights are random, with blocks large enough that the tokens vary.
With random weights the two best logits are often closer than the resolution of bfloat16: where a contestant generates a token
other than the first contestant's, the table shows how close the logits are. A second run, with weights that have memorised a text,
shows whether a contestant generates the right tokens.
The lower limit is the time to read as many bytes as the weights have, as float32 matrices, with the fastest product or sum of
torch.
"""

import argparse
import datetime
import math
import pathlib
import statistics
import tempfile
import time

import torch
from benchmarks.machine import RESULTS, machine, named, save, versions
from transformers import GPT2Config, GPT2LMHeadModel

import equiscope as eq
from equiscope.models import generate
from equiscope.models.cpu_decoder import CPUDecoder

SIZES = {
    "6 layers, 384 wide, 65 characters": {"vocab_size": 65, "n_embd": 384, "n_layer": 6, "n_head": 6, "n_positions": 256},
    "12 layers, 768 wide, 50257 words (124M)": {},
}
TINY = {"8 wide": {"vocab_size": 65, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 32}}
INPUTS, OUTPUTS = 768, 3072  # of matrices whose reading is timed: the largest of a layer of 124M
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
CLEAR, MOST = 4.0, 3000  # what a word learnt by heart is to be ahead of all others, in logits; steps in which that is reached


def peer(sizes, strength=4.0):
    """The model of transformers, with random weights."""
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=None, eos_token_id=None)).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if ".h." in name and p.ndim == 2:
                p.mul_(strength)
    return model


def taught(theirs, text):
    """Memorise a text [1, T], until the logit of every token leads by `CLEAR`. Returns the steps."""
    rate, words = min(1e-2, 0.25 / theirs.config.n_embd), text[:, 1:, None]
    optimiser = torch.optim.AdamW(theirs.parameters(), lr=rate, weight_decay=0.0, fused=True)
    for step in range(MOST):
        logits = theirs(text[:, :-1]).logits
        ahead = logits.gather(-1, words)[..., 0] - logits.detach().scatter(-1, words, -math.inf).amax(-1)
        if ahead.min() > CLEAR:
            return step
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(logits[0], text[0, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)
        optimiser.step()
    raise RuntimeError(f"{MOST} steps have not taught {theirs.config.n_layer} layers {text.shape[1]} words")


def contestants(theirs, dtype, prompt, steps):
    """By name: a function that generates the sequence."""
    theirs = theirs.to(dtype)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours = eq.load(folder, dtype)
    fast = CPUDecoder(ours)
    assert not fast.fallback_reason, fast.fallback_reason

    def written(**settings):
        made = theirs.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=steps, do_sample=False, eos_token_id=None,
            pad_token_id=0, **settings,
        )  # fmt: skip
        return made[0, prompt.shape[1] :]

    return {
        "transformers, dynamic cache": lambda: written(),
        "transformers, static cache": lambda: written(cache_implementation="static", disable_compile=True),
        "ours": lambda: generate(ours, prompt, steps)[0],
        "ours, prepared": lambda: generate(fast, prompt, steps)[0],
    }


def measured(sizes, name, turns, length, steps):
    """Seconds per token of every contestant, its tokens that agree with transformers', and the lower limit set by memory."""
    theirs = peer(sizes)
    prompt = torch.randint(theirs.config.vocab_size, (1, length), generator=torch.Generator().manual_seed(1))
    ways = contestants(theirs, DTYPES[name], prompt, steps)
    texts, times = {way: write().tolist() for way, write in ways.items()}, {way: [] for way in ways}
    for turn in range(turns):
        print(f"  {theirs.config.n_layer} layers, {name}: turn {turn + 1} of {turns}", flush=True)
        for way, write in ways.items():
            began = time.perf_counter()
            write()
            times[way].append((time.perf_counter() - began) / steps)
    first, same = next(iter(texts.values())), alike(texts)
    apart = {way: nearness(theirs, prompt, first, texts[way], n) for way, n in same.items() if n < steps}
    read = sum(p.numel() for p in theirs.parameters()) * DTYPES[name].itemsize
    rows = {}
    for way, seconds in times.items():
        low, middle, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else seconds * 3
        rows[way] = {"median": middle, "quartiles": [low, high], "least": min(seconds), "same": same[way], "apart": apart.get(way)}
    return {"rows": rows, "bytes": read, "least": reading(read), "different": len(set(first)),
            "by heart": by_heart(sizes, name, length, steps)}  # fmt: skip


def alike(texts):
    """For every sequence, the number of tokens before the first that differs from the first sequence."""
    first, *_ = texts.values()
    pairs = {way: zip(text, first, strict=True) for way, text in texts.items()}
    return {way: next((i for i, (a, b) in enumerate(both) if a != b), len(first)) for way, both in pairs.items()}


def nearness(theirs, prompt, first, other, at):
    """Where two sequences diverge: the difference of the two logits in float32 with the same weights, and in steps of bfloat16."""
    with torch.no_grad():
        logits = theirs.float()(torch.cat([prompt, prompt.new_tensor([first[:at]])], 1)).logits[0, -1]
    one, two = float(logits[first[at]]), float(logits[other[at]])
    return {"words": abs(one - two), "bfloat16": 2.0 ** (math.frexp(one)[1] - 8)}


def by_heart(sizes, name, length, steps):
    """The number of tokens of a memorised text that every contestant generates, given its first tokens."""
    theirs = peer(sizes, strength=1.0)
    text = torch.randint(theirs.config.vocab_size, (1, length + steps), generator=torch.Generator().manual_seed(2))
    many = taught(theirs, text)
    print(f"  {theirs.config.n_layer} layers: {length + steps} words learnt by heart in {many} steps", flush=True)
    right = text[0, length:].tolist()
    ways = contestants(theirs, DTYPES[name], text[:, :length], steps)
    found = alike({"right": right} | {way: write().tolist() for way, write in ways.items()})
    return {"steps": many} | {way: found[way] for way in ways}


def reading(many):
    """The least time in seconds to read this many bytes as consecutive matrices, by a product with one row, or a sum."""
    each = min(INPUTS * OUTPUTS, many // 4)
    matrices = [torch.zeros(INPUTS, max(1, each // INPUTS)) for _ in range(max(1, many // (4 * each)))]
    row, read, best = torch.zeros(1, INPUTS), sum(m.nbytes for m in matrices), math.inf
    for way in [lambda m: row @ m, lambda m: row @ m.view(-1, INPUTS).t(), torch.sum] * 5:
        began = time.perf_counter()
        for m in matrices:
            way(m)
        best = min(best, time.perf_counter() - began)
    return best * many / read


def table(found):
    lines = []
    for (size, dtype), case in found.items():
        base, limit = case["rows"]["transformers, dynamic cache"]["median"], case["least"]
        weights, speed = f"{case['bytes'] / 1e6:.0f} MB of weights", f"{case['bytes'] / limit / 1e9:.1f} GB/s"
        lines += [f"\n{size}, {dtype}; {weights}, read in {limit * 1e3:.2f} ms at least, {speed}\n"]
        lines += ["| | ms a token | quartiles | least | speed | tokens alike | by heart | of the limit |", "| --- |" + " --- |" * 7]
        for way, row in case["rows"].items():
            low, high = row["quartiles"]
            lines += [
                f"| {way} | {row['median'] * 1e3:.2f} | {low * 1e3:.2f}–{high * 1e3:.2f} | {row['least'] * 1e3:.2f} | "
                f"{base / row['median']:.2f} | {row['same']} | {case['by heart'][way]} | {limit / row['median']:.0%} |"
            ]
        lines += [
            f"\n{way}: its first other word has a logit {row['apart']['words']:.1g} away, where numbers of bfloat16 are "
            f"{row['apart']['bfloat16']:.1g} apart."
            for way, row in case["rows"].items() if row["apart"]
        ]  # fmt: skip
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", default="", help="part of a size's name")
    parser.add_argument("--dtype", choices=DTYPES, action="append")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS, help="folder of the table")
    asked = parser.parse_args()
    sizes, turns, length, steps = (TINY, 2, 5, 8) if asked.quick else (SIZES, asked.turns, 64, 128)
    before = machine()
    found = {
        (size, dtype): measured(settings, dtype, turns, length, steps)
        for size, settings in sizes.items() if asked.only in size for dtype in asked.dtype or DTYPES
    }  # fmt: skip
    text = table(found)
    print(text)
    if asked.quick:
        return
    day, after = datetime.date.today().isoformat(), machine()
    with_what = ", ".join(f"{name} {version}" for name, version in versions("transformers").items())
    head = [
        "# Writing one text\n",
        f"{day}, {before['cpu']}, {before['threads']} threads; load {before['load']} before, {after['load']} after.",
        f"Versions: {with_what}.\n",
        f"Batch 1, {steps} tokens after a prompt of {length}, greedy, {turns} turns of each way.",
        "Speed is over transformers with its dynamic cache. Tokens alike: how many come before the first that differs from its.",
        "By heart: the same of a text that the weights have learnt, before the first token that is wrong.",
        "The limit is as many bytes read in matrices of float32, by the fastest product with one row, or sum, of torch.",
    ]
    plain = {"machine": {"before": before, "after": after}, "versions": versions("transformers"), "turns": turns,
             "cases": {f"{size}, {dtype}": case for (size, dtype), case in found.items()}}  # fmt: skip
    save(named("decode", (asked.dtype or DTYPES, DTYPES)), plain, "\n".join([*head, text]), asked.out)


if __name__ == "__main__":
    main()
