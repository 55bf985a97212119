"""A diffusion transformer as DiT has it, with grouped queries as in Lumina, and a port that writes out each block.

The port keeps the six vectors that modulate a block as a table [6, D].
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, KV, PATCH, SIDE, CHANNELS, CLASSES, FREQUENCIES = 32, 4, 2, 2, 8, 3, 5, 16
HEAD = D // HEADS


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class TimestepEmbedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(FREQUENCIES, D), nn.SiLU(), nn.Linear(D, D))

    def forward(self, t):
        half = FREQUENCIES // 2
        f = torch.exp(-math.log(10000) * torch.arange(half, dtype=self.mlp[0].weight.dtype) / half)
        angles = t[:, None] * f[None]
        return self.mlp(torch.cat((angles.cos(), angles.sin()), -1))


class LabelEmbedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding_table = nn.Embedding(CLASSES + 1, D)

    def forward(self, y):
        return self.embedding_table(y)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, D + 2 * KV * HEAD), nn.Linear(D, D)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.qkv(x).view(n, t, -1, HEAD).transpose(1, 2).split((HEADS, KV, KV), 1)
        return self.proj(F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2).reshape(n, t, D))


class DiTBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(D, eps=1e-6, elementwise_affine=False) for _ in range(2))
        self.attn, self.adaLN_modulation = Attention(), nn.Sequential(nn.SiLU(), nn.Linear(D, 6 * D))
        self.mlp = nn.Sequential(nn.Linear(D, 3 * D), nn.GELU(approximate="tanh"), nn.Linear(3 * D, D))

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(c).chunk(6, 1)
        x = x + gate1.unsqueeze(1) * self.attn(modulate(self.norm1(x), shift1, scale1))
        return x + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift2, scale2))


class FinalLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_final = nn.LayerNorm(D, eps=1e-6, elementwise_affine=False)
        self.linear, self.adaLN_modulation = nn.Linear(D, PATCH**2 * CHANNELS), nn.Sequential(nn.SiLU(), nn.Linear(D, 2 * D))

    def forward(self, x, c):
        shift, scale = self.adaLN_modulation(c).chunk(2, 1)
        return self.linear(modulate(self.norm_final(x), shift, scale))


def grid(side, swapped=False):
    """Sines and cosines of row and column [side^2, D], in float64."""
    f = 1 / 10000 ** (torch.arange(D // 4, dtype=torch.float64) / (D / 4))
    a = torch.arange(side, dtype=torch.float64)[:, None] * f
    a = torch.cat((a.sin(), a.cos()), 1)
    rows, columns = a[:, None].expand(side, side, -1), a[None].expand(side, side, -1)
    return torch.cat((rows, columns) if swapped else (columns, rows), -1).reshape(side**2, D)


class DiT(nn.Module):
    def __init__(self):
        super().__init__()
        self.x_embedder = nn.Conv2d(CHANNELS, D, PATCH, PATCH)
        self.t_embedder, self.y_embedder = TimestepEmbedder(), LabelEmbedder()
        self.register_buffer("pos_embed", grid(SIDE // PATCH))
        self.blocks, self.final_layer = nn.ModuleList(DiTBlock() for _ in range(2)), FinalLayer()

    def forward(self, x, t, y):
        x = self.x_embedder(x).flatten(2).transpose(1, 2) + self.pos_embed.to(x.dtype)
        c = self.t_embedder(t) + self.y_embedder(y)
        for block in self.blocks:
            x = block(x, c)
        s = SIDE // PATCH
        x = self.final_layer(x, c).reshape(len(x), s, s, PATCH, PATCH, CHANNELS)
        return torch.einsum("nhwpqc->nchpwq", x).reshape(len(x), CHANNELS, SIDE, SIDE)


def array(x):
    return nn.Parameter(x.detach().clone().contiguous())


class JointBlock(nn.Module):
    """Attention and MLP with the modulation [6, D] from one product; x is [n, t, D]."""

    def __init__(self, a, fault):
        super().__init__()
        m = a.adaLN_modulation[1]
        self.table, self.table_bias = array(m.weight.T.reshape(D, 6, D)), array(m.bias.view(6, D))
        w, b = (z.split((D, KV * HEAD, KV * HEAD)) for z in (a.attn.qkv.weight, a.attn.qkv.bias))
        self.to_q, self.to_k, self.to_v = (array(x.T) for x in w)
        self.bq, self.bk, self.bv = (array(x) for x in b)
        self.to_out, self.out_bias = (
            array(a.attn.proj.weight if fault == "not transposed" else a.attn.proj.weight.T),
            array(a.attn.proj.bias),
        )
        self.ff_in, self.ff_in_bias = array(a.mlp[0].weight.T), array(a.mlp[0].bias)
        self.ff_out, self.ff_out_bias, self.fault = array(a.mlp[2].weight.T), array(a.mlp[2].bias), fault

    def normed(self, x, shift, scale):
        y = F.layer_norm(x, (D,), eps=1e-5 if self.fault == "epsilon" else 1e-6)
        return y * (scale if self.fault == "scale without the one" else 1 + scale) + shift

    def forward(self, x, c):
        c = c if self.fault == "no activation before the modulation" else F.silu(c)
        m = torch.einsum("nd,dke->kne", c, self.table)[:, :, None] + self.table_bias[:, None, None]
        shift1, scale1, gate1, shift2, scale2, gate2 = m
        if self.fault == "scale before shift":
            shift1, scale1, shift2, scale2 = scale1, shift1, scale2, shift2
        if self.fault == "gates exchanged":
            gate1, gate2 = gate2, gate1
        if self.fault == "no gates":
            gate1 = gate2 = torch.ones_like(gate1)
        y = self.normed(x, shift1, scale1)
        q, k, v = (
            (y @ w + b).unflatten(-1, (-1, HEAD))
            for w, b in ((self.to_q, self.bq), (self.to_k, self.bk), (self.to_v, self.bv))
        )  # fmt: skip
        if self.fault == "tiled":
            k, v = k.repeat(1, 1, HEADS // KV, 1), v.repeat(1, 1, HEADS // KV, 1)
        else:
            k, v = k.repeat_interleave(HEADS // KV, 2), v.repeat_interleave(HEADS // KV, 2)
        scores = torch.einsum("nqhw,nkhw->nhqk", q, k)
        scores = scores if self.fault == "scores not scaled" else scores * (D // HEADS) ** -0.5
        y = torch.einsum("nhqk,nkhw->nqhw", scores.softmax(-1), v).flatten(-2) @ self.to_out + self.out_bias
        x = x + gate1 * y
        y = self.normed(x, shift2, scale2) @ self.ff_in + self.ff_in_bias
        y = F.gelu(y, approximate="none" if self.fault == "exact gelu" else "tanh")
        return x + gate2 * (y @ self.ff_out + self.ff_out_bias)


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.patch, self.patch_bias = array(a.x_embedder.weight.flatten(1).T), array(a.x_embedder.bias)
        first, second = a.t_embedder.mlp[0], a.t_embedder.mlp[2]
        self.time_1, self.time_1_bias, self.time_2, self.time_2_bias = map(
            array, (first.weight.T, first.bias, second.weight.T, second.bias)
        )
        self.classes = array(a.y_embedder.embedding_table.weight)
        self.transformer_blocks = nn.ModuleList(JointBlock(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.blocks))
        last = a.final_layer
        self.out_table, self.out_table_bias = array(last.adaLN_modulation[1].weight.T), array(last.adaLN_modulation[1].bias)
        self.out, self.out_bias = array(last.linear.weight.T), array(last.linear.bias)
        if fault == "no bias at the end":
            self.out_bias.data.zero_()
        self.fault = fault

    def conditioning(self, t, y):
        half = FREQUENCIES // 2
        steps = half - 1 if self.fault == "one frequency less" else half  # downscale_freq_shift
        f = 10000 ** (-torch.arange(half, dtype=self.time_1.dtype) / steps)
        if self.fault == "time in thousandths":
            t = t / 1000
        a = torch.outer(t.to(f.dtype), f)
        a = torch.cat((a.sin(), a.cos()), -1) if self.fault == "sines first" else torch.cat((a.cos(), a.sin()), -1)
        t = F.silu(a @ self.time_1 + self.time_1_bias) @ self.time_2 + self.time_2_bias
        if self.fault == "classes from one":
            y = y + 1
        return t + self.classes[y]

    def forward(self, latent, timestep, label):
        s = SIDE // PATCH
        x = latent.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).permute(0, 2, 3, 1, 4, 5).reshape(len(latent), s * s, -1)
        x = x @ self.patch + self.patch_bias + grid(s, self.fault == "rows and columns").to(x.dtype)
        c = self.conditioning(timestep, label)
        for block in self.transformer_blocks:
            x = block(x, c)
        shift, scale = (F.silu(c) @ self.out_table + self.out_table_bias)[:, None].chunk(2, -1)
        x = (F.layer_norm(x, (D,), eps=1e-6) * (1 + scale) + shift) @ self.out + self.out_bias
        x = x.view(len(x), s, s, PATCH, PATCH, CHANNELS).permute(0, 5, 1, 3, 2, 4)
        if self.fault == "columns of a patch first":
            x = x.transpose(3, 5)
        return x.reshape(len(x), CHANNELS, SIDE, SIDE)


def inputs(n=2):
    return torch.randn(n, CHANNELS, SIDE, SIDE), torch.tensor([3.0, 500.0])[:n], torch.randint(0, CLASSES, (n,))
