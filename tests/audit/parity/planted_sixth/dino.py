"""A vision transformer with registers, patches that alone are rotated, and gated feed-forwards, as DINOv3, and a port.

The port cuts patches by a reshape, fuses the projections, stores matrices as [in, out], and rotates neighbours: it permutes the
rows of queries and keys.
Source: Siméoni et al. 2025, "DINOv3"; `modeling_dinov3_vit.py` of transformers.
"""

import torch
from torch import nn
from torch.nn import functional as F

from ..planted_five_a.copies import kept
from ..planted_five_a.gemma3 import rotate_half
from .parts import affine, gain

D, HEADS, WIDTH, HIDDEN, PATCH, ROWS, COLUMNS, REGISTERS, CLASSES = 24, 3, 8, 40, 4, 3, 5, 2, 7


def inputs():
    torch.manual_seed(8)
    return (torch.randn(2, 3, ROWS * PATCH, COLUMNS * PATCH),)


class RopeEmbedding(nn.Module):
    def forward(self, x):
        rows = (torch.arange(ROWS, dtype=x.dtype) + 0.5) / ROWS
        columns = (torch.arange(COLUMNS, dtype=x.dtype) + 0.5) / COLUMNS
        coords = 2.0 * torch.stack(torch.meshgrid(rows, columns, indexing="ij"), dim=-1).flatten(0, 1) - 1.0
        inv_freq = 1 / 100.0 ** torch.arange(0, 1, 4 / WIDTH, dtype=x.dtype)
        angles = (2 * torch.pi * coords[:, :, None] * inv_freq).flatten(1, 2).tile(2)
        return torch.cos(angles), torch.sin(angles)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.v_proj, self.o_proj = (nn.Linear(D, D) for _ in range(3))
        self.k_proj = nn.Linear(D, D, bias=False)

    def forward(self, x, cos, sin):
        q, k, v = (f(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        prefix = x.shape[1] - len(cos)
        q, k = (torch.cat((y[:, :, :prefix], y[:, :, prefix:] * cos + rotate_half(y[:, :, prefix:]) * sin), dim=2) for y in (q, k))
        attn = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * WIDTH**-0.5, dim=-1)
        return self.o_proj(torch.matmul(attn, v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.gamma_1 = nn.LayerNorm(D), Attention(), nn.Parameter(torch.ones(D))
        self.norm2, self.gamma_2, self.act_fn = nn.LayerNorm(D), nn.Parameter(torch.ones(D)), nn.SiLU()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(D, HIDDEN), nn.Linear(D, HIDDEN), nn.Linear(HIDDEN, D)

    def forward(self, x, cos, sin):
        x = x + self.gamma_1 * self.attention(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.gamma_2 * self.down_proj(self.act_fn(self.gate_proj(y)) * self.up_proj(y))


class DinoVisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embeddings, self.rope_embeddings = nn.Conv2d(3, D, PATCH, PATCH), RopeEmbedding()
        self.cls_token, self.register_tokens = nn.Parameter(torch.zeros(1, 1, D)), nn.Parameter(torch.zeros(1, REGISTERS, D))
        self.layer = nn.ModuleList(Layer() for _ in range(2))
        self.norm, self.classifier = nn.LayerNorm(D), nn.Linear(2 * D, CLASSES)

    def forward(self, pixel_values):
        x = self.patch_embeddings(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), self.register_tokens.expand(len(x), -1, -1), x], dim=1)
        cos, sin = self.rope_embeddings(x)
        for layer in self.layer:
            x = layer(x, cos, sin)
        x = self.norm(x)
        return self.classifier(torch.cat([x[:, 0], x[:, 1 + REGISTERS :].mean(dim=1)], dim=1))


class Mix(nn.Module):
    def __init__(self, attn):
        super().__init__()
        (w, b), (self.w_out, self.b_out) = affine(attn.q_proj, attn.k_proj, attn.v_proj), affine(attn.o_proj)
        order = torch.arange(2 * D).view(2 * HEADS, 2, -1).mT.flatten()  # the pairs (i, i + WIDTH / 2) become neighbours
        self.w, self.b = kept(torch.cat([w[:, order], w[:, 2 * D :]], 1)), kept(torch.cat([b[order], b[2 * D :]]))

    def forward(self, x, angles, start):
        q, k, v = (x @ self.w + self.b).unflatten(-1, (3, HEADS, WIDTH)).permute(2, 0, 3, 1, 4).unbind(0)
        parts = start, len(angles), x.shape[1] - start - len(angles)
        q, k = (torch.cat([before, turned(y, angles), after], 2) for before, y, after in (y.split(parts, 2) for y in (q, k)))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) @ self.w_out + self.b_out


def turned(x, angles):
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)


class Unit(nn.Module):
    def __init__(self, layer, fault):
        super().__init__()
        self.fault, self.mix, (self.w_out, self.b_out) = fault, Mix(layer.attention), affine(layer.down_proj)
        (self.g1, self.h1), (self.g2, self.h2) = gain(layer.norm1), gain(layer.norm2)
        self.s1, self.s2, parts = kept(layer.gamma_1), kept(layer.gamma_2), (layer.gate_proj, layer.up_proj)
        self.w, self.b = affine(*(parts[::-1] if fault == "up before gate" else parts))

    def forward(self, x, angles, start):
        y = F.layer_norm(x, (D,), self.g1, self.h1)
        back, y = y if self.fault == "residual of the normalised" else x, self.mix(y, angles, start)
        x = back + (y if self.fault == "no layer scale" else y * self.s1)
        gate, up = (F.layer_norm(x, (D,), self.g2, self.h2) @ self.w + self.b).chunk(2, -1)
        return x + (gate * gate.sigmoid() * up @ self.w_out + self.b_out) * self.s2


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault, self.kernel = fault, kept(a.patch_embeddings.weight.permute(2, 3, 1, 0).reshape(-1, D))
        self.bias, self.first, self.registers = map(kept, (a.patch_embeddings.bias, a.cls_token[0], a.register_tokens[0]))
        self.trunk = nn.ModuleList(Unit(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layer))
        (self.g, self.h), (self.out, self.out_bias) = gain(a.norm), affine(a.classifier)

    def angles(self, dtype):
        shift = 0.0 if self.fault == "corners of the patches" else 0.5
        i, j = torch.arange(ROWS * COLUMNS) // COLUMNS, torch.arange(ROWS * COLUMNS) % COLUMNS
        at = [(x.to(dtype) + shift) * 2 / n - 1 for x, n in ((i, ROWS), (j, COLUMNS))]
        at = at[::-1] if self.fault == "columns before rows" else at
        rates = (10000.0 if self.fault == "base" else 100.0) ** -(torch.arange(WIDTH // 4, dtype=dtype) * 4 / WIDTH)
        turns = 1.0 if self.fault == "radians" else 2 * torch.pi
        return torch.cat([x[:, None] * rates * turns for x in at], 1)

    def forward(self, image):
        n, patches = len(image), ROWS * COLUMNS
        x = image.permute(0, 2, 3, 1).reshape(n, ROWS, PATCH, COLUMNS, PATCH, 3).transpose(2, 3).reshape(n, patches, -1)
        x, extra = x @ self.kernel + self.bias, [y.repeat(n, 1, 1) for y in (self.first, self.registers)]
        extra = extra[::-1] if self.fault == "registers first" else extra
        x = torch.cat([x, *extra] if self.fault == "patches first" else [*extra, x], 1)
        start = 0 if self.fault == "patches first" else 1 + REGISTERS
        for unit in self.trunk:
            x = unit(x, self.angles(x.dtype), 1 if self.fault == "one token not rotated" else start)
        x = F.layer_norm(x, (D,), self.g, self.h)
        first = x[:, patches if self.fault == "patches first" else 0]
        mean = (x[:, 1:] if self.fault == "registers in the mean" else x[:, start : start + patches]).mean(1)
        return torch.cat([first, mean], 1) @ self.out + self.out_bias
