"""BERT with a pooler as transformers writes it, and a port with one projection, batch in the middle, and norms written out."""

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, VOCAB, LENGTH, LAYERS = 32, 4, 57, 20, 2


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(VOCAB, D, padding_idx=0), nn.Embedding(LENGTH, D)
        self.token_type_embeddings, self.LayerNorm, self.dropout = nn.Embedding(2, D), nn.LayerNorm(D, eps=1e-12), nn.Dropout(0.1)

    def forward(self, ids, types):
        x = self.word_embeddings(ids) + self.token_type_embeddings(types)
        return self.dropout(self.LayerNorm(x + self.position_embeddings(torch.arange(ids.shape[1])[None])))


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask):
        q, k, v = (m(x).view(*x.shape[:2], HEADS, -1).permute(0, 2, 1, 3) for m in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / (D // HEADS) ** 0.5 + mask
        y = torch.matmul(self.dropout(F.softmax(scores, -1)), v)
        return y.permute(0, 2, 1, 3).reshape(x.shape)


class Output(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.dense, self.LayerNorm, self.dropout = nn.Linear(inputs, D), nn.LayerNorm(D, eps=1e-12), nn.Dropout(0.1)

    def forward(self, y, x):
        return self.LayerNorm(self.dropout(self.dense(y)) + x)


class BertAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.self, self.output = SelfAttention(), Output(D)

    def forward(self, x, mask):
        return self.output(self.self(x, mask), x)


class Intermediate(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(D, 4 * D)

    def forward(self, x):
        return F.gelu(self.dense(x))


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.intermediate, self.output = BertAttention(), Intermediate(), Output(4 * D)

    def forward(self, x, mask):
        x = self.attention(x, mask)
        return self.output(self.intermediate(x), x)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList(BertLayer() for _ in range(LAYERS))

    def forward(self, x, mask):
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Pooler(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(D, D)

    def forward(self, x):
        return torch.tanh(self.dense(x[:, 0]))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.encoder, self.pooler, self.classifier = Embeddings(), Encoder(), Pooler(), nn.Linear(D, 3)

    def forward(self, input_ids, attention_mask, token_type_ids):
        dtype = self.classifier.weight.dtype
        mask = (1.0 - attention_mask[:, None, None].to(dtype)) * torch.finfo(dtype).min
        x = self.encoder(self.embeddings(input_ids, token_type_ids), mask)
        return self.classifier(self.pooler(x))


class Norm(nn.Module):
    def __init__(self, a, eps=1e-12, rms=False):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(a.weight.detach().clone()), nn.Parameter(a.bias.detach().clone())
        self.eps, self.rms = eps, rms

    def forward(self, x):
        if not self.rms:
            x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.gamma + self.beta


def kernel(a):
    return nn.Parameter(a.weight.detach().T.contiguous()), nn.Parameter(a.bias.detach().clone())


class Attend(nn.Module):
    """Queries, keys and values from one product; x is [time, batch, width]."""

    def __init__(self, a, fault):
        super().__init__()
        parts = [a.self.query, a.self.key, a.self.value]
        if fault == "order of the projections":  # the converter stacks key, query, value
            parts = [parts[1], parts[2], parts[0]]
        weights, biases = [p.weight for p in parts], [p.bias for p in parts]
        if fault == "transposed values":
            weights[2] = weights[2].T
        self.in_proj = nn.Parameter(torch.cat(weights).detach().clone())
        self.in_bias = nn.Parameter(torch.cat(biases).detach().clone())
        if fault == "no bias of queries":
            self.in_bias.data[:D] = 0
        self.out, self.out_bias = kernel(a.output.dense)
        self.fault = fault

    def forward(self, x, real):
        t, n, _ = x.shape
        heads = HEADS // 2 if self.fault == "half the heads" else HEADS
        q, k, v = F.linear(x, self.in_proj, self.in_bias).reshape(t, n, 3, heads, -1).unbind(2)
        q = q * (D if self.fault == "scaled by the width" else D // heads) ** -0.5
        scores = torch.einsum("tbhd,sbhd->bhts", q, k)
        if self.fault == "mask added as it is":
            scores = scores + real[:, None, None].to(x.dtype)
        elif self.fault != "padding seen":
            scores = scores.masked_fill(~real[:, None, None], float("-inf"))
        if self.fault == "a key of zeros":  # add_zero_attn of nn.MultiheadAttention
            weights = F.pad(scores, (0, 1)).softmax(-1)[..., :-1]
        else:
            weights = scores.softmax(-2 if self.fault == "softmax over the queries" else -1)
        if self.fault == "heads backwards":
            weights = weights.flip(1)
        y = torch.einsum("bhts,sbhd->tbhd", weights, v).reshape(t, n, D)
        return y @ self.out + self.out_bias


class EncoderBlock(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        eps, rms = (1e-5 if fault == "epsilon" else 1e-12), fault == "rms"
        self.mha = Attend(a.attention, fault)
        self.norm_a, self.norm_b = Norm(a.attention.output.LayerNorm, eps, rms), Norm(a.output.LayerNorm, eps, rms)
        self.w1, self.b1 = kernel(a.intermediate.dense)
        self.w2, self.b2 = kernel(a.output.dense)
        self.fault = fault

    def forward(self, x, real):
        if self.fault == "pre-norm":
            x = x + self.mha(self.norm_a(x), real)
            return x + (F.gelu(self.norm_b(x) @ self.w1 + self.b1) @ self.w2 + self.b2)
        x = self.norm_a(x + self.mha(x, real))
        h = x @ self.w1 + self.b1
        h = {"quick gelu": lambda: h * torch.sigmoid(1.702 * h), "relu": lambda: h.relu()}.get(self.fault, lambda: F.gelu(h))()
        return self.norm_b(x + (h @ self.w2 + self.b2))


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        e = a.embeddings
        self.words = nn.Parameter(e.word_embeddings.weight.detach().clone())
        self.places = nn.Parameter(e.position_embeddings.weight.detach().clone())
        self.segments = nn.Parameter(e.token_type_embeddings.weight.detach().clone())
        self.entry_norm = Norm(e.LayerNorm, 1e-5 if fault == "epsilon of the embeddings" else 1e-12)
        self.trunk = nn.ModuleList(EncoderBlock(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.encoder.layer))
        if fault == "layer twice":
            self.trunk[1] = EncoderBlock(a.encoder.layer[0], "")
        self.wp, self.bp = kernel(a.pooler.dense)
        self.wc, self.bc = kernel(a.classifier)
        self.fault = fault

    def forward(self, tokens, real, segments):
        real, t = real.bool(), tokens.shape[1]
        if self.fault == "segments not read":
            segments = torch.zeros_like(segments)
        first = 2 if self.fault == "positions from two" else 0
        x = self.words[tokens] + self.places[first : first + t] + self.segments[segments]
        x = self.entry_norm(x).transpose(0, 1)
        for block in self.trunk:
            x = block(x, real)
        x = x[-1] if self.fault == "last token" else x.mean(0) if self.fault == "mean" else x[0]
        x = x @ self.wp + self.bp
        if self.fault != "no tanh":
            x = x.tanh()
        return x @ self.wc + self.bc


def padded(n=3, t=9):
    """Ids, mask and segments of sentences with 9, 6 and 4 tokens."""
    real = (torch.arange(t)[None] < torch.tensor([t, 6, 4])[:, None]).long()
    ids = torch.randint(1, VOCAB, (n, t)) * real
    return ids, real, (torch.arange(t)[None] >= 3).long().expand(n, t) * real
