"""Open one page in a fresh headless Chromium and print its cost, one JSON line per stage.

Standalone on purpose: the caller runs it as its own process with a time limit, and keeps the stages that were printed before the
limit passed or the tab died.

    python browser.py '{"page": "page.html", "chromium": "chromium", "libraries": null, "hover": "canvas"}'

Every duration is CPU time of the page's main thread (DevTools `TaskDuration` in thread ticks), so a busy machine has little
influence on it. It excludes raster and compositing, which run on other threads; `process_s` includes all threads of the page's
process.
"""

import json
import pathlib
import re
import statistics
import sys
import time

from playwright.sync_api import Error, sync_playwright

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MOVES = 20
PATIENCE = 40  # seconds for all moves together

# Resolves once ten ticks of 50 ms in a row came on time: no task of 50 ms or more for half a second.
QUIET = """() => new Promise(done => {
  let due = performance.now() + 50, calm = 0
  const timer = setInterval(() => {
    const now = performance.now()
    calm = now - due > 50 ? 0 : calm + 1
    due = now + 50
    if (calm >= 10) { clearInterval(timer); done((now - 500) / 1000) }
  }, 50)
})"""

# Two frames, so that the change is on screen, and 100 ms for work that the page put off.
SETTLED = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 100))))"""

# Points to hover: the middles of `count` elements spread over those on screen, or, where there are
# fewer elements than that, points inside them that stay below the diagonal of a causal mask.
POINTS = """(elements, count) => {
  const area = e => e.getBoundingClientRect().width * e.getBoundingClientRect().height
  elements.find(e => area(e) > 4)?.scrollIntoView({block: 'center', behavior: 'instant'})
  const at = (e, across, down) => {
    const b = e.getBoundingClientRect(), x = b.left + across * b.width, y = b.top + down * b.height
    const hit = x >= 0 && y >= 0 && x < innerWidth && y < innerHeight && document.elementFromPoint(x, y)
    return hit && (e.ownerSVGElement ? e.parentNode : e).contains(hit) ? [x, y] : null
  }
  const pick = (list, k) => list[Math.floor((k + 0.5) / count * list.length)]
  const spread = list => list.length < count ? list : Array.from({length: count}, (_, k) => pick(list, k))
  const onScreen = b => b.bottom > 0 && b.top < innerHeight
  const inside = elements.filter(e => area(e) > 4 && onScreen(e.getBoundingClientRect()))
  const middles = inside.map(e => at(e, 0.5, 0.5)).filter(Boolean)
  if (middles.length >= count) return spread(middles)
  const parts = Array.from({length: 4 * count}, (_, k) => (k + 0.5) / (4 * count))
  return spread(parts.map((part, k) => at(inside[k % inside.length], 0.05 + 0.4 * part, 0.05 + 0.9 * part)).filter(Boolean))
}"""


class Tab:
    """One page of one browser, its requests and its DevTools counters."""

    def __init__(self, browser, libraries):
        self.page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.libraries = pathlib.Path(libraries) if libraries else None
        self.requests, self.blocked = [], []
        self.page.route(re.compile("^https?://"), self.serve)
        self.tools = self.page.context.new_cdp_session(self.page)
        self.tools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def serve(self, route):
        """Answer a request to the network from the folder of libraries, or refuse it."""
        url = route.request.url
        self.requests.append(url)
        local = self.libraries and self.libraries / url.split("?")[0].rsplit("/", 1)[-1]
        if local and local.is_file():
            route.fulfill(body=local.read_bytes(), content_type="text/javascript")
        else:
            self.blocked.append(url)
            route.abort()

    def counters(self):
        return {m["name"]: m["value"] for m in self.tools.send("Performance.getMetrics")["metrics"]}

    def open(self, url):
        """Load the page; returns wall-clock seconds until it is interactive."""
        self.page.goto(url, wait_until="load", timeout=0)  # the caller holds the time limit
        return self.page.evaluate(QUIET)

    def mouse(self, kind, point, **more):
        self.tools.send("Input.dispatchMouseEvent", {"type": kind, "x": point[0], "y": point[1], **more})

    def work(self, act):
        """Milliseconds of the main thread from before `act` until the page has settled."""
        before = self.counters()["TaskDuration"]
        act()
        self.page.evaluate(SETTLED)
        return 1000 * (self.counters()["TaskDuration"] - before)

    def work_of_each(self, acts):
        """Work of each act in turn, minus the work of an idle page."""
        self.work(lambda: None)
        idle = statistics.median(self.work(lambda: None) for _ in range(7))
        each, end = [], time.monotonic() + PATIENCE
        for act in acts:
            each.append(self.work(act) - idle)
            if time.monotonic() > end:  # a page that takes seconds a move: fewer moves tell as much
                break
        return {"ms": statistics.median(each), "worst_ms": max(each), "idle_ms": idle, "moves": len(each)}


def load(tab, url):
    seconds = tab.open(url)
    spent = tab.counters()
    return {
        "task_s": spent["TaskDuration"],
        "script_s": spent["ScriptDuration"],
        "process_s": spent["ProcessTime"],
        "wall_s": seconds,
        "nodes": spent["Nodes"],
        "heap_bytes": spent["JSHeapUsedSize"],
        "requests": len(tab.requests),
        "blocked": len(tab.blocked),
    }


def hover(tab, selector, click=None, ready=None):
    """Move the mouse over the elements of `selector`, after one click where the page needs it, once `ready` exists."""
    if click:
        tab.page.locator(click).first.click(timeout=0)
    if ready:
        tab.page.locator(ready).first.wait_for(timeout=0)
    points = tab.page.locator(selector).evaluate_all(POINTS, MOVES)
    if not points:
        return {"failed": f"nothing on screen matches {selector}"}
    work = tab.work_of_each([lambda at=at: tab.mouse("mouseMoved", at) for at in points])
    tab.tools.send("HeapProfiler.collectGarbage")  # nodes that were thrown away are none
    return work | {"nodes": tab.counters()["Nodes"]}


def drag(tab, selector):
    """Drag the first visible slider from a quarter to three quarters of its length."""
    slider = tab.page.locator(selector).locator("visible=true").first
    if not slider.count():
        return {"failed": f"nothing visible matches {selector}"}
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    path = [(box["x"] + box["width"] * (0.25 + 0.5 * k / MOVES), box["y"] + box["height"] / 2) for k in range(MOVES + 1)]
    tab.mouse("mouseMoved", path[0])
    tab.mouse("mousePressed", path[0], button="left", buttons=1, clickCount=1)
    work = tab.work_of_each([lambda at=at: tab.mouse("mouseMoved", at, button="left", buttons=1) for at in path[1:]])
    tab.mouse("mouseReleased", path[-1], button="left", clickCount=1)
    return work


def stages(browser, spec):
    """The stages in order, as (name, function without arguments)."""
    url = pathlib.Path(spec["page"]).resolve().as_uri()
    tab = Tab(browser, spec.get("libraries"))
    yield "load", lambda: load(tab, url)
    if spec.get("hover") and not tab.blocked:
        yield "hover", lambda: hover(tab, spec["hover"], spec.get("click"), spec.get("ready"))
    if spec.get("hover_first"):
        yield "hover_first", lambda: hover(tab, spec["hover_first"])
    if spec.get("drag"):
        second = Tab(browser, spec.get("libraries"))
        second.open(url + spec.get("drag_at", ""))
        yield "drag", lambda: drag(second, spec["drag"])


def main(spec):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=spec["chromium"], args=FLAGS)
        print(json.dumps({"stage": "start", "chromium": browser.version}), flush=True)
        for name, stage in stages(browser, spec):
            try:
                result = stage()
            except Error as error:  # the tab died, or the page refused
                result = {"failed": str(error).splitlines()[0].strip()}
            print(json.dumps({"stage": name, **result}), flush=True)
            if "failed" in result and name == "load":
                break
        browser.close()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
