"""What stands around attention: norm, residual, feed-forward, and their order."""

from equiscope.blocks.block import Block
from equiscope.blocks.drop import Dropout, Skip, drop
from equiscope.blocks.feedforward import FeedForward
from equiscope.blocks.norm import Norm

__all__ = ["Block", "Dropout", "FeedForward", "Norm", "Skip", "drop"]
