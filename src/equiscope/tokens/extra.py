"""Optional packages, imported where they are used."""

from importlib import import_module
from typing import Any

from equiscope.errors import InputError


def needed(package: str, extra: str, what: str, otherwise: str = "") -> Any:
    """Import a package of an extra. Raises InputError with the install command and an alternative."""
    try:
        return import_module(package)
    except ImportError as error:
        install = f"pip install -e '.[{extra}]' in the clone" + (otherwise and f"; or {otherwise}")
        raise InputError(f"{what} needs the package {package}. Install it: {install}.") from error
