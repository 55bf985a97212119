"""GPT-2 with transformers' fused [in, out] weights, and a port with three Linear modules and torch's own attention."""

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, VOCAB, LENGTH, LAYERS = 32, 4, 53, 24, 3


class Conv1D(nn.Module):
    """y = x W + b with W [in, out]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inputs, outputs)), nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class NewGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x.pow(3))))


class GPT2Attention(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.c_attn, self.c_proj, self.layer = Conv1D(D, 3 * D), Conv1D(D, D), layer
        self.attn_dropout, self.resid_dropout = nn.Dropout(0.1), nn.Dropout(0.1)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (z.view(n, t, HEADS, -1).transpose(1, 2) for z in self.c_attn(x).split(D, 2))
        scores = q @ k.transpose(-1, -2) / (D // HEADS) ** 0.5 / (self.layer + 1)  # scale_attn_by_inverse_layer_idx
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        weights = torch.where(causal, scores, torch.finfo(scores.dtype).min).softmax(-1)
        y = self.attn_dropout(weights) @ v
        return self.resid_dropout(self.c_proj(y.transpose(1, 2).reshape(n, t, D)))


class GPT2MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj, self.act, self.dropout = Conv1D(D, 4 * D), Conv1D(4 * D, D), NewGELU(), nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


class GPT2Block(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(D), GPT2Attention(layer), nn.LayerNorm(D), GPT2MLP()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """cap: of the logits, as in nanochat."""

    def __init__(self, cap=0.0):
        super().__init__()
        self.cap = cap
        self.wte, self.wpe, self.drop = nn.Embedding(VOCAB, D), nn.Embedding(LENGTH, D), nn.Dropout(0.1)
        self.h, self.ln_f = nn.ModuleList(GPT2Block(i) for i in range(LAYERS)), nn.LayerNorm(D)

    def forward(self, ids):
        x = self.drop(self.wte(ids) + self.wpe(torch.arange(ids.shape[1])))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x) @ self.wte.weight.T
        return self.cap * torch.tanh(x / self.cap) if self.cap else x


def linear(weight, bias=None):
    """A Linear with this weight [out, in]."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight.data.copy_(weight)
    if bias is not None:
        layer.bias.data.copy_(bias)
    return layer


def norm(a, eps=1e-5):
    layer = nn.LayerNorm(a.normalized_shape, eps=eps)
    layer.load_state_dict(a.state_dict())
    return layer


class CausalHeads(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        w, b = a.c_attn.weight.T, a.c_attn.bias
        if fault == "interleaved":  # read as [head, (q, k, v), width], as in NeoX
            rows = torch.arange(3 * D).view(HEADS, 3, -1).transpose(0, 1).reshape(-1)
            w, b = w[rows], b[rows]
        (wq, wk, wv), (bq, bk, bv) = w.chunk(3), b.chunk(3)
        if fault == "keys and values":
            wk, wv, bk, bv = wv, wk, bv, bk
        self.query, self.key, self.value = linear(wq, bq), linear(wk, bk), linear(wv, bv)
        out = a.c_proj.weight if fault == "not transposed" else a.c_proj.weight.T
        self.out = linear(out, None if fault == "no bias" else a.c_proj.bias)
        self.layer, self.fault, self.p = a.layer, fault, 0.1

    def forward(self, x):
        heads = 2 * HEADS if self.fault == "twice the heads" else HEADS
        q, k, v = (m(x).unflatten(-1, (heads, -1)).transpose(1, 2) for m in (self.query, self.key, self.value))
        scale = (D // heads) ** -0.5 / (1 if self.fault == "same scale in all layers" else self.layer + 1)
        p = self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.fault != "not causal", scale=scale, dropout_p=p)
        y = y.transpose(1, 2).flatten(-2)
        return F.dropout(self.out(y), self.p, self.training)


class Layer(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        eps = 1e-6 if fault == "epsilon" else 1e-5
        first, second = (a.ln_2, a.ln_1) if fault == "norms exchanged" else (a.ln_1, a.ln_2)
        self.attention_norm, self.feed_norm = norm(first, eps), norm(second, eps)
        if fault == "norms without bias":
            self.attention_norm.bias = self.feed_norm.bias = None
        self.attention = CausalHeads(a.attn, fault)
        self.up, self.down = linear(a.mlp.c_fc.weight.T, a.mlp.c_fc.bias), linear(a.mlp.c_proj.weight.T, a.mlp.c_proj.bias)
        self.fault = fault

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        y = self.up(self.feed_norm(x))
        y = (
            F.relu(y).square()
            if self.fault == "squared relu"
            else F.gelu(y, approximate="none" if self.fault == "gelu" else "tanh")
        )
        y = F.dropout(self.down(y), 0.1, self.training)
        return y if self.fault == "no residual" else x + y


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.tokens = nn.Embedding.from_pretrained(a.wte.weight.detach().clone(), freeze=False)
        self.positions = nn.Parameter(a.wpe.weight.detach().clone())
        self.blocks = nn.Sequential(*(Layer(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.h)))
        self.final = norm(a.ln_f)
        self.head = linear(a.wte.weight)
        if fault == "head of another vocabulary":
            self.head.weight.data.copy_(a.wte.weight.roll(1, 0))
        if fault == "layers exchanged":
            self.blocks[1], self.blocks[2] = Layer(a.h[2], ""), Layer(a.h[1], "")
            self.blocks[1].attention.layer, self.blocks[2].attention.layer = 1, 2
        self.cap, self.fault = a.cap, fault

    def forward(self, ids):
        t = ids.shape[1]
        first = {"two positions on": 2, "one position on": 1}.get(self.fault, 0)
        x = self.tokens(ids) + self.positions[first : first + t]
        x = self.blocks(F.dropout(x, 0.1, self.training))
        x = self.head(x if self.fault == "no last norm" else self.final(x))
        return (x / self.cap).tanh() * self.cap if self.cap and self.fault != "no cap" else x


def tokens(n=2, t=9):
    return (torch.randint(0, VOCAB, (n, t)),)
