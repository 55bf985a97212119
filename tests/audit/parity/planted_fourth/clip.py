"""CLIP as transformers writes it, and a port with one class of residual block, as open_clip has it."""

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, WIDTH, PATCH, SIDE, VOCAB, LENGTH = 32, 4, 32, 4, 12, 59, 10


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class CLIPAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, mask):
        n, t, _ = x.shape
        q, k, v = (m(x).view(n, t, HEADS, -1).transpose(1, 2) for m in (self.q_proj, self.k_proj, self.v_proj))
        scores = torch.matmul(q, k.transpose(-1, -2)) * (D // HEADS) ** -0.5
        if mask is not None:
            scores = scores + mask
        return self.out_proj(torch.matmul(scores.softmax(-1), v).transpose(1, 2).reshape(n, t, D))


class CLIPMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation_fn, self.fc1, self.fc2 = QuickGELU(), nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x):
        return self.fc2(self.activation_fn(self.fc1(x)))


class CLIPLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.layer_norm1, self.mlp, self.layer_norm2 = CLIPAttention(), nn.LayerNorm(D), CLIPMLP(), nn.LayerNorm(D)

    def forward(self, x, mask=None):
        x = x + self.self_attn(self.layer_norm1(x), mask)
        return x + self.mlp(self.layer_norm2(x))


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding, self.position_embedding = nn.Embedding(VOCAB, D), nn.Embedding(LENGTH + 4, D)
        self.layers, self.final_layer_norm = nn.ModuleList(CLIPLayer() for _ in range(2)), nn.LayerNorm(D)

    def forward(self, ids):
        t = ids.shape[1]
        x = self.token_embedding(ids) + self.position_embedding(torch.arange(t))
        mask = torch.full((t, t), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.final_layer_norm(x)[torch.arange(len(ids)), ids.argmax(-1)]


class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.class_embedding = nn.Parameter(torch.empty(1, D))
        self.patch_embedding = nn.Conv2d(3, D, PATCH, PATCH, bias=False)
        self.position_embedding = nn.Embedding((SIDE // PATCH) ** 2 + 1, D)
        self.pre_layernorm, self.post_layernorm = nn.LayerNorm(D), nn.LayerNorm(D)
        self.layers = nn.ModuleList(CLIPLayer() for _ in range(2))

    def forward(self, pixels):
        x = self.patch_embedding(pixels).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_embedding.expand(len(x), 1, D), x), 1)
        x = self.pre_layernorm(x + self.position_embedding.weight)
        for layer in self.layers:
            x = layer(x)
        return self.post_layernorm(x[:, 0])


class CLIP(nn.Module):
    def __init__(self):
        super().__init__()
        self.text_model, self.vision_model = Text(), Vision()
        self.text_projection, self.visual_projection = nn.Linear(D, WIDTH, bias=False), nn.Linear(D, WIDTH, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, input_ids, pixel_values):
        image = self.visual_projection(self.vision_model(pixel_values))
        text = self.text_projection(self.text_model(input_ids))
        image, text = (z / z.norm(dim=-1, keepdim=True) for z in (image, text))
        return self.logit_scale.exp() * image @ text.T


def linear(a, transposed=False, bias=True):
    layer = nn.Linear(a.in_features, a.out_features, bias=a.bias is not None and bias)
    layer.weight.data.copy_(a.weight.T if transposed else a.weight)
    if layer.bias is not None:
        layer.bias.data.copy_(a.bias)
    return layer


def norm(a, eps=1e-5):
    layer = nn.LayerNorm(D, eps=eps)
    layer.load_state_dict(a.state_dict())
    return layer


class ResidualAttentionBlock(nn.Module):
    """x is [time, batch, width]."""

    def __init__(self, a, fault):
        super().__init__()
        eps = 1e-6 if fault == "epsilon" else 1e-5
        self.ln_1, self.ln_2 = norm(a.layer_norm1, eps), norm(a.layer_norm2, eps)
        if fault == "norms without bias":
            self.ln_1.bias = self.ln_2.bias = None
        parts = [a.self_attn.q_proj, a.self_attn.k_proj, a.self_attn.v_proj]
        if fault == "order of the projections":
            parts = [a.self_attn.k_proj, a.self_attn.v_proj, a.self_attn.q_proj]
        self.in_proj_weight = nn.Parameter(torch.cat([p.weight for p in parts]).detach().clone())
        self.in_proj_bias = nn.Parameter(torch.cat([p.bias for p in parts]).detach().clone())
        self.out_proj = linear(a.self_attn.out_proj)
        self.c_fc, self.c_proj = linear(a.mlp.fc1, bias=fault != "no bias"), linear(a.mlp.fc2)
        self.fault = fault

    def attend(self, x, mask):
        t, n, _ = x.shape
        q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        q, k, v = (z.reshape(t, n * HEADS, -1).transpose(0, 1) for z in (q, k, v))
        q = q * (D if self.fault == "scaled by the width" else D // HEADS) ** -0.5
        scores = torch.bmm(q, k.transpose(1, 2))
        if mask is not None:
            scores = scores + mask
        y = torch.bmm(scores.softmax(-1), v)
        return self.out_proj(y.transpose(0, 1).reshape(t, n, D))

    def forward(self, x, mask=None):
        x = x + self.attend(self.ln_1(x), mask)
        h = self.c_fc(self.ln_2(x))
        return x + self.c_proj(F.gelu(h) if self.fault == "gelu" else h * (1.702 * h).sigmoid())


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault = fault
        t, v = a.text_model, a.vision_model
        self.token_embedding = nn.Embedding.from_pretrained(t.token_embedding.weight.detach().clone(), freeze=False)
        self.positional_embedding = nn.Parameter(t.position_embedding.weight.detach().clone())
        vision_fault = "" if fault == "no bias" else fault
        self.transformer = nn.ModuleList(
            ResidualAttentionBlock(x, fault if layer in (-1, i) else "") for i, x in enumerate(t.layers)
        )
        self.ln_final = norm(t.final_layer_norm)
        self.text_projection = nn.Parameter(a.text_projection.weight.detach().T.contiguous())
        self.conv1 = nn.Conv2d(3, D, PATCH, PATCH, bias=fault == "patches with a bias")
        self.conv1.weight.data.copy_(v.patch_embedding.weight)
        self.class_embedding = nn.Parameter(v.class_embedding.detach().clone())
        self.visual_positions = nn.Parameter(v.position_embedding.weight.detach().clone())
        self.ln_pre, self.ln_post = norm(v.pre_layernorm), norm(v.post_layernorm)
        self.visual = nn.ModuleList(
            ResidualAttentionBlock(x, vision_fault if layer in (-1, i) else "") for i, x in enumerate(v.layers)
        )
        projection = a.text_projection if fault == "projection of the text" else a.visual_projection
        weight = projection.weight if fault == "projection not transposed" else projection.weight.T
        self.proj = nn.Parameter(weight.detach().clone())
        self.temperature = nn.Parameter(a.logit_scale.detach().clone())

    def encode_text(self, text):
        t = text.shape[1]
        first = 1 if self.fault == "positions from one" else 0
        x = (self.token_embedding(text) + self.positional_embedding[first : first + t]).transpose(0, 1)
        mask = torch.zeros(t, t, dtype=x.dtype).masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        for block in self.transformer:
            x = block(x, None if self.fault == "text not causal" else mask)
        x = x.transpose(0, 1)
        if self.fault == "last token":
            x = x[:, -1]
        elif self.fault == "first end":  # the end has no id of its own in the port's vocabulary: argmax finds nothing
            x = x[torch.arange(len(x)), (text == VOCAB).int().argmax(-1)]
        else:
            x = x[torch.arange(len(x)), text.argmax(-1)]
        return self.ln_final(x) @ self.text_projection

    def encode_image(self, image):
        x = self.conv1(image)
        x = x.transpose(2, 3).flatten(2) if self.fault == "patches by column" else x.flatten(2)
        x = x.permute(2, 0, 1)
        x = torch.cat((self.class_embedding.expand(x.shape[1], D)[None], x)) + self.visual_positions[:, None]
        if self.fault != "no norm before":
            x = self.ln_pre(x)
        for block in self.visual:
            x = block(x)
        if self.fault == "pooled by mean":
            return self.ln_post(x.mean(0)) @ self.proj
        return self.ln_post(x[0]) @ self.proj

    def forward(self, text, image):
        text, image = self.encode_text(text), self.encode_image(image)
        if self.fault != "text not normalised":
            text = F.normalize(text, dim=-1)
        scale = self.temperature if self.fault == "temperature as it is" else self.temperature.exp()
        return F.normalize(image, dim=-1) @ text.T * scale


def inputs(n=3, t=8):
    """Texts whose end is the largest id, with zeros behind it; images."""
    ids = torch.randint(1, VOCAB - 1, (n, t))
    ends = torch.tensor([t - 1, 4, 5])[:, None]
    ids = torch.where(torch.arange(t)[None] < ends, ids, torch.where(torch.arange(t)[None] == ends, VOCAB - 1, 0))
    return ids, torch.randn(n, 3, SIDE, SIDE)
