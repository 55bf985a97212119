"""Llama and its kin (Mistral, Qwen2, Qwen3): rotary places in halves, RMSNorm, gated feed-forward, grouped queries.

Their linear maps are stored [out, in]; ours are [in, out]. What differs between them is said in `Kind`.
Sources: Touvron et al. 2023; Jiang et al. 2023; Qwen team 2024, 2025; names as in transformers' ...ForCausalLM.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from equiscope.errors import InputError
from equiscope.models import Attention, Block, FeedForward, Norm, Spec
from equiscope.position import Rope
from equiscope.pretrained import rotary
from equiscope.pretrained.family import ACTIVATIONS, THEIRS, Family, Fields, Pair, refuse


@dataclass(frozen=True)
class Kind:
    """A model_type.

    qkv_bias  always a bias on queries, keys and values
    normed    queries and keys are normed
    window    its layers may look back only so far
    absent    what a field means that is not in the file: files may leave out what transformers has as a default
    """

    name: str
    architecture: str
    qkv_bias: bool = False
    normed: bool = False
    window: bool = False
    absent: dict[str, Any] = field(default_factory=dict)


COMMON = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
QWEN = COMMON | {"vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32}
KINDS = (
    Kind("llama", "LlamaForCausalLM", absent=COMMON | {"vocab_size": 32000, "intermediate_size": 11008}),
    Kind("mistral", "MistralForCausalLM", window=True, absent=COMMON | {
        "vocab_size": 32000, "intermediate_size": 14336, "num_key_value_heads": 8, "sliding_window": 4096,
        "use_sliding_window": True,
    }),
    Kind("qwen2", "Qwen2ForCausalLM", qkv_bias=True, window=True, absent=QWEN),
    Kind("qwen3", "Qwen3ForCausalLM", normed=True, window=True, absent=QWEN | {"head_dim": 128}),
)  # fmt: skip


def read(kind: Kind, config: dict[str, Any]) -> Spec:
    """The spec that config.json describes."""
    f = Fields(kind.name, kind.absent | config)
    width, heads, layers = f.get("hidden_size", int), f.get("num_attention_heads", int), f.get("num_hidden_layers", int)
    vocabulary, tied = f.get("vocab_size", int), f.get("tie_word_embeddings", bool, False)
    own = f.get("head_dim", int, None)
    f.only("hidden_act", *ACTIVATIONS)
    if kind.name in ("llama", "qwen3"):
        bias: Any = f.get("attention_bias", bool, False)
    else:
        f.only("attention_bias", None, kind.qkv_bias)
        bias = "qkv" if kind.qkv_bias else False
    f.only("mlp_bias", None, False) if kind.name != "llama" else None
    spec = Spec(
        width, vocabulary=vocabulary, layers=layers, outputs=vocabulary, tied=tied,
        block=Block(
            Attention(
                heads=heads, kv_heads=f.get("num_key_value_heads", int, heads),
                head_width=None if own == width // heads else own, position=rotary.read(f), causal=True, bias=bias,
                window=_window(f, kind, layers), qk_norm="rms" if kind.normed else None,
            ),
            Norm("rms", eps=f.get("rms_norm_eps", float, 1e-6)),
            FeedForward(
                f.get("intermediate_size", int), ACTIVATIONS[config.get("hidden_act", "silu")],
                bias=f.get("mlp_bias", bool, False) if kind.name == "llama" else False, gated=True,
            ),
        ),
    )  # fmt: skip
    if kind.normed and spec.one.norm is not None and spec.one.norm.eps != 1e-6:
        raise InputError(f"config.json: rms_norm_eps is {spec.one.norm.eps}, but normed queries are built with 1e-06 only.")
    f.close()
    return spec


def _window(f: Fields, kind: Kind, layers: int) -> int | None:
    """How far back a token looks; the same in all layers, or the config is refused."""
    types = f.get("layer_types", list, None)
    use = f.get("use_sliding_window", bool, False)
    size, first = f.get("sliding_window", int, None), f.get("max_window_layers", int, 0)
    if not kind.window:
        return None
    sliding = (
        [t == "sliding_attention" for t in types] if types else [use and size is not None and i >= first for i in range(layers)]
    )
    if len(set(sliding)) > 1:
        raise InputError("config.json: layer_types differ from layer to layer, but every layer here has one spec.")
    if any(sliding) and size is None:
        raise InputError("config.json: layer_types has sliding_attention, but sliding_window is missing.")
    return size if any(sliding) else None


def write(kind: Kind, spec: Spec) -> dict[str, Any]:
    """config.json of a spec. Raises InputError for what this family has not."""
    a, n, f = spec.one.attention, spec.one.norm, spec.one.feedforward
    rope = a.position
    refuse(not isinstance(rope, Rope) or rope.pairs != "half", 'places are RoPE with pairs="half" there.')
    assert isinstance(rope, Rope)
    refuse(rope.fraction != 1 or rope.key_speed != 1, "all columns turn, queries and keys alike.")
    refuse(n is None or n.kind != "rms" or n.order != "pre", "its norm is RMSNorm before each part.")
    refuse(f is None or not f.gated or (f.bias and kind.name != "llama"), "its feed-forward is gated, without a bias.")
    refuse(not a.causal or (a.window is not None and not kind.window), "its attention is causal, without a window.")
    refuse((a.qk_norm is not None) != kind.normed or a.qk_norm == "layer", "queries and keys are not normed so.")
    wanted = ("qkv",) if kind.qkv_bias else (False, True) if kind.name in ("llama", "qwen3") else (False,)
    refuse(a.bias not in wanted, "the biases of its attention are others.")
    refuse(a.value_width is not None and a.value_width != a.head_width, "values are as wide as keys.")
    refuse(spec.readout != "each" or spec.outputs is None or spec.outputs != spec.vocabulary, "it answers with its vocabulary.")
    refuse(spec.one.parallel or not spec.one.residual, "its parts follow one another.")
    assert n is not None
    assert f is not None
    refuse(kind.normed and n.eps != 1e-6, "its norms have an eps of 1e-06 here.")
    config: dict[str, Any] = {
        "model_type": kind.name, "architectures": [kind.architecture], "vocab_size": spec.vocabulary, "hidden_size": spec.width,
        "intermediate_size": f.inner or 4 * spec.width, "num_hidden_layers": spec.layers, "num_attention_heads": a.heads,
        "num_key_value_heads": a.kv_heads or a.heads, "head_dim": a.head_width or spec.width // a.heads,
        "hidden_act": THEIRS[f.activation], "rms_norm_eps": n.eps, "tie_word_embeddings": spec.tied,
        "rope_parameters": rotary.write(rope),
    }  # fmt: skip
    if kind.name in ("llama", "qwen3"):
        config["attention_bias"] = a.bias
    if kind.name == "llama":
        config["mlp_bias"] = f.bias
    if kind.window:
        config["sliding_window"] = a.window
    if kind.name in ("qwen2", "qwen3"):
        config |= {"use_sliding_window": a.window is not None, "max_window_layers": 0}
    return config


def pairs(spec: Spec) -> Iterable[Pair]:
    """Their names and ours."""
    a, f = spec.one.attention, spec.one.feedforward
    yield Pair("embed_tokens.weight", ("embedding.table",))
    for i in range(spec.layers):
        here, there = f"blocks.{i}", f"layers.{i}"
        yield Pair(f"{there}.input_layernorm.weight", (f"{here}.attention_norm.gain",))
        yield Pair(f"{there}.post_attention_layernorm.weight", (f"{here}.feedforward_norm.gain",))
        for theirs, ours in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
            yield Pair(f"{there}.self_attn.{theirs}_proj.weight", (f"{here}.attention.{ours}",), turned=True)
            if a.bias is True or (a.bias == "qkv" and theirs != "o"):
                yield Pair(f"{there}.self_attn.{theirs}_proj.bias", (f"{here}.attention.{ours}_bias",))
            if a.qk_norm and theirs in "qk":
                yield Pair(f"{there}.self_attn.{theirs}_norm.weight", (f"{here}.attention.{ours}_gain",))
        for theirs, ours in (("gate", "gate"), ("up", "inward"), ("down", "outward")):
            yield Pair(f"{there}.mlp.{theirs}_proj.weight", (f"{here}.feedforward.{ours}",), turned=True)
            if f is not None and f.bias:
                yield Pair(f"{there}.mlp.{theirs}_proj.bias", (f"{here}.feedforward.{ours}_bias",))
    yield Pair("norm.weight", ("norm.gain",))
    if not spec.tied:
        yield Pair("lm_head.weight", ("head.weight",), turned=True, bare=True)


def _family(kind: Kind) -> Family:
    reads, writes = partial(read, kind), partial(write, kind)
    unread = (r".*rotary_emb\.inv_freq",)
    return Family(kind.name, reads, writes, pairs, prefix="model.", table="embed_tokens.weight", unread=unread)


FAMILIES = tuple(map(_family, KINDS))
