"""See: an interactive page in one file. It shows records and computes no maths of its own."""

from equiscope.explore.page import html, write
from equiscope.explore.pages.drawing import drawing
from equiscope.explore.pages.report import report_page, write_report
from equiscope.explore.pages.run import Live, following, run_page, write_run_page
from equiscope.explore.pages.words import LIMIT, Choice, explorable

__all__ = [
    "LIMIT",
    "Choice",
    "Live",
    "drawing",
    "explorable",
    "following",
    "html",
    "report_page",
    "run_page",
    "write",
    "write_report",
    "write_run_page",
]
