"""T5 1.1 with tied output, and a port whose weights have axes for heads, as T5X stores them."""

import math

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, HEAD, FFN, VOCAB, BUCKETS, FAR = 32, 4, 8, 48, 47, 8, 12


def bucket(relative, both, far=FAR):
    """Relative position (key - query) to a bucket."""
    n, offset = BUCKETS, torch.zeros_like(relative)
    if both:
        n = n // 2
        offset = (relative > 0).long() * n
        relative = relative.abs()
    else:
        relative = (-relative).clamp(min=0)
    exact = n // 2
    large = exact + (torch.log(relative.clamp(min=1).double() / exact) / math.log(far / exact) * (n - exact)).long()
    return offset + torch.where(relative < exact, relative, large.clamp(max=n - 1))


class T5LayerNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(D))

    def forward(self, x):
        variance = x.to(torch.promote_types(x.dtype, torch.float32)).pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6)).to(x.dtype)


class T5Attention(nn.Module):
    def __init__(self, bias, both):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D, HEADS * HEAD, bias=False) for _ in range(3))
        self.o, self.both = nn.Linear(HEADS * HEAD, D, bias=False), both
        if bias:
            self.relative_attention_bias = nn.Embedding(BUCKETS, HEADS)

    def position_bias(self, t):
        i = torch.arange(t)
        return self.relative_attention_bias(bucket(i[None] - i[:, None], self.both)).permute(2, 0, 1)[None]

    def forward(self, x, memory, bias):
        q, k, v = (m(z).view(len(x), -1, HEADS, HEAD).transpose(1, 2) for m, z in ((self.q, x), (self.k, memory), (self.v, memory)))
        weights = (torch.matmul(q, k.transpose(3, 2)) + bias).softmax(-1)
        return self.o(torch.matmul(weights, v).transpose(1, 2).reshape(len(x), -1, HEADS * HEAD))


class T5Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi_0, self.wi_1, self.wo = nn.Linear(D, FFN, bias=False), nn.Linear(D, FFN, bias=False), nn.Linear(FFN, D, bias=False)

    def forward(self, x):
        return self.wo(F.gelu(self.wi_0(x), approximate="tanh") * self.wi_1(x))


class T5Block(nn.Module):
    def __init__(self, decoder, first):
        super().__init__()
        self.SelfAttention, self.norm_self = T5Attention(first, not decoder), T5LayerNorm()
        if decoder:
            self.EncDecAttention, self.norm_cross = T5Attention(False, False), T5LayerNorm()
        self.DenseReluDense, self.norm_ff = T5Gated(), T5LayerNorm()

    def forward(self, x, bias, memory=None, cross=None):
        y = self.norm_self(x)
        x = x + self.SelfAttention(y, y, bias)
        if memory is not None:
            x = x + self.EncDecAttention(self.norm_cross(x), memory, cross)
        return x + self.DenseReluDense(self.norm_ff(x))


class T5Stack(nn.Module):
    def __init__(self, decoder):
        super().__init__()
        self.block = nn.ModuleList(T5Block(decoder, i == 0) for i in range(2))
        self.final_layer_norm, self.decoder = T5LayerNorm(), decoder

    def forward(self, x, mask, memory=None, cross=None):
        bias = self.block[0].SelfAttention.position_bias(x.shape[1]) + mask
        for block in self.block:
            x = block(x, bias, memory, cross)
        return self.final_layer_norm(x)


class T5(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared, self.encoder, self.decoder = nn.Embedding(VOCAB, D), T5Stack(False), T5Stack(True)

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        dtype = self.shared.weight.dtype
        low = torch.finfo(dtype).min
        mask = (1 - attention_mask[:, None, None].to(dtype)) * low
        t = decoder_input_ids.shape[1]
        causal = torch.zeros(t, t, dtype=dtype).masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), low)
        memory = self.encoder(self.shared(input_ids), mask)
        x = self.decoder(self.shared(decoder_input_ids), causal, memory, mask)
        return F.linear(x * D**-0.5, self.shared.weight)


class Scale(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.scale, self.fault = nn.Parameter(a.weight.detach().clone()), fault
        self.eps = 1e-5 if fault == "epsilon" else 1e-6

    def forward(self, x):
        if self.fault == "layer norm":
            return F.layer_norm(x, (D,), self.scale, None, self.eps)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        y = wide / torch.sqrt((wide * wide).mean(-1, keepdim=True) + self.eps)
        if self.fault == "cast":
            return (y * self.scale.to(y.dtype)).to(x.dtype)
        return y.to(x.dtype) * self.scale


def heads(a):
    """[out, in] to [in, heads, width]."""
    return nn.Parameter(a.weight.detach().T.reshape(D, HEADS, HEAD).contiguous())


class MultiHead(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.query, self.key, self.value = heads(a.q), heads(a.k), heads(a.v)
        out = a.o.weight if fault == "not transposed" else a.o.weight.T
        self.out = nn.Parameter(out.detach().reshape(HEADS, HEAD, D).contiguous())
        self.fault = fault

    def forward(self, x, memory, bias):
        q, k, v = (torch.einsum("btd,dhk->bthk", z, w) for z, w in ((x, self.query), (memory, self.key), (memory, self.value)))
        if self.fault == "scaled scores":
            q = q / HEAD**0.5
        scores = torch.einsum("bqhk,bshk->bhqs", q, k)
        if bias is not None:
            scores = scores + bias
        return torch.einsum("bhqs,bshk,hkd->bqd", torch.softmax(scores, -1), v, self.out)


class Mlp(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        first, second = (a.wi_1, a.wi_0) if fault == "gate and value" else (a.wi_0, a.wi_1)
        self.wi = nn.Parameter(torch.stack((first.weight.T, second.weight.T)).detach().clone())
        self.wo = nn.Parameter(a.wo.weight.detach().T.contiguous())
        self.fault = fault

    def forward(self, x):
        gate, value = torch.einsum("btd,gdf->gbtf", x, self.wi)
        gate = gate.relu() if self.fault == "relu" else F.silu(gate) if self.fault == "silu" else F.gelu(gate, approximate="tanh")
        return (gate * value) @ self.wo


class Layer(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.attention, self.pre_attention = MultiHead(a.SelfAttention, fault), Scale(a.norm_self, fault)
        if hasattr(a, "EncDecAttention"):
            self.cross, self.pre_cross = MultiHead(a.EncDecAttention, fault), Scale(a.norm_cross, fault)
        self.mlp, self.pre_mlp = Mlp(a.DenseReluDense, fault), Scale(a.norm_ff, fault)

    def forward(self, x, bias, memory=None, cross=None):
        y = self.pre_attention(x)
        x = x + self.attention(y, y, bias)
        if memory is not None:
            x = x + self.cross(self.pre_cross(x), memory, cross)
        return x + self.mlp(self.pre_mlp(x))


class Side(nn.Module):
    def __init__(self, a, fault, layer):
        super().__init__()
        self.layers = nn.ModuleList(Layer(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.block))
        self.relpos = nn.Parameter(a.block[0].SelfAttention.relative_attention_bias.weight.detach().T.contiguous())
        self.norm, self.decoder, self.fault = Scale(a.final_layer_norm, fault), a.decoder, fault

    def forward(self, x, allowed, memory=None, cross=None):
        i = torch.arange(x.shape[1])
        both = not self.decoder or self.fault == "both directions in the decoder"
        relative = i[:, None] - i[None] if self.fault == "query minus key" else i[None] - i[:, None]
        positions = self.relpos[:, bucket(relative, both, 128 if self.fault == "far" else FAR)]
        low = float("-inf")
        bias = torch.where(allowed, positions, low)
        bare = torch.where(allowed, torch.zeros_like(positions), low)
        hidden = None if cross is None else torch.where(cross, torch.zeros((), dtype=x.dtype), low)
        for n, layer in enumerate(self.layers):
            x = layer(x, bare if n and self.fault == "positions in the first layer only" else bias, memory, hidden)
        return x if self.fault == "memory without norm" and not self.decoder else self.norm(x)


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.table = nn.Parameter(a.shared.weight.detach().clone())
        self.source = Side(a.encoder, "" if fault in ("both directions in the decoder", "relu") else fault, layer)
        self.target = Side(a.decoder, fault, layer)
        self.fault = fault

    def forward(self, source, real, target):
        real, t = real.bool()[:, None, None], target.shape[1]
        memory = self.source(self.table[source], real)
        seen = torch.ones_like(real) if self.fault == "padding seen by the decoder" else real
        y = self.target(self.table[target], torch.arange(t)[None] <= torch.arange(t)[:, None], memory, seen)
        return y @ self.table.T * (1 if self.fault == "output not scaled" else D**-0.5)


def inputs(n=2, s=11, t=7):
    real = (torch.arange(s)[None] < torch.tensor([s, 7])[:, None]).long()
    return torch.randint(0, VOCAB, (n, s)), real, torch.randint(0, VOCAB, (n, t))
