"""T5 and mT5: an encoder and a decoder, buckets of distances for all layers of each, no scale on the scores, RMSNorm, no biases.

The first version ties its head to the table and scales what the head reads; v1.1 and Flan-T5 have gated feed-forwards and a
head of their own. mT5 is v1.1 in many languages.
Source: Raffel et al. 2020; names as in transformers' T5ForConditionalGeneration.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from equiscope.checkpoints.family import ACTIVATION_NAMES, ACTIVATIONS, Family, WeightMap, refuse
from equiscope.checkpoints.fields import Fields, ParsedConfig
from equiscope.errors import InputError
from equiscope.models import Attention, Block, FeedForward, Norm, OutputLayer, Spec
from equiscope.positions import T5Bias

ABSENT: dict[str, dict[str, Any]] = {
    "t5": {"vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8},
    "mt5": {"vocab_size": 250112, "d_model": 512, "d_kv": 64, "d_ff": 1024, "num_layers": 8, "num_heads": 6,
            "feed_forward_proj": "gated-gelu"},
}  # fmt: skip
ARCHITECTURES = {
    "t5": ("T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model"), "mt5": ("MT5ForConditionalGeneration", "MT5Model"),
}  # fmt: skip


def read(name: str, config: dict[str, Any]) -> ParsedConfig:
    """The spec that config.json describes."""
    f = Fields(name, ABSENT[name] | config)
    f.architecture(*ARCHITECTURES[name])
    f.ignore("dropout_rate", "classifier_dropout", "initializer_factor", "n_positions", "output_past")
    f.require("is_encoder_decoder", True)
    width, heads, wide = f.size("d_model"), f.size("num_heads"), f.size("d_kv")
    vocabulary, tied = f.size("vocab_size"), f.get("tie_word_embeddings", bool, True) or name == "mt5"  # which ties what it lacks
    words = f.get("feed_forward_proj", str, "relu").split("-")
    if words[-1] not in ACTIVATIONS or words[:-1] not in ([], ["gated"]):
        raise InputError(f"config.json: feed_forward_proj is {'-'.join(words)!r}, which cannot be built.")
    gated = f.get("is_gated_act", bool, len(words) > 1)  # this and the next count for more than feed_forward_proj
    activation = f.get("dense_act_fn", str, "gelu_new" if words == ["gated", "gelu"] else words[-1])
    if activation not in ACTIVATIONS:
        raise InputError(f"config.json: dense_act_fn is {activation!r}, but only {', '.join(ACTIVATIONS)} can be built.")
    buckets, far = f.size("relative_attention_num_buckets", 32), f.size("relative_attention_max_distance", 128)
    scaled = name == "t5" and f.get("scale_decoder_outputs", bool, tied and "scale_decoder_outputs" not in config)  # null: not

    def block(decoder: bool) -> Block:
        looks = Attention(heads=heads, head_width=wide, scale=1.0)
        own = Attention(
            heads=heads, head_width=wide, scale=1.0, causal=decoder, position=T5Bias(buckets, far, bidirectional=not decoder)
        )
        return Block(
            own, Norm("rms", eps=f.get("layer_norm_epsilon", float, 1e-6)),
            FeedForward(f.size("d_ff"), ACTIVATIONS[activation], bias=False, gated=gated),
            cross=looks if decoder else None,
        )  # fmt: skip

    layers = f.size("num_layers")
    spec = Spec(
        width, vocabulary, layers=f.size("num_decoder_layers", layers), block=block(True), outputs=vocabulary, tied=tied,
        output=OutputLayer(scale=width**-0.5) if scaled else OutputLayer(), shared=True,
        encoder=Spec(width, vocabulary, layers=layers, block=block(False)),
    )  # fmt: skip
    return f.finish(spec)


def write(family: str, spec: Spec) -> dict[str, Any]:
    """config.json of a spec."""
    refuse(spec.encoder is None, "it has an encoder.")
    assert spec.encoder is not None
    a, n, f = spec.uniform_block.attention, spec.uniform_block.norm, spec.uniform_block.feedforward
    refuse(not isinstance(a.position, T5Bias), "places are T5's buckets there.")
    refuse(n is None or f is None or f.activation not in ACTIVATION_NAMES, "every layer has norms and a feed-forward there.")
    assert isinstance(a.position, T5Bias)
    assert n is not None
    assert f is not None
    name = ACTIVATION_NAMES[f.activation]
    plain = "gelu" if f.gated and name == "gelu_new" else name
    scaled = {"scale_decoder_outputs": spec.output.scale is not None} if family == "t5" else {}
    return scaled | {
        "model_type": family, "architectures": [ARCHITECTURES[family][0]], "vocab_size": spec.vocabulary, "d_model": spec.width,
        "d_kv": a.head_width or spec.width // a.heads, "d_ff": f.inner or 4 * spec.width, "num_layers": spec.encoder.layers,
        "num_decoder_layers": spec.layers, "num_heads": a.heads, "relative_attention_num_buckets": a.position.buckets,
        "relative_attention_max_distance": a.position.max_distance, "layer_norm_epsilon": n.eps, "is_encoder_decoder": True,
        "feed_forward_proj": f"gated-{plain}" if f.gated else plain, "dense_act_fn": name,
        "is_gated_act": f.gated, "tie_word_embeddings": spec.tied, "pad_token_id": 0,
        "decoder_start_token_id": 0, "eos_token_id": 1,
    }  # fmt: skip


def weight_maps(spec: Spec) -> Iterable[WeightMap]:
    """Their names and ours."""
    assert spec.encoder is not None
    yield WeightMap("shared.weight", ("embedding.weight",))
    for side, ours, one in (("encoder", "encoder.", spec.encoder), ("decoder", "", spec)):
        yield WeightMap(f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", (f"{ours}position.table.weight",))
        for i in range(one.layers):
            here, there = f"{ours}blocks.{i}", f"{side}.block.{i}.layer"
            parts = ("attention", "cross", "feedforward") if side == "decoder" else ("attention", "feedforward")
            for number, part in enumerate(parts):
                yield WeightMap(f"{there}.{number}.layer_norm.weight", (f"{here}.{part}_norm.weight",))
                yield from _part(f"{there}.{number}", here, part, one)
        yield WeightMap(f"{side}.final_layer_norm.weight", (f"{ours}norm.weight",))
    if not spec.tied:
        yield WeightMap("lm_head.weight", ("output_layer.lm_head.weight",))


def _part(there: str, here: str, part: str, spec: Spec) -> Iterable[WeightMap]:
    if part != "feedforward":
        name = "SelfAttention" if part == "attention" else "EncDecAttention"
        for letter in "qkvo":
            yield WeightMap(f"{there}.{name}.{letter}.weight", (f"{here}.{part}.{letter}_proj.weight",))
        return
    gated = spec.uniform_block.feedforward is not None and spec.uniform_block.feedforward.gated
    names = {"wi_0": "gate", "wi_1": "up", "wo": "down"} if gated else {"wi": "up", "wo": "down"}
    for theirs, ours in names.items():
        yield WeightMap(f"{there}.DenseReluDense.{theirs}.weight", (f"{here}.feedforward.{ours}_proj.weight",))


def resolve(spec: Spec, tensors: dict[str, Any]) -> Spec:
    """transformers 5 writes that the output layer is tied even if it is not: v1.1 after it was saved there."""
    head, table = tensors.get("lm_head.weight"), tensors.get("shared.weight")
    own = head is not None and table is not None and not head.equal(table)
    return replace(spec, tied=False) if own and spec.output.scale is None else spec


FAMILIES: tuple[Family, ...] = tuple(
    Family(
        name, partial(read, name), partial(write, name), weight_maps, table="shared.weight",
        table_copies=("lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
        resolve=resolve, ignored=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
    )
    for name in ABSENT
)  # fmt: skip
