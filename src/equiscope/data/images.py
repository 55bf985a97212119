"""Images: pictures and their classes."""

from msgspec import Struct


class Images(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="images", tag_field="task"):
    """..."""

    train: str
