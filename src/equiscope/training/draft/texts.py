"""Texts: a model that continues them."""

from pathlib import Path
from typing import Any

from equiscope.data.split_folders import part_folders
from equiscope.data.texts import TABLES, files, is_text_file, kind_of, stretches
from equiscope.errors import InputError, counted
from equiscope.training.draft.draft import RecipeDraft, title_of

READ = 2_000_000  # characters that are looked at, at most
CHARACTERS = 3_000_000  # of a text: from here on pieces, which are learned from it, say more in fewer tokens


def of_files(path: Path, field: str = "text") -> RecipeDraft:
    """Plain text: one file, a folder, or a column of a table."""
    parts = part_folders(path, is_text_file, False) if path.is_dir() else {}
    paths = files([parts["train"] if parts else path])
    size, signs, empty = 0, set[str](), 0
    for stretch in stretches(paths, field, None):
        if size < READ:
            signs.update(stretch)
            empty += stretch.count("\n\n")
        size += len(stretch)
    if size < 2000:
        raise InputError(f"{path} has {counted(size, 'character')} of text, but a model that writes needs 2,000 or more.")
    by_character = size < CHARACTERS and len(signs) < 300
    context = 64 if size < 30_000 else 128
    data: dict[str, Any] = {
        "task": "language", "train": str(path), **({"field": field} if field != "text" else {}), "context": context,
        "tokens": "characters" if by_character else "pieces",
    }  # fmt: skip
    understood = [
        f"{path} is text: {counted(size, 'character')} in {counted(len(paths), 'file')}, {counted(len(signs), 'different one')}."
    ]
    if not by_character:
        data["vocabulary"] = 4096 if size > 10_000_000 else 2048
    if parts:
        understood.append(f"The folders {', '.join(folder.name for folder in parts.values())} are the parts, and are kept.")
    else:
        data["held_out"] = 0.1
        understood.append("The last tenth chooses the weights: it is not learned from.")
    if path.is_file() and kind_of(path.name) in TABLES:
        understood.append(f"Each row of the column {field} is a document; an empty line stands between two.")
    elif empty > size // 5000:
        understood.append("Empty lines separate its paragraphs or documents.")
    width, layers = (64, 2) if size < 200_000 else (128, 4) if size < 5_000_000 else (256, 4)
    model = {
        "width": width, "layers": layers, "block": {"attention": {"heads": 4, "position": "rope", "causal": True}},
        **({"dropout": 0.1} if size < 500_000 else {}),
    }  # fmt: skip
    tokens = size if by_character else size // 4
    comments = {
        "data.tokens": "of few texts, characters" if by_character else "byte pairs, learned from the training part",
        "data.context": "tokens that are read at once",
        "model.block": "causal: no token reads a later one; the rotations see distances",
    }
    start = next(stretches(paths, field, None)).strip().split("\n")[0][:30].strip() or "The"
    warnings = ["So little text is learned by heart: stop at the best validation loss."] if size < 30_000 else []
    return RecipeDraft(
        title_of(path), data, model, max(1, tokens // context), 20 if size < 2_000_000 else 3, 16, understood, warnings=warnings,
        comments=comments, example=[start],
    )  # fmt: skip
