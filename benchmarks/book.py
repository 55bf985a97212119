"""The book: bytes and CPU time until the figures of its first chapter answer, and the CPU time of a hover.

    python -m benchmarks.book [--repeat 5] [--quick]

The static site is written, served on the loopback interface and opened at its first chapter in a fresh headless Chromium, several
times. Bytes are those of every file that is requested until all figures of that chapter are there, compressed as a web server does
(gzip, level 6). CPU time is that of the main threads of all processes of the page, its frames included, without
what the same browser spends on an empty page with as many frames. All threads together (also those that paint) are given too. Needs
Linux, `playwright` and a Chromium on PATH or in EQUISCOPE_BROWSER.
"""

import argparse
import datetime
import functools
import gzip
import http.server
import os
import re
import shutil
import statistics
import tempfile
import threading
from pathlib import Path

from benchmarks.explorer.browser import FLAGS, QUIET
from benchmarks.machine import RESULTS, machine, save, versions

GOALS = {"bytes": 250_000, "cpu_s": 0.5, "hover_ms": 16}
MOVES = 20
EMPTY = "<iframe sandbox srcdoc='<p>nothing'></iframe>"
THERE = """(chapter) => [...document.getElementById(chapter).querySelectorAll("equiscope-figure")]
  .every((one) => one.shadowRoot?.querySelector("slot").hidden)"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def served(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def cpu(tools):
    """CPU seconds of all renderers so far: of their main threads, and of all threads."""
    renderers = [one for one in tools.send("SystemInfo.getProcessInfo")["processInfo"] if one["type"] == "renderer"]
    threads = [Path(f"/proc/{one['id']}/task/{one['id']}/schedstat") for one in renderers]
    main = sum(int(thread.read_text().split()[0]) for thread in threads if thread.exists()) / 1e9
    return {"main": main, "all": sum(one["cpuTime"] for one in renderers)}


def difference(before, after):
    return {name: after[name] - before[name] for name in before}


def visit(playwright, chromium, address, chapter=None):
    """One visit in a fresh browser: CPU seconds until every figure of the chapter is there, requested files, CPU-ms of a hover."""
    browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
    try:
        tools, page, files = browser.new_browser_cdp_session(), browser.new_page(viewport={"width": 1280, "height": 900}), []
        page.on("request", lambda request: files.append(request.url))
        before = cpu(tools)
        page.goto(address)
        if chapter:
            for figure in page.locator(f"[id='{chapter}'] equiscope-figure").all():
                figure.scroll_into_view_if_needed()
            while not page.evaluate(THERE, chapter):
                page.wait_for_timeout(50)
        page.evaluate(QUIET)
        spent = difference(before, cpu(tools))
        return {"cpu_s": spent, "files": files, "hover_ms": hover(page, tools) if chapter else None, "chromium": browser.version}
    finally:
        browser.close()


def hover(page, tools):
    """CPU milliseconds (main threads) of one move of the mouse over the first figure on screen that has numbers or a canvas."""
    for frame in page.frames[1:]:
        boxes = [box for one in frame.locator("[role=gridcell], canvas, svg").all()[:40] if (box := one.bounding_box())]
        boxes = [box for box in boxes if box["width"] > 4 and 0 < box["y"] < 900]
        if boxes:
            break
    else:
        return None
    box = boxes[0]
    points = [(box["x"] + box["width"] * (0.2 + 0.6 * k / MOVES), box["y"] + box["height"] / 2) for k in range(MOVES)]
    page.wait_for_timeout(500)
    idle = cpu(tools)["main"]
    page.wait_for_timeout(MOVES * 60)
    before = cpu(tools)["main"]
    for x, y in points:
        page.mouse.move(x, y)
        page.wait_for_timeout(60)
    after = cpu(tools)["main"]
    return 1000 * ((after - before) - (before - idle)) / MOVES


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one visit, nothing saved")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the table")
    settings = parser.parse_args()
    from playwright.sync_api import sync_playwright

    from equiscope.cli.book import pages
    from equiscope.explore import book

    chromium = os.environ.get("EQUISCOPE_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        site = book.write_folder(Path(folder) / "site", pages(" ".join(book.WORDS)))
        chapter, frames = first(site)
        (site / "empty.html").write_text("<!doctype html><title>nothing</title>" + EMPTY * frames)
        server, visits, empty = served(site), [], []
        address = f"http://127.0.0.1:{server.server_port}/"
        for _ in range(1 if settings.quick else settings.repeat):
            empty.append(visit(playwright, chromium, f"{address}empty.html")["cpu_s"])
            visits.append(visit(playwright, chromium, f"{address}#{chapter}", chapter))
        server.shutdown()
        urls = {url.removeprefix(address).split("#")[0] for one in visits for url in one["files"]}
        files = sorted(url.split("?")[0] or "index.html" for url in urls)
        sizes = {name: len(gzip.compress((site / name).read_bytes(), 6)) for name in files if (site / name).is_file()}
    results = {
        "date": datetime.date.today().isoformat(), "machine": machine(), "goals": GOALS,
        "versions": versions("playwright") | {"chromium": visits[0]["chromium"]}, "chapter": chapter, "gzip_bytes": sizes,
        "cpu_s": [one["cpu_s"] for one in visits], "empty_cpu_s": empty,
        "hover_ms": [one["hover_ms"] for one in visits if one["hover_ms"] is not None],
    }  # fmt: skip
    text = table(results)
    print(text)
    if not settings.quick:
        save("book", results, text, settings.out)


def first(site):
    """The first chapter, and the number of figures up to its end."""
    text = (site / "index.html").read_text(encoding="utf-8")
    chapters = re.findall(r'<section class="chapter" id="([^"]+)"', text)
    return chapters[0], text[: text.index(f'id="{chapters[1]}"')].count("<equiscope-figure ")


def table(results):
    def spread(values, digits=2):
        return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})" if values else "–"

    rows = [f"| {name} | {size / 1000:.1f} |" for name, size in results["gzip_bytes"].items()]
    total = sum(results["gzip_bytes"].values())
    cpu_s = [difference(empty, spent) for spent, empty in zip(results["cpu_s"], results["empty_cpu_s"], strict=True)]
    return "\n".join([
        f"# The book's first chapter ({results['chapter']})", "",
        f"{results['date']}, {results['machine']['cpu']}, Chromium {results['versions']['chromium']}, "
        f"{len(cpu_s)} visits: median (smallest to largest).", "",
        "| | goal | measured |", "| --- | --- | --- |",
        f"| kB gzip until its figures answer | {GOALS['bytes'] / 1000:.0f} | {total / 1000:.1f} |",
        f"| CPU-s until then, without an empty page | {GOALS['cpu_s']} | {spread([one['main'] for one in cpu_s])} |",
        f"| the same, all threads | | {spread([one['all'] for one in cpu_s])} |",
        f"| CPU-ms of one move of the mouse over a figure | {GOALS['hover_ms']} | {spread(results['hover_ms'], 1)} |", "",
        "| file | kB gzip |", "| --- | --- |", *rows,
    ])  # fmt: skip


if __name__ == "__main__":
    main()
