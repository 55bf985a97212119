"""A Sphinx extension: the pages of reference/api, one for each room, from the package's public names and docstrings.

Public is what `equiscope` and the `__init__` of each room export. What has a name in `equiscope` is documented there, once.
"""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import equiscope

FOLDER = Path(__file__).parent / "reference" / "api"
TOP, ROOMS = tuple(equiscope._NAMES), tuple(equiscope._ROOMS)
ENTRY = re.compile(r"(?P<key>[\w*.`\[\]]+(?:, [\w*.`\[\]]+)*) {2,}(?P<text>\S.*)")
NOTE = re.compile(r"(?P<key>returns|raises) +(?P<text>\S.*)")
TOPICS = {
    "Check": ("check", "Audit", "parity", "Parity", "guard"),
    "See": ("watch", "Program", "show", "export"),
    "Build": (
        "build", "describe", "Spec", "InputLayer", "Block", "Attention", "FeedForward", "Norm", "OutputLayer", "PointSpec",
        "Tokens", "load", "save", "generate",
    ),
    "Train and compare": ("train", "evaluate", "predict", "compare", "Run"),
}  # fmt: skip
INDEX = """# Python API

These pages are generated from the docstrings. `import equiscope as eq` gives the names of the first page, and the other modules.

| module | subject |
| --- | --- |
{rows}
```{{toctree}}
:hidden:

{toctree}
```
"""
BOUNDED = re.compile(r"(?:~?typing\.)?Annotated\[([^\[\]]+), msgspec\.Meta\([^()]*\)\]")
SPAN = re.compile(r"`[^`\n]+(?:\n *[^`\n]+)?`")  # of code, perhaps over two lines
NAME = re.compile(r"[A-Za-z_][\w.]*")


def public(module: ModuleType) -> list[str]:
    """The names that a room exports; of a module without `__all__`, those that it defines."""
    if names := getattr(module, "__all__", None):
        return list(names)
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    return [name for name, value in own.items() if name[0] != "_" and (inspect.isclass(value) or inspect.isroutine(value))]


def homes() -> dict[str, str]:
    """Where each public name is documented: `Spec` is `equiscope.Spec`, `Causal` is `equiscope.attention.Causal`."""
    found = {name: f"equiscope.{name}" for name in TOP}
    for room in ROOMS:
        for name in public(importlib.import_module(f"equiscope.{room}")):
            found.setdefault(name, f"equiscope.{room}.{name}")
    return found


HOMES = homes()


# -------------------------------------------------------------------------------------------------------------- the pages


def write_pages(*_: Any) -> None:
    FOLDER.mkdir(exist_ok=True)
    pages = {"equiscope": top_page(), **{room: room_page(room) for room in ROOMS}}
    rows = "".join(f"| [{_title(name)}]({name}.md) | {_summary(name)} |\n" for name in pages)
    pages["index"] = INDEX.format(rows=rows, toctree="\n".join(pages))
    for name, text in pages.items():
        file = FOLDER / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:  # else Sphinx reads it again
            file.write_text(text, encoding="utf-8")
    for file in FOLDER.glob("*.md"):
        if file.stem not in pages:
            file.unlink()


def top_page() -> str:
    rest = [name for name in TOP if not any(name in names for names in TOPICS.values())]
    return _page("equiscope", {**TOPICS, "Other": rest}, "")


def room_page(room: str) -> str:
    module = importlib.import_module(f"equiscope.{room}")
    names = public(module)
    elsewhere = [name for name in names if HOMES[name] != f"equiscope.{room}.{name}" and _of(HOMES[name]) is getattr(module, name)]
    groups: dict[str, list[str]] = {"Classes": [], "Functions": [], "Lists": [], "Modules": []}
    for name in (name for name in names if name not in elsewhere):
        groups[_group(getattr(module, name))].append(name)
    links = ", ".join(f"{{py:obj}}`{name} <{HOMES[name]}>`" for name in elsewhere)
    return _page(f"equiscope.{room}", groups, f"Documented elsewhere: {links}.\n\n" if links else "")


def _page(module: str, groups: dict[str, Any], note: str) -> str:
    text = f"# {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n   :no-members:\n```\n\n{note}"
    for heading, names in groups.items():
        if names:
            rows = "".join(f"| {{py:obj}}`{name} <{module}.{name}>` | {_first(_of(f'{module}.{name}'))} |\n" for name in names)
            blocks = "".join(f"```{{eval-rst}}\n.. {_directive(module, name)}\n```\n\n" for name in names)
            table = "" if heading == "Lists" else f"| name | |\n| --- | --- |\n{rows}\n"
            text += f"## {heading}\n\n{table}{blocks}"
    return text


def _first(value: Any) -> str:
    """The first sentence of a docstring, as Markdown."""
    paragraph = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[.?]) (?=[A-Z])", paragraph)[0].replace("|", "\\|").replace("*", "\\*").replace("[", "\\[")


def _group(value: Any) -> str:
    if isinstance(value, ModuleType):
        return "Modules"
    if isinstance(value, type):
        return "Classes"
    return "Functions" if inspect.isroutine(value) else "Lists"


def _directive(module: str, name: str) -> str:
    directive = {
        "Classes": f"autoclass:: {module}.{name}\n   :members:",
        "Functions": f"autofunction:: {module}.{name}",
        "Lists": f"autodata:: {module}.{name}\n   :no-value:",
        "Modules": f"automodule:: {module}.{name}\n   :no-index:",
    }
    return directive[_group(_of(f"{module}.{name}"))]


def _of(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _title(name: str) -> str:
    return "equiscope" if name == "equiscope" else f"equiscope.{name}"


def _summary(name: str) -> str:
    module = equiscope if name == "equiscope" else importlib.import_module(f"equiscope.{name}")
    return (module.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


# --------------------------------------------------------------------------------------------------------- the docstrings


def to_rst(_app: Any, what: str, _name: str, value: object, _options: Any, lines: list[str]) -> None:
    """For autodoc: docstrings of this package are plain text with columns, not reStructuredText."""
    lines[:] = [contents(value), ""] if what == "data" and isinstance(value, (tuple, dict)) else convert(lines)


def to_short(_app: Any, what: str, _name: str, _obj: object, _options: Any, signature: str | None, returns: str | None) -> tuple:
    """Signatures without bounds of numbers, and with defaults that Sphinx can parse, so that it links their types."""
    if what == "class" and signature == "(*args: ~typing.Any, **kwargs: ~typing.Any)":  # nothing of its own
        return "()", returns
    return signature and BOUNDED.sub(r"\1", signature).replace("<factory>", "..."), returns


def contents(value: tuple | dict) -> str:
    """The names in a list of parts: links for public classes."""
    return ", ".join(_code(one.__name__) if isinstance(one, type) else f"``{getattr(one, 'name', one)}``" for one in value)


def convert(lines: list[str]) -> list[str]:
    """Columns `name    meaning` become definition lists, indented blocks stay as they are, names in backticks become links."""
    rst: list[str] = []
    state = "text"  # or "entries", or "block"
    for line in SPAN.sub(lambda span: " ".join(span[0].split()), "\n".join(lines)).split("\n"):
        indent = len(line) - len(line.lstrip())
        entry = (ENTRY.fullmatch(line) or NOTE.fullmatch(line)) if not indent else None
        if not line.strip():
            rst.append("")
            state = "text" if state == "entries" else state
        elif entry:
            if state != "entries":
                rst.append("")
            rst += [_term(entry["key"]), f"    {inline(entry['text'])}"]
            state = "entries"
        elif indent and state == "entries":
            rst += [""] * line.lstrip().startswith('"')  # one of several values
            rst.append(f"    {inline(line.strip())}")
        elif indent or line.startswith(">>>"):
            if state != "block":
                rst += ["", "::", ""]
            rst.append(f"    {line}")
            state = "block"
        else:
            if state != "text":
                rst.append("")
            rst.append(inline(line))
            state = "text"
    return [*rst, ""]


def _term(key: str) -> str:
    return key.capitalize() if key in {"returns", "raises"} else ", ".join(f"``{word.strip('`')}``" for word in key.split(", "))


def inline(text: str) -> str:
    """One line: what is in backticks is code, and a link where it is a public name; the rest is taken as it is."""
    parts = re.split(r"`+([^`]+)`+", text)
    return "".join(_code(part) if i % 2 else re.sub(r"([\\*|_`])", r"\\\1", part) for i, part in enumerate(parts))


def _code(text: str) -> str:
    if not NAME.fullmatch(text):
        return f"\\ ``{text.strip()}``\\ "
    first, dot, rest = text.removeprefix("eq.").removeprefix("equiscope.").partition(".")
    return f"\\ :py:obj:`{text} <{HOMES[first]}{dot}{rest}>`\\ " if first in HOMES else f"\\ ``{text}``\\ "


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", to_rst)
    app.connect("autodoc-process-signature", to_short)
    return {"parallel_read_safe": True}
