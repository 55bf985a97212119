"""Ports of GPT-2 (nanoGPT's style, per-head kernels) and GPT-NeoX (fused q, k, v, one head after the other).

What a port gets wrong is a set of words in `wrong`; `only` restricts it to one layer.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .ported_llama import ACTIVATIONS, linear


def layer_norm(x, weight, bias, eps, wrong=()):
    """Layer normalization, written out."""
    if "rms norm" in wrong:
        return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias
    centred = x - x.mean(-1, keepdim=True)
    if "unbiased std" in wrong:
        return weight * centred / (x.std(-1, keepdim=True) + eps) + bias
    if "no norm bias" in wrong:
        bias = 0
    if "no norm weight" in wrong:
        weight = 1
    return centred / (centred.square().mean(-1, keepdim=True) + (1e-3 if "epsilon" in wrong else eps)).sqrt() * weight + bias


class Affine(nn.Module):
    """A layer normalization of another name."""

    def __init__(self, state, name, eps, wrong):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(state[f"{name}.weight"].clone()), nn.Parameter(state[f"{name}.bias"].clone())
        self.eps, self.wrong = eps, wrong

    def forward(self, x):
        return layer_norm(x, self.gamma, self.beta, self.eps, self.wrong)


class HeadwiseAttention(nn.Module):
    """GPT-2's attention with kernels of one head each: [heads, in, width]."""

    def __init__(self, state, name, heads, wrong):
        super().__init__()
        self.wrong = wrong
        if "head width" in wrong:
            heads = heads // 2
        w, b = state[f"{name}.c_attn.weight"], state[f"{name}.c_attn.bias"]  # Conv1D: [in, 3 out]
        parts = [p.unflatten(1, (heads, -1)).transpose(0, 1).clone() for p in w.chunk(3, 1)]
        if "kv swapped" in wrong:
            parts[1], parts[2] = parts[2], parts[1]
        self.kernels = nn.ParameterList(parts)
        self.offsets = nn.ParameterList([p.unflatten(0, (heads, -1)).clone() for p in b.chunk(3)])
        out = state[f"{name}.c_proj.weight"]
        self.merge = linear(
            out if "transposed" in wrong else out.T, None if "no output bias" in wrong else state[f"{name}.c_proj.bias"]
        )

    def forward(self, x, valid):
        q, k, v = (torch.einsum("btd,hdk->bhtk", x, w) for w in self.kernels)
        if "no bias" not in self.wrong:
            q, k, v = (y + b[:, None] for y, b in zip((q, k, v), self.offsets, strict=True))
        size = x.shape[1]
        scale = 1.0 if "no scale" in self.wrong else x.shape[-1] ** -0.5 if "scale of width" in self.wrong else q.shape[-1] ** -0.5
        scores = q @ k.transpose(-1, -2) * scale
        if "score cap" in self.wrong:
            scores = 5 * torch.tanh(scores / 5)
        i = torch.arange(size, device=x.device)
        may = (i[:, None] >= i[None]) if "not causal" not in self.wrong else torch.ones(size, size, dtype=torch.bool)
        if "strict causal" in self.wrong:
            may = (i[:, None] > i[None]) | (i[:, None] == 0) & (i[None] == 0)
        may = may[None, None]
        if valid is not None and "padding ignored" not in self.wrong:
            keep = valid.bool()
            if "padding side" in self.wrong:
                keep = i[None] < valid.sum(1, keepdim=True)
            may = may & keep[:, None, None]
        scores = scores.masked_fill(~may, torch.finfo(torch.float32).min)
        y = scores.softmax(-2 if "softmax axis" in self.wrong else -1) @ v
        return self.merge(y.transpose(1, 2).reshape(x.shape))


class GptBlock(nn.Module):
    def __init__(self, state, name, heads, eps, wrong, dropout):
        super().__init__()
        self.before, self.after = Affine(state, f"{name}.ln_1", eps, wrong), Affine(state, f"{name}.ln_2", eps, wrong)
        self.mix = HeadwiseAttention(state, f"{name}.attn", heads, wrong)
        self.widen = linear(state[f"{name}.mlp.c_fc.weight"].T, state[f"{name}.mlp.c_fc.bias"])
        self.narrow = linear(state[f"{name}.mlp.c_proj.weight"].T, state[f"{name}.mlp.c_proj.bias"])
        self.drop, self.wrong = nn.Dropout(dropout), wrong

    def forward(self, x, valid):
        act = ACTIVATIONS["gelu" if "exact gelu" in self.wrong else "relu" if "relu" in self.wrong else "gelu_tanh"]
        if "post norm" in self.wrong:
            x = self.before(x + self.mix(x, valid))
            return self.after(x + self.narrow(act(self.widen(x))))
        normed = self.before(x)
        a = self.drop(self.mix(normed, valid))
        if "parallel" in self.wrong:
            return x + a + self.drop(self.narrow(act(self.widen(self.after(x)))))
        x = a if "no residual" in self.wrong else (normed + a if "normed residual" in self.wrong else x + a)
        return x + self.drop(self.narrow(act(self.widen(self.after(x)))))


class GptPort(nn.Module):
    """Logits [B, T, V] of GPT-2."""

    def __init__(self, model, wrong=(), only=None, dropout=0.0):
        super().__init__()
        state, config = model.state_dict(), model.config
        self.wrong = wrong
        self.words = nn.Embedding.from_pretrained(state["transformer.wte.weight"].clone(), freeze=False)
        self.places = nn.Parameter(state["transformer.wpe.weight"].clone())
        self.drop = nn.Dropout(dropout)
        order = list(range(config.n_layer))
        if "layers swapped" in wrong:
            order.reverse()
        self.blocks = nn.ModuleList(
            GptBlock(
                state, f"transformer.h.{i}", config.n_head, config.layer_norm_epsilon, wrong if only in (None, i) else (), dropout
            )
            for i in order
        )
        self.last = Affine(state, "transformer.ln_f", config.layer_norm_epsilon, wrong if only is None else ())
        self.out = nn.Parameter((state["transformer.wte.weight"] if "tied" in wrong else state["lm_head.weight"]).T.clone())

    def forward(self, input_ids, attention_mask=None):
        size = input_ids.shape[1]
        start = 1 if "position offset" in self.wrong else 0
        words = self.words(input_ids)
        if "embedding scale" in self.wrong:
            words = words * math.sqrt(words.shape[-1])
        x = words + self.places[start : start + size]
        if attention_mask is not None and "positions of the mask" in self.wrong:
            x = words + self.places[(attention_mask.cumsum(1) - 1).clamp_min(0)]
        x = self.drop(x)
        for block in self.blocks:
            x = block(x, attention_mask)
        if "no final norm" not in self.wrong:
            x = self.last(x)
        logits = x @ self.out
        return 10 * torch.tanh(logits / 10) if "output cap" in self.wrong else logits


class NeoxAttention(nn.Module):
    def __init__(self, state, name, config, wrong):
        super().__init__()
        heads, size = config.num_attention_heads, config.hidden_size
        self.heads, self.width, self.wrong = heads, size // heads, wrong
        self.rotated = int(self.width * (1 if "rope width" in wrong else config.rope_parameters.get("partial_rotary_factor", 1.0)))
        self.base = config.rope_parameters["rope_theta"] * (50 if "rope base" in wrong else 1)
        w, b = state[f"{name}.query_key_value.weight"], state[f"{name}.query_key_value.bias"]
        if "fused layout" not in wrong:  # from head by head to q, k, v
            w = w.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)
            b = b.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)
        self.packed = linear(w, None if "no bias" in wrong else b)
        self.merge = linear(state[f"{name}.dense.weight"], state[f"{name}.dense.bias"])

    def turn(self, x, start=0):
        half = self.rotated // 2
        angle = torch.arange(start, start + x.shape[2], dtype=torch.float64)[:, None] / self.base ** (
            torch.arange(half, dtype=torch.float64) / half
        )
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        if "rope direction" in self.wrong:
            sin = -sin
        if "rope layout" in self.wrong:
            one, two = x[..., : self.rotated : 2], x[..., 1 : self.rotated : 2]
            return torch.cat(
                [torch.stack([one * cos - two * sin, one * sin + two * cos], -1).flatten(-2), x[..., self.rotated :]], -1
            )
        one, two = x[..., :half], x[..., half : self.rotated]
        return torch.cat([one * cos - two * sin, one * sin + two * cos, x[..., self.rotated :]], -1)

    def forward(self, x):
        q, k, v = self.packed(x).unflatten(-1, (3, self.heads, self.width)).permute(2, 0, 3, 1, 4)
        if "no rope" not in self.wrong:
            q, k = self.turn(q, 1 if "queries one ahead" in self.wrong else 0), self.turn(k)
        return self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class NeoxBlock(nn.Module):
    def __init__(self, state, name, config, wrong):
        super().__init__()
        eps = config.layer_norm_eps
        self.n1, self.n2 = (
            Affine(state, f"{name}.input_layernorm", eps, wrong),
            Affine(state, f"{name}.post_attention_layernorm", eps, wrong),
        )
        self.mix = NeoxAttention(state, f"{name}.attention", config, wrong)
        self.widen = linear(state[f"{name}.mlp.dense_h_to_4h.weight"], state[f"{name}.mlp.dense_h_to_4h.bias"])
        self.narrow = linear(state[f"{name}.mlp.dense_4h_to_h.weight"], state[f"{name}.mlp.dense_4h_to_h.bias"])
        self.wrong = wrong

    def forward(self, x):
        act = ACTIVATIONS["gelu_tanh" if "tanh gelu" in self.wrong else "gelu"]
        if "sequential" in self.wrong:
            x = x + self.mix(self.n1(x))
            return x + self.narrow(act(self.widen(self.n2(x))))
        normed = self.n1(x)
        second = normed if "one norm" in self.wrong else self.n2(x)  # GPT-J has one norm
        return x + self.mix(normed) + self.narrow(act(self.widen(second)))


class NeoxPort(nn.Module):
    """Logits [B, T, V] of GPT-NeoX."""

    def __init__(self, model, wrong=(), only=None):
        super().__init__()
        state, config = model.state_dict(), model.config
        self.words = nn.Embedding.from_pretrained(state["gpt_neox.embed_in.weight"].clone(), freeze=False)
        self.blocks = nn.ModuleList(
            NeoxBlock(state, f"gpt_neox.layers.{i}", config, wrong if only in (None, i) else ())
            for i in range(config.num_hidden_layers)
        )
        self.last = Affine(state, "gpt_neox.final_layer_norm", config.layer_norm_eps, wrong if only is None else ())
        self.out = linear(state["gpt_neox.embed_in.weight" if "tied" in wrong else "lm_head.weight"])

    def forward(self, input_ids):
        x = self.words(input_ids)
        for block in self.blocks:
            x = block(x)
        return self.out(self.last(x))
