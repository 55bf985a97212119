"""Attention: the only room that turns scores into weights."""

from equiscope.attention.heads import MultiHeadAttention
from equiscope.attention.mask import Causal, Everything, Mask
from equiscope.attention.scores import look_up, scaled_dot, score_split

__all__ = ["Causal", "Everything", "Mask", "MultiHeadAttention", "look_up", "scaled_dot", "score_split"]
