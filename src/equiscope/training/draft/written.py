"""Written: a draft as the text of a recipe, with what was understood above it and a remark behind a field."""

import json
import re
from typing import Any

from equiscope.training.draft.draft import RecipeDraft

WIDE = 110  # signs of a line that holds a table


def toml(draft: RecipeDraft, budget: str) -> str:
    """The recipe's file. budget: a remark about the time."""
    lines = [f"# {sentence}" for sentence in (*draft.understood, *draft.warnings)]
    data = draft.recipe()
    lines += [f"title = {value_text(data.pop('title'))}"]
    comments = draft.comments | {"budget.steps": budget}
    for name, table in data.items():
        lines += ["", *_table(name, table, comments)]
    return "\n".join(lines) + "\n"


def _table(path: str, table: dict[str, Any], comments: dict[str, str]) -> list[str]:
    """A table: its plain fields, then the tables that do not fit into a line."""
    own, inner = [_commented(f"[{path}]", comments.get(path, ""))], list[str]()
    for name, value in table.items():
        field, line = f"{path}.{name}", f"{name} = {value_text(value)}"
        if isinstance(value, dict) and len(line) > WIDE:
            inner += ["", *_table(field, value, comments)]
        else:
            own.append(_commented(line, comments.get(field, "")))
    return own + inner


def _commented(line: str, comment: str) -> str:
    return f"{line}  # {comment}" if comment else line


def value_text(value: Any) -> str:
    """A value of TOML, in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {value_text(one)}" for name, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(value_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)
