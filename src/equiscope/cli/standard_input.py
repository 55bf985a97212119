"""Text from standard input."""

import sys

from equiscope import budgets
from equiscope.errors import InputError


def read_standard_input(what: str, how: str) -> str:
    """The text of standard input. Raises InputError where it is empty or not UTF-8.

    what  name of the missing input, for the error; how: an example command
    """
    try:
        content = sys.stdin.buffer.read(budgets.SETTINGS + 1)
        if len(content) > budgets.SETTINGS:
            raise budgets.OverBudget(f"More than {budgets.size(budgets.SETTINGS)} are piped in, which are read at most. Give less.")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"What is piped in is not UTF-8: {error.reason} at byte {error.start}. Convert it: iconv -t UTF-8."
        ) from error
    if not text:
        raise InputError(f"Nothing is piped in. Give {what}, or pipe it in: {how}.")
    return text
