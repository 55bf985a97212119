"""See: an interactive page in one file. It shows records and computes no maths of its own."""

from equiscope.explore.page import html, write
from equiscope.explore.pages.drawing import drawing
from equiscope.explore.pages.run import Live, following
from equiscope.explore.pages.sentence import LIMIT, Choice, explorable

__all__ = [
    "LIMIT",
    "Choice",
    "Live",
    "drawing",
    "explorable",
    "following",
    "html",
    "write",
]
