"""What is planted, where it begins, and which causes are right: all fixed before `equiscope.parity` ran on any of these pairs.

The author knew the names of the causes, docs/howto/parity.md and how the expectations of the fourth set are written, and no line of
the tool. The plants are faults that bug reports of transformers, llama.cpp, vLLM, timm, NeMo, ESPnet, torchscale and MLX describe.
"none" among the kinds: no name fits, so that naming no cause is right.

Where two answers are equally right, both are accepted:
- a mask or a rotary table that the model makes and its layers use begins in either;
- a step that only one side has (a norm, a residual, a factor) begins there on that side, and at the next step on the other one;
- what reads another row or other columns is "exchanged"; of a relative bias it is also the "position bias";
- projections that are read in another order are a fused layout, other weights, or an exchange;
- a scale of the scores that is written out is a factor.

After the first run one place was corrected: a recording calls a module that two layers share by its first name, so that the gate of
the layer before is `cells.0.memory.gate`.
"""

from functools import partial

from ..planted_fourth.cases import Planted
from ..planted_fourth.forms import in_form
from .families import pair

__all__ = ["CASES", "HEALTHY"]

CASES: list[Planted] = []


def made(family, fault, layer=-1, mode="", form="torch", swap=False):
    """What `eq.parity` gets: B in the form, the sides exchanged if swap."""
    a, b, inputs = pair(family, fault, layer, mode)
    b = in_form(b, inputs, form)
    return (b, a, inputs, {}) if swap else (a, b, inputs, {})


def plant(family, fault, kinds, a, b, form="torch", layer=-1, mode="", swap=False, either=False):
    """Add a case. kinds: names of `equiscope.audit.CAUSES` with | between; the first is the cause. a, b: as in `Planted`."""
    parts = [
        family,
        fault or f"{mode} in training",
        *([f"layer {layer}"] if layer >= 0 else []),
        form,
        *(["swapped"] if swap else []),
    ]
    name = "-".join(parts).replace(" ", "_")
    names = kinds.split("|")
    make = partial(made, family, fault, layer, mode, form, swap)
    CASES.append(Planted(name, names[0], frozenset(names), family, form, a, b, make, either, swap))


SCORES, MOVED, FUSED = "softmax scale|scale", "norm placement|exchanged", "fused layout|weights|exchanged"
BIAS = "position bias|exchanged"

# Conformer.
attn_a, attn_b = r"layers\.0\.self_attn", r"blocks\.0\.attention"
conv_a, conv_b = r"layers\.0\.conv", r"blocks\.0\.mixer"
plant("conformer", "whole steps", "residual|scale", r"layers\.0", r"blocks\.0\.first")
plant("conformer", "distance to the query", BIAS, attn_a, attn_b)
plant("conformer", "one place on", BIAS + "|position offset", attn_a, attn_b, swap=True)
plant("conformer", "biases exchanged", "weights|exchanged", r"layers\.1\.self_attn", r"blocks\.1\.attention", layer=1)
plant("conformer", "places not scaled", "scale|softmax scale", attn_a, attn_b, swap=True)
plant("conformer", "gate first", FUSED, conv_a + r"(\.pointwise_conv1)?", conv_b)
plant("conformer", "epsilon of Keras", "epsilon", conv_a + r"\.batch_norm", conv_b, swap=True)
plant("conformer", "padding in the convolution", "mask|exchanged", conv_a + r"(\.depthwise_conv)?", conv_b)
plant("conformer", "convolution of the past", "none|causal", conv_a + r"\.depthwise_conv", conv_b)
plant("conformer", "not scaled", "embedding scale|scale", "", r"|enter|blocks\.0\.first(\.ln)?")
plant("conformer", "gelu", "activation", r"layers\.1\.conv(\..*)?", r"blocks\.1\.mixer\.back", "npz", layer=1)
plant("conformer", "no norm at the end", MOVED, r"layers\.0\.norm_out", r"blocks\.0(\.last)?|blocks\.1\.first(\.ln)?", layer=0)
plant("conformer", "channels last", FUSED, r"pre_encode(\.out)?", "", "onnx")
plant("conformer", "letters over time", "softmax axis", "", "")
plant("conformer", "", "mode", conv_a + r"(\.batch_norm)?", conv_b, mode="b", either=True)
plant("conformer", "padding seen", "mask", "|" + attn_a, "", "onnx", swap=True)

# BART.
plant("bart", "positions from zero", "position offset", r"encoder(\.embed_positions)?", "")
plant("bart", "positions of the decoder from three", "position offset", r"decoder(\.embed_positions)?", "", "onnx")
plant("bart", "not scaled", "embedding scale|scale", r"encoder|decoder", "", either=True)
plant("bart", "stale head", "tied head|weights", r"lm_head", "")
plant("bart", "no bias of the logits", "bias", "", "", swap=True)
plant("bart", "no norm of the decoder's embedding", MOVED, r"decoder\.layernorm_embedding", r"|writing\.0(\.qkv)?")
plant(
    "bart", "memory of the layer before", "exchanged",
    r"encoder\.layers\.1(\..*)?|decoder\.layers\.0\.encoder_attn\.[kv]_proj", r"memory",
)  # fmt: skip
plant("bart", "values and keys", FUSED, r"decoder\.layers\.0\.encoder_attn(\.[kv]_proj)?", r"memory|writing\.0")
plant("bart", "padding seen by the decoder", "mask", r"|decoder\.layers\.0\.encoder_attn", r"|writing\.0", swap=True)
plant("bart", "scaled twice", SCORES, r"encoder\.layers\.0\.self_attn", r"reading\.0")
plant("bart", "not transposed", "transposed", r"encoder\.layers\.0\.self_attn\.out_proj", r"reading\.0\.join", "npz")
plant("bart", "epsilon of BERT", "epsilon", r"encoder\.layers\.1\.self_attn_layer_norm", r"reading\.1\.ln1", layer=1)
plant("bart", "starts with another token", "none|exchanged", r"|shared|decoder", "")
plant("bart", "norms first", MOVED, r"encoder\.layers\.0\.self_attn(\..*)?", r"reading\.0(\.ln1|\.qkv)?")
plant("bart", "not causal", "causal|mask", r"|decoder|decoder\.layers\.0\.self_attn", "", "onnx")
plant("bart", "gelu by tanh", "activation", r"encoder\.layers\.1(\..*)?", r"reading\.1\.down", "safetensors", layer=1)
plant("bart", "", "mode", r"encoder(\.dropout)?", r"|start_from|reading\.0(\.qkv)?", mode="a", either=True)

# Gemma 3.
attn_a, attn_b = r"layers\.0\.self_attn", r"cells\.0"
mask_a, mask_b, local_a = "|" + attn_a, "|" + attn_b, r"rotary_emb_local|layers\.0\.self_attn"
plant("gemma3", "one base", "rope base", local_a, mask_b)
plant("gemma3", "local positions interpolated", "rope scaling", local_a, mask_b)
plant(
    "gemma3",
    "global positions not interpolated",
    "rope scaling",
    r"rotary_emb|layers\.1\.self_attn",
    r"|cells\.1",
    swap=True,
)
plant("gemma3", "width of a head", SCORES, attn_a, attn_b)
plant("gemma3", "head norms without the one", "norm weight|weights|norm kind", attn_a + r"\.[qk]_norm", attn_b)
plant("gemma3", "window plus one", "window", mask_a, mask_b)
plant("gemma3", "windows in the other layers", "window|mask|exchanged", mask_a, mask_b, swap=True)
plant("gemma3", "norm over the residual", MOVED + "|residual", r"layers\.0(\.post_attention_layernorm)?", attn_b, layer=0)
plant("gemma3", "exact gelu", "activation", r"layers\.1\.mlp(\..*)?", r"cells\.1\.down", "npz", layer=1)
plant("gemma3", "scale in bfloat16", "embedding scale|scale", "", "")
plant("gemma3", "norm after rotation", MOVED, r"layers\.1\.self_attn(\.[qk]_norm)?", r"cells\.1", layer=1)
plant("gemma3", "tiled", "head order", attn_a, attn_b, swap=True)
plant("gemma3", "neighbours", "rope layout", attn_a, attn_b)
plant("gemma3", "images from left to right", "mask|causal", mask_a, mask_b)
plant(
    "gemma3", "no norm behind the feed-forward", MOVED,
    r"layers\.0(\.post_feedforward_layernorm)?", r"cells\.0", "safetensors", layer=0,
)  # fmt: skip
plant("gemma3", "backwards", "rope direction", r"rotary_emb_local|layers\.0\.self_attn(\..*)?", r"cells\.0\.proj", "npz")

# DeepSeek-V3.
attn_a, attn_b = r"layers\.0\.self_attn", r"steps\.0\.attend"
route_a, route_b = r"layers\.1\.mlp\.gate", r"steps\.1\.ffn"
plant("deepseek", "no mscale", SCORES, attn_a, attn_b)
plant("deepseek", "halves", "rope layout", attn_a, attn_b)
plant(
    "deepseek", "scale without the rotated part", SCORES, r"layers\.1\.self_attn", r"steps\.1\.attend", layer=1, swap=True
)  # fmt: skip
plant("deepseek", "no norm of the latent", MOVED, attn_a + r"(\.kv_a_layernorm|\.kv_b_proj)", attn_b)
plant(
    "deepseek", "epsilon of the latent", "epsilon",
    r"layers\.1\.self_attn\.kv_a_layernorm", r"steps\.1\.attend\.kv_norm", "npz", layer=1,
)  # fmt: skip
plant(
    "deepseek", "rotated part first", FUSED,
    attn_a + r"(\.kv_a_layernorm|\.kv_a_proj_with_mqa)?", attn_b + r"(\.kv_norm|\.down)?",
)  # fmt: skip
plant("deepseek", "values and keys", FUSED, attn_a + r"(\.kv_b_proj)?", attn_b)
plant("deepseek", "interpolated evenly", "rope scaling", r"rotary_emb|layers\.0\.self_attn", r"|steps\.0\.attend")
plant("deepseek", "balanced weights", "exchanged|none", route_a, route_b)
plant("deepseek", "no routed scale", "scale", r"layers\.1\.mlp(\..*)?", route_b, swap=True)
plant("deepseek", "softmax router", "activation|none", route_a, route_b)
plant("deepseek", "weights not normalised", "none|exchanged", route_a, route_b)
plant("deepseek", "layer norm of the queries", "norm kind", attn_a + r"\.q_a_layernorm", attn_b + r"\.q_norm")
plant("deepseek", "queries one on", "rope offset", r"rotary_emb|layers\.0\.self_attn", r"|steps\.0\.attend", swap=True)

# RetNet.
keep_a, keep_b = r"layers\.0\.retention", r"cells\.0\.memory"
table_a, table_b = r"retnet_rel_pos|layers\.0\.retention", r"|cells\.0\.memory"
plant("retnet", "decays backwards", "exchanged|none|weights", table_a, table_b)
plant("retnet", "faster decay", "none|weights", table_a, table_b, swap=True)
plant("retnet", "read before writing", "causal|mask", table_a, keep_b)
plant("retnet", "norm over all heads", "none|norm kind", keep_a + r"(\.group_norm)?", keep_b)
plant("retnet", "state of the row before", "none", keep_a, keep_b)
plant("retnet", "epsilon", "epsilon", keep_a + r"\.group_norm", keep_b)
plant("retnet", "sigmoid gate", "activation", keep_a + r"\.gate_fn", "", "onnx")
plant("retnet", "norm behind the gate", MOVED, keep_a + r"(\.group_norm)?", keep_b)
plant("retnet", "halves", "rope layout", keep_a, keep_b)
plant("retnet", "backwards", "rope direction", table_a, keep_b, swap=True)
plant("retnet", "not transposed", "transposed", r"layers\.1\.retention\.q_proj", r"cells\.1\.memory\.wq", layer=1)
plant("retnet", "gate of the layer before", "weights", r"layers\.1\.retention\.g_proj", r"cells\.0\.memory\.gate", "npz")
plant("retnet", "base without the end", "rope base", table_a, table_b)
plant("retnet", "no residual", "residual", r"layers\.0", r"cells\.0|cells\.1(\.before)?", layer=0, swap=True)

# Swin.
first, shifted, last = r"layers\.0\.blocks\.0", r"layers\.0\.blocks\.1", r"layers\.1\.blocks\.0"
plant("swin", "shifted by one", "exchanged|none", shifted + r"(\.attn)?", r"blocks\.1")
plant("swin", "not shifted back", "exchanged", shifted + r"(\.attn(\.proj)?)?", r"blocks\.1(\.proj|\.ln2)?")
plant("swin", "sides seen", "mask", shifted + r"(\.attn)?", r"blocks\.1")
plant("swin", "from the key", BIAS + "|transposed", first + r"\.attn", r"blocks\.0")
plant("swin", "columns first", BIAS, shifted + r"\.attn", r"blocks\.1", layer=1, swap=True)
plant(
    "swin",
    "rows first",
    "exchanged|weights|fused layout",
    r"layers\.1\.downsample(\.norm|\.reduction)?",
    r"merge(\.ln|\.reduce)?",
)
plant("swin", "scale of the first stage", SCORES, last + r"\.attn", "", "onnx")
plant("swin", "heads before parts", "fused layout|head order|weights", first + r"\.attn(\.qkv)?", r"blocks\.0(\.qkv)?")
plant("swin", "norm behind the mean", MOVED, r"|norm", r"|ln_end", "onnx", swap=True)
plant("swin", "quick gelu", "activation", shifted + r"\.mlp\.act", r"blocks\.1", layer=1)
plant("swin", "no residual", "residual", shifted, r"blocks\.1(\.ln2)?", layer=1, swap=True)
plant("swin", "no relative bias", "position bias", last + r"\.attn", r"blocks\.2", layer=2)
plant("swin", "no norm of the patches", MOVED, r"patch_embed(\.norm)?|layers\.0\.blocks\.0\.norm1", r"blocks\.0\.ln1", "npz")

HARMLESS = [
    ("conformer", ""), ("conformer", "norm folded into the taps"), ("conformer", "another constant of the logits"),
    ("bart", "", "npz"), ("bart", "no bias of keys", "torch", True), ("gemma3", "", "torch", True), ("gemma3", "scale in the norm"),
    ("deepseek", ""), ("deepseek", "", "safetensors"), ("deepseek", "latent twice as large"), ("retnet", ""),
    ("retnet", "", "onnx"), ("retnet", "positions from five"), ("swin", "", "onnx"), ("swin", "no bias of keys"),
]  # fmt: skip


def harmless(family, fault="", form="torch", swap=False):
    """A pair that computes the same."""
    return made(family, fault, form=form, swap=swap)


HEALTHY = {
    "-".join(["healthy", family, *([fault] if fault else []), *form]).replace(" ", "_"): partial(harmless, family, fault, *more)
    for family, fault, *more in HARMLESS
    for form in [[] if not more else more[:1] if not more[1:] else ["swapped"]]
}
