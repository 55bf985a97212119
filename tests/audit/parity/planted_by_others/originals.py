"""Tiny models of transformers with random parameters: every bias, norm and table has numbers that matter."""

import torch

from tests.judges import transformers

VOCABULARY, LENGTH = 40, 11


def randomized(model, seed):
    """Draw each parameter: matrices keep the size of what flows through them, norms are around their start, biases are not zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if p.ndim > 1:
                embeds = any(word in name for word in ("embed", "wte", "wpe", "shared", "relative"))
                p.copy_(noise * (0.8 if embeds else 1.2 / p.shape[-1] ** 0.5))
            else:
                p.copy_(0.3 * noise + (0 if "bias" in name else p))
    return model.eval()


def original(family, attention="eager", **changes):
    """A model of that family."""
    t, made = transformers, None
    small = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    rope = {
        "num_key_value_heads": 2,
        "use_cache": False,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
    }
    ends = {"bos_token_id": 1, "eos_token_id": 2}
    if family == "llama":
        made = t.LlamaForCausalLM, t.LlamaConfig(**small | rope | ends | changes)
    elif family == "mistral":
        made = t.MistralForCausalLM, t.MistralConfig(**small | rope | ends | {"sliding_window": 4} | changes)
    elif family == "qwen2":
        made = t.Qwen2ForCausalLM, t.Qwen2Config(**small | rope | ends | changes)
    elif family == "qwen3":
        made = t.Qwen3ForCausalLM, t.Qwen3Config(**small | rope | ends | {"head_dim": 8} | changes)
    elif family == "gemma2":
        special = {
            "head_dim": 8,
            "query_pre_attn_scalar": 16,
            "sliding_window": 4,
            "attn_logit_softcapping": 3.0,
            "final_logit_softcapping": 5.0,
        }
        made = t.Gemma2ForCausalLM, t.Gemma2Config(**small | rope | ends | special | changes)
    elif family == "gpt2":
        sizes = {"vocab_size": VOCABULARY, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4, "tie_word_embeddings": False}
        quiet = {"use_cache": False, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        made = t.GPT2LMHeadModel, t.GPT2Config(**sizes | quiet | ends | changes)
    elif family == "neox":
        kinds = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}
        quiet = {"use_cache": False, "max_position_embeddings": 64, "tie_word_embeddings": False}
        made = t.GPTNeoXForCausalLM, t.GPTNeoXConfig(**small | quiet | kinds | ends | changes)
    elif family == "bert":
        quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 32}
        made = t.BertModel, t.BertConfig(**small | quiet | changes)
    elif family == "t5":
        sizes = {
            "vocab_size": VOCABULARY,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 4,
            "dropout_rate": 0.0,
        }
        short = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "use_cache": False}
        made = t.T5EncoderModel, t.T5Config(**sizes | short | {"tie_word_embeddings": True} | changes)
    elif family == "vit":
        sizes = {name: size for name, size in small.items() if name != "vocab_size"} | {"image_size": 12, "patch_size": 4}
        made = t.ViTModel, t.ViTConfig(**sizes | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} | changes)
    kind, config = made
    config._attn_implementation = attention
    extra = {"add_pooling_layer": False} if family in ("bert", "vit") else {}
    return randomized(kind(config, **extra), seed=len(family))


def inputs_of(family, rows=2, length=LENGTH):
    """The arguments: token numbers, or pictures."""
    generator = torch.Generator().manual_seed(5)
    if family == "vit":
        return (torch.randn(rows, 3, 12, 12, generator=generator),)
    return (torch.randint(3, VOCABULARY, (rows, length), generator=generator),)
