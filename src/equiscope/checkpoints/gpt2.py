"""GPT-2: learned places, pre-norm, GELU by tanh, all maps with a bias; queries, keys and values in one matrix.

Source: Radford et al. 2019; names as in transformers' GPT2LMHeadModel. Its maps are stored [in, out].
"""

from collections.abc import Iterable
from typing import Any

from equiscope.checkpoints.family import ACTIVATION_NAMES, ACTIVATIONS, Family, WeightMap, affine, refuse
from equiscope.checkpoints.fields import Fields, ParsedConfig
from equiscope.models import Attention, Block, FeedForward, Norm, Spec
from equiscope.positions import Learned


def read(config: dict[str, Any]) -> ParsedConfig:
    """The spec that config.json describes."""
    f = Fields("gpt2", config)
    f.architecture("GPT2LMHeadModel", "GPT2Model")
    width, heads, vocabulary = f.size("n_embd", 768), f.size("n_head", 12), f.size("vocab_size", 50257)
    f.require("activation_function", "gelu_new", *ACTIVATIONS)
    f.require("scale_attn_weights", True)
    f.require("scale_attn_by_inverse_layer_idx", False)
    f.require("add_cross_attention", False)
    tied = f.get("tie_word_embeddings", bool, True)
    f.ignore("reorder_and_upcast_attn", "attn_pdrop", "embd_pdrop", "resid_pdrop", "n_ctx", "gradient_checkpointing")
    f.ignore(*(name for name in config if name.startswith("summary_")))
    spec = Spec(
        width, vocabulary=vocabulary, layers=f.size("n_layer", 12), outputs=vocabulary, tied=tied,
        block=Block(
            Attention(heads=heads, position=Learned(f.size("n_positions", 1024)), causal=True, bias=True),
            Norm(eps=f.get("layer_norm_epsilon", float, 1e-5)),
            FeedForward(f.size("n_inner", None), ACTIVATIONS[config.get("activation_function", "gelu_new")]),
        ),
    )  # fmt: skip
    return f.finish(spec)


def write(spec: Spec) -> dict[str, Any]:
    """config.json of a spec. Raises InputError for what GPT-2 has not."""
    a, n, f = spec.uniform_block.attention, spec.uniform_block.norm, spec.uniform_block.feedforward
    position = a.position
    refuse(not isinstance(position, Learned) or position.stretch is not None, "places are a learned table there.")
    refuse(n is None or n.kind != "layer" or n.order != "pre", "its norm is LayerNorm before each part.")
    refuse(f is None or f.gated or not f.bias or a.bias is not True, "all its maps have a bias, and none is gated.")
    refuse(
        not a.causal or a.window is not None or a.kv_heads not in (None, a.heads) or a.qk_norm is not None,
        "its attention is plain.",
    )
    refuse(bool(a.head_width or a.value_width), "its heads divide the width.")
    refuse(spec.readout != "each" or spec.outputs is None or spec.outputs != spec.vocabulary, "it answers with its vocabulary.")
    refuse(spec.uniform_block.parallel or not spec.uniform_block.residual, "its parts follow one another.")
    assert n is not None
    assert f is not None
    assert isinstance(position, Learned)
    return {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": spec.width, "n_head": a.heads, "n_layer": spec.layers,
        "n_positions": position.length, "vocab_size": spec.vocabulary, "n_inner": f.inner, "layer_norm_epsilon": n.eps,
        "activation_function": ACTIVATION_NAMES[f.activation], "tie_word_embeddings": spec.tied,
    }  # fmt: skip


def weight_maps(spec: Spec) -> Iterable[WeightMap]:
    """Their names and ours."""
    yield WeightMap("wte.weight", ("embedding.weight",))
    yield WeightMap("wpe.weight", ("position.table.weight",))
    for i in range(spec.layers):
        here, there = f"blocks.{i}", f"h.{i}"
        yield from affine(f"{there}.ln_1", f"{here}.attention_norm")
        yield from affine(f"{there}.ln_2", f"{here}.feedforward_norm")
        for theirs, ours in (
            ("attn.c_attn", [f"attention.{part}_proj" for part in "qkv"]), ("attn.c_proj", ["attention.o_proj"]),
            ("mlp.c_fc", ["feedforward.up_proj"]), ("mlp.c_proj", ["feedforward.down_proj"]),
        ):  # fmt: skip
            yield WeightMap(f"{there}.{theirs}.weight", tuple(f"{here}.{part}.weight" for part in ours), transposed=True)
            yield WeightMap(f"{there}.{theirs}.bias", tuple(f"{here}.{part}.bias" for part in ours))
    yield from affine("ln_f", "norm")
    if not spec.tied:
        yield WeightMap("lm_head.weight", ("output_layer.lm_head.weight",), bare=True)


GPT2: Family = Family(
    "gpt2", read, write, weight_maps, prefix="transformer.", table="wte.weight",
    ignored=(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",),
)  # fmt: skip
