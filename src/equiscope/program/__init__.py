"""The program of any module: every number of one call and the operation that computed it, captured from outside."""

from equiscope.program.capture import watch
from equiscope.program.program import Leaf, Program, ProgramRun, ReplayDiverged, Step

__all__ = ["Leaf", "Program", "ProgramRun", "ReplayDiverged", "Step", "watch"]
