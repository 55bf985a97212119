"""Tiny configuration: a small configuration for any class of transformers, so that the model runs in a moment.

Sizes are recognised by their names, which the library's classes share: a hidden size becomes 64, heads become 4 of 16 features, and
one layer of each kind stays. Everything else (activations, flags, kinds of norm) is unchanged.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from equiscope.errors import InputError, one_line

SMALL = """
64  hidden_size d_model n_embd dim embed_dim emb_dim embedding_dim embedding_size input_embedding_size
    word_embed_proj_dim hidden_dim lru_width dim_model encoder_hidden_size decoder_hidden_size text_hidden_size
    pooler_hidden_size out_hidden_size cross_attention_hidden_size dim_encoder backbone_hidden_size
    pronunciation_embed_dim shape_embed_dim ple_embed_dim model_dim
4   num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads attention_heads
    num_encoder_attention_heads num_decoder_attention_heads swa_num_attention_heads linear_num_value_heads
    linear_num_heads kv_n_heads
2   num_key_value_heads n_head_kv num_kv_heads swa_num_key_value_heads linear_num_key_heads global_num_key_value_heads
    num_global_key_value_heads
16  head_dim swa_head_dim d_kv kv_channels attention_head_size linear_head_dim rotary_dim linear_key_head_dim
    linear_value_head_dim qk_nope_head_dim qk_rope_head_dim v_head_dim global_head_dim head_size dim_head swa_v_head_dim
    index_head_dim linear_attn_head_dim lightning_head_dim
2   num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers
    num_experts_per_tok moe_topk moe_top_k top_k_experts num_experts_per_token index_topk_freq depth n_activated_experts
    H_cycles L_cycles moe_k
48  intermediate_size ffn_dim d_ff n_inner d_inner ffn_hidden_size encoder_ffn_dim decoder_ffn_dim moe_intermediate_size
    shared_intermediate_size shared_expert_intermediate_size shared_experts_intermediate_size dense_intermediate_size
    expert_ffn_hidden_size dim_ff mlp_hidden_size expert_intermediate_size intermediate_size_mlp
    prefix_dense_intermediate_size moe_shared_expert_intermediate_size feed_forward_size block_ff_dim
    per_expert_intermediate_size
4   num_experts num_local_experts n_routed_experts moe_num_experts zero_expert_num n_experts
32  index_n_heads
1   n_group topk_group num_nextn_predict_layers num_mtp_layers mamba_n_groups n_groups first_k_dense_replace
    num_expert_group num_codebooks
101 vocab_size n_vocab vocab_size_per_layer_input pronunciation_vocab_size shape_vocab_size unpadded_vocab_size
    encoder_hash_byte_group_vocab
512 max_position_embeddings n_positions n_ctx max_sequence_length max_seq_len max_target_positions seq_length
    max_seq_length max_length_positions context_length model_max_length
64  position_buckets max_source_positions
4   sliding_window attention_window window_size local_window_size sliding_window_size attention_window_size chunk_size
    mamba_chunk_size attention_chunk_size block_size sliding_chunk_size linear_chunk_size local_attn_chunk_length
    lsh_attn_chunk_length local_attention_window_len
16  q_lora_rank kv_lora_rank o_lora_rank hidden_size_per_layer_input altup_rank laurel_rank mamba_d_head mamba_head_dim
    low_rank_dim kv_latent_dim embedding_rank hc_lowrank adapter_rank
8   state_size mamba_d_state ssm_state_size mamba_state_dim mamba_n_heads mamba_num_heads n_mamba_heads index_topk
    mamba_dt_rank time_step_rank projection_rank
"""  # a size, and the names that get it


def _sizes() -> dict[str, int]:
    """Name -> size."""
    sizes_by_name, size = {}, 0
    for word in SMALL.split():
        if word.isdigit():
            size = int(word)
        else:
            sizes_by_name[word] = size
    return sizes_by_name


SIZES = _sizes()
HIDDEN, HEADS, HEAD, KV, VOCABULARY = (
    SIZES[n] for n in ("hidden_size", "num_attention_heads", "head_dim", "num_key_value_heads", "vocab_size")
)
OUTSIDE = {
    "image_size": 16,
    "patch_size": 4,
    "num_mel_bins": 8,
    "projection_dim": HIDDEN,
    "num_channels": 3,
    "in_channels": 3,
}  # pictures and sounds
EMPTY = {"head_dim": HEAD, "num_key_value_heads": HEADS, "n_routed_experts": 4}  # where the default is None
PATTERN = {
    "num_kv_shared_layers": 0,
    "attn_layer_period": 2,
    "attn_layer_offset": 1,
    "expert_layer_period": 2,
    "layer_group_size": 2,
}
OWN: dict[str, dict[str, Any]] = {  # model_type -> fields that their names do not determine
    "bamba": {"attn_layer_indices": [1]}, "mamba2": {"num_heads": 8, "n_groups": 1}, "pvt": {"image_size": 64},
    "xlstm": {"qk_dim_factor": 1.0, "num_blocks": 2},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]}, "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"axial_pos_shape": (16, 32), "axial_pos_embds_dim": (32, 32)}, "xmod": {"default_language": "en_XX"},
    "zamba": {"attention_head_dim": 32, "attention_hidden_size": 128, "num_hidden_layers": 4,
              "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"], "mamba_dt_rank": 4},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"], "num_hidden_layers": 4,
               "mamba_headdim": 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1}, "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "routed_scaling_factor": 1.0},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0}},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4},
                                                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
}  # fmt: skip
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def tiny(config_class: type, **changed: Any) -> Any:
    """A small configuration of a class of transformers. changed: fields with given values, whatever their names suggest.

    raises  InputError where the class raises, with its message
    """
    try:
        base = config_class()
    except Exception as error:
        raise InputError(f"{config_class.__name__} has no default: {one_line(error)}. Give a configuration of your own.") from error
    new_fields = sizes(base) | changed
    try:
        return config_class(**new_fields)
    except Exception as error:
        raise InputError(
            f"{config_class.__name__} could not be made small: {one_line(error)}. Give a configuration of your own."
        ) from error


def sizes(base: Any) -> dict[str, Any]:
    """New values for the fields of a configuration that make it small."""
    fields = {n: v for n, v in vars(base).items() if not n.startswith("_")}
    new_fields: dict[str, Any] = {}
    for name, value in fields.items():
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            new_fields[name] = type(value)(**sizes(value))
        elif isinstance(value, int) and not isinstance(value, bool) and value > 0:
            small = SIZES.get(name, OUTSIDE.get(name))
            if small is not None and small < value:
                new_fields[name] = small
        elif value is None and name in EMPTY:
            new_fields[name] = EMPTY[name]
        if name in PATTERN and isinstance(value, int):
            new_fields[name] = PATTERN[name]
    _heads(fields, new_fields)
    _layers(fields, new_fields)
    _special(fields, new_fields)
    return new_fields | OWN.get(base.model_type, {})


def _heads(fields: Mapping[str, Any], new_fields: dict[str, Any]) -> None:
    """Heads share keys and values only where they did in the default."""
    pairs = (("num_key_value_heads", "num_attention_heads"), ("swa_num_key_value_heads", "swa_num_attention_heads"))
    for shared, heads in pairs:
        if isinstance(fields.get(shared), int) and isinstance(fields.get(heads), int):
            kv, all_ = fields[shared], fields[heads]
            new_fields[shared] = new_fields.get(heads, all_) if kv == all_ else 1 if kv == 1 else min(KV, kv)


def _layers(fields: Mapping[str, Any], new_fields: dict[str, Any]) -> None:
    """One layer of each kind, at least two; lists with an entry for each layer are shortened accordingly."""
    name = next((n for n in LAYERS if isinstance(fields.get(n), int)), None)
    if name is None:
        return
    count = fields[name]
    lists = {n: v for n, v in fields.items() if isinstance(v, (list, tuple)) and len(v) == count and count > 1}
    telling = [v for v in lists.values() if all(isinstance(entry, str) or entry in (0, 1) for entry in v)]
    kinds = [repr([v[i] for v in telling]) for i in range(count)]
    picked = sorted({kinds.index(kind) for kind in kinds})[:6]
    while len(picked) < min(2, count):
        picked.append(next(i for i in range(count) if i not in picked))
    picked.sort()
    new_fields[name] = len(picked)
    for listed, values in lists.items():
        small = SIZES.get(listed)
        new_fields[listed] = type(values)(values[i] if small is None else small for i in picked)


def _special(fields: Mapping[str, Any], new_fields: dict[str, Any]) -> None:
    """Special tokens outside the small vocabulary get ids at its end; 0, 1 and 2 stay."""
    vocabulary = new_fields.get("vocab_size", fields.get("vocab_size"))
    if not isinstance(vocabulary, int):
        vocabulary = VOCABULARY
    free = vocabulary - 1
    for name, value in fields.items():
        if not name.endswith(("_token_id", "_token_index", "_id", "_token_ids")):
            continue
        if isinstance(value, int) and not isinstance(value, bool) and value >= vocabulary:
            new_fields[name], free = free, free - 1
        elif isinstance(value, list) and value and all(isinstance(v, int) for v in value) and max(value) >= vocabulary:
            new_fields[name] = list(range(free - len(value) + 1, free + 1))
            free -= len(value)


def config_class_of(model_class: type) -> type:
    """The configuration class of a model class."""
    cls = getattr(model_class, "config_class", None)
    if not inspect.isclass(cls):
        raise InputError(f"{model_class.__name__} has no config_class, so no small configuration can be made.")
    return cls
