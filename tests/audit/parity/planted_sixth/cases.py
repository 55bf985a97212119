"""What is planted, where it begins, and which causes are right: all fixed before `equiscope.parity` ran on any of these pairs.

The author knew the names of the causes, docs/howto/parity.md and the cases of planted_five_a, and no line of the tool. The plants
are faults that bug reports of transformers, vLLM, llama.cpp, timm and MLX describe. "none" among the kinds: no name fits.

Where two answers are equally right, both are accepted, as in planted_five_a. What is left out is a step that reads another value.
As class token and registers are not rotated, moved patches are an offset.
"""

from functools import partial

import torch

from ..planted_fourth.cases import Planted
from ..planted_fourth.forms import in_form
from ..planted_third.start import trained
from . import albert, dino, perceiver, phi3

FAMILIES = {
    "phi3": (phi3.Phi3, phi3), "albert": (albert.Albert, albert),
    "perceiver": (perceiver.Perceiver, perceiver), "dino": (dino.DinoVisionTransformer, dino),
}  # fmt: skip
CASES: list[Planted] = []


def pair(family, fault="", layer=-1):
    """A, B and the inputs."""
    model, module = FAMILIES[family]
    torch.manual_seed(sum(map(ord, family)))
    a = trained(model())
    return a, module.Port(a, fault, layer).eval(), module.inputs()


def made(family, fault="", layer=-1, form="torch", swap=False):
    """What `eq.parity` gets: B in the form, the sides exchanged if swap."""
    a, b, inputs = pair(family, fault, layer)
    b = in_form(b, inputs, form)
    return (b, a, inputs, {}) if swap else (a, b, inputs, {})


def plant(family, fault, kinds, a, b="", form="torch", layer=-1, swap=False):
    """Add a case. kinds: names of `equiscope.audit.CAUSES` with | between; the first is the cause. a, b: as in `Planted`."""
    parts = [family, fault, *([f"layer {layer}"] if layer >= 0 else []), form, *(["swapped"] if swap else [])]
    names, make = kinds.split("|"), partial(made, family, fault, layer, form, swap)
    CASES.append(Planted("-".join(parts).replace(" ", "_"), names[0], frozenset(names), family, form, a, b, make, swap=swap))


SCORES, OTHER, FUSED = "softmax scale|scale", "exchanged|none", "fused layout|weights|exchanged"

rope, attn, heads = r"rotary_emb|layers\.0\.self_attn", r"layers\.0\.self_attn", r"blocks\.0\.heads"
plant("phi3", "whole head rotated", "rope width", rope, "|" + heads)
plant("phi3", "end of the head rotated", "rope layout|rope width|" + OTHER, attn, heads)
plant("phi3", "no factor of the attention", "rope scaling|scale", rope, "|" + heads, swap=True)
plant("phi3", "matrix by groups", FUSED + "|head order", attn + r"(\.qkv_proj)?", heads)
plant("phi3", "no window", "window|mask", r"|layers\.1\.self_attn", r"|blocks\.1\.heads", layer=1)
plant("phi3", "scaled by the rotated width", SCORES, r"layers\.1\.self_attn", r"blocks\.1\.heads", layer=1, swap=True)
plant("phi3", "window plus one", "window", "|" + attn, form="onnx")
plant("phi3", "long factors", "rope scaling", rope, form="onnx", swap=True)
plant("phi3", "epsilon of the last norm", "epsilon", "norm", "last", "npz")
plant("phi3", "keys tiled", "head order", attn + r"(\..*)?", heads, "safetensors")

deep, shared = "albert_layer", "layer|other"
plant("albert", "depths not tied", "weights", deep + r"\.attention(\.(query|key|value))?", "other")
plant("albert", "types all zero", OTHER, r"embeddings(\.token_type_embeddings)?")
plant("albert", "mask the other way round", "mask", rf"|{deep}\.attention", "|" + shared, swap=True)
plant("albert", "input of the layer in its second residual", "residual|exchanged", deep, shared)
plant("albert", "one depth fewer", OTHER + "|residual", deep + r"(\..*)?", "|" + shared)
plant("albert", "last token pooled", OTHER, "|pooler", swap=True)
plant("albert", "positions from two", "position offset", r"embeddings(\.position_embeddings)?", form="onnx")
plant("albert", "types behind the norm", "norm placement|exchanged", r"embeddings(\.LayerNorm)?", form="onnx", swap=True)
plant("albert", "exact gelu", "activation", deep + r"(\.activation|\.ffn_output|\.full_layer_layer_norm)?", shared, "npz", 1)
plant("albert", "epsilon of Keras", "epsilon", deep + r"(\.full_layer_layer_norm)?", shared, "safetensors", swap=True)

attn, look = r"layers\.0\.attention", r"stages\.0\.look"
plant("perceiver", "latents are no keys", OTHER + "|mask", attn + r"(\.to_kv)?", look)
plant("perceiver", "mask at the other end", "mask alignment|mask|padding side|exchanged", "|" + attn, "|" + look, swap=True)
media, later = r"layers\.1\.attention(\.norm_media|\.to_kv)?", r"stages\.1\.look"
plant("perceiver", "features not normalised", "norm placement|exchanged", media, later, layer=1)
plant("perceiver", "residual of the queries", "residual", r"decoder(\.cross_attention(\..*)?|\.final_layer)?", "|decode", swap=True)
plant("perceiver", "softmax over the latents", "softmax axis", attn, look)
plant("perceiver", "matrices of the layer before", "weights", r"layers\.1\.attention(\.to_kv)?", later, layer=1)
plant("perceiver", "positions from one", "position offset|exchanged", "", form="onnx")
plant("perceiver", "quick gelu", "activation", r"layers\.1\.mlp\.act", form="onnx", layer=1, swap=True)
plant("perceiver", "scaled by the width", SCORES, attn + r"(\..*)?", look, "npz")
plant("perceiver", "no norm before the decoder", "norm placement|exchanged", r"norm|decoder(\..*)?", "decode", "safetensors")

rope, mix = r"rope_embeddings|layer\.0\.attention", r"|trunk\.0\.mix"
plant("dino", "registers first", OTHER, "|norm")
plant("dino", "one token not rotated", "rope offset|rope|" + OTHER, rope, mix, swap=True)
plant("dino", "columns before rows", "rope layout|" + OTHER, rope, mix)
plant("dino", "radians", "rope scaling|scale", rope, mix)
plant("dino", "registers in the mean", OTHER + "|mask", "|norm", swap=True)
plant("dino", "no layer scale", "residual|scale|" + OTHER, r"layer\.1", r"trunk\.1", layer=1)
plant("dino", "base", "rope base", rope, form="onnx")
plant("dino", "residual of the normalised", "residual|exchanged|norm placement", r"layer\.1", form="onnx", layer=1, swap=True)
plant("dino", "corners of the patches", "rope offset|position offset|" + OTHER, rope + r"(\..*)?", r"trunk\.0\.mix", "npz")
plant("dino", "up before gate", FUSED, r"layer\.1(\.(gate_proj|up_proj|act_fn|down_proj))?", r"trunk\.1", "safetensors", 1, True)

HARMLESS = [
    ("phi3", "", -1, "torch", True), ("phi3", "gain of the norm in the matrices"), ("albert", "", -1, "onnx"),
    ("albert", "another number in the mask"), ("perceiver", "latents first"), ("perceiver", "queries projected before"),
    ("dino", "", -1, "safetensors"), ("dino", "patches first"),
]  # fmt: skip
HEALTHY = {"-".join(["healthy", *filter(None, h[:2]), *h[3:4]]).replace(" ", "_"): partial(made, *h) for h in HARMLESS}
