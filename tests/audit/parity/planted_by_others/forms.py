"""A port as an ONNX file in float32, and as recorded activations with names of its own."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn


def as_onnx(model, inputs):
    """The path of a graph that onnxruntime runs."""
    path = Path(tempfile.mkdtemp(prefix="planted-")) / "port.onnx"
    with warnings.catch_warnings():  # the exporter that needs no further package is marked as deprecated
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(), inputs, str(path), input_names=["input"], output_names=["output"], dynamo=False, opset_version=17
        )
    return str(path)


def as_dump(model, inputs):
    """The path of an .npz file with what each module of the port returned, in float64, as hooks write it."""
    model = model.double().eval()
    named, hooks = {"input.0": inputs[0].numpy()}, []
    for index, (name, module) in enumerate(model.named_modules()):
        if not name or isinstance(module, (nn.ModuleList, nn.ParameterList, nn.Dropout)):
            continue
        key = f"tap{index:02d}/" + name.replace(".", "/")

        def keep(_module, _inputs, output, key=key):
            named[key] = output.numpy().copy()

        hooks.append(module.register_forward_hook(keep))
    floats = [x.double() if x.is_floating_point() else x for x in inputs]
    with torch.no_grad():
        named["output"] = model(*floats).numpy()
    for hook in hooks:
        hook.remove()
    path = Path(tempfile.mkdtemp(prefix="planted-")) / "activations.npz"
    np.savez(path, **named)
    return str(path)
