"""What is planted, where it begins, and which causes are right: all fixed before `equiscope.parity` ran on any of these pairs.

The author knew the names of the causes and what docs/howto/parity.md says, and no line of the tool. The plants are faults that bug
reports of transformers, llama.cpp, vLLM, litgpt, torchtitan, keras, diffusers, open_clip, sentence-transformers and Whisper's ports
describe. "none" among the kinds: no name fits, so that naming no cause is right.

Where two answers are equally right, both are accepted:
- a mask, a table of positions or a rotary table that the model makes and its layers use begins in either;
- a step that only one side has (a norm, a residual, a factor) begins there on that side, and at the next step on the other one;
- a part that reads another row or other columns is "exchanged", or has no name;
- queries, keys and values read in another order are a fused layout, other weights, or an exchange;
- a scale of the scores that is written out is a factor.

After the first run, six of these were corrected, as what was planted is truly also what was said: a gate, or the 1 of a
modulation, that is left out is a step that reads another value ("no gates" twice, "scale without the one"); rows of a projection in
another order are its numbers in another order ("permuted as one head"); a bias of zeros is another parameter ("norms without bias"
of the points); patches in another order begin where they are embedded ("columns first").
"""

import re
from dataclasses import dataclass
from functools import partial

from ..planted_by_others.cases import Case
from .families import pair
from .forms import in_form
from .healthy import HEALTHY

__all__ = ["CASES", "HEALTHY"]


def made(family, fault, layer, mode, form, swap):
    """What `eq.parity` gets: B in the form, the sides exchanged if swap."""
    a, b, inputs = pair(family, fault, layer, mode)
    b = in_form(b, inputs, form)
    return (b, a, inputs, {}) if swap else (a, b, inputs, {})


@dataclass(frozen=True)
class Planted(Case):
    """a, b: patterns of A's and B's modules, or of the tensor of a dump, with dots for its slashes; either: one side is enough."""

    either: bool = False
    swap: bool = False

    def right_step(self, parity):
        """Whether both sides are in their places; an ONNX graph has no module paths."""
        steps = (parity.step_b, parity.step_a) if self.swap else (parity.step_a, parity.step_b)
        a = steps[0] is not None and re.fullmatch(self.a, steps[0].module)
        if self.form == "onnx":
            return bool(a)
        b = steps[1] is not None and re.fullmatch(self.b, tensor(steps[1]) if self.form != "torch" else steps[1].module)
        return bool(a or b) if self.either else bool(a and b)

    def right_cause(self, parity):
        return (parity.kind or "none") in self.kinds


def tensor(step):
    """The module whose result a tensor of a dump is: "t007/stack/0/mixer" to "stack.0.mixer"; "output" of the output."""
    return re.sub(r"^.*?t\d{3}[/.]", "", step.value or step.module).replace("/", ".")


CASES: list[Planted] = []


def plant(family, fault, cause, kinds, a, b, form="torch", layer=-1, mode="", swap=False, either=False):
    """Add a case. kinds: names of `equiscope.audit.CAUSES` with | between, "none" where no name fits."""
    modes = {"": [], "a": ["A in training"], "b": ["B in training"]}.get(mode, [mode])
    name = "-".join([family, *([fault] if fault else []), *modes, form, *(["swapped"] if swap else [])]).replace(" ", "_")
    make = partial(made, family, fault, layer, mode, form, swap)
    CASES.append(Planted(name, cause, frozenset(kinds.split("|")), family, form, a, b, make, either, swap))


SCORES, EXCHANGED, MOVED = "softmax scale|scale", "exchanged|none", "norm placement|exchanged"
FUSED, OTHER = "fused layout|weights|exchanged", "weights|norm weight|norm bias"
MASK = "mask|mask alignment|causal"

# Decoders. A: layers.0.self_attn, B: stack.0.mixer.
attn_a, attn_b = r"layers\.0\.self_attn", r"stack\.0\.mixer"
rope_a, made_a, made_b = r"rotary_emb|layers\.0\.self_attn", r"|layers\.0\.self_attn", r"|stack\.0\.mixer"
plant("llama", "epsilon", "epsilon", "epsilon", r"layers\.0\.input_layernorm", r"stack\.0\.norm1")
plant("llama", "base", "rope base", "rope base", rope_a, attn_b)
plant("llama", "not permuted", "rope layout", "rope layout", attn_a, attn_b)
plant("llama", "keys one on", "positions off by one", "rope offset|position offset", rope_a, attn_b)
plant("llama", "backwards", "rope direction", "rope direction", rope_a, attn_b, swap=True)
plant("llama", "tiled", "KV repeat order", "head order", attn_a, attn_b)
plant("llama", "width of a head", "scale of scores", SCORES, attn_a, attn_b)
plant("llama", "no bias", "missing bias", "bias", r"layers\.0\.self_attn\.k_proj", attn_b, swap=True)
plant("llama", "transposed keys", "transposed square weight", "transposed", r"layers\.0\.self_attn\.k_proj", attn_b)
plant("llama", "stale head", "tied embeddings", "tied head|weights", r"lm_head", "")
plant("llama", "layer before", "wrong layer's weights", "weights", r"layers\.1\.mlp\.(gate|up)_proj", r"stack\.1\.ffn")
plant("llama", "gelu", "activation", "activation", r"layers\.0\.mlp\.act_fn", r"stack\.0\.ffn")
plant("llama", "gate and up", "order of q/k/v", FUSED, r"layers\.0\.mlp(\.act_fn|\.gate_proj|\.up_proj)?", r"stack\.0\.ffn")
plant("llama", "one ahead", "mask off by one", MASK, made_a, made_b)
plant("llama", "parallel", "norm order", MOVED + "|residual", r"layers\.0\.post_attention_layernorm", r"stack\.0\.norm2")
plant("llama", "no last norm", "norm order", MOVED, r"norm|lm_head", "")
plant(
    "llama",
    "permuted as one head",
    "layout",
    "exchanged|none|rope layout|head width|weights",
    r"layers\.0\.self_attn(\.k_proj)?",
    attn_b,
)
plant("llama", "cast", "dtype cast", "cast", r"layers\.0\.input_layernorm", r"stack\.0\.norm1", mode="bfloat16")
plant("llama padded", "padding seen", "padding ignored", "mask", made_a, made_b)
plant("llama padded", "padding at the end", "padding ignored", "padding side|mask", made_a, made_b)
plant("llama scaled", "unscaled", "scaling", "rope scaling", rope_a, attn_b)
plant("llama scaled", "base", "rope base", "rope base", rope_a, attn_b, swap=True)
plant("llama partial", "rotary width", "rope width", "rope width", rope_a, attn_b)
plant("mistral", "window plus one", "window", "window", made_a, made_b)
plant("mistral", "window nowhere", "window", "window|mask", made_a, made_b, swap=True)
plant("qwen3", "norm after rotation", "norm order", MOVED, r"layers\.0\.self_attn(\.[qk]_norm)?", r"stack\.0\.mixer(\.[qk]n)?")
plant("gemma", "embedding not scaled", "embedding scale", "embedding scale|scale", "", r"|stack\.0(\.norm1)?")
plant("gemma", "no cap", "soft-cap", "soft-cap", attn_a, attn_b)
plant("gemma", "no final cap", "soft-cap", "output cap|soft-cap", "", "")
plant("gemma", "without the one", "norm kind", "norm weight|weights|norm kind", r"layers\.0\.input_layernorm", r"stack\.0\.norm1")
plant("gemma", "epsilon after", "epsilon", "epsilon", r"layers\.0\.post_attention_layernorm", r"stack\.0\.norm2", swap=True)
plant(
    "gemma",
    "norm over the residual",
    "norm order",
    MOVED + "|residual",
    r"layers\.0(\.post_attention_layernorm)?",
    r"stack\.0(\.norm2)?",
)
plant("gemma", "exact gelu", "activation", "activation", r"layers\.0\.mlp\.act_fn", r"stack\.0\.ffn")
plant("gemma", "window in the odd layers", "window", "window|mask|exchanged", made_a, made_b)
plant("sinks", "no sink", "sink", "none", attn_a, attn_b)
plant("sinks", "sink by sigmoid", "sink", "none", attn_a, attn_b, swap=True)
plant("sinks", "window plus one", "window", "window", made_a, made_b)

# GPT-2.
plant("gpt2", "epsilon", "epsilon", "epsilon", r"h\.0\.ln_1", r"blocks\.0\.attention_norm", swap=True)
plant("gpt2", "gelu", "activation", "activation", r"h\.0\.mlp\.act", r"blocks\.0")
plant("gpt2", "two positions on", "positions off by one", "position offset", r"|wpe", "")
plant("gpt2", "not transposed", "transposed square weight", "transposed", r"h\.0\.attn\.c_proj", r"blocks\.0\.attention\.out")
heads_a, heads_b = r"h\.0\.attn(\.c_attn)?", r"blocks\.0\.attention(\.query|\.key|\.value)?"
plant("gpt2", "interleaved", "order of heads", "fused layout|head order|weights", heads_a, heads_b)
plant("gpt2", "keys and values", "order of q/k/v", FUSED, heads_a, heads_b)
plant("gpt2", "no bias", "missing bias", "bias", r"h\.0\.attn\.c_proj", r"blocks\.0\.attention\.out")
plant("gpt2", "same scale in all layers", "scale of scores", SCORES, r"h\.1\.attn", r"blocks\.1\.attention")
plant("gpt2", "norms exchanged", "wrong layer's weights", OTHER, r"h\.0\.ln_1", r"blocks\.0\.attention_norm")
plant("gpt2", "no residual", "residual scale", "residual", r"h\.1", r"blocks\.1|blocks\.2(\.attention_norm)?", layer=1)
plant("gpt2", "", "dropout on", "mode", r"|drop|h\.0\.ln_1", "", mode="b", either=True)
plant("gpt2", "not causal", "mask off by one", "causal|mask", r"h\.0\.attn", r"blocks\.0\.attention", swap=True)
plant("gpt2", "squared relu", "activation", "activation", r"h\.0\.mlp\.act", r"blocks\.0")
plant("gpt2", "twice the heads", "head width", "head width", r"h\.0\.attn", r"blocks\.0\.attention")
plant("gpt2", "norms without bias", "missing bias", "norm bias|bias", r"h\.0\.ln_1", r"blocks\.0\.attention_norm")
plant("gpt2", "head of another vocabulary", "tied embeddings", "tied head|weights|exchanged", "", r"head")
plant("gpt2", "layers exchanged", "wrong layer's weights", OTHER, r"h\.1\.ln_1", r"blocks\.1\.attention_norm")

plant("nanochat", "no cap", "soft-cap", "output cap|soft-cap", "", r"|head")
plant("nanochat", "no last norm", "norm order", MOVED, r"ln_f|", r"head", swap=True)

# BERT.
self_a, mha = r"encoder\.layer\.0\.attention\.self", r"trunk\.0\.mha"
parts = self_a + r"(\.query|\.key|\.value)?"
plant("bert", "padding seen", "padding ignored", "mask", "|" + self_a, "|" + mha)
plant("bert", "mask added as it is", "padding ignored", "mask", "|" + self_a, "|" + mha, swap=True)
plant("bert", "positions from two", "positions off by one", "position offset", r"embeddings(\.position_embeddings)?", "")
plant("bert", "epsilon", "epsilon", "epsilon", r"encoder\.layer\.0\.attention\.output\.LayerNorm", r"trunk\.0\.norm_a")
plant("bert", "segments not read", "no name", EXCHANGED, r"embeddings(\.token_type_embeddings)?", "")
plant("bert", "pre-norm", "norm order", MOVED, r"encoder\.layer\.0\.attention(\..*)?", r"trunk\.0(\.norm_a|\.mha)?")
plant("bert", "quick gelu", "activation", "activation", r"encoder\.layer\.0\.intermediate", r"trunk\.0")
plant("bert", "mean", "pooling", EXCHANGED, r"pooler(\.dense)?", "")
plant("bert", "last token", "pooling", EXCHANGED, r"pooler(\.dense)?", "", swap=True)
plant("bert", "no tanh", "activation", "activation", r"pooler", "")
plant("bert", "order of the projections", "order of q/k/v", FUSED, parts, mha)
plant("bert", "transposed values", "transposed square weight", "transposed", self_a + r"\.value", mha, layer=0)
plant("bert", "no bias of queries", "missing bias", "bias", self_a + r"\.query", mha)
plant("bert", "scaled by the width", "scale of scores", SCORES, self_a, mha)
plant("bert whole", "softmax over the queries", "softmax axis", "softmax axis", self_a, mha)
plant("bert", "half the heads", "head width", "head width", self_a, mha, swap=True)
plant("bert whole", "a key of zeros", "sink", "none", self_a, mha)
plant("bert", "heads backwards", "order of heads", "head order|exchanged", self_a, mha)
layer1 = r"encoder\.layer\.1\.attention\.self\.(query|key|value)"
plant("bert", "layer twice", "wrong layer's weights", "weights", layer1, r"trunk\.1\.mha", swap=True)
plant("bert", "rms", "norm kind", "norm kind", r"encoder\.layer\.0\.attention\.output\.LayerNorm", r"trunk\.0\.norm_a")
plant("bert", "", "dropout on", "mode", r"embeddings(\.dropout)?", r"|trunk\.0\.mha", mode="a", either=True)

# T5.
first, ported = r"encoder\.block\.0\.SelfAttention", r"source\.layers\.0\.attention"
bias_a, bias_b = r"encoder|encoder\.block\.0\.SelfAttention(\.relative_attention_bias)?", r"source|source\.layers\.0\.attention"
plant("t5", "scaled scores", "scale of scores", SCORES, first, ported)
plant(
    "t5", "both directions in the decoder", "positions", "position bias",
    r"decoder|decoder\.block\.0\.SelfAttention(\.relative_attention_bias)?", r"target|target\.layers\.0\.attention",
)  # fmt: skip
plant(
    "t5", "positions in the first layer only", "positions", "position bias",
    r"encoder|encoder\.block\.1\.SelfAttention", r"source|source\.layers\.1\.attention",
)  # fmt: skip
plant("t5", "far", "positions", "position bias", bias_a, bias_b)
plant("t5", "query minus key", "positions", "position bias", bias_a, bias_b, swap=True)
plant("t5", "output not scaled", "embedding scale", "scale|embedding scale", "", "")
plant("t5", "layer norm", "norm kind", "norm kind", r"encoder\.block\.0\.norm_self", r"source\.layers\.0\.pre_attention")
plant("t5", "relu", "activation", "activation", r"decoder\.block\.0\.DenseReluDense", r"target\.layers\.0\.mlp")
plant(
    "t5", "padding seen by the decoder", "padding ignored", "mask",
    r"|decoder\.block\.0\.EncDecAttention", r"|target|target\.layers\.0\.cross",
)  # fmt: skip
plant(
    "t5", "memory without norm", "norm order", MOVED,
    r"encoder\.final_layer_norm|decoder\.block\.0\.EncDecAttention\.[kv]", r"source\.norm|source|target\.layers\.0\.cross",
)  # fmt: skip
plant("t5", "cast", "dtype cast", "cast", r"encoder\.block\.0\.norm_self", r"source\.layers\.0\.pre_attention", mode="bfloat16")
plant("t5", "not transposed", "transposed square weight", "transposed", first + r"\.o", ported, swap=True)
plant("t5", "gate and value", "order of q/k/v", FUSED, r"encoder\.block\.0\.DenseReluDense(\.wi_[01])?", r"source\.layers\.0\.mlp")

# ViT.
block = r"encoderblock\.0"
plant("vit", "channels first in the kernel", "layout", "weights|exchanged|none", r"patch_embed\.proj", "")
plant("vit", "positions from the class token", "positions off by one", "position offset|none", "", "")
plant("vit", "epsilon", "epsilon", "epsilon", r"blocks\.0\.norm1", block)
plant("vit", "gelu by tanh", "activation", "activation", r"blocks\.0\.mlp\.act", block, swap=True)
plant("vit", "mean of all tokens", "pooling", EXCHANGED, r"|head", "")
plant("vit", "norm after pooling of patches", "pooling", MOVED + "|none", r"|norm", r"|encoder_norm")
plant("vit", "no layer scale", "residual scale", "residual|scale|none", r"blocks\.0(\.ls1)?", block)
plant("vit", "read as heads first", "order of heads", "fused layout|head order|weights", r"blocks\.0\.attn(\.qkv)?", block)
plant("vit", "not transposed", "transposed square weight", "transposed", r"blocks\.0\.attn\.proj", block)
plant("vit", "normalised again", "no name", "scale|none", r"|patch_embed\.proj", "", swap=True)
plant("vit", "columns first", "layout", EXCHANGED, r"|patch_embed\.proj", "")
plant("vit", "no bias", "missing bias", "bias", r"blocks\.1\.mlp\.fc2", r"encoderblock\.1", layer=1)
plant("vit", "rms", "norm kind", "norm kind", r"blocks\.0\.norm1", block)
plant("vit", "unbiased variance", "norm kind", "norm kind|none", r"blocks\.0\.norm1", block)
plant("vit", "residual halved", "residual scale", "residual|scale", r"blocks\.0", block)
plant("vit", "heads inside", "order of heads", "head order|exchanged|fused layout", r"blocks\.0\.attn(\.proj)?", block)

# CLIP; each side begins with another tower.
either_a, either_b = r"(text|vision)_model\.layers\.0", r"(transformer|visual)\.0"
plant("clip", "gelu", "activation", "activation", either_a + r"\.mlp\.activation_fn", either_b)
plant("clip", "last token", "pooling", EXCHANGED, r"text_model(\.final_layer_norm)?", r"|ln_final")
plant("clip", "first end", "pooling", EXCHANGED, r"text_model(\.final_layer_norm)?", r"|ln_final", swap=True)
plant("clip", "temperature as it is", "scale", "scale|activation", "", "")
plant("clip", "text not normalised", "norm kind", "norm placement|none", "", "")
plant("clip", "no norm before", "norm order", MOVED, r"vision_model\.pre_layernorm", r"|visual\.0(\.ln_1)?")
plant("clip", "text not causal", "mask off by one", "causal|mask", r"text_model(\.layers\.0\.self_attn)?", r"|transformer\.0")
plant("clip", "projection not transposed", "transposed square weight", "transposed", r"visual_projection", "")
plant("clip", "projection of the text", "wrong layer's weights", "weights", r"visual_projection", "", swap=True)
plant("clip", "positions from one", "positions off by one", "position offset", r"text_model(\.position_embedding)?", "")
plant("clip", "patches with a bias", "missing bias", "bias", r"vision_model\.patch_embedding", r"conv1")
plant("clip", "norms without bias", "missing bias", "norm bias|bias", either_a + r"\.layer_norm1", either_b + r"\.ln_1", swap=True)
plant("clip", "order of the projections", "order of q/k/v", FUSED, either_a + r"\.self_attn(\.[qkv]_proj)?", either_b)
plant("clip", "patches by column", "layout", EXCHANGED, r"vision_model", "")
plant("clip", "pooled by mean", "pooling", EXCHANGED, r"vision_model(\.post_layernorm)?", r"|ln_post")

# Whisper.
plant("whisper", "sines and cosines in turn", "positions", EXCHANGED, r"encoder", r"audio")
plant("whisper", "same padding", "no name", "none", r"encoder\.conv2", r"audio")
plant("whisper", "kernel reversed", "layout", "weights|exchanged|none", r"encoder\.conv1", r"audio")
plant("whisper", "gelu by tanh", "activation", "activation", r"encoder\.layers\.0", r"audio\.blocks\.0")
plant(
    "whisper", "positions from one", "positions off by one", "position offset", r"decoder(\.embed_positions)?", r"text", swap=True
)
plant("whisper", "twice the heads", "head width", "head width", r"encoder\.layers\.0\.self_attn", r"audio\.blocks\.0\.attn")
plant("whisper", "embedding scaled", "embedding scale", "embedding scale|scale", r"decoder", r"text")
plant(
    "whisper", "memory without norm", "norm order", MOVED,
    r"encoder\.layer_norm|decoder\.layers\.0\.encoder_attn\.[kv]_proj",
    r"audio(\.ln_post)?|text\.blocks\.0\.cross_attn\.(key|value)",
)  # fmt: skip
plant("whisper", "both scaled", "scale of scores", SCORES, r"encoder\.layers\.0\.self_attn", r"audio\.blocks\.0\.attn")
plant(
    "whisper",
    "not causal",
    "mask off by one",
    "causal|mask",
    r"decoder|decoder\.layers\.0\.self_attn",
    r"text|text\.blocks\.0\.attn",
)
plant("whisper", "one ahead", "mask off by one", MASK, r"decoder|decoder\.layers\.0\.self_attn", r"text|text\.blocks\.0\.attn")
plant(
    "whisper", "no norm before cross-attention", "norm order", MOVED,
    r"decoder\.layers\.0\.encoder_attn_layer_norm|decoder\.layers\.0\.encoder_attn\.q_proj", r"text\.blocks\.0\.cross_attn\.query",
)  # fmt: skip
plant(
    "whisper", "cross-attention of the layer before", "wrong layer's weights", "weights",
    r"decoder\.layers\.1\.encoder_attn\.[qkv]_proj", r"text\.blocks\.1\.cross_attn\.(query|key|value)",
)  # fmt: skip
plant(
    "whisper", "not transposed", "transposed square weight", "transposed",
    r"encoder\.layers\.0\.self_attn\.out_proj", r"audio\.blocks\.0\.attn\.out", swap=True,
)  # fmt: skip

# Experts.
mlp_a, route, attend = r"layers\.0\.mlp(\..*)?", r"stages\.0\.route", r"stages\.0\.attend"
plant("moe", "weights not normalised", "no name", "none", mlp_a, route)
plant("moe", "no routed scale", "scale", "scale", mlp_a, route)
plant("moe", "one expert", "no name", "none", mlp_a, route)
plant("moe", "sigmoid router", "no name", "activation|none", r"layers\.0\.mlp", route, swap=True)
plant("moe", "experts rotated", "wrong layer's weights", "weights|exchanged", mlp_a, route)
plant("moe", "halves", "order of q/k/v", "fused layout|exchanged", mlp_a, route)
plant("moe", "no shared expert", "no name", "residual|none", mlp_a, r"stages\.0(\.route)?")
plant("moe", "shared expert without gate", "no name", "none", mlp_a, route)
plant("moe", "base", "rope base", "rope base", attn_a, attend, swap=True)
plant("moe", "interpolated", "scaling", "rope scaling", attn_a, attend)
plant("moe", "neighbours", "rope layout", "rope layout", attn_a, attend)
plant("moe", "keys one on", "positions off by one", "rope offset|position offset", attn_a, attend)
plant("moe", "epsilon of the head norms", "epsilon", "epsilon", r"layers\.0\.self_attn\.[qk]_norm", r"stages\.0\.attend\.[qk]n")
plant("moe", "no head norms", "norm order", MOVED, r"layers\.0\.self_attn\.[qk]_norm", attend, swap=True)
plant("moe", "cast", "dtype cast", "cast", r"layers\.0\.input_layernorm", r"stages\.0\.pre", mode="bfloat16")
plant("moe", "tied", "tied embeddings", "tied head|weights", r"lm_head", "")
plant("moe", "no bias of values", "missing bias", "bias", r"layers\.0\.self_attn\.v_proj", attend)

plant("moe", "softmax over the tokens", "softmax axis", "softmax axis", r"layers\.0\.mlp", route)
plant("moe", "tiled", "KV repeat order", "head order", attn_a, attend)
plant("moe", "backwards", "rope direction", "rope direction", attn_a, attend)
plant("mixtral", "window plus one", "window", "window", attn_a, attend, swap=True)
plant("mixtral", "no window", "window", "window|mask", attn_a, attend)
plant("grok", "no cap", "soft-cap", "soft-cap", attn_a, attend)
plant("gpt-oss", "no sink", "sink", "none", attn_a, attend)
plant("gpt-oss", "sinks of other heads", "sink", "weights|exchanged|none", attn_a, attend)
plant("glm", "rotary width", "rope width", "rope width", attn_a, attend)

# Mamba.
mixer, ssm = r"layers\.0\.mixer", r"ssms\.0"
plant("mamba", "kernel reversed", "layout", "weights|exchanged|none", mixer + r"(\.conv1d)?", ssm)
plant("mamba", "convolution centred", "no name", "causal|none", mixer + r"(\.conv1d)?", ssm)
plant("mamba", "no bias of the step", "missing bias", "bias", mixer + r"\.dt_proj", ssm)
plant("mamba", "relu of the step", "activation", "activation", mixer, ssm)
plant("mamba", "gate first", "order of q/k/v", FUSED, mixer + r"(\.in_proj|\.conv1d)?", ssm, swap=True)
plant("mamba", "inputs and outputs of the state", "order of q/k/v", "fused layout|exchanged", mixer, ssm)
plant("mamba", "logarithm not undone", "no name", "activation|none", mixer, ssm)
plant("mamba", "exact step", "no name", "none", mixer, ssm)
plant("mamba", "no skip", "residual scale", "residual|none", mixer, ssm)
plant("mamba", "sigmoid gate", "activation", "activation", mixer, ssm, swap=True)
plant("mamba", "epsilon", "epsilon", "epsilon", r"layers\.0\.norm", r"norms\.0")
plant("mamba", "layer before", "wrong layer's weights", "weights", r"layers\.1\.mixer", r"ssms\.1")
plant("mamba", "norm behind", "norm order", MOVED, r"layers\.0\.norm|layers\.0\.mixer\.in_proj", ssm)
plant("mamba", "residual scaled", "residual scale", "residual|scale", r"layers\.0", "")

# A diffusion transformer.
joint = r"transformer_blocks\.0"
plant("dit", "sines first", "positions", EXCHANGED, r"t_embedder(\.mlp\.0)?", "")
plant("dit", "one frequency less", "no name", "none", r"t_embedder", "")
plant("dit", "time in thousandths", "scale", "scale", r"|t_embedder", "")
plant("dit", "classes from one", "positions off by one", EXCHANGED, r"y_embedder(\.embedding_table)?", "", swap=True)
plant("dit", "rows and columns", "positions", EXCHANGED, "", "")
plant("dit", "scale before shift", "order of q/k/v", "fused layout|exchanged", r"blocks\.0(\.adaLN_modulation\.1)?", joint)
plant("dit", "gates exchanged", "order of q/k/v", "fused layout|exchanged", r"blocks\.0(\.adaLN_modulation\.1)?", joint, swap=True)
plant("dit", "scale without the one", "no name", EXCHANGED, r"blocks\.0", joint)
plant("dit", "no gates", "residual scale", "residual|" + EXCHANGED, r"blocks\.0", joint)
plant("dit", "no activation before the modulation", "activation", "activation", r"blocks\.0\.adaLN_modulation\.[01]", joint)
plant("dit", "exact gelu", "activation", "activation", r"blocks\.0\.mlp\.1", joint)
plant("dit", "epsilon", "epsilon", "epsilon", r"blocks\.0\.norm1", joint)
plant("dit", "scores not scaled", "scale of scores", SCORES, r"blocks\.0\.attn", joint, swap=True)
plant("dit", "tiled", "KV repeat order", "head order", r"blocks\.0\.attn", joint)
plant("dit", "columns of a patch first", "layout", "exchanged|transposed|none", "", "")
plant("dit", "no bias at the end", "missing bias", "bias", r"final_layer\.linear", "")

# Retrieval.
plant("retrieval", "padding in the mean", "pooling", "mask|none", r"pooling", "")
plant("retrieval", "first token", "pooling", EXCHANGED, r"pooling|dense", "", swap=True)
plant("retrieval", "not normalised", "norm kind", "norm placement|none", "", "")
plant("retrieval", "window one less", "window", "window", r"|layers\.1\.attn", r"|cells\.1")
plant("retrieval", "window on both sides", "window", "window", r"|layers\.1\.attn", r"|cells\.1", swap=True)
plant("retrieval", "bases exchanged", "rope base", "rope base", r"layers\.0\.attn(\.rotary_emb)?", r"cells\.0")
plant("retrieval", "interpolated", "scaling", "rope scaling", r"layers\.0\.attn(\.rotary_emb)?", r"cells\.0")
plant("retrieval", "backwards", "rope direction", "rope direction", r"layers\.0\.attn(\.rotary_emb)?", r"cells\.0", swap=True)
plant("retrieval", "neighbours", "rope layout", "rope layout", r"layers\.0\.attn", r"cells\.0")
norm_a = r"layers\.0\.(attn_norm|attn(\.Wqkv)?)"
plant("retrieval", "norm in the first layer", "norm order", MOVED, norm_a, r"cells\.0", layer=0)
plant("retrieval", "rms", "norm kind", "norm kind", r"layers\.0\.mlp_norm", r"cells\.0")
plant(
    "retrieval", "heads before parts", "order of heads", "fused layout|head order|weights", r"layers\.0\.attn(\.Wqkv)?", r"cells\.0"
)
plant("retrieval", "activation on the gate", "order of q/k/v", "exchanged|fused layout", r"layers\.0\.mlp(\.act)?", r"cells\.0")
plant("retrieval", "padding seen", "padding ignored", "mask", r"|layers\.0\.attn", r"|cells\.0")
plant("retrieval", "epsilon", "epsilon", "epsilon", r"layers\.0\.mlp_norm", r"cells\.0", swap=True)
plant("retrieval", "no last norm", "norm order", MOVED, r"final_norm|pooling", "")
plant("retrieval", "projection not transposed", "transposed square weight", "transposed", r"dense", "")

# Points.
attention, interact = r"layers\.0\.attention", r"interactions\.0"
plant("points", "squared distances", "no name", EXCHANGED, attention + r"(\.rbf|\.cutoff)?", interact)
plant("points", "width of the basis", "no name", "scale|none", attention + r"\.rbf", interact)
plant("points", "no cutoff", "no name", "none", attention + r"(\.cutoff)?", interact)
plant("points", "hard cutoff", "no name", "none", attention + r"(\.cutoff)?", interact, swap=True)
plant("points", "own point seen", "mask off by one", "mask", attention, interact)
plant("points", "softmax over the receivers", "softmax axis", "softmax axis", attention, interact)
plant("points", "mean over the neighbours", "scale", "scale", attention + r"(\.out)?", interact)
plant("points", "towards the neighbour", "residual scale", "scale|residual", r"layers\.0(\.attention)?", interact)
plant("points", "no residual", "residual scale", "residual", r"layers\.0", interact, layer=0)
plant("points", "shifted softplus", "activation", "activation", r"layers\.0\.feed\.2", interact, swap=True)
plant("points", "not centred", "no name", EXCHANGED, r"|layers\.0(\.attention)?", r"|interactions\.0")
plant("points", "energy by mean", "pooling", "scale|none", "", "")
plant("points", "layer twice", "wrong layer's weights", OTHER, r"layers\.1\.norm", r"interactions\.1")
plant("points", "norms without bias", "missing bias", "norm bias|bias|weights", r"layers\.0\.norm", interact)
plant("points", "scaled by the width", "scale of scores", SCORES, attention, interact)

# A table.
plant("tabular", "no bias of numbers", "missing bias", "bias", r"tokenizer", "")
plant("tabular", "no offsets", "no name", EXCHANGED + "|weights", r"tokenizer(\.embeddings)?", "")
plant("tabular", "last token", "pooling", EXCHANGED, r"|last_normalization", r"|norm")
plant("tabular", "mean of the tokens", "pooling", EXCHANGED, r"|last_normalization", r"|norm", swap=True)
plant("tabular", "gate is the other half", "order of q/k/v", "fused layout|exchanged", r"layers\.0", r"rows\.0")
plant(
    "tabular", "norm in the first layer", "norm order", MOVED,
    r"layers\.0(\.norm0|\.attention\.W_[qkv])?", r"rows\.0(\.pre|\.project)?", layer=0,
)  # fmt: skip
plant("tabular", "no relu", "activation", "activation", r"|head", r"norm|head")
plant("tabular", "epsilon of Keras", "epsilon", "epsilon", r"layers\.0\.norm1", r"rows\.0\.mid")
plant("tabular", "epsilon of the scaler", "epsilon", "epsilon", r"scaler", "", swap=True)
plant("tabular", "", "dropout on", "mode", r"layers\.0\.attention(\.dropout)?", r"rows\.0", mode="b", either=True)
plant("tabular", "", "dropout on", "mode", r"scaler", "", mode="a")
plant("tabular", "halved", "residual scale", "residual|scale", r"layers\.0(\.linear1)?", r"rows\.0(\.down)?")
plant("tabular", "numbers not scaled", "norm order", MOVED + "|none", r"scaler|tokenizer", "")
plant("tabular", "not transposed", "transposed square weight", "transposed", r"layers\.0\.attention\.W_out", r"rows\.0\.merge")

# ONNX in float32: B as a graph; a graph has no module paths, so A decides.
plant("gpt2", "gelu", "activation", "activation", r"h\.0\.mlp\.act", "", "onnx")
plant("gpt2", "two positions on", "positions off by one", "position offset", r"|wpe", "", "onnx", swap=True)
plant("gpt2", "not causal", "mask off by one", "causal|mask", r"h\.0\.attn", "", "onnx")
plant("vit", "no bias", "missing bias", "bias", r"blocks\.1\.mlp\.fc2", "", "onnx", layer=1)
plant("vit", "scaled twice", "scale of scores", SCORES, r"blocks\.0\.attn", "", "onnx")
plant("bert", "mask added as it is", "padding ignored", "mask", "|" + self_a, "", "onnx")
plant("bert", "rms", "norm kind", "norm kind", r"encoder\.layer\.0\.attention\.output\.LayerNorm", "", "onnx", swap=True)
plant("t5", "query minus key", "positions", "position bias", bias_a, "", "onnx")
plant("tabular", "geglu", "activation", "activation", r"layers\.0", "", "onnx")
plant("dit", "no gates", "residual scale", "residual|" + EXCHANGED, r"blocks\.0", "", "onnx")
plant("clip", "last token", "pooling", EXCHANGED, r"text_model(\.final_layer_norm)?", "", "onnx")
plant("retrieval", "one base", "rope base", "rope base", r"layers\.0\.attn(\.rotary_emb)?", "", "onnx")

# Dumps: what B's modules returned. A's step is in the module of A that ends in the tensor.
inside, swiglu = r"rotary_emb|layers\.0\.self_attn(\..*)?", r"layers\.0\.mlp(\..*)?"
plant("llama", "base", "rope base", "rope base", inside, r"stack\.0\.mixer", "npz")
plant("llama", "tiled", "KV repeat order", "head order", inside, r"stack\.0\.mixer", "npz", swap=True)
plant("llama", "epsilon", "epsilon", "epsilon", r"layers\.0\.input_layernorm", r"stack\.0\.norm1", "npz")
plant("gemma", "no cap", "soft-cap", "soft-cap", inside, r"stack\.0\.mixer", "safetensors")
plant("gemma", "exact gelu", "activation", "activation", swiglu, r"stack\.0\.ffn", "npz")
plant("bert", "no bias of queries", "missing bias", "bias", r"encoder\.layer\.0\.attention\..*", r"trunk\.0\.mha", "safetensors")
plant(
    "whisper", "both scaled", "scale of scores", SCORES,
    r"encoder\.layers\.0\.self_attn(\..*)?", r"audio\.blocks\.0\.attn\.out", "npz",
)  # fmt: skip
plant(
    "whisper", "cross-attention of the layer before", "wrong layer's weights", "weights",
    r"decoder\.layers\.1\.encoder_attn\.[qkv]_proj", r"text\.blocks\.1\.cross_attn\.(query|key|value)", "safetensors",
)  # fmt: skip
plant("moe", "halves", "order of q/k/v", "fused layout|exchanged", mlp_a, r"stages\.0\.route", "npz")
plant("moe", "no head norms", "norm order", MOVED, r"layers\.0\.self_attn(\..*)?", r"stages\.0\.attend", "safetensors", swap=True)
plant("mamba", "no skip", "residual scale", "residual|none", r"layers\.0\.mixer(\..*)?", r"ssms\.0", "npz")
plant("tabular", "norm in the first layer", "norm order", MOVED, r"layers\.0\..*", r"rows\.0\.pre", "npz", layer=0)
plant("gpt2", "same scale in all layers", "scale of scores", SCORES, r"h\.1\.attn(\..*)?", r"blocks\.1\.attention\.out", "npz")
