"""The errors that equiscope raises for the people who use it.

Each message says what was asked, what was found, and the next step. A bug of ours is an `AssertionError` instead.
An error is an object: code reads its fields, and only a person reads its sentence, which is made where it is printed.
"""

from collections.abc import Sequence


class EquiscopeError(Exception):
    """Root of all errors below; the command line turns it into one sentence and exit code 2."""


class ShapeError(EquiscopeError, ValueError):
    """A tensor, a width or a length does not fit."""


class InputError(EquiscopeError, ValueError):
    """A value is outside what a part can take."""


class UnknownName(EquiscopeError, ValueError):
    """A name is not in a list.

    kind   of thing that was asked for; found: the name
    known  the list; hint: the next step, before it
    """

    def __init__(self, kind: str, found: object, known: Sequence[str], hint: str = "") -> None:
        super().__init__(kind, found, known, hint)
        self.kind, self.found, self.known, self.hint = kind, found, list(known), hint

    def __str__(self) -> str:
        said = [f"There is no {self.kind} called {shown(self.found)}.", self.hint, f"Known: {', '.join(self.known)}."]
        return " ".join(filter(None, said))


class UnknownField(UnknownName):
    """A table has a field that its kind does not know. path: of the table, such as `spec.block`."""

    def __init__(self, path: str, found: object, known: Sequence[str], hint: str = "") -> None:
        super().__init__(f"field of {path}", found, known, hint)
        self.args = (path, found, known, hint)
        self.path = path


class WrongValue(InputError):
    """A field has a value that it cannot take.

    path  of the field, such as `spec.block.attention.heads`; found: the value
    why   it cannot be that, as the end of a sentence
    """

    def __init__(self, path: str, found: object, why: str) -> None:
        super().__init__(path, found, why)
        self.path, self.found, self.why = path, found, why.rstrip(".")

    def __str__(self) -> str:
        return f"{self.path} cannot be {shown(self.found)}: {self.why}."


class OverBudget(InputError):
    """A file holds more than is read, or a pipe gives nothing for too long."""


class Unwritable(InputError):
    """An output cannot be written.

    path  as it was asked for; why: what the system said, as the end of a sentence; hint: the next step
    """

    def __init__(self, path: object, why: str, hint: str = "Choose another file.") -> None:
        super().__init__(path, why, hint)
        self.path, self.why, self.hint = path, why.rstrip("."), hint

    def __str__(self) -> str:
        return f"{printable(self.path)} cannot be written: {self.why}. {self.hint}"


def shown(value: object, longest: int = 200) -> str:
    """A value as a message shows it: its `repr`, cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits; brackets within brackets
        text = f"a {type(value).__name__} that is too large to be shown"
    return text if len(text) <= longest else f"{text[:longest]}…"


def printable(value: object, longest: int = 300) -> str:
    """A name as a message shows it: bytes that are no text are escaped, and a very long name is cut."""
    text = str(value).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) <= longest else f"{text[:longest]}…"


def reason(error: BaseException) -> str:
    """Why the system refused, in its own words: "No space left on device"."""
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")
