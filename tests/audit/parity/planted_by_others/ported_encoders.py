"""Ports of BERT, the encoder of T5, and ViT, with other names and layouts. What a port gets wrong is a set of words in `wrong`."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .ported_gpt import Affine
from .ported_llama import ACTIVATIONS, linear


class PackedAttention(nn.Module):
    """Bidirectional attention with one matrix for q, k and v (timm's style)."""

    def __init__(self, q, k, v, out, heads, wrong):
        """Each of q, k, v, out: weight and bias."""
        super().__init__()
        self.heads, self.wrong = heads // 2 if "head width" in wrong else heads, wrong
        if "kv swapped" in wrong:
            k, v = v, k
        bias = torch.cat([q[1], k[1], v[1]])
        self.qkv = linear(torch.cat([q[0], k[0], v[0]]), None if "no bias" in wrong else bias)
        self.proj = linear(out[0].T if "transposed" in wrong else out[0], None if "no output bias" in wrong else out[1])

    def forward(self, x, valid=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scale = 1.0 if "no scale" in self.wrong else x.shape[-1] ** -0.5 if "scale of width" in self.wrong else q.shape[-1] ** -0.5
        scores = torch.einsum("bhtk,bhsk->bhts", q * scale, k)
        if "score cap" in self.wrong:
            scores = 3 * torch.tanh(scores / 3)
        if "causal" in self.wrong:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
        if valid is not None and "padding ignored" not in self.wrong:
            keep = valid.bool()
            if "padding side" in self.wrong:
                keep = torch.arange(x.shape[1])[None] < valid.sum(1, keepdim=True)
            if "mask value" in self.wrong:
                scores = scores + (1 - keep.to(x.dtype))[:, None, None] * -2.0
            else:
                scores = scores.masked_fill(~keep[:, None, None], -torch.inf)
        weights = scores.softmax(-2 if "softmax axis" in self.wrong else -1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class BertLayer(nn.Module):
    def __init__(self, state, name, config, wrong, dropout):
        super().__init__()

        def both(part):
            return state[f"{name}.{part}.weight"], state[f"{name}.{part}.bias"]

        own = "attention.self"
        self.mixer = PackedAttention(
            both(f"{own}.query"),
            both(f"{own}.key"),
            both(f"{own}.value"),
            both("attention.output.dense"),
            config.num_attention_heads,
            wrong,
        )
        self.first = Affine(state, f"{name}.attention.output.LayerNorm", config.layer_norm_eps, wrong)
        self.wide, self.small = linear(*both("intermediate.dense")), linear(*both("output.dense"))
        self.second = Affine(state, f"{name}.output.LayerNorm", config.layer_norm_eps, wrong)
        self.drop, self.wrong = nn.Dropout(dropout), wrong

    def forward(self, x, valid):
        act = ACTIVATIONS["gelu_tanh" if "tanh gelu" in self.wrong else "relu" if "relu" in self.wrong else "gelu"]
        if "pre norm" in self.wrong:
            x = x + self.mixer(self.first(x), valid)
            return x + self.small(act(self.wide(self.second(x))))
        a = self.drop(self.mixer(x, valid))
        x = self.first(a if "no residual" in self.wrong else x + a)
        return self.second(x + self.drop(self.small(act(self.wide(x)))))


class BertPort(nn.Module):
    """Hidden states [B, T, D] of BERT without its pooler."""

    def __init__(self, model, wrong=(), only=None, dropout=0.0):
        super().__init__()
        state, config, e = model.state_dict(), model.config, "embeddings"
        self.word, self.place = (
            nn.Parameter(state[f"{e}.word_embeddings.weight"].clone()),
            nn.Parameter(state[f"{e}.position_embeddings.weight"].clone()),
        )
        self.segment = nn.Parameter(state[f"{e}.token_type_embeddings.weight"].clone())
        self.start = Affine(state, f"{e}.LayerNorm", config.layer_norm_eps, wrong if only is None else ())
        self.layers = nn.ModuleList(
            BertLayer(state, f"encoder.layer.{i}", config, wrong if only in (None, i) else (), dropout)
            for i in range(config.num_hidden_layers)
        )
        self.drop, self.wrong = nn.Dropout(dropout), wrong

    def forward(self, input_ids, attention_mask=None):
        words = self.word[input_ids]
        if "embedding scale" in self.wrong:
            words = words * math.sqrt(words.shape[-1])
        first = 2 if "position offset" in self.wrong else 0  # RoBERTa
        x = words + self.place[first : first + input_ids.shape[1]]
        if "no segments" not in self.wrong:
            x = x + self.segment[1 if "other segment" in self.wrong else 0]
        if "no embedding norm" not in self.wrong:
            x = self.start(x)
        x = self.drop(x)
        for layer in self.layers:
            x = layer(x, attention_mask)
        return x


def bucket(distance, buckets, far, two_sided, wrong=()):
    """T5's bucket of a distance key - query, computed with floor instead of a cast."""
    offset = torch.zeros_like(distance)
    if two_sided:
        buckets = buckets // 2
        offset = torch.where(distance < 0 if "mirrored" in wrong else distance > 0, buckets, 0)
        distance = distance.abs()
    else:
        distance = (-distance).clamp_min(0)
    exact = buckets // 2
    log = (torch.log(distance.clamp_min(1).double() / exact) / math.log(far / exact) * (buckets - exact)).floor().long()
    return offset + torch.where(distance < exact, distance, (exact + log).clamp_max(buckets - 1))


class T5Layer(nn.Module):
    def __init__(self, state, name, config, wrong, dropout):
        super().__init__()
        own, ff = f"{name}.layer.0.SelfAttention", f"{name}.layer.1.DenseReluDense"
        self.heads = config.num_heads // 2 if "head width" in wrong else config.num_heads
        kernels = [state[f"{own}.{n}.weight"] for n in "qkv"]
        self.q, self.k, self.v = (nn.Parameter(w.T.unflatten(1, (self.heads, -1)).clone()) for w in kernels)
        out = state[f"{own}.o.weight"]
        self.o = nn.Parameter((out if "transposed" in wrong else out.T).clone())
        self.g1, self.g2 = (
            nn.Parameter(state[f"{name}.layer.0.layer_norm.weight"].clone()),
            nn.Parameter(state[f"{name}.layer.1.layer_norm.weight"].clone()),
        )
        self.w_in, self.w_out = nn.Parameter(state[f"{ff}.wi.weight"].T.clone()), nn.Parameter(state[f"{ff}.wo.weight"].T.clone())
        self.eps, self.drop, self.wrong = config.layer_norm_epsilon, nn.Dropout(dropout), wrong

    def normed(self, x, gain):
        if "layer norm" in self.wrong:
            x = x - x.mean(-1, keepdim=True)
        eps = 1e-3 if "epsilon" in self.wrong else self.eps
        return gain * (x * (x.square().mean(-1, keepdim=True) + eps) ** -0.5)

    def attend(self, y, bias, valid):
        q, k, v = (torch.einsum("btd,dhk->bthk", y, w) for w in (self.q, self.k, self.v))
        scores = torch.einsum("bthk,bshk->bhts", q, k)
        if "scaled" in self.wrong:
            scores = scores / math.sqrt(q.shape[-1])
        if "score cap" in self.wrong:
            scores = 20 * torch.tanh(scores / 20)
        scores = scores + bias
        if "causal" in self.wrong:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
        if valid is not None:
            keep = valid.bool()
            if "padding side" in self.wrong:
                keep = torch.arange(y.shape[1])[None] < valid.sum(1, keepdim=True)
            scores = scores.masked_fill(~keep[:, None, None], -torch.inf)
        return torch.einsum("bhts,bshk->bthk", scores.softmax(-1), v).flatten(2) @ self.o

    def forward(self, x, bias, valid):
        if "post norm" in self.wrong:
            x = self.normed(x + self.attend(x, bias, valid), self.g1)
            return self.normed(x + F.relu(x @ self.w_in) @ self.w_out, self.g2)
        x = x + self.drop(self.attend(self.normed(x, self.g1), bias, valid))
        act = F.gelu if "gelu" in self.wrong else F.relu
        return x + self.drop(act(self.normed(x, self.g2) @ self.w_in)) @ self.w_out


class T5Port(nn.Module):
    """Hidden states [B, T, D] of T5's encoder."""

    def __init__(self, model, wrong=(), only=None, dropout=0.0):
        super().__init__()
        state, config = model.state_dict(), model.config
        self.lookup = nn.Embedding.from_pretrained(state["shared.weight"].clone(), freeze=False)
        self.rel = nn.Parameter(
            state["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"].T.clone()
        )  # [heads, buckets]
        self.layers = nn.ModuleList(
            T5Layer(state, f"encoder.block.{i}", config, wrong if only in (None, i) else (), dropout)
            for i in range(config.num_layers)
        )
        self.g = nn.Parameter(state["encoder.final_layer_norm.weight"].clone())
        self.far = config.relative_attention_max_distance * (4 if "farther" in wrong else 1)
        self.drop, self.wrong = nn.Dropout(dropout), wrong
        self.eps = config.layer_norm_epsilon

    def forward(self, input_ids, attention_mask=None):
        x = self.lookup(input_ids)
        if "embedding scale" in self.wrong:
            x = x * math.sqrt(x.shape[-1])
        x = self.drop(x)
        i = torch.arange(input_ids.shape[1])
        buckets = bucket(i[None] - i[:, None], self.rel.shape[1], self.far, "one sided" not in self.wrong, self.wrong)
        bias = self.rel[:, buckets]
        for index, layer in enumerate(self.layers):
            x = layer(x, bias * 0 if "bias once" in self.wrong and index else bias, attention_mask)
        if "no final norm" in self.wrong:
            return x
        return self.g * (x * (x.square().mean(-1, keepdim=True) + self.eps) ** -0.5)


class VitBlock(nn.Module):
    def __init__(self, state, name, config, wrong, dropout):
        super().__init__()

        def both(part):
            return state[f"{name}.{part}.weight"], state[f"{name}.{part}.bias"]

        a = "attention"
        self.attn = PackedAttention(
            both(f"{a}.q_proj"), both(f"{a}.k_proj"), both(f"{a}.v_proj"), both(f"{a}.o_proj"), config.num_attention_heads, wrong
        )
        self.norm1, self.norm2 = (
            Affine(state, f"{name}.layernorm_before", config.layer_norm_eps, wrong),
            Affine(state, f"{name}.layernorm_after", config.layer_norm_eps, wrong),
        )
        self.fc1, self.fc2 = linear(*both("mlp.fc1")), linear(*both("mlp.fc2"))
        self.drop, self.wrong = nn.Dropout(dropout), wrong

    def forward(self, x):
        act = ACTIVATIONS["quick" if "quick gelu" in self.wrong else "gelu_tanh" if "tanh gelu" in self.wrong else "gelu"]
        if "post norm" in self.wrong:
            x = self.norm1(x + self.attn(x))
            return self.norm2(x + self.fc2(act(self.fc1(x))))
        x = x + self.drop(self.attn(self.norm1(x)))
        return x + self.drop(self.fc2(act(self.fc1(self.norm2(x)))))


class VitPort(nn.Module):
    """Tokens [B, 1 + N, D] of ViT; the patches are cut by reshaping."""

    def __init__(self, model, wrong=(), only=None, dropout=0.0):
        super().__init__()
        state, config = model.state_dict(), model.config
        p = "embeddings.patch_embeddings.projection"
        self.size = config.patch_size
        self.embed = linear(state[f"{p}.weight"].flatten(1), None if "no patch bias" in wrong else state[f"{p}.bias"])
        self.cls, self.pos = (
            nn.Parameter(state["embeddings.cls_token"][0].clone()),
            nn.Parameter(state["embeddings.position_embeddings"][0].clone()),
        )
        self.blocks = nn.ModuleList(
            VitBlock(state, f"layers.{i}", config, wrong if only in (None, i) else (), dropout)
            for i in range(config.num_hidden_layers)
        )
        self.norm = Affine(state, "layernorm", config.layer_norm_eps, wrong if only is None else ())
        self.drop, self.wrong = nn.Dropout(dropout), wrong

    def forward(self, pixel_values):
        b, c, h, w = pixel_values.shape
        p = self.size
        patches = pixel_values.reshape(b, c, h // p, p, w // p, p)
        order = (
            (0, 2, 4, 3, 5, 1)
            if "channels last" in self.wrong
            else (0, 4, 2, 1, 3, 5)
            if "columns first" in self.wrong
            else (0, 2, 4, 1, 3, 5)
        )
        x = self.embed(patches.permute(*order).flatten(3).flatten(1, 2))
        cls = self.cls.expand(b, 1, -1)
        if "position offset" in self.wrong:  # the row of the class token is given to the first patch
            x = torch.cat([cls, x + self.pos[: x.shape[1]]], 1)
        elif "class token last" in self.wrong:
            x = torch.cat([x, cls], 1) + self.pos
        else:
            x = torch.cat([cls, x], 1) + self.pos
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        return x if "no final norm" in self.wrong else self.norm(x)
