"""A detector as DETR with the mask head of SAM: learned queries read an image that has positions in two dimensions.

The port keeps the sequence first and the projections packed, as torch.nn.MultiheadAttention does, and cuts the patches itself.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .port import Port, copied

D, HEADS, QUERIES, PATCH, GRID = 16, 2, 5, 4, (3, 4)


class SinePositions(nn.Module):
    def forward(self, mask, dtype):
        y, x = (mask.to(dtype).cumsum(axis) for axis in (1, 2))
        y = y / (y[:, -1:] + 1e-6) * 2 * math.pi
        x = x / (x[:, :, -1:] + 1e-6) * 2 * math.pi
        i = torch.arange(D // 2, dtype=dtype)
        scale = 10000 ** (2 * torch.div(i, 2, rounding_mode="floor") / (D // 2))
        parts = []
        for at in (y, x):
            angle = at[..., None] / scale
            parts.append(torch.stack((angle[..., 0::2].sin(), angle[..., 1::2].cos()), -1).flatten(3))
        return torch.cat(parts, 3).flatten(1, 2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, keys=None, positions=None, key_positions=None, hidden=None):
        keys, key_positions = (x, positions) if keys is None else (keys, key_positions)
        q, k, v = self.q_proj(x + positions), self.k_proj(keys + key_positions), self.v_proj(keys)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (q * (D // HEADS) ** -0.5, k, v))
        scores = q @ k.mT
        if hidden is not None:
            scores = scores + torch.zeros_like(scores).masked_fill(hidden[:, None, None], float("-inf"))
        return self.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = Attention(), nn.LayerNorm(D)
        self.activation_fn, self.fc1, self.fc2, self.final_layer_norm = (
            nn.ReLU(),
            nn.Linear(D, 32),
            nn.Linear(32, D),
            nn.LayerNorm(D),
        )

    def forward(self, x, positions, hidden):
        x = self.self_attn_layer_norm(x + self.self_attn(x, positions=positions, hidden=hidden))
        return self.final_layer_norm(x + self.fc2(self.activation_fn(self.fc1(x))))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = Attention(), nn.LayerNorm(D)
        self.encoder_attn, self.encoder_attn_layer_norm = Attention(), nn.LayerNorm(D)
        self.activation_fn, self.fc1, self.fc2, self.final_layer_norm = (
            nn.ReLU(),
            nn.Linear(D, 32),
            nn.Linear(32, D),
            nn.LayerNorm(D),
        )

    def forward(self, x, memory, positions, queries, hidden):
        x = self.self_attn_layer_norm(x + self.self_attn(x, positions=queries))
        x = self.encoder_attn_layer_norm(x + self.encoder_attn(x, memory, queries, positions, hidden))
        return self.final_layer_norm(x + self.fc2(self.activation_fn(self.fc1(x))))


class LayerNorm2d(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        return self.weight[:, None, None] * ((x - mean) / torch.sqrt(variance + 1e-6)) + self.bias[:, None, None]


class MaskHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.upscale, self.norm, self.act = nn.ConvTranspose2d(D, 8, 2, stride=2), LayerNorm2d(8), nn.GELU()
        self.hyper = nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Linear(D, 8))

    def forward(self, queries, image):
        pixels = self.act(self.norm(self.upscale(image)))
        masks = (self.hyper(queries) @ pixels.flatten(2)).unflatten(-1, pixels.shape[2:])
        return F.interpolate(masks, scale_factor=2, mode="bilinear", align_corners=False)


class Detector(nn.Module):
    """Images [B, 3, 12, 16] and a mask of their patches [B, 3, 4]. Returns classes, boxes and masks of each query."""

    def __init__(self):
        super().__init__()
        self.backbone, self.input_projection = nn.Conv2d(3, 24, PATCH, stride=PATCH), nn.Conv2d(24, D, 1)
        self.position_embedding, self.query_position_embeddings = SinePositions(), nn.Embedding(QUERIES, D)
        self.encoder, self.encoder_norm = nn.ModuleList(EncoderLayer() for _ in range(2)), nn.Identity()
        self.decoder, self.decoder_layernorm = nn.ModuleList(DecoderLayer() for _ in range(2)), nn.LayerNorm(D)
        self.class_labels_classifier, self.mask_head = nn.Linear(D, 4), MaskHead()
        self.bbox_predictor = nn.ModuleList([nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 4)])

    def forward(self, images, mask):
        grid = self.input_projection(self.backbone(images).relu())
        positions, hidden = self.position_embedding(mask, grid.dtype), mask.flatten(1) == 0
        memory = grid.flatten(2).mT
        for layer in self.encoder:
            memory = layer(memory, positions, hidden)
        queries = self.query_position_embeddings.weight[None].expand(len(images), -1, -1)
        x = torch.zeros_like(queries)
        for layer in self.decoder:
            x = layer(x, memory, positions, queries, hidden)
        x = self.decoder_layernorm(x)
        boxes = x
        for i, linear in enumerate(self.bbox_predictor):
            boxes = linear(boxes).relu() if i < 2 else linear(boxes)
        return self.class_labels_classifier(x), boxes.sigmoid(), self.mask_head(x, memory.mT.unflatten(-1, GRID))


class MHA(Port):
    def __init__(self, a, fault, at):
        super().__init__(fault, at)
        parts = [a.q_proj, a.k_proj, a.v_proj]
        if fault == "values and keys packed":
            parts = [a.q_proj, a.v_proj, a.k_proj]
        self.in_proj_weight, self.in_proj_bias = (copied(torch.cat([getattr(p, n) for p in parts])) for n in ("weight", "bias"))
        self.out_proj = nn.Linear(D, D)
        self.out_proj.load_state_dict(a.out_proj.state_dict())
        if fault == "output not transposed":
            self.out_proj.weight = copied(a.out_proj.weight.T)

    def forward(self, query, key, value, hidden=None):
        (wq, wk, wv), (bq, bk, bv) = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        n, batch = query.shape[:2]
        heads = batch * HEADS
        q = F.linear(query, wq, bq).reshape(n, heads, -1).transpose(0, 1)
        k, v = (F.linear(t, w, b).reshape(len(t), heads, -1).transpose(0, 1) for t, w, b in ((key, wk, bk), (value, wv, bv)))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(D if self.has("width of the model") else D // HEADS)
        if hidden is not None and not self.has("padding seen"):
            scores = scores.masked_fill(hidden.repeat_interleave(HEADS, 0)[:, None], -1e9)
        weights = scores.softmax(1 if self.has("softmax over the queries") else 2)
        return self.out_proj(torch.bmm(weights, v).transpose(0, 1).reshape(n, batch, D))


def norm(a, eps=1e-5):
    copy = nn.LayerNorm(D, eps)
    copy.load_state_dict(a.state_dict())
    return copy


class Block(Port):
    """A layer of the encoder, or of the decoder, where a has encoder_attn."""

    def __init__(self, a, fault, at, own):
        super().__init__(fault, at)
        self.self_attn, self.norm1 = MHA(a.self_attn, fault if own == "self" else "", at), norm(a.self_attn_layer_norm)
        if hasattr(a, "encoder_attn"):
            self.cross_attn, self.norm2 = MHA(a.encoder_attn, fault if own == "cross" else "", at), norm(a.encoder_attn_layer_norm)
        self.linear1, self.linear2 = (nn.Linear(m.in_features, m.out_features) for m in (a.fc1, a.fc2))
        self.linear1.load_state_dict(a.fc1.state_dict())
        self.linear2.load_state_dict(a.fc2.state_dict())
        self.last_norm = norm(a.final_layer_norm, 1e-6 if fault == "epsilon" else 1e-5)

    def forward(self, x, positions, hidden=None, memory=None, grid_positions=None):
        q = x + positions
        value = q if self.has("values with positions") else x
        y = self.self_attn(q, q, value, None if memory is not None else hidden)
        x = x + self.norm1(y) if self.has("norm before the residual") else self.norm1(x + y)
        if memory is not None:
            q = x if self.has("cross-attention without query positions") else x + positions
            x = self.norm2(x + self.cross_attn(q, memory + grid_positions, memory, hidden))
        y = self.linear2(self.linear1(x).clamp(min=0))
        return self.last_norm(y if self.has("no residual") else x + y)


class Ported(Port):
    """fault: also "decoder: ..." or "cross: ..." for one in the decoder's layers or in their cross-attention."""

    def __init__(self, a, fault="", layer=-1):
        super().__init__(fault, layer)
        where, _, what = fault.rpartition(": ")
        self.stem, self.stem_bias = copied(a.backbone.weight.permute(2, 3, 1, 0).flatten(0, 2)), copied(a.backbone.bias)
        self.project = nn.Linear(24, D)
        self.project.weight, self.project.bias = copied(a.input_projection.weight[..., 0, 0]), copied(a.input_projection.bias)
        if fault == "no bias of the projection":
            self.project.bias = None
        self.queries = copied(a.query_position_embeddings.weight)

        def blocks(layers, side, own):
            return nn.ModuleList(
                Block(m, what if where == side and layer in (-1, i) else "", -1, own) for i, m in enumerate(layers)
            )

        self.encoder = blocks(a.encoder, "encoder", "self")
        self.decoder = blocks(a.decoder, "cross" if where == "cross" else "decoder", "cross" if where == "cross" else "self")
        self.last = norm(a.decoder_layernorm)
        self.class_embed = nn.Linear(D, 4)
        self.class_embed.load_state_dict(a.class_labels_classifier.state_dict())
        self.bbox_embed = nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Linear(D, D), nn.ReLU(), nn.Linear(D, 4))
        for i, linear in enumerate(a.bbox_predictor):
            self.bbox_embed[2 * i].load_state_dict(linear.state_dict())
        kernel = a.mask_head.upscale.weight  # [D, 8, 2, 2]
        kernel = kernel.mT if fault == "columns of the upscaling first" else kernel
        self.up, self.up_bias = copied(kernel.permute(2, 3, 1, 0).reshape(-1, D)), copied(a.mask_head.upscale.bias)
        self.gain, self.offset = copied(a.mask_head.norm.weight), copied(a.mask_head.norm.bias)
        self.hyper1, self.hyper2 = nn.Linear(D, D), nn.Linear(D, 8)
        self.hyper1.load_state_dict(a.mask_head.hyper[0].state_dict())
        self.hyper2.load_state_dict(a.mask_head.hyper[2].state_dict())

    def positions(self, mask, dtype):
        """[N, B, D]: rows in the first half."""
        m = mask.to(dtype)
        turn = 1.0 if self.has("coordinates from 0 to 1") else 2 * math.pi
        rate = torch.exp(torch.arange(0, D // 2, 2, dtype=dtype) * (-math.log(10000.0) / (D // 2)))
        halves = []
        for axis in (2, 1) if self.has("columns before rows") else (1, 2):
            at = torch.cumsum(m, axis)
            at = at - 0.5 if self.has("centres of the pixels") else at
            angle = (turn * at / (m.sum(axis, keepdim=True) + 1e-6))[..., None] * rate
            halves.append(torch.stack((angle.sin(), angle.cos()), -1).reshape(*at.shape, D // 2))
        return torch.cat(halves, -1).flatten(1, 2).transpose(0, 1)

    def forward(self, images, mask):
        (h, w), batch = GRID, len(images)
        cut = images.reshape(batch, 3, h, PATCH, w, PATCH).permute(2, 4, 0, 3, 5, 1).reshape(h * w, batch, -1)
        memory = self.project(F.relu(cut @ self.stem + self.stem_bias))
        hidden, at = mask.reshape(batch, -1) == 0, self.positions(mask, images.dtype)
        for block in self.encoder:
            memory = block(memory, at, hidden)
        queries = self.queries[:, None].expand(-1, batch, -1)
        x = queries if self.has("queries as the first input") else torch.zeros_like(queries)
        for block in self.decoder:
            x = block(x, queries, hidden, memory, at)
        x = (x if self.has("no last norm") else self.last(x)).transpose(0, 1)
        boxes = self.bbox_embed(x)
        if self.has("corners"):
            centre, size = boxes.sigmoid().chunk(2, -1)
            boxes = torch.cat((centre - size / 2, centre + size / 2), -1)
        elif not self.has("boxes without sigmoid"):
            boxes = torch.sigmoid(boxes)
        return self.class_embed(x), boxes, self.masks(x, memory)

    def masks(self, queries, memory):
        (h, w), batch = GRID, len(queries)
        y = F.linear(memory, self.up).view(h, w, batch, 2, 2, 8) + self.up_bias
        y = y.permute(2, 0, 3, 1, 4, 5).reshape(batch, 4 * h * w, 8)
        y = F.layer_norm(y, (8,), self.gain, self.offset, 1e-5 if self.has("epsilon of the pixels") else 1e-6)
        y = F.gelu(y, approximate="tanh" if self.has("gelu by tanh") else "none")
        act = F.gelu if self.has("gelu of the hypernetwork") else F.relu
        masks = torch.einsum("bqc,bnc->bqn", self.hyper2(act(self.hyper1(queries))), y).view(batch, -1, 2 * h, 2 * w)
        if self.has("corners aligned"):
            return F.interpolate(masks, size=(4 * h, 4 * w), mode="bilinear", align_corners=True)
        return F.interpolate(masks, size=(4 * h, 4 * w), mode="bilinear")


def images():
    """Two images, the second with two columns of padding."""
    mask = torch.ones(2, *GRID, dtype=torch.long)
    mask[1, :, 3:] = 0
    mask[1, 2:] = 0
    return torch.randn(2, 3, GRID[0] * PATCH, GRID[1] * PATCH), mask
