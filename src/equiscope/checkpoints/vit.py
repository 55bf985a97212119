"""ViT and DeiT: patches, a class token, learned places on a grid.

Their table of places begins with a row for the class token (and for DeiT's distillation token); here that row is part of
the token itself, which is the same sum.
Sources: Dosovitskiy et al. 2021; Touvron et al. 2021; names as in transformers' ...ForImageClassification.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equiscope.checkpoints.family import ACTIVATION_NAMES, ACTIVATIONS, Family, WeightMap, WeightTransform, affine, refuse
from equiscope.checkpoints.fields import Fields, ParsedConfig, labels
from equiscope.errors import InputError
from equiscope.models import Attention, Block, FeedForward, InputLayer, Norm, OutputLayer, Spec
from equiscope.positions import LearnedNd

LAYER = {
    "attention.q_proj": "attention.attention.query", "attention.k_proj": "attention.attention.key",
    "attention.v_proj": "attention.attention.value", "attention.o_proj": "attention.output.dense",
    "feedforward.up_proj": "intermediate.dense", "feedforward.down_proj": "output.dense",
}  # fmt: skip
ABSENT = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
ARCHITECTURE = {"vit": "ViT", "deit": "DeiT"}


def read(name: str, config: dict[str, Any]) -> ParsedConfig:
    """The spec that config.json describes."""
    f = Fields(name, ABSENT | config)
    f.require("hidden_act", *ACTIVATIONS)
    f.ignore("attention_probs_dropout_prob", "hidden_dropout_prob", "encoder_stride", "pooler_act", "pooler_output_size")
    f.ignore("tie_word_embeddings")
    image, patch = _square(f, "image_size", 224), _square(f, "patch_size", 16)
    if image[0] % patch[0] or image[1] % patch[1]:
        raise InputError(f"config.json: image_size {image} is no multiple of patch_size {patch}.")
    rows, classifies = f"{ARCHITECTURE[name]}Model", f"{ARCHITECTURE[name]}ForImageClassification"
    f.architecture(classifies, rows)
    ending = (config.get("architectures") or [rows])[0]
    classes = labels(config) if ending == classifies else None
    grid = (image[0] // patch[0], image[1] // patch[1])
    spec = Spec(
        f.size("hidden_size"), None,
        InputLayer(
            features=f.size("num_channels", 3) * patch[0] * patch[1], patch=patch, registers=1 if name == "deit" else None,
        ),
        f.size("num_hidden_layers"),
        Block(
            Attention(
                heads=f.size("num_attention_heads"), position=LearnedNd(grid),
                bias=True if f.get("qkv_bias", bool, True) else "output",
            ),
            Norm(eps=f.get("layer_norm_eps", float, 1e-12)),
            FeedForward(f.size("intermediate_size"), ACTIVATIONS[config.get("hidden_act", "gelu")]),
        ),
        readout="class", outputs=classes, output=OutputLayer(bias=True) if classes else OutputLayer(),
    )  # fmt: skip
    return f.finish(spec)


def _square(f: Fields, name: str, default: int) -> tuple[int, int]:
    value = f.get(name, (int, list), default)
    size = (value, value) if isinstance(value, int) else tuple(value)
    if len(size) != 2 or not all(isinstance(n, int) and n > 0 for n in size):
        raise InputError(f"config.json: {name} is {value!r}, but should be one size or [rows, columns].")
    return size[0], size[1]


def write(name: str, spec: Spec) -> dict[str, Any]:
    """config.json of a spec."""
    a, n, f, patch = spec.uniform_block.attention, spec.uniform_block.norm, spec.uniform_block.feedforward, spec.input.patch
    refuse(patch is None or len(patch) != 2, "it cuts images into patches.")
    refuse(not isinstance(a.position, LearnedNd), "places are a learned grid there.")
    refuse(n is None or f is None or f.activation not in ACTIVATION_NAMES, "every layer has norms and a feed-forward there.")
    assert isinstance(a.position, LearnedNd)
    assert patch is not None
    assert n is not None
    assert f is not None
    image = [cells * size for cells, size in zip(a.position.shape, patch, strict=False)]
    config = {
        "model_type": name, "architectures": [f"{ARCHITECTURE[name]}{'ForImageClassification' if spec.outputs else 'Model'}"],
        "hidden_size": spec.width, "num_hidden_layers": spec.layers, "num_attention_heads": a.heads,
        "intermediate_size": f.inner or 4 * spec.width, "hidden_act": ACTIVATION_NAMES[f.activation], "layer_norm_eps": n.eps,
        "image_size": image[0] if image[0] == image[-1] else image, "patch_size": patch[0] if patch[0] == patch[1] else list(patch),
        "num_channels": (spec.input.features or 0) // (patch[0] * patch[1]), "qkv_bias": a.bias is True,
    }  # fmt: skip
    if spec.outputs:
        config["id2label"] = {str(i): f"LABEL_{i}" for i in range(spec.outputs)}
    return config


def weight_maps(name: str, spec: Spec) -> Iterable[WeightMap | WeightTransform]:
    """Their names and ours."""
    rows = 1 + (spec.input.registers or 0)
    own = ("cls_token", "distillation_token")[:rows]
    yield WeightTransform(
        (*(f"embeddings.{token}" for token in own), "embeddings.position_embeddings"), ("readout.row", "position.table.weight"),
        lambda t: [torch.cat([one[0] for one in t[:-1]]) + t[-1][0, :rows], t[-1][0, rows:]], partial(_separate_tokens, rows),
    )  # fmt: skip
    patch = spec.input.patch or (1, 1)
    kernel = ((spec.input.features or 0) // (patch[0] * patch[1]), *patch)
    projection = "embeddings.patch_embeddings.projection"
    yield WeightTransform(
        (f"{projection}.weight",), ("input_layer.proj.weight",), lambda t: [t[0].flatten(1)], lambda t: [t[0].unflatten(1, kernel)]
    )
    yield WeightMap(f"{projection}.bias", ("input_layer.proj.bias",))
    for i in range(spec.layers):
        here, there = f"blocks.{i}", f"encoder.layer.{i}"
        yield from affine(f"{there}.layernorm_before", f"{here}.attention_norm")
        yield from affine(f"{there}.layernorm_after", f"{here}.feedforward_norm")
        for ours, theirs in LAYER.items():
            silent = "attention.attention" in theirs and spec.uniform_block.attention.bias == "output"
            yield from affine(f"{there}.{theirs}", f"{here}.{ours}", not silent)
    yield from affine("layernorm", "norm")
    if spec.outputs:
        yield from affine("classifier", "output_layer.lm_head", bare=True)


def _separate_tokens(rows: int, parts: list[Tensor]) -> list[Tensor]:
    """Tokens of their own shape, and a table whose first rows add nothing to them."""
    row, table = parts
    return [*row.unsqueeze(1).unsqueeze(1), torch.cat([torch.zeros_like(row), table]).unsqueeze(0)]


FAMILIES: tuple[Family, ...] = tuple(
    Family(
        name, partial(read, name), partial(write, name), partial(weight_maps, name), prefix=f"{name}.", table_copies=(),
        ignored=(rf"({name}\.)?pooler\..*", rf"({name}\.)?embeddings\.mask_token"),
        preserved=(r"pooler\..*",),
    )
    for name in ARCHITECTURE
)  # fmt: skip
