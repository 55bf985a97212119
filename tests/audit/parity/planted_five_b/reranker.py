"""A re-ranker as DeBERTa: scores of content to position and back, distances in logarithmic buckets, the first token is read.

The port packs queries, keys and values, and looks the positions up for every pair before it multiplies.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .port import Port, copied

D, HEADS, WORDS, SPAN, FAR = 16, 2, 31, 4, 16


def buckets(n):
    """Distances, of which those beyond SPAN / 2 share logarithmic buckets."""
    distance = torch.arange(n)[:, None] - torch.arange(n)[None]
    middle = SPAN // 2
    near = torch.where((distance < middle) & (distance > -middle), middle - 1, distance.abs())
    log = torch.ceil(torch.log(near / middle) / math.log((FAR - 1) / middle) * (middle - 1)) + middle
    return torch.where(near <= middle, distance, (log * distance.sign()).long())


class DisentangledSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_proj, self.key_proj, self.value_proj = (nn.Linear(D, D) for _ in range(3))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask, table):
        n, width = x.shape[1], D // HEADS
        q, k, v = (m(x).view(*x.shape[:2], HEADS, width).transpose(1, 2) for m in (self.query_proj, self.key_proj, self.value_proj))
        scale = math.sqrt(width * 3)
        scores = q @ (k / scale).transpose(-1, -2)
        at_key, at_query = (m(table).view(-1, HEADS, width).transpose(0, 1)[None] for m in (self.key_proj, self.query_proj))
        at = buckets(n)
        c2p = q @ at_key.transpose(-1, -2)
        index = torch.clamp(at + SPAN, 0, 2 * SPAN - 1).expand(*q.shape[:2], n, n)
        scores = scores + torch.gather(c2p, -1, index) / scale
        p2c = k @ at_query.transpose(-1, -2)
        index = torch.clamp(-at + SPAN, 0, 2 * SPAN - 1).expand(*q.shape[:2], n, n)
        scores = scores + torch.gather(p2c, -1, index).transpose(-1, -2) / scale
        scores = scores.masked_fill(~mask, torch.finfo(x.dtype).min)
        weights = self.dropout(scores.softmax(-1).masked_fill(~mask, 0))
        return (weights @ v).transpose(1, 2).flatten(2)


class SelfOutput(nn.Module):
    def __init__(self, wide=D):
        super().__init__()
        self.dense, self.LayerNorm, self.dropout = nn.Linear(wide, D), nn.LayerNorm(D, 1e-7), nn.Dropout(0.1)

    def forward(self, x, residual):
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.ModuleDict({"self": DisentangledSelfAttention(), "output": SelfOutput()})
        self.intermediate, self.output = nn.Sequential(nn.Linear(D, 32), nn.GELU()), SelfOutput(32)

    def forward(self, x, mask, table):
        x = self.attention["output"](self.attention["self"](x, mask, table), x)
        return self.output(self.intermediate(x), x)


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings, self.token_type_embeddings = nn.Embedding(WORDS, D, padding_idx=0), nn.Embedding(2, D)
        self.LayerNorm, self.dropout = nn.LayerNorm(D, 1e-7), nn.Dropout(0.1)

    def forward(self, ids, types, mask):
        x = self.LayerNorm(self.word_embeddings(ids) + self.token_type_embeddings(types))
        return self.dropout(x * mask[..., None].to(x.dtype))


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.dropout, self.act = nn.Linear(D, D), nn.Dropout(0.1), nn.GELU()

    def forward(self, x):
        return self.act(self.dense(self.dropout(x[:, 0])))


class Reranker(nn.Module):
    """Ids, segments and mask [B, 10]; returns scores of three classes."""

    def __init__(self):
        super().__init__()
        self.embeddings, self.rel_embeddings, self.rel_norm = Embeddings(), nn.Embedding(2 * SPAN, D), nn.LayerNorm(D, 1e-7)
        self.layer, self.pooler, self.classifier = nn.ModuleList(Layer() for _ in range(2)), Pooler(), nn.Linear(D, 3)

    def forward(self, ids, types, mask):
        x = self.embeddings(ids, types, mask)
        seen = (mask[:, None, None] * mask[:, None, :, None]).bool()
        table = self.rel_norm(self.rel_embeddings.weight)
        for layer in self.layer:
            x = layer(x, seen, table)
        return self.classifier(self.pooler(x))


class Mix(Port):
    def __init__(self, a, fault, at, i):
        super().__init__(fault, at)
        self.i = i
        parts = (a.query_proj, a.key_proj, a.value_proj)
        w, b = torch.stack([m.weight for m in parts]), torch.stack([m.bias for m in parts])
        if self.has("heads before parts", i):
            w, b = (t.view(HEADS, 3, D // HEADS, *t.shape[2:]).transpose(0, 1).reshape(t.shape) for t in (w, b))
        if self.has("keys transposed", i):
            w = torch.stack((w[0], w[1].T, w[2]))
        self.weight, self.bias, self.dropout = copied(w), copied(b), nn.Dropout(0.1)

    def forward(self, x, mask, table):
        n, width = x.shape[1], D // HEADS
        if self.has("no bias", self.i):
            q, k, v = (torch.einsum("bnd,ced->cbne", x, self.weight)).unflatten(-1, (HEADS, width))
        else:
            q, k, v = (torch.einsum("bnd,ced->cbne", x, self.weight) + self.bias[:, None, None]).unflatten(-1, (HEADS, width))
        rows = torch.arange(2 * SPAN) - SPAN
        at = torch.arange(n)[:, None] - torch.arange(n)
        at = at if self.has("linear buckets", self.i) else buckets(n)
        at = -at if self.has("key minus query", self.i) else at
        index = at.clamp(rows[0], rows[-1]) + SPAN
        at_query, at_key = ((table @ self.weight[j].T + self.bias[j]).view(-1, HEADS, width)[index] for j in (0, 1))
        content = torch.einsum("bihd,bjhd->bhij", q, k)
        scores = content + torch.einsum("bihd,ijhd->bhij", q, at_key)
        if not self.has("no position to content", self.i):
            back = at_query.transpose(0, 1) if self.has("position to content turned", self.i) else at_query
            scores = scores + torch.einsum("bjhd,ijhd->bhij", k, back)
        scores = scores / math.sqrt(width * (1 if self.has("scale of one term", self.i) else 3))
        scores = scores + (scores.new_zeros(()) if self.has("padding seen") else (~mask).to(x.dtype) * -1e9)
        weights = torch.softmax(scores, -1)
        weights = weights if self.has("rows of padding") or self.has("padding seen") else weights * mask.to(x.dtype)
        return torch.einsum("bhij,bjhd->bihd", self.dropout(weights), v).reshape(x.shape)


class Cell(Port):
    def __init__(self, a, fault, at, i):
        super().__init__(fault, at)
        self.i = i
        self.mix, self.out = Mix(a.attention["self"], fault, at, i), nn.Linear(D, D)
        self.out.load_state_dict(a.attention["output"].dense.state_dict())
        if self.has("output not transposed", i):
            self.out.weight = copied(self.out.weight.T)
        eps = 1e-5 if self.has("epsilon", i) else 1e-7
        self.first, self.second = nn.LayerNorm(D, eps), nn.LayerNorm(D, 1e-7)
        self.first.load_state_dict(a.attention["output"].LayerNorm.state_dict())
        self.second.load_state_dict(a.output.LayerNorm.state_dict())
        self.wide, self.narrow, self.dropout = nn.Linear(D, 32), nn.Linear(32, D), nn.Dropout(0.1)
        self.wide.load_state_dict(a.intermediate[0].state_dict())
        self.narrow.load_state_dict(a.output.dense.state_dict())

    def forward(self, x, mask, table):
        y = self.dropout(self.out(self.mix(x, mask, table)))
        x = x + self.first(y) if self.has("norm before the residual", self.i) else self.first(x + y)
        y = self.wide(x)
        y = y * torch.sigmoid(1.702 * y) if self.has("quick gelu", self.i) else 0.5 * y * (1 + torch.erf(y / math.sqrt(2)))
        return self.second(x + self.dropout(self.narrow(y)))


class Ported(Port):
    def __init__(self, a, fault="", layer=-1):
        super().__init__(fault, layer)
        self.words, self.types, self.places = map(
            copied, (a.embeddings.word_embeddings.weight, a.embeddings.token_type_embeddings.weight, a.rel_embeddings.weight)
        )
        self.start, self.norm = nn.LayerNorm(D, 1e-7), nn.LayerNorm(D, 1e-7)
        self.start.load_state_dict(a.embeddings.LayerNorm.state_dict())
        self.norm.load_state_dict(a.rel_norm.state_dict())
        sources = [a.layer[0], a.layer[0] if fault == "first layer twice" else a.layer[1]]
        self.cells = nn.ModuleList(Cell(m, fault, layer, i) for i, m in enumerate(sources))
        self.pool, self.answer = nn.Linear(D, D), nn.Linear(D, 3)
        self.pool.load_state_dict(a.pooler.dense.state_dict())
        self.answer.load_state_dict(a.classifier.state_dict())

    def forward(self, ids, types, mask):
        x = self.start(self.words[ids] + self.types[types])
        x = x if self.has("padding not zeroed") else x * mask[..., None]
        real = mask.bool()
        seen = real[:, None, None] & (torch.ones_like(real) if self.has("rows of padding") else real)[:, None, :, None]
        table = self.places if self.has("positions without norm") else self.norm(self.places)
        for cell in self.cells:
            x = cell(x, seen, table)
        y = self.pool(x[torch.arange(len(x)), mask.sum(1) - 1] if self.has("last token") else x[:, 0])
        return self.answer(torch.tanh(y) if self.has("tanh") else F.gelu(y))


def sentences():
    """Two pairs of texts, the second with three tokens of padding."""
    ids, types, mask = torch.randint(1, WORDS, (2, 10)), torch.zeros(2, 10, dtype=torch.long), torch.ones(2, 10, dtype=torch.long)
    types[:, 5:], mask[1, 7:] = 1, 0
    return ids * mask, types, mask
