"""The tokenizer of a checkpoint folder, for the commands that read and write texts."""

from pathlib import Path
from typing import Any

from equiscope.errors import InputError

TOKENIZER = "tokenizer.json"


def tokenizer(folder: Path) -> Any | None:
    """A `tokenizers.Tokenizer`; None where the folder has none. Raises InputError where its file is no tokenizer."""
    from tokenizers import Tokenizer

    path = folder / TOKENIZER
    if not path.exists():
        return None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise InputError(f"{path} is no tokenizer: {error}.") from error
