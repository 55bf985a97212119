"""An encoder whose depths share one layer, behind a factorised embedding, as transformers writes ALBERT, and a port.

The port fuses the three projections, stores matrices as [in, out] and has no module but the layer.
Source: Lan et al. 2020, "ALBERT"; `modeling_albert.py` of transformers.
"""

import torch
from torch import nn
from torch.nn import functional as F

from ..planted_five_a.copies import kept
from ..planted_third.start import trained
from .parts import affine, gain

E, D, HEADS, HIDDEN, WORDS, LONGEST, DEPTH = 12, 24, 3, 48, 33, 14, 3


def inputs():
    """Ids, token types, and which tokens are real: 8 and 5 of 9."""
    torch.manual_seed(5)
    at = torch.arange(9)
    return torch.randint(WORDS, (2, 9)), (at >= torch.tensor([[4], [2]])).long(), (at < torch.tensor([[8], [5]])).long()


class AlbertEmbeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(WORDS, E), nn.Embedding(LONGEST, E)
        self.token_type_embeddings, self.LayerNorm = nn.Embedding(2, E), nn.LayerNorm(E, eps=1e-12)

    def forward(self, input_ids, token_type_ids):
        x = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        return self.LayerNorm(x + self.position_embeddings(torch.arange(input_ids.shape[1])))


class AlbertAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.dense = (nn.Linear(D, D) for _ in range(4))
        self.LayerNorm = nn.LayerNorm(D, eps=1e-12)

    def forward(self, x, mask):
        q, k, v = (f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-1, -2)) / (D // HEADS) ** 0.5 + mask
        context = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.LayerNorm(x + self.dense(context.transpose(2, 1).flatten(2)))


class AlbertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.full_layer_layer_norm, self.attention = nn.LayerNorm(D, eps=1e-12), AlbertAttention()
        self.ffn, self.ffn_output, self.activation = nn.Linear(D, HIDDEN), nn.Linear(HIDDEN, D), nn.GELU(approximate="tanh")

    def forward(self, x, mask):
        x = self.attention(x, mask)
        return self.full_layer_layer_norm(self.ffn_output(self.activation(self.ffn(x))) + x)


class Albert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.embedding_hidden_mapping_in, self.albert_layer = AlbertEmbeddings(), nn.Linear(E, D), AlbertLayer()
        self.pooler, self.pooler_activation = nn.Linear(D, D), nn.Tanh()

    def forward(self, input_ids, token_type_ids, attention_mask):
        x = self.embedding_hidden_mapping_in(self.embeddings(input_ids, token_type_ids))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for _ in range(DEPTH):
            x = self.albert_layer(x, mask)
        return x, self.pooler_activation(self.pooler(x[:, 0]))


def normed(x, gain, offset, eps=1e-12):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * gain + offset


class Layer(nn.Module):
    def __init__(self, layer):
        super().__init__()
        attn = layer.attention
        (self.w, self.b), (self.w_out, self.b_out) = affine(attn.query, attn.key, attn.value), affine(attn.dense)
        (self.g1, self.h1), (self.g2, self.h2) = gain(attn.LayerNorm), gain(layer.full_layer_layer_norm)
        (self.w1, self.b1), (self.w2, self.b2) = affine(layer.ffn), affine(layer.ffn_output)

    def attend(self, x, seen, hidden):
        q, k, v = (y.unflatten(-1, (HEADS, -1)) for y in torch.tensor_split(x @ self.w + self.b, 3, -1))
        scores = torch.einsum("bqhw,bkhw->bhqk", q * (D // HEADS) ** -0.5, k)
        p = torch.where(seen[:, None, None], scores, hidden).softmax(-1)
        return torch.einsum("bhqk,bkhw->bqhw", p, v).flatten(2) @ self.w_out + self.b_out

    def forward(self, x, seen, fault):
        y = normed(x + self.attend(x, seen, -1e4 if fault == "another number in the mask" else -torch.inf), self.g1, self.h1)
        h = F.gelu(y @ self.w1 + self.b1, approximate="none" if fault == "exact gelu" else "tanh") @ self.w2 + self.b2
        back = x if fault == "input of the layer in its second residual" else y
        return normed(h + back, self.g2, self.h2, 1e-3 if fault == "epsilon of Keras" else 1e-12)


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault, self.depth, e = fault, layer, a.embeddings
        tables = e.word_embeddings, e.position_embeddings, e.token_type_embeddings
        self.words, self.places, self.kinds = (kept(table.weight) for table in tables)
        (self.g, self.h), (self.widen, self.widen_bias) = gain(e.LayerNorm), affine(a.embedding_hidden_mapping_in)
        self.layer = self.other = Layer(a.albert_layer)
        if fault == "depths not tied":
            self.other = trained(Layer(a.albert_layer))
        self.pool, self.pool_bias = affine(a.pooler)

    def forward(self, ids, types, real):
        first = 2 if self.fault == "positions from two" else 0
        x = self.words[ids] + self.places[first : first + ids.shape[1]]
        kinds = self.kinds[torch.zeros_like(types) if self.fault == "types all zero" else types]
        behind = self.fault == "types behind the norm"
        x = normed(x, self.g, self.h) + kinds if behind else normed(x + kinds, self.g, self.h)
        x = x @ self.widen + self.widen_bias
        seen = real == (0 if self.fault == "mask the other way round" else 1)
        for i in range(DEPTH - (self.fault == "one depth fewer")):
            x = (self.other if i else self.layer)(x, seen, self.fault if self.depth in (-1, i) else "")
        return x, ((x[:, -1] if self.fault == "last token pooled" else x[:, 0]) @ self.pool + self.pool_bias).tanh()
