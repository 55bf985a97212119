"""Devices: a GPU gives the same outputs as the CPU.

In float32 a GPU may round the factors of products to ten binary digits (TF32, where it is enabled); in float64 it never does. Both
precisions are compared: rounding shrinks with the precision, a kernel that computes something else does not.
"""

from typing import Any

import torch
from torch import Tensor, nn

from equiscope.audit.statements.measured_property import MeasuredProperty, max_error, verdict_of
from equiscope.audit.subject import ModelError, Outputs, Pass, Subject, copy_in_dtype
from equiscope.record import Row
from equiscope.symmetry import Inputs


class Device(MeasuredProperty):
    """CPU and CUDA give the same, within rounding."""

    name = "device"
    summary = "a GPU gives what the CPU gives"
    expected = True
    missing_verdict = "undecided"

    def missing(self, subject: Subject) -> str:
        return "" if torch.cuda.is_available() else "there is no CUDA device to compare with the CPU"

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        errors, plain = dict[torch.dtype, float](), dict[torch.dtype, Outputs]()
        notes = []
        for dtype in (torch.float64, torch.float32):
            cpu_run = _run(subject, dtype, "cpu")
            plain[dtype] = cpu_run(cpu_run.inputs)
            del cpu_run
            try:
                cuda_run = _run(subject, dtype, "cuda")
                errors[dtype] = max_error(plain[dtype], cuda_run(cuda_run.inputs))
            except ModelError as crash:
                notes.append(f"in {str(dtype).removeprefix('torch.')} on CUDA {crash}")
        if torch.float32 not in errors:
            return self.row("undecided", note="; ".join(notes))
        if torch.float64 not in errors:
            return self.row(
                "undecided", [errors[torch.float32]], note="; ".join([*notes, "without float64, rounding cannot be excluded"])
            )
        floor = max_error(plain[torch.float64], plain[torch.float32])
        verdict = verdict_of([errors[torch.float64]], [errors[torch.float32]], floor, tolerance)
        if errors[torch.float32] > 64 * max(floor, torch.finfo(torch.float32).eps) and verdict == "holds":
            notes.append(f"in float32 the error is {errors[torch.float32]:.1e}, and the CPU's own rounding {floor:.1e}: TF32?")
        cause = "" if verdict == "holds" else "the GPU computes something else"
        return self.row(verdict, list(errors.values()), error32=errors[torch.float32], cause=cause, note="; ".join(notes))


def _run(subject: Subject, dtype: torch.dtype, device: str) -> Pass:
    model = _on_device(copy_in_dtype(subject.model, dtype), device)
    other = subject.like(model, _inputs_on_device(subject.inputs, device))
    other.dtype = dtype
    return Pass(other, dtype, False)


def _on_device(model: nn.Module, device: str) -> nn.Module:
    """The model on a device, including tensors in plain attributes."""
    model.to(device)
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, Tensor):
                setattr(module, name, value.to(device))
    return model


def _inputs_on_device(inputs: Inputs, device: str) -> Inputs:
    def to_device(value: Any) -> Any:
        return value.to(device=device) if isinstance(value, Tensor) or hasattr(value, "leaves") else value

    return inputs.with_values({n: to_device(v) for n, v in inputs.values.items()})
