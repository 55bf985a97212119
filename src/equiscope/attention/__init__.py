"""Attention: multi-head attention and its variants, masks, score functions, normalizers and caches."""

from equiscope.attention.cache import Cache
from equiscope.attention.context import AttentionContext
from equiscope.attention.differential import DifferentialAttention
from equiscope.attention.graph import GraphAttention, edge_attention
from equiscope.attention.kinds import KINDS, AttentionKind, make_attention
from equiscope.attention.linear import LinearAttention, RecurrentState
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
from equiscope.attention.multihead import KeyValues, MultiHeadAttention
from equiscope.attention.normalizer import NORMALIZERS, Normalizer, Sigmoid, Softmax
from equiscope.attention.scores import (
    SCORES,
    Additive,
    Concat,
    Dot,
    General,
    ScaledDot,
    ScoreFunction,
    eager_attention,
    scaled_dot,
    score_split,
)
from equiscope.attention.serialization import (
    kind_from_json,
    kind_to_json,
    mask_from_json,
    mask_to_json,
    score_from_json,
    score_to_json,
)
from equiscope.attention.special_cases import (
    convolution_as_attention,
    convolution_as_dense,
    recurrence_of,
    tokens_mlp_as_attention,
    unrolled_rnn_as_mlp,
)

__all__ = [
    "KINDS",
    "MASKS",
    "NORMALIZERS",
    "SCORES",
    "Additive",
    "AttentionContext",
    "AttentionKind",
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
    "KeyValues",
    "LinearAttention",
    "Linformer",
    "Mask",
    "MultiHeadAttention",
    "Normalizer",
    "Nystrom",
    "Opposite",
    "Prefix",
    "RecurrentState",
    "ScaledDot",
    "ScoreFunction",
    "Sigmoid",
    "Softmax",
    "Window",
    "convolution_as_attention",
    "convolution_as_dense",
    "eager_attention",
    "edge_attention",
    "kind_from_json",
    "kind_to_json",
    "make_attention",
    "mask_from_json",
    "mask_to_json",
    "recurrence_of",
    "scaled_dot",
    "score_from_json",
    "score_split",
    "score_to_json",
    "tokens_mlp_as_attention",
    "unrolled_rnn_as_mlp",
]
