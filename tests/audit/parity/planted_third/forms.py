"""A port as recorded activations: .npz in float64, .safetensors in float32; ONNX graphs are made as in the other zoos."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from ..planted_by_others.forms import as_onnx


def activations(model, inputs):
    """The inputs, what each module returned at its first call, and the output; names as a Flax model has them."""
    taps = {f"input.{i}": x for i, x in enumerate(inputs)}

    def tap(name):
        def keep(_module, _inputs, y):
            taps.setdefault(f"intermediates/{name.replace('.', '_')}/__call__", (y[0] if isinstance(y, tuple) else y).clone())

        return keep

    skipped = (nn.ModuleList, nn.ParameterList, nn.Dropout, nn.Identity)
    hooks = [m.register_forward_hook(tap(n)) for n, m in model.named_modules() if n and not isinstance(m, skipped)]
    with torch.no_grad():
        taps["output"] = model(*inputs)
    for hook in hooks:
        hook.remove()
    return taps


def in_form(model, inputs, form):
    """The model itself, or the path of a file in this form."""
    if form == "torch":
        return model
    if form == "onnx":
        return as_onnx(model, inputs)
    folder = Path(tempfile.mkdtemp(prefix="planted-"))
    model.eval()
    if form == "npz":
        exact = [x.double() if x.is_floating_point() else x for x in inputs]
        np.savez(folder / "run.npz", **{name: x.numpy() for name, x in activations(model.double(), exact).items()})
        return str(folder / "run.npz")
    save_file({name: x.contiguous().clone() for name, x in activations(model, inputs).items()}, folder / "run.safetensors")
    return str(folder / "run.safetensors")
