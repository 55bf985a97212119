"""GPT-NeoX and Pythia: part of each head turns, attention and feed-forward read one stream, queries lie beside keys and values.

Sources: Black et al. 2022; Biderman et al. 2023; names as in transformers' GPTNeoXForCausalLM.
"""

from collections.abc import Iterable
from typing import Any

from equiscope.checkpoints import rotary
from equiscope.checkpoints.family import ACTIVATION_NAMES, ACTIVATIONS, Family, WeightMap, affine, refuse
from equiscope.checkpoints.fields import Fields, ParsedConfig
from equiscope.errors import InputError
from equiscope.models import Attention, Block, FeedForward, Norm, Spec
from equiscope.positions import Rope

ABSENT = {
    "vocab_size": 50432, "hidden_size": 6144, "num_hidden_layers": 44, "num_attention_heads": 64, "intermediate_size": 24576,
}  # fmt: skip


def read(config: dict[str, Any]) -> ParsedConfig:
    """The spec that config.json describes."""
    f = Fields("gpt_neox", ABSENT | config)
    f.architecture("GPTNeoXForCausalLM", "GPTNeoXModel")
    vocabulary = f.size("vocab_size")
    f.require("hidden_act", *ACTIVATIONS)
    heads, width = f.size("num_attention_heads"), f.size("hidden_size")
    rope, wide = rotary.read(f, "rotary_emb_base", ("rotary_pct", 0.25)), width // heads
    if (turning := int(wide * rope.fraction)) != round(wide * rope.fraction):  # transformers rounds downwards
        rope = Rope(rope.base, rope.pairs, max(turning, 2) / wide, scaling=rope.scaling)
    if turning % 2 and turning > 1:
        raise InputError(
            f"config.json: rotary_pct is {rope.fraction:g}, by which {turning} of the {wide} columns of a head turn, but only an "
            "even number of columns can be built."
        )
    f.ignore("attention_probs_dropout_prob", "hidden_dropout_prob", "hidden_dropout", "classifier_dropout")
    spec = Spec(
        width, vocabulary=vocabulary, layers=f.size("num_hidden_layers"), outputs=vocabulary,
        tied=f.get("tie_word_embeddings", bool, False),
        block=Block(
            Attention(
                heads=heads, position=rope, causal=True, bias=f.get("attention_bias", bool, True),
            ),
            Norm(eps=f.get("layer_norm_eps", float, 1e-5)),
            FeedForward(f.size("intermediate_size"), ACTIVATIONS[config.get("hidden_act", "gelu")]),
            parallel=f.get("use_parallel_residual", bool, True),
        ),
    )  # fmt: skip
    return f.finish(spec)


def write(spec: Spec) -> dict[str, Any]:
    """config.json of a spec. Raises InputError for what GPT-NeoX has not."""
    a, n, f = spec.uniform_block.attention, spec.uniform_block.norm, spec.uniform_block.feedforward
    rope = a.position
    refuse(
        not isinstance(rope, Rope) or rope.pairs != "half" or rope.key_angle_factor != 1, 'places are RoPE with pairs="half" there.'
    )
    refuse(n is None or n.kind != "layer" or n.order != "pre", "its norm is LayerNorm before each part.")
    refuse(f is None or f.gated or not f.bias, "its feed-forward has biases and no gate.")
    refuse(
        not a.causal or a.window is not None or a.kv_heads not in (None, a.heads), "its attention is causal, every head its own."
    )
    refuse(a.qk_norm is not None or a.bias == "qkv", "its attention has a bias everywhere or nowhere, and no norm.")
    refuse(bool(a.head_width or a.value_width), "its heads divide the width.")
    refuse(spec.readout != "each" or spec.outputs is None or spec.outputs != spec.vocabulary, "it answers with its vocabulary.")
    refuse(not spec.uniform_block.residual, "its parts are added to the stream.")
    assert isinstance(rope, Rope)
    assert n is not None
    assert f is not None
    return {
        "model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "vocab_size": spec.vocabulary, "hidden_size": spec.width,
        "num_hidden_layers": spec.layers, "num_attention_heads": a.heads, "intermediate_size": f.inner or 4 * spec.width,
        "hidden_act": ACTIVATION_NAMES[f.activation], "layer_norm_eps": n.eps, "use_parallel_residual": spec.uniform_block.parallel,
        "attention_bias": a.bias, "tie_word_embeddings": spec.tied,
        "rope_parameters": {"partial_rotary_factor": 1.0, **rotary.write(rope)},
    }  # fmt: skip


def weight_maps(spec: Spec) -> Iterable[WeightMap]:
    """Their names and ours."""
    a = spec.uniform_block.attention
    yield WeightMap("embed_in.weight", ("embedding.weight",))
    for i in range(spec.layers):
        here, there = f"blocks.{i}", f"layers.{i}"
        yield from affine(f"{there}.input_layernorm", f"{here}.attention_norm")
        yield from affine(f"{there}.post_attention_layernorm", f"{here}.feedforward_norm")
        parts = [f"{here}.attention.{part}_proj" for part in "qkv"]
        for kind in ("weight", "bias") if a.bias else ("weight",):
            yield WeightMap(f"{there}.attention.query_key_value.{kind}", tuple(f"{part}.{kind}" for part in parts), heads=a.heads)
        yield from affine(f"{there}.attention.dense", f"{here}.attention.o_proj", bool(a.bias))
        yield from affine(f"{there}.mlp.dense_h_to_4h", f"{here}.feedforward.up_proj")
        yield from affine(f"{there}.mlp.dense_4h_to_h", f"{here}.feedforward.down_proj")
    yield from affine("final_layer_norm", "norm")
    if not spec.tied:
        yield WeightMap("embed_out.weight", ("output_layer.lm_head.weight",), bare=True)


NEOX: Family = Family(
    "gpt_neox", read, write, weight_maps, prefix="gpt_neox.", table="embed_in.weight",
    table_copies=("embed_out.weight",), ignored=(r".*rotary_emb\.inv_freq", r".*attention\.(masked_)?bias"),
)  # fmt: skip
