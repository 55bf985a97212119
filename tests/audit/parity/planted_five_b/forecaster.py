"""A forecaster as PatchTST: each channel alone, a reversible instance norm, patches of time as tokens, scores that are passed on.

The port keeps the channels first and computes each batch norm as one factor and one term.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .port import Port, copied

D, HEADS, TIME, CHANNELS, PATCH, STRIDE, PATCHES, AHEAD = 16, 2, 24, 3, 8, 4, 6, 5


class RevIN(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine_weight, self.affine_bias, self.eps = (
            nn.Parameter(torch.ones(CHANNELS)),
            nn.Parameter(torch.zeros(CHANNELS)),
            1e-5,
        )

    def forward(self, x):
        mean = x.mean(1, keepdim=True).detach()
        stdev = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - mean) / stdev * self.affine_weight + self.affine_bias, mean, stdev

    def back(self, x, mean, stdev):
        return (x - self.affine_bias) / (self.affine_weight + self.eps * self.eps) * stdev + mean


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.W_Q, self.W_K, self.W_V, self.to_out = (nn.Linear(D, D) for _ in range(4))
        self.norm_attn, self.norm_ffn = nn.BatchNorm1d(D), nn.BatchNorm1d(D)
        self.ff = nn.Sequential(nn.Linear(D, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, D))
        self.dropout = nn.Dropout(0.2)

    def forward(self, x, previous):
        q, k, v = (m(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for m in (self.W_Q, self.W_K, self.W_V))
        scores = q @ k.mT * (D // HEADS) ** -0.5
        scores = scores if previous is None else scores + previous
        y = self.to_out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = self.norm_attn((x + self.dropout(y)).mT).mT
        return self.norm_ffn((x + self.dropout(self.ff(x))).mT).mT, scores


class PatchTST(nn.Module):
    """Series [B, 24, 3]; returns the next five times [B, 5, 3]."""

    def __init__(self):
        super().__init__()
        self.revin, self.pad, self.W_P = RevIN(), nn.ReplicationPad1d((0, STRIDE)), nn.Linear(PATCH, D)
        self.W_pos, self.dropout = nn.Parameter(torch.zeros(PATCHES, D)), nn.Dropout(0.2)
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(2)), nn.Linear(D * PATCHES, AHEAD)

    def forward(self, x):
        x, mean, stdev = self.revin(x)
        z = self.pad(x.permute(0, 2, 1)).unfold(-1, PATCH, STRIDE)  # [B, channels, patches, patch]
        u = self.dropout(self.W_P(z).flatten(0, 1) + self.W_pos)
        scores = None
        for layer in self.layers:
            u, scores = layer(u, scores)
        u = u.unflatten(0, (-1, CHANNELS)).transpose(2, 3)  # [B, channels, D, patches]
        return self.revin.back(self.head(u.flatten(2)).permute(0, 2, 1), mean, stdev)


class Block(Port):
    def __init__(self, a, i, fault, at):
        super().__init__(fault, at)
        self.i = i
        order = (a.W_Q, a.W_K, a.W_V)
        order = (order[1], order[0], order[2]) if self.has("keys and queries", i) else order
        self.qkv, self.qkv_bias = copied(torch.cat([m.weight for m in order])), copied(torch.cat([m.bias for m in order]))
        self.out, self.up, self.down = (nn.Linear(m.in_features, m.out_features) for m in (a.to_out, a.ff[0], a.ff[3]))
        for ours, theirs in ((self.out, a.to_out), (self.up, a.ff[0]), (self.down, a.ff[3])):
            ours.load_state_dict(theirs.state_dict())
        for name, m in (("attn", a.norm_attn), ("ffn", a.norm_ffn)):
            for part, values in (("weight", m.weight), ("bias", m.bias), ("mean", m.running_mean), ("variance", m.running_var)):
                setattr(self, f"{part}_{name}", copied(values))
        self.dropout = nn.Dropout(0.2)

    def fold(self, x, name):
        """The batch norm of that name as one factor and one term."""
        weight, bias, mean, variance = (getattr(self, f"{part}_{name}") for part in ("weight", "bias", "mean", "variance"))
        factor = (variance + (1e-3 if self.has("epsilon of the batch norms", self.i) else 1e-5)).rsqrt()
        factor = factor if self.has("no weight of the batch norms", self.i) else weight * factor
        return x * factor + (bias - mean * factor)

    def forward(self, x, previous):
        q, k, v = F.linear(x, self.qkv, self.qkv_bias).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q = q / (D if self.has("width of the model", self.i) else D // HEADS) ** 0.5
        scores = torch.einsum("nhid,nhjd->nhij", q, k)
        if previous is not None and not self.has("scores not passed on"):
            scores = previous + scores
        if self.has("capped", self.i):
            scores = 2 * torch.tanh(scores / 2)
        weights = scores.softmax(-2 if self.has("softmax over the queries", self.i) else -1)
        y = self.out(torch.einsum("nhij,nhjd->nihd", weights, v).reshape(x.shape))
        x = self.fold(self.dropout(y) + x, "attn")
        y = self.up(x)
        y = self.dropout(self.down(y.relu() if self.has("relu", self.i) else F.gelu(y)))
        if self.has("norm before the residual", self.i):
            return x + self.fold(y, "ffn"), scores
        if self.has("layer norm", self.i):
            return F.layer_norm(x + y, (D,), self.weight_ffn, self.bias_ffn), scores
        return self.fold(y if self.has("no residual", self.i) else x + y, "ffn"), scores


class Ported(Port):
    def __init__(self, a, fault="", layer=-1):
        super().__init__(fault, layer)
        self.g, self.b = copied(a.revin.affine_weight), copied(a.revin.affine_bias)
        self.embed, self.places, self.dropout = nn.Linear(PATCH, D), copied(a.W_pos), nn.Dropout(0.2)
        self.embed.load_state_dict(a.W_P.state_dict())
        sources = [a.layers[0], a.layers[0 if fault == "first layer twice" else 1]]
        self.blocks = nn.ModuleList(Block(m, i, fault, layer) for i, m in enumerate(sources))
        head = a.head.weight.unflatten(1, (PATCHES, D) if fault == "patches outside" else (D, PATCHES))
        self.head = copied(head.permute(0, 2, 1) if fault == "patches outside" else head)  # [ahead, D, patches]
        self.head_bias = copied(a.head.bias)

    def forward(self, series):
        x = series.transpose(1, 2)
        n = x.shape[-1]
        centre = x[..., -1:] if self.has("last value subtracted") else x.sum(-1, keepdim=True) / n
        squares = ((x - x.mean(-1, keepdim=True)) ** 2).sum(-1, keepdim=True)
        spread = (squares / (n - 1 if self.has("unbiased") else n) + (1e-3 if self.has("epsilon of the series") else 1e-5)).sqrt()
        x = (x - centre) / spread
        x = x if self.has("series without weight") else x * self.g[:, None]
        x = x + self.b[:, None]
        at = torch.arange(PATCHES)[:, None] * STRIDE + torch.arange(PATCH)
        at = (at - STRIDE).clamp(min=0) if self.has("padded at the start") else at.clamp(max=n - 1)
        y = self.embed(x[..., at])
        y = y + (self.places.roll(-1, 0) if self.has("positions one on") else self.places)
        y, scores = self.dropout(y).reshape(-1, PATCHES, D), None
        for block in self.blocks:
            y, scores = block(y, scores)
        y = y.view(CHANNELS, -1, PATCHES, D).transpose(0, 1) if self.has("channels outside") else y.view(-1, CHANNELS, PATCHES, D)
        y = torch.einsum("bcpd,adp->bca", y, self.head) + self.head_bias
        y = (y - self.b[:, None]) / (self.g[:, None] + 1e-10)
        y = y if self.has("mean not added back") else y * spread + centre
        return y.transpose(1, 2)


def series():
    t = torch.arange(TIME)[None, :, None] / 5
    return (torch.randn(2, TIME, CHANNELS) + 2 * torch.sin(t + torch.randn(2, 1, CHANNELS)) + 3 * torch.randn(2, 1, CHANNELS),)


def used():
    """A model whose batch norms have seen data."""
    model = PatchTST()
    for m in model.modules():
        if isinstance(m, nn.BatchNorm1d):
            m.running_mean.normal_(0, 0.5)
            m.running_var.uniform_(0.5, 3)
    return model
