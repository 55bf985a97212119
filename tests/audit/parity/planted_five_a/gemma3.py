"""A decoder with grouped queries, windows in every other layer, a rotary base of each kind of layer, and images that it reads at
once, as transformers writes Gemma 3, and a port.

The port stores 1 + weight, rotates by complex numbers, and computes the groups by einsum.
Source: Gemma Team 2025, "Gemma 3"; `modeling_gemma3.py` of transformers.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .copies import kept, linear

D, HEADS, PAIRS, WIDTH, WORDS, WINDOW, SCALAR, FACTOR = 24, 4, 2, 8, 37, 4, 12, 8.0


def inputs():
    """Ids, and which of them are parts of an image."""
    torch.manual_seed(4)
    image = torch.zeros(2, 10, dtype=torch.long)
    image[0, 3:6] = image[1, 4:8] = 1
    return torch.randint(WORDS, (2, 10)), image


class Gemma3RMSNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.eps, self.weight = 1e-6, nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1.0 + self.weight)


class Gemma3RotaryEmbedding(nn.Module):
    def __init__(self, base, factor):
        super().__init__()
        self.base, self.factor = base, factor

    def forward(self, x):
        rates = 1.0 / (self.base ** (torch.arange(0, WIDTH, 2, dtype=x.dtype) / WIDTH)) / self.factor
        angles = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * rates
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class Gemma3Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = nn.Linear(D, HEADS * WIDTH, bias=False), nn.Linear(HEADS * WIDTH, D, bias=False)
        self.k_proj, self.v_proj = nn.Linear(D, PAIRS * WIDTH, bias=False), nn.Linear(D, PAIRS * WIDTH, bias=False)
        self.q_norm, self.k_norm = Gemma3RMSNorm(WIDTH), Gemma3RMSNorm(WIDTH)

    def forward(self, x, table, mask):
        b, t, _ = x.shape
        cos, sin = table
        q, k, v = (f(x).view(b, t, -1, WIDTH).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.q_norm(q), self.k_norm(k)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = (y.repeat_interleave(HEADS // PAIRS, 1) for y in (k, v))
        weights = torch.softmax(q @ k.transpose(2, 3) * SCALAR**-0.5 + mask, -1)
        return self.o_proj((weights @ v).transpose(1, 2).reshape(b, t, -1))


class Gemma3MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(D, 48, bias=False), nn.Linear(D, 48, bias=False)
        self.down_proj, self.act_fn = nn.Linear(48, D, bias=False), nn.GELU(approximate="tanh")

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Gemma3DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = Gemma3Attention(), Gemma3MLP()
        self.input_layernorm, self.post_attention_layernorm = Gemma3RMSNorm(D), Gemma3RMSNorm(D)
        self.pre_feedforward_layernorm, self.post_feedforward_layernorm = Gemma3RMSNorm(D), Gemma3RMSNorm(D)

    def forward(self, x, table, mask):
        x = x + self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), table, mask))
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


class Gemma3(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, D)
        self.layers = nn.ModuleList(Gemma3DecoderLayer() for _ in range(2))
        self.rotary_emb, self.rotary_emb_local = Gemma3RotaryEmbedding(1e6, FACTOR), Gemma3RotaryEmbedding(1e4, 1.0)
        self.norm = Gemma3RMSNorm(D)
        self.lm_head = nn.Linear(D, WORDS, bias=False)

    def forward(self, ids, image):
        x = self.embed_tokens(ids) * torch.tensor(D**0.5, dtype=self.norm.weight.dtype)
        at = torch.arange(ids.shape[1])
        back = at[:, None] - at[None]
        together = (image[:, :, None] * image[:, None, :]).bool()
        full = (back >= 0) | together
        near = ((back >= 0) & (back < WINDOW)) | together
        tables = self.rotary_emb_local(x), self.rotary_emb(x)
        for i, layer in enumerate(self.layers):
            mask = torch.zeros(full.shape, dtype=x.dtype).masked_fill(~(full if i % 2 else near), torch.finfo(x.dtype).min)
            x = layer(x, tables[i % 2], mask[:, None])
        return self.lm_head(self.norm(x))


def rms(x, weight, eps=1e-6):
    return F.rms_norm(x, weight.shape, weight, eps)


def turned(x, angles, fault):
    """Heads rotated by complex numbers; angles [time, WIDTH / 2]."""
    unit = torch.polar(torch.ones_like(angles), -angles if fault == "backwards" else angles)[:, None]
    if fault == "neighbours":
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * unit).flatten(-2)
    z = torch.complex(*x.chunk(2, -1)) * unit
    return torch.cat([z.real, z.imag], -1)


class Cell(nn.Module):
    def __init__(self, layer, fault):
        super().__init__()
        self.fault = fault
        attn, mlp = layer.self_attn, layer.mlp
        self.qkv = linear(torch.cat([attn.q_proj.weight, attn.k_proj.weight, attn.v_proj.weight]))
        self.proj = linear(attn.o_proj.weight)
        self.gated, self.down = linear(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])), linear(mlp.down_proj.weight)
        less = 0 if fault == "head norms without the one" else 1
        self.scale = (WIDTH if fault == "width of a head" else SCALAR) ** -0.5
        self.q_gain, self.k_gain = kept(less + attn.q_norm.weight), kept(less + attn.k_norm.weight)
        if fault == "scale in the norm":
            self.scale, self.q_gain = 1.0, kept(self.q_gain * SCALAR**-0.5)
        norms = "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
        self.g1, self.g2, self.g3, self.g4 = (kept(1 + getattr(layer, name).weight) for name in norms)

    def attention(self, x, angles, allowed):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, HEADS + 2 * PAIRS, WIDTH).split([HEADS, PAIRS, PAIRS], 2)
        if self.fault == "norm after rotation":
            q, k = (rms(turned(y, angles, ""), g) for y, g in ((q, self.q_gain), (k, self.k_gain)))
        else:
            q, k = (turned(rms(y, g), angles, self.fault) for y, g in ((q, self.q_gain), (k, self.k_gain)))
        q = q.view(b, t, -1, PAIRS, WIDTH).transpose(2, 3) if self.fault == "tiled" else q.view(b, t, PAIRS, -1, WIDTH)
        s = torch.einsum("bipgd,bjpd->bpgij", q * self.scale, k)
        s = s.masked_fill(~allowed[:, None, None], -torch.inf)
        o = torch.einsum("bpgij,bjpd->bipgd", s.softmax(-1), v)
        return self.proj((o.transpose(2, 3) if self.fault == "tiled" else o).flatten(2))

    def feed(self, x):
        gate, up = self.gated(x).chunk(2, -1)
        return self.down(F.gelu(gate, approximate="none" if self.fault == "exact gelu" else "tanh") * up)

    def forward(self, x, angles, allowed):
        y = self.attention(rms(x, self.g1), angles, allowed)
        x = rms(x + y, self.g2) if self.fault == "norm over the residual" else x + rms(y, self.g2)
        y = self.feed(rms(x, self.g3))
        return x + (y if self.fault == "no norm behind the feed-forward" else rms(y, self.g4))


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault = fault
        self.table, self.head, self.gain = kept(a.embed_tokens.weight), linear(a.lm_head.weight), kept(1 + a.norm.weight)
        self.cells = nn.ModuleList(Cell(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))

    def forward(self, ids, image):
        x = F.embedding(ids, self.table)
        x = x * (torch.tensor(D**0.5).bfloat16().item() if self.fault == "scale in bfloat16" else D**0.5)
        t = ids.shape[1]
        at = torch.arange(t, dtype=x.dtype)
        powers = torch.arange(WIDTH // 2, dtype=x.dtype) / (WIDTH // 2)
        local_factor = FACTOR if self.fault == "local positions interpolated" else 1.0
        global_factor = 1.0 if self.fault == "global positions not interpolated" else FACTOR
        local = (at / local_factor)[:, None] * (1e6 if self.fault == "one base" else 1e4) ** -powers
        far = (at / global_factor)[:, None] * 1e6**-powers
        i = torch.arange(t)
        causal, width = i[:, None] >= i, WINDOW + 1 if self.fault == "window plus one" else WINDOW
        window = causal & (i[:, None] < i + width)
        image = image.bool()
        same = image[..., None] & image[:, None]
        if self.fault == "images from left to right":
            same = torch.zeros_like(same)
        for n, cell in enumerate(self.cells):
            local_layer = n % 2 == (1 if self.fault == "windows in the other layers" else 0)
            x = cell(x, far if n % 2 else local, (window if local_layer else causal) | same)
        return self.head(rms(x, self.gain))
