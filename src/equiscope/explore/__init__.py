"""Explore: interactive pages, served, in a notebook or as one file. They show records; what they compute comes from a program."""

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
