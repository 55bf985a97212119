"""What is planted, where it begins and which causes are acceptable: all fixed before `equiscope.parity` ran on any of these pairs.

The author knew the names of the causes and no line of the tool. `never` names operations that cannot be the first differing one
although they are in the right module: a rotary embedding that is wrong does not begin at the softmax.

Where two answers are equally right, both are accepted: a mask that the model makes and its layers apply begins in either; a norm
that is missing or moved is also a step that reads another value ("exchanged"); an untied head has other weights; queries that are
scaled twice are a factor.
"""

import re
from dataclasses import dataclass
from functools import partial

import torch

from ..planted_by_others.cases import Case
from .decoders import Gpt2, Gpt2Port, Llama, LlamaPort
from .encoders import Bert, BertInTorch, BertPort, Clip, ClipPort, ModernBert, ModernBertPort, Vit, VitPort
from .forms import in_form
from .start import trained
from .translators import T5, T5Port, Whisper, WhisperPort
from .windows import Gemma, GemmaPort, Moe, MoePort

FAMILIES = {
    "llama": (Llama, LlamaPort),
    "llama scaled": (partial(Llama, factor=4.0), LlamaPort),
    "llama chunks": (partial(Llama, split=4), LlamaPort),
    "gpt2": (Gpt2, Gpt2Port),
    "gpt2 chunks": (partial(Gpt2, split=5), Gpt2Port),
    "gemma": (Gemma, GemmaPort),
    "moe": (Moe, MoePort),
    "moe chunks": (partial(Moe, split=6), MoePort),
    "bert": (Bert, BertPort),
    "bert in_torch": (Bert, lambda a, fault, at: BertInTorch(a)),
    "modernbert": (ModernBert, ModernBertPort),
    "vit": (Vit, VitPort),
    "clip": (Clip, ClipPort),
    "t5": (T5, T5Port),
    "whisper": (Whisper, WhisperPort),
}


def inputs_of(family):
    left = torch.ones(2, 8, dtype=torch.bool)
    left[1, :3] = False
    return {
        "llama": lambda: (torch.randint(61, (2, 9)),),
        "gpt2": lambda: (torch.randint(47, (2, 9)),),
        "gemma": lambda: (torch.randint(53, (2, 9)),),
        "moe": lambda: (torch.randint(43, (2, 10)),),
        "bert": lambda: (torch.randint(59, (2, 8)), torch.randint(2, (2, 8)), left),
        "modernbert": lambda: (torch.randint(67, (2, 8)), left),
        "vit": lambda: (torch.randn(2, 3, 16, 12),),
        "clip": lambda: (torch.randint(71, (2, 9)),),
        "t5": lambda: (torch.randint(37, (2, 8)), torch.randint(37, (2, 6)), left),
        "whisper": lambda: (torch.randn(2, 6, 14), torch.randint(41, (2, 6))),
    }[family.split()[0]]()


def pair(family, fault="", at=-1, form="torch", dtype=None):
    """The model, its port with the fault, arguments and keyword arguments."""
    torch.manual_seed(29)
    original, port = FAMILIES[family]
    a, inputs = trained(original()), inputs_of(family)
    b = port(a, fault, at).train(fault == "mode")
    if dtype is not None:
        a, b = a.to(dtype), b.to(dtype)
    return a, in_form(b, inputs, form), inputs, {}


@dataclass(frozen=True)
class CaseByOperation(Case):
    """A case that also knows operations of A that are in the right module and cannot be right."""

    never: str = ""

    def right_step(self, parity):
        wrong = parity.step_a is not None and re.fullmatch(self.never, parity.step_a.operation)
        return super().right_step(parity) and not wrong


SOFTMAX = "softmax|_safe_softmax"
TURN = f"{SOFTMAX}|linear|scaled_dot_product_attention|silu|gelu"  # not where a rotary embedding goes wrong
SCORES = "linear|cos|sin|polar|silu|gelu"  # not where scores and masks go wrong

# family, fault, acceptable causes, module of the first differing step in A and in B, operations that are wrong there
# then the layer (else the last) and the form
ROWS = [
    ("llama", "rope base", "rope base", r"layers\.1\.attention(\.rotary)?", r"stack\.1", TURN),
    ("llama", "rope base", "rope base", r"layers\.0\.attention(\.rotary)?", r"", TURN, 0, "onnx"),
    ("llama", "rope base", "rope base", r"layers\.1\.attention(\..*)?", r"", "", -1, "safetensors"),
    ("llama scaled", "rope scaling", "rope scaling", r"layers\.1\.attention(\.rotary)?", r"stack\.1", TURN),
    ("llama", "rope layout", "rope layout", r"layers\.1\.attention(\.rotary)?", r"stack\.1", TURN),
    ("llama", "head order", "head order", r"layers\.1\.attention", r"stack\.1", SCORES),
    ("llama", "softmax scale", "softmax scale", r"layers\.1\.attention", r"stack\.1", SCORES),
    ("llama", "epsilon", "epsilon", r"layers\.1\.attention_norm", r"stack\.1\.in_norm", ""),
    ("llama", "norm kind", "norm kind", r"layers\.0\.attention_norm", r"stack\.0\.in_norm", "", 0),
    ("llama", "cast", "cast", r"layers\.1\.attention_norm", r"stack\.1\.in_norm", ""),
    ("llama", "soft-cap", "soft-cap", r"layers\.1\.attention", r"stack\.1", SCORES),
    ("llama chunks", "mask alignment", "mask alignment", r"|layers\.1\.attention", r"stack\.1", SCORES),
    ("llama", "tied head", "tied head|weights", r"output", r"head", ""),
    ("llama", "activation", "activation", r"layers\.1\.feed_forward(\.act)?", r"stack\.1", SOFTMAX),
    ("gpt2", "activation", "activation", r"h\.1\.mlp", r"blocks\.1", ""),
    ("gpt2", "activation", "activation", r"h\.0\.mlp(\..*)?", r"", "", 0, "npz"),
    ("gpt2", "epsilon", "epsilon", r"h\.1\.ln_2", r"blocks\.1\.ln2", ""),
    ("gpt2", "head width", "head width", r"h\.1\.attn", r"blocks\.1", SCORES),
    ("gpt2", "soft-cap", "soft-cap", r"h\.1\.attn", r"blocks\.1", SCORES),
    ("gpt2", "bias", "bias", r"h\.1\.attn(\.c_proj)?", r"blocks\.1", SOFTMAX),
    ("gpt2 chunks", "mask alignment", "mask alignment", r"h\.1\.attn", r"blocks\.1", SCORES),
    ("gpt2", "tied head", "tied head|weights", r"lm_head", r"", ""),
    ("gpt2", "position offset", "position offset", r"(wpe)?", r"", ""),
    ("gpt2", "position offset", "position offset", r"(wpe)?", r"", "", -1, "onnx"),
    ("gpt2", "mode", "mode", r"(wpe)?", r"drop", ""),
    ("gemma", "embedding scale", "embedding scale", r"(embed_tokens)?", r"", ""),
    ("gemma", "tied head", "tied head|weights", r"lm_head", r"", ""),
    ("gemma", "output cap", "output cap", r"", r"", ""),
    ("gemma", "window", "window", r"layers\.2\.self_attn", r"blocks\.2\.attn", SCORES),
    ("gemma", "soft-cap", "soft-cap", r"layers\.2\.self_attn", r"blocks\.2\.attn", SCORES),
    ("gemma", "head order", "head order", r"layers\.1\.self_attn", r"blocks\.1\.attn", SCORES, 1),
    ("gemma", "softmax scale", "softmax scale", r"layers\.2\.self_attn", r"blocks\.2\.attn", SCORES),
    ("gemma", "softmax scale", "softmax scale", r"layers\.0\.self_attn", r"", SCORES, 0, "onnx"),
    ("gemma", "rope base", "rope base", r"rotary_emb|layers\.1\.self_attn", r"blocks\.1\.attn", TURN, 1),
    ("gemma", "rope scaling", "rope scaling", r"rotary_emb|layers\.2\.self_attn", r"blocks\.2\.attn", TURN),
    ("gemma", "rope layout", "rope layout", r"rotary_emb|layers\.2\.self_attn", r"blocks\.2\.attn", TURN),
    (
        "gemma",
        "norm placement",
        "norm placement|exchanged",
        r"layers\.2(\.post_attention_layernorm)?",
        r"blocks\.2(\.pre_ffw_norm)?",
        "",
    ),
    ("gemma", "norm weight", "norm weight", r"layers\.2\.input_layernorm", r"blocks\.2\.pre_attention_norm", ""),
    ("gemma", "cast", "cast", r"layers\.2\.input_layernorm", r"blocks\.2\.pre_attention_norm", ""),
    ("gemma", "activation", "activation", r"layers\.2\.mlp(\.act_fn)?", r"blocks\.2", ""),
    ("moe", "rope base", "rope base", r"layers\.0\.self_attn(\.rotary_emb)?", r"blocks\.0", TURN, 0),
    ("moe", "rope scaling", "rope scaling", r"layers\.1\.self_attn(\.rotary_emb)?", r"blocks\.1", TURN),
    ("moe", "rope layout", "rope layout", r"layers\.1\.self_attn(\.rotary_emb)?", r"blocks\.1", TURN),
    ("moe", "head order", "head order", r"layers\.1\.self_attn", r"blocks\.1", SCORES),
    ("moe", "window", "window", r"layers\.1\.self_attn", r"blocks\.1", SCORES),
    ("moe", "soft-cap", "soft-cap", r"layers\.1\.self_attn", r"blocks\.1", SCORES),
    ("moe chunks", "mask alignment", "mask alignment", r"layers\.1\.self_attn", r"blocks\.1", SCORES),
    ("moe", "norm kind", "norm kind", r"layers\.1\.input_layernorm", r"blocks\.1\.attention_norm", ""),
    ("moe", "epsilon", "epsilon", r"layers\.1\.input_layernorm", r"", "", -1, "npz"),
    ("moe", "activation", "activation", r"layers\.1\.block_sparse_moe\.experts\.\d", r"blocks\.1\.moe", ""),
    ("bert", "head width", "head width", r"layers\.1\.attention", r"encoder\.1", SCORES),
    ("bert", "bias", "bias", r"layers\.1\.attention_dense", r"encoder\.1\.out_proj", ""),
    ("bert", "epsilon", "epsilon", r"layers\.1\.attention_norm", r"encoder\.1\.norm1", ""),
    (
        "bert",
        "norm placement",
        "norm placement|exchanged",
        r"layers\.1\.attention(\.(query|key|value))?",
        r"encoder\.1(\.(norm1|in_proj))?",
        SOFTMAX,
    ),
    ("bert", "activation", "activation", r"layers\.1\.act", r"encoder\.1", ""),
    ("bert", "position offset", "position offset", r"embeddings(\.position_embeddings)?", r"(places)?", "layer_norm"),
    ("bert", "padding side", "padding side", r"|layers\.0\.attention", r"|encoder\.0", SCORES),
    ("bert", "mode", "mode", r"embeddings\.LayerNorm", r"dropout", ""),
    ("modernbert", "rope base", "rope base", r"layers\.2\.attn", r"blocks\.2", TURN),
    ("modernbert", "rope scaling", "rope scaling", r"layers\.0\.attn", r"blocks\.0", TURN, 0),
    ("modernbert", "rope layout", "rope layout", r"layers\.2\.attn", r"blocks\.2", TURN),
    ("modernbert", "window", "window", r"layers\.2\.attn", r"blocks\.2", SCORES),
    ("modernbert", "padding side", "padding side", r"layers\.2\.attn", r"blocks\.2", SCORES),
    ("modernbert", "activation", "activation", r"layers\.1\.mlp(\.act)?", r"blocks\.1", "", 1),
    ("vit", "head width", "head width", r"blocks\.1\.attn", r"layers\.1", SCORES),
    ("vit", "bias", "bias", r"blocks\.1\.attn(\.qkv)?", r"layers\.1(\.query)?", SOFTMAX),
    ("vit", "epsilon", "epsilon", r"blocks\.0\.norm1", r"", "", 0, "npz"),
    (
        "vit",
        "norm placement",
        "norm placement|exchanged",
        r"blocks\.1\.(norm1|attn(\.qkv)?)",
        r"layers\.1(\.(query|key|value|before))?",
        SOFTMAX,
    ),
    ("vit", "position offset", "position offset|weights", r"", r"", ""),
    ("vit", "activation", "activation", r"blocks\.1\.act", r"", "", -1, "onnx"),
    ("vit", "mode", "mode", r"blocks\.0\.attn\.proj", r"layers\.0\.drop", ""),
    ("clip", "softmax scale", "softmax scale|scale", r"layers\.1\.self_attn", r"resblocks\.1\.attn", SCORES),
    ("clip", "head width", "head width", r"layers\.1\.self_attn", r"resblocks\.1\.attn", SCORES),
    ("clip", "causal", "causal|mask", r"layers\.1\.self_attn", r"resblocks\.1\.attn", SCORES),
    ("clip", "bias", "bias", r"layers\.1\.self_attn(\.out_proj)?", r"resblocks\.1\.attn(\.out_proj)?", SOFTMAX),
    ("clip", "epsilon", "epsilon", r"layers\.1\.layer_norm2", r"resblocks\.1\.ln_2", ""),
    ("clip", "activation", "activation", r"layers\.1\.act", r"resblocks\.1", ""),
    ("clip", "position offset", "position offset", r"(position_embedding)?", r"", "", -1, "onnx"),
    ("t5", "softmax scale", "softmax scale", r"encoder\.0\.self_attention", r"layers\.0", SCORES, 0),
    ("t5", "norm kind", "norm kind", r"decoder\.1\.norm1", r"layers\.3\.pre_self", ""),
    ("t5", "cast", "cast", r"encoder\.1\.norm1", r"layers\.1\.pre_self", "", 1),
    ("t5", "padding side", "padding side", r"|encoder\.0\.self_attention", r"|layers\.0", SCORES),
    ("t5", "embedding scale", "embedding scale", r"(shared)?", r"", ""),
    ("t5", "tied head", "tied head|weights", r"lm_head", r"", ""),
    ("t5", "epsilon", "epsilon", r"decoder\.0\.norm1", r"layers\.2\.pre_self", "", 2),
    (
        "t5",
        "norm placement",
        "norm placement|exchanged",
        r"decoder\.1\.(norm2|cross_attention(\.q)?)",
        r"layers\.3(\.pre_cross)?",
        SOFTMAX,
    ),
    ("t5", "softmax axis", "softmax axis", r"decoder\.1\.cross_attention", r"layers\.3", SCORES),
    ("t5", "position bias", "position bias", r"(encoder_bias(\.table)?)?", r"", ""),
    ("t5", "activation", "activation", r"encoder\.1\.ffn(\..*)?", r"", "", 1, "safetensors"),
    ("whisper", "softmax scale of cross", "softmax scale", r"layers\.1\.encoder_attn", r"dec\.1\.cross", SCORES),
    ("whisper", "norm kind", "norm kind", r"encoder\.layers\.1\.self_attn_layer_norm", r"enc\.1(\.attn_ln)?", "", 1),
    (
        "whisper",
        "norm placement",
        "norm placement|exchanged",
        r"encoder\.layers\.1\.(final_layer_norm|fc1)",
        r"enc\.1(\.(mlp\.0|mlp_ln))?",
        "",
        1,
    ),
    ("whisper", "bias", "bias", r"encoder\.layers\.1\.self_attn(\.v_proj)?", r"enc\.1\.attn(\.value)?", SOFTMAX, 1),
    ("whisper", "bias of cross", "bias", r"layers\.0\.encoder_attn(\.v_proj)?", r"", SOFTMAX, 2, "npz"),
    ("whisper", "head width", "head width", r"layers\.1\.self_attn", r"dec\.1\.attn", SCORES),
    ("whisper", "soft-cap", "soft-cap", r"encoder\.layers\.0\.self_attn", r"enc\.0\.attn", SCORES, 0),
    ("whisper", "activation", "activation", r"layers\.0\.activation_fn", r"dec\.0\.mlp\.1", "", 2),
    ("whisper", "epsilon", "epsilon", r"layers\.1\.final_layer_norm", r"", "", -1, "safetensors"),
    ("whisper", "embedding scale", "embedding scale", r"(embed_tokens)?", r"", ""),
    ("whisper", "position offset", "position offset", r"(embed_positions)?", r"", ""),
    ("whisper", "mode", "mode", r"encoder", r"dropout", ""),
    ("whisper", "stem bias", "bias", r"encoder\.conv2", r"", ""),
]
EMBEDDED = {"mode": "training mode", "embedding scale": "embedding scale"}  # a step that only one side has: that side decides


def planted(family, fault, kinds, a, b, never, at=-1, form="torch"):
    name = f"{family.replace(' ', '_')}-{fault.replace(' ', '_')}-{form}"
    dtype = torch.bfloat16 if fault == "cast" else None
    make = partial(pair, family, fault, at, form, dtype)
    return CaseByOperation(
        name, EMBEDDED.get(fault, fault), frozenset(kinds.split("|")), family.split()[0], form, a, b, make, never
    )


CASES = [planted(*row) for row in ROWS]
HEALTHY = {f"healthy-{family.replace(' ', '_')}-torch": partial(pair, family) for family in FAMILIES}
HEALTHY |= {
    f"healthy-{family}-{form}": partial(pair, family, form=form)
    for family, form in (
        ("gemma", "onnx"),
        ("clip", "onnx"),
        ("gpt2", "onnx"),
        ("vit", "npz"),
        ("whisper", "npz"),
        ("llama", "safetensors"),
    )
}
HEALTHY["healthy-t5-bfloat16"] = partial(pair, "t5", dtype=torch.bfloat16)
