"""A port of the Llama family (Llama, Mistral, Qwen2, Qwen3, Gemma2), written from the papers and with other names.

`Sizes` holds what a port can get wrong; `sizes_of` reads the right values from a transformers config. Three ways to hold the
weights: `fused` (one matrix for q, k and v), `pairs` (Meta's layout: rotary pairs side by side, complex rotation) and `einsum`
(JAX's layout: [in, heads, width]).
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Sizes:
    layers: int
    heads: int
    kv_heads: int
    head: int
    eps: float
    base: float
    act: str = "silu"
    scaling: tuple = ()  # ("linear", factor), ("llama3", factor, low, high, original)
    rotated: int = 0  # width that is rotated; 0: all
    first_position: int = 0
    backwards: bool = False
    rope: bool = True
    rope_on_values: bool = False
    wrong_pairs: bool = False
    scale: float = 0.0  # 0: 1 / sqrt(head)
    score_cap: float = 0.0
    output_cap: float = 0.0
    windows: tuple = ()  # for each layer, 0: none
    causal: bool = True
    top_left: bool = False  # a second chunk is masked as if it began at key 0
    padding: str = "mask"  # mask, lengths (padding taken to be on the right), ignored
    hidden: str = "-inf"  # what a hidden score becomes: -inf, lowest, zero
    softmax_axis: int = -1
    kv_order: str = "repeat"  # or tile
    norm: str = "rms"  # rms, layer, std
    norm_shift: float = 0.0  # Gemma: 1
    cast_first: bool = True  # the norm casts to the model's dtype before the weight
    norm_position: str = "before"  # before, after, none
    sandwich: bool = False
    final_norm: bool = True
    qk_norm: str = ""  # "", before, after (the rotation), whole (over all heads)
    embed_scale: float = 1.0
    residual: str = "plain"  # plain, normed, parallel
    qkv_bias: bool = True
    swapped: str = ""  # "kv", "gate"
    last_layer_twice: bool = False
    tied: bool = False


def sizes_of(config):
    rope = config.rope_parameters
    kind = rope.get("rope_type", "default")
    scaling = {
        "default": (),
        "linear": ("linear", rope.get("factor")),
        "llama3": (
            "llama3",
            *(rope.get(n) for n in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")),
        ),
    }[kind]
    gemma = config.model_type == "gemma2"
    kinds = getattr(config, "layer_types", None) or ["sliding_attention" if getattr(config, "sliding_window", None) else ""] * 9
    heads = config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // heads
    return Sizes(
        layers=config.num_hidden_layers,
        heads=heads,
        kv_heads=config.num_key_value_heads,
        head=head,
        eps=config.rms_norm_eps,
        base=rope["rope_theta"],
        act="gelu_tanh" if gemma else "silu",
        scaling=scaling,
        scale=config.query_pre_attn_scalar**-0.5 if gemma else 0.0,
        score_cap=(gemma and config.attn_logit_softcapping) or 0.0,
        output_cap=(gemma and config.final_logit_softcapping) or 0.0,
        windows=tuple(config.sliding_window if kind == "sliding_attention" else 0 for kind in kinds[: config.num_hidden_layers]),
        norm_shift=1.0 if gemma else 0.0,
        cast_first=not gemma,
        sandwich=gemma,
        qk_norm="before" if config.model_type == "qwen3" else "",
        embed_scale=config.hidden_size**0.5 if gemma else 1.0,
    )


ACTIVATIONS = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": F.relu,
    "quick": lambda x: x * torch.sigmoid(1.702 * x),
}


class Norm(nn.Module):
    def __init__(self, weight, sizes):
        super().__init__()
        self.g, self.sizes = nn.Parameter(weight.detach().clone()), sizes

    def forward(self, x):
        s = self.sizes
        y = x if x.dtype == torch.float64 else x.float()
        if s.norm in ("layer", "std"):
            y = y - y.mean(-1, keepdim=True)
        if s.norm == "std":  # noqa: SIM108 - the Annotated Transformer: (x - mean) / (std + eps), unbiased
            y = y / (y.std(-1, keepdim=True) + s.eps)
        else:
            y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + s.eps)
        gain = self.g if s.norm_shift == 0 else s.norm_shift + self.g
        if s.cast_first:
            return y.to(x.dtype) * gain
        return (y * gain.to(y.dtype)).to(x.dtype)


def angles(sizes, positions):
    width = sizes.rotated or sizes.head
    frequency = sizes.base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width)
    if sizes.scaling and sizes.scaling[0] == "linear":
        frequency = frequency / sizes.scaling[1]
    if sizes.scaling and sizes.scaling[0] == "llama3":
        _, factor, low, high, original = sizes.scaling
        wavelength = 2 * math.pi / frequency
        smooth = ((original / wavelength - low) / (high - low)).clamp(0, 1)
        frequency = frequency * (smooth + (1 - smooth) / factor)
    sign = -1.0 if sizes.backwards else 1.0
    return sign * (positions + sizes.first_position).double()[:, None] * frequency  # [T, width / 2]


def rotated_halves(x, angle):
    """x [B, H, T, K]: pair i is (i, i + K/2)."""
    width = 2 * angle.shape[-1]
    rest, (one, two) = x[..., width:], x[..., :width].chunk(2, -1)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([one * cos - two * sin, two * cos + one * sin, rest], -1)


def rotated_pairs(x, angle):
    """x [B, H, T, K]: pair i is (2i, 2i + 1), as complex numbers."""
    width = 2 * angle.shape[-1]
    turn = torch.polar(torch.ones_like(angle), angle)
    wide = x if x.dtype == torch.float64 else x.float()
    z = torch.view_as_complex(wide[..., :width].reshape(*x.shape[:-1], -1, 2).contiguous()) * turn.to(
        torch.complex128 if x.dtype == torch.float64 else torch.complex64
    )
    return torch.cat([torch.view_as_real(z).flatten(-2).to(x.dtype), x[..., width:]], -1)


def side_by_side(weight, heads, rotated):
    """Rows of q or k, moved from the layout of halves to the layout of pairs."""
    w = weight.unflatten(0, (heads, -1))
    part, rest = w[:, :rotated], w[:, rotated:]
    part = part.unflatten(1, (2, rotated // 2)).transpose(1, 2).flatten(1, 2)
    return torch.cat([part, rest], 1).flatten(0, 1)


class Attend(nn.Module):
    """q, k and v from one stream; the way the weights are held is `style`."""

    def __init__(self, weights, sizes, style, layer):
        super().__init__()
        self.sizes, self.style, self.layer = sizes, style, layer
        self.q_gain = self.k_gain = None
        q, k, v, o = (weights[f"self_attn.{n}_proj.weight"].detach().clone() for n in "qkvo")
        biases = [weights.get(f"self_attn.{n}_proj.bias") for n in "qkv"]
        biased = biases[0] is not None and sizes.qkv_bias
        if sizes.swapped == "kv":
            k, v = v, k
        if sizes.qk_norm:
            gains = [weights[f"self_attn.{n}_norm.weight"] for n in "qk"]
            if style == "pairs" and not sizes.wrong_pairs:
                gains = [side_by_side(g, 1, sizes.head) for g in gains]
            self.q_gain, self.k_gain = (Norm(g, sizes) for g in gains)
        if style == "pairs" and not sizes.wrong_pairs and sizes.rope:
            width = sizes.rotated or sizes.head
            q, k = side_by_side(q, sizes.heads, width), side_by_side(k, sizes.kv_heads, width)
            if biased:
                biases[0], biases[1] = side_by_side(biases[0], sizes.heads, width), side_by_side(biases[1], sizes.kv_heads, width)
        if style == "fused":
            self.wqkv = nn.Parameter(torch.cat([q, k, v]))
            self.bqkv = nn.Parameter(torch.cat(biases).detach().clone()) if biased else None
        elif style == "pairs":
            self.wq, self.wk, self.wv = (
                linear(q, biases[0] if biased else None),
                linear(k, biases[1] if biased else None),
                linear(v, biases[2] if biased else None),
            )
        else:
            self.q_kernel, self.k_kernel, self.v_kernel = (
                nn.Parameter(w.T.unflatten(1, (-1, sizes.head)).contiguous()) for w in (q, k, v)
            )
            self.q_bias, self.k_bias, self.v_bias = (
                nn.Parameter(b.detach().unflatten(0, (-1, sizes.head)).clone()) if biased else None for b in biases
            )
        self.wo = linear(o)

    def project(self, x):
        s = self.sizes
        if self.style == "fused":
            q, k, v = F.linear(x, self.wqkv, self.bqkv).split([s.heads * s.head, s.kv_heads * s.head, s.kv_heads * s.head], -1)
        elif self.style == "pairs":
            q, k, v = self.wq(x), self.wk(x), self.wv(x)
        else:
            q, k, v = (torch.einsum("btd,dhk->bhtk", x, w) for w in (self.q_kernel, self.k_kernel, self.v_kernel))
            if self.q_bias is not None:
                q, k, v = (y + b[:, None] for y, b in ((q, self.q_bias), (k, self.k_bias), (v, self.v_bias)))
            return q, k, v
        return [y.unflatten(-1, (-1, s.head)).transpose(1, 2) for y in (q, k, v)]

    def forward(self, x, positions, valid, past):
        s = self.sizes
        q, k, v = self.project(x)
        if s.qk_norm == "before":
            q, k = self.q_gain(q), self.k_gain(k)
        if s.rope:
            pairs = (self.style == "pairs") != (s.wrong_pairs and self.style != "pairs")
            turn = rotated_pairs if pairs else rotated_halves
            angle = angles(s, positions)
            q, k = turn(q, angle), turn(k, angle)
            if s.rope_on_values:
                v = turn(v, angle)
        if s.qk_norm == "after":
            q, k = self.q_gain(q), self.k_gain(k)
        if past is not None:
            if self.layer in past:
                k, v = torch.cat([past[self.layer][0], k], 2), torch.cat([past[self.layer][1], v], 2)
            past[self.layer] = k, v
        groups = s.heads // s.kv_heads
        if s.kv_order == "repeat":
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        else:
            k, v = k.repeat(1, groups, 1, 1), v.repeat(1, groups, 1, 1)
        may = self.may_attend(positions, k.shape[2], valid, q.device)
        scale = s.scale or 1 / math.sqrt(s.head)
        if self.style == "fused" and not s.score_cap and s.hidden == "-inf" and s.softmax_axis == -1:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=may, scale=scale)
        else:
            scores = torch.einsum("bhtk,bhsk->bhts", q * scale, k)
            if s.score_cap:
                scores = torch.tanh(scores / s.score_cap) * s.score_cap
            low = {"-inf": -math.inf, "lowest": torch.finfo(torch.float32).min, "zero": 0.0}[s.hidden]
            scores = scores.masked_fill(~may, low)
            y = torch.einsum("bhts,bhsk->bhtk", scores.softmax(s.softmax_axis), v)
        return self.wo(y.transpose(1, 2).flatten(2))

    def may_attend(self, positions, keys, valid, device):
        s = self.sizes
        at_k = torch.arange(keys, device=device)
        at_q = positions - positions[0] if s.top_left else positions
        may = torch.ones(len(at_q), keys, dtype=torch.bool, device=device)
        if s.causal:
            may = may & (at_k[None, :] <= at_q[:, None])
        window = s.windows[self.layer] if s.windows else 0
        if window:
            may = may & (at_q[:, None] - at_k[None, :] < window)
        may = may[None, None]
        if valid is not None and s.padding == "mask":
            may = may & valid.bool()[:, None, None, :]
        if valid is not None and s.padding == "lengths":
            may = may & (at_k[None] < valid.sum(1, keepdim=True))[:, None, None, :]
        return may


def linear(weight, bias=None):
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    layer.weight.data = weight.detach().clone()
    if bias is not None:
        layer.bias.data = bias.detach().clone()
    return layer


class Swiglu(nn.Module):
    def __init__(self, weights, sizes, style):
        super().__init__()
        self.sizes, self.style = sizes, style
        gate, up = weights["mlp.gate_proj.weight"], weights["mlp.up_proj.weight"]
        if sizes.swapped == "gate":
            gate, up = up, gate
        self.w13 = linear(torch.cat([gate, up])) if style == "fused" else None
        if style != "fused":
            self.w1, self.w3 = linear(gate), linear(up)
        self.w2 = linear(weights["mlp.down_proj.weight"])

    def forward(self, x):
        gate, up = self.w13(x).chunk(2, -1) if self.style == "fused" else (self.w1(x), self.w3(x))
        return self.w2(up * ACTIVATIONS[self.sizes.act](gate))


class Layer(nn.Module):
    def __init__(self, weights, sizes, style, index):
        super().__init__()
        self.sizes = sizes
        names = ["input_layernorm", "post_attention_layernorm"]
        if "pre_feedforward_layernorm.weight" in weights:
            names = ["input_layernorm", "pre_feedforward_layernorm", "post_attention_layernorm", "post_feedforward_layernorm"]
        norms = [Norm(weights[f"{name}.weight"], sizes) for name in names]
        self.attn_norm, self.ffn_norm = norms[:2]
        if sizes.sandwich:
            self.attn_post, self.ffn_post = norms[2:]
        self.attn, self.ffn = Attend(weights, sizes, style, index), Swiglu(weights, sizes, style)

    def forward(self, x, positions, valid, past):
        s = self.sizes
        if s.norm_position == "after":  # as BERT does it
            x = self.attn_norm(x + self.attn(x, positions, valid, past))
            return self.ffn_norm(x + self.ffn(x))
        y = self.attn_norm(x)
        a = self.attn(y, positions, valid, past)
        if s.sandwich:
            a = self.attn_post(a)
        if s.residual == "parallel":
            return x + a + self.ffn(self.ffn_norm(x))
        x = (y if s.residual == "normed" else x) + a
        f = self.ffn(self.ffn_norm(x))
        if s.sandwich:
            f = self.ffn_post(f)
        return x + f


class LlamaPort(nn.Module):
    """Logits [B, T, V] from the weights of a transformers model.

    changed   what every layer gets wrong; only: that layer alone gets it wrong
    chunk     the prompt is computed in two chunks with a cache: the number of tokens in the first one
    row       the change applies to that row of the batch only; beyond: to prompts longer than that only
    """

    def __init__(self, model, style="fused", changed=None, only=None, chunk=0, row=None, beyond=None):
        super().__init__()
        right = sizes_of(model.config)
        self.sizes = replace(right, **(changed or {}))
        self.chunk, self.row, self.beyond = chunk, row, beyond
        state = model.state_dict()
        self.tok = nn.Embedding.from_pretrained(state["model.embed_tokens.weight"].clone(), freeze=False)

        def blocks(sizes):
            made = []
            for index in range(right.layers):
                source = 0 if sizes.last_layer_twice and index == right.layers - 1 else index
                prefix = f"model.layers.{source}."
                part = {name.removeprefix(prefix): w for name, w in state.items() if name.startswith(prefix)}
                made.append(Layer(part, self.sizes if only in (None, index) else right, style, index))
            return nn.ModuleList(made)

        self.blocks = blocks(self.sizes)
        self.right_blocks = None
        if row is not None or beyond is not None:
            self.right_blocks = nn.ModuleList(
                Layer(
                    {n.removeprefix(f"model.layers.{i}."): w for n, w in state.items() if n.startswith(f"model.layers.{i}.")},
                    right,
                    style,
                    i,
                )
                for i in range(right.layers)
            )
        self.out_norm = Norm(state["model.norm.weight"], self.sizes if only is None else right)
        self.head = None if self.sizes.tied else linear(state["lm_head.weight"])

    def forward(self, input_ids, attention_mask=None):
        if not self.chunk:
            return self.logits(self.stack(input_ids, attention_mask, 0, None))
        past = {}
        self.stack(input_ids[:, : self.chunk], None, 0, past)
        return self.logits(self.stack(input_ids[:, self.chunk :], None, self.chunk, past))

    def stack(self, ids, valid, start, past):
        positions = torch.arange(start, start + ids.shape[1], device=ids.device)
        x = self.tok(ids)
        if self.sizes.embed_scale != 1:
            x = x * self.sizes.embed_scale
        if self.beyond is not None and ids.shape[1] <= self.beyond:
            return self.through(self.right_blocks, x, positions, valid, past)
        y = self.through(self.blocks, x, positions, valid, past)
        if self.row is None:
            return y
        right = self.through(self.right_blocks, x, positions, valid, past)
        return torch.cat([right[: self.row], y[self.row : self.row + 1], right[self.row + 1 :]])

    def through(self, blocks, x, positions, valid, past):
        for block in blocks:
            x = block(x, positions, valid, past)
        return x

    def logits(self, x):
        if self.sizes.final_norm:
            x = self.out_norm(x)
        y = F.linear(x, self.tok.weight) if self.head is None else self.head(x)
        cap = self.sizes.output_cap
        return torch.tanh(y / cap) * cap if cap else y
