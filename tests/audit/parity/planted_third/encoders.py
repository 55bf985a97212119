"""Encoders in two hands: a BERT, a ModernBERT, a ViT and the text tower of a CLIP."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .start import put


def copied_norm(old, **more):
    """A LayerNorm of its own with the parameters of another one."""
    given = {"weight": old.weight} | ({} if old.bias is None else {"bias": old.bias})
    return put(nn.LayerNorm(old.weight.shape[0], eps=old.eps, bias=old.bias is not None, **more), **given)


# BERT: separate projections and an additive mask, against one projection and SDPA with a boolean mask.


class BertEmbeddings(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(59, dim), nn.Embedding(16, dim)
        self.token_type_embeddings, self.LayerNorm = nn.Embedding(2, dim), nn.LayerNorm(dim, eps=1e-12)

    def forward(self, ids, types):
        where = torch.arange(ids.shape[1])[None]
        return self.LayerNorm(self.word_embeddings(ids) + self.token_type_embeddings(types) + self.position_embeddings(where))


class BertSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.query, self.key, self.value, self.heads = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim), heads

    def forward(self, x, mask):
        q, k, v = (p(x).view(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3) for p in (self.query, self.key, self.value))
        probs = nn.functional.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, dim=-1)
        return (probs @ v).permute(0, 2, 1, 3).flatten(2)


class BertLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention, self.attention_dense = BertSelfAttention(dim, heads), nn.Linear(dim, dim)
        self.attention_norm, self.intermediate = nn.LayerNorm(dim, eps=1e-12), nn.Linear(dim, 3 * dim)
        self.act, self.output, self.output_norm = nn.GELU(), nn.Linear(3 * dim, dim), nn.LayerNorm(dim, eps=1e-12)

    def forward(self, x, mask):
        x = self.attention_norm(self.attention_dense(self.attention(x, mask)) + x)
        return self.output_norm(self.output(self.act(self.intermediate(x))) + x)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.layers = BertEmbeddings(24), nn.ModuleList(BertLayer(24, 3) for _ in range(2))
        self.pooler, self.classifier = nn.Linear(24, 24), nn.Linear(24, 5)

    def forward(self, ids, types, keep):
        x = self.embeddings(ids, types)
        mask = (1.0 - keep[:, None, None].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, mask)
        return self.classifier(torch.tanh(self.pooler(x[:, -1])))  # the last token is a token in rows padded on the left


class PostNormLayer(nn.Module):
    """A layer of the port, with dropout and names of its own."""

    def __init__(self, a, fault):
        super().__init__()
        self.fault, old = fault, a.attention
        dim = old.query.weight.shape[0]
        self.heads = 6 if fault == "head width" else old.heads
        self.in_proj, self.out_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim, bias=fault != "bias")
        three = (old.query, old.key, old.value)
        put(self.in_proj, weight=torch.cat([p.weight for p in three]), bias=torch.cat([p.bias for p in three]))
        put(self.out_proj, weight=a.attention_dense.weight)
        if fault != "bias":
            put(self.out_proj, bias=a.attention_dense.bias)
        eps = 1e-5 if fault == "epsilon" else 1e-12
        self.norm1 = put(nn.LayerNorm(dim, eps=eps), weight=a.attention_norm.weight, bias=a.attention_norm.bias)
        self.norm2 = put(nn.LayerNorm(dim, eps=1e-12), weight=a.output_norm.weight, bias=a.output_norm.bias)
        self.lin1 = put(nn.Linear(dim, 3 * dim), weight=a.intermediate.weight, bias=a.intermediate.bias)
        self.lin2 = put(nn.Linear(3 * dim, dim), weight=a.output.weight, bias=a.output.bias)
        self.dropout = nn.Dropout(0.1)

    def attend(self, x, allowed):
        q, k, v = self.in_proj(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed[:, None, None, :])
        return self.dropout(self.out_proj(y.transpose(1, 2).reshape(x.shape)))

    def forward(self, x, allowed):
        first = self.fault == "norm placement"
        x = x + self.attend(self.norm1(x), allowed) if first else self.norm1(x + self.attend(x, allowed))
        h = self.lin1(x)
        h = F.gelu(h, approximate="tanh") if self.fault == "activation" else h * 0.5 * (1 + torch.erf(h / 2**0.5))
        return self.norm2(x + self.dropout(self.lin2(h)))


class BertPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        e, self.fault, at = a.embeddings, fault, at % len(a.layers)
        self.tokens, self.places, self.kinds = (
            put(nn.Embedding(*t.weight.shape), weight=t.weight)
            for t in (e.word_embeddings, e.position_embeddings, e.token_type_embeddings)
        )
        self.norm = copied_norm(e.LayerNorm)
        self.encoder = nn.ModuleList(PostNormLayer(old, fault if i == at else "") for i, old in enumerate(a.layers))
        self.pool, self.out = (put(nn.Linear(24, n), weight=p.weight, bias=p.bias) for n, p in ((24, a.pooler), (5, a.classifier)))
        self.dropout = nn.Dropout(0.1)

    def forward(self, ids, types, keep):
        first = 2 if self.fault == "position offset" else 0
        places = self.places(torch.arange(first, first + ids.shape[1]))
        kinds = self.kinds(1 - types if self.fault == "segments exchanged" else types)
        x = self.dropout(self.norm(self.tokens(ids) + places + kinds))
        lengths = keep.sum(1, keepdim=True)
        allowed = torch.arange(ids.shape[1])[None] < lengths if self.fault == "padding side" else keep
        for layer in self.encoder:
            x = layer(x, allowed)
        return self.out(self.pool(x[:, -1]).tanh())


class BertInTorch(nn.Module):
    """The port that uses torch's own encoder, whose layers are one kernel in evaluation mode."""

    def __init__(self, a):
        super().__init__()
        self.embeddings, self.layers, self.pooler, self.classifier = a.embeddings, nn.ModuleList(), a.pooler, a.classifier
        for old in a.layers:
            new = nn.TransformerEncoderLayer(24, 3, 72, activation="gelu", layer_norm_eps=1e-12, batch_first=True)
            three = (old.attention.query, old.attention.key, old.attention.value)
            put(new.self_attn, in_proj_weight=torch.cat([p.weight for p in three]), in_proj_bias=torch.cat([p.bias for p in three]))
            for mine, theirs in (
                (new.self_attn.out_proj, old.attention_dense), (new.linear1, old.intermediate), (new.linear2, old.output),
                (new.norm1, old.attention_norm), (new.norm2, old.output_norm),
            ):  # fmt: skip
                put(mine, weight=theirs.weight, bias=theirs.bias)
            self.layers.append(new)

    def forward(self, ids, types, keep):
        x = self.embeddings(ids, types)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=~keep)
        return self.classifier(torch.tanh(self.pooler(x[:, -1])))


# ModernBERT: one projection, a table of angles per kind of layer and [B, H, T, D], against separate projections and [B, T, H, D].


class ModernAttention(nn.Module):
    def __init__(self, dim, heads, base, reach):
        super().__init__()
        self.Wqkv, self.Wo = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.heads, self.base, self.reach = heads, base, reach

    def angles(self, x, width):
        inv = self.base ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
        freqs = torch.outer(torch.arange(x.shape[1], dtype=x.dtype) / 3.0, inv)
        return torch.cat([freqs, freqs], -1)

    def forward(self, x, keep):
        q, k, v = self.Wqkv(x).view(*x.shape[:2], 3, self.heads, -1).transpose(3, 1).unbind(dim=2)
        angle = self.angles(x, q.shape[-1])
        turn = lambda t: t * angle.cos() + torch.cat([-t.chunk(2, -1)[1], t.chunk(2, -1)[0]], -1) * angle.sin()  # noqa: E731
        keep = keep[:, None, None, :].expand(-1, 1, x.shape[1], -1)
        if self.reach:
            distance = (torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])[None]).abs()
            keep = keep & (distance <= self.reach)
        scores = turn(q) @ turn(k).mT * q.shape[-1] ** -0.5
        scores = scores.masked_fill(~keep, torch.finfo(x.dtype).min)
        return self.Wo((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class ModernMlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.Wi, self.act, self.Wo = nn.Linear(dim, 2 * hidden, bias=False), nn.GELU(), nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        value, gate = self.Wi(x).chunk(2, dim=-1)
        return self.Wo(self.act(value) * gate)


class ModernLayer(nn.Module):
    def __init__(self, dim, heads, index):
        super().__init__()
        self.attn_norm = nn.LayerNorm(dim, bias=False) if index else nn.Identity()
        self.attn = ModernAttention(dim, heads, *((10_000.0, 2) if index % 3 else (160_000.0, 0)))
        self.mlp_norm, self.mlp = nn.LayerNorm(dim, bias=False), ModernMlp(dim, 36)

    def forward(self, x, keep):
        x = x + self.attn(self.attn_norm(x), keep)
        return x + self.mlp(self.mlp_norm(x))


class ModernBert(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings, self.norm = nn.Embedding(67, 32), nn.LayerNorm(32, bias=False)
        self.layers, self.final_norm = nn.ModuleList(ModernLayer(32, 4, i) for i in range(3)), nn.LayerNorm(32, bias=False)
        self.decoder = nn.Linear(32, 67)

    def forward(self, ids, keep):
        x = self.norm(self.tok_embeddings(ids))
        for layer in self.layers:
            x = layer(x, keep)
        return self.decoder(self.final_norm(x))


class ModernBlock(nn.Module):
    def __init__(self, a, index, fault):
        super().__init__()
        self.fault, self.index, old, dim = fault, index, a.attn, a.attn.Wo.weight.shape[0]
        rows = old.Wqkv.weight.chunk(3)
        self.to_q, self.to_k, self.to_v = (put(nn.Linear(dim, dim, bias=False), weight=w) for w in rows)
        self.to_out = put(nn.Linear(dim, dim, bias=False), weight=old.Wo.weight)
        self.pre = copied_norm(a.attn_norm) if index else None
        self.mid = copied_norm(a.mlp_norm)
        wide = a.mlp.Wi.weight.chunk(2)
        self.value, self.gate = (put(nn.Linear(dim, 36, bias=False), weight=w) for w in wide)
        self.down = put(nn.Linear(36, dim, bias=False), weight=a.mlp.Wo.weight)

    def rotary(self, x):
        base = 160_000.0 if self.index % 3 == 0 or self.fault == "rope base" else 10_000.0
        half = x.shape[-1] // 2
        step = 1.0 if self.fault == "rope scaling" else 3.0
        inverse = torch.exp(-math.log(base) * torch.arange(half, dtype=x.dtype) / half)
        theta = torch.arange(x.shape[1], dtype=x.dtype).view(-1, 1, 1) / step * inverse
        c, s = torch.cos(theta), torch.sin(theta)
        if self.fault == "rope layout":
            a, b = x.unflatten(-1, (half, 2)).unbind(-1)
            return torch.stack([a * c - b * s, a * s + b * c], dim=-1).flatten(-2)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * c - b * s, a * s + b * c], dim=-1)

    def attend(self, x, keep):
        q, k, v = (p(x).reshape(*x.shape[:2], 4, -1) for p in (self.to_q, self.to_k, self.to_v))
        scores = torch.einsum("bqhd,bkhd->bhqk", self.rotary(q) / math.sqrt(q.shape[-1]), self.rotary(k))
        if self.fault == "padding side":
            keep = torch.arange(x.shape[1]) < keep.sum(-1, keepdim=True)
        hidden = ~keep[:, None, None, :]
        if self.index % 3:
            i = torch.arange(x.shape[1])
            reach = 3 if self.fault == "window" else 2
            hidden = hidden | (i[:, None] > i[None] + reach) | (i[:, None] < i[None] - reach)
        weights = scores.masked_fill(hidden, -1e30).softmax(-1)
        return self.to_out(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))

    def forward(self, x, keep):
        x = x + self.attend(x if self.pre is None else self.pre(x), keep)
        y = self.mid(x)
        value, gate = self.value(y), self.gate(y)
        if self.fault == "exchanged":
            value, gate = gate, value
        return x + self.down((F.silu(value) if self.fault == "activation" else F.gelu(value)) * gate)


class ModernBertPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        at = at % len(a.layers)
        self.embed, self.first = put(nn.Embedding(67, 32), weight=a.tok_embeddings.weight), copied_norm(a.norm)
        self.blocks = nn.ModuleList(ModernBlock(old, i, fault if i == at else "") for i, old in enumerate(a.layers))
        self.last = copied_norm(a.final_norm)
        self.logits = put(nn.Linear(32, 67), weight=a.decoder.weight, bias=a.decoder.bias)

    def forward(self, ids, keep):
        x = self.first(self.embed(ids))
        for block in self.blocks:
            x = block(x, keep)
        return self.logits(self.last(x))


# ViT: a convolution for the patches, one projection and layer scale, against patches cut by hand and a projection per head.


class VitAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), heads

    def forward(self, x):
        q, k, v = self.qkv(x).reshape(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
        return self.proj((attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(x.shape))


class LayerScale(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * self.gamma


class VitBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attn, self.ls1 = nn.LayerNorm(dim, eps=1e-6), VitAttention(dim, heads), LayerScale(dim)
        self.norm2, self.fc1, self.act = nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, 2 * dim), nn.GELU()
        self.fc2, self.ls2 = nn.Linear(2 * dim, dim), LayerScale(dim)

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.fc2(self.act(self.fc1(self.norm2(x)))))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 24, 4, 4)
        self.cls_token, self.pos_embed = nn.Parameter(torch.zeros(1, 1, 24)), nn.Parameter(torch.zeros(1, 13, 24))
        self.blocks = nn.ModuleList(VitBlock(24, 4) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(24, eps=1e-6), nn.Linear(24, 7)

    def forward(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class PictureBlock(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.fault, dim = fault, 24
        self.heads = 3 if fault == "head width" else a.attn.heads
        self.before, self.after = copied_norm(a.norm1), copied_norm(a.norm2)
        if fault == "epsilon":
            self.before.eps = 1e-5
        w, b = a.attn.qkv.weight.chunk(3), a.attn.qkv.bias.chunk(3)
        self.query, self.key, self.value = (put(nn.Linear(dim, dim), weight=w, bias=b) for w, b in zip(w, b, strict=True))
        if fault == "bias":
            self.query = put(nn.Linear(dim, dim, bias=False), weight=w[0])
        self.dense = put(nn.Linear(dim, dim), weight=a.attn.proj.weight, bias=a.attn.proj.bias)
        self.up = put(nn.Linear(dim, 2 * dim), weight=a.fc1.weight, bias=a.fc1.bias)
        self.down = put(nn.Linear(2 * dim, dim), weight=a.fc2.weight, bias=a.fc2.bias)
        self.lambda1, self.lambda2 = (nn.Parameter(s.gamma.detach().clone()) for s in (a.ls1, a.ls2))
        self.drop = nn.Dropout(0.2)

    def attend(self, x):
        q, k, v = (p(x).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for p in (self.query, self.key, self.value))
        return self.drop(self.dense(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))

    def forward(self, x):
        if self.fault == "norm placement":
            x = x + self.lambda1 * self.before(self.attend(x))
        else:
            x = x + self.lambda1 * self.attend(self.before(x))
        h = self.up(self.after(x))
        h = h * torch.sigmoid(1.702 * h) if self.fault == "activation" else F.gelu(h)
        h = self.drop(self.down(h))
        return x + (h if self.fault == "layer scale" else self.lambda2 * h)


class VitPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.fault, at = fault, at % len(a.blocks)
        old = a.patch_embed
        self.projection = put(nn.Linear(48, 24), weight=old.weight.permute(0, 2, 3, 1).flatten(1), bias=old.bias)
        self.class_token = nn.Parameter(a.cls_token.detach().view(24).clone())
        self.places = nn.Parameter(a.pos_embed.detach()[0].clone())
        self.layers = nn.ModuleList(PictureBlock(block, fault if i == at else "") for i, block in enumerate(a.blocks))
        self.norm, self.classifier = copied_norm(a.norm), put(nn.Linear(24, 7), weight=a.head.weight, bias=a.head.bias)

    def forward(self, images):
        batch, channels, height, width = images.shape
        x = images.reshape(batch, channels, height // 4, 4, width // 4, 4)
        x = x.permute(0, 4, 2, 3, 5, 1) if self.fault == "order of patches" else x.permute(0, 2, 4, 3, 5, 1)
        x = self.projection(x.reshape(batch, -1, 48))
        first = self.class_token.expand(batch, 1, -1)
        if self.fault == "position offset":  # the class token takes no position, so the patches begin at the first one
            x = torch.cat([first + self.places[-1], x + self.places[:-1]], dim=1)
        else:
            x = torch.cat([first, x], dim=1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.classifier(self.norm(x[:, 0]))


# CLIP's text tower: modules with [B, T, D], against torch's own attention over [T, B, D].


class QuickGelu(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class ClipAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (nn.Linear(dim, dim) for _ in range(4))
        self.heads = heads

    def forward(self, x):
        batch, length, dim = x.shape
        shape = lambda t: t.view(batch, length, self.heads, -1).transpose(1, 2).reshape(batch * self.heads, length, -1)  # noqa: E731
        q, k, v = shape(self.q_proj(x) * (dim // self.heads) ** -0.5), shape(self.k_proj(x)), shape(self.v_proj(x))
        w = torch.bmm(q, k.transpose(1, 2)).view(batch, self.heads, length, length)
        w = w + torch.full((length, length), torch.finfo(x.dtype).min, dtype=x.dtype).triu_(1)
        y = torch.bmm(w.softmax(-1).view(-1, length, length), v)
        return self.out_proj(y.view(batch, self.heads, length, -1).transpose(1, 2).reshape(batch, length, dim))


class ClipLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.self_attn, self.layer_norm1, self.layer_norm2 = ClipAttention(dim, heads), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.fc1, self.act, self.fc2 = nn.Linear(dim, 3 * dim), QuickGelu(), nn.Linear(3 * dim, dim)

    def forward(self, x):
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.fc2(self.act(self.fc1(self.layer_norm2(x))))


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding, self.position_embedding = nn.Embedding(71, 24), nn.Embedding(14, 24)
        self.layers, self.final_layer_norm = nn.ModuleList(ClipLayer(24, 3) for _ in range(2)), nn.LayerNorm(24)
        self.text_projection = nn.Linear(24, 16, bias=False)

    def forward(self, ids):
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        x = self.final_layer_norm(x)
        pooled = self.text_projection(x[torch.arange(x.shape[0]), ids.argmax(dim=-1)])
        return pooled / pooled.norm(p=2, dim=-1, keepdim=True)


class ResidualAttentionBlock(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.fault, old = fault, a.self_attn
        self.attn = nn.MultiheadAttention(24, 4 if fault == "head width" else 3)
        three = (old.q_proj, old.k_proj, old.v_proj)
        put(self.attn, in_proj_weight=torch.cat([p.weight for p in three]), in_proj_bias=torch.cat([p.bias for p in three]))
        put(self.attn.out_proj, weight=old.out_proj.weight, bias=old.out_proj.bias)
        if fault == "bias":
            self.attn.out_proj.bias.data.zero_()
        if fault == "softmax scale":  # somebody put the scale into the weights, and torch scales again
            self.attn.in_proj_weight.data[:24] *= 8**-0.5
            self.attn.in_proj_bias.data[:24] *= 8**-0.5
        self.ln_1, self.ln_2 = copied_norm(a.layer_norm1), copied_norm(a.layer_norm2)
        if fault == "epsilon":
            self.ln_2.eps = 1e-12
        self.c_fc = put(nn.Linear(24, 72), weight=a.fc1.weight, bias=a.fc1.bias)
        self.c_proj = put(nn.Linear(72, 24), weight=a.fc2.weight, bias=a.fc2.bias)

    def forward(self, x, mask):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False, attn_mask=None if self.fault == "causal" else mask)[0]
        h = self.c_fc(self.ln_2(x))
        return x + self.c_proj(F.gelu(h) if self.fault == "activation" else h * torch.sigmoid(1.702 * h))


class ClipPort(nn.Module):
    def __init__(self, a, fault="", at=-1):
        super().__init__()
        self.fault, at = fault, at % len(a.layers)
        self.token_embedding = put(nn.Embedding(71, 24), weight=a.token_embedding.weight)
        self.positional_embedding = nn.Parameter(a.position_embedding.weight.detach().clone())
        self.resblocks = nn.ModuleList(ResidualAttentionBlock(old, fault if i == at else "") for i, old in enumerate(a.layers))
        self.ln_final = copied_norm(a.final_layer_norm)
        self.projection = nn.Parameter(a.text_projection.weight.detach().T.clone())

    def forward(self, ids):
        first = 1 if self.fault == "position offset" else 0
        x = self.token_embedding(ids) + self.positional_embedding[first : first + ids.shape[1]]
        x = x.permute(1, 0, 2)
        mask = torch.full((x.shape[0], x.shape[0]), float("-inf"), dtype=x.dtype).triu(1)
        for block in self.resblocks:
            x = block(x, mask)
        x = self.ln_final(x.permute(1, 0, 2))
        end = torch.full_like(ids[:, 0], ids.shape[1] - 1) if self.fault == "pooling" else ids.argmax(-1)
        x = x[torch.arange(x.shape[0]), end] @ self.projection
        return F.normalize(x, dim=-1)
