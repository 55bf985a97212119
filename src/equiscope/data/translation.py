"""Translation: parallel lines become pairs of id lines."""

from msgspec import Struct


class Translation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="translation", tag_field="task"):
    """..."""

    train: str
