"""The errors that equiscope raises for its users.

Each message states what was requested, what was found, and the next step. A bug in equiscope raises an `AssertionError` instead.
An error is an object: code reads its fields; the sentence for people is composed when it is printed.
"""

from collections.abc import Sequence


class EquiscopeError(Exception):
    """Base of all errors below; the command line prints its sentence and exits with code 2."""


class ShapeError(EquiscopeError, ValueError):
    """A tensor, a width or a length does not fit."""


class InputError(EquiscopeError, ValueError):
    """A value is outside what a part can take."""


class UnknownName(EquiscopeError, ValueError):
    """A name is not in a list.

    kind   of object that was requested; found: the name
    known  the valid names; hint: the next step, before the list
    """

    def __init__(self, kind: str, found: object, known: Sequence[str], hint: str = "") -> None:
        super().__init__(kind, found, known, hint)
        self.kind, self.found, self.known, self.hint = kind, found, list(known), hint

    def __str__(self) -> str:
        sentences = [f"There is no {self.kind} called {short_repr(self.found)}.", self.hint, f"Known: {', '.join(self.known)}."]
        return " ".join(filter(None, sentences))


class UnknownField(UnknownName):
    """A table has an unknown field. path: of the table, such as `spec.block`."""

    def __init__(self, path: str, found: object, known: Sequence[str], hint: str = "") -> None:
        super().__init__(f"field of {path}", found, known, hint)
        self.args = (path, found, known, hint)
        self.path = path


class WrongValue(InputError):
    """A field has an invalid value.

    path  of the field, such as `spec.block.attention.heads`; found: the value
    why   the value is invalid, as the end of a sentence
    """

    def __init__(self, path: str, found: object, why: str) -> None:
        super().__init__(path, found, why)
        self.path, self.found, self.why = path, found, why.rstrip(".")

    def __str__(self) -> str:
        return f"{self.path} cannot be {short_repr(self.found)}: {self.why}."


class OverBudget(InputError):
    """A file exceeds the size that is read, or a pipe is silent for too long."""


class Unwritable(InputError):
    """An output cannot be written.

    path  as it was given; why: the system's message, as the end of a sentence; hint: the next step
    """

    def __init__(self, path: object, why: str, hint: str = "Choose another file.") -> None:
        super().__init__(path, why, hint)
        self.path, self.why, self.hint = path, why.rstrip("."), hint

    def __str__(self) -> str:
        return f"{printable(self.path)} cannot be written: {self.why}. {self.hint}"


def short_repr(value: object, longest: int = 200) -> str:
    """The `repr` of a value for messages, truncated."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a whole number of thousands of digits; brackets within brackets
        text = f"a {type(value).__name__} that is too large to print"
    return text if len(text) <= longest else f"{text[:longest]}…"


def printable(value: object, longest: int = 300) -> str:
    """A name for messages: invalid bytes are escaped, and a very long name is truncated."""
    text = str(value).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) <= longest else f"{text[:longest]}…"


def reason(error: BaseException) -> str:
    """The system's message: "No space left on device"."""
    return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")
