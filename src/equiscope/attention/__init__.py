"""Attention: the only room that turns scores into weights."""

from equiscope.attention.cache import Cache
from equiscope.attention.heads import MultiHeadAttention
from equiscope.attention.mask import MASKS, Blocks, Causal, Dilated, Edges, Everything, Mask, Prefix, Window
from equiscope.attention.plan import Plan
from equiscope.attention.scores import SCORES, Additive, Concat, Dot, General, ScaledDot, Score, look_up, scaled_dot, score_split
from equiscope.attention.weigh import WEIGHTS, Sigmoid, Softmax, Weigh

__all__ = [
    "MASKS",
    "SCORES",
    "WEIGHTS",
    "Additive",
    "Blocks",
    "Cache",
    "Causal",
    "Concat",
    "Dilated",
    "Dot",
    "Edges",
    "Everything",
    "General",
    "Mask",
    "MultiHeadAttention",
    "Plan",
    "Prefix",
    "ScaledDot",
    "Score",
    "Sigmoid",
    "Softmax",
    "Weigh",
    "Window",
    "look_up",
    "scaled_dot",
    "score_split",
]
