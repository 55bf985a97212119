"""Every attention of a model on one input: queries, keys, values, mask and bias, and the weights recomputed from them."""

from equiscope.program.attended.attended import Attended, attended

__all__ = ["Attended", "attended"]
