"""The command line: one file for each verb. Exit code 0: success, 1: a check failed, 2: wrong use, without a traceback.

A closed pipe (`| head`) ends it silently with 1.
"""

import errno
import os
import re
import sys
from contextlib import suppress

from equiscope.errors import EquiscopeError, GuardFailed, printable, reason

LONG = re.compile(r"(\S{300})\S+")  # very long names are shortened


def main() -> None:
    """Entry point `equiscope`."""
    from equiscope.cli.app import app

    _streams()
    try:
        for word in sys.argv[1:]:
            _is_text(word)
        try:
            app()
        finally:
            sys.stdout.flush()  # a full disk is an error here, not at the exit of Python
    except (EquiscopeError, MemoryError, RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            _ends(1)
        with suppress(OSError):
            print(f"equiscope: {_sentence(error)}", file=sys.stderr)
        _ends(1 if isinstance(error, GuardFailed) else 2)


def _sentence(error: BaseException) -> str:
    if isinstance(error, EquiscopeError):
        return LONG.sub(r"\1…", printable(error, 10_000))
    if isinstance(error, RecursionError):
        return "What was given is nested too deep to be read. Make it flat."
    if isinstance(error, MemoryError):
        return "There is not enough memory for this. Give a smaller input, or a smaller model."
    where = next((printable(name) for name in (getattr(error, "filename", None),) if name is not None), "Standard output")
    return f"{where} cannot be used: {reason(error)}. Give another, or put that right."


def _is_text(word: str) -> None:
    """Raise EquiscopeError for an argument that is not UTF-8: no record could hold it."""
    try:
        word.encode()
    except UnicodeEncodeError as error:
        raise EquiscopeError(
            f"{printable(word)} has bytes that are not UTF-8. Rename the file, or give it by another path."
        ) from error


def _streams() -> None:
    """Replace closed streams by the null device, and escape characters that the output cannot encode."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 as long as the process lives
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _ends(code: int) -> None:
    """Exit without flushing into a closed stream."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    sys.exit(code)
