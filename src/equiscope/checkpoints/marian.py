"""Marian (OPUS-MT): the transformer of 2017, an encoder and a decoder with sinusoids (all sines, then all cosines) and post-norm.

Its decoder has one table with the encoder and the head, and a bias on the answer.
Sources: Junczys-Dowmunt et al. 2018; Vaswani et al. 2017; names as in transformers' MarianMTModel.
"""

import math
from collections.abc import Iterable
from typing import Any

from equiscope.checkpoints.family import ACTIVATION_NAMES, ACTIVATIONS, Family, WeightMap, WeightTransform, affine, refuse
from equiscope.checkpoints.fields import Fields, ParsedConfig
from equiscope.models import Attention, Block, FeedForward, InputLayer, Norm, OutputLayer, Spec
from equiscope.positions import Sinusoidal

ABSENT = {
    "vocab_size": 58101, "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 16,
    "decoder_attention_heads": 16, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096,
}  # fmt: skip
IGNORED = (  # of generation, training and older versions
    "activation_dropout", "decoder_layerdrop", "dropout", "encoder_layerdrop", "forced_eos_token_id", "init_std", "bad_words_ids",
    "max_length", "num_beams", "classif_dropout", "classifier_dropout", "gradient_checkpointing", "num_hidden_layers",
    "max_position_embeddings", "extra_pos_embeddings", "unk_token_id",
)  # fmt: skip


def read(config: dict[str, Any]) -> ParsedConfig:
    """The spec that config.json describes."""
    f = Fields("marian", ABSENT | config)
    f.architecture("MarianMTModel", "MarianModel")
    f.ignore(*IGNORED)
    for name in ("normalize_embedding", "normalize_before", "add_bias_logits", "add_final_layer_norm"):
        f.require(name, False)
    f.require("static_position_embeddings", True)
    f.require("share_encoder_decoder_embeddings", True)
    f.require("tie_word_embeddings", True)
    f.require("activation_function", "gelu", *ACTIVATIONS)
    f.require("is_encoder_decoder", True)
    width, vocabulary = f.size("d_model"), f.size("vocab_size")
    f.require("decoder_vocab_size", None, vocabulary)
    scaled = f.get("scale_embedding", bool, False)
    activation = ACTIVATIONS[config.get("activation_function", "gelu")]

    def side(name: str) -> tuple[int, Block]:
        heads = f.size(f"{name}_attention_heads")
        own = Attention(heads=heads, position=Sinusoidal(layout="half"), causal=name == "decoder", bias=True)
        looks = Attention(heads=heads, bias=True) if name == "decoder" else None
        part = FeedForward(f.size(f"{name}_ffn_dim"), activation)
        return f.size(f"{name}_layers"), Block(own, Norm(order="post"), part, cross=looks)

    input_layer = InputLayer(scale=math.sqrt(width)) if scaled else InputLayer()
    layers, block = side("encoder")
    encoder = Spec(width, vocabulary, input_layer, layers, block)
    layers, block = side("decoder")
    spec = Spec(
        width, vocabulary, input_layer, layers, block, outputs=vocabulary, tied=True, output=OutputLayer(bias=True),
        encoder=encoder, shared=True,
    )  # fmt: skip
    return f.finish(spec)


def write(spec: Spec) -> dict[str, Any]:
    """config.json of a spec. A checkpoint stores a table for this number of positions; the sinusoids have no limit."""
    refuse(spec.encoder is None, "it has an encoder.")
    assert spec.encoder is not None
    values: dict[str, Any] = {}
    for name, one in (("encoder", spec.encoder), ("decoder", spec)):
        f = one.uniform_block.feedforward
        refuse(f is None or f.activation not in ACTIVATION_NAMES, "every layer has a feed-forward there.")
        assert f is not None
        values |= {f"{name}_layers": one.layers, f"{name}_attention_heads": one.uniform_block.attention.heads,
                 f"{name}_ffn_dim": f.inner or 4 * spec.width, "activation_function": ACTIVATION_NAMES[f.activation]}  # fmt: skip
    last = (spec.vocabulary or 1) - 1  # where OPUS-MT has its padding, which begins the decoder's text
    return values | {
        "model_type": "marian", "architectures": ["MarianMTModel"], "vocab_size": spec.vocabulary, "d_model": spec.width,
        "scale_embedding": spec.input.scale is not None, "is_encoder_decoder": True, "tie_word_embeddings": True,
        "pad_token_id": last, "decoder_start_token_id": last, "eos_token_id": 0, "forced_eos_token_id": 0,
        "max_position_embeddings": 512, "share_encoder_decoder_embeddings": True, "decoder_vocab_size": spec.vocabulary,
    }  # fmt: skip


def weight_maps(spec: Spec) -> Iterable[WeightMap | WeightTransform]:
    """Their names and ours."""
    assert spec.encoder is not None
    yield WeightMap("model.shared.weight", ("embedding.weight",))
    yield WeightTransform(
        ("final_logits_bias",), ("output_layer.lm_head.bias",), lambda t: [t[0][0]], lambda t: [t[0].unsqueeze(0)]
    )
    for side, ours, one in (("encoder", "encoder.", spec.encoder), ("decoder", "", spec)):
        for i in range(one.layers):
            here, there = f"{ours}blocks.{i}", f"model.{side}.layers.{i}"
            looks = {"attention": "self_attn", "cross": "encoder_attn"} if side == "decoder" else {"attention": "self_attn"}
            for part, name in looks.items():
                yield from affine(f"{there}.{name}_layer_norm", f"{here}.{part}_norm")
                for theirs, letter in (("q", "q"), ("k", "k"), ("v", "v"), ("out", "o")):
                    yield from affine(f"{there}.{name}.{theirs}_proj", f"{here}.{part}.{letter}_proj")
            yield from affine(f"{there}.final_layer_norm", f"{here}.feedforward_norm")
            yield from affine(f"{there}.fc1", f"{here}.feedforward.up_proj")
            yield from affine(f"{there}.fc2", f"{here}.feedforward.down_proj")


MARIAN: Family = Family(
    "marian", read, write, weight_maps, table="model.shared.weight",
    table_copies=("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"),
    ignored=(r"model\.(encoder|decoder)\.embed_positions\.weight",),
)  # fmt: skip
