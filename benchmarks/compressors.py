"""Compressors and n-gram models on the validation part of a recipe, in bits per character, beside a trained model.

    python -m benchmarks.compressors [--recipe recipes/eltec.toml] [--run RUN ...] [--quick]

n-grams are of characters, interpolated with modified Kneser-Ney smoothing and counted on the training part only. The table shows
all orders; the best one, chosen on the validation part, is the baseline. xz, whose dictionary is larger than the texts, compresses
the validation part alone, and after the training part. bzip2, whose blocks are shorter, compresses it alone.
Source: Chen & Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling", section 3 (modified Kneser-Ney).
"""

import argparse
import bz2
import datetime
import lzma
import time
from pathlib import Path

import numpy as np
from benchmarks.machine import RESULTS, ROOT, machine, save, versions

from equiscope.data import Passages
from equiscope.record import read_run
from equiscope.training import read_recipe

BITS = 7  # of a character's id, so that nine of them are one number
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 2**26}]


class Counts:
    """n-grams of one order: for each observed context, its total and the weight of shorter contexts."""

    def __init__(self, codes, counts):
        """codes: sorted n-grams, last character in the lowest bits; counts: of n-grams, or of their distinct left neighbours."""
        self.codes, self.counts = codes, counts
        ones = [int((counts == k).sum()) for k in (1, 2, 3, 4)]
        y = ones[0] / max(ones[0] + 2 * ones[1], 1)
        raw = [k - (k + 1) * y * ones[k] / max(ones[k - 1], 1) for k in (1, 2, 3)]
        self.discounts = np.array([0.0, *(min(max(d, 0.0), k) for k, d in zip((1, 2, 3), raw, strict=True))])
        self.contexts, first = np.unique(codes >> np.uint64(BITS), return_index=True)
        self.totals = np.add.reduceat(counts, first)
        self.left = np.add.reduceat(self.discounts[np.minimum(counts, 3)], first)

    def mixed(self, wanted, shorter):
        """The probability of each requested n-gram; `shorter` holds the probabilities under shorter contexts."""
        place, seen = found(self.contexts, wanted >> np.uint64(BITS))
        total = np.where(seen, self.totals[place], 1)
        at, there = found(self.codes, wanted)
        count = np.where(there, self.counts[at], 0)
        own = np.maximum(count - self.discounts[np.minimum(count, 3)], 0) / total
        return np.where(seen, own + self.left[place] / total * shorter, shorter)


def found(table, wanted):
    """The index of each number in a sorted table, and whether the table contains it."""
    place = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
    return place, table[place] == wanted


def grams(ids, order):
    """The n-gram that ends at each position, as one number: [N - order + 1]."""
    wide = ids.astype(np.uint64)
    code = np.zeros(len(ids) - order + 1, np.uint64)
    for i in range(order):
        code = code << np.uint64(BITS) | wide[i : len(ids) - order + 1 + i]
    return code


def n_grams(train, validation, size, orders):
    """Bits per character of the validation part, by order of the n-gram; the first characters have shorter contexts."""
    longest = max(orders)
    raw = {order: np.unique(grams(train, order), return_counts=True) for order in orders}
    distinct = raw[longest][0]
    tables = {}
    for order in range(longest - 1, 0, -1):  # counted by how many characters stand before
        distinct, before = np.unique(distinct & np.uint64(2 ** (BITS * order) - 1), return_counts=True)
        tables[order] = Counts(distinct, before)
    lower = [np.full(len(validation), 1 / size)]
    for order in range(1, longest):
        lower.append(reached(tables[order], validation, order, lower[order - 1]))
    chances = {order: reached(Counts(*raw[order]), validation, order, lower[order - 1]) for order in orders}
    return {order: float(-np.log2(chance).mean()) for order, chance in chances.items()}


def reached(table, ids, order, shorter):
    """The probability of every character with contexts of this order; the first characters have shorter contexts."""
    made = shorter.copy()
    made[order - 1 :] = table.mixed(grams(ids, order), shorter[order - 1 :])
    return made


def compressed(train, validation, characters):
    """Bits per character of xz and bzip2, on UTF-8."""

    def xz(content):
        return len(lzma.compress(content, lzma.FORMAT_RAW, filters=FILTERS))

    return {
        "xz, validation alone": 8 * xz(validation) / characters,
        "bzip2, validation alone": 8 * len(bz2.compress(validation, 9)) / characters,
        "xz, after the training part": 8 * (xz(train + validation) - xz(train)) / characters,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, default=ROOT / "recipes" / "eltec.toml", help="whose parts are measured")
    parser.add_argument("--run", type=Path, action="append", default=[], help="folder of a run of it; may be given several times")
    parser.add_argument("--orders", type=int, nargs="+", default=[3, 4, 5, 6, 7, 8, 9], help="characters of an n-gram, 9 at most")
    parser.add_argument("--quick", action="store_true", help="on the recipe's samples, nothing saved")
    parser.add_argument("--out", default=RESULTS, help="folder of the table")
    chosen = parser.parse_args()
    recipe = read_recipe(chosen.recipe, ['data.tokens="characters"'], small=chosen.quick)
    passages = Passages(recipe.data, recipe.seed, chosen.recipe.parent)
    if passages.tokenizer.size > 2**BITS:
        raise SystemExit(f"n-grams of more than {2**BITS} characters are not counted here.")
    text = {part: "".join(passages.text(part)) for part in ("train", "validation")}
    begin = time.perf_counter()
    bits = n_grams(passages.ids["train"], passages.ids["validation"], passages.tokenizer.size, sorted(chosen.orders))
    rows = {f"{order}-gram, Kneser-Ney": value for order, value in bits.items()}
    counted = time.perf_counter() - begin
    rows |= compressed(text["train"].encode(), text["validation"].encode(), len(text["validation"]))
    for folder in chosen.run:
        run = read_run(folder)
        rows[f"{run.title} ({run.parameters:,} parameters)"] = run.result["validation"]["bits per character"]
    results = {
        "date": datetime.date.today().isoformat(), "machine": machine(), "versions": versions("numpy"),
        "data": recipe.to_dict()["data"],
        "characters": passages.characters, "seconds of counting": round(counted, 1), "bits per character": rows,
    }  # fmt: skip
    lines = [f"# Bits per character ({results['date']})", "", f"{results['machine']}, {results['versions']}", ""]
    lines += [f"Validation part of `{chosen.recipe.name}`: {passages.characters['validation']:,} characters; training part: "]
    lines[-1] += f"{passages.characters['train']:,}."
    lines += ["", "| what | bits per character |", "| --- | --- |", *(f"| {name} | {value:.4f} |" for name, value in rows.items())]
    print("\n".join(lines))
    if not chosen.quick:
        save("compressors", results, "\n".join(lines), chosen.out)


if __name__ == "__main__":
    main()
