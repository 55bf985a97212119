"""An image classifier with shifted windows and a relative bias, as timm writes Swin, and a port.

The port gathers the tokens of each window by one index instead of rolling the image, compares the regions of the image instead of
painting a mask, and embeds patches by a linear layer.
Source: Liu et al. 2021, "Swin Transformer".
"""

import torch
from torch import nn
from torch.nn import functional as F

from .copies import kept, layer_norm, linear

PIXELS, PATCH, WINDOW, D, CLASSES = 16, 2, 4, 16, 7


def inputs():
    torch.manual_seed(7)
    return (torch.randn(2, 3, PIXELS, PIXELS),)


def window_partition(x):
    b, h, w, c = x.shape
    x = x.view(b, h // WINDOW, WINDOW, w // WINDOW, WINDOW, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW, WINDOW, c)


class WindowAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * WINDOW - 1) ** 2, heads))
        at = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + WINDOW - 1
        self.relative_position_index = nn.Buffer(apart[..., 0] * (2 * WINDOW - 1) + apart[..., 1])
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(n, n, -1)
        attn = attn + bias.permute(2, 0, 1).unsqueeze(0)
        if mask is not None:
            windows = mask.shape[0]
            attn = (attn.view(b // windows, windows, self.heads, n, n) + mask[None, :, None].to(attn.dtype)).view(
                -1, self.heads, n, n
            )
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class SwinTransformerBlock(nn.Module):
    def __init__(self, dim, heads, size, shift):
        super().__init__()
        self.shift = shift
        self.norm1, self.attn, self.norm2, self.mlp = nn.LayerNorm(dim), WindowAttention(dim, heads), nn.LayerNorm(dim), Mlp(dim)
        image = torch.zeros(1, size, size, 1)
        parts = slice(0, -WINDOW), slice(-WINDOW, -shift), slice(-shift, None)
        for i, rows in enumerate(parts):
            for j, columns in enumerate(parts):
                image[:, rows, columns] = 3 * i + j
        of = window_partition(image).view(-1, WINDOW * WINDOW)
        self.attn_mask = nn.Buffer((of[:, None] - of[:, :, None]).ne(0) * -100.0) if shift else None

    def _attn(self, x):
        b, h, w, c = x.shape
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2)) if self.shift else x
        x = self.attn(window_partition(x).view(-1, WINDOW * WINDOW, c), self.attn_mask)
        x = x.view(b, h // WINDOW, w // WINDOW, WINDOW, WINDOW, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x

    def forward(self, x):
        x = x + self._attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * dim), nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        b, h, w, c = x.shape
        x = x.reshape(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 4, 2, 5).flatten(3)
        return self.reduction(self.norm(x))


class SwinTransformerStage(nn.Module):
    def __init__(self, dim, heads, size, shifts, merged):
        super().__init__()
        self.downsample = PatchMerging(dim // 2) if merged else nn.Identity()
        self.blocks = nn.Sequential(*(SwinTransformerBlock(dim, heads, size, s) for s in shifts))

    def forward(self, x):
        return self.blocks(self.downsample(x))


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj, self.norm = nn.Conv2d(3, D, PATCH, PATCH), nn.LayerNorm(D)

    def forward(self, x):
        return self.norm(self.proj(x).permute(0, 2, 3, 1))


class SwinTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = PatchEmbed()
        size = PIXELS // PATCH
        self.layers = nn.Sequential(
            SwinTransformerStage(D, 2, size, (0, WINDOW // 2), False), SwinTransformerStage(2 * D, 2, size // 2, (0,), True)
        )
        self.norm, self.head = nn.LayerNorm(2 * D), nn.Linear(2 * D, CLASSES)

    def forward(self, x):
        return self.head(self.norm(self.layers(self.patch_embed(x))).mean((1, 2)))


class Windows(nn.Module):
    """A block. The tokens are a list; order[i] is the token that comes to place i of the windows."""

    def __init__(self, block, size, width, fault):
        super().__init__()
        self.fault, self.heads, self.width, shift = fault, block.attn.heads, width, block.shift
        shift = 1 if fault == "shifted by one" and shift else shift
        at = (torch.arange(size) + shift) % size
        grid = at[:, None] * size + at[None]
        per = size // WINDOW
        self.order = nn.Buffer(grid.view(per, WINDOW, per, WINDOW).transpose(1, 2).reshape(-1))
        self.back = nn.Buffer(self.order.argsort())
        if fault == "not shifted back":
            self.back = nn.Buffer(self.back.view(size, size).roll((-shift, -shift), (0, 1)).reshape(-1))
        # tokens of a window that come from two sides of the image do not see each other
        side = ((torch.arange(size) + shift) // size).view(per, WINDOW)
        same = side[:, :, None] == side[:, None]
        both = same[:, None, :, None, :, None] & same[None, :, None, :, None, :]
        self.seen = nn.Buffer(both.reshape(per * per, 1, WINDOW * WINDOW, WINDOW * WINDOW))
        if fault == "sides seen":
            self.seen.fill_(True)
        i, j = torch.arange(WINDOW * WINDOW) // WINDOW, torch.arange(WINDOW * WINDOW) % WINDOW
        rows, columns = (x[:, None] - x[None] + WINDOW - 1 for x in (i, j))
        rows, columns = (columns, rows) if fault == "columns first" else (rows, columns)
        index = rows * (2 * WINDOW - 1) + columns
        index = index.T if fault == "from the key" else index
        self.bias = kept(block.attn.relative_position_bias_table[index].permute(2, 0, 1))
        w, b = block.attn.qkv.weight, block.attn.qkv.bias
        if fault == "no bias of keys":  # which moves all scores of a query alike
            b = torch.cat([b[: len(b) // 3], torch.zeros(len(b) // 3), b[2 * len(b) // 3 :]])
        self.qkv, self.proj = linear(w, b), linear(block.attn.proj.weight, block.attn.proj.bias)
        self.ln1, self.ln2 = layer_norm(block.norm1), layer_norm(block.norm2)
        self.up, self.down = linear(block.mlp.fc1.weight, block.mlp.fc1.bias), linear(block.mlp.fc2.weight, block.mlp.fc2.bias)

    def attention(self, x):
        b, n, c = x.shape
        x = self.qkv(x)[:, self.order].view(b, n // WINDOW**2, WINDOW**2, -1)
        if self.fault == "heads before parts":
            q, k, v = x.unflatten(-1, (self.heads, 3, -1)).permute(4, 0, 1, 3, 2, 5)
        else:
            q, k, v = x.unflatten(-1, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        scores = q @ k.transpose(-1, -2) * self.width**-0.5
        scores = scores if self.fault == "no relative bias" else scores + self.bias
        x = scores.masked_fill(~self.seen, -torch.inf).softmax(-1) @ v
        return self.proj(x.transpose(2, 3).reshape(b, n, c)[:, self.back])

    def forward(self, x):
        y = self.attention(self.ln1(x))
        x = y if self.fault == "no residual" else x + y
        h = self.up(self.ln2(x))
        return x + self.down(h * (1.702 * h).sigmoid() if self.fault == "quick gelu" else F.gelu(h))


class Merge(nn.Module):
    def __init__(self, merging, fault):
        super().__init__()
        self.fault = fault
        self.ln, self.reduce = layer_norm(merging.norm), linear(merging.reduction.weight)

    def forward(self, x):
        b, n, c = x.shape
        x = x.view(b, int(n**0.5), int(n**0.5), c)
        places = [(0, 0), (0, 1), (1, 0), (1, 1)] if self.fault == "rows first" else [(0, 0), (1, 0), (0, 1), (1, 1)]
        x = torch.cat([x[:, i::2, j::2] for i, j in places], -1).flatten(1, 2)
        return self.reduce(self.ln(x))


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.fault = fault
        conv = a.patch_embed.proj
        self.embed, self.ln_embed = linear(conv.weight.flatten(1), conv.bias), layer_norm(a.patch_embed.norm)
        blocks, size = [*a.layers[0].blocks, *a.layers[1].blocks], PIXELS // PATCH
        here = [fault if layer in (-1, i) else "" for i in range(3)]
        widths = (8, 8, 8 if fault == "scale of the first stage" else 16)
        self.blocks = nn.ModuleList(
            Windows(x, size // (1 + (i == 2)), w, f) for i, (x, w, f) in enumerate(zip(blocks, widths, here, strict=True))
        )
        self.merge = Merge(a.layers[1].downsample, fault)
        self.ln_end, self.classes = layer_norm(a.norm), linear(a.head.weight, a.head.bias)

    def forward(self, x):
        x = x.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
        x = self.embed(x)
        x = x if self.fault == "no norm of the patches" else self.ln_embed(x)
        x = self.blocks[2](self.merge(self.blocks[1](self.blocks[0](x))))
        if self.fault == "norm behind the mean":
            return self.classes(self.ln_end(x.mean(1)))
        return self.classes(self.ln_end(x).mean(1))
