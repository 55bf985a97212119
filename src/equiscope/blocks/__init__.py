"""What stands around attention: norm, residual, feed-forward, and their order."""

from equiscope.blocks.block import Block
from equiscope.blocks.drop import DropPath, drop
from equiscope.blocks.feedforward import FeedForward
from equiscope.blocks.norm import Norm, norm

__all__ = ["Block", "DropPath", "FeedForward", "Norm", "drop", "norm"]
