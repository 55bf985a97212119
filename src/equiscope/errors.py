"""The errors that equiscope raises for the people who use it.

Each message says what was asked, what was found, and the next step. A bug of ours is an `AssertionError` instead.
"""


class EquiscopeError(Exception):
    """Root of all errors below; the command line turns it into one sentence and exit code 2."""


class ShapeError(EquiscopeError, ValueError):
    """A tensor, a width or a length does not fit."""


class UnknownName(EquiscopeError, ValueError):
    """A name is not in a list; the message lists the known ones."""

    def __init__(self, kind: str, name: object, known: list[str]) -> None:
        super().__init__(f"There is no {kind} called {name!r}. Known: {', '.join(known)}.")


class InputError(EquiscopeError, ValueError):
    """A value is outside what a part can take."""
