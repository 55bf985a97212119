"""`equiscope explore`: trace a sentence under every position scheme, and show the page."""

import sys
import webbrowser
from pathlib import Path

import msgspec

from equiscope import explore
from equiscope.explore.server import server


def run(
    sentence: str, export: Path | None, position: str, width: int, heads: int, causal: bool, seed: int, port: int,
    open_browser: bool, json: bool,
) -> None:  # fmt: skip
    content = explore.explorable(explore.Choice(sentence, position, width, heads, causal, seed))
    if json:
        sys.stdout.write(msgspec.json.encode(content).decode() + "\n")
        return
    for note in content.notes:
        print(f"note: {note}", file=sys.stderr)
    if export is not None:
        path = explore.write(content, export)
        print(f"wrote {path} ({path.stat().st_size / 1000:.0f} kB, one file, works offline)")
        return
    serve(explore.html(content), port, open_browser)


def serve(page: str, port: int, open_browser: bool) -> None:
    """Serve until Ctrl-C."""
    with server(page, port) as running:
        url = f"http://127.0.0.1:{running.server_address[1]}/"
        print(f"equiscope shows the page at {url}  (Ctrl-C ends)", flush=True)
        if open_browser and not _opened(url):
            print("No browser could be opened here: open the address above yourself.", flush=True)
        try:
            running.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            print("\nThe page has ended.")


def _opened(url: str) -> bool:
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
