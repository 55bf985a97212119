"""ViT with layer scale as timm writes it, and a port to channels last without any submodule but its layers."""

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, PATCH, SIDE, CLASSES = 32, 4, 4, 16, 7


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(3, D, PATCH, PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, D))


class LayerScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.empty(D))

    def forward(self, x):
        return x * self.gamma


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(D, 3 * D), nn.GELU(), nn.Linear(3 * D, D)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attn, self.ls1 = nn.LayerNorm(D, eps=1e-6), Attention(), LayerScale()
        self.norm2, self.mlp, self.ls2 = nn.LayerNorm(D, eps=1e-6), Mlp(), LayerScale()

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed, self.blocks = PatchEmbed(), nn.Sequential(*(Block() for _ in range(2)))
        self.cls_token, self.pos_embed = nn.Parameter(torch.empty(1, 1, D)), nn.Parameter(torch.empty(1, 17, D))
        self.norm, self.head = nn.LayerNorm(D, eps=1e-6), nn.Linear(D, CLASSES)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def array(x):
    return nn.Parameter(x.detach().clone())


class Layer(nn.Module):
    """All of a block in one forward; names as in Flax."""

    def __init__(self, a, fault):
        super().__init__()
        w, b = a.attn.qkv.weight.T.reshape(D, 3, HEADS, -1), a.attn.qkv.bias.view(3, HEADS, -1)
        if fault == "read as heads first":
            w, b = a.attn.qkv.weight.T.reshape(D, HEADS, 3, -1).transpose(1, 2), a.attn.qkv.bias.view(HEADS, 3, -1).transpose(0, 1)
        self.qkv_kernel, self.qkv_bias = array(w), array(b)
        out = a.attn.proj.weight if fault == "not transposed" else a.attn.proj.weight.T
        self.out_kernel, self.out_bias = array(out.reshape(HEADS, -1, D)), array(a.attn.proj.bias)
        self.kernel_0, self.bias_0 = array(a.mlp.fc1.weight.T), array(a.mlp.fc1.bias)
        self.kernel_1, self.bias_1 = array(a.mlp.fc2.weight.T), array(a.mlp.fc2.bias)
        for i, x in enumerate((a.norm1, a.norm2)):
            setattr(self, f"scale_{i}", array(x.weight))
            setattr(self, f"shift_{i}", array(x.bias))
        self.gamma_0, self.gamma_1, self.fault = array(a.ls1.gamma), array(a.ls2.gamma), fault

    def normed(self, x, weight, bias):
        if self.fault == "rms":
            return F.rms_norm(x, (D,), weight, 1e-6) + bias
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=1 if self.fault == "unbiased variance" else 0)
        return (x - mean) * torch.rsqrt(var + (1e-5 if self.fault == "epsilon" else 1e-6)) * weight + bias

    def forward(self, x):
        y = self.normed(x, self.scale_0, self.shift_0)
        q, k, v = torch.einsum("ntd,dshw->snthw", y, self.qkv_kernel) + self.qkv_bias[:, None, None]
        root = (D // HEADS) ** 0.5
        scores = torch.einsum("nqhw,nkhw->nhqk", q, k) / (root**2 if self.fault == "scaled twice" else root)
        y = torch.einsum("nhqk,nkhw->nqhw", scores.softmax(-1), v)
        if self.fault == "heads inside":  # [n, t, w, h] flattened
            y = y.transpose(2, 3).reshape(*y.shape[:2], HEADS, -1)
        y = torch.einsum("nqhw,hwd->nqd", y, self.out_kernel) + self.out_bias
        x = x + (y if self.fault == "no layer scale" else y * self.gamma_0)
        y = self.normed(x, self.scale_1, self.shift_1) @ self.kernel_0 + self.bias_0
        y = F.gelu(y, approximate="tanh" if self.fault == "gelu by tanh" else "none") @ self.kernel_1
        if self.fault != "no bias":
            y = y + self.bias_1
        y = y if self.fault == "no layer scale" else y * self.gamma_1
        return x * 0.5 + y if self.fault == "residual halved" else x + y


class Port(nn.Module):
    """B. It gets the image with channels first, as A does, and turns it."""

    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        kernel = a.patch_embed.proj.weight  # [out, channel, row, column]
        if fault != "channels first in the kernel":
            kernel = kernel.permute(0, 2, 3, 1)
        self.embedding_kernel, self.embedding_bias = array(kernel.reshape(D, -1).T), array(a.patch_embed.proj.bias)
        self.cls, self.posembed = array(a.cls_token), array(a.pos_embed)
        self.encoderblock = nn.ModuleList(Layer(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.blocks))
        self.encoder_norm = nn.LayerNorm(D, eps=1e-6)
        self.encoder_norm.load_state_dict(a.norm.state_dict())
        self.head_kernel, self.head_bias, self.fault = array(a.head.weight.T), array(a.head.bias), fault

    def forward(self, image):
        x, s = image.permute(0, 2, 3, 1), SIDE // PATCH
        if self.fault == "normalised again":
            x = (x - 0.5) / 0.5
        x = x.reshape(len(x), s, PATCH, s, PATCH, 3)
        x = x.permute(0, 3, 1, 2, 4, 5) if self.fault == "columns first" else x.permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(len(x), s * s, -1) @ self.embedding_kernel + self.embedding_bias
        if self.fault == "positions from the class token":
            x = torch.cat((self.cls.expand(len(x), -1, -1), x + self.posembed[:, :-1]), 1)
        else:
            x = torch.cat((self.cls.expand(len(x), -1, -1), x), 1) + self.posembed
        for block in self.encoderblock:
            x = block(x)
        if self.fault == "norm after pooling of patches":
            x = self.encoder_norm(x[:, 1:].mean(1))
        elif self.fault == "mean of all tokens":
            x = self.encoder_norm(x).mean(1)
        else:
            x = self.encoder_norm(x)[:, 0]
        return x @ self.head_kernel + self.head_bias


def images(n=2):
    return (torch.randn(n, 3, SIDE, SIDE),)
