"""Figures: a page in another document, by the element `<equiscope-figure>`.

The script `equiscope-figure.js` defines the element; it needs nothing else and makes no network requests. The page is a file beside
the document, or compressed data in the document itself.
"""

import re
from html import escape, unescape
from pathlib import Path

from equiscope.errors import InputError
from equiscope.explore import page

SCRIPT = "equiscope-figure.js"
LINK = 'data-link=""'  # in every page: where its script reads the state, if it has no address
TITLE = re.compile(r"<title>(.*) - equiscope</title>")


def tag(src: str, title: str, state: str = "", part: str = "", id: str = "") -> str:
    """The element of a figure.

    src    address of the page, relative to the document
    title  accessible name of the figure
    state  the initial state, as in the page's link
    part   names of the parts to show, with spaces between them; by default all
    id     for links and exercises that refer to the figure
    """
    fields = {"id": id, "src": src, "state": state, "part": part, "title": title}
    written = " ".join(f'{name}="{escape(value)}"' for name, value in fields.items() if value)
    return f"<equiscope-figure {written}>\n</equiscope-figure>\n"


def embedded(file: str | Path, title: str = "", state: str = "", part: str = "", id: str = "") -> str:
    """Markup with everything in it: the script, the page and the element, for a document without files beside it.

    file    a page that this package wrote; the others as in `tag`, with the page's title and name by default
    raises  InputError where the file is no such page
    """
    path = Path(file)
    text, found = read(path)
    return (
        f"<script>{page.inlined(script())}</script>\n"
        + data(path.name, text)
        + tag(path.name, title or found, state, part, id or name_of(path))
    )


def script() -> str:
    """The text of the script: ASCII, for documents of any encoding."""
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in page.bundled("figure.js"))


def data(src: str, text: str) -> str:
    """A page as an element, compressed; figures with this `src` show it."""
    return f'<script type="application/octet-stream" data-figure="{escape(src)}">{page.packed(text.encode())}</script>\n'


def read(path: Path) -> tuple[str, str]:
    """The text and the title of a page that this package wrote.

    raises  InputError where the file is no such page
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a page. Give a file that `equiscope explore ... --export` wrote.") from error
    title = TITLE.search(text[:10_000])
    if title is None or LINK not in text:
        raise InputError(f"{path} is no page of this version of equiscope. Write it again, with `equiscope explore ... --export`.")
    return text, unescape(title[1])


def name_of(path: Path) -> str:
    """An id for a figure of this file."""
    return re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "figure"
