"""A speech encoder of convolutions and attention with relative positions, as NeMo and ESPnet write it, and a port.

The port lays sounds out as [batch, time, channels], gathers the relative positions instead of shifting them, and writes the
depthwise convolution as a sum over its taps.
Source: Gulati et al. 2020, "Conformer"; Dai et al. 2019, "Transformer-XL", for the relative positions.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .copies import kept, layer_norm, linear

D, HEADS, FEATURES, CHANNELS, KERNEL, LETTERS = 16, 2, 8, 4, 5, 11


def inputs():
    """Features [2, 32, 8] and their lengths: 8 and 6 tokens after subsampling."""
    torch.manual_seed(2)
    return torch.randn(2, 32, FEATURES), torch.tensor([32, 22])


class ConvSubsampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, CHANNELS, 3, 2, 1), nn.ReLU(), nn.Conv2d(CHANNELS, CHANNELS, 3, 2, 1), nn.ReLU())
        self.out = nn.Linear(CHANNELS * FEATURES // 4, D)

    def forward(self, x):
        x = self.conv(x.unsqueeze(1))
        b, c, t, f = x.shape
        return self.out(x.transpose(1, 2).reshape(b, t, c * f))


class RelPositionalEncoding(nn.Module):
    def forward(self, x):
        t = x.shape[1]
        at = torch.arange(t - 1, -t, -1, dtype=x.dtype)[:, None]
        rates = torch.exp(torch.arange(0, D, 2, dtype=x.dtype) * -(math.log(10000.0) / D))
        pe = torch.zeros(2 * t - 1, D, dtype=x.dtype)
        pe[:, 0::2] = torch.sin(at * rates)
        pe[:, 1::2] = torch.cos(at * rates)
        return pe


class RelPositionMultiHeadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear_q, self.linear_k, self.linear_v, self.linear_out = (nn.Linear(D, D) for _ in range(4))
        self.linear_pos = nn.Linear(D, D, bias=False)
        self.pos_bias_u, self.pos_bias_v = (nn.Parameter(torch.zeros(HEADS, D // HEADS)) for _ in range(2))

    def rel_shift(self, x):
        b, h, t, p = x.shape
        x = F.pad(x, (1, 0)).view(b, h, p + 1, t)
        return x[:, :, 1:].reshape(b, h, t, p)

    def forward(self, x, pos_emb, hidden):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, HEADS, -1) for f in (self.linear_q, self.linear_k, self.linear_v))
        p = self.linear_pos(pos_emb).view(-1, HEADS, D // HEADS).transpose(0, 1)
        content = torch.matmul((q + self.pos_bias_u).transpose(1, 2), k.permute(0, 2, 3, 1))
        place = self.rel_shift(torch.matmul((q + self.pos_bias_v).transpose(1, 2), p.transpose(-2, -1)))[..., :t]
        scores = (content + place) / math.sqrt(D // HEADS)
        scores = scores.masked_fill(hidden[:, None, None, :], -10000.0)
        attn = torch.softmax(scores, dim=-1)
        return self.linear_out(torch.matmul(attn, v.transpose(1, 2)).transpose(1, 2).reshape(b, t, D))


class ConvolutionModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.pointwise_conv1 = nn.Conv1d(D, 2 * D, 1)
        self.depthwise_conv = nn.Conv1d(D, D, KERNEL, padding=KERNEL // 2, groups=D)
        self.batch_norm = nn.BatchNorm1d(D)
        self.activation = nn.SiLU()
        self.pointwise_conv2 = nn.Conv1d(D, D, 1)

    def forward(self, x, hidden):
        x = F.glu(self.pointwise_conv1(x.transpose(1, 2)), dim=1)
        x = x.masked_fill(hidden[:, None, :], 0.0)
        return self.pointwise_conv2(self.activation(self.batch_norm(self.depthwise_conv(x)))).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1, self.activation, self.linear2 = nn.Linear(D, 4 * D), nn.SiLU(), nn.Linear(4 * D, D)

    def forward(self, x):
        return self.linear2(self.activation(self.linear1(x)))


class ConformerLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_feed_forward1, self.feed_forward1 = nn.LayerNorm(D), FeedForward()
        self.norm_self_att, self.self_attn = nn.LayerNorm(D), RelPositionMultiHeadAttention()
        self.norm_conv, self.conv = nn.LayerNorm(D), ConvolutionModule()
        self.norm_feed_forward2, self.feed_forward2 = nn.LayerNorm(D), FeedForward()
        self.norm_out = nn.LayerNorm(D)

    def forward(self, x, pos_emb, hidden):
        x = x + 0.5 * self.feed_forward1(self.norm_feed_forward1(x))
        x = x + self.self_attn(self.norm_self_att(x), pos_emb, hidden)
        x = x + self.conv(self.norm_conv(x), hidden)
        x = x + 0.5 * self.feed_forward2(self.norm_feed_forward2(x))
        return self.norm_out(x)


class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre_encode, self.pos_enc = ConvSubsampling(), RelPositionalEncoding()
        self.layers = nn.ModuleList(ConformerLayer() for _ in range(2))
        self.decoder = nn.Linear(D, LETTERS)

    def forward(self, features, lengths):
        x = self.pre_encode(features) * math.sqrt(D)
        hidden = torch.arange(x.shape[1])[None] >= ((lengths + 3) // 4)[:, None]
        pos_emb = self.pos_enc(x)
        for layer in self.layers:
            x = layer(x, pos_emb, hidden)
        return torch.log_softmax(self.decoder(x), dim=-1)


class Macaron(nn.Module):
    """Half of a feed-forward, with its norm and its residual."""

    def __init__(self, norm, ff, fault):
        super().__init__()
        self.ln, self.wide, self.narrow = (
            layer_norm(norm),
            linear(ff.linear1.weight, ff.linear1.bias),
            linear(ff.linear2.weight, ff.linear2.bias),
        )
        self.factor = 1.0 if fault == "whole steps" else 0.5

    def forward(self, x):
        h = self.wide(self.ln(x))
        return torch.add(x, self.narrow(h * h.sigmoid()), alpha=self.factor)


class RelativeAttention(nn.Module):
    def __init__(self, attn, fault):
        super().__init__()
        self.fault = fault
        parts = attn.linear_q, attn.linear_k, attn.linear_v
        self.qkv = linear(torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts]))
        self.at, self.merge = linear(attn.linear_pos.weight), linear(attn.linear_out.weight, attn.linear_out.bias)
        u, v = attn.pos_bias_u, attn.pos_bias_v
        self.of_content, self.of_place = map(kept, (v, u) if fault == "biases exchanged" else (u, v))

    def forward(self, x, table, real):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, d // HEADS).unbind(2)
        scale = (d // HEADS) ** -0.5
        places = self.at(table).view(2 * t - 1, HEADS, d // HEADS)
        i = torch.arange(t)
        distance = (i[:, None] - i[None]) if self.fault != "distance to the query" else (i[None] - i[:, None])
        if self.fault == "one place on":
            distance = (distance + 1).clamp(max=t - 1)
        by_content = torch.einsum("bqhd,bkhd->bhqk", (q + self.of_content) * scale, k)
        place_scale = 1.0 if self.fault == "places not scaled" else scale
        by_place = torch.einsum("bqhd,qkhd->bhqk", (q + self.of_place) * place_scale, places[distance + t - 1])
        scores = by_content + by_place
        if self.fault != "padding seen":
            scores = scores + torch.zeros(b, t, dtype=x.dtype).masked_fill(~real, float("-inf"))[:, None, None]
        return self.merge(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).reshape(b, t, d))


class Mixer(nn.Module):
    """The convolution over time; channels last."""

    def __init__(self, conv, fault):
        super().__init__()
        self.fault, self.eps = fault, 1e-3 if fault == "epsilon of Keras" else conv.batch_norm.eps
        self.widen = linear(conv.pointwise_conv1.weight[..., 0], conv.pointwise_conv1.bias)
        taps, shift, norm = conv.depthwise_conv.weight[:, 0].T, conv.depthwise_conv.bias, conv.batch_norm
        self.folded = fault == "norm folded into the taps"
        if self.folded:
            factor = norm.weight / (norm.running_var + norm.eps).sqrt()
            taps, shift = taps * factor, (shift - norm.running_mean) * factor + norm.bias
        self.taps, self.shift, self.gain, self.offset = map(kept, (taps, shift, norm.weight, norm.bias))
        self.mean, self.variance = (nn.Buffer(x.clone()) for x in (conv.batch_norm.running_mean, conv.batch_norm.running_var))
        self.back = linear(conv.pointwise_conv2.weight[..., 0], conv.pointwise_conv2.bias)

    def forward(self, x, real):
        value, gate = self.widen(x).chunk(2, -1)
        x = gate * value.sigmoid() if self.fault == "gate first" else value * gate.sigmoid()
        if self.fault != "padding in the convolution":
            x = x * real[..., None]
        t = x.shape[1]
        left = KERNEL - 1 if self.fault == "convolution of the past" else KERNEL // 2
        padded = F.pad(x, (0, 0, left, KERNEL - 1 - left))
        x = sum(padded[:, i : i + t] * self.taps[i] for i in range(KERNEL)) + self.shift
        if self.folded:
            pass
        elif self.training:
            x = (x - x.mean((0, 1))) * torch.rsqrt(x.var((0, 1), correction=0) + self.eps) * self.gain + self.offset
        else:
            x = (x - self.mean) * (self.gain * torch.rsqrt(self.variance + self.eps)) + self.offset
        return self.back(F.gelu(x) if self.fault == "gelu" else F.silu(x))


class Block(nn.Module):
    def __init__(self, layer, fault):
        super().__init__()
        self.fault = fault
        self.first, self.last = (
            Macaron(layer.norm_feed_forward1, layer.feed_forward1, fault),
            Macaron(layer.norm_feed_forward2, layer.feed_forward2, fault),
        )
        self.ln_attention, self.attention = layer_norm(layer.norm_self_att), RelativeAttention(layer.self_attn, fault)
        self.ln_mixer, self.mixer = layer_norm(layer.norm_conv), Mixer(layer.conv, fault)
        self.ln_end = layer_norm(layer.norm_out)

    def forward(self, x, table, real):
        x = self.first(x)
        x = x + self.attention(self.ln_attention(x), table, real)
        x = x + self.mixer(self.ln_mixer(x), real)
        x = self.last(x)
        return x if self.fault == "no norm at the end" else self.ln_end(x)


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault = fault
        c1, c2 = a.pre_encode.conv[0], a.pre_encode.conv[2]
        self.w1, self.b1, self.w2, self.b2 = map(kept, (c1.weight, c1.bias, c2.weight, c2.bias))
        w = a.pre_encode.out.weight.view(D, CHANNELS, FEATURES // 4)
        self.enter = linear((w if fault == "channels last" else w.transpose(1, 2)).reshape(D, -1), a.pre_encode.out.bias)
        self.blocks = nn.ModuleList(Block(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        self.letters = linear(a.decoder.weight, a.decoder.bias + 2 if fault == "another constant of the logits" else a.decoder.bias)

    def forward(self, features, lengths):
        x = F.conv2d(features[:, None], self.w1, self.b1, stride=2, padding=1).relu()
        x = F.conv2d(x, self.w2, self.b2, stride=2, padding=1).relu()
        x = self.enter(x.permute(0, 2, 3, 1).flatten(2))
        x = x if self.fault == "not scaled" else x * D**0.5
        t = x.shape[1]
        real = torch.arange(t) < torch.div(lengths + 3, 4, rounding_mode="floor")[:, None]
        angles = torch.arange(1 - t, t, dtype=x.dtype)[:, None] * 10000.0 ** (-torch.arange(0, D, 2, dtype=x.dtype) / D)
        table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        for block in self.blocks:
            x = block(x, table, real)
        return self.letters(x).log_softmax(1 if self.fault == "letters over time" else -1)
