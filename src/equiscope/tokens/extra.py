"""Packages that only some people need, asked for where they are used."""

from importlib import import_module
from typing import Any

from equiscope.errors import InputError


def needed(package: str, extra: str, what: str) -> Any:
    """A package of an extra, or an InputError that says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise InputError(f"{what} needs the package {package}. Install it: pip install 'equiscope[{extra}]'.") from error
