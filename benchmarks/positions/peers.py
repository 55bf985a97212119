"""The same attention in other libraries; those that are not installed are left out and listed."""

import math

import torch
import torch.nn.functional as F

from .ours import Contestant, schemes, sized

INSTALL = (
    "uv pip install --no-deps transformers rotary-embedding-torch x-transformers einops einx loguru frozendict torch-einops-utils"
)


def joined(z):
    """[B, H, T, K] to [B, T, H*K], the input of a model's output projection."""
    return z.transpose(1, 2).flatten(2)


def sdpa(q, k, v, mask=None):
    return joined(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None))


def plain(case):
    return sdpa, []


def causal(case):
    return torch.ones(case.length, case.length, dtype=torch.bool, device=case.device).tril()


def by_hand(case):
    def run(q, k, v):
        scores = (q @ k.mT) / math.sqrt(case.width)
        return joined(scores.masked_fill(~causal(case), -math.inf).softmax(-1) @ v)

    return run, []


def hugging_face_rope(case):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    config = LlamaConfig(hidden_size=case.heads * case.width, num_attention_heads=case.heads, head_dim=case.width)
    clocks = LlamaRotaryEmbedding(config).to(case.device)
    at = torch.arange(case.length, device=case.device)[None]

    def run(q, k, v):
        return sdpa(*apply_rotary_pos_emb(q, k, *clocks(q, at)), v)

    return run, []


def hugging_face_t5(case):
    from transformers.models.t5.modeling_t5 import T5Attention

    table = sized(schemes()["t5, one side"], case).table.weight
    at = torch.arange(case.length, device=case.device)

    def run(q, k, v):
        bucket = T5Attention._relative_position_bucket(at[None] - at[:, None], False, 32, 128)
        bias = F.embedding(bucket, table).permute(2, 0, 1)[None]
        return sdpa(q, k, v, bias.masked_fill(~causal(case), torch.finfo(bias.dtype).min).to(q.dtype))

    return run, [table]


def rotary_embedding_torch(case):
    from rotary_embedding_torch import RotaryEmbedding

    clocks = RotaryEmbedding(case.width).to(case.device)

    def run(q, k, v):
        return sdpa(clocks.rotate_queries_or_keys(q), clocks.rotate_queries_or_keys(k), v)

    return run, []


def x_transformers_rotary(case):
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    clocks = RotaryEmbedding(case.width).to(case.device)

    def run(q, k, v):
        angles, scale = clocks.forward_from_seq_len(case.length)
        return sdpa(apply_rotary_pos_emb(q, angles, scale), apply_rotary_pos_emb(k, angles, scale), v)

    return run, []


def x_transformers_alibi(case):
    from x_transformers.attend import Attend
    from x_transformers.x_transformers import AlibiPositionalBias

    bias, attend = AlibiPositionalBias(case.heads).to(case.device), Attend(heads=case.heads, causal=True, flash=True)

    def run(q, k, v):
        return joined(attend(q, k, v, attn_bias=bias(case.length, case.length).to(q.dtype))[0])

    return run, []


class Copied(torch.autograd.Function):
    """The least that any rotation outside the kernel costs: it reads all numbers and writes as many, in both passes."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g.clone()


def copies(case):
    return lambda q, k, v: sdpa(Copied.apply(q), Copied.apply(k), v), []


PLAIN = Contestant("plain", "torch", plain, "none", "F.scaled_dot_product_attention(q, k, v, is_causal=True)")
PEERS = [
    Contestant("copies, the least for rope", "torch", copies, "none", "q and k written once more, their gradients too"),
    Contestant("weights by hand", "torch", by_hand, "none", "softmax(QKᵀ)V, every table written down"),
    Contestant("RoPE of transformers", "Hugging Face", hugging_face_rope, "rope, half-split", "apply_rotary_pos_emb, Llama's"),
    Contestant("rotary-embedding-torch", "lucidrains", rotary_embedding_torch, "rope", "rotate_queries_or_keys"),
    Contestant("RoPE of x-transformers", "lucidrains", x_transformers_rotary, "rope", "apply_rotary_pos_emb"),
    Contestant(
        "ALiBi of x-transformers", "lucidrains", x_transformers_alibi, "alibi", "AlibiPositionalBias, kept, and Attend(flash=True)"
    ),
    Contestant(
        "T5 bias of transformers", "Hugging Face", hugging_face_t5, "t5, one side", "T5's buckets, a dense table as attn_mask"
    ),
]


def present(case):
    """The peers that are installed, and those that are missing."""
    found, missing = [], []
    for peer in PEERS:
        try:
            peer.make(case)
        except ImportError as error:
            missing.append(f"{peer.name} is left out ({error}). Install the peers: {INSTALL}")
        else:
            found.append(peer)
    return found, missing
