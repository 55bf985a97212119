"""The tokenizer of a checkpoint folder, for the commands that read and write texts."""

from pathlib import Path
from typing import Any

from equiscope.tokens import Tokenizer
from equiscope.tokens.tokenizer import FILE as TOKENIZER


def tokenizer(folder: Path) -> Any | None:
    """A `tokenizers.Tokenizer`; None where the folder has none. Raises InputError where its file is no tokenizer."""
    path = folder / TOKENIZER
    return Tokenizer.read(path).inner if path.exists() else None
