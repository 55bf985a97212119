"""A transformer over points in space: A builds all pairs, B works with squared norms and products.

Distances become radial functions, these biases of the scores; the positions move along weighted differences.
"""

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, KINDS, RADIAL, CUTOFF = 32, 4, 6, 8, 4.0


class RadialBasis(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0, CUTOFF, RADIAL, dtype=torch.float64))
        self.gamma = (RADIAL / CUTOFF) ** 2 / 2

    def forward(self, d):
        return torch.exp(-self.gamma * (d[..., None] - self.centers.to(d.dtype)) ** 2)


class CosineCutoff(nn.Module):
    def forward(self, d):
        return 0.5 * (torch.cos(d * torch.pi / CUTOFF) + 1) * (d < CUTOFF)


class PointAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))
        self.rbf, self.cutoff, self.bias, self.move = (
            RadialBasis(),
            CosineCutoff(),
            nn.Linear(RADIAL, HEADS),
            nn.Linear(HEADS, 1, bias=False),
        )

    def forward(self, h, x):
        n, p, _ = h.shape
        difference = x[:, :, None] - x[:, None]  # [n, i, j, 3], from j to i
        eye = torch.eye(p, dtype=torch.bool)
        d = (difference.square().sum(-1) + eye.to(x.dtype)).sqrt()
        q, k, v = (m(h).view(n, p, HEADS, -1).transpose(1, 2) for m in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / (D // HEADS) ** 0.5 + self.bias(self.rbf(d)).permute(0, 3, 1, 2)
        weights = scores.masked_fill(eye, float("-inf")).softmax(-1) * self.cutoff(d)[:, None]
        h = self.out((weights @ v).transpose(1, 2).reshape(n, p, D))
        pull = self.move(weights.permute(0, 2, 3, 1))
        return h, (difference / (d[..., None] + 1.0) * pull).sum(2)


class PointLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(D), PointAttention()
        self.feed = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.SiLU(), nn.Linear(2 * D, D))

    def forward(self, h, x):
        dh, dx = self.attention(self.norm(h), x)
        h = h + dh
        return h + self.feed(h), x + dx


class PointTransformer(nn.Module):
    """Returns an energy [n] and the moved points [n, p, 3]."""

    def __init__(self):
        super().__init__()
        self.embed, self.layers = nn.Embedding(KINDS, D), nn.ModuleList(PointLayer() for _ in range(2))
        self.norm, self.energy = nn.LayerNorm(D), nn.Sequential(nn.Linear(D, D), nn.SiLU(), nn.Linear(D, 1))

    def forward(self, kinds, positions):
        h, x = self.embed(kinds), positions - positions.mean(1, keepdim=True)
        for layer in self.layers:
            h, x = layer(h, x)
        return self.energy(self.norm(h)).squeeze(-1).sum(1), x


def array(x):
    return nn.Parameter(x.detach().clone().contiguous())


class Interact(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        t = a.attention
        w = [m.weight.T for m in (t.q, t.k, t.v)]
        self.kernel = array(torch.stack(w).view(3, D, HEADS, -1))
        self.offset = array(torch.stack([m.bias for m in (t.q, t.k, t.v)]).view(3, HEADS, -1))
        self.radial, self.radial_bias = array(t.bias.weight.T), array(t.bias.bias)
        self.merge, self.merge_bias = array(t.out.weight if fault == "not transposed" else t.out.weight.T), array(t.out.bias)
        self.pull = array(t.move.weight[0])
        self.g0, self.b0, self.g1, self.b1 = map(array, (a.norm.weight, a.norm.bias, a.feed[0].weight, a.feed[0].bias))
        self.up, self.up_bias, self.down, self.down_bias = map(
            array, (a.feed[1].weight.T, a.feed[1].bias, a.feed[3].weight.T, a.feed[3].bias)
        )
        if fault == "norms without bias":
            self.b0.data.zero_()
            self.b1.data.zero_()
        if fault == "no radial bias term":  # the same number for all scores of a query: nothing changes
            self.radial_bias.data.zero_()
        self.fault = fault

    def normed(self, x, g, b):
        return (
            F.rms_norm(x, (D,), g, 1e-5) + b
            if self.fault == "rms"
            else F.layer_norm(x, (D,), g, b, 1e-6 if self.fault == "epsilon" else 1e-5)
        )

    def forward(self, h, x):
        p = x.shape[1]
        own = torch.eye(p, dtype=torch.bool)[None]
        norms = x.square().sum(-1)
        squared = norms[:, :, None] + norms[:, None] - 2 * torch.einsum("nic,njc->nij", x, x)
        squared = torch.where(own, torch.ones_like(squared), squared)
        d = squared if self.fault == "squared distances" else squared.sqrt()
        centers = torch.arange(RADIAL, dtype=d.dtype) * (CUTOFF / (RADIAL - 1))
        width = CUTOFF / RADIAL
        if self.fault == "width of the basis":
            width = CUTOFF / (RADIAL - 1)
        basis = torch.exp(-((d[..., None] - centers) / width).square() / 2)
        q, k, v = torch.einsum("npd,sdhw->snphw", self.normed(h, self.g0, self.b0), self.kernel) + self.offset[:, None, None]
        scores = torch.einsum("nihw,njhw->nijh", q, k) / (D if self.fault == "scaled by the width" else D // HEADS) ** 0.5
        scores = scores + basis @ self.radial + self.radial_bias
        if self.fault != "own point seen":
            scores = scores.masked_fill(own[..., None], float("-inf"))
        weights = scores.softmax(1 if self.fault == "softmax over the receivers" else 2)
        if self.fault != "no cutoff":
            smooth = torch.cos(torch.clamp(d, max=CUTOFF) * (torch.pi / CUTOFF)) * 0.5 + 0.5
            if self.fault == "hard cutoff":
                smooth = (d < CUTOFF).to(d.dtype)
            weights = weights * smooth[..., None]
        y = torch.einsum("nijh,njhw->nihw", weights, v)
        if self.fault == "mean over the neighbours":
            y = y / p
        y = y.flatten(-2) @ self.merge + self.merge_bias
        g = torch.einsum("nijh,h->nij", weights, self.pull) / (d + 1)
        dx = x * g.sum(2, keepdim=True) - g @ x
        if self.fault == "towards the neighbour":
            dx = -dx
        h = y if self.fault == "no residual" else h + y
        y = self.normed(h, self.g1, self.b1) @ self.up + self.up_bias
        y = F.softplus(y) - 0.6931471805599453 if self.fault == "shifted softplus" else y * torch.sigmoid(y)
        return h + y @ self.down + self.down_bias, x + dx


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.species = array(a.embed.weight)
        self.interactions = nn.ModuleList(Interact(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        if fault == "layer twice":
            self.interactions[1] = Interact(a.layers[0], "")
        self.g, self.b = array(a.norm.weight), array(a.norm.bias)
        self.w0, self.w0_bias, self.w1, self.w1_bias = map(
            array, (a.energy[0].weight.T, a.energy[0].bias, a.energy[2].weight.T, a.energy[2].bias)
        )
        self.fault = fault

    def forward(self, z, pos):
        x = pos if self.fault == "not centred" else pos - pos.mean(1, keepdim=True)
        h = self.species[z]
        for interact in self.interactions:
            h, x = interact(h, x)
        h = F.layer_norm(h, (D,), self.g, self.b)
        e = (F.silu(h @ self.w0 + self.w0_bias) @ self.w1 + self.w1_bias)[..., 0]
        return e.mean(1) if self.fault == "energy by mean" else e.sum(1), x


def inputs(n=2, p=7):
    """Kinds and points that are at least 0.4 apart, most pairs within the cutoff."""
    return torch.randint(0, KINDS, (n, p)), torch.randn(n, p, 3) * 1.2 + torch.arange(p)[None, :, None] * 0.3
