"""Where in a model's source code a number was made: the variable that it was assigned to, and the text of the expression.

Read from outside, from the frame that called torch. `gap = i - j` is called "gap"; what `return i - j` made has the name that its
caller in the model gives it. Code without a file (`exec`, a REPL) has no source, and its numbers no such names.
"""

import ast
import linecache
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

LONGEST = 80  # characters of an expression
TORCH = str(Path(torch.__file__).parent)
OWN = Path(__file__).parent
THROUGH = {*(str(file) for file in OWN.glob("*.py") if file.stem != "composites")} | {
    f"{TORCH}/{file}.py" for file in ("nn/modules/module", "overrides", "_tensor", "nn/functional")
}
WATCHER = (str(OWN / "capture.py"), "watch")
Span = tuple[int | None, int | None, int | None, int | None]


@dataclass(frozen=True)
class SourceLocation:
    """name: of the variable, or nothing; text: of the expression; file and line: where it stands."""

    name: str = ""
    text: str = ""
    file: str = ""
    line: int = 0


NOWHERE = SourceLocation()


@dataclass(frozen=True)
class _Expression:
    source: SourceLocation
    returned: bool


def here() -> SourceLocation:
    """Of the call of torch that runs now."""
    frame = _next(sys._getframe(1))
    location, torchs = None, NOWHERE
    while frame is not None:
        one = _expression(frame.f_code, frame.f_lasti)
        if one is None:
            break
        if frame.f_code.co_filename.startswith(TORCH):
            torchs = torchs if torchs.text else one.source
        elif location is None:
            location = one.source
        if not one.returned:
            if location is None or frame.f_code.co_filename.startswith(TORCH):
                return location or SourceLocation("", torchs.text, torchs.file, torchs.line)
            return SourceLocation(one.source.name, location.text, location.file, location.line)
        frame = _next(frame.f_back)
    return location or SourceLocation("", torchs.text, torchs.file, torchs.line)


def _next(frame: FrameType | None) -> FrameType | None:
    """The nearest frame of the model that is neither the watcher's nor the machinery of torch's modules.

    None where the watcher called the model: the variables of its caller name no number of the model.
    """
    while frame is not None and _is_machinery(frame.f_code.co_filename):
        if (frame.f_code.co_filename, frame.f_code.co_name) == WATCHER:
            return None
        frame = frame.f_back
    return frame


@cache
def _is_machinery(file: str) -> bool:
    """What is made by a decorator has no file of its own; checkers of types wrap functions in theirs."""
    return file in THROUGH or file.startswith("<") or bool({"jaxtyping", "beartype", "shape_checks.py"} & set(Path(file).parts))


@cache
def _expression(code: CodeType, instruction: int) -> _Expression | None:
    spans = list(code.co_positions())
    span: Span = spans[instruction // 2]
    nodes = _nodes(code.co_filename).get(span)
    if nodes is None:
        return None
    node, parents = nodes
    text = _text(code.co_filename, node)
    name, returned = _assigned(node, parents)
    return _Expression(SourceLocation(name, text, code.co_filename, span[0] or 0), returned)


@cache
def _nodes(file: str) -> dict[Span, tuple[ast.AST, tuple[ast.AST, ...]]]:
    """Expressions of a file by where they stand, each with what it stands in, innermost first."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return {}
    nodes: dict[Span, tuple[ast.AST, tuple[ast.AST, ...]]] = {}
    todo: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(tree, ())]
    while todo:
        node, parents = todo.pop()
        if isinstance(node, (ast.expr, ast.AugAssign)):
            span = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
            nodes.setdefault(span, (node, parents))
        todo += [(child, (node, *parents[:3])) for child in ast.iter_child_nodes(node)]
    return nodes


def _text(file: str, node: Any) -> str:
    """Of an expression, on one line; columns count bytes."""
    lines = [line.encode() for line in linecache.getlines(file)[node.lineno - 1 : node.end_lineno]]
    lines[-1] = lines[-1][: node.end_col_offset]
    lines[0] = lines[0][node.col_offset :]
    text = " ".join(b"".join(lines).decode(errors="replace").split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _assigned(node: ast.AST, parents: tuple[ast.AST, ...]) -> tuple[str, bool]:
    """The variable that an expression is assigned to, and whether it is what a function returns."""
    if isinstance(node, ast.AugAssign):
        return _variable(node.target), False
    child = node
    for parent in parents:
        match parent:
            case ast.IfExp() if child is not parent.test:
                child = parent
                continue
            case ast.NamedExpr():
                return _variable(parent.target), False
            case ast.Assign(targets=[target]) if child is parent.value:
                return _variable(target), False
            case ast.AnnAssign():
                return _variable(parent.target), False
            case ast.Tuple():
                return _of_tuple(child, parent, parents), False
            case ast.Return():
                return "", True
        break
    return "", False


def _of_tuple(child: ast.AST, values: ast.Tuple, parents: tuple[ast.AST, ...]) -> str:
    """The variable of one value in `a, b = one, other`."""
    for parent in parents:
        if isinstance(parent, ast.Assign) and parent.value is values and len(parent.targets) == 1:
            targets = parent.targets[0]
            if isinstance(targets, ast.Tuple) and len(targets.elts) == len(values.elts):
                return _variable(targets.elts[values.elts.index(child)])  # type: ignore[arg-type]
    return ""


def _variable(target: ast.AST) -> str:
    return target.id if isinstance(target, ast.Name) else ""
