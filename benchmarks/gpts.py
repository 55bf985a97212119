"""GPTs of other libraries, of one size, as contestants of benchmarks/models.py and benchmarks/decode.py.

The first is written here after nanoGPT (Karpathy, MIT licence): GPT-2 in plain PyTorch. Packages that are not installed are listed.
"""

import importlib.util
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Size:
    """A character GPT: layers, width, heads, positions, vocabulary, and the batch of a step."""

    layers: int
    width: int
    heads: int
    places: int = 256
    vocabulary: int = 65
    batch: int = 16

    def __str__(self):
        return f"{self.layers}x{self.width}, {self.places} places, batch {self.batch}"


class PlainBlock(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads = s.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(s.width), nn.LayerNorm(s.width)
        self.c_attn, self.c_proj = nn.Linear(s.width, 3 * s.width), nn.Linear(s.width, s.width)
        self.c_fc, self.c_out = nn.Linear(s.width, 4 * s.width), nn.Linear(4 * s.width, s.width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).split(d, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Plain(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(s.vocabulary, s.width), nn.Embedding(s.places, s.width)
        self.blocks, self.ln_f = nn.ModuleList(PlainBlock(s) for _ in range(s.layers)), nn.LayerNorm(s.width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def plain(s):
    return Plain(s)


def plain_compiled(s):
    return torch.compile(Plain(s))


class Logits(nn.Module):
    """A model of transformers, whose forward returns an object."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids, use_cache=False).logits


def gpt2_config(s):
    from transformers import GPT2Config

    return GPT2Config(
        vocab_size=s.vocabulary, n_embd=s.width, n_layer=s.layers, n_head=s.heads, n_positions=s.places, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip


def hf_gpt2(s):
    from transformers import GPT2LMHeadModel

    return Logits(GPT2LMHeadModel(gpt2_config(s)))


def hf_llama(s):
    from transformers import LlamaConfig, LlamaForCausalLM

    return Logits(LlamaForCausalLM(LlamaConfig(
        vocab_size=s.vocabulary, hidden_size=s.width, intermediate_size=8 * s.width // 3, num_hidden_layers=s.layers,
        num_attention_heads=s.heads, max_position_embeddings=s.places, bos_token_id=None, eos_token_id=None,
    )))  # fmt: skip


def x_transformers(s):
    from x_transformers import Decoder, TransformerWrapper

    decoder = Decoder(dim=s.width, depth=s.layers, heads=s.heads, attn_dim_head=s.width // s.heads, attn_flash=True)
    return TransformerWrapper(num_tokens=s.vocabulary, max_seq_len=s.places, attn_layers=decoder, tie_embedding=True)


def litgpt_config(s):
    from litgpt.config import Config

    return Config(
        name="bench", block_size=s.places, padded_vocab_size=s.vocabulary, n_layer=s.layers, n_head=s.heads, n_embd=s.width,
        bias=True, norm_class_name="LayerNorm", mlp_class_name="GptNeoxMLP",
    )  # fmt: skip


def litgpt(s):
    from litgpt.model import GPT

    return GPT(litgpt_config(s))


def torch_encoder(s):
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(s.width, s.heads, 4 * s.width, 0.0, "gelu", batch_first=True, norm_first=True)
            self.wte, self.wpe = nn.Embedding(s.vocabulary, s.width), nn.Embedding(s.places, s.width)
            self.layers, self.ln_f = nn.TransformerEncoder(layer, s.layers, enable_nested_tensor=False), nn.LayerNorm(s.width)

        def forward(self, ids):
            n = ids.shape[1]
            mask = nn.Transformer.generate_square_subsequent_mask(n)
            x = self.wte(ids) + self.wpe(torch.arange(n))
            return self.ln_f(self.layers(x, mask, is_causal=True)) @ self.wte.weight.T

    return Encoder()


PEERS = {
    "nanoGPT's way": (plain, None), "nanoGPT's way, compiled": (plain_compiled, None),
    "transformers GPT-2": (hf_gpt2, "transformers"),
    "transformers Llama": (hf_llama, "transformers"), "x-transformers": (x_transformers, "x_transformers"),
    "litgpt": (litgpt, "litgpt"), "nn.TransformerEncoder": (torch_encoder, None),
}  # fmt: skip


def present():
    """The peers that are installed, and the names of those that are not."""
    there = {name: make for name, (make, package) in PEERS.items() if package is None or importlib.util.find_spec(package)}
    return there, [name for name in PEERS if name not in there]
