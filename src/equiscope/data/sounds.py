"""Sounds: recordings and their classes."""

from msgspec import Struct


class Sounds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sounds", tag_field="task"):
    """..."""

    train: str
