"""BLOOM: ALiBi, a norm after the embedding, queries beside keys and values, the head tied.

Source: BigScience 2022; names as in transformers' BloomForCausalLM.
"""

from collections.abc import Iterable
from typing import Any

from equiscope.checkpoints.family import Family, WeightMap, affine, refuse
from equiscope.checkpoints.fields import Fields, ParsedConfig
from equiscope.errors import InputError
from equiscope.models import Attention, Block, FeedForward, InputLayer, Norm, Spec
from equiscope.positions import Alibi

ABSENT = {"vocab_size": 250880, "hidden_size": 64, "n_layer": 2, "n_head": 8}
OLD = {"n_embed": "hidden_size", "num_attention_heads": "n_head", "num_hidden_layers": "n_layer"}  # and what each is called today


def read(config: dict[str, Any]) -> ParsedConfig:
    """The spec that config.json describes."""
    for older, newer in OLD.items():
        if None not in (config.get(older), config.get(newer)) and config[older] != config[newer]:
            raise InputError(
                f"config.json: {older} is {config[older]!r}, but {newer} is {config[newer]!r}, and both mean the same. Remove one."
            )
    f = Fields("bloom", ABSENT | {OLD.get(name, name): value for name, value in config.items() if value is not None})
    f.architecture("BloomForCausalLM", "BloomModel")
    f.require("apply_residual_connection_post_layernorm", False)
    if f.get("pretraining_tp", int, 1) > 1:
        f.require("slow_but_exact", False)
    f.ignore("hidden_dropout", "slow_but_exact", "seq_length", "skip_bias_add", "skip_bias_add_qkv", "unk_token_id", "n_inner",
           "offset_alibi", "attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion")  # fmt: skip
    vocabulary, eps = f.size("vocab_size"), f.get("layer_norm_epsilon", float, 1e-5)
    block = Block(
        Attention(heads=f.size("n_head"), position=Alibi(), causal=True, bias=True),
        Norm(eps=eps),
        FeedForward(None, "gelu-tanh"),
    )
    spec = Spec(
        f.size("hidden_size"), vocabulary, InputLayer(norm=True), f.size("n_layer"), block, outputs=vocabulary,
        tied=f.get("tie_word_embeddings", bool, True),
    )  # fmt: skip
    return f.finish(spec)


def write(spec: Spec) -> dict[str, Any]:
    """config.json of a spec."""
    a, n = spec.uniform_block.attention, spec.uniform_block.norm
    refuse(n is None or spec.uniform_block.feedforward is None, "every layer has norms and a feed-forward there.")
    assert n is not None
    return {
        "model_type": "bloom", "architectures": ["BloomForCausalLM"], "vocab_size": spec.vocabulary, "hidden_size": spec.width,
        "n_layer": spec.layers, "n_head": a.heads, "layer_norm_epsilon": n.eps, "tie_word_embeddings": spec.tied,
    }  # fmt: skip


def weight_maps(spec: Spec) -> Iterable[WeightMap]:
    """Their names and ours."""
    yield WeightMap("word_embeddings.weight", ("embedding.weight",))
    yield from affine("word_embeddings_layernorm", "input_layer.norm")
    for i in range(spec.layers):
        here, there = f"blocks.{i}", f"h.{i}"
        yield from affine(f"{there}.input_layernorm", f"{here}.attention_norm")
        yield from affine(f"{there}.post_attention_layernorm", f"{here}.feedforward_norm")
        for kind in ("weight", "bias"):
            parts = tuple(f"{here}.attention.{part}_proj.{kind}" for part in "qkv")
            yield WeightMap(f"{there}.self_attention.query_key_value.{kind}", parts, heads=spec.uniform_block.attention.heads)
        yield from affine(f"{there}.self_attention.dense", f"{here}.attention.o_proj")
        yield from affine(f"{there}.mlp.dense_h_to_4h", f"{here}.feedforward.up_proj")
        yield from affine(f"{there}.mlp.dense_4h_to_h", f"{here}.feedforward.down_proj")
    yield from affine("ln_f", "norm")
    if not spec.tied:
        yield WeightMap("lm_head.weight", ("output_layer.lm_head.weight",), bare=True)


BLOOM: Family = Family("bloom", read, write, weight_maps, prefix="transformer.", table="word_embeddings.weight")
