"""A model as an ONNX graph in float32, or as recorded activations: what each module returned, in order; names have slashes."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn


def activations(model, inputs):
    """The inputs, what each module returned, in the order in which they returned, and the output or outputs."""
    record = {f"input.{i}": x for i, x in enumerate(inputs)}
    hooks = []

    def tap(name):
        def keep(_module, _inputs, y):
            for i, x in enumerate(y if isinstance(y, tuple) else (y,)):
                record[f"t{len(record) - len(inputs):03}/{name.replace('.', '/')}" + (f"/{i}" if isinstance(y, tuple) else "")] = x

        return keep

    for name, module in model.named_modules():
        if name and not isinstance(module, (nn.ModuleList, nn.ParameterList, nn.Sequential)):
            hooks.append(module.register_forward_hook(tap(name)))
    with torch.no_grad():
        y = model(*inputs)
    for hook in hooks:
        hook.remove()
    outputs = {f"output.{i}": x for i, x in enumerate(y)} if isinstance(y, tuple) else {"output": y}
    return {name: x.contiguous().clone() for name, x in (record | outputs).items()}


def as_onnx(model, inputs, folder):
    path = folder / "model.onnx"
    names = [f"input_{i}" for i in range(len(inputs))]
    with warnings.catch_warnings():  # the exporter that needs no further package is marked as deprecated
        warnings.simplefilter("ignore")
        torch.onnx.export(model, inputs, str(path), input_names=names, output_names=["output"], dynamo=False, opset_version=17)
    return str(path)


def in_form(model, inputs, form):
    """The model itself, or the path of a file: onnx, npz (float64) or safetensors (float32)."""
    if form == "torch":
        return model
    folder = Path(tempfile.mkdtemp(prefix="planted-"))
    if form == "onnx":
        return as_onnx(model, inputs, folder)
    if form == "npz":
        exact = [x.double() if x.is_floating_point() else x for x in inputs]
        np.savez(folder / "run.npz", **{name: x.numpy() for name, x in activations(model.double(), exact).items()})
        return str(folder / "run.npz")
    save_file(activations(model, inputs), folder / "run.safetensors")
    return str(folder / "run.safetensors")
