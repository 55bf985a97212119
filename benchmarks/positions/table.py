"""A table in Markdown, from the raw measurements."""

import statistics

HEAD = ["", "who", "time over plain", "quartiles", "turns", "error", "of gradients", "operations", "bytes", "note"]


def row(name, found):
    ratios = sorted(own / plain for plain, own in found["turns"])
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return [
        name, found["who"], f"{middle:.2f}", f"{low:.2f}–{high:.2f}", str(len(ratios)), f"{found['error']['output']:.0e}",
        f"{found['error']['gradient']:.0e}", _ratio(found["operations"], 2), _ratio(found["bytes"], 1), found["note"],
    ]  # fmt: skip


def lines(rows):
    return ["| " + " | ".join(cells) + " |" for cells in rows]


def markdown(results):
    """The whole report; `results` is saved as JSON beside it."""
    where, sizes = results["machine"], f"B {results['batch']}, H {results['heads']}, K {results['width']}"
    text = [
        "# What a position costs",
        "",
        f"{results['date']}, {where.get('gpu', where['cpu'])}, {where['cores']} cores, {where['threads']} threads, "
        f"load {where['load']} before and {where['load after']} after. {sizes}, {results['dtype'].removeprefix('torch.')}.",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in results["versions"].items()) + ".",
        "",
        "Forward and backward of one causal attention, given q, k, v, over plain `F.scaled_dot_product_attention(is_causal=True)`;",
        "each turn follows one of the plain kernel, in one process, and the median of the ratios is shown.",
        "Error: relative, against the same function in float64 (one sequence, at most 512 tokens).",
        "Operations and bytes: over the plain kernel's, counted as `benchmarks/positions/count.py` says.",
        "",
    ]
    for length, found in results["lengths"].items():
        base = statistics.median(plain for entry in found.values() for plain, _ in entry["turns"])
        text += [f"## {length} tokens: plain takes {base * 1e3:.1f} ms", ""]
        text += [*lines([HEAD, ["---"] * len(HEAD)]), *lines(row(name, entry) for name, entry in found.items()), ""]
    return "\n".join(text + [f"- {line}" for line in results["missing"]]).rstrip() + "\n"


def _ratio(x, digits):
    return "–" if x is None else f"{x:.{digits}f}"
