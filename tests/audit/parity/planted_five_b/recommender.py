"""A sequential recommender as SASRec: the next item from those before. Only the queries are normalised, and padding is set to zero.

The port is written as the TensorFlow original, batch first, with functions instead of modules.
"""

import torch
from torch import nn
from torch.nn import functional as F

from .port import Port, copied

D, HEADS, ITEMS, LENGTH = 16, 2, 23, 8


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.dropout1, self.relu = nn.Conv1d(D, D, 1), nn.Dropout(0.2), nn.ReLU()
        self.conv2, self.dropout2 = nn.Conv1d(D, D, 1), nn.Dropout(0.2)

    def forward(self, x):
        y = self.dropout2(self.conv2(self.relu(self.dropout1(self.conv1(x.transpose(-1, -2))))))
        return y.transpose(-1, -2) + x


class SASRec(nn.Module):
    """Items seen [B, 8], 0 is padding, and candidates [B, 4]. Returns the candidates' logits after the last item."""

    def __init__(self):
        super().__init__()
        self.item_emb, self.pos_emb = nn.Embedding(ITEMS, D, padding_idx=0), nn.Embedding(LENGTH + 2, D, padding_idx=0)
        self.emb_dropout, self.last_layernorm = nn.Dropout(0.2), nn.LayerNorm(D, 1e-8)
        self.attention_layernorms, self.forward_layernorms = (nn.ModuleList(nn.LayerNorm(D, 1e-8) for _ in range(2)) for _ in "af")
        self.attention_layers = nn.ModuleList(nn.MultiheadAttention(D, HEADS, 0.2) for _ in range(2))
        self.forward_layers = nn.ModuleList(FeedForward() for _ in range(2))

    def forward(self, log_seqs, candidates):
        seqs = self.item_emb(log_seqs) * D**0.5
        positions = torch.arange(1, log_seqs.shape[1] + 1)[None] * (log_seqs != 0)
        seqs = self.emb_dropout(seqs + self.pos_emb(positions))
        padding = (log_seqs == 0)[..., None]
        seqs = seqs * ~padding
        later = ~torch.tril(torch.ones(seqs.shape[1], seqs.shape[1], dtype=torch.bool))
        for i in range(2):
            seqs = seqs.transpose(0, 1)
            query = self.attention_layernorms[i](seqs)
            seqs = (query + self.attention_layers[i](query, seqs, seqs, attn_mask=later)[0]).transpose(0, 1)
            seqs = self.forward_layers[i](self.forward_layernorms[i](seqs))
            seqs = seqs * ~padding
        feats = self.last_layernorm(seqs)[:, -1]
        return (self.item_emb(candidates) @ feats[..., None])[..., 0]


class Layer(Port):
    def __init__(self, a, i, fault, at):
        super().__init__(fault, at)
        self.i = i
        w, b = a.attention_layers[i].in_proj_weight, a.attention_layers[i].in_proj_bias
        self.wq, self.wk, self.wv = map(copied, w.T.chunk(3, 1))
        self.bq, self.bk, self.bv = map(copied, b.chunk(3))
        if self.has("no bias of values", i):
            self.bv = copied(torch.zeros(D))
        out = a.attention_layers[i].out_proj
        self.wo, self.bo = copied(out.weight if self.has("output not transposed", i) else out.weight.T), copied(out.bias)
        n1, n2, f = a.attention_layernorms[i], a.forward_layernorms[i], a.forward_layers[i]
        n1 = a.attention_layernorms[1 - i] if self.has("norm of the other layer", i) else n1
        self.g1, self.b1, self.g2, self.b2 = map(copied, (n1.weight, n1.bias, n2.weight, n2.bias))
        kernels = (f.conv1.weight[..., 0], f.conv2.weight[..., 0])
        self.w1, self.w2 = (copied(w if self.has("second kernel not transposed", i) and w is kernels[1] else w.T) for w in kernels)
        self.c1, self.c2 = copied(f.conv1.bias), copied(f.conv2.bias)
        self.dropout = nn.Dropout(0.2)

    def normalise(self, x, g, b):
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).square().mean(-1, keepdim=True)
        return g * (x - mean) / (variance + (1e-3 if self.has("epsilon of Keras", self.i) else 1e-8)).sqrt() + b

    def forward(self, x, real):
        query = self.normalise(x, self.g1, self.b1)
        source = query if self.has("keys and values normalised", self.i) else x
        q, k, v = query @ self.wq + self.bq, source @ self.wk + self.bk, source @ self.wv + self.bv
        q, k, v = (torch.cat(t.split(D // HEADS, 2), 0) for t in (q, k, v))  # heads join the batch
        scores = q @ k.transpose(1, 2) / (D // HEADS) ** 0.5
        n = scores.shape[-1]
        seen = torch.ones(n, n).tril(1 if self.has("one ahead", self.i) else 0) > 0
        if not self.has("not causal", self.i):
            scores = torch.where(seen[None], scores, torch.full_like(scores, -(2.0**32) + 1))
        if self.has("padding hidden", self.i):
            scores = scores.masked_fill(~real.tile(HEADS, 1)[:, None] & ~torch.eye(n, dtype=torch.bool), -(2.0**32) + 1)
        y = torch.cat((scores.softmax(-1) @ v).chunk(HEADS, 0), 2) @ self.wo + self.bo
        x = y + (x if self.has("residual before the norm", self.i) else query)
        x = self.normalise(x, self.g2, self.b2)
        y = self.dropout((x @ self.w1 + self.c1).relu())
        x = x + self.dropout(y @ self.w2 + self.c2)
        return x if self.has("padding not zeroed", self.i) else x * real[..., None]


class Ported(Port):
    def __init__(self, a, fault="", layer=-1):
        super().__init__(fault, layer)
        self.table, self.places = copied(a.item_emb.weight), copied(a.pos_emb.weight)
        self.dropout = nn.Dropout(0.2)
        self.layers = nn.ModuleList(Layer(a, i, fault, layer) for i in range(2))
        self.g, self.b = copied(a.last_layernorm.weight), copied(a.last_layernorm.bias)
        self.answers = copied(a.item_emb.weight + 0.3 * torch.randn(ITEMS, D)) if fault == "stale answers" else None

    def forward(self, items, candidates):
        real = items != 0
        x = self.table[items]
        x = x if self.has("items not scaled") else x * 4.0
        at = torch.arange(items.shape[1]) + (0 if self.has("positions from zero") else 1)
        if self.has("newest item first"):
            at = at.flip(0)
        x = self.dropout(x + self.places[torch.where(real, at, 0)]) * real[..., None]
        for layer in self.layers:
            x = layer(x, real)
        x = F.layer_norm(x, (D,), self.g, self.b, 1e-8)
        x = x[:, 0] if self.has("first item") else x[:, -1]
        scores = x @ (self.table if self.answers is None else self.answers).T
        scores = 3 * torch.tanh(scores / 3) if self.has("capped") else scores
        return scores.gather(1, candidates + 1 if self.has("candidates from one") else candidates)


def left_padded():
    """Two sequences of items, the second begins with two rows of padding."""
    items = torch.randint(1, ITEMS, (2, LENGTH))
    items[1, :2] = 0
    return items, torch.randint(1, ITEMS - 1, (2, 4))
