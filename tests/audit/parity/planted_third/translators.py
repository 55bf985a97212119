"""Encoders with decoders that read them, in two hands: a T5 and a Whisper."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .decoders import RootMeanSquare
from .start import put

# T5: relative positions, no softmax scale, no mean in the norm; modules with [B, H, T, D] against functions over [B, T, H, D].


class T5Norm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        variance = x.to(torch.promote_types(x.dtype, torch.float32)).pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + 1e-6)
        return self.weight * x.to(self.weight.dtype)


class T5Bias(nn.Module):
    """Biases [1, H, Q, K] of the buckets of distances."""

    def __init__(self, heads, bidirectional):
        super().__init__()
        self.table, self.bidirectional = nn.Embedding(8, heads), bidirectional

    def forward(self, q, k):
        distance = torch.arange(k)[None] - torch.arange(q)[:, None]
        buckets, found = 8, torch.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            found = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = -torch.min(distance, torch.zeros_like(distance))
        exact = buckets // 2
        far = exact + (torch.log(distance.float() / exact) / math.log(16 / exact) * (buckets - exact)).long()
        far = torch.min(far, torch.full_like(far, buckets - 1))
        return self.table(found + torch.where(distance < exact, distance, far)).permute(2, 0, 1)[None]


class T5Attention(nn.Module):
    def __init__(self, dim, heads, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, heads * width, bias=False) for _ in range(3))
        self.o, self.heads = nn.Linear(heads * width, dim, bias=False), heads

    def forward(self, x, memory, bias):
        q, k, v = (
            p(t).view(*t.shape[:2], self.heads, -1).transpose(1, 2) for p, t in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        scores = torch.matmul(q, k.transpose(3, 2))
        scores += bias
        return self.o(torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2).flatten(2))


class T5FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.wi, self.act, self.wo = nn.Linear(dim, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.wo(self.act(self.wi(x)))


class T5Layer(nn.Module):
    def __init__(self, decodes):
        super().__init__()
        self.norm1, self.self_attention = T5Norm(28), T5Attention(28, 4, 6)
        if decodes:
            self.norm2, self.cross_attention = T5Norm(28), T5Attention(28, 4, 6)
        self.norm3, self.ffn = T5Norm(28), T5FeedForward(28, 50)

    def forward(self, x, bias, memory=None, memory_bias=None):
        y = self.norm1(x)
        x = x + self.self_attention(y, y, bias)
        if memory is not None:
            x = x + self.cross_attention(self.norm2(x), memory, memory_bias)
        return x + self.ffn(self.norm3(x))


class T5(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(37, 28)
        self.encoder, self.decoder = (nn.ModuleList(T5Layer(decodes) for _ in range(2)) for decodes in (False, True))
        self.encoder_bias, self.decoder_bias = T5Bias(4, True), T5Bias(4, False)
        self.encoder_norm, self.decoder_norm = T5Norm(28), T5Norm(28)
        self.lm_head = nn.Linear(28, 37, bias=False)

    def forward(self, source, target, keep):
        x = self.shared(source)
        lowest = torch.finfo(x.dtype).min
        padding = (~keep)[:, None, None].to(x.dtype) * lowest
        bias = self.encoder_bias(source.shape[1], source.shape[1]) + padding
        for layer in self.encoder:
            x = layer(x, bias)
        memory, y = self.encoder_norm(x), self.shared(target)
        size = target.shape[1]
        bias = self.decoder_bias(size, size) + torch.full((size, size), lowest, dtype=y.dtype).triu(1)
        for layer in self.decoder:
            y = layer(y, bias, memory, padding)
        return self.lm_head(self.decoder_norm(y))


class FlaxLayer(nn.Module):
    """A layer of the port: kernels [D, H, K], scores by einsum."""

    def __init__(self, a, fault):
        super().__init__()
        self.fault = fault
        self.decodes = hasattr(a, "cross_attention")
        attentions = [a.self_attention, a.cross_attention] if self.decodes else [a.self_attention]
        kernels = [
            torch.stack([p.weight.T.reshape(28, 4, 6) for p in (old.q, old.k, old.v)]).detach().clone() for old in attentions
        ]
        self.kernels = nn.ParameterList(kernels)
        self.outs = nn.ParameterList(old.o.weight.detach().T.reshape(4, 6, 28).clone() for old in attentions)
        eps = {"eps": 1e-5 if fault == "epsilon" else 1e-6}
        self.pre_self = RootMeanSquare(a.norm1.weight, fault=fault if fault in ("norm kind", "cast") else "", **eps)
        if self.decodes:
            self.pre_cross = RootMeanSquare(a.norm2.weight, 1e-6)
        self.pre_mlp = RootMeanSquare(a.norm3.weight, 1e-6)
        self.wi, self.wo = (nn.Parameter(p.weight.detach().T.clone()) for p in (a.ffn.wi, a.ffn.wo))

    def attend(self, which, x, memory, bias):
        (to_q, to_k, to_v), out = self.kernels[which], self.outs[which]
        q, k, v = (torch.einsum("btd,dhk->bthk", t, w) for t, w in ((x, to_q), (memory, to_k), (memory, to_v)))
        if self.fault == "softmax scale" and which == 0:
            q = q / math.sqrt(6)
        scores = torch.einsum("bqhk,bshk->bhqs", q, k) + bias
        weights = torch.softmax(scores, dim=2 if self.fault == "softmax axis" and which == 1 else -1)
        return torch.einsum("bqhk,hkd->bqd", torch.einsum("bhqs,bshk->bqhk", weights, v), out)

    def forward(self, x, bias, memory=None, memory_bias=None):
        y = self.pre_self(x)
        x = x + self.attend(0, y, y, bias)
        if self.decodes:
            if self.fault == "norm placement":
                x = self.pre_cross(x + self.attend(1, x, memory, memory_bias))
            else:
                x = x + self.attend(1, self.pre_cross(x), memory, memory_bias)
        h = self.pre_mlp(x) @ self.wi
        h = F.gelu(h) if self.fault == "activation" else h.clamp(min=0)
        return x + h @ self.wo


class T5Port(nn.Module):
    """at: layers of the encoder are counted first, then those of the decoder."""

    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.fault, at = fault, at % 4
        self.table = nn.Parameter(a.shared.weight.detach().clone())
        olds = [*a.encoder, *a.decoder]
        self.layers = nn.ModuleList(FlaxLayer(old, fault if i == at else "") for i, old in enumerate(olds))
        self.rel_enc, self.rel_dec = (nn.Parameter(b.table.weight.detach().clone()) for b in (a.encoder_bias, a.decoder_bias))
        self.enc_norm, self.dec_norm = (RootMeanSquare(n.weight, 1e-6) for n in (a.encoder_norm, a.decoder_norm))
        self.logits = nn.Parameter((a.shared if fault == "tied head" else a.lm_head).weight.detach().clone())

    def relative(self, table, size, bidirectional):
        n = torch.arange(size)[:, None] - torch.arange(size)[None]
        buckets, start = 8, 0
        if bidirectional:
            buckets, start, n = 4, (n < 0).int() * 4, n.abs()
        else:
            n = n.clamp(min=0)
        half = buckets // 2
        large = half + (torch.log(n.clamp(min=1).double() / half) / math.log(16 / half) * (buckets - half)).int()
        return table[(start + torch.where(n < half, n, large.clamp(max=buckets - 1))).long()].permute(2, 0, 1)

    def forward(self, source, target, keep):
        x = self.table[source]
        if self.fault == "embedding scale":
            x = x * math.sqrt(28)
        if self.fault == "padding side":
            keep = torch.arange(source.shape[1])[None] < keep.long().sum(-1, keepdim=True)
        padding = torch.where(keep, 0.0, -1e10).to(x.dtype)[:, None, None, :]
        bias = self.relative(self.rel_enc, source.shape[1], self.fault != "position bias") + padding
        for layer in self.layers[:2]:
            x = layer(x, bias)
        memory = self.enc_norm(x)
        y, size = self.table[target], target.shape[1]
        if self.fault == "embedding scale":
            y = y * math.sqrt(28)
        later = torch.ones(size, size, dtype=torch.bool).tril().logical_not()
        bias = self.relative(self.rel_dec, size, False) + torch.where(later, -1e10, 0.0).to(y.dtype)
        for layer in self.layers[2:]:
            y = layer(y, bias, memory, padding)
        y = self.dec_norm(y)
        if self.fault == "head scale":
            y = y * 28**-0.5
        return torch.einsum("btd,vd->btv", y, self.logits)


# Whisper: convolutions over spectra, then layers with the norm first; the port scales queries and keys, as OpenAI's code does.


class WhisperAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.k_proj, self.v_proj, self.q_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out_proj, self.heads = nn.Linear(dim, dim), heads

    def forward(self, x, memory, causal):
        q = self.q_proj(x) * (x.shape[-1] // self.heads) ** -0.5
        q, k, v = (t.view(*t.shape[:2], self.heads, -1).transpose(1, 2) for t in (q, self.k_proj(memory), self.v_proj(memory)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=1.0)
        return self.out_proj(y.transpose(1, 2).reshape(x.shape))


class WhisperLayer(nn.Module):
    def __init__(self, decodes):
        super().__init__()
        self.self_attn, self.self_attn_layer_norm, self.decodes = WhisperAttention(24, 3), nn.LayerNorm(24), decodes
        if decodes:
            self.encoder_attn, self.encoder_attn_layer_norm = WhisperAttention(24, 3), nn.LayerNorm(24)
        self.fc1, self.activation_fn, self.fc2, self.final_layer_norm = (
            nn.Linear(24, 48),
            nn.GELU(),
            nn.Linear(48, 24),
            nn.LayerNorm(24),
        )

    def forward(self, x, memory=None):
        y = self.self_attn_layer_norm(x)
        x = x + self.self_attn(y, y, self.decodes)
        if self.decodes:
            x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), memory, False)
        return x + self.fc2(self.activation_fn(self.fc1(self.final_layer_norm(x))))


class WhisperEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(6, 24, 3, padding=1), nn.Conv1d(24, 24, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(10, 24)
        self.layers, self.layer_norm = nn.ModuleList(WhisperLayer(False) for _ in range(2)), nn.LayerNorm(24)

    def forward(self, features):
        x = F.gelu(self.conv2(F.gelu(self.conv1(features)))).permute(0, 2, 1)
        x = x + self.embed_positions.weight[: x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)


class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.embed_tokens, self.embed_positions = WhisperEncoder(), nn.Embedding(41, 24), nn.Embedding(12, 24)
        self.layers, self.layer_norm = nn.ModuleList(WhisperLayer(True) for _ in range(2)), nn.LayerNorm(24)

    def forward(self, features, ids):
        memory = self.encoder(features)
        x = self.embed_tokens(ids) + self.embed_positions(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x, memory)
        return self.layer_norm(x) @ self.embed_tokens.weight.T


class HandAttention(nn.Module):
    """[B, T, H, D]; queries and keys are scaled by the fourth root of the width each."""

    def __init__(self, old, fault):
        super().__init__()
        self.fault = fault
        self.n_head = 4 if fault == "head width" else old.heads
        self.query, self.value, self.out = (
            put(nn.Linear(24, 24), weight=p.weight, bias=p.bias) for p in (old.q_proj, old.v_proj, old.out_proj)
        )
        self.key = put(nn.Linear(24, 24, bias=False), weight=old.k_proj.weight)
        if fault == "bias":
            self.value = put(nn.Linear(24, 24, bias=False), weight=old.v_proj.weight)

    def forward(self, x, xa=None, mask=None):
        source = x if xa is None else xa
        q, k, v = (t.unflatten(-1, (self.n_head, -1)) for t in (self.query(x), self.key(source), self.value(source)))
        scale = q.shape[-1] ** (-0.5 if self.fault == "softmax scale" else -0.25)
        qk = torch.einsum("bqhd,bkhd->bhqk", q * scale, k * scale)
        if self.fault == "soft-cap":
            qk = 2 * torch.tanh(qk / 2)
        if mask is not None and self.fault != "causal":
            qk = qk + mask
        return self.out(torch.einsum("bhqk,bkhd->bqhd", F.softmax(qk, dim=-1), v).reshape(x.shape))


class HandBlock(nn.Module):
    def __init__(self, a, fault, kind="self"):
        super().__init__()
        self.fault, norm = fault, nn.LayerNorm
        copy = lambda n: put(norm(24), weight=n.weight, bias=n.bias)  # noqa: E731
        self.attn, self.attn_ln = HandAttention(a.self_attn, fault if kind == "self" else ""), copy(a.self_attn_layer_norm)
        self.decodes = a.decodes
        if a.decodes:
            self.cross = HandAttention(a.encoder_attn, fault if kind == "cross" else "")
            self.cross_ln = copy(a.encoder_attn_layer_norm)
        self.mlp = nn.Sequential(
            put(nn.Linear(24, 48), weight=a.fc1.weight, bias=a.fc1.bias),
            nn.GELU("tanh" if fault == "activation" else "none"),
            put(nn.Linear(48, 24), weight=a.fc2.weight, bias=a.fc2.bias),
        )
        self.mlp_ln = copy(a.final_layer_norm)
        if fault == "epsilon":
            self.mlp_ln.eps = 1e-3

    def norm(self, x):
        if self.fault == "norm kind":  # without the mean, with the bias
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.attn_ln.weight + self.attn_ln.bias
        return self.attn_ln(x)

    def forward(self, x, xa=None, mask=None):
        x = x + self.attn(self.norm(x), mask=mask)
        if self.decodes:
            x = x + self.cross(self.cross_ln(x), xa=xa)
        if self.fault == "norm placement":
            return self.mlp_ln(x + self.mlp(x))
        return x + self.mlp(self.mlp_ln(x))


class WhisperPort(nn.Module):
    """at: layers of the encoder are counted first, then those of the decoder. part: which attention of a decoder layer is wrong."""

    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.fault, at, e = fault, at % 4, a.encoder
        fault, _, part = fault.partition(" of ")
        blocks = [HandBlock(old, fault if i == at else "", part or "self") for i, old in enumerate([*e.layers, *a.layers])]
        self.enc, self.dec = nn.ModuleList(blocks[:2]), nn.ModuleList(blocks[2:])
        self.w1, self.b1 = (
            nn.Parameter(e.conv1.weight.detach().permute(2, 1, 0).clone()),
            nn.Parameter(e.conv1.bias.detach().clone()),
        )
        self.w2, self.b2 = (
            nn.Parameter(e.conv2.weight.detach().permute(2, 1, 0).clone()),
            nn.Parameter(e.conv2.bias.detach().clone()),
        )
        self.places = nn.Parameter(e.embed_positions.weight.detach().clone())
        self.words, self.at = (nn.Parameter(t.weight.detach().clone()) for t in (a.embed_tokens, a.embed_positions))
        self.ln_post, self.ln = (put(nn.LayerNorm(24), weight=n.weight, bias=n.bias) for n in (e.layer_norm, a.layer_norm))
        self.dropout = nn.Dropout(0.1)

    @staticmethod
    def conv(x, w, b, stride):
        """x [B, T, C], w [3, C, D]: a sum over the three taps, as in frameworks with the channels last."""
        x = F.pad(x, (0, 0, 1, 1))
        size = x.shape[1] - 2
        taps = [x[:, i : i + size : stride] @ w[i] for i in range(3)]
        y = taps[0] + taps[1] + taps[2]
        return y if b is None else y + b

    def forward(self, features, ids):
        x = F.gelu(self.conv(features.transpose(1, 2), self.w1, self.b1, 1))
        x = F.gelu(self.conv(x, self.w2, None if self.fault == "stem bias" else self.b2, 2))
        x = self.dropout(x + self.places[: x.shape[1]])
        for block in self.enc:
            x = block(x)
        memory = x if self.fault == "memory without norm" else self.ln_post(x)
        first = 1 if self.fault == "position offset" else 0
        y = self.words[ids]
        if self.fault == "embedding scale":
            y = y * 24**0.5
        y = self.dropout(y + self.at[first : first + ids.shape[1]])
        mask = torch.full((ids.shape[1], ids.shape[1]), -torch.inf, dtype=y.dtype).triu(1)
        for block in self.dec:
            y = block(y, memory, mask)
        return F.linear(self.ln(y), self.words)
