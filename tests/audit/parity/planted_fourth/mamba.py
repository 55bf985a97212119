"""Mamba: A scans step by step, as the slow path of transformers does, B in one product over all pairs of positions."""

import torch
from torch import nn
from torch.nn import functional as F

from .decoders import Rms, RMSNorm

D, INNER, STATE, RANK, TAPS, VOCAB = 24, 32, 6, 4, 4, 45


class MambaMixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj = nn.Linear(D, 2 * INNER, bias=False)
        self.conv1d = nn.Conv1d(INNER, INNER, TAPS, groups=INNER, padding=TAPS - 1)
        self.x_proj, self.dt_proj = nn.Linear(INNER, RANK + 2 * STATE, bias=False), nn.Linear(RANK, INNER)
        self.A_log, self.D = nn.Parameter(torch.empty(INNER, STATE)), nn.Parameter(torch.empty(INNER))
        self.out_proj = nn.Linear(INNER, D, bias=False)

    def forward(self, x):
        t = x.shape[1]
        hidden, gate = self.in_proj(x).transpose(1, 2).chunk(2, 1)
        hidden = F.silu(self.conv1d(hidden)[..., :t])
        dt, b, c = self.x_proj(hidden.transpose(1, 2)).split([RANK, STATE, STATE], -1)
        dt = F.softplus(self.dt_proj(dt)).transpose(1, 2)
        a = -torch.exp(self.A_log)
        decay = torch.exp(a[None, :, None] * dt[..., None])  # [n, inner, t, state]
        put = dt[..., None] * b[:, None] * hidden[..., None]
        state, outputs = torch.zeros_like(put[:, :, 0]), []
        for i in range(t):
            state = decay[:, :, i] * state + put[:, :, i]
            outputs.append((state * c[:, None, i]).sum(-1))
        y = torch.stack(outputs, -1) + hidden * self.D[None, :, None]
        return self.out_proj((y * F.silu(gate)).transpose(1, 2))


class MambaBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mixer = RMSNorm(D), MambaMixer()

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class Mamba(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.layers, self.norm_f = (
            nn.Embedding(VOCAB, D),
            nn.ModuleList(MambaBlock() for _ in range(2)),
            RMSNorm(D),
        )
        self.lm_head = nn.Linear(D, VOCAB, bias=False)
        self.lm_head.weight = self.embeddings.weight

    def forward(self, ids):
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm_f(x))


def array(x):
    return nn.Parameter(x.detach().clone().contiguous())


class Ssm(nn.Module):
    """The scan as a lower triangular matrix for each channel and state; x is [n, t, channel]."""

    def __init__(self, a, fault):
        super().__init__()
        halves = a.in_proj.weight.chunk(2)
        self.w_in = array(torch.cat(halves[::-1] if fault == "gate first" else halves).T)
        taps = a.conv1d.weight[:, 0].flip(-1) if fault == "kernel reversed" else a.conv1d.weight[:, 0]
        self.taps, self.taps_bias = array(taps.T), array(a.conv1d.bias)
        self.w_x, self.w_dt, self.b_dt = array(a.x_proj.weight.T), array(a.dt_proj.weight.T), array(a.dt_proj.bias)
        if fault == "no bias of the step":
            self.b_dt.data.zero_()
        self.log_a, self.skip, self.w_out = array(a.A_log), array(a.D), array(a.out_proj.weight.T)
        self.fault = fault

    def forward(self, x):
        t = x.shape[1]
        u, z = (x @ self.w_in).chunk(2, -1)
        before = TAPS // 2 if self.fault == "convolution centred" else TAPS - 1
        padded = F.pad(u, (0, 0, before, TAPS - 1 - before))
        u = sum(padded[:, i : i + t] * self.taps[i] for i in range(TAPS)) + self.taps_bias
        if self.fault != "no activation behind the convolution":
            u = u * torch.sigmoid(u)
        r, b, c = torch.split(u @ self.w_x, (RANK, STATE, STATE), -1)
        if self.fault == "inputs and outputs of the state":
            b, c = c, b
        raw = r @ self.w_dt + self.b_dt
        dt = raw.relu() if self.fault == "relu of the step" else torch.logaddexp(raw, torch.zeros_like(raw))
        a = self.log_a if self.fault == "logarithm not undone" else -self.log_a.exp()
        total = torch.cumsum(dt, 1)[..., None] * a  # [n, t, channel, state]
        lower = torch.ones(t, t, dtype=torch.bool).tril()[None, :, :, None, None]
        decay = torch.exp((total[:, :, None] - total[:, None]).masked_fill(~lower, float("-inf")))
        if self.fault == "exact step":  # zero-order hold for the input as well
            put = ((dt[..., None] * a).exp() - 1) / a * b[:, :, None] * u[..., None]
        else:
            put = (dt * u)[..., None] * b[:, :, None]
        y = torch.einsum("btscn,bscn,btn->btc", decay, put, c)
        if self.fault != "no skip":
            y = y + self.skip * u
        return (y * (torch.sigmoid(z) if self.fault == "sigmoid gate" else F.silu(z))) @ self.w_out


class Port(nn.Module):
    def __init__(self, a, fault="", layer=-1):
        super().__init__()
        self.table, self.fault = array(a.embeddings.weight), fault
        eps = 1e-5 if fault == "epsilon" else 1e-6
        self.norms = nn.ModuleList(Rms(x.norm.weight, eps) for x in a.layers)
        self.ssms = nn.ModuleList(Ssm(x.mixer, fault if layer in (-1, i) else "") for i, x in enumerate(a.layers))
        if fault == "layer before":
            self.ssms[1].log_a = array(a.layers[0].mixer.A_log)
        self.out = Rms(a.norm_f.weight, eps)

    def forward(self, ids):
        x = self.table[ids]
        for norm, ssm in zip(self.norms, self.ssms, strict=True):
            if self.fault == "norm behind":
                x = x + norm(ssm(x))
            else:
                x = (x * 2**0.5 if self.fault == "residual scaled" else x) + ssm(norm(x))
        return self.out(x) @ self.table.T


def tokens(n=2, t=9):
    return (torch.randint(0, VOCAB, (n, t)),)
