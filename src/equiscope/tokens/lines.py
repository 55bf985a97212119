"""The lines of a text file, read one by one; errors name the file and line."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from equiscope.errors import InputError, counted, sentences
from equiscope.tokens.elements import NUMBERS, SYMBOLS


class Lines:
    """A file's lines and the current one; `number` is the line that was read last, counted from 1."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path = path
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):  # as some programs write "Unicode"
            raise InputError(f"{path} is UTF-16, and text files are UTF-8. Convert it: iconv -f UTF-16 -t UTF-8.")
        text = content.decode("utf-8-sig", "replace").rstrip()
        self.lines = re.split(r"\r\n|\n|\r", text) if text else []
        self.number = 0

    @property
    def left(self) -> bool:
        """Whether a line follows; empty lines at the end do not count."""
        return self.number < len(self.lines)

    def next(self, what: str) -> str:
        """The next line; what: the expected content, for the message if the file ends."""
        if self.number >= len(self.lines):
            raise InputError(f"{self.path} ends after line {self.number}, where {what} should follow. The file is cut off.")
        self.number += 1
        return self.lines[self.number - 1]

    def fail(self, problem: str, line: int | None = None) -> NoReturn:
        """Raise InputError with the file, the line and the problem."""
        raise InputError(sentences(f"{self.path}, line {self.number if line is None else line}: {problem}", "Correct the line."))

    def floats(self, words: Sequence[str], count: int, what: str, finite: bool = False) -> list[float]:
        """Parse `count` numbers; finite: raise for NaN and infinity, instead of leaving that to the caller."""
        numbers: list[float] = []
        if len(words) == count and "_" not in "".join(words):  # Python accepts underscores in numbers
            try:
                numbers = [float(word) for word in words]
            except ValueError:
                numbers = []
        if len(numbers) < count:
            content = " ".join(words)[:80] or "nothing"
            self.fail(f"{what}: expected {counted(count, 'number')}, but found {content!r}.")
        if finite and not all(map(math.isfinite, numbers)):
            self.fail(f"{what}: {' '.join(words)[:80]!r} is no position. Coordinates are finite numbers.")
        return numbers

    def integer(self, word: str, what: str) -> int:
        try:
            if "_" not in word:
                return int(word)
        except ValueError:
            pass
        self.fail(f"expected {what}, a whole number, but found {word.strip()[:80]!r}.")

    def element(self, word: str) -> int:
        """An atomic number from a symbol in any case, or from the number itself."""
        number = int(word) if word.isdecimal() and len(word) <= 3 else NUMBERS.get(word.capitalize(), 0)
        if not 1 <= number <= len(SYMBOLS):
            self.fail(f"there is no element {word[:80]!r}.")
        return number
