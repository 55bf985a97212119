"""Quantized forms of a model, and forms with a planted fault: whole models for `parity` to judge."""

import copy
import warnings

import torch
from torch import nn
from torch.nn import functional as F

QMAX = {8: 127, 4: 7}


def integers(w, bits=8, per="row", zero=False):
    """w [R, C] as integers, their scales and their zero points. per: tensor, row, column or the size of a group."""
    lines = {"tensor": w.reshape(1, -1), "row": w, "column": w.T}.get(per, w.reshape(-1, per if isinstance(per, int) else 1))
    if zero:
        low, high = lines.amin(-1, keepdim=True).clamp(max=0), lines.amax(-1, keepdim=True).clamp(min=0)
        scale = (high - low) / (2**bits - 1)
        point = (-low / scale).round()
    else:
        scale, point = lines.abs().amax(-1, keepdim=True) / QMAX[bits], torch.zeros(len(lines), 1)
    q = (lines / scale).round() + point
    shape = lambda t: t.expand(lines.shape).T if per == "column" else t.expand(lines.shape).reshape(w.shape)  # noqa: E731
    return shape(q), shape(scale), shape(point)


def faulty(q, scale, point, fault, row=False):
    """The numbers that a layer with this fault holds."""
    if fault == "scale":
        scale = scale * (1.0 + 0.5 * (torch.arange(len(q)) % 4 == 1)[:, None] if row else 1.25)
    if fault == "axis":
        scale = scale.T
    if fault == "zero point":
        point = point + 3
    return (q - point) * scale


class IntegerLinear(nn.Module):
    """Integers in the state, numbers only while it runs."""

    def __init__(self, linear, bits, per, zero=False, rounds=False):
        super().__init__()
        w = linear.weight.detach().T if hasattr(linear, "nf") else linear.weight.detach()
        q, scale, point = integers(w, bits, per, zero)
        self.register_buffer("integers", (q - (128 if zero and bits == 8 else 0)).to(torch.int8))
        self.register_buffer("scale", scale.contiguous())
        self.register_buffer("point", (point - (128 if zero and bits == 8 else 0)).to(torch.int8))
        self.bias, self.rounds = linear.bias, rounds

    def forward(self, x):
        if self.rounds:
            step = x.abs().max() / 127
            x = (x / step).round().clamp(-128, 127) * step
        return F.linear(x, (self.integers.float() - self.point.float()) * self.scale, self.bias)


def is_linear(module):
    return isinstance(module, nn.Linear) or hasattr(module, "nf")


def with_integers(model, bits=8, per="row", left_out=(), **more):
    """A copy whose linear maps are IntegerLinear."""
    made = copy.deepcopy(model)
    for path, module in list(made.named_modules()):
        for name, child in list(module.named_children()):
            full = f"{path}.{name}" if path else name
            if is_linear(child) and full not in left_out:
                setattr(module, name, IntegerLinear(child, bits, per, **more))
    return made


def with_rounded_weights(model, bits=8, per="row", faults=None, zero=False, row=False, left_out=()):
    """A copy whose linear maps hold the numbers of integers. faults: by path of a map, what is wrong with it."""
    made, faults = copy.deepcopy(model), faults or {}
    with torch.no_grad():
        for path, module in made.named_modules():
            if not is_linear(module) or path in left_out:
                continue
            w = module.weight.T if hasattr(module, "nf") else module.weight
            fault = faults.get(path, "")
            if fault == "rounding":
                _, scale, _ = integers(w, bits, per)
                new = (w / scale).floor() * scale
            elif fault == "weights":
                new = w.flip(0)
            else:
                new = faulty(*integers(w, bits, per, zero), fault, row)
            weight = nn.Parameter((new.T if hasattr(module, "nf") else new).contiguous())
            module.weight = weight
    return made


def dynamic(model, per_channel=False):
    """torch's dynamic quantization."""
    config = torch.ao.quantization.per_channel_dynamic_qconfig
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear: config} if per_channel else {nn.Linear})
