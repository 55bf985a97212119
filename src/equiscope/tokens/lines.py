"""The lines of a text file, read one after another by somebody who can say where a mistake is."""

from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from equiscope.errors import InputError
from equiscope.tokens.elements import NUMBERS, SYMBOLS


class Lines:
    """A file's lines and the place in them; `number` is the line that was read last, counted from 1."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path = path
        self.lines = content.decode("utf-8", "replace").rstrip().splitlines()
        self.number = 0

    @property
    def left(self) -> bool:
        """Whether a line follows; empty ones at the end do not count."""
        return self.number < len(self.lines)

    def next(self, what: str) -> str:
        """The next line; what: what it should have been, for the message where the file ends."""
        if self.number >= len(self.lines):
            raise InputError(f"{self.path} ends after line {self.number}, where {what} should follow. The file is cut off.")
        self.number += 1
        return self.lines[self.number - 1]

    def fail(self, problem: str, line: int | None = None) -> NoReturn:
        """Raise InputError with file and line in front of the problem."""
        raise InputError(f"{self.path}, line {self.number if line is None else line}: {problem}")

    def floats(self, words: Sequence[str], count: int, what: str) -> list[float]:
        try:
            if len(words) == count:
                return [float(word) for word in words]
        except ValueError:
            pass
        self.fail(f"{what}: expected {count} number{'s' if count > 1 else ''}, but found {' '.join(words) or 'nothing'!r}.")

    def integer(self, word: str, what: str) -> int:
        try:
            return int(word)
        except ValueError:
            self.fail(f"expected {what}, a whole number, but found {word.strip()!r}.")

    def element(self, word: str) -> int:
        """An atomic number from a symbol in any case, or from the number itself."""
        number = int(word) if word.isdecimal() else NUMBERS.get(word.capitalize(), 0)
        if not 1 <= number <= len(SYMBOLS):
            self.fail(f"there is no element {word!r}.")
        return number
