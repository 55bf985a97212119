"""Judges that take seconds to import: they are imported at their first use, so collecting the tests needs none of them."""

from importlib import import_module
from typing import Any


class AtFirstUse:
    """A module by name; each attribute is read from the imported module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


transformers: Any = AtFirstUse("transformers")
