"""The command line: one file a verb. Exit 0 fine, 1 a check failed, 2 wrong use; a person's mistake gives no traceback.

Where the reader of a pipe goes away (`| head`), typer ends quietly with 1.
"""

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
