"""A retention network in its parallel form, as torchscale writes it, and a port in the recurrent form.

Without the paper's two divisions inside the retention, which the norm of each head undoes up to its epsilon.
Source: Sun et al. 2023, "Retentive Network", equations 5 to 8.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .copies import kept, layer_norm, linear

D, HEADS, KEY, VALUE, WORDS = 16, 2, 8, 16, 29


def inputs():
    torch.manual_seed(6)
    return (torch.randint(WORDS, (2, 8)),)


def rotate_every_two(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)


class RetNetRelPos(nn.Module):
    def __init__(self):
        super().__init__()
        angle = 1.0 / (10000 ** torch.linspace(0, 1, KEY // 2, dtype=torch.float64))
        self.angle = nn.Buffer(angle.repeat_interleave(2))
        self.decay = nn.Buffer(torch.log(1 - 2.0 ** (-5 - torch.arange(HEADS, dtype=torch.float64))))

    def forward(self, t, dtype):
        index = torch.arange(t, dtype=dtype)
        mask = torch.tril(torch.ones(t, t, dtype=dtype))
        mask = (index[:, None] - index[None]).masked_fill(mask == 0, torch.inf)
        mask = torch.exp(mask * self.decay[:, None, None].to(dtype)).nan_to_num()
        angles = index[:, None] * self.angle[None].to(dtype)
        return angles.sin(), angles.cos(), mask


class MultiScaleRetention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.v_proj, self.g_proj = nn.Linear(D, HEADS * VALUE, bias=False), nn.Linear(D, HEADS * VALUE, bias=False)
        self.out_proj = nn.Linear(HEADS * VALUE, D, bias=False)
        self.group_norm, self.gate_fn = nn.RMSNorm(VALUE, eps=1e-6, elementwise_affine=False), nn.SiLU()
        self.scaling = KEY**-0.5

    def forward(self, x, sin, cos, mask):
        b, t, _ = x.shape
        q, k, v = self.q_proj(x), self.k_proj(x) * self.scaling, self.v_proj(x)
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in (q, k, v))
        q, k = (y * cos + rotate_every_two(y) * sin for y in (q, k))
        y = self.group_norm(((q @ k.transpose(-1, -2)) * mask) @ v)
        y = y.transpose(1, 2).reshape(b, t, -1)
        return self.out_proj(self.gate_fn(self.g_proj(x)) * y)


class FeedForwardNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.activation_fn, self.fc2 = nn.Linear(D, 32), nn.GELU(), nn.Linear(32, D)

    def forward(self, x):
        return self.fc2(self.activation_fn(self.fc1(x)))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.retention_layer_norm, self.retention = nn.LayerNorm(D, eps=1e-6), MultiScaleRetention()
        self.final_layer_norm, self.ffn = nn.LayerNorm(D, eps=1e-6), FeedForwardNetwork()

    def forward(self, x, *table):
        x = x + self.retention(self.retention_layer_norm(x), *table)
        return x + self.ffn(self.final_layer_norm(x))


class RetNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.retnet_rel_pos = nn.Embedding(WORDS, D), RetNetRelPos()
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(2))
        self.layer_norm, self.output_projection = nn.LayerNorm(D, eps=1e-6), nn.Linear(D, WORDS, bias=False)

    def forward(self, ids):
        x = self.embed_tokens(ids) * D**0.5
        table = self.retnet_rel_pos(ids.shape[1], x.dtype)
        for layer in self.layers:
            x = layer(x, *table)
        return self.output_projection(self.layer_norm(x))


def scaled(x, eps):
    """RMS norm without a weight."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


class Memory(nn.Module):
    """Retention token by token: a matrix for each head that fades."""

    def __init__(self, ret, fault):
        super().__init__()
        self.fault = fault
        w = ret.q_proj.weight
        self.wq, self.wk = linear(w.T if fault == "not transposed" else w), linear(ret.k_proj.weight)
        self.wv, self.gate, self.out = linear(ret.v_proj.weight), linear(ret.g_proj.weight), linear(ret.out_proj.weight)

    def rotated(self, x, angles):
        """x [batch, time, heads, KEY]; neighbours are a pair."""
        cos, sin = angles.cos()[:, None], (-angles if self.fault == "backwards" else angles).sin()[:, None]
        if self.fault == "halves":
            a, b = x.chunk(2, -1)
            return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)

    def forward(self, x, angles, gamma):
        if self.fault != "state of the row before":
            return self.rows(x, angles, gamma)[0]
        first, state = self.rows(x[:1], angles, gamma)
        return torch.cat([first, self.rows(x[1:], angles, gamma, state)[0]])

    def rows(self, x, angles, gamma, state=None):
        """The outputs, and the state behind the last token."""
        b, t, _ = x.shape
        q = self.rotated(self.wq(x).view(b, t, HEADS, KEY), angles)
        k = self.rotated(self.wk(x).view(b, t, HEADS, KEY), angles)
        q = q / KEY**0.5
        v = self.wv(x).view(b, t, HEADS, VALUE)
        state, rows = x.new_zeros(b, HEADS, KEY, VALUE) if state is None else state, []
        for i in range(t):
            if self.fault == "read before writing":
                rows.append((q[:, i, :, :, None] * state).sum(-2))
            new = k[:, i, :, :, None] * v[:, i, :, None]
            state = gamma[:, None, None] * state + new
            if self.fault != "read before writing":
                rows.append((q[:, i, :, :, None] * state).sum(-2))
        y = torch.stack(rows, 1)
        gate = self.gate(x)
        gate = gate.sigmoid() if self.fault == "sigmoid gate" else gate * gate.sigmoid()
        if self.fault == "norm behind the gate":
            y = scaled(y * gate.view_as(y), 1e-6).flatten(2)
        elif self.fault == "norm over all heads":
            y = gate * scaled(y.flatten(2), 1e-6)
        else:
            y = gate * scaled(y, 1e-3 if self.fault == "epsilon" else 1e-6).flatten(2)
        return self.out(y), state


class Cell(nn.Module):
    def __init__(self, layer, fault):
        super().__init__()
        self.fault = fault
        self.before, self.between, self.memory = (
            layer_norm(layer.retention_layer_norm),
            layer_norm(layer.final_layer_norm),
            Memory(layer.retention, fault),
        )
        self.up, self.down = linear(layer.ffn.fc1.weight, layer.ffn.fc1.bias), linear(layer.ffn.fc2.weight, layer.ffn.fc2.bias)

    def forward(self, x, angles, gamma):
        x = x + self.memory(self.before(x), angles, gamma)
        h = F.gelu(self.up(self.between(x)))
        return self.down(h) if self.fault == "no residual" else x + self.down(h)


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault = fault
        self.words, self.last, self.head = kept(a.embed_tokens.weight), layer_norm(a.layer_norm), linear(a.output_projection.weight)
        self.cells = nn.ModuleList(Cell(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        if fault == "gate of the layer before":
            self.cells[1].memory.gate = self.cells[0].memory.gate

    def forward(self, ids):
        x = F.embedding(ids, self.words) * D**0.5
        n = KEY // 2
        last = n if self.fault == "base without the end" else n - 1
        first = 5 if self.fault == "positions from five" else 0  # the retention reads their differences
        angles = torch.arange(first, first + ids.shape[1], dtype=x.dtype)[:, None] * 10000.0 ** (
            -torch.arange(n, dtype=x.dtype) / last
        )
        gamma = 1 - 0.5 ** (torch.arange(HEADS, dtype=x.dtype) + (4 if self.fault == "faster decay" else 5))
        if self.fault == "decays backwards":
            gamma = gamma.flip(0)
        for cell in self.cells:
            x = cell(x, angles, gamma)
        return self.head(self.last(x))
