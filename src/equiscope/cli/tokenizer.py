"""The tokenizer of a checkpoint folder, for the commands that read and write texts."""

from pathlib import Path
from typing import Any

from equiscope.errors import InputError
from equiscope.tokens import Tokenizer
from equiscope.tokens.tokenizer import FILE as TOKENIZER

OTHERS = (  # of tokenizers in other formats
    "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "source.spm", "vocab.txt", "vocab.json", "merges.txt",
)  # fmt: skip


def tokenizer(folder: Path) -> Any | None:
    """A `tokenizers.Tokenizer`; None where the folder has none. Raises InputError where its file is no tokenizer."""
    path = folder / TOKENIZER
    return Tokenizer.read(path).inner if path.exists() else None


def no_tokenizer(folder: Path, ids: str) -> InputError:
    """The error for a folder without a tokenizer.json, which says how to make one of the files that are there.

    ids  how ids are given instead
    """
    there = next((name for name in OTHERS if (folder / name).is_file()), None)
    if there is None:
        return InputError(f"{folder} has no {TOKENIZER}, which turns a text into ids. Add it, or {ids}.")
    return InputError(
        f'{folder} has {there}, but no {TOKENIZER}, which turns a text into ids here. Make it: python -c "from transformers import '
        f'AutoTokenizer; AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"; or {ids}.'
    )
