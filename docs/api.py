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
    return _page("equiscope", list(TOP), "")


def room_page(room: str) -> str:
    module = importlib.import_module(f"equiscope.{room}")
    names = public(module)
    elsewhere = [name for name in names if HOMES[name] != f"equiscope.{room}.{name}" and _of(HOMES[name]) is getattr(module, name)]
    here = [name for name in names if name not in elsewhere]
    links = ", ".join(f"{{py:obj}}`{name} <{HOMES[name]}>`" for name in elsewhere)
    return _page(f"equiscope.{room}", here, f"Documented elsewhere: {links}.\n\n" if links else "")


def _page(module: str, names: list[str], note: str) -> str:
    blocks = "".join(f"```{{eval-rst}}\n.. {_directive(module, name)}\n```\n\n" for name in names)
    return f"# {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n   :no-members:\n```\n\n{note}{blocks}"


def _directive(module: str, name: str) -> str:
    value = _of(f"{module}.{name}")
    if isinstance(value, type):
        return f"autoclass:: {module}.{name}\n   :members:"
    if isinstance(value, ModuleType):
        return f"automodule:: {module}.{name}\n   :no-index:"
    kind = "autofunction" if callable(value) and hasattr(value, "__name__") else "autodata"
    return f"{kind}:: {module}.{name}" + ("\n   :no-value:" if kind == "autodata" else "")


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
    """The names in a list of parts: of classes that are public links, else what each is called."""
    names = [getattr(one, "__name__", None) or str(getattr(one, "name", one)) for one in value]
    return ", ".join(_code(name) for name in names)


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
