"""Attention: the only room that turns scores into weights."""

from equiscope.attention.cache import Cache
from equiscope.attention.differential import DifferentialAttention
from equiscope.attention.graph import GraphAttention, edge_attention
from equiscope.attention.heads import Held, MultiHeadAttention
from equiscope.attention.kinds import KINDS, Kind
from equiscope.attention.kinds import make as of_kind
from equiscope.attention.linear import LinearAttention, Sums
from equiscope.attention.lowrank import Linformer, Nystrom
from equiscope.attention.mask import (
    MASKS,
    Blocks,
    Both,
    Causal,
    Dilated,
    Documents,
    Edges,
    Either,
    Everything,
    Mask,
    Opposite,
    Prefix,
    Window,
)
from equiscope.attention.names import kind_from_json, kind_to_json, mask_from_json, mask_to_json, score_from_json, score_to_json
from equiscope.attention.plan import Plan
from equiscope.attention.scores import SCORES, Additive, Concat, Dot, General, ScaledDot, Score, look_up, scaled_dot, score_split
from equiscope.attention.special import (
    convolution_as_attention,
    convolution_as_dense,
    recurrence_of,
    tokens_mlp_as_attention,
    unrolled_rnn_as_mlp,
)
from equiscope.attention.weigh import WEIGHTS, Sigmoid, Softmax, Weigh

__all__ = [
    "KINDS",
    "MASKS",
    "SCORES",
    "WEIGHTS",
    "Additive",
    "Blocks",
    "Both",
    "Cache",
    "Causal",
    "Concat",
    "DifferentialAttention",
    "Dilated",
    "Documents",
    "Dot",
    "Edges",
    "Either",
    "Everything",
    "General",
    "GraphAttention",
    "Held",
    "Kind",
    "LinearAttention",
    "Linformer",
    "Mask",
    "MultiHeadAttention",
    "Nystrom",
    "Opposite",
    "Plan",
    "Prefix",
    "ScaledDot",
    "Score",
    "Sigmoid",
    "Softmax",
    "Sums",
    "Weigh",
    "Window",
    "convolution_as_attention",
    "convolution_as_dense",
    "edge_attention",
    "kind_from_json",
    "kind_to_json",
    "look_up",
    "mask_from_json",
    "mask_to_json",
    "of_kind",
    "recurrence_of",
    "scaled_dot",
    "score_from_json",
    "score_split",
    "score_to_json",
    "tokens_mlp_as_attention",
    "unrolled_rnn_as_mlp",
]
