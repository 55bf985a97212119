"""Every attention of a model on one input, taken apart: queries, keys, values, and what the weights are made of."""

from equiscope.program.attended.attended import Attended, attended

__all__ = ["Attended", "attended"]
