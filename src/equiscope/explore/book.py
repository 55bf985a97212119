"""The book: prose and live figures in one page, served, as one offline file, or as a folder that any server can host.

The build of the page (web/chapters.ts) makes its text from docs/learn. A figure is a page of this package in a sandboxed frame. The
book as one file carries these pages, compressed, each once; elsewhere they are files of their own, in `figures/`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

import msgspec

from equiscope import __version__, outputs
from equiscope.explore import figure, page

WORDS = ("Love", "conquers", "all")  # of which the text speaks
FOLDER = "figures"
POLICY = f"{page.POLICY}; worker-src blob:; frame-src 'self'"  # a frame in one file inherits it: what any of the figures may do
TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="generator" content="equiscope {version}">
<title>{title} - equiscope</title>
<style>{style}</style>
<noscript><style>#contents {{ display: block; position: static; width: auto }} #text {{ margin: 0 }}</style></noscript>
</head>
<body>
<a class="skip" href="#text">Skip to the text</a>
<header id="bar"></header>
<main>
<noscript><p>The figures of this book compute in your browser, so they need JavaScript. The text does not.</p></noscript>
{text}</main>
<footer>equiscope {version}. Every figure computes in your browser, from programs that were recorded from real models. This page
works offline and sends nothing anywhere.</footer>
<script type="application/json" id="words">{words}</script>
{embedded}<script>{book}</script>
<script>{figure}</script>
</body>
</html>
"""
Pages = Mapping[str, Callable[[], str]]  # a figure's page by its name, made when it is asked for


def figure_names(bundles: Path = page.BUNDLES) -> list[str]:
    """Names of the pages that figures of the text show, in their order."""
    found = re.findall(rf'<equiscope-figure\b[^>]*\ssrc="{FOLDER}/([a-z]+)\.html"', _text(bundles))
    return list(dict.fromkeys(found))


def html(
    words: Sequence[str] = WORDS, docs: str | None = None, embedded: Mapping[str, str] | None = None, bundles: Path = page.BUNDLES
) -> str:  # fmt: skip
    """The page of the book as text.

    words     with which figures of a sentence begin
    docs      address of the folder that holds the other pages of the docs; None: they are not there, so links name their files
    embedded  pages of figures by name, which become a part of this page; without them a figure asks for `figures/NAME.html`
    raises    InputError where the bundle was not built with the package
    """
    text = _text(bundles)
    heading = re.search(r"<h1[^>]*>(.*?)</h1>", text)
    packed = "".join(figure.data(f"{FOLDER}/{name}.html", content) for name, content in (embedded or {}).items())
    script = {name: page.inlined(page.bundled(f"{name}.js", bundles)) for name in ("book", "figure")}
    return TEMPLATE.format(
        policy=POLICY, version=__version__, title=heading[1] if heading else "The book",
        style=page.bundled("book.css", bundles), text=_linked(text, docs), embedded=packed, **script,
        words=msgspec.json.encode({"own": list(words), "text": list(WORDS)}).decode().replace("<", "\\u003c"),
    )  # fmt: skip


def _text(bundles: Path) -> str:
    return page.bundled("book.html", bundles)


def _linked(text: str, docs: str | None) -> str:
    """Links to other pages of the docs, which the build writes relative to docs/learn."""

    def link(found: re.Match[str]) -> str:
        name, href, words = found.groups()
        if docs is None:
            return f'<span class="elsewhere">{words} <span class="path">({name})</span></span>'
        return f'<a class="elsewhere" href="{escape(docs)}{href.removeprefix("../")}">{words}</a>'

    return re.sub(r'<a class="elsewhere" data-page="([^"]*)" href="([^"]*)">(.*?)</a>', link, text, flags=re.DOTALL)


def write_file(path: Path, pages: Pages, words: Sequence[str] = WORDS) -> Path:
    """Write the book as one file that works offline. Raises Unwritable where that is not possible."""
    return outputs.write(path, html(words, embedded={name: pages[name]() for name in figure_names()}))


def write_folder(folder: Path, pages: Pages, words: Sequence[str] = WORDS, docs: str | None = None) -> Path:
    """Write the book as a static site: index.html, the pages of its figures, and the script that shows a figure elsewhere.

    docs    as in `html`
    raises  Unwritable where that is not possible
    """
    outputs.make_folder(folder / FOLDER)
    outputs.write(folder / figure.SCRIPT, figure.script())
    for name in figure_names():
        outputs.write(folder / FOLDER / f"{name}.html", pages[name]())
    return outputs.write(folder / "index.html", html(words, docs)).parent
