"""The page: template, style, script and data in one file that makes no network requests."""

import base64
import html as escape
import zlib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import msgspec

from equiscope import outputs
from equiscope.errors import InputError
from equiscope.record import (
    Attribution,
    Comparison,
    Cost,
    Drawing,
    EvaluationRecord,
    Explorable,
    Heads,
    Masks,
    Messages,
    Molecule,
    Parity,
    Patches,
    ProgramRecord,
    Reach,
    Report,
    RunReport,
    Tokenised,
)

Content = (
    Explorable | Drawing | Report | RunReport | Comparison | Heads | Masks | Messages | Cost | Tokenised | Molecule | Patches
    | Reach | ProgramRecord | Parity | Attribution | EvaluationRecord
)  # fmt: skip

BUNDLES = Path(__file__).parent / "page"
NAMES: dict[type, str] = {  # of the bundle, which is that of the file in `pages` that writes the record, where one does
    Explorable: "sentence", Drawing: "drawing", Report: "report", RunReport: "run", Comparison: "compare", Heads: "heads",
    Masks: "masks", Messages: "graph", Cost: "cost", Tokenised: "tokens", Molecule: "molecule",
    Patches: "image", Reach: "reach", ProgramRecord: "watched", Parity: "parity",
    Attribution: "attribution", EvaluationRecord: "evaluation",
}  # fmt: skip
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "base-uri 'none'; form-action 'none'"
)
# Pages with tables for browsers without JavaScript:
TABLES = (Report, RunReport, Comparison, Masks, Messages, Cost, Molecule, Patches, Reach, Parity, Attribution, EvaluationRecord)
WORKS: dict[type, str] = {Molecule: f"{POLICY}; worker-src blob:"}  # pages that compute in a worker
TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="generator" content="equiscope {version}">
<title>{title} - equiscope</title>
<script data-link="{link}">{frame}</script>
{style}</head>
<body>
{links}<div id="app"></div>
<noscript>{plain}</noscript>
<script type="application/octet-stream" id="{kind}">{data}</script>
{script}</body>
</html>
"""
OPENER = """(async () => {
  const bytes = Uint8Array.from(atob(document.getElementById("bundle").textContent), (letter) => letter.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  for (const kind of ["style", "script"]) {
    const made = document.createElement(kind);
    made.textContent = text[kind];
    document.head.append(made);
  }
})().catch((error) => {
  const why = `This page could not be unpacked (${error.message}). It needs a browser of 2023 or newer.`;
  document.getElementById("app").textContent = why;
});"""
PLAIN = "This page computes every number in your browser, so it needs JavaScript. It makes no network requests."


def html(
    content: Content, bare: str | None = None, policy: str | None = None, small: bool = False, bundles: Path = BUNDLES,
    link: str = "", links: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """The page as text. Raises InputError where the bundle was not built with the package.

    bare     markup for a browser without JavaScript, whose texts are escaped; by default `plain`
    policy   what the page may request: nothing, unless it is served
    small    style and script are compressed like the data; the source of the page is then not readable
    bundles  folder of the styles and scripts
    link     the initial state where the page stands in a frame without an address
    links    addresses of other pages, by their names: "masks"; where there are none, the page names the commands that make them
    """
    from equiscope import __version__

    script, style = (bundled(f"{NAMES[type(content)]}.{kind}", bundles) for kind in ("js", "css"))
    fields = {
        "policy": policy or WORKS.get(type(content), POLICY), "version": __version__,
        "plain": plain(content) if bare is None else bare,
        "title": escape.escape(content.title),
        "kind": type(content).__name__.lower(),  # of the record, which the script looks for
        "data": pack(content), "link": escape.escape(link), "frame": inlined(bundled("frame.js", bundles)),
        "links": _links(links or {}),
    }  # fmt: skip
    if small:
        both = msgspec.json.encode({"style": style, "script": script})
        bundle = f'<script type="application/octet-stream" id="bundle">{packed(both)}</script>\n'
        return TEMPLATE.format(**fields, style="", script=f"{bundle}<script>{OPENER}</script>\n")
    return TEMPLATE.format(**fields, style=f"<style>{style}</style>\n", script=f"<script>{inlined(script)}</script>\n")


def inlined(script: str) -> str:
    """A script as the content of an element, which its own text cannot end."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _links(links: Mapping[str, str]) -> str:
    """The addresses of other pages, for the bar of this one; empty where there are none."""
    if not links:
        return ""
    text = msgspec.json.encode([{"page": name, "href": href} for name, href in links.items()]).decode().replace("<", r"\u003c")
    return f'<script type="application/json" id="links">{text}</script>\n'


def pack(content: Content) -> str:
    """The record as base64 of gzipped JSON: letters, digits, + / = only, so no word of a sentence can end the element."""
    return packed(msgspec.json.encode(content))


def packed(text: bytes) -> str:
    """Text as gzip in base64, by the shorter of two deflate streams: in random numbers, matches of short repetitions only cost."""
    candidates = []
    for strategy, memory in ((zlib.Z_DEFAULT_STRATEGY, zlib.DEF_MEM_LEVEL), (zlib.Z_FILTERED, 9)):
        deflate = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS, memory, strategy)  # 16: in gzip's frame, without a time
        candidates.append(deflate.compress(text) + deflate.flush())
    return base64.b64encode(min(candidates, key=len)).decode("ascii")


def write(content: Content, path: Path, small: bool = False) -> Path:
    """Write the page to a file, whole or not at all. small: as in `html`.

    raises  Unwritable where the folder does not exist or cannot be written
    """
    return outputs.write(path, html(content, small=small))


def plain(content: Content) -> str:
    """Markup for a browser without JavaScript: tables, for pages that have them."""
    if type(content) not in TABLES:
        return PLAIN
    text: str = import_module(f"equiscope.explore.pages.{NAMES[type(content)]}").plain(content)
    return text


def table(title: str, heads: list[str], rows: list[list[str]]) -> str:
    """An HTML table for a browser without JavaScript; texts are escaped. Empty if there are no rows."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape.escape(name)}</th>' for name in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{escape.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<h2>{escape.escape(title)}</h2>\n<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>\n"


def number(value: float | None) -> str:
    """A number in such a table."""
    return "" if value is None else f"{value:.6g}"


def bundled(name: str, folder: Path = BUNDLES) -> str:
    """The text of a file that the web build made. Raises InputError where the page was not built."""
    try:
        return (folder / name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(
            "This installation has no page bundle. From a clone run `python3 run.py setup`, which builds it."
        ) from error
