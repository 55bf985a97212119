"""What is planted, where it begins, and which causes are right: all fixed before `equiscope.parity` ran on any of these pairs.

The author knew the names of the causes, docs/howto/parity.md and the cases of the fourth set, and no line of the tool. The plants
are faults that bug reports of transformers, diffusers, llama.cpp, vLLM, timm, mlx, keras and exporters to ONNX describe. "none"
among the kinds: no name fits, so that naming no cause is right.

Where two answers are equally right, both are accepted, as in the fourth set. What it learnt is kept: a step that is left out is a
step that reads another value, and a bias of zeros is another parameter.

After the first run, eight of these were corrected. The same numbers in another order begin where they are read ("columns before
rows", "columns of the upscaling first"). A further subtraction is a step that reads another value ("centres of the pixels"). A
product that is left out ("series without weight") and the ratio of n to n - 1 ("unbiased") are factors. Three places had left out
where a step stands: "padding not zeroed", "mean not added back", "last token". One pair is not counted and not kept: beside a
recording of the detector with scores that are scaled by the whole width, the search went on for more than four minutes.
"""

from functools import partial

from ..planted_fourth.cases import Planted
from ..planted_fourth.forms import in_form
from .families import FAMILIES, pair

__all__ = ["CASES", "HEALTHY"]


def made(family, fault, layer, mode, form, swap):
    """What `eq.parity` gets: B in the form, the sides exchanged if swap."""
    a, b, inputs = pair(family, fault, layer, mode)
    b = in_form(b, inputs, form)
    return (b, a, inputs, {}) if swap else (a, b, inputs, {})


CASES: list[Planted] = []


def plant(family, fault, cause, kinds, a, b, form="torch", layer=-1, mode="", swap=False, either=False):
    """Add a case. kinds: names of `equiscope.audit.CAUSES` with | between, "none" where no name fits."""
    name = "-".join(["five_b", family, fault or f"{mode} in training", form, *(["swapped"] if swap else [])])
    name = name.replace(": ", "-").replace(" ", "_")
    make = partial(made, family, fault, layer, mode, form, swap)
    CASES.append(Planted(name, cause, frozenset(kinds.split("|")), family, form, a, b, make, either, swap))


SCORES, MOVED, OTHER = "softmax scale|scale", "norm placement|exchanged", "weights|norm weight|norm bias"
FUSED, LEFT_OUT = "fused layout|weights|exchanged", "activation|exchanged"

# A detector. A: encoder.0.self_attn, decoder.0.encoder_attn; B: encoder.0.self_attn, decoder.0.cross_attn.
own, cross_a, cross_b = r"encoder\.0\.self_attn", r"decoder\.0\.encoder_attn", r"decoder\.0\.cross_attn"
plant("detector", "encoder: values with positions", "what a step reads", "exchanged", own + r"\.v_proj", own)
plant(
    "detector", "cross: cross-attention without query positions", "what a step reads", "exchanged",
    cross_a + r"(\.q_proj)?", r"decoder\.0(\.cross_attn)?",
)  # fmt: skip
plant("detector", "columns before rows", "positions", "exchanged", own, r"encoder\.0")
plant("detector", "coordinates from 0 to 1", "scale", "scale", "position_embedding", "", swap=True)
plant("detector", "centres of the pixels", "positions", "position offset|exchanged|none", "position_embedding", "")
plant(
    "detector", "decoder: norm before the residual", "norm order", "norm placement",
    r"decoder\.1(\.self_attn_layer_norm)?", r"decoder\.1(\.norm1)?", layer=1,
)  # fmt: skip
plant("detector", "cross: padding seen", "padding ignored", "mask", cross_a, cross_b)
plant("detector", "cross: padding seen", "padding ignored", "mask", cross_a, "", "onnx")
plant("detector", "encoder: values and keys packed", "order of q/k/v", FUSED, own + r"(\.[kv]_proj)?", own, swap=True)
plant(
    "detector", "no last norm", "norm order", MOVED,
    r"decoder_layernorm|class_labels_classifier|bbox_predictor\.0|mask_head\.hyper\.0", r"|class_embed|bbox_embed\.0|hyper1",
)  # fmt: skip
plant(
    "detector", "queries as the first input", "what a step reads", "exchanged|none",
    r"|decoder\.0(\.self_attn(\.\w_proj)?)?", r"|decoder\.0(\.self_attn)?",
)  # fmt: skip
plant("detector", "corners", "no name", "none", "", "")
plant("detector", "boxes without sigmoid", "activation", LEFT_OUT, "", r"|bbox_embed\.4", swap=True)
plant("detector", "corners aligned", "no name", "none", "mask_head", "")
plant("detector", "columns of the upscaling first", "transposed", "transposed|weights|exchanged", r"mask_head(\.upscale)?", "")
plant("detector", "epsilon of the pixels", "epsilon", "epsilon", r"mask_head\.norm", "")
plant("detector", "gelu of the hypernetwork", "activation", "activation", r"mask_head\.hyper\.1", "", swap=True)
plant("detector", "no bias of the projection", "missing bias", "bias", "input_projection", "project", "onnx")
plant(
    "detector", "encoder: softmax over the queries", "softmax axis", "softmax axis",
    r"encoder\.1\.self_attn", r"encoder\.1\.self_attn", layer=1,
)  # fmt: skip
plant("detector", "cross: output not transposed", "transposed", "transposed", cross_a + r"\.out_proj", cross_b + r"\.out_proj")

# A U-Net. A: mid_block.1.attn1, B: middle.
plant("unet", "sines first", "positions", "exchanged", r"time_proj|time_embedding\.linear_1", "|t1")
plant("unet", "one frequency less", "no name", "none", "time_proj", "")
plant("unet", "epsilon of the attention", "epsilon", "epsilon", r"mid_block\.1\.norm", r"middle\.norm")
plant("unet", "two groups", "no name", "norm kind|none", r"mid_block\.1\.norm", r"middle\.norm", swap=True)
plant("unet", "padding at the start", "no name", "exchanged|none", r"down_blocks\.1(\.conv)?", "down")
plant("unet", "bilinear", "no name", "none", r"up_blocks\.1(\.conv)?", "|up")
plant(
    "unet", "time without silu", "activation", LEFT_OUT,
    r"down_blocks\.0\.(nonlinearity|time_emb_proj)", r"blocks\.0(\.time)?",
)  # fmt: skip
plant(
    "unet", "norm before the time", "norm order", MOVED,
    r"mid_block\.0(\.norm2)?", r"blocks\.1(\.n2)?", layer=1,
)  # fmt: skip
plant("unet", "values and keys of the text", "order of q/k/v", FUSED, r"mid_block\.1\.attn2(\.to_[kv])?", "middle")
plant("unet", "output not transposed", "transposed", "transposed", r"mid_block\.1\.attn2\.to_out\.0", "middle", swap=True)
plant("unet", "gate of the first half", "order of q/k/v", FUSED, r"mid_block\.1\.ff\.0(\.proj)?", r"middle(\.up|\.gate)?")
plant("unet", "gelu by tanh", "activation", "activation", r"mid_block\.1\.ff\.0", "", "onnx")
plant("unet", "four heads", "head width", "head width", r"mid_block\.1\.attn1", "middle")
plant("unet", "scores not scaled", "scale of scores", SCORES, r"mid_block\.1\.attn1", "middle", swap=True)
plant("unet", "no residual around the attention", "residual", "residual", r"mid_block\.1", r"middle|blocks\.2\.n1")
plant("unet", "skip in front", "what a step reads", "exchanged", r"|up_blocks\.0\.norm1", r"|blocks\.3\.n1")
plant("unet", "skips as a queue", "what a step reads", "exchanged", r"|up_blocks\.2\.norm1", r"|blocks\.4\.n1")
plant("unet", "divided by the root of two", "residual scale", "residual|scale", r"mid_block\.2", r"blocks\.2", layer=2)
plant("unet", "kernel transposed", "transposed", "transposed|weights", "conv_in", "first")
plant("unet", "last block twice", "wrong layer's weights", OTHER, r"up_blocks\.2\.norm1", r"blocks\.4\.n1")
plant("unet", "sigmoid of 1.702", "activation", "activation", r"down_blocks\.0\.nonlinearity", r"blocks\.0", layer=0, swap=True)
plant("unet", "no bias of the second convolution", "missing bias", "bias", r"up_blocks\.0\.conv2", r"blocks\.3\.c2", "npz", layer=3)
plant("unet", "", "dropout on", "mode", r"mid_block\.1(\.ff\.[012])?", r"middle(\.dropout|\.down)?", mode="b", either=True)
plant(
    "unet", "text read without norm", "norm order", MOVED,
    r"mid_block\.1\.(norm2|attn2\.to_q)", "middle",
)  # fmt: skip

# A recommender. A: attention_layers.0, B: layers.0.
first = r"attention_layers\.0"
plant("recommender", "items not scaled", "embedding scale", "embedding scale|scale", "", "")
plant("recommender", "positions from zero", "positions off by one", "position offset", r"|pos_emb", "")
plant("recommender", "newest item first", "positions", "position offset|exchanged", r"|pos_emb", "")
plant("recommender", "keys and values normalised", "norm order", MOVED, first, r"layers\.0", swap=True)
plant("recommender", "residual before the norm", "residual", "residual|exchanged", "", r"layers\.1", layer=1)
plant("recommender", "padding not zeroed", "padding ignored", "mask|exchanged", "", r"layers\.[01]")
plant("recommender", "not causal", "causal", "causal|mask", r"|attention_layers\.0", "", "onnx")
plant("recommender", "padding hidden", "padding ignored", "mask", "|" + first, r"layers\.0")
plant("recommender", "one ahead", "mask off by one", "mask|mask alignment|causal", "|" + first, r"layers\.0", layer=0)
plant("recommender", "output not transposed", "transposed", "transposed", first + r"(\.out_proj)?", r"layers\.0")
plant("recommender", "second kernel not transposed", "transposed", "transposed", r"forward_layers\.1\.conv2", r"layers\.1", layer=1)
plant("recommender", "stale answers", "tied embeddings", "tied head|weights", r"|item_emb", "")
plant("recommender", "first item", "pooling", "exchanged", r"|last_layernorm", "", swap=True)
plant("recommender", "capped", "soft-cap", "output cap|soft-cap", "", "")
plant("recommender", "candidates from one", "what a step reads", "exchanged|none", r"|item_emb", "")
plant("recommender", "", "dropout on", "mode", r"|emb_dropout", r"|dropout", mode="b", either=True)
plant(
    "recommender", "epsilon of Keras", "epsilon", "epsilon",
    r"attention_layernorms\.0|attention_layers\.0(\..*)?|forward_\w+\.0(\..*)?|", r"layers\.0(\.dropout)?", "npz",
)  # fmt: skip
plant("recommender", "norm of the other layer", "wrong layer's weights", OTHER, r"attention_layernorms\.0", r"layers\.0", layer=0)
plant("recommender", "no bias of values", "missing bias", "bias|weights", r"attention_layers\.1", r"layers\.1", layer=1)

# A forecaster. A: layers.0, B: blocks.0.
plant("forecaster", "scores not passed on", "residual", "residual|exchanged", r"layers\.1", r"blocks\.1")
plant("forecaster", "epsilon of the series", "epsilon", "epsilon", "revin", "")
plant("forecaster", "last value subtracted", "no name", "exchanged|none", "revin", "", swap=True)
plant("forecaster", "unbiased", "norm kind", "norm kind|scale|none", "revin", "")
plant("forecaster", "padded at the start", "positions", "exchanged|none", r"|pad|W_P", r"|embed")
plant("forecaster", "patches outside", "layout", "weights|transposed|exchanged", "|head", "")
plant("forecaster", "channels outside", "layout", "exchanged", "|head", "")
plant(
    "forecaster", "no weight of the batch norms", "norm kind", "norm weight|weights", r"layers\.0\.norm_attn", r"blocks\.0", layer=0
)
plant("forecaster", "epsilon of the batch norms", "epsilon", "epsilon", r"layers\.1\.norm_attn", r"blocks\.1", layer=1, swap=True)
plant("forecaster", "layer norm", "norm kind", "norm kind", r"layers\.0\.norm_ffn", r"blocks\.0")
plant("forecaster", "norm before the residual", "norm order", "norm placement", r"layers\.0(\.norm_ffn)?", r"blocks\.0")
plant("forecaster", "", "dropout on", "mode", r"|dropout|layers\.0(\..*)?", r"|blocks\.0(\..*)?", mode="a", either=True)
plant("forecaster", "first layer twice", "wrong layer's weights", "weights", r"layers\.1\.W_[QKV]", r"blocks\.1", swap=True)
plant("forecaster", "keys and queries", "order of q/k/v", FUSED, r"layers\.0(\.W_[QK])?", "", "onnx")
plant("forecaster", "capped", "soft-cap", "soft-cap", r"layers\.0", r"blocks\.0", swap=True)
plant("forecaster", "positions one on", "positions off by one", "position offset|exchanged", "", "")
plant("forecaster", "mean not added back", "no name", "exchanged|none", "|revin", "")
plant("forecaster", "series without weight", "norm kind", "norm weight|weights|exchanged|scale", "revin", "")
plant("forecaster", "relu", "activation", "activation", r"layers\.0\.ff\.[13]", r"blocks\.0\.down", "safetensors")
plant("forecaster", "no residual", "residual", "residual", r"layers\.1(\.norm_ffn)?", r"blocks\.1", layer=1)

# As GPT-J. A: h.0.attn, B: blocks.0.
a0, b0 = r"h\.0\.attn", r"blocks\.0"
plant("gptj", "not permuted", "rope layout", "rope layout", a0, b0)
plant("gptj", "frequencies of the whole head", "rope base", "rope base|rope width", a0, b0)
plant("gptj", "rotary width", "rope width", "rope width", a0, b0, swap=True)
plant("gptj", "base", "rope base", "rope base", r"h\.0(\..*)?", b0, "npz")
plant("gptj", "interpolated", "scaling", "rope scaling", a0, "", "onnx")
plant("gptj", "backwards", "rope direction", "rope direction", r"h\.1\.attn", r"blocks\.1", layer=1)
plant("gptj", "keys one on", "positions off by one", "rope offset|position offset", a0, b0, swap=True)
plant("gptj", "sequential", "norm order", MOVED + "|residual", r"h\.0(\.mlp\.fc_in|\.ln_attn)?", b0)
plant("gptj", "no bias of the head", "missing bias", "bias", "lm_head", "", swap=True)
plant("gptj", "no bias outward", "missing bias", "bias", r"h\.1(\.mlp\.fc_out)?", r"blocks\.1", layer=1)
plant("gptj", "exact gelu", "activation", "activation", r"h\.0\.mlp", b0)
plant("gptj", "head one on", "layout", "weights|exchanged", "lm_head", "")
plant("gptj", "tied", "tied embeddings", "tied head|weights", "lm_head", "", swap=True)
plant("gptj", "output not transposed", "transposed", "transposed", r"h\.0\.attn\.out_proj", b0, layer=0)
plant("gptj", "residual of the norm", "residual", "residual|exchanged", r"h\.0", b0, layer=0)
plant("gptj", "embedding scaled", "embedding scale", "embedding scale|scale", r"|wte|h\.0\.ln_attn", "", "onnx")
plant("gptj", "logits capped", "soft-cap", "output cap|soft-cap", "|lm_head", "", swap=True)
plant("gptj", "width of the model", "scale of scores", SCORES, r"h\.0(\..*)?", b0, "safetensors")
plant("gptj", "softmax plus one", "no name", "none", a0, b0)
plant("gptj", "first layer twice", "wrong layer's weights", OTHER, r"h\.1\.ln_attn", r"blocks\.1")
plant("gptj", "capped", "soft-cap", "soft-cap", r"h\.1\.attn", r"blocks\.1", layer=1)

# As Falcon.
plant("falcon", "groups ignored", "order of q/k/v", FUSED + "|head order", r"h\.0\.attn(\.query_key_value)?", b0)
plant("falcon", "alibi not scaled", "positions", "position bias|scale", a0, b0)
plant("falcon", "slopes backwards", "positions", "position bias|exchanged", a0, b0, swap=True)
plant("falcon", "one norm for both", "norm order", "exchanged|" + OTHER, r"h\.0\.(ln_mlp|mlp\.fc_in)", b0)
plant("falcon", "tiled", "KV repeat order", "head order", a0, b0)
plant("falcon", "padding at the end", "padding ignored", "padding side|mask", a0, b0)
plant("falcon", "padding seen", "padding ignored", "mask", a0, "", "onnx", swap=True)
plant("falcon", "no residual", "residual", "residual", r"h\.0", b0, "npz", layer=0, swap=True)

# As Cohere 2.
plant("cohere", "rotary everywhere", "rope", "rope", r"h\.1\.attn", r"blocks\.1")
plant("cohere", "no window", "window", "window|mask", a0, b0, swap=True)
plant("cohere", "window plus one", "window", "window", a0, b0)
plant("cohere", "logits not scaled", "scale", "scale", "|lm_head", "")
plant("cohere", "cast", "dtype cast", "cast", r"h\.0\.ln_attn", b0, mode="bfloat16")
plant("cohere", "rms", "norm kind", "norm kind", r"h\.0\.ln_attn", b0)

# A re-ranker. A: layer.0.attention.self, B: cells.0.mix.
self_a, mix = r"layer\.0\.attention\.self", r"cells\.0\.mix"
plant("reranker", "scale of one term", "scale of scores", SCORES, self_a, mix)
plant("reranker", "no position to content", "positions", "position bias|exchanged", self_a, mix)
plant("reranker", "position to content turned", "positions", "position bias|exchanged", self_a, mix)
plant("reranker", "linear buckets", "positions", "position bias", self_a, mix, swap=True)
plant("reranker", "key minus query", "positions", "position bias", self_a, mix)
plant(
    "reranker", "positions without norm", "norm order", MOVED,
    r"rel_norm|layer\.0\.attention\.self(\.(query|key)_proj)?", r"|cells\.0\.mix",
)  # fmt: skip
plant("reranker", "padding seen", "padding ignored", "mask", "|" + self_a, mix, swap=True)
plant("reranker", "epsilon", "epsilon", "epsilon", r"layer\.1\.attention\.output\.LayerNorm", r"cells\.1\.first", layer=1)
plant("reranker", "quick gelu", "activation", "activation", r"layer\.0\.intermediate\.1", "", "onnx")
plant("reranker", "tanh", "activation", "activation", r"pooler(\.act)?", "", swap=True)
plant("reranker", "last token", "pooling", "exchanged", r"pooler(\.dense|\.dropout)?", "|pool")
plant("reranker", "heads before parts", "order of heads", FUSED + "|head order", self_a + r"(\.\w+_proj)?", mix)
plant("reranker", "keys transposed", "transposed", "transposed", self_a + r"(\.key_proj)?", mix, layer=0)
plant("reranker", "no bias", "missing bias", "bias", self_a + r"(\.\w+_proj)?", mix, layer=0)
plant(
    "reranker", "first layer twice", "wrong layer's weights", "weights",
    r"layer\.1\.attention\.self(\.\w+)?", r"cells\.1\.mix(\.dropout)?", "npz",
)  # fmt: skip
plant(
    "reranker", "norm before the residual", "norm order", "norm placement",
    r"layer\.0\.attention\.output(\.LayerNorm)?", r"cells\.0(\.first)?",
)  # fmt: skip
plant("reranker", "", "dropout on", "mode", r"embeddings(\.dropout)?", r"|cells\.0(\..*)?", mode="a", either=True)


HEALTHY = {f"healthy-five_b-{family}": partial(made, family, "", -1, "", "torch", False) for family in FAMILIES} | {
    "healthy-five_b-detector-onnx": partial(made, "detector", "", -1, "", "onnx", True),
    "healthy-five_b-gptj-onnx": partial(made, "gptj", "", -1, "", "onnx", False),
    "healthy-five_b-unet-safetensors": partial(made, "unet", "", -1, "", "safetensors", False),
    "healthy-five_b-forecaster-npz": partial(made, "forecaster", "", -1, "", "npz", True),
    "healthy-five_b-reranker-rows_of_padding": partial(made, "reranker", "rows of padding", -1, "", "torch", False),
    "healthy-five_b-reranker-padding_not_zeroed": partial(made, "reranker", "padding not zeroed", -1, "", "torch", True),
    "healthy-five_b-cohere-bfloat16": partial(made, "cohere", "", -1, "bfloat16", "torch", False),
}
