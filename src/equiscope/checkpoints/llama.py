"""Llama and its kin (Mistral, Ministral, Qwen2, Qwen3, SmolLM3): rotary places in halves, RMSNorm, gated parts, grouped queries.

What differs between them is said in `LlamaVariant`.
Sources: Touvron et al. 2023; Jiang et al. 2023; Qwen team 2024, 2025; names as in transformers' ...ForCausalLM.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from equiscope.checkpoints import rotary
from equiscope.checkpoints.family import ACTIVATION_NAMES, ACTIVATIONS, Family, WeightMap, affine, block_cycle, refuse
from equiscope.checkpoints.fields import Fields, ParsedConfig
from equiscope.errors import InputError
from equiscope.models import Attention, Block, FeedForward, Norm, Spec
from equiscope.positions import NoPosition, Rope


@dataclass(frozen=True)
class LlamaVariant:
    """A model_type.

    qkv_bias  always a bias on queries, keys and values
    normed    queries and keys are normed
    window    the attention window of its layers
    older     what its architecture was called before
    absent    what a field means that is not in the file: files may leave out what transformers has as a default
    """

    name: str
    architecture: str
    qkv_bias: bool = False
    qk_norm: bool = False
    window: bool = False
    older: tuple[str, ...] = ()
    absent: dict[str, Any] = field(default_factory=dict)


OPEN, MLP = ("llama", "qwen3", "smollm3"), ("llama", "smollm3")  # those whose configs choose the biases
COMMON = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
QWEN = COMMON | {"sliding_window": 4096, "vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32,
                 "max_position_embeddings": 32768}  # fmt: skip
KINDS = (
    LlamaVariant("llama", "LlamaForCausalLM", older=("LLaMAForCausalLM",), absent=COMMON | {
        "vocab_size": 32000, "intermediate_size": 11008,
    }),
    LlamaVariant("mistral", "MistralForCausalLM", window=True, absent=COMMON | {
        "vocab_size": 32000, "intermediate_size": 14336, "num_key_value_heads": 8, "sliding_window": 4096,
        "max_position_embeddings": 131072,
    }),
    LlamaVariant("ministral", "MinistralForCausalLM", window=True, absent=COMMON | {
        "vocab_size": 32000, "intermediate_size": 14336, "num_key_value_heads": 8, "sliding_window": 4096,
        "max_position_embeddings": 131072,
    }),
    LlamaVariant("qwen2", "Qwen2ForCausalLM", qkv_bias=True, window=True, absent=QWEN),
    LlamaVariant("qwen3", "Qwen3ForCausalLM", qk_norm=True, window=True, absent=QWEN | {"head_dim": 128}),
    LlamaVariant("smollm3", "SmolLM3ForCausalLM", window=True, absent={
        "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16,
        "num_key_value_heads": 4, "tie_word_embeddings": True, "rope_theta": 2000000.0, "max_position_embeddings": 32768,
    }),
)  # fmt: skip


def read(kind: LlamaVariant, config: dict[str, Any]) -> ParsedConfig:
    """The spec that config.json describes."""
    f = Fields(kind.name, kind.absent | config)
    f.architecture(kind.architecture, kind.architecture.replace("ForCausalLM", "Model"), *kind.older)
    width, heads, layers = f.size("hidden_size"), f.size("num_attention_heads"), f.size("num_hidden_layers")
    vocabulary, tied = f.size("vocab_size"), f.get("tie_word_embeddings", bool, False)
    own = f.size("head_dim", None)
    f.require("hidden_act", *ACTIVATIONS)
    if kind.name in OPEN:
        bias: Any = f.get("attention_bias", bool, False)
    else:
        f.require("attention_bias", None, kind.qkv_bias)
        bias = "qkv" if kind.qkv_bias else False
    f.require("mlp_bias", None, False) if kind.name not in MLP else None
    f.require("rope_interleaved", False)
    f.require("use_mrope", False)
    eps = f.get("rms_norm_eps", float, 1e-6)
    whole = Attention(
        heads=heads, kv_heads=f.size("num_key_value_heads", heads), head_width=None if own == width // heads else own,
        position=rotary.read(f), causal=True, bias=bias, qk_norm="rms" if kind.qk_norm else None,
    )  # fmt: skip
    inner = FeedForward(
        f.size("intermediate_size"), ACTIVATIONS[config.get("hidden_act", "silu")],
        bias=f.get("mlp_bias", bool, False) if kind.name in MLP else False, gated=True,
    )  # fmt: skip
    with_rope, nowhere = _rotary_layers(f, kind, layers), NoPosition()
    blocks = [
        Block(replace(whole, window=window, position=whole.position if rotates else nowhere), Norm("rms", eps=eps), inner)
        for window, rotates in zip(_windows(f, kind, layers, with_rope), with_rope, strict=True)
    ]
    return f.finish(Spec(width, vocabulary=vocabulary, layers=layers, outputs=vocabulary, tied=tied, block=block_cycle(blocks)))


def _windows(f: Fields, kind: LlamaVariant, layers: int, with_rope: list[bool]) -> list[int | None]:
    """How far back a token looks, in each layer."""
    types = f.get("layer_types", list, None)
    use = f.get("use_sliding_window", bool, False)
    size = f.get("sliding_window", int, None)
    first = f.get("max_window_layers", int, 28 if kind.name in ("qwen2", "qwen3") else 0)
    if kind.name == "mistral":  # one window for all, whatever else is said
        if types is not None or "use_sliding_window" in f.config:
            raise InputError(
                "config.json: a mistral has one sliding_window for all layers (null for none), no layer_types and no "
                "use_sliding_window."
            )
        return [size] * layers
    if types is not None and (len(types) != layers or any(t not in ("full_attention", "sliding_attention") for t in types)):
        raise InputError(
            f"config.json: layer_types has {len(types)} entries, {', '.join(sorted(set(map(str, types))))}, but there are {layers} "
            "layers, of full_attention or sliding_attention."
        )
    if not kind.window:
        return [None] * layers
    if kind.name == "ministral":
        unsaid = [size is not None] * layers
    elif kind.name == "smollm3":
        unsaid = [use and size is not None and not rotates for rotates in with_rope]
    else:
        unsaid = [use and size is not None and i >= first for i in range(layers)]
        size = size if use or types is None else None  # which transformers sets to nothing
    sliding = unsaid if types is None else [t == "sliding_attention" for t in types]
    if any(sliding) and size is None:
        raise InputError(
            "config.json: layer_types has sliding_attention, but sliding_window is missing, or use_sliding_window is not true."
        )
    return [size if slides else None for slides in sliding]


def _rotary_layers(f: Fields, kind: LlamaVariant, layers: int) -> list[bool]:
    """Which layers rotate queries and keys: all, except that every nth layer of SmolLM3 has no positions."""
    if kind.name != "smollm3":
        return [True] * layers
    every, flags = f.size("no_rope_layer_interval", 4), f.get("no_rope_layers", list, None)
    with_rope = [bool(t) for t in flags] if flags is not None else [(i + 1) % every != 0 for i in range(layers)]
    if len(with_rope) != layers:
        raise InputError(f"config.json: no_rope_layers has {len(with_rope)} entries, but there are {layers} layers.")
    return with_rope


def write(kind: LlamaVariant, spec: Spec) -> dict[str, Any]:
    """config.json of a spec."""
    ropes = [b.attention.position for b in spec.blocks if isinstance(b.attention.position, Rope)]
    first = spec.blocks[0]
    a, n, f, rope = first.attention, first.norm, first.feedforward, ropes[0] if ropes else None
    nowhere = kind.name == "smollm3" and all(isinstance(b.attention.position, NoPosition) for b in spec.blocks)
    rope = Rope(pairs="half") if nowhere else rope  # no layer looks at it
    refuse(rope is None or rope.pairs != "half", 'places are RoPE with pairs="half" there.')
    refuse(n is None or f is None or f.activation not in ACTIVATION_NAMES, "every layer has norms and a feed-forward there.")
    assert rope is not None
    assert n is not None
    assert f is not None
    windows = [b.attention.window for b in spec.blocks]
    refuse(kind.name == "llama" and spec.width % a.heads != 0, "its width is a multiple of the heads.")
    config: dict[str, Any] = {
        "model_type": kind.name, "architectures": [kind.architecture], "vocab_size": spec.vocabulary, "hidden_size": spec.width,
        "intermediate_size": f.inner or 4 * spec.width, "num_hidden_layers": spec.layers, "num_attention_heads": a.heads,
        "num_key_value_heads": a.kv_heads or a.heads, "head_dim": a.head_width or spec.width // a.heads,
        "hidden_act": ACTIVATION_NAMES[f.activation], "rms_norm_eps": n.eps, "tie_word_embeddings": spec.tied,
        "rope_parameters": rotary.write(rope),
    }  # fmt: skip
    if kind.name in OPEN:
        config["attention_bias"] = a.bias is True
    if kind.name in MLP:
        config["mlp_bias"] = f.bias
    if kind.window:
        config["sliding_window"] = next((w for w in windows if w is not None), None)
    if kind.name in ("qwen2", "qwen3", "smollm3"):
        config["use_sliding_window"] = any(windows)
        config["max_window_layers"] = 0
    if kind.name in ("ministral", "qwen2", "qwen3", "smollm3"):
        config["layer_types"] = ["sliding_attention" if w else "full_attention" for w in windows]
    if kind.name == "smollm3":
        config["no_rope_layers"] = [int(isinstance(b.attention.position, Rope)) for b in spec.blocks]
        config["pad_token_id"] = None  # else its own, 128004
    return config


def weight_maps(spec: Spec) -> Iterable[WeightMap]:
    """Their names and ours."""
    a, f = spec.blocks[0].attention, spec.blocks[0].feedforward
    yield WeightMap("embed_tokens.weight", ("embedding.weight",))
    for i in range(spec.layers):
        here, there = f"blocks.{i}", f"layers.{i}"
        yield WeightMap(f"{there}.input_layernorm.weight", (f"{here}.attention_norm.weight",))
        yield WeightMap(f"{there}.post_attention_layernorm.weight", (f"{here}.feedforward_norm.weight",))
        for part in "qkvo":
            bias = a.bias is True or (a.bias == "qkv" and part != "o")
            yield from affine(f"{there}.self_attn.{part}_proj", f"{here}.attention.{part}_proj", bias)
            if a.qk_norm and part in "qk":
                yield from affine(f"{there}.self_attn.{part}_norm", f"{here}.attention.{part}_norm", bias=False)
        for part in ("gate", "up", "down"):
            yield from affine(f"{there}.mlp.{part}_proj", f"{here}.feedforward.{part}_proj", f is not None and f.bias)
    yield WeightMap("norm.weight", ("norm.weight",))
    if not spec.tied:
        yield WeightMap("lm_head.weight", ("output_layer.lm_head.weight",), bare=True)


def _family(kind: LlamaVariant) -> Family:
    reads, writes = partial(read, kind), partial(write, kind)
    unread = (r".*rotary_emb\.inv_freq",)
    return Family(kind.name, reads, writes, weight_maps, prefix="model.", table="embed_tokens.weight", ignored=unread)


FAMILIES: tuple[Family, ...] = tuple(map(_family, KINDS))
