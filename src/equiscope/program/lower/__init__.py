"""From a program to a record that a page can run."""

from equiscope.program.lower.record import lowered
from equiscope.program.lower.roles import Look, looks

__all__ = ["Look", "looks", "lowered"]
