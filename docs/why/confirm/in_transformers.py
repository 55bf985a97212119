"""What was found in transformers, again, with transformers and torch alone: python docs/why/confirm/in_transformers.py"""

import warnings

import torch
import transformers as hf

warnings.simplefilter("ignore")
hf.logging.set_verbosity_error()
SMALL = {"vocab_size": 101, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
IDS = torch.randint(5, 100, (1, 13), generator=torch.Generator().manual_seed(0))


def relative(results, expected):
    """Size of the difference over the size of what was wanted."""
    return ((results - expected).norm() / expected.norm()).item()


def built(model_class, config, spread=None):
    """At random weights, in float64. spread: of weights drawn wider than the class's own, where those hide what they can do."""
    torch.manual_seed(0)
    config._experts_implementation = "eager"  # grouped products have no kernel for float64
    model = model_class(config).double().eval()
    if spread is not None:
        with torch.no_grad():
            for p in model.parameters():
                p.add_(spread * torch.randn_like(p))
    return model


def logits(model, ids=IDS, **more):
    with torch.no_grad():
        return model(input_ids=ids, **more).logits


def in_pieces(model, sizes, name="past_key_values"):
    """The same text, read in pieces with a cache."""
    past, start, results = None, 0, []
    for size in sizes:
        with torch.no_grad():
            output = model(input_ids=IDS[:, start : start + size], use_cache=True, **{name: past})
        past, start = getattr(output, name), start + size
        results.append(output.logits)
    return torch.cat(results, 1)


def padded(model, **more):
    """One row of padding in front, marked by the attention mask: the logits of the tokens."""
    ids, mask = torch.nn.functional.pad(IDS, (1, 0), value=7), torch.ones(1, 14, dtype=torch.long)
    mask[0, 0] = 0
    return logits(model, ids, attention_mask=mask, **more)[:, 1:]


def mamba_in_chunks():
    """A Mamba cache is ignored when more than one token follows.

    In Mamba, FalconMamba, Jamba and Zamba the scan of several tokens starts from an empty state although the cache holds
    one (`mamba_selective_scan` gets no initial state). A second chunk of a prompt, or the next message of a chat, is
    processed as if the scan had seen nothing before. No error is raised. One token at a time is right; Mamba2, RWKV and xLSTM are
    right in chunks too.
    """
    small = {"vocab_size": 101, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
    mamba = built(hf.MambaForCausalLM, hf.MambaConfig(**small))
    falcon = built(hf.FalconMambaForCausalLM, hf.FalconMambaConfig(**small))
    second = built(hf.Mamba2ForCausalLM, hf.Mamba2Config(num_heads=4, head_dim=16, n_groups=1, chunk_size=4, **small))
    many, ones = [4, 9], [1] * 13
    return {
        "Mamba, 4 tokens then 9": relative(in_pieces(mamba, many, "cache_params"), logits(mamba)),
        "FalconMamba, 4 then 9": relative(in_pieces(falcon, many, "cache_params"), logits(falcon)),
        "FalconMamba, one at a time": relative(in_pieces(falcon, ones, "cache_params"), logits(falcon)),
        "Mamba2, 4 then 9": relative(in_pieces(second, many, "cache_params"), logits(second)),
    }


def moshi_window():
    """Moshi's cache has a window that its full pass lacks.

    The cache keeps `sliding_window` keys, as the config says; the mask of a full pass is causal without a window. Beyond
    the window, generation with a cache gives other outputs than one pass over the same tokens (here a window of 4; the
    published one is 3000).
    """
    config = hf.MoshiConfig(**SMALL, ffn_dim=48, sliding_window=4, num_codebooks=2, audio_vocab_size=101,
                            depth_decoder_config={"vocab_size": 101, "hidden_size": 32, "num_hidden_layers": 1, "ffn_dim": 48,
                                                  "num_attention_heads": 2, "audio_vocab_size": 101})  # fmt: skip
    model = built(hf.MoshiForCausalLM, config)
    cached, full = in_pieces(model, [1] * 13), logits(model)
    return {"the first 4 tokens": relative(cached[:, :4], full[:, :4]), "the others": relative(cached[:, 4:], full[:, 4:])}


def bamba_positions():
    """Bamba with a cache counts positions from 0 again, unless it gets `position_ids`.

    Its forward computes `position_ids` from the tokens of the call and ignores those in the cache. `generate()` passes
    them. A custom loop that does not, as other classes allow, rotates every new query as if it were the first.
    """
    config = hf.BambaConfig(**SMALL, num_key_value_heads=2, attn_layer_indices=[1], mamba_n_heads=4, mamba_d_head=16,
                            mamba_d_state=8, mamba_chunk_size=4)  # fmt: skip
    model = built(hf.BambaForCausalLM, config, spread=0.3)
    past, results = None, []
    for i in range(13):
        with torch.no_grad():
            output = model(input_ids=IDS[:, i : i + 1], position_ids=torch.tensor([[i]]), past_key_values=past, use_cache=True)
        past = output.past_key_values
        results.append(output.logits)
    with_positions, whole = torch.cat(results, 1), logits(model)
    return {"one at a time": relative(in_pieces(model, [1] * 13), whole), "with position_ids": relative(with_positions, whole)}


def zamba2_steps():
    """Zamba2 and Nemotron-H clamp the time step of their scan at `time_step_min`, but not that of a single token.

    The full pass clamps it (`dt_limit`), the step with a cache does not. Where softplus of the step is below
    `time_step_min` (0.001 by default), generation differs from the full pass. At random weights and the default value the
    difference is small; 0.05 makes it large here.
    """
    config = hf.Zamba2Config(
        vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2,
        layers_block_type=["linear_attention", "hybrid", "linear_attention", "hybrid"], n_mamba_heads=4, mamba_headdim=16,
        mamba_d_state=8, chunk_size=4, adapter_rank=8, max_position_embeddings=64, time_step_min=0.05,
    )  # fmt: skip
    small = built(hf.Zamba2ForCausalLM, config, spread=0.3)
    config.time_step_min = 1e-9
    free = built(hf.Zamba2ForCausalLM, config, spread=0.3)
    free.load_state_dict(small.state_dict())
    return {
        "one at a time, time_step_min=0.05": relative(in_pieces(small, [1] * 13), logits(small)),
        "time_step_min=1e-9": relative(in_pieces(free, [1] * 13), logits(free)),
    }


def growing_rope():
    """The rope types `dynamic` and `longrope` depend on the length of the input.

    Beyond the original maximum the angles of all tokens depend on the length, so the output at the first 7 tokens depends
    on how many follow, and cached keys with other angles do not fit. linear, yarn and llama3 do not depend on it.
    """
    results, original = {}, {"factor": 4.0, "original_max_position_embeddings": 8}
    factors = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}
    for name, more in (("dynamic", {"factor": 4.0}), ("longrope", {**original, **factors}), ("yarn", original)):
        rope = {"rope_type": name, "rope_theta": 1e4, **more}
        config = hf.LlamaConfig(**SMALL, max_position_embeddings=8 if name == "dynamic" else 32, rope_parameters=rope)
        model = built(hf.LlamaForCausalLM, config, spread=0.3)
        alone, whole = logits(model, IDS[:, :7]), logits(model)[:, :7]
        results[f"{name}, the first 7 alone against 7 of 13"] = relative(alone, whole)
        model = built(hf.LlamaForCausalLM, config, spread=0.3)
        results[f"{name}, cache"] = relative(in_pieces(model, [1] * 13), logits(model))
    return results


def padding_without_position_ids():
    """Left padding with a mask alone changes the positions of GPT-2's tokens.

    `generate()` counts `position_ids` from the mask, a plain call does not: GPT-2 then uses larger positions. Models with
    rotary or linear-bias positions are not affected, because only distances count.
    """
    gpt2 = built(hf.GPT2LMHeadModel, hf.GPT2Config(vocab_size=101, n_embd=32, n_layer=2, n_head=2, n_positions=64), spread=0.3)
    llama = built(hf.LlamaForCausalLM, hf.LlamaConfig(**SMALL, max_position_embeddings=64), spread=0.3)
    positions = torch.cat([torch.zeros(1, 1, dtype=torch.long), torch.arange(13)[None]], -1)
    return {
        "GPT-2, mask alone": relative(padded(gpt2), logits(gpt2)),
        "GPT-2, with position_ids": relative(padded(gpt2, position_ids=positions), logits(gpt2)),
        "Llama, mask alone": relative(padded(llama), logits(llama)),
    }


def decoders_that_count_rows():
    """Bart and similar decoders have learned positions that cannot be set.

    Bart, MBart, Blenderbot, Pegasus, PLBart, Marian, MVP, TrOCR, Whisper, Musicgen, ProphetNet and BigBirdPegasus take no
    `position_ids` and count rows, padding included, so a batch padded on the left cannot be right. OPT, of the same
    descent, counts the mask.
    """
    small = {"vocab_size": 101, "d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 48}
    bart = built(hf.BartForCausalLM, hf.BartConfig(**small, max_position_embeddings=64, is_decoder=True, is_encoder_decoder=False))
    opt = built(hf.OPTForCausalLM, hf.OPTConfig(**{**SMALL, "num_attention_heads": 2}, ffn_dim=48, word_embed_proj_dim=32,
                                                max_position_embeddings=64))  # fmt: skip
    return {"Bart": relative(padded(bart), logits(bart)), "OPT": relative(padded(opt), logits(opt))}


def cpm_ant_reads_ahead():
    """CpmAntForCausalLM attends to its whole input in both directions.

    Every token of the input is context, and all tokens attend to the context (`_prepare_attention_mask`): changing the last
    token changes the logits of all others. This is the design of a prefix model, but a loss over all tokens, or the score
    of a text, sees the answer.
    """
    config = hf.CpmAntConfig(vocab_size=101, hidden_size=32, num_attention_heads=2, dim_head=16, dim_ff=48, num_hidden_layers=2)
    model, other = built(hf.CpmAntForCausalLM, config), IDS.clone()
    other[0, -1] = (other[0, -1] + 1) % 90 + 5
    return {"the first 12 tokens": relative(logits(model, other)[:, :-1], logits(model)[:, :-1])}


def packed_documents():
    """Positions that restart do not separate documents in every class.

    transformers masks the documents of a packed sequence from each other where `position_ids` restart and there is no mask.
    A class whose forward does not pass `position_ids` to `create_causal_mask` restarts the positions and still attends
    across documents. No error is raised. The column *packing* of the table has the others.
    """
    wide = {**SMALL, "max_position_embeddings": 64, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 4}
    models = {
        "Llama": built(hf.LlamaForCausalLM, hf.LlamaConfig(**SMALL)),
        "GPT-OSS": built(hf.GptOssForCausalLM, hf.GptOssConfig(**wide, num_local_experts=4, num_experts_per_tok=2)),
        "Falcon": built(hf.FalconForCausalLM, hf.FalconConfig(**SMALL)),
        "BioGPT": built(hf.BioGptForCausalLM, hf.BioGptConfig(**SMALL)),
        "BERT as a decoder": built(hf.BertLMHeadModel, hf.BertConfig(**SMALL, is_decoder=True)),
    }
    restarting, results = torch.cat([torch.arange(5), torch.arange(8)])[None], {}
    for name, model in models.items():
        alone = logits(model, IDS[:, 5:], position_ids=torch.arange(8)[None], use_cache=False)
        results[name] = relative(logits(model, position_ids=restarting, use_cache=False)[:, 5:], alone)
    return results


def equal_scores():
    """Sparse attention with an indexer depends on the length of the text where scores are equal.

    DeepSeek-V3.2, GLM-MoE-DSA and AXK2 keep the `index_topk` keys with the highest scores. A score is exactly 0 where the ReLU of
    every index head is 0, and among equal scores the choice of `torch.topk` depends on the length of the row: later tokens change
    which earlier keys are kept. With 4 index heads, one key in 16 has the score 0; with the 64 of the published models it does not
    happen here.
    """
    text, results = torch.randint(5, 100, (1, 512), generator=torch.Generator().manual_seed(0)), {}
    for heads in (4, 64):
        config = hf.DeepseekV32Config(
            vocab_size=101, hidden_size=64, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
            q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16, first_k_dense_replace=2,
            index_topk=8, index_n_heads=heads, index_head_dim=16, max_position_embeddings=512,
        )  # fmt: skip
        model = built(hf.DeepseekV32ForCausalLM, config)
        name = f"{heads} index heads, the first 257 tokens alone against 257 of 512"
        results[name] = relative(logits(model, text[:, :257]), logits(model, text)[:, :257])
    return results


def rwkv_rescales():
    """RWKV changes its parameters in the first call in evaluation.

    `_rescale_layers` divides two weights of block b by 2 to the power of b // `rescale_every`, in place, and multiplies them back
    in the next call in training. Between the two, `state_dict()` holds other numbers than those that were loaded or trained. A
    model that is saved then, and loaded, is divided a second time.
    """
    config = hf.RwkvConfig(vocab_size=101, hidden_size=32, num_hidden_layers=4, rescale_every=2)
    model = built(hf.RwkvForCausalLM, config)
    weight = model.rwkv.blocks[2].attention.output.weight
    before, first = weight.detach().clone(), logits(model)
    after, other = weight.detach().clone(), built(hf.RwkvForCausalLM, config)
    other.load_state_dict(model.state_dict())
    return {
        "a weight of block 2 after one call": relative(after, before),
        "logits after saving and loading": relative(logits(other), first),
    }


def xlm_padding():
    """XLM as a causal model (`causal=True`) attends to padding.

    `get_masks` makes the attention mask either causal or from the padding, never both, so padded keys before the tokens are
    attended to.
    """
    config = hf.XLMConfig(vocab_size=101, emb_dim=32, n_layers=2, n_heads=2, causal=True, max_position_embeddings=64, dropout=0.0)
    model = built(hf.XLMWithLMHeadModel, config, spread=0.3)
    positions = torch.cat([torch.zeros(1, 1, dtype=torch.long), torch.arange(13)[None]], -1)
    return {"with position_ids": relative(padded(model, position_ids=positions), logits(model))}


def reformer_draws():
    """Reformer draws random numbers in evaluation mode.

    Its hashing rotates by random numbers drawn in every call where `hash_seed` is not set: two calls on the same input
    differ.
    """
    config = hf.ReformerConfig(vocab_size=101, hidden_size=32, num_attention_heads=2, attention_head_size=16, feed_forward_size=48,
                               attn_layers=["local", "lsh"], axial_pos_shape=(4, 4), axial_pos_embds_dim=(16, 16), is_decoder=True,
                               local_attn_chunk_length=4, lsh_attn_chunk_length=4, num_buckets=2)  # fmt: skip
    model, ids = built(hf.ReformerModelWithLMHead, config, spread=0.3), IDS[:, :12]
    return {"one input twice": relative(logits(model, ids), logits(model, ids))}


def norm_after_rotation():
    """HunYuan applies the norm of queries and keys after the rotation, and its weight undoes the purpose of RoPE.

    A weight for each feature does not commute with a rotation of pairs of features, so scores depend on the absolute
    position once the weight is trained; the initial weight of ones hides this. Qwen3 applies the norm before the rotation
    and depends on distances only.
    """
    results, later = {}, torch.arange(100, 113)[None]
    hunyuan = hf.HunYuanDenseV1Config(**SMALL, head_dim=16, num_key_value_heads=2)
    for name, model_class, config in (
        ("HunYuan, weights of 1", hf.HunYuanDenseV1ForCausalLM, hunyuan),
        (
            "HunYuan, other weights",
            hf.HunYuanDenseV1ForCausalLM,
            hf.HunYuanDenseV1Config(**SMALL, head_dim=16, num_key_value_heads=2),
        ),
        ("Qwen3, other weights", hf.Qwen3ForCausalLM, hf.Qwen3Config(**SMALL, head_dim=16, num_key_value_heads=2)),
    ):
        model = built(model_class, config, spread=0.3 if "other" in name else None)
        results[name] = relative(logits(model, position_ids=later), logits(model, position_ids=torch.arange(13)[None]))
    return results


def recurrent_gemma_padding():
    """RecurrentGemma's recurrence runs through padding.

    The mask reaches its attention layers only: padding before the tokens passes through the convolution and into the state.
    """
    config = hf.RecurrentGemmaConfig(**{**SMALL, "num_hidden_layers": 3}, lru_width=32, attention_window_size=8, head_dim=16)
    model = built(hf.RecurrentGemmaForCausalLM, config)
    positions = torch.cat([torch.zeros(1, 1, dtype=torch.long), torch.arange(13)[None]], -1)
    return {"with position_ids": relative(padded(model, position_ids=positions), logits(model))}


def prophetnet_mixes_rows():
    """ProphetNet's predicting streams take their relative biases from other tokens, later ones included.

    `get_predict_relative_pos_embeddings` orders its values by token, stream and head, and the table of distances by stream,
    head and token, before it combines them row by row. The bias of one token is therefore computed from the state of
    another. Changing token 2 changes tokens 0 and 1, and the output at a token depends on the length of the input.
    """
    config = hf.ProphetNetConfig(vocab_size=101, hidden_size=32, decoder_ffn_dim=48, num_decoder_layers=2, is_decoder=True,
                                 num_decoder_attention_heads=2, max_position_embeddings=64, is_encoder_decoder=False)  # fmt: skip
    model, other = built(hf.ProphetNetForCausalLM, config, spread=0.3), IDS.clone()
    other[0, 2] = (other[0, 2] + 1) % 90 + 5
    return {
        "tokens 0 and 1, token 2 changed": relative(logits(model, other)[:, :2], logits(model)[:, :2]),
        "the first 7 alone against 7 of 13": relative(logits(model, IDS[:, :7]), logits(model)[:, :7]),
    }


def deepseek_v4_blocks():
    """DeepSeek-V4 compresses rows of padding too.

    Keys are compressed in blocks counted from the first row: padding before the tokens is compressed with them and shifts
    the block boundaries, whatever the mask and the positions are. The same tokens at other positions differ as well.
    """
    config = hf.DeepseekV4Config(
        vocab_size=101, hidden_size=64, moe_intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, head_dim=16,
        q_lora_rank=16, num_experts_per_tok=2, n_routed_experts=4, max_position_embeddings=64, sliding_window=4, o_lora_rank=16,
        index_n_heads=4, index_head_dim=16, index_topk=8, qk_rope_head_dim=16, num_key_value_heads=1,
        layer_types=["heavily_compressed_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
        mlp_layer_types=["hash_moe", "moe", "moe"],
    )  # fmt: skip
    config._experts_implementation = "eager"
    model = built(hf.DeepseekV4ForCausalLM, config)
    positions = torch.cat([torch.zeros(1, 1, dtype=torch.long), torch.arange(13)[None]], -1)
    return {"one row of padding, with position_ids": relative(padded(model, position_ids=positions), logits(model))}


FINDINGS = (
    mamba_in_chunks, moshi_window, bamba_positions, zamba2_steps, growing_rope, prophetnet_mixes_rows, cpm_ant_reads_ahead,
    norm_after_rotation, padding_without_position_ids, decoders_that_count_rows, recurrent_gemma_padding, deepseek_v4_blocks,
    xlm_padding, reformer_draws, packed_documents, equal_scores, rwkv_rescales,
)  # fmt: skip

if __name__ == "__main__":
    for finding in FINDINGS:
        print((finding.__doc__ or "").split("\n")[0])
        for what, error in finding().items():
            print(f"    {error:.1e}  {what}")
