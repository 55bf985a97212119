"""What stands around attention: norm, residual, feed-forward, and their order."""

from equiscope.blocks.block import Block
from equiscope.blocks.drop import KEPT, Dropout, Skip, drop
from equiscope.blocks.feedforward import FeedForward
from equiscope.blocks.norm import Norm, norm

__all__ = ["KEPT", "Block", "Dropout", "FeedForward", "Norm", "Skip", "drop", "norm"]
