"""What was found in x-transformers, again, with x-transformers and torch alone: python docs/why/confirm/in_x_transformers.py"""

import torch
from x_transformers import Decoder, TransformerWrapper

IDS = torch.randint(5, 100, (1, 13), generator=torch.Generator().manual_seed(0))
NO_TABLE = {"use_abs_pos_emb": False}


def relative(results, expected):
    """Size of the difference over the size of what was wanted."""
    return ((results - expected).norm() / expected.norm()).item()


def built(around=NO_TABLE, **options):
    """A causal model of two layers at random weights, in float64."""
    torch.manual_seed(0)
    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=16, verbose=False, **options)
    return TransformerWrapper(num_tokens=101, max_seq_len=64, attn_layers=layers, **around).double().eval()


def logits(model, ids=IDS, **more):
    with torch.no_grad():
        return model(ids, **more)


def later(model):
    """The same tokens, 20 positions later."""
    return relative(logits(model, pos=torch.arange(20, 33)), logits(model, pos=torch.arange(13)))


def cached(model):
    """As generate() does: the whole text so far, and the cache of the step before."""
    cache, results = None, []
    for n in range(1, 14):
        with torch.no_grad():
            answer, cache = model(IDS[:, :n], return_intermediates=True, cache=cache)
        results.append(answer[:, -1:])
    return relative(torch.cat(results, 1), logits(model))


def padded(model):
    """As generate(prompt_lens=...) does: one row of padding in front, and where the text starts. In float32, as its softmax."""
    model, ids = model.float(), torch.nn.functional.pad(IDS, (1, 0), value=7)
    return relative(logits(model, ids, seq_start_pos=torch.tensor([1]))[:, 1:], logits(model, seq_start_pos=torch.tensor([0])))


def alibi_with_a_table():
    """ALiBi as the README shows it keeps learned absolute positions.

    `alibi_pos_bias=True` and `rel_pos_bias=True` do not disable `use_abs_pos_emb` (`rotary_pos_emb=True` does), so the
    outputs depend on the absolute position and no position beyond the table is possible: what relative biases are chosen to
    avoid.
    """
    return {
        "alibi, 20 positions later": later(built({}, alibi_pos_bias=True)),
        "alibi, use_abs_pos_emb=False": later(built(alibi_pos_bias=True)),
        "rotary": later(built({}, rotary_pos_emb=True)),
    }


def shift_tokens_cache():
    """With `shift_tokens`, generate() does not compute what the model computes.

    A step with a cache gets one token, so the features that should come from the token before are zeros. `can_cache_kv`
    says that it can be cached, and `generate()` does so unless `cache_kv=False`.
    """
    model = built(shift_tokens=1)
    return {"one at a time with its cache": cached(model), "rotary, for comparison": cached(built(rotary_pos_emb=True))}


def data_dependent_alibi_cache():
    """With `attn_data_dependent_alibi`, the cache keeps keys and values, but not the forget gates.

    The bias between a query and a key is a sum over the tokens between them; a single token has only its own term.
    """
    return {"one at a time with its cache": cached(built(attn_data_dependent_alibi=True))}


def padding_with_effect():
    """Left padding (`seq_start_pos`) changes the outputs with shifted tokens, memory tokens and selective attention.

    Shifted tokens carry padding into the first token in the feed-forward layers, which get no mask; memory tokens precede
    the input when the mask is applied to both; in selective attention, padding selects too.
    """
    return {
        "shift_tokens": padded(built(shift_tokens=1)),
        "num_memory_tokens": padded(built(NO_TABLE | {"num_memory_tokens": 3}, rotary_pos_emb=True)),
        "attn_selective": padded(built(attn_selective=True, rotary_pos_emb=True)),
        "rotary alone": padded(built(rotary_pos_emb=True)),
    }


def memory_keys_with_rotary():
    """Memory keys beside rotated keys make rotary attention depend on the absolute position.

    `attn_num_mem_kv` adds keys that are not rotated, so the product of a query with them depends on the query's own
    position.
    """
    model = built(attn_num_mem_kv=3, rotary_pos_emb=True)
    return {"20 positions later": later(model), "one row of padding in front": padded(model)}


FINDINGS = (alibi_with_a_table, shift_tokens_cache, data_dependent_alibi_cache, padding_with_effect, memory_keys_with_rotary)

if __name__ == "__main__":
    for finding in FINDINGS:
        print((finding.__doc__ or "").split("\n")[0])
        for what, error in finding().items():
            print(f"    {error:.1e}  {what}")
