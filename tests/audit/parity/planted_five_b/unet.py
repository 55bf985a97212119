"""A diffusion U-Net as diffusers builds it: group norms, a time embedding, attention to a text in the middle.

The port keeps the channels last and its kernels as [height, width, in, out], as MLX and Flax do.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from .port import Port, copied

C, TIME, TEXT, GROUPS, HEADS = 16, 24, 12, 4, 2


class Resnet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.conv1, self.time_emb_proj = (
            nn.GroupNorm(GROUPS, width, 1e-5),
            nn.Conv2d(width, C, 3, padding=1),
            nn.Linear(TIME, C),
        )
        self.norm2, self.conv2, self.nonlinearity = nn.GroupNorm(GROUPS, C, 1e-5), nn.Conv2d(C, C, 3, padding=1), nn.SiLU()
        self.conv_shortcut = nn.Conv2d(width, C, 1) if width != C else None

    def forward(self, x, temb):
        y = self.conv1(self.nonlinearity(self.norm1(x)))
        y = y + self.time_emb_proj(self.nonlinearity(temb))[:, :, None, None]
        y = self.conv2(self.nonlinearity(self.norm2(y)))
        return (x if self.conv_shortcut is None else self.conv_shortcut(x)) + y


class Attention(nn.Module):
    def __init__(self, source=C):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (
            nn.Linear(C, C, bias=False),
            nn.Linear(source, C, bias=False),
            nn.Linear(source, C, bias=False),
        )
        self.to_out = nn.ModuleList([nn.Linear(C, C), nn.Dropout(0.1)])

    def forward(self, x, context=None):
        context = x if context is None else context
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (self.to_q(x), self.to_k(context), self.to_v(context)))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.to_out[1](self.to_out[0](y.transpose(1, 2).flatten(2)))


class GEGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(C, 64)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, -1)
        return x * F.gelu(gate)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.proj_in, self.proj_out = nn.GroupNorm(GROUPS, C, 1e-6), nn.Conv2d(C, C, 1), nn.Conv2d(C, C, 1)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(C) for _ in range(3))
        self.attn1, self.attn2, self.ff = Attention(), Attention(TEXT), nn.ModuleList([GEGLU(), nn.Dropout(0.1), nn.Linear(32, C)])

    def forward(self, image, text):
        x = self.proj_in(self.norm(image)).flatten(2).mT
        x = self.attn1(self.norm1(x)) + x
        x = self.attn2(self.norm2(x), text) + x
        y = self.norm3(x)
        for part in self.ff:
            y = part(y)
        return self.proj_out((y + x).mT.unflatten(-1, image.shape[2:])) + image


class Downsample(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(C, C, 3, stride=2)

    def forward(self, x):
        return self.conv(F.pad(x, (0, 1, 0, 1)))


class Upsample(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(C, C, 3, padding=1)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))


class TimeEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear_1, self.act, self.linear_2 = nn.Linear(C, TIME), nn.SiLU(), nn.Linear(TIME, TIME)

    def forward(self, x):
        return self.linear_2(self.act(self.linear_1(x)))


class Timesteps(nn.Module):
    def forward(self, t):
        angle = t[:, None] * torch.exp(-math.log(10000) * torch.arange(C // 2, dtype=t.dtype) / (C // 2))[None]
        angle = torch.cat([angle.sin(), angle.cos()], -1)
        return torch.cat([angle[:, C // 2 :], angle[:, : C // 2]], -1)


class UNet(nn.Module):
    """Noisy images [B, 4, 6, 6], times [B] and a text [B, 5, 12]."""

    def __init__(self):
        super().__init__()
        self.time_proj, self.time_embedding, self.conv_in = Timesteps(), TimeEmbedding(), nn.Conv2d(4, C, 3, padding=1)
        self.down_blocks = nn.ModuleList([Resnet(C), Downsample()])
        self.mid_block = nn.ModuleList([Resnet(C), Transformer(), Resnet(C)])
        self.up_blocks = nn.ModuleList([Resnet(2 * C), Upsample(), Resnet(2 * C), Resnet(2 * C)])
        self.conv_norm_out, self.conv_act, self.conv_out = nn.GroupNorm(GROUPS, C, 1e-5), nn.SiLU(), nn.Conv2d(C, 4, 3, padding=1)

    def forward(self, sample, t, text):
        temb = self.time_embedding(self.time_proj(t))
        skips = [self.conv_in(sample)]
        skips.append(self.down_blocks[0](skips[-1], temb))
        skips.append(self.down_blocks[1](skips[-1]))
        x = self.mid_block[2](self.mid_block[1](self.mid_block[0](skips[-1], temb), text), temb)
        for block in self.up_blocks:
            x = block(x) if isinstance(block, Upsample) else block(torch.cat([x, skips.pop()], 1), temb)
        return self.conv_out(self.conv_act(self.conv_norm_out(x)))


class Conv(Port):
    """A convolution of [B, H, W, C] with a kernel [height, width, in, out]."""

    def __init__(self, a, bias=True, flipped=False):
        super().__init__()
        self.kernel, self.bias = (
            copied((a.weight.mT if flipped else a.weight).permute(2, 3, 1, 0)),
            copied(a.bias) if bias else None,
        )

    def forward(self, x, stride=1, pad=None):
        k = len(self.kernel)
        low, high = (k // 2, k // 2) if pad is None else pad
        x = F.pad(x, (0, 0, low, high, low, high))
        h, w = ((n - k) // stride + 1 for n in x.shape[1:3])
        cut = [x[:, i : i + stride * h : stride, j : j + stride * w : stride] for i in range(k) for j in range(k)]
        y = torch.cat(cut, -1) @ self.kernel.flatten(0, 2)
        return y if self.bias is None else y + self.bias


class Group(Port):
    def __init__(self, a, eps, groups=GROUPS):
        super().__init__()
        self.scale, self.bias, self.eps, self.groups = copied(a.weight), copied(a.bias), eps, groups

    def forward(self, x):
        y = x.flatten(1, -2).unflatten(-1, (self.groups, -1))
        mean, square = y.mean((1, 3), keepdim=True), (y * y).mean((1, 3), keepdim=True)
        y = (y - mean) * torch.rsqrt(square - mean * mean + self.eps)
        return y.reshape(x.shape) * self.scale + self.bias


class Residual(Port):
    """i: the number of this block."""

    def __init__(self, a, fault, layer, i):
        super().__init__(fault, layer)
        self.i = i
        self.n1, self.c1 = Group(a.norm1, 1e-5), Conv(a.conv1)
        self.n2, self.c2 = Group(a.norm2, 1e-5), Conv(a.conv2, not self.has("no bias of the second convolution", i))
        self.time = nn.Linear(TIME, C)
        self.time.load_state_dict(a.time_emb_proj.state_dict())
        self.skip = None if a.conv_shortcut is None else Conv(a.conv_shortcut)

    def forward(self, x, t):
        y = self.c1(F.silu(self.n1(x)))
        y = y + self.time(t if self.has("time without silu", self.i) else F.silu(t))[:, None, None]
        if self.has("norm before the time", self.i):
            y = self.n2(y - self.time(F.silu(t))[:, None, None]) + self.time(F.silu(t))[:, None, None]
        else:
            y = self.n2(y)
        y = self.c2(y * torch.sigmoid((1.702 if self.has("sigmoid of 1.702", self.i) else 1.0) * y))
        y = (x if self.skip is None else self.skip(x)) + y
        return y / math.sqrt(2) if self.has("divided by the root of two", self.i) else y


class Mixer(Port):
    """Self-attention, attention to a text and a gated MLP on [B, H, W, C]."""

    def __init__(self, a, fault):
        super().__init__(fault)
        self.norm = Group(a.norm, 1e-5 if self.has("epsilon of the attention") else 1e-6, 2 if self.has("two groups") else GROUPS)
        self.inward, self.outward = Conv(a.proj_in), Conv(a.proj_out)
        self.ln = nn.ModuleList(nn.LayerNorm(C) for _ in range(3))
        for ours, theirs in zip(self.ln, (a.norm1, a.norm2, a.norm3), strict=True):
            ours.load_state_dict(theirs.state_dict())
        kv = (a.attn2.to_v, a.attn2.to_k) if self.has("values and keys of the text") else (a.attn2.to_k, a.attn2.to_v)
        self.qkv = copied(torch.cat([m.weight for m in (a.attn1.to_q, a.attn1.to_k, a.attn1.to_v)]).T)
        self.query, self.kv = copied(a.attn2.to_q.weight.T), copied(torch.cat([m.weight for m in kv]).T)
        self.out1, self.out1_bias = copied(a.attn1.to_out[0].weight.T), copied(a.attn1.to_out[0].bias)
        self.out2, self.out2_bias = copied(a.attn2.to_out[0].weight.T), copied(a.attn2.to_out[0].bias)
        if self.has("output not transposed"):
            self.out2 = copied(a.attn2.to_out[0].weight)
        value, gate = a.ff[0].proj.weight.chunk(2)
        value_bias, gate_bias = a.ff[0].proj.bias.chunk(2)
        self.up, self.gate = nn.Linear(C, 32), nn.Linear(C, 32)
        self.up.weight, self.up.bias, self.gate.weight, self.gate.bias = map(copied, (value, value_bias, gate, gate_bias))
        self.down = nn.Linear(32, C)
        self.down.load_state_dict(a.ff[2].state_dict())
        self.dropout = nn.Dropout(0.1)

    def attend(self, q, k, v):
        heads = 4 if self.has("four heads") else HEADS
        q, k, v = (t.unflatten(-1, (heads, -1)) for t in (q, k, v))
        scale = 1.0 if self.has("scores not scaled") else q.shape[-1] ** -0.5
        weights = torch.einsum("bnhd,bmhd->bhnm", q, k) * scale
        weights = (weights - weights.amax(-1, keepdim=True)).exp()
        return torch.einsum("bhnm,bmhd->bnhd", weights / weights.sum(-1, keepdim=True), v).flatten(2)

    def forward(self, image, text):
        x = self.inward(self.norm(image)).flatten(1, 2)
        x = x + (self.attend(*(self.ln[0](x) @ self.qkv).chunk(3, -1)) @ self.out1 + self.out1_bias)
        y = x if self.has("text read without norm") else self.ln[1](x)
        x = x + (self.attend(y @ self.query, *(text @ self.kv).chunk(2, -1)) @ self.out2 + self.out2_bias)
        y = self.ln[2](x)
        up, gate = self.up(y), self.gate(y)
        up, gate = (gate, up) if self.has("gate of the first half") else (up, gate)
        x = x + self.down(self.dropout(up * F.gelu(gate, approximate="tanh" if self.has("gelu by tanh") else "none")))
        y = self.outward(x.reshape(image.shape))
        return y if self.has("no residual around the attention") else image + y


class Ported(Port):
    def __init__(self, a, fault="", layer=-1):
        super().__init__(fault, layer)
        self.t1, self.t2 = nn.Linear(C, TIME), nn.Linear(TIME, TIME)
        self.t1.load_state_dict(a.time_embedding.linear_1.state_dict())
        self.t2.load_state_dict(a.time_embedding.linear_2.state_dict())
        self.first, self.down = Conv(a.conv_in, flipped=self.has("kernel transposed")), Conv(a.down_blocks[1].conv)
        found = [a.down_blocks[0], a.mid_block[0], a.mid_block[2], a.up_blocks[0], a.up_blocks[2], a.up_blocks[3]]
        if self.has("last block twice"):
            found[4] = a.up_blocks[3]
        self.blocks = nn.ModuleList(Residual(m, fault, layer, i) for i, m in enumerate(found))
        self.middle, self.up = Mixer(a.mid_block[1], fault), Conv(a.up_blocks[1].conv)
        self.norm, self.last = Group(a.conv_norm_out, 1e-5), Conv(a.conv_out)

    def time(self, t):
        half = C // 2
        rate = 10000.0 ** (-torch.arange(half, dtype=t.dtype) / (half - 1 if self.has("one frequency less") else half))
        angle = torch.outer(t, rate)
        both = (angle.sin(), angle.cos()) if self.has("sines first") else (angle.cos(), angle.sin())
        return self.t2(F.silu(self.t1(torch.cat(both, -1))))

    def forward(self, sample, t, text):
        t = self.time(t)
        x0 = self.first(sample.permute(0, 2, 3, 1))
        x1 = self.blocks[0](x0, t)
        x2 = self.down(x1, stride=2, pad=(1, 0) if self.has("padding at the start") else (0, 1))
        x = self.blocks[2](self.middle(self.blocks[1](x2, t), text), t)
        x = self.blocks[3](torch.cat((x2, x) if self.has("skip in front") else (x, x2), -1), t)
        if self.has("bilinear"):
            x = F.interpolate(x.permute(0, 3, 1, 2), scale_factor=2, mode="bilinear").permute(0, 2, 3, 1)
        else:
            x = x.repeat_interleave(2, 1).repeat_interleave(2, 2)
        x = self.up(x)
        first, second = (x0, x1) if self.has("skips as a queue") else (x1, x0)
        x = self.blocks[5](torch.cat((self.blocks[4](torch.cat((x, first), -1), t), second), -1), t)
        return self.last(F.silu(self.norm(x))).permute(0, 3, 1, 2)


def noisy():
    return torch.randn(2, 4, 6, 6), torch.tensor([37.0, 411.0]), torch.randn(2, 5, TEXT)
