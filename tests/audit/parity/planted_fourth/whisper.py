"""Whisper as transformers writes it, and a port that keeps channels last and fuses nothing but the heads."""

import torch
from torch import nn
from torch.nn import functional as F

D, HEADS, MELS, VOCAB, LENGTH = 32, 4, 10, 43, 16


def sinusoids(length, interleaved=False):
    """The table of the encoder in float64: sines, then cosines, as Whisper has it, or interleaved as in Vaswani et al. 2017."""
    f = torch.exp(-torch.arange(D // 2, dtype=torch.float64) * torch.log(torch.tensor(10000.0, dtype=torch.float64)) / (D // 2 - 1))
    angles = torch.arange(length)[:, None] * f
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1) if interleaved else torch.cat((angles.sin(), angles.cos()), 1)


class WhisperAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.k_proj = nn.Linear(D, D, bias=False)
        self.v_proj, self.q_proj, self.out_proj = (nn.Linear(D, D) for _ in range(3))

    def heads(self, x):
        return x.view(len(x), -1, HEADS, D // HEADS).transpose(1, 2)

    def forward(self, x, memory=None, mask=None):
        memory = x if memory is None else memory
        q = self.heads(self.q_proj(x) * (D // HEADS) ** -0.5)
        scores = q @ self.heads(self.k_proj(memory)).transpose(2, 3)
        if mask is not None:
            scores = scores + mask
        y = scores.softmax(-1) @ self.heads(self.v_proj(memory))
        return self.out_proj(y.transpose(1, 2).reshape(x.shape))


class WhisperLayer(nn.Module):
    def __init__(self, decoder):
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = WhisperAttention(), nn.LayerNorm(D)
        if decoder:
            self.encoder_attn, self.encoder_attn_layer_norm = WhisperAttention(), nn.LayerNorm(D)
        self.fc1, self.fc2, self.final_layer_norm = nn.Linear(D, 3 * D), nn.Linear(3 * D, D), nn.LayerNorm(D)

    def forward(self, x, memory=None, mask=None):
        x = x + self.self_attn(self.self_attn_layer_norm(x), None, mask)
        if memory is not None:
            x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), memory)
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))


class WhisperEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(MELS, D, 3, padding=1), nn.Conv1d(D, D, 3, stride=2, padding=1)
        self.register_buffer("embed_positions", sinusoids(LENGTH))
        self.layers, self.layer_norm = nn.ModuleList(WhisperLayer(False) for _ in range(2)), nn.LayerNorm(D)

    def forward(self, mel):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = x + self.embed_positions[: x.shape[1]].to(x.dtype)
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)


class WhisperDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.embed_positions = nn.Embedding(VOCAB, D), nn.Embedding(LENGTH, D)
        self.layers, self.layer_norm = nn.ModuleList(WhisperLayer(True) for _ in range(2)), nn.LayerNorm(D)

    def forward(self, ids, memory):
        t = ids.shape[1]
        x = self.embed_tokens(ids) + self.embed_positions.weight[:t]
        mask = torch.full((t, t), float("-inf"), dtype=x.dtype).triu(1)
        for layer in self.layers:
            x = layer(x, memory, mask)
        return self.layer_norm(x)


class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = WhisperEncoder(), WhisperDecoder()
        self.proj_out = nn.Linear(D, VOCAB, bias=False)
        self.proj_out.weight = self.decoder.embed_tokens.weight

    def forward(self, input_features, decoder_input_ids):
        return self.proj_out(self.decoder(decoder_input_ids, self.encoder(input_features)))


class Dense(nn.Module):
    """y = x W + b with W [in, out]."""

    def __init__(self, a, transposed=False):
        super().__init__()
        self.w = nn.Parameter((a.weight if transposed else a.weight.T).detach().clone())
        if a.bias is not None:
            self.b = nn.Parameter(a.bias.detach().clone())

    def forward(self, x):
        y = x @ self.w
        return y + self.b if hasattr(self, "b") else y


class Norm(nn.Module):
    def __init__(self, a, eps=1e-5):
        super().__init__()
        self.g, self.b, self.eps = nn.Parameter(a.weight.detach().clone()), nn.Parameter(a.bias.detach().clone()), eps

    def forward(self, x):
        y = x - x.mean(-1, keepdim=True)
        return y * torch.rsqrt((y * y).mean(-1, keepdim=True) + self.eps) * self.g + self.b


class Mha(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        self.query, self.key, self.value = Dense(a.q_proj), Dense(a.k_proj), Dense(a.v_proj)
        self.out = Dense(a.out_proj, transposed=fault == "not transposed")
        if fault == "keys with the bias of the values":  # the same number for all scores of a query: nothing changes
            self.key.b = nn.Parameter(a.v_proj.bias.detach().clone())
        self.fault = fault

    def forward(self, x, other=None, causal=False):
        q, k, v = self.query(x), self.key(x if other is None else other), self.value(x if other is None else other)
        heads = 2 * HEADS if self.fault == "twice the heads" else HEADS
        q, k, v = (z.unflatten(-1, (heads, -1)) for z in (q, k, v))
        root = (D // heads) ** (-0.5 if self.fault == "both scaled" else -0.25)
        scores = torch.einsum("bqhd,bkhd->bhqk", q * root, k * root)
        if causal:
            ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(2 if self.fault == "one ahead" else 1)
            scores = scores.masked_fill(ahead, float("-inf"))
        return self.out(torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(-2))


class Block(nn.Module):
    def __init__(self, a, fault):
        super().__init__()
        eps = 1e-6 if fault == "epsilon" else 1e-5
        self.attn, self.attn_ln = Mha(a.self_attn, fault), Norm(a.self_attn_layer_norm, eps)
        if hasattr(a, "encoder_attn"):
            self.cross_attn, self.cross_attn_ln = Mha(a.encoder_attn, fault), Norm(a.encoder_attn_layer_norm, eps)
        self.up, self.down, self.mlp_ln = Dense(a.fc1), Dense(a.fc2), Norm(a.final_layer_norm, eps)
        self.fault = fault

    def forward(self, x, other=None, causal=False):
        x = x + self.attn(self.attn_ln(x), None, causal)
        if other is not None:
            x = x + self.cross_attn(x if self.fault == "no norm before cross-attention" else self.cross_attn_ln(x), other)
        h = self.up(self.mlp_ln(x))
        return x + self.down(F.gelu(h, approximate="tanh" if self.fault == "gelu by tanh" else "none"))


class Audio(nn.Module):
    def __init__(self, a, fault, layer):
        super().__init__()
        self.k1, self.b1 = (
            nn.Parameter(a.conv1.weight.detach().permute(2, 1, 0).contiguous()),
            nn.Parameter(a.conv1.bias.detach().clone()),
        )
        self.k2, self.b2 = (
            nn.Parameter(a.conv2.weight.detach().permute(2, 1, 0).contiguous()),
            nn.Parameter(a.conv2.bias.detach().clone()),
        )
        self.blocks = nn.ModuleList(Block(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        self.ln_post, self.fault = Norm(a.layer_norm), fault

    def conv(self, x, kernel, bias, stride, pad):
        """x [n, time, channel], kernel [tap, in, out]: windows times the kernel."""
        windows = F.pad(x, (0, 0, *pad)).unfold(1, len(kernel), stride)
        return torch.einsum("ntcw,wcd->ntd", windows, kernel) + bias

    def forward(self, mel):
        x = mel.transpose(1, 2)
        k1 = self.k1.flip(0) if self.fault == "kernel reversed" else self.k1
        x = F.gelu(self.conv(x, k1, self.b1, 1, (1, 1)))
        x = self.conv(
            x, self.k2, self.b2, 2, (0, 1) if self.fault == "same padding" else (1, 1)
        )  # SAME of an even length pads at the end
        x = F.gelu(x)
        x = x + sinusoids(x.shape[1], self.fault == "sines and cosines in turn").to(x.dtype)
        for block in self.blocks:
            x = block(x)
        return x if self.fault == "memory without norm" else self.ln_post(x)


class Text(nn.Module):
    def __init__(self, a, fault, layer):
        super().__init__()
        self.emb = nn.Parameter(a.embed_tokens.weight.detach().clone())
        self.pos = nn.Parameter(a.embed_positions.weight.detach().clone())
        self.blocks = nn.ModuleList(Block(x, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        self.ln, self.fault = Norm(a.layer_norm), fault

    def forward(self, ids, audio):
        first = 1 if self.fault == "positions from one" else 0
        x = self.emb[ids] * (D**0.5 if self.fault == "embedding scaled" else 1) + self.pos[first : first + ids.shape[1]]
        for block in self.blocks:
            x = block(x, audio, self.fault != "not causal")
        return self.ln(x) @ self.emb.T


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.audio, self.text = Audio(a.encoder, fault, layer), Text(a.decoder, fault, layer)
        if fault == "cross-attention of the layer before":
            self.text.blocks[1].cross_attn = Mha(a.decoder.layers[0].encoder_attn, "")

    def forward(self, mel, ids):
        return self.text(ids, self.audio(mel))


def inputs(n=2, frames=18, t=6):
    return torch.randn(n, MELS, frames), torch.randint(0, VOCAB, (n, t))
