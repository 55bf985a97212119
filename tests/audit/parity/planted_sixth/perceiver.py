"""Learned latents that read features of any length, and learned queries that read the latents, as Flamingo's resampler, and a port.

The port projects the features and the latents apart, leaves attention to torch, and stores matrices as [in, out].
Source: Alayrac et al. 2022, "Flamingo"; Jaegle et al. 2021, "Perceiver IO"; Li et al. 2023, "BLIP-2".
"""

import torch
from torch import nn
from torch.nn import functional as F

from ..planted_five_a.copies import kept, layer_norm
from ..planted_five_a.swin import Mlp
from .parts import affine

FEATURES, D, HEADS, WIDTH, LATENTS, QUERIES, LONGEST, CLASSES = 10, 24, 3, 16, 5, 3, 14, 6


def inputs():
    """Features and their lengths: 9 and 7 of 11."""
    torch.manual_seed(6)
    return torch.randn(2, 11, FEATURES), torch.tensor([9, 7])


class PerceiverAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_media, self.norm_latents = nn.LayerNorm(D), nn.LayerNorm(D)
        self.to_q, self.to_kv = nn.Linear(D, HEADS * WIDTH, bias=False), nn.Linear(D, 2 * HEADS * WIDTH, bias=False)
        self.to_out = nn.Linear(HEADS * WIDTH, D, bias=False)

    def forward(self, x, latents, hidden):
        x, latents = self.norm_media(x), self.norm_latents(latents)
        q = self.to_q(latents).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) * WIDTH**-0.5
        k, v = self.to_kv(torch.cat((x, latents), dim=1)).chunk(2, dim=-1)
        k, v = (y.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for y in (k, v))
        sim = torch.einsum("bhid,bhjd->bhij", q, k)
        sim = sim.masked_fill(F.pad(hidden, (0, LATENTS))[:, None, None], torch.finfo(sim.dtype).min)
        out = torch.einsum("bhij,bhjd->bhid", sim.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).flatten(2))


class ResamplerLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm, self.mlp = PerceiverAttention(), nn.LayerNorm(D), Mlp(D)

    def forward(self, x, latents, hidden):
        latents = self.attention(x, latents, hidden) + latents
        return self.mlp(self.norm(latents)) + latents


class PerceiverDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.queries, self.cross_attention = (
            nn.Parameter(torch.zeros(QUERIES, D)),
            nn.MultiheadAttention(D, HEADS, batch_first=True),
        )
        self.final_layer = nn.Linear(D, CLASSES)

    def forward(self, latents):
        queries = self.queries.expand(len(latents), -1, -1)
        return self.final_layer(self.cross_attention(queries, latents, latents, need_weights=False)[0])


class Perceiver(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_projection = nn.Linear(FEATURES, D)
        self.positions, self.latents = nn.Parameter(torch.zeros(LONGEST, D)), nn.Parameter(torch.zeros(LATENTS, D))
        self.layers = nn.ModuleList(ResamplerLayer() for _ in range(2))
        self.norm, self.decoder = nn.LayerNorm(D), PerceiverDecoder()

    def forward(self, features, lengths):
        x = self.input_projection(features) + self.positions[: features.shape[1]]
        hidden = torch.arange(features.shape[1]) >= lengths[:, None]
        latents = self.latents.expand(len(x), -1, -1)
        for layer in self.layers:
            latents = layer(x, latents, hidden)
        return self.decoder(self.norm(latents))


class Look(nn.Module):
    def __init__(self, attn, before, fault):
        super().__init__()
        self.fault, self.n_x, self.n_l = fault, layer_norm(attn.norm_media), layer_norm(attn.norm_latents)
        source = before if fault == "matrices of the layer before" else attn
        self.q, self.o = kept(attn.to_q.weight.T), kept(attn.to_out.weight.T)
        self.k, self.v = map(kept, source.to_kv.weight.T.chunk(2, 1))

    def forward(self, x, latents, real):
        x = x if self.fault == "features not normalised" else self.n_x(x)
        latents = self.n_l(latents)
        parts, seen = [x, latents], [real, real.new_ones(len(x), LATENTS)]
        if self.fault == "latents are no keys":
            parts, seen = parts[:1], seen[:1]
        parts = parts[::-1] if self.fault in ("latents first", "mask at the other end") else parts
        seen = seen[::-1] if self.fault == "latents first" else seen
        k, v = (torch.cat([y @ w for y in parts], 1).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for w in (self.k, self.v))
        q, mask = (latents @ self.q).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2), torch.cat(seen, 1)[:, None, None]
        if self.fault == "softmax over the latents":
            y = (q @ k.mT * WIDTH**-0.5).masked_fill(~mask, torch.finfo(q.dtype).min).softmax(-2) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, mask, scale=D**-0.5 if self.fault == "scaled by the width" else None)
        return y.transpose(1, 2).flatten(2) @ self.o


class Stage(nn.Module):
    def __init__(self, layer, before, fault):
        super().__init__()
        self.fault, self.look = fault, Look(layer.attention, before.attention, fault)
        self.ln, (self.w1, self.b1), (self.w2, self.b2) = layer_norm(layer.norm), affine(layer.mlp.fc1), affine(layer.mlp.fc2)

    def forward(self, x, latents, real):
        latents = latents + self.look(x, latents, real)
        h = self.ln(latents) @ self.w1 + self.b1
        h = h * (1.702 * h).sigmoid() if self.fault == "quick gelu" else h * 0.5 * (1 + torch.erf(h * 0.5**0.5))
        return latents + (h @ self.w2 + self.b2)


class Decode(nn.Module):
    def __init__(self, decoder, fault):
        super().__init__()
        self.fault, self.projected, attn = fault, fault == "queries projected before", decoder.cross_attention
        self.asked, self.w, self.b = kept(decoder.queries), kept(attn.in_proj_weight.T), kept(attn.in_proj_bias)
        self.asked = kept(self.asked @ self.w[:, :D] + self.b[:D]) if self.projected else self.asked
        self.wo, self.bo = affine(attn.out_proj)

    def forward(self, latents):
        q = self.asked if self.projected else self.asked @ self.w[:, :D] + self.b[:D]
        k, v = (latents @ self.w[:, D:] + self.b[D:]).unflatten(-1, (2, HEADS, -1)).unbind(2)
        p = torch.einsum("qhw,bkhw->bhqk", q.unflatten(-1, (HEADS, -1)) * (D // HEADS) ** -0.5, k).softmax(-1)
        y = torch.einsum("bhqk,bkhw->bqhw", p, v).flatten(2) @ self.wo + self.bo
        return y + self.asked if self.fault == "residual of the queries" else y


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault, self.places, self.start = fault, kept(a.positions), kept(a.latents)
        (self.enter, self.enter_bias), (self.out, self.out_bias) = affine(a.input_projection), affine(a.decoder.final_layer)
        self.stages = nn.ModuleList(Stage(x, a.layers[i - 1], fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        self.ln, self.decode = layer_norm(a.norm), Decode(a.decoder, fault)

    def forward(self, features, lengths):
        t, first = features.shape[1], 1 if self.fault == "positions from one" else 0
        x = features @ self.enter + self.enter_bias + self.places[first : first + t]
        real, latents = torch.arange(t) < lengths[:, None], self.start.repeat(len(x), 1, 1)
        for stage in self.stages:
            latents = stage(x, latents, real)
        latents = latents if self.fault == "no norm before the decoder" else self.ln(latents)
        return self.decode(latents) @ self.out + self.out_bias
