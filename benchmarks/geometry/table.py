"""Tables in Markdown, from the raw measurements."""

import statistics

from benchmarks.geometry.lists import exponent
from benchmarks.geometry.points import NEAR

BASE = "ours, dense"
SAID = {
    "attention": "forward and backward (to features, places and weights) of two layers with four heads",
    "energies": "a training step of energy and forces: their loss, and its gradient to all weights",
}
ERRORS = {"turned": "number turned", "slope turned": "gradient turned", "slope": "gradient", "learned": "weights' gradient"}


def lines(rows):
    return ["| " + " | ".join(cells) + " |" for cells in rows]


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else list(values) * 3


def case(found):
    rows = [["", "ms", "quartiles", f"over {BASE}", "quartiles", "turns", "MiB", "parameters"]]
    rows.append(["---"] * len(rows[0]))
    base = found.get(BASE, {}).get("seconds", [])
    for name, entry in found.items():
        if "why" in entry:
            rows.append([name, "–", "", entry["why"], *[""] * 4])
            continue
        low, middle, high = (f"{1e3 * s:.1f}" for s in quartiles(entry["seconds"]))
        over = quartiles([own / other for own, other in zip(entry["seconds"], base, strict=False)]) if base else None
        ratio = [f"{over[1]:.2f}", f"{over[0]:.2f}–{over[2]:.2f}"] if over else ["", ""]
        size = "" if entry["bytes"] is None else f"{entry['bytes'] / 2**20:.1f}"
        rows.append([name, middle, f"{low}–{high}", *ratio, str(len(entry["seconds"])), size, str(entry["parameters"])])
    return lines(rows)


def exact(found):
    keys = [key for key in ERRORS if any(key in entry for entry in found.values())]
    rows = [["", *(ERRORS[key] for key in keys)], ["---"] * (len(keys) + 1)]
    for name, entry in found.items():
        rows.append([name, entry["why"], *[""] * (len(keys) - 1)] if "why" in entry else [name, *(f"{entry[k]:.0e}" for k in keys)])
    return lines(rows)


def many(found):
    names = list(next(iter(found.values()))["seconds"])
    rows = [["µs an atom", *(f"N {count}" for count in found), "grows as"], ["---"] * (len(found) + 2)]
    for name in names:
        each = [f"{1e6 * statistics.median(entry['seconds'][name]) / count:.1f}" for count, entry in found.items()]
        rows.append([name, *each, f"N^{exponent(found, name):.2f}"])
    rows.append(["neighbours, longest list", *(f"{e['neighbours']:.1f}, {e['longest'] - 1}" for e in found.values()), ""])
    return lines(rows)


def markdown(results):
    where = results["machine"]
    text = [
        "# Attention among points in space", "",
        f"{results['date']}, {where['cpu']}, {where['cores']} cores, {where['threads']} threads, "
        f"load {where['load']} before and {where['load after']} after; float32"
        f"{'; seconds of the processor' if where['threads'] == 1 else ''}.",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in results["versions"].items()) + ".", "",
        f"Places with {NEAR} others within 5 Å on average (all, where there are fewer). One turn of each way after another, one",
        "process; medians, and the medians of the ratios turn by turn. MiB: what torch's allocator held at the peak of a pass,",
        "gradients of the weights included. dense sees all pairs; local, e3nn, MACE and TensorNet those within the cutoff; the",
        "other two the 16 nearest.", "",
    ]  # fmt: skip
    for part in ("attention", "energies"):
        for (channels, count), found in results.get(part, {}).items():
            text += [f"## {count} points, {channels} channels: {SAID[part]}", "", *case(found), ""]
    for part, found in results.get("exact", {}).items():
        text += [f"## Errors in float64, relative: {SAID[part]}", "", *exact(found), ""]
    if results.get("exact"):
        text += [
            "Of a turn and a shift of all points; of gradients against differences along six directions. Eight points, weights",
            "moved by chance.", "",
        ]  # fmt: skip
    if results.get("lists"):
        text += ["## Many points", "", *many(results["lists"]), ""]
    return "\n".join(text + [f"- {line}" for line in results["missing"]]).rstrip() + "\n"
