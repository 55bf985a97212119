"""Sphinx extension: the book and its figures beside the built pages.

The chapters in `learn/` are pages of the docs too. Their figures need `equiscope-figure.js` in `_static/` and
`figures/*.html` beside them. The book itself, the same text as one page, goes to `book/`.
"""

import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from equiscope.cli.book import pages
from equiscope.explore import book, figure

WORDS = " ".join(book.WORDS)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_js_file(figure.SCRIPT)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}


def write(app: Sphinx, error: Exception | None) -> None:
    """The book and the figures, after the pages, which it links to."""
    if error is not None or app.builder.format != "html":
        return
    site = book.write_folder(Path(app.outdir) / "book", pages(WORDS, "../index.html"), docs="../")
    shutil.copytree(site / book.FOLDER, Path(app.outdir) / "learn" / book.FOLDER, dirs_exist_ok=True)
    shutil.copy(site / figure.SCRIPT, Path(app.outdir) / "_static" / figure.SCRIPT)
