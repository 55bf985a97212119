"""Small mistakes in the package, drawn by a seed: which expression, which mistake, and the source with all of them in it.

One idea: a mistake is an expression in a function's body and another one in its place. `planted` writes both down,
`planted_fault(n, lambda: mistaken, lambda: original)`, so that one copy of the package serves the original and every mistake.
"""

import ast
import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOMS: dict[str, tuple[int, tuple[str, ...]]] = {  # how many mistakes, and where
    "positions": (10, ("positions/*.py",)),
    "attention": (10, ("attention/*.py",)),
    "caches": (8, ("attention/cache.py", "attention/static.py", "models/decoding.py")),
    "audit": (10, ("audit/**/*.py",)),
    "operations": (8, ("program/operations.py", "functional.py")),
    "checkpoints": (7, ("checkpoints/*.py",)),
    "training loop": (7, tuple(f"training/{name}.py" for name in ("loop", "engine", "optimiser", "muon", "state"))),
}

COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
            ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}  # fmt: skip
COUNTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv,
           ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}  # fmt: skip
UNMOVABLE = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr, ast.Starred)  # a lambda would change what these do


@dataclass(frozen=True)
class Fault:
    """A mistake: which file, the bytes of the expression there, and what stands in its place."""

    number: int
    room: str
    file: str
    line: int
    kind: str
    start: int
    stop: int
    original: str
    mistaken: str


def drawn(package: Path, seed: int = 0) -> list[Fault]:
    """The same faults for the same source and seed: in each room every kind in turn, never two in one expression."""
    chance, faults = random.Random(seed), []
    taken: dict[str, list[tuple[int, int]]] = {}
    for room, (count, patterns) in ROOMS.items():
        files = sorted({file for pattern in patterns for file in package.glob(pattern)})
        kinds: dict[str, list[Fault]] = {}
        for file in files:
            for fault in possible(file, package, room):
                kinds.setdefault(fault.kind, []).append(fault)
        for candidates in kinds.values():
            chance.shuffle(candidates)
        order = sorted(kinds)
        chance.shuffle(order)
        picked: list[Fault] = []
        while len(picked) < count:
            for kind in order:
                free = (f for f in kinds[kind] if all(f.stop <= a or b <= f.start for a, b in taken.get(f.file, [])))
                if len(picked) < count and (fault := next(free, None)):
                    taken.setdefault(fault.file, []).append((fault.start, fault.stop))
                    picked.append(fault)
        faults += picked
    return [Fault(**{**vars(fault), "number": number}) for number, fault in enumerate(faults)]


def carried(package: Path) -> list[Fault]:
    """The faults of drawn.json in this source: each at the expression with its text that is nearest to its line.

    raises  ValueError where the source has no such expression: then drawn.json needs the expression's new text
    """
    faults = []
    for entry in json.loads((Path(__file__).parent / "drawn.json").read_text(encoding="utf-8")):
        source = (package / entry["file"]).read_bytes()
        found = [node for node in spans(source) if source[node[1] : node[2]].decode() == entry["original"]]
        if not found:
            raise ValueError(f"Fault {entry['number']}: {entry['file']} has no expression {entry['original']!r}.")
        line, start, stop, _ = min(found, key=lambda node: abs(node[0] - entry["line"]))
        faults.append(Fault(**entry | {"line": line}, start=start, stop=stop))
    return faults


def possible(file: Path, package: Path, room: str) -> Iterator[Fault]:
    """Every mistake that this file could have."""
    source = file.read_bytes()
    for line, start, stop, node in spans(source):
        for kind, change in MISTAKES.items():
            if mistaken := change(node):
                yield Fault(-1, room, str(file.relative_to(package)), line, kind, start, stop,
                            source[start:stop].decode(), ast.unparse(mistaken))  # fmt: skip


def spans(source: bytes) -> Iterator[tuple[int, int, int, ast.expr]]:
    """Line, first byte and end of each expression that may be changed."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node in expressions(ast.parse(source)):
        yield (node.lineno, lines[node.lineno - 1] + node.col_offset,
               lines[node.end_lineno - 1] + node.end_col_offset, node)  # fmt: skip


def expressions(tree: ast.AST, inside: bool = False) -> Iterator[ast.expr]:
    """What is computed in the bodies of functions: no annotations, defaults, patterns, messages, nor what a lambda would change."""
    if isinstance(tree, (ast.Raise, ast.Assert, ast.JoinedStr, ast.pattern)):
        return
    if isinstance(tree, ast.expr) and inside and not any(_stays(part) for part in ast.walk(tree)):
        yield tree
    if isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for part in tree.body:
            yield from expressions(part, True)
    elif isinstance(tree, ast.ClassDef):
        for part in tree.body:
            yield from expressions(part, False)
    elif isinstance(tree, ast.AnnAssign):
        if tree.value:
            yield from expressions(tree.value, inside)
    else:
        for part in ast.iter_child_nodes(tree):
            yield from expressions(part, inside)


def _stays(node: ast.AST) -> bool:
    return isinstance(node, UNMOVABLE) or (isinstance(node, ast.Name) and node.id in {"super", "locals"})


# ------------------------------------------------------------------------------------------------------- the mistakes


def _comparison(node: ast.expr) -> ast.expr | None:
    if not (isinstance(node, ast.Compare) and len(node.ops) == 1):
        return None
    return ast.Compare(node.left, [COMPARED[type(node.ops[0])]()], node.comparators)


def _operator(node: ast.expr) -> ast.expr | None:
    if not (isinstance(node, ast.BinOp) and type(node.op) in COUNTED) or _is_text(node.left) or _is_text(node.right):
        return None
    return ast.BinOp(node.left, COUNTED[type(node.op)](), node.right)


def _connective(node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.BoolOp):
        return None
    return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def _sign(node: ast.expr) -> ast.expr | None:
    """-x and not x become x; constants are left to off-by-one."""
    dropped = isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not, ast.Invert))
    return node.operand if dropped and not isinstance(node.operand, ast.Constant) else None


def _dropped_term(node: ast.expr) -> ast.expr | None:
    summed = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div))
    return node.left if summed and not _is_text(node.left) and not _is_text(node.right) else None


def _off_by_one(node: ast.expr) -> ast.expr | None:
    """The bound of a slice: [:n] becomes [:n + 1], [n:] [n + 1:]."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Slice)):
        return None
    bound = "upper" if node.slice.upper else "lower" if node.slice.lower else None
    if not bound:
        return None
    other = copy.deepcopy(node)
    setattr(other.slice, bound, ast.BinOp(getattr(other.slice, bound), ast.Add(), ast.Constant(1)))
    return other


def _axis(node: ast.expr) -> ast.expr | None:
    """A negative number among the arguments of a call, an axis: -1 becomes -2, any other -1."""
    if not isinstance(node, ast.Call):
        return None
    other = copy.deepcopy(node)
    for part in [*other.args, *(keyword.value for keyword in other.keywords)]:
        negative = isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub) and isinstance(part.operand, ast.Constant)
        if negative and isinstance(part.operand.value, int):
            part.operand.value = 2 if part.operand.value == 1 else 1
            return other
    return None


def _swapped(node: ast.expr) -> ast.expr | None:
    """The first two arguments of a call, where neither is a literal."""
    named = isinstance(node, ast.Call) and len(node.args) >= 2 and not any(isinstance(a, ast.Constant) for a in node.args[:2])
    if not named or (isinstance(node.func, ast.Name) and node.func.id in {"isinstance", "getattr", "hasattr", "cast"}):
        return None
    other = copy.deepcopy(node)
    other.args[:2] = other.args[1::-1]
    return other


def _flag(node: ast.expr) -> ast.expr | None:
    """A True or False given by name becomes the other; not zip's strict, which is an assertion."""
    if not isinstance(node, ast.Call):
        return None
    other = copy.deepcopy(node)
    for keyword in other.keywords:
        if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool) and keyword.arg != "strict":
            keyword.value.value = not keyword.value.value
            return other
    return None


def _number(node: ast.expr) -> ast.expr | None:
    """A whole number in a formula or comparison becomes the next one."""
    if isinstance(node, ast.BinOp):
        sides = ("right", "left")
    elif isinstance(node, ast.Compare):
        sides = ("left",)
    else:
        return None
    other = copy.deepcopy(node)
    parts = [getattr(other, side) for side in sides] + (other.comparators[:1] if isinstance(other, ast.Compare) else [])
    for part in parts:
        if isinstance(part, ast.Constant) and type(part.value) is int:
            part.value += 1
            return other
    return None


def _branches(node: ast.expr) -> ast.expr | None:
    return ast.IfExp(node.test, node.orelse, node.body) if isinstance(node, ast.IfExp) else None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


MISTAKES: dict[str, Callable[[ast.expr], ast.expr | None]] = {
    "comparison": _comparison, "operator": _operator, "and/or": _connective, "sign": _sign, "dropped term": _dropped_term,
    "off by one": _off_by_one, "axis": _axis, "swapped arguments": _swapped, "flag": _flag, "swapped branches": _branches,
    "number": _number,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- planting


def plant(package: Path, faults: list[Fault]) -> None:
    """Write all faults into this copy of the package, asleep until EQUISCOPE_FAULT wakes one of them."""
    for name in sorted({fault.file for fault in faults}):
        file = package / name
        source = file.read_bytes()
        for fault in sorted((f for f in faults if f.file == name), key=lambda f: -f.start):
            assert source[fault.start : fault.stop].decode() == fault.original, fault
            both = f"planted_fault({fault.number}, lambda: ({fault.mistaken}), lambda: ({fault.original}))"
            source = source[: fault.start] + both.encode() + source[fault.stop :]
        file.write_bytes(_with_import(source))
    (package.parent / "planted.py").write_bytes((Path(__file__).parent / "planted.py").read_bytes())


def _with_import(source: bytes) -> bytes:
    """Beside the first import that is none from the future, so that no line changes its number."""
    tree = ast.parse(source)
    first = next(n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) and getattr(n, "module", "") != "__future__")
    lines = source.splitlines(keepends=True)
    lines[first.lineno - 1] = b"from planted import planted_fault; " + lines[first.lineno - 1]
    return b"".join(lines)
