"""From a program to a record that a page can run."""

from equiscope.program.lower.record import lowered

__all__ = ["lowered"]
