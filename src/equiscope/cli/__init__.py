"""The command line: one file a verb. Exit 0 fine, 1 a check failed, 2 wrong use; a person's mistake gives no traceback."""

import sys

from equiscope.errors import EquiscopeError


def main() -> None:
    """Entry point `equiscope`."""
    from equiscope.cli.app import app

    try:
        app()
    except EquiscopeError as error:
        print(f"equiscope: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of a pipe went away, e.g. `| head`
        sys.stderr.close()
        sys.exit(0)
