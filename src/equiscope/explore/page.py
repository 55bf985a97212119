"""The page: template, style, script and data in one file that asks nothing of any network."""

import base64
import gzip
import html as escape
from pathlib import Path

import msgspec

from equiscope.errors import InputError
from equiscope.record import Comparison, Course, Drawing, Explorable, Heads, Report

Content = Explorable | Drawing | Report | Course | Comparison | Heads

BUNDLE = Path(__file__).parent / "page"
OWN: dict[type, str] = {
    Report: "report",
    Course: "run",
    Comparison: "compare",
    Heads: "heads",
}  # bundles of their own; others share one
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "base-uri 'none'; form-action 'none'"
)
TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="generator" content="equiscope {version}">
<title>{title} - equiscope</title>
<style>{style}</style>
</head>
<body>
<div id="app"></div>
<noscript>{plain}</noscript>
<script type="application/octet-stream" id="{kind}">{data}</script>
<script>{script}</script>
</body>
</html>
"""
PLAIN = "This page computes every number in your browser, so it needs JavaScript. It asks nothing of any network."


def html(content: Content, plain: str = PLAIN, policy: str = POLICY) -> str:
    """The page as text. Raises InputError where the bundle was not built with the package.

    plain   markup for a browser without JavaScript, whose texts are escaped
    policy  what the page may ask for: nothing, unless it is served and watches
    """
    from equiscope import __version__

    bundle = OWN.get(type(content), "page")
    script, style = (_bundled(f"{bundle}.{kind}") for kind in ("js", "css"))
    return TEMPLATE.format(
        policy=policy,
        version=__version__,
        title=escape.escape(content.title),
        kind=type(content).__name__.lower(),  # of the record, which the script looks for
        style=style,
        plain=plain,
        script=script.replace("</script", "<\\/script").replace("<!--", "<\\!--"),
        data=pack(content),
    )


def pack(content: Content) -> str:
    """The record as base64 of gzipped JSON: letters, digits, + / = only, so no word of a sentence can end the element."""
    return base64.b64encode(gzip.compress(msgspec.json.encode(content), compresslevel=9, mtime=0)).decode("ascii")


def write(content: Content, path: Path, plain: str = PLAIN) -> Path:
    """Write the page to a file, whole or not at all. Raises InputError where the folder does not exist or cannot be written."""
    if not path.name:
        raise InputError(f"{path} is a folder. Name a file with --export, e.g. --export love.html.")
    text = html(content, plain)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"The page cannot be written to {path}: {error.strerror}. Choose another file with --export.") from error
    return path


def table(title: str, heads: list[str], rows: list[list[str]]) -> str:
    """A table for a browser without JavaScript, its texts escaped; nothing where there are no rows."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape.escape(name)}</th>' for name in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{escape.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<h2>{escape.escape(title)}</h2>\n<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>\n"


def number(value: float | None) -> str:
    """A number in such a table."""
    return "" if value is None else f"{value:.6g}"


def _bundled(name: str) -> str:
    try:
        return (BUNDLE / name).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(
            "This installation has no page bundle. From a clone run `python3 run.py setup`, which builds it."
        ) from error
