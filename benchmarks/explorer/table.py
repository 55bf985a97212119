"""A summary of each page and a table in Markdown, from the raw measurements."""

import statistics

SCOPES = [
    (
        "One layer of 12 heads, the same number of tokens (read the notes: what is stored and drawn differs)",
        lambda e: e["layers"] == 1 and e["tokens"] > 3,
    ),
    (
        "12 layers of 12 heads, the same random causal attention",
        lambda e: e["layers"] == 12,
    ),
    ("Three words, and a page with nothing in it", lambda e: e["tokens"] <= 3),
]
COLUMNS = [
    "tokens",
    "page",
    "MB",
    "gzip MB",
    "needs network",
    "main thread, CPU-s",
    "of it script",
    "all threads, CPU-s",
    "DOM nodes",
    "hover of the attention, ms",
    "hover of what is first, ms",
    "drag, ms",
    "export, s",
    "note",
]


def spread(values, digits=2):
    """median (min–max), or a dash without measurements."""
    if not values:
        return "–"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def measured(entry, stage, field):
    """All values of one field over the repetitions."""
    return [turn[stage][field] for turn in entry["turns"] if field in turn.get(stage, {})]


def network(entry):
    """Whether the page opens without a network, and how many requests it makes."""
    requests, blocked = measured(entry, "load", "requests"), measured(entry, "load", "blocked")
    if not requests:
        return "–"
    answer = f"yes, {requests[-1]} requests" if requests[-1] else "no"
    return answer + ("; cannot start offline" if blocked[-1] else "")


def nodes(entry):
    """The number of nodes after loading, and after hovering, when everything that a click opens is open."""
    found = [f"{measured(entry, stage, 'nodes')[-1]:.0f}" for stage in ("load", "hover") if measured(entry, stage, "nodes")]
    return ", then ".join(found) or "–"


def row(entry):
    notes = [note for note in (entry["note"], entry.get("failed")) if note]
    return [
        str(entry["tokens"]),
        entry["name"],
        *(f"{entry[key] / 1e6:.2f}" if key in entry else "–" for key in ("bytes", "gzip_bytes")),
        network(entry),
        *(spread(measured(entry, "load", field)) for field in ("task_s", "script_s", "process_s")),
        nodes(entry),
        spread(measured(entry, "hover", "ms"), 1),
        spread(measured(entry, "hover_first", "ms"), 1),
        spread(measured(entry, "drag", "ms"), 1),
        spread(measured(entry, "export", "seconds")),
        "; ".join(notes),
    ]


def markdown(results):
    """The whole report; `results` is saved as JSON beside it."""
    machine, lines = results["machine"], ["# Explorer pages, ours beside peers", ""]
    lines += [
        f"{results['date']}, {machine['cpu']}, {machine['cores']} cores, load {machine['load_before']} before and "
        f"{machine['load_after']} after, {results['repeat']} repetitions turn by turn; median (min–max).",
        "",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in results["versions"].items()) + ".",
        "",
        "CPU seconds until the page is interactive: loaded, and no task of 50 ms for half a second. Hover and drag: main-thread",
        "work of one pointer move, median of 20, fewer where they take more than 40 s together. Raster and compositing are not in",
        "it. Export: the whole command, imports included.",
        "MB: the page itself, without what it asks the network for.",
        "",
    ]
    for title, belongs in SCOPES:
        rows = [row(entry) for entry in results["pages"] if belongs(entry)]
        if rows:
            lines += [f"## {title}", "", "| " + " | ".join(COLUMNS) + " |", "| " + " | ".join("---" for _ in COLUMNS) + " |"]
            lines += ["| " + " | ".join(cells) + " |" for cells in rows] + [""]
    for name, seconds in results["commands"].items():
        lines.append(f"- `{name}`: {spread(seconds)} s")
    return "\n".join(lines).rstrip() + "\n"
