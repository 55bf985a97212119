"""FT-Transformer over numbers and categories as rtdl has it, and a port with one table for all tokens."""

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, NUMBERS, CARDINALITIES, FFN = 32, 4, 5, (3, 4, 6), 40


class Tokenizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(NUMBERS, D)), nn.Parameter(torch.empty(NUMBERS, D))
        self.embeddings = nn.Embedding(sum(CARDINALITIES), D)
        self.category_bias, self.cls = nn.Parameter(torch.empty(len(CARDINALITIES), D)), nn.Parameter(torch.empty(1, D))
        self.register_buffer("offsets", torch.tensor([0, *CARDINALITIES[:-1]]).cumsum(0))

    def forward(self, numbers, categories):
        x = numbers[..., None] * self.weight + self.bias
        c = self.embeddings(categories + self.offsets) + self.category_bias
        return torch.cat((x, c, self.cls.expand(len(x), 1, D)), 1)


class MultiheadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.W_q, self.W_k, self.W_v, self.W_out, self.dropout = *(nn.Linear(D, D) for _ in range(4)), nn.Dropout(0.2)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (m(x).reshape(n, t, HEADS, -1).transpose(1, 2).reshape(n * HEADS, t, -1) for m in (self.W_q, self.W_k, self.W_v))
        weights = self.dropout((q @ k.transpose(1, 2) / (D // HEADS) ** 0.5).softmax(-1))
        return self.W_out((weights @ v).reshape(n, HEADS, t, -1).transpose(1, 2).reshape(n, t, D))


class TabularBlock(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.attention, self.linear0, self.linear1 = MultiheadAttention(), nn.Linear(D, 2 * FFN), nn.Linear(FFN, D)
        self.norm0, self.norm1 = nn.Identity() if first else nn.LayerNorm(D), nn.LayerNorm(D)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.attention(self.norm0(x))
        a, b = self.linear0(self.norm1(x)).chunk(2, -1)
        return x + self.linear1(self.dropout(a * F.relu(b)))


class FTTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.scaler, self.tokenizer = nn.BatchNorm1d(NUMBERS), Tokenizer()
        self.layers = nn.ModuleList(TabularBlock(i == 0) for i in range(2))
        self.last_normalization, self.head = nn.LayerNorm(D), nn.Linear(D, 2)

    def forward(self, numbers, categories):
        x = self.tokenizer(self.scaler(numbers), categories)
        for layer in self.layers:
            x = layer(x)
        return self.head(F.relu(self.last_normalization(x[:, -1])))


def array(x):
    return nn.Parameter(x.detach().clone().contiguous())


def dense(a, transposed=False):
    layer = nn.Linear(a.in_features, a.out_features)
    layer.weight.data.copy_(a.weight.T if transposed else a.weight)
    layer.bias.data.copy_(a.bias)
    return layer


def layer_norm(a, eps=1e-5):
    layer = nn.LayerNorm(D, eps=eps)
    layer.load_state_dict(a.state_dict())
    return layer


class Row(nn.Module):
    """A block that keeps its class token at the front."""

    def __init__(self, a, fault):
        super().__init__()
        m = a.attention
        self.project, self.merge = nn.Linear(D, 3 * D), dense(m.W_out, fault == "not transposed")
        parts = [m.W_k, m.W_q, m.W_v]
        self.project.weight.data.copy_(torch.cat([p.weight for p in parts]))
        self.project.bias.data.copy_(torch.cat([p.bias for p in parts]))
        if fault == "no bias of keys":  # adds the same number to all scores of a query: nothing changes
            self.project.bias.data[:D] = 0
        eps = 1e-3 if fault == "epsilon of Keras" else 1e-5
        self.pre = None if isinstance(a.norm0, nn.Identity) else layer_norm(a.norm0, eps)
        if self.pre is None and fault == "norm in the first layer":
            self.pre = layer_norm(a.norm1)
        self.mid, self.up, self.down, self.fault = layer_norm(a.norm1, eps), dense(a.linear0), dense(a.linear1), fault

    def forward(self, x):
        y = x if self.pre is None else self.pre(x)
        k, q, v = self.project(y).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scale = 1.0 if self.fault == "scores not scaled" else (D // HEADS) ** -0.5
        y = F.scaled_dot_product_attention(q, k, v, scale=scale, dropout_p=0.2 if self.training else 0.0)
        y = self.merge(y.transpose(1, 2).flatten(-2))
        x = y if self.fault == "no residual" else x + y
        b, a = self.up(self.mid(x)).chunk(2, -1)
        if self.fault != "gate is the other half":
            a, b = b, a
        b = F.gelu(b) if self.fault == "geglu" else b.clamp(min=0)
        return x + self.down(F.dropout(a * b, 0.1, self.training)) * (0.5 if self.fault == "halved" else 1)


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        t, s = a.tokenizer, a.scaler
        self.mean, self.variance = nn.Buffer(s.running_mean.clone()), nn.Buffer(s.running_var.clone())
        self.scale, self.shift = array(s.weight), array(s.bias)
        self.slopes = array(t.weight)
        self.bias = array(torch.cat((t.cls, t.bias, t.category_bias)))  # of all tokens, class token first
        if fault == "no bias of numbers":
            self.bias.data[1 : 1 + NUMBERS] = 0
        self.tables = nn.ParameterList(array(x) for x in t.embeddings.weight.split(CARDINALITIES))
        self.rows = nn.ModuleList(Row(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        self.norm, self.head, self.fault = layer_norm(a.last_normalization), dense(a.head), fault

    def forward(self, numbers, categories):
        eps = 1e-3 if self.fault == "epsilon of the scaler" else 1e-5
        z = (numbers - self.mean) * torch.rsqrt(self.variance + eps)
        z = z.to(numbers.dtype) * self.scale + self.shift
        if self.fault == "numbers not scaled":
            z = numbers
        x = z[..., None] * self.slopes
        if self.fault == "no offsets":
            table = torch.cat(list(self.tables))
            c = [table[categories[:, i]] for i in range(len(self.tables))]
        else:
            c = [table[categories[:, i]] for i, table in enumerate(self.tables)]
        x = torch.cat((torch.zeros_like(x[:, :1]), x, torch.stack(c, 1)), 1) + self.bias
        for row in self.rows:
            x = row(x)
        x = self.norm(x.mean(1) if self.fault == "mean of the tokens" else x[:, -1] if self.fault == "last token" else x[:, 0])
        return self.head(x if self.fault == "no relu" else x.relu())


def inputs(n=4):
    return torch.randn(n, NUMBERS) * 2 + 1, torch.stack([torch.randint(0, c, (n,)) for c in CARDINALITIES], 1)
