"""The parts of a transformer layer around attention: norms, residual connections, feed-forward networks, dropout."""

from equiscope.blocks.block import TransformerBlock
from equiscope.blocks.drop import DropPath, drop
from equiscope.blocks.feedforward import FeedForwardNetwork
from equiscope.blocks.norm import NormLayer, norm

__all__ = ["DropPath", "FeedForwardNetwork", "NormLayer", "TransformerBlock", "drop", "norm"]
