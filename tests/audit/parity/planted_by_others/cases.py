"""The planted differences: two models, the first step that differs on each side, and the cause.

An answer names modules, not tensors: `a` and `b` are patterns of the paths in which the first differing step may be. `kinds`
are the names in `equiscope.audit.CAUSES` that describe the cause; empty where the list has no name for it, so that the right answer
is no cause. Sources of the causes: bug reports of transformers, llama.cpp, vLLM, MLX, litgpt, MaxText and
Megatron.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from .forms import as_dump, as_onnx
from .originals import LENGTH, inputs_of, original
from .ported_encoders import BertPort, T5Port, VitPort
from .ported_gpt import GptPort, NeoxPort
from .ported_llama import LlamaPort

LLAMAS = ("llama", "mistral", "qwen2", "qwen3", "gemma2")
PORTS = dict.fromkeys(LLAMAS, LlamaPort) | {"gpt2": GptPort, "neox": NeoxPort, "bert": BertPort, "t5": T5Port, "vit": VitPort}

# Where a part of a model is: paths in transformers, paths in the port. L is the number of the layer.
_LLAMA = {
    "embed": (r"(model(\.embed_tokens)?)?", r"(tok)?"),
    "rope": (r"model\.rotary_emb|model\.layers\.L\.self_attn", r"blocks\.L\.attn"),
    "attn": (r"model\.layers\.L\.self_attn", r"blocks\.L\.attn"),
    "mask": (r"model|model\.layers\.L\.self_attn", r"blocks\.L\.attn"),
    "qkv": (r"model\.layers\.L\.self_attn(\.[qkv]_proj)?", r"blocks\.L\.attn(\.w[qkv])?"),
    "qk norm": (r"model\.layers\.L\.self_attn(\.[qk]_norm)?", r"blocks\.L\.attn(\.[qk]_gain)?"),
    "norm": (r"model\.layers\.L\.input_layernorm", r"blocks\.L\.attn_norm"),
    "norm or qkv": (r"model\.layers\.L\.(input_layernorm|self_attn\.[qkv]_proj)", r"blocks\.L\.(attn_norm|attn(\.w[qkv])?)"),
    "second norm": (r"model\.layers\.L\.(post_attention_layernorm|pre_feedforward_layernorm)", r"blocks\.L(\.ffn_norm)?"),
    "after attention": (r"model\.layers\.L\.post_attention_layernorm", r"blocks\.L"),
    "layer": (r"model\.layers\.L", r"blocks\.L"),
    "block": (r"model\.layers\.L(\..*)?", r"blocks\.L(\..*)?"),
    "mlp": (r"model\.layers\.L\.mlp(\..*)?", r"blocks\.L\.ffn"),
    "gate": (r"model\.layers\.L\.mlp(\..*)?", r"blocks\.L\.ffn(\..*)?"),
    "final norm": (r"model\.norm", r"(head)?"),
    "head": (r"(lm_head)?", r"(head)?"),
}
_GPT = {
    "embed": (r"transformer(\.(wte|wpe|drop))?", r"(words|drop)?"),
    "attn": (r"transformer\.h\.L\.attn", r"blocks\.L\.mix"),
    "mask": (r"transformer|transformer\.h\.L\.attn", r"blocks\.L\.mix"),
    "qkv": (r"transformer\.h\.L\.attn(\.c_attn)?", r"blocks\.L\.mix"),
    "out": (r"transformer\.h\.L\.attn\.c_proj", r"blocks\.L\.mix(\.merge)?"),
    "norm": (r"transformer\.h\.L\.ln_1", r"blocks\.L\.before"),
    "norm or qkv": (r"transformer\.h\.L\.(ln_1|attn(\.c_attn)?)", r"blocks\.L\.(before|mix)"),
    "second norm": (r"transformer\.h\.L(\.ln_2)?", r"blocks\.L(\.after)?"),
    "layer": (r"transformer\.h\.L", r"blocks\.L"),
    "block": (r"transformer\.h\.L(\..*)?", r"blocks\.L(\..*)?"),
    "mlp": (r"transformer\.h\.L\.mlp(\.act)?", r"blocks\.L"),
    "final norm": (r"transformer\.ln_f", r""),
    "head": (r"(lm_head)?", r""),
}
_NEOX = {
    "embed": (r"gpt_neox(\.(embed_in|emb_dropout))?", r"(words)?"),
    "rope": (r"gpt_neox\.rotary_emb|gpt_neox\.layers\.L\.attention", r"blocks\.L\.mix"),
    "qkv": (r"gpt_neox\.layers\.L\.attention(\.query_key_value)?", r"blocks\.L\.mix(\.packed)?"),
    "norm": (r"gpt_neox\.layers\.L\.input_layernorm", r"blocks\.L\.n1"),
    "second norm": (r"gpt_neox\.layers\.L(\.post_attention_layernorm)?", r"blocks\.L(\.n2|\.widen)?"),
    "mlp": (r"gpt_neox\.layers\.L\.mlp(\.act)?", r"blocks\.L"),
    "head": (r"(lm_head)?", r"(out)?"),
}
_BERT = {
    "embed": (r"embeddings(\.\w+)?", r"(drop)?"),
    "embedding norm": (r"embeddings\.LayerNorm", r"start|layers\.0\.mixer(\.qkv)?"),
    "attn": (r"encoder\.layer\.L\.attention\.self", r"layers\.L\.mixer"),
    "mask": (r"|encoder\.layer\.L\.attention\.self", r"layers\.L\.mixer"),
    "qkv": (r"encoder\.layer\.L\.attention\.self(\.(query|key|value))?", r"layers\.L\.mixer(\.qkv)?"),
    "out": (r"encoder\.layer\.L\.attention\.output(\.dense)?", r"layers\.L\.mixer(\.proj)?"),
    "norm": (r"encoder\.layer\.L\.attention\.output\.LayerNorm", r"layers\.L\.first"),
    "norm or qkv": (r"encoder\.layer\.L\.attention\.self(\.(query|key|value))?", r"layers\.L\.(first|mixer\.qkv)"),
    "after attention": (r"encoder\.layer\.L\.attention\.output(\.\w+)?", r"layers\.L(\.first)?"),
    "mlp": (r"encoder\.layer\.L\.intermediate(\.\w+)?", r"layers\.L"),
}
_T5 = {
    "embed": (r"(encoder(\.(embed_tokens|dropout))?)?", r"(lookup|drop)?"),
    "position bias": (r"encoder\.block\.0\.layer\.0\.SelfAttention(\.\w+)?", r"|layers\.[01]"),
    "second position bias": (r"encoder\.block\.1\.layer\.0\.SelfAttention", r"layers\.1"),
    "attn": (r"encoder\.block\.L\.layer\.0\.SelfAttention", r"layers\.L"),
    "mask": (r"encoder|encoder\.block\.L\.layer\.0\.SelfAttention", r"layers\.L"),
    "qkv": (r"encoder\.block\.L\.layer\.0\.SelfAttention(\.[qkv])?", r"layers\.L"),
    "out": (r"encoder\.block\.L\.layer\.0\.SelfAttention\.o", r"layers\.L"),
    "norm": (r"encoder\.block\.L\.layer\.0\.layer_norm", r"layers\.L"),
    "norm or qkv": (r"encoder\.block\.L\.layer\.0\.(layer_norm|SelfAttention(\.[qkv])?)", r"layers\.L"),
    "mlp": (r"encoder\.block\.L\.layer\.1\.DenseReluDense(\.act)?", r"layers\.L"),
    "final norm": (r"encoder\.final_layer_norm", r"|layers\.1"),
}
_VIT = {
    "patches": (r"embeddings\.patch_embeddings(\.projection)?", r"(embed)?"),
    "embed": (r"embeddings(\.dropout)?", r"(drop)?"),
    "attn": (r"layers\.L\.attention", r"blocks\.L\.attn"),
    "qkv": (r"layers\.L\.attention(\.[qkv]_proj)?", r"blocks\.L\.attn(\.qkv)?"),
    "out": (r"layers\.L\.attention\.o_proj", r"blocks\.L\.attn(\.proj)?"),
    "norm": (r"layers\.L\.layernorm_before", r"blocks\.L\.norm1"),
    "norm or qkv": (r"layers\.L\.(layernorm_before|attention\.[qkv]_proj)", r"blocks\.L\.(norm1|attn\.qkv)"),
    "mlp": (r"layers\.L\.mlp(\.\w+)?", r"blocks\.L"),
    "final norm": (r"layernorm", r"|blocks\.1"),
}
PARTS = dict.fromkeys(LLAMAS, _LLAMA) | {"gpt2": _GPT, "neox": _NEOX, "bert": _BERT, "t5": _T5, "vit": _VIT}


@dataclass(frozen=True)
class Case:
    """Two implementations that differ, and where and why."""

    name: str
    cause: str
    kinds: frozenset[str]
    family: str
    form: str  # torch, onnx, npz
    a: str
    b: str
    make: Callable[[], tuple] = field(repr=False)  # model, model, arguments, keyword arguments

    def right_step(self, parity):
        """Whether the first differing step is where it was planted; an ONNX graph has no module paths, so A decides.

        Dropout and the scale of the embedding are steps of one side only: that side decides, as the other one's first step that
        differs is the next one, whatever it is.
        """
        step = parity.step_a is not None and re.fullmatch(self.a, parity.step_a.module)
        if self.cause in ("training mode", "embedding scale") and self.form == "torch":
            return bool(step or (parity.step_b is not None and re.fullmatch(self.b, parity.step_b.module)))
        if self.form == "torch":
            return bool(step and parity.step_b is not None and re.fullmatch(self.b, parity.step_b.module))
        return bool(step)

    def right_cause(self, parity):
        """Whether the cause is the planted one; where the list has no name for it, no cause may be named."""
        return parity.kind in self.kinds if self.kinds else not parity.kind


CASES: list[Case] = []


class InChunks(nn.Module):
    """A transformers model that reads its prompt in two chunks, with its cache."""

    def __init__(self, model, first):
        super().__init__()
        self.model, self.first = model, first

    def forward(self, input_ids):
        head = self.model(input_ids[:, : self.first], use_cache=True)
        return self.model(input_ids[:, self.first :], past_key_values=head.past_key_values, use_cache=True).logits


RIGHT = torch.tensor([[1] * LENGTH, [1] * 7 + [0] * (LENGTH - 7)])
LEFT = RIGHT.flip(1)


def plant(
    cause,
    kinds,
    part,
    family,
    wrong,
    *,
    note="",
    form="torch",
    layer=0,
    config=None,
    mask=None,
    train=False,
    chunk=0,
    dtype=None,
    length=LENGTH,
    **port,
):
    """One case: `wrong` is what the port of `family` gets wrong, at `part` of `layer`."""
    a, b = (re.sub(r"\bL\b", str(layer), pattern) for pattern in PARTS[family][part])

    def make():
        model = original(family, **(config or {}))
        keys = {"changed": wrong} if family in LLAMAS else {"wrong": wrong}
        other = PORTS[family](model, **keys, **port, **({"chunk": chunk} if chunk else {}))
        other.train(train)
        if dtype is not None:
            model, other = model.to(dtype), other.to(dtype)
        if chunk:
            model = InChunks(model, chunk)
        inputs, kwargs = inputs_of(family, length=length), {} if mask is None else {"attention_mask": mask}
        if form == "onnx":
            other = as_onnx(other, inputs)
        if form == "npz":
            other = as_dump(other, inputs)
        return model, other, inputs, kwargs

    if chunk:
        a = "|".join(f"model.{p}" for p in a.split("|"))
    name = "-".join(part.replace(" ", "_") for part in (cause, family, form, note) if part)
    CASES.append(Case(name, cause, frozenset(kinds.split("|")) if kinds else frozenset(), family, form, a, b, make))


def rope(kind, **keys):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0} | keys}


LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)

# rotary embedding
plant("rope base", "rope base", "rope", "llama", {"base": 5e5})
plant("rope base", "rope base", "rope", "qwen3", {"base": 1e6}, style="einsum")
plant("rope base", "rope base", "rope", "neox", {"rope base"})
plant("rope base", "rope base", "rope", "mistral", {"base": 1e6}, form="onnx", config={"sliding_window": None})
plant("rope scaling", "rope scaling", "rope", "llama", {"scaling": ()}, config=LLAMA3, style="pairs")
plant("rope scaling", "rope scaling", "rope", "mistral", {"scaling": ()}, config=rope("linear", factor=4.0))
plant(
    "rope scaling", "rope scaling", "rope", "qwen2", {"scaling": ("linear", 2.0)}, config=rope("linear", factor=4.0), style="einsum"
)
plant("rope scaling", "rope scaling", "rope", "llama", {"scaling": ("linear", 8.0)}, config=LLAMA3, note="linear_for_llama3")
plant("rope layout", "rope layout", "rope", "llama", {"wrong_pairs": True}, style="pairs")
plant("rope layout", "rope layout", "rope", "qwen2", {"wrong_pairs": True}, style="fused")
plant("rope layout", "rope layout", "rope", "neox", {"rope layout"})
plant("rope layout", "rope layout", "rope", "gemma2", {"wrong_pairs": True}, style="einsum")
plant("rope width", "rope width", "rope", "neox", {"rope width"})
plant("rope width", "rope width", "rope", "llama", {"rotated": 4}, style="einsum")
plant("rope width", "rope width", "rope", "qwen3", {"rotated": 4})
plant("rope direction", "rope direction", "rope", "mistral", {"backwards": True})
plant("rope direction", "rope direction", "rope", "neox", {"rope direction"})
plant("rope direction", "rope direction", "rope", "gemma2", {"backwards": True}, style="pairs")
plant("rope missing", "rope", "rope", "llama", {"rope": False})
plant("rope missing", "rope", "rope", "neox", {"no rope"})
plant("rope missing", "rope", "rope", "qwen2", {"rope": False}, style="einsum")
plant("rope on values", "", "attn", "llama", {"rope_on_values": True}, style="einsum")
plant("rope offset", "rope offset", "rope", "neox", {"queries one ahead"}, note="queries_only")
# attention
plant("head order", "head order", "attn", "llama", {"kv_order": "tile"})
plant("head order", "head order", "attn", "mistral", {"kv_order": "tile"}, style="pairs")
plant("head order", "head order", "attn", "qwen2", {"kv_order": "tile"}, style="einsum")
plant("head order", "head order", "attn", "gemma2", {"kv_order": "tile"}, style="fused")
plant("head width", "head width", "attn", "gpt2", {"head width"})
plant("head width", "head width", "attn", "bert", {"head width"})
plant("head width", "head width", "attn", "vit", {"head width"})
plant("softmax scale", "softmax scale", "attn", "gemma2", {"scale": 8**-0.5}, style="einsum")
plant("softmax scale", "softmax scale", "attn", "t5", {"scaled"})
plant("softmax scale", "softmax scale", "attn", "gpt2", {"no scale"})
plant("softmax scale", "softmax scale", "attn", "bert", {"scale of width"})
plant("softmax scale", "softmax scale", "attn", "vit", {"no scale"}, form="onnx")
plant("softmax scale", "softmax scale", "attn", "llama", {"scale": 32**-0.5}, note="sdpa", config={"attention": "sdpa"})
plant("soft-cap", "soft-cap", "attn", "gemma2", {"score_cap": 0.0}, note="missing")
plant("soft-cap", "soft-cap", "attn", "gemma2", {"score_cap": 2.0}, note="other_value", style="einsum")
plant("soft-cap", "soft-cap", "attn", "gpt2", {"score cap"})
plant("soft-cap", "soft-cap", "attn", "bert", {"score cap"})
plant("soft-cap", "soft-cap", "attn", "t5", {"score cap"})
plant("output cap", "output cap", "head", "gemma2", {"output_cap": 0.0}, style="pairs")
plant("output cap", "output cap", "head", "gpt2", {"output cap"})
plant("output cap", "output cap", "head", "llama", {"output_cap": 4.0})
plant("window", "window", "mask", "mistral", {"windows": (5, 5)}, note="one_more")
plant("window", "window", "mask", "mistral", {"windows": (3, 3)}, note="one_less", style="einsum")
plant("window", "window", "mask", "gemma2", {"windows": (5, 0)}, style="einsum")
plant(
    "window",
    "window",
    "mask",
    "qwen2",
    {"windows": (5, 5)},
    config={"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0},
)
plant("window", "window|mask", "mask", "gemma2", {"windows": (0, 4)}, note="other_layers", style="pairs")
plant("window", "window|mask", "mask", "mistral", {"windows": (0, 0)}, note="ignored")
plant("causal", "causal|mask", "mask", "gpt2", {"not causal"})
plant("causal", "causal|mask", "mask", "llama", {"causal": False})
plant("causal", "causal|mask", "attn", "bert", {"causal"})
plant("causal", "causal|mask", "attn", "t5", {"causal"})
plant("causal", "causal|mask", "mask", "gpt2", {"strict causal"}, note="diagonal_hidden")
plant("mask alignment", "mask alignment", "mask", "llama", {"top_left": True}, chunk=6)
plant(
    "mask alignment",
    "mask alignment",
    "mask",
    "mistral",
    {"top_left": True},
    chunk=6,
    config={"sliding_window": None},
    style="einsum",
)
plant("mask alignment", "mask alignment", "mask", "qwen3", {"top_left": True}, chunk=5, style="einsum")
plant("padding side", "padding side", "mask", "gpt2", {"padding side"}, mask=LEFT)
plant("padding side", "padding side", "mask", "bert", {"padding side"}, mask=LEFT)
plant("padding side", "padding side", "mask", "t5", {"padding side"}, mask=LEFT)
plant("padding side", "padding side", "mask", "llama", {"padding": "lengths", "hidden": "lowest"}, mask=LEFT, style="einsum")
plant("padding ignored", "mask|padding side", "mask", "bert", {"padding ignored"}, mask=RIGHT)
plant(
    "padding ignored",
    "mask|padding side",
    "mask",
    "llama",
    {"padding": "ignored"},
    mask=LEFT,
    style="einsum",
    config={"attention": "eager"},
)
plant("mask value", "mask", "mask", "bert", {"mask value"}, mask=RIGHT)
plant("softmax axis", "softmax axis", "attn", "gpt2", {"softmax axis"})
plant("softmax axis", "softmax axis", "attn", "bert", {"softmax axis"})
plant("softmax axis", "softmax axis", "attn", "vit", {"softmax axis"})
plant("position bias", "position bias", "position bias", "t5", {"one sided"}, note="one_sided")
plant("position bias", "position bias", "position bias", "t5", {"mirrored"}, note="mirrored")
plant("position bias", "position bias", "position bias", "t5", {"farther"}, note="farther")
plant("position bias", "position bias", "second position bias", "t5", {"bias once"}, note="first_layer_only")
# norms
plant("epsilon", "epsilon", "norm", "llama", {"eps": 1e-5})
plant("epsilon", "epsilon", "norm", "gpt2", {"epsilon"})
plant("epsilon", "epsilon", "norm", "t5", {"epsilon"})
plant("epsilon", "epsilon", "norm", "vit", {"epsilon"})
plant("epsilon", "epsilon", "embedding norm", "bert", {"epsilon"})
plant("epsilon", "epsilon", "norm", "gpt2", {"epsilon"}, form="onnx")
plant("norm kind", "norm kind", "norm", "llama", {"norm": "layer"}, style="pairs")
plant("norm kind", "norm kind", "norm", "t5", {"layer norm"})
plant("norm kind", "norm kind", "norm", "gpt2", {"rms norm"})
plant("norm kind", "norm kind|epsilon", "embedding norm", "bert", {"unbiased std"}, note="unbiased")
plant("norm kind", "norm kind", "norm", "vit", {"rms norm"})
plant("norm placement", "norm placement", "norm or qkv", "llama", {"norm_position": "after"}, style="pairs")
plant("norm placement", "norm placement", "norm or qkv", "gpt2", {"post norm"})
plant("norm placement", "norm placement", "norm or qkv", "vit", {"post norm"})
plant("norm placement", "norm placement", "norm or qkv", "t5", {"post norm"})
plant("norm placement", "norm placement", "norm or qkv", "bert", {"pre norm"})
plant("norm missing", "norm placement", "after attention", "gemma2", {"sandwich": False})
plant("norm missing", "norm placement", "final norm", "gpt2", {"no final norm"})
plant("norm missing", "norm placement", "final norm", "t5", {"no final norm"})
plant("norm missing", "norm placement", "embedding norm", "bert", {"no embedding norm"})
plant("norm placement", "norm placement", "qk norm", "qwen3", {"qk_norm": "after"}, note="after_rope")
plant("norm missing", "norm placement", "qk norm", "qwen3", {"qk_norm": ""}, note="qk")
plant("norm weight", "norm weight", "norm", "gemma2", {"norm_shift": 0.0})
plant("norm weight", "norm weight", "norm", "llama", {"norm_shift": 1.0}, style="einsum")
plant("norm weight", "norm weight", "norm", "gpt2", {"no norm weight"})
plant("norm bias", "norm bias", "norm", "gpt2", {"no norm bias"})
plant("norm bias", "norm bias", "norm", "vit", {"no norm bias"})
plant("norm bias", "norm bias", "embedding norm", "bert", {"no norm bias"})
plant("cast before the weight", "cast", "norm", "llama", {"cast_first": False}, dtype=torch.bfloat16)
plant("cast before the weight", "cast", "norm", "qwen3", {"cast_first": False}, dtype=torch.bfloat16, style="pairs")
plant("cast before the weight", "cast", "norm", "gemma2", {"cast_first": True}, dtype=torch.bfloat16, style="einsum")
# embedding, positions, head
plant("embedding scale", "embedding scale", "embed", "gemma2", {"embed_scale": 1.0})
plant("embedding scale", "embedding scale", "embed", "llama", {"embed_scale": 32**0.5}, style="pairs")
plant("embedding scale", "embedding scale", "embed", "bert", {"embedding scale"})
plant("embedding scale", "embedding scale", "embed", "t5", {"embedding scale"})
plant("position offset", "position offset", "embed", "gpt2", {"position offset"})
plant("position offset", "position offset", "embed", "bert", {"position offset"})
plant("position offset", "position offset", "embed", "vit", {"position offset"})
plant("position offset", "position offset", "embed", "gpt2", {"positions of the mask"}, mask=LEFT, note="from_the_mask")
plant("position offset", "position offset", "embed", "bert", {"position offset"}, form="onnx")
plant("tied head", "tied head", "head", "llama", {"tied": True})
plant("tied head", "tied head", "head", "gpt2", {"tied"})
plant("tied head", "tied head", "head", "neox", {"tied"})
plant("tied head", "tied head", "head", "qwen2", {"tied": True}, form="onnx")
# projections
plant("bias missing", "bias", "qkv", "qwen2", {"qkv_bias": False})
plant("bias missing", "bias", "qkv", "gpt2", {"no bias"})
plant("bias missing", "bias", "qkv", "vit", {"no bias"})
plant("bias missing", "bias", "qkv", "neox", {"no bias"})
plant("bias missing", "bias", "out", "bert", {"no output bias"})
plant("bias missing", "bias", "patches", "vit", {"no patch bias"}, form="onnx")
plant("weight transposed", "transposed", "out", "gpt2", {"transposed"})
plant("weight transposed", "transposed", "out", "bert", {"transposed"})
plant("weight transposed", "transposed", "out", "vit", {"transposed"})
plant("weight transposed", "transposed", "out", "t5", {"transposed"})
plant("fused layout", "fused layout", "qkv", "neox", {"fused layout"})
plant(
    "fused layout",
    "fused layout|weights|exchanged",
    "qkv",
    "llama",
    {"swapped": "kv"},
    config={"num_key_value_heads": 4},
    note="kv_swapped",
)
plant("fused layout", "fused layout|weights|exchanged", "qkv", "gpt2", {"kv swapped"}, note="kv_swapped")
plant("fused layout", "fused layout|weights|exchanged", "qkv", "vit", {"kv swapped"}, note="kv_swapped")
plant("gate and up swapped", "weights|fused layout|activation|exchanged", "gate", "llama", {"swapped": "gate"})
plant("gate and up swapped", "weights|fused layout|activation|exchanged", "gate", "mistral", {"swapped": "gate"}, style="pairs")
plant("gate and up swapped", "weights|fused layout|activation|exchanged", "gate", "gemma2", {"swapped": "gate"}, style="einsum")
plant("weights of another layer", "weights", "block", "llama", {"last_layer_twice": True}, layer=1)
plant("weights of another layer", "weights", "block", "gpt2", {"layers swapped"})
plant("another segment", "weights|position offset|bias", "embed", "bert", {"other segment"})
plant("segments missing", "bias|weights", "embed", "bert", {"no segments"})
# mended: both differ in the order of the tokens, for which "a step reads another value" is named now
plant("order of pixels", "weights|exchanged", "patches", "vit", {"columns first"}, note="in_a_patch")
plant("class token last", "exchanged", "embed", "vit", {"class token last"})
# feed-forward and residual
plant("activation", "activation", "mlp", "gpt2", {"exact gelu"})
plant("activation", "activation", "mlp", "llama", {"act": "gelu"})
plant("activation", "activation", "mlp", "bert", {"relu"})
plant("activation", "activation", "mlp", "vit", {"quick gelu"})
plant("activation", "activation", "mlp", "t5", {"gelu"})
plant("activation", "activation", "mlp", "gemma2", {"act": "gelu"}, style="einsum")
plant("activation", "activation", "mlp", "neox", {"tanh gelu"})
plant("activation", "activation", "mlp", "vit", {"quick gelu"}, form="onnx")
plant("residual", "residual", "second norm", "gpt2", {"normed residual"}, note="of_the_norm")
plant("residual", "residual|norm placement", "layer", "llama", {"residual": "normed"}, note="of_the_norm")
plant("residual", "residual", "second norm", "neox", {"sequential"}, note="sequential")
plant("residual", "residual", "second norm", "llama", {"residual": "parallel"}, note="parallel")
plant("residual", "residual", "second norm", "gpt2", {"no residual"}, note="missing")
plant("residual", "residual", "after attention", "bert", {"no residual"}, note="missing")
plant("one norm for two", "weights|norm weight|exchanged", "second norm", "neox", {"one norm"})
# mode
plant("training mode", "mode", "embed", "gpt2", set(), train=True, dropout=0.1)
plant("training mode", "mode", "embed", "bert", set(), train=True, dropout=0.1)
plant("training mode", "mode", "embed", "t5", set(), train=True, dropout=0.1)
plant("training mode", "mode", "embed", "vit", set(), train=True, dropout=0.1)
# named activations of another framework
plant("activation", "activation", "mlp", "gpt2", {"exact gelu"}, form="npz")
plant("activation", "activation", "mlp", "bert", {"relu"}, form="npz")
plant("norm kind", "norm kind", "norm", "gpt2", {"rms norm"}, form="npz")
plant("position offset", "position offset", "embed", "bert", {"position offset"}, form="npz")
plant("bias missing", "bias", "out", "bert", {"no output bias"}, form="npz")
plant("weight transposed", "transposed", "out", "gpt2", {"transposed"}, form="npz")
plant("tied head", "tied head", "head", "llama", {"tied": True}, form="npz")
# the last layer only, one row only, long prompts only
plant("activation", "activation", "mlp", "llama", {"act": "gelu"}, layer=1, only=1, note="last_layer")
plant("epsilon", "epsilon", "norm", "gpt2", {"epsilon"}, layer=1, only=1, note="last_layer")
plant("head order", "head order", "attn", "qwen2", {"kv_order": "tile"}, layer=1, only=1, note="last_layer")
plant("softmax scale", "softmax scale", "attn", "vit", {"scale of width"}, layer=1, only=1, note="last_layer")
plant("rope base", "rope base", "rope", "mistral", {"base": 1e6}, layer=1, only=1, note="last_layer")
plant("bias missing", "bias", "qkv", "bert", {"no bias"}, layer=1, only=1, note="last_layer")
plant("activation", "activation", "mlp", "llama", {"act": "relu"}, row=1, note="second_row")
plant("rope base", "rope base", "rope", "llama", {"base": 1e6}, row=1, note="second_row")
plant("rope scaling", "rope scaling", "rope", "llama", {"scaling": ("linear", 4.0)}, beyond=16, length=24, note="long_prompts")
plant("window", "window|mask", "mask", "llama", {"windows": (16, 16)}, length=24, note="long_prompts")
# two at once: the first in the order of computation is the answer
plant("two at once", "epsilon", "norm", "llama", {"eps": 1e-5, "base": 5e5}, note="epsilon_then_rope")
plant("two at once", "rope base", "rope", "qwen3", {"base": 1e6, "act": "gelu"}, note="rope_then_activation")
plant("two at once", "position offset", "embed", "bert", {"position offset", "tanh gelu"}, note="offset_then_activation")
plant("two at once", "bias", "qkv", "gpt2", {"no bias", "no scale"}, note="bias_then_scale")
plant("two at once", "norm placement", "norm or qkv", "vit", {"post norm", "quick gelu"}, note="placement_then_activation")
