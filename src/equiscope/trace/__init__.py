"""Watch a model: every named number and the step that made it, as a program that can run again on other numbers."""

from equiscope.trace import ops
from equiscope.trace.attended import Attended, attended
from equiscope.trace.recorder import constant, recording
from equiscope.trace.replay import replay
from equiscope.trace.watch import watch

__all__ = ["Attended", "attended", "constant", "ops", "recording", "replay", "watch"]
