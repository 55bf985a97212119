"""A translator with learned positions from 2 on and norms behind the residuals, as transformers writes BART, and a port.

The port fuses the projections, computes the cross-attention keys and values of all layers in one product, and looks positions up
in a slice of the table.
Source: Lewis et al. 2020, "BART"; the offset of 2 is fairseq's, whose ids 0 and 1 are no positions.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .copies import kept, layer_norm, linear

D, HEADS, WORDS, LENGTH, START = 16, 2, 40, 16, 2


def inputs():
    """Ids of a padded batch, its mask, and the labels that the decoder reads shifted."""
    torch.manual_seed(3)
    return torch.randint(4, WORDS, (2, 9)), torch.tensor([[1] * 9, [1] * 6 + [0] * 3]), torch.randint(4, WORDS, (2, 7))


class LearnedPositionalEmbedding(nn.Embedding):
    def __init__(self):
        super().__init__(LENGTH + 2, D)

    def forward(self, ids):
        return super().forward(torch.arange(ids.shape[1]) + 2)


class BartAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (nn.Linear(D, D) for _ in range(4))
        self.scaling = (D // HEADS) ** -0.5

    def forward(self, x, memory=None, mask=None):
        b, t, _ = x.shape
        memory = x if memory is None else memory
        q = (self.q_proj(x) * self.scaling).view(b, t, HEADS, -1).transpose(1, 2)
        k, v = (f(memory).view(b, memory.shape[1], HEADS, -1).transpose(1, 2) for f in (self.k_proj, self.v_proj))
        weights = q @ k.transpose(2, 3)
        weights = F.softmax(weights if mask is None else weights + mask, dim=-1)
        return self.out_proj((weights @ v).transpose(1, 2).reshape(b, t, D))


class BartEncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = BartAttention(), nn.LayerNorm(D)
        self.activation_fn, self.dropout = nn.GELU(), nn.Dropout(0.1)
        self.fc1, self.fc2, self.final_layer_norm = nn.Linear(D, 32), nn.Linear(32, D), nn.LayerNorm(D)

    def forward(self, x, mask):
        x = self.self_attn_layer_norm(x + self.dropout(self.self_attn(x, mask=mask)))
        return self.final_layer_norm(x + self.dropout(self.fc2(self.activation_fn(self.fc1(x)))))


class BartDecoderLayer(BartEncoderLayer):
    def __init__(self):
        super().__init__()
        self.encoder_attn, self.encoder_attn_layer_norm = BartAttention(), nn.LayerNorm(D)

    def forward(self, x, mask, memory, memory_mask):
        x = self.self_attn_layer_norm(x + self.dropout(self.self_attn(x, mask=mask)))
        x = self.encoder_attn_layer_norm(x + self.dropout(self.encoder_attn(x, memory, memory_mask)))
        return self.final_layer_norm(x + self.dropout(self.fc2(self.activation_fn(self.fc1(x)))))


class BartStack(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed_positions, self.layernorm_embedding = LearnedPositionalEmbedding(), nn.LayerNorm(D)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList(kind() for _ in range(2))

    def forward(self, embeds, ids, *context):
        x = self.dropout(self.layernorm_embedding(embeds * math.sqrt(D) + self.embed_positions(ids)))
        for layer in self.layers:
            x = layer(x, *context)
        return x


class Bart(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Embedding(WORDS, D)
        self.encoder, self.decoder = BartStack(BartEncoderLayer), BartStack(BartDecoderLayer)
        self.lm_head = nn.Linear(D, WORDS, bias=False)
        self.lm_head.weight = self.shared.weight
        self.final_logits_bias = nn.Buffer(torch.randn(1, WORDS))

    def forward(self, input_ids, attention_mask, labels):
        dtype = self.shared.weight.dtype
        lowest = torch.finfo(dtype).min
        padding = (1.0 - attention_mask[:, None, None].to(dtype)) * lowest
        memory = self.encoder(self.shared(input_ids), input_ids, padding)
        ids = labels.new_zeros(labels.shape)
        ids[:, 1:], ids[:, 0] = labels[:, :-1], START
        t = ids.shape[1]
        causal = torch.full((t, t), lowest, dtype=dtype).triu(1)[None, None]
        return self.lm_head(self.decoder(self.shared(ids), ids, causal, memory, padding)) + self.final_logits_bias


def attend(q, k, v, allowed):
    """Attention over heads; allowed is broadcast to [batch, heads, queries, keys]."""
    b, _, d = q.shape
    q, k, v = (x.reshape(b, -1, HEADS, d // HEADS).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed).transpose(1, 2).flatten(2)


class Half(nn.Module):
    """A layer of either stack; cross is the number of columns of the memory's products before its own, or None."""

    def __init__(self, layer, fault, cross):
        super().__init__()
        self.fault, self.cross = fault, cross
        attn = layer.self_attn
        parts = attn.q_proj, attn.k_proj, attn.v_proj
        biases = [p.bias for p in parts]
        if fault == "no bias of keys":  # which moves all scores of a query alike
            biases[1] = torch.zeros(D)
        self.qkv = linear(torch.cat([p.weight for p in parts]), torch.cat(biases))
        w = attn.out_proj.weight
        self.join = linear(w.T if fault == "not transposed" else w, attn.out_proj.bias)
        eps = 1e-12 if fault == "epsilon of BERT" else 1e-5
        self.ln1, self.ln3 = layer_norm(layer.self_attn_layer_norm, eps), layer_norm(layer.final_layer_norm, eps)
        if cross is not None:
            other = layer.encoder_attn
            self.ask, self.tell = linear(other.q_proj.weight, other.q_proj.bias), linear(other.out_proj.weight, other.out_proj.bias)
            self.ln2 = layer_norm(layer.encoder_attn_layer_norm, eps)
        self.up, self.down = linear(layer.fc1.weight, layer.fc1.bias), linear(layer.fc2.weight, layer.fc2.bias)

    def feed(self, x):
        h = self.up(x)
        return self.down(F.gelu(h, approximate="tanh") if self.fault == "gelu by tanh" else F.gelu(h))

    def forward(self, x, allowed, products=None, real=None):
        drop = nn.functional.dropout
        q, k, v = self.qkv(self.ln1(x) if self.fault == "norms first" else x).chunk(3, -1)
        if self.fault == "scaled twice":
            q = q * (D // HEADS) ** -0.5
        x = x + drop(self.join(attend(q, k, v, allowed)), 0.1, self.training)
        x = x if self.fault == "norms first" else self.ln1(x)
        if self.cross is not None:
            k, v = products[..., self.cross : self.cross + 2 * D].chunk(2, -1)
            k, v = (v, k) if self.fault == "values and keys" else (k, v)
            x = self.ln2(x + drop(self.tell(attend(self.ask(x), k, v, real)), 0.1, self.training))
        if self.fault == "norms first":
            return x + drop(self.feed(self.ln3(x)), 0.1, self.training)
        return self.ln3(x + drop(self.feed(x), 0.1, self.training))


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault = fault
        here = [fault if layer in (-1, i) else "" for i in range(2)]
        self.words = kept(a.shared.weight)
        old = torch.randn(WORDS, D) / D**0.5
        self.head = kept(old if fault == "stale head" else a.shared.weight)
        self.from_two = kept(a.encoder.embed_positions.weight[0 if fault == "positions from zero" else 2 :])
        first = 3 if fault == "positions of the decoder from three" else 2
        self.to_two = kept(a.decoder.embed_positions.weight[first:])
        self.start_from, self.start_to = layer_norm(a.encoder.layernorm_embedding), layer_norm(a.decoder.layernorm_embedding)
        self.reading = nn.ModuleList(Half(x, f, None) for x, f in zip(a.encoder.layers, here, strict=True))
        self.writing = nn.ModuleList(Half(x, f, 2 * D * i) for i, (x, f) in enumerate(zip(a.decoder.layers, here, strict=True)))
        pairs = [p for x in a.decoder.layers for p in (x.encoder_attn.k_proj, x.encoder_attn.v_proj)]
        self.memory = linear(torch.cat([p.weight for p in pairs]), torch.cat([p.bias for p in pairs]))
        self.logits_bias = nn.Buffer(a.final_logits_bias[0].clone())

    def forward(self, ids, mask, labels):
        real = mask[:, None, None].bool()
        scale = 1.0 if self.fault == "not scaled" else D**0.5
        x = self.start_from(F.embedding(ids, self.words) * scale + self.from_two[: ids.shape[1]])
        states = [x]
        for layer in self.reading:
            states.append(x := layer(x, real))
        products = self.memory(states[-2] if self.fault == "memory of the layer before" else x)
        start = torch.full((len(labels), 1), 0 if self.fault == "starts with another token" else START)
        y = F.embedding(torch.cat([start, labels[:, :-1]], 1), self.words) * scale + self.to_two[: labels.shape[1]]
        if self.fault != "no norm of the decoder's embedding":
            y = self.start_to(y)
        i = torch.arange(labels.shape[1])
        past = i[:, None] >= i[None] if self.fault != "not causal" else torch.ones(len(i), len(i), dtype=torch.bool)
        seen = torch.ones_like(real) if self.fault == "padding seen by the decoder" else real
        for layer in self.writing:
            y = layer(y, past, products, seen)
        y = y @ self.head.T
        return y if self.fault == "no bias of the logits" else y + self.logits_bias
