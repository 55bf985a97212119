"""Recorded activations of a port, as people keep them: of all modules or of blocks alone, in any precision."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float32,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
}


def blocks_of(model):
    """The names of the modules of a list of layers."""
    lists = [name for name, m in model.named_modules() if isinstance(m, nn.ModuleList)]
    return [name for name, _ in model.named_modules() if name.rpartition(".")[0] in lists]


def recorded(model, inputs, keep):
    """Named arrays of one call. keep: "modules", "blocks", "later modules" of the second half and "no output"."""
    names = blocks_of(model) if keep.startswith("blocks") else [n for n, m in model.named_modules() if n]
    taps, hooks = {}, []

    def tap(name):
        return lambda _module, _inputs, y: taps.update(
            {f"run/{name.replace('.', '/')}": (y[0] if isinstance(y, tuple) else y).clone()}
        )

    skipped = (nn.ModuleList, nn.ParameterList, nn.Identity)
    hooks = [m.register_forward_hook(tap(n)) for n, m in model.named_modules() if n in names and not isinstance(m, skipped)]
    with torch.no_grad():
        output = model(*inputs)
    for hook in hooks:
        hook.remove()
    if keep.startswith("later"):
        taps = dict(list(taps.items())[len(taps) // 2 :])
    return taps if keep.endswith("no output") else taps | {"output": output}


def as_file(model, inputs, keep, dtype):
    """The path of a file of them: .npz in float64, else .safetensors, which sorts its names.

    dtype  "float16" is stored so after a run in float32; "half" and "bfloat16" run in it
    """
    runs = DTYPES[dtype]
    model = model.to(runs)
    given = [x.to(runs) if x.is_floating_point() else x for x in inputs]
    arrays = {f"input.{i}": x for i, x in enumerate(given)} | recorded(model, given, keep)
    if dtype == "float16":
        arrays = {n: x.half() if x.is_floating_point() and not n.startswith("input") else x for n, x in arrays.items()}
    folder = Path(tempfile.mkdtemp(prefix="recorded-"))
    if dtype == "float64":
        np.savez(folder / "run.npz", **{name: x.numpy() for name, x in arrays.items()})
        return str(folder / "run.npz")
    save_file({name: x.contiguous().clone() for name, x in arrays.items()}, folder / "run.safetensors")
    return str(folder / "run.safetensors")
