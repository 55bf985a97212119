"""See: an interactive page in one file. It shows records and computes no maths of its own."""

from equiscope.explore.drawing import drawing
from equiscope.explore.explorable import LIMIT, Choice, explorable
from equiscope.explore.page import html, write
from equiscope.explore.report import report_page, write_report

__all__ = ["LIMIT", "Choice", "drawing", "explorable", "html", "report_page", "write", "write_report"]
