"""Words that this project does not use: `python docs/words.py` prints each with its file and line; exit code 1 if there is one.

Names of modules, classes, functions, fields and options are the field's terms, and a class name stands once in the package.
Sentences of docstrings, comments, messages, docs and pages are plain English. A pattern here is a turn of speech, never an ordinary
word: what stands in `TURNS` has confused readers; what replaces it stands beside it.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "equiscope"
TEXTS = (
    "src/**/*.py",
    "tests/**/*.py",
    "docs/**/*.md",
    "docs/*.py",
    "benchmarks/*.py",
    "recipes/*.md",
    "*.md",
    "web/src/**/*.ts",
    "web/src/**/*.css",
)

TURNS = {
    r"\bput together again\b": "recomputed",
    r"\bwhat is said at\b": "the output at",
    r"\bturn(s|ed|ing)? along\b": "rotate with",
    r"\bhardly choose": "attend almost uniformly",
    r"\b(is|are|was|were|be) told\b(?! apart)": "gets, is given",
    r"\btold apart\b": "distinguished; no significant difference",
    r"\btells? (\w+ )?apart\b": "distinguishes",
    r"\bthose of these that\b": "which of these",
    r"\bwhat is for\b": "what it is for",
    r"\banew\b": "again",
    r"\bthe last answer alone\b": "only the last output",
    r"\bno more is lost than\b": "the error does not exceed",
    r"\banybody's\b": "any model",
    r"\bcarried home\b": "value heads",
    r"\b(unless|where nothing is|as) said\b": "by default",
    r"\b(may|can|could|must not|cannot) look\b": "may attend",
    r"\bwho (may )?looks?\b": "who attends",
    r"\blook(s|ed)? (ahead|back|across)\b(?! (at|in) )": "attends to",
    r"\bwhat (the |a )?(model|layer|head|token|row)s? (looks?|looked) at\b": "attends to",
    r"\bby (their|its) places?\b": "position",
    r"\bplaces? (of|in) (the|a) (text|sentence|sequence|row of tokens)\b": "position",
    r"\b(tells?|knows?) (of )?places?\b": "positions",
    r"\bwhat (it|that|this) is asks where\b": "content to position",
    r"\bsays? (the )?next\b": "predicts the next",
    r"\bturns? (queries|keys|pairs|vectors)\b": "rotates",
    r"\b(queries|keys|pairs|vectors) (are |is )?turned\b": "rotated",
    r"\bwritten down\b": "recorded",
    r"\bso many (tokens|steps|rows|heads|layers|pieces|files|samples|numbers|words)\b": "this many, n",
    r"\bno (more )?than by rounding\b": "does not exceed rounding",
    r"\bgolden traces?\b": "golden programs",
}
"""A turn of speech, as a pattern, and what to write instead."""

NAMES = {
    "place": "position", "places": "positions", "turned": "rotated", "weigh": "normalize", "looked": "attended",
    "asked": "request", "asking": "request", "saying": "report", "told": "the noun of what it is", "said": "the noun of what it is",
    "found": "the noun of what it is", "made": "the noun of what it is", "known": "the noun of what it is",
    "kept": "the noun of what it is", "hides": "mask", "horizon": "window", "blind": "mask", "undropped": "no_dropout",
    "heard": "listeners", "voices": "readers", "rolled": "rollout", "miniature": "toy_model", "plainly": "baseline_atoms",
    "twice": "rdrop", "levelled": "calibrated", "begun": "init", "settle": "resolve", "settled": "resolved",
    "inward": "up_proj", "outward": "down_proj", "arrows": "vectors", "carried": "value heads", "anew": "again",
    "across": "cross", "again": "rerun", "beside": "side_by_side", "apart": "the noun of what it is", "tape": "program",
    "narrow": "the noun of what it is", "shown": "the noun of what it is",
}  # fmt: skip
"""A word of a name, and the field's term. Names that others gave are in `FOREIGN`."""

FOREIGN = {"connection_made", "in_place"}
ERRORS = {"found", "known"}  # what an error object holds, in errors.py


def main() -> int:
    lines = [*turns(), *names(), *doubled()]
    print(*lines, f"{len(lines)} found" if lines else "None of them is used.", sep="\n")
    return int(bool(lines))


def turns() -> Iterator[str]:
    """Each turn of speech in a text of the project."""
    files = sorted({path for pattern in TEXTS for path in ROOT.glob(pattern)} - {Path(__file__).resolve()})
    patterns = [(re.compile(pattern, re.IGNORECASE), word) for pattern, word in TURNS.items()]
    for path in files:
        if "explore/page/" in path.as_posix() or "_build" in path.parts:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for pattern, word in patterns:
                if match := pattern.search(line):
                    yield f"{path.relative_to(ROOT)}:{number}: {match[0]!r}: write {word!r}"


def names() -> Iterator[str]:
    """Each name of the package with a word of `NAMES`: of modules, classes, functions, their parameters, and fields."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for name, line in [(path.stem, 0), *defined(ast.parse(path.read_text(encoding="utf-8")))]:
            words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
            if name not in FOREIGN | (ERRORS if path.name == "errors.py" else set()) and (
                wrong := next((word for word in words if word in NAMES), None)
            ):
                yield f"{path.relative_to(ROOT)}:{line}: {name}: say {NAMES[wrong]!r}, not {wrong!r}"


def defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Names of classes, functions, parameters and fields, with their lines; those of functions in functions are their own."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                yield child.name, child.lineno
                stack.append(child)
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child.name, child.lineno
                arguments = child.args
                for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                    yield argument.arg, argument.lineno
            elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name) and isinstance(node, ast.ClassDef):
                yield child.target.id, child.lineno
            elif isinstance(child, ast.If | ast.With | ast.Try):
                stack.append(child)


def doubled() -> Iterator[str]:
    """Class names that two modules of the package define."""
    modules = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    for name, places in modules.items():
        if len(places) > 1:
            yield f"{places[0]}: class {name} is also in {', '.join(places[1:])}"


if __name__ == "__main__":
    sys.exit(main())
