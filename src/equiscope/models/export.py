"""Export: a model as an ONNX file for other runtimes, through `torch.export`, checked against the model that it was made from."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.models.build import Model
from equiscope.symmetry import relative_error

ALLOWED = 1e-4  # relative, float32; measured below 1e-6


@torch.no_grad()
def export_onnx(model: Model, path: str | Path, inputs: Tensor, source: Tensor | None = None) -> float:
    """Write `path` (.onnx), whose inputs are called inputs and source; batch, and for ids the length, may then be any.

    inputs   an example: ids [B, N] or samples, of two or more sequences; source: of a model with an encoder
    returns  the largest relative difference of onnxruntime's answers from the model's, on the example and on another size
    raises   InputError where the extra `export` is not installed, the example is none, the folder is not there, the model holds
             bfloat16, or the file does not compute what the model does
    """
    try:
        import onnxruntime  # type: ignore[import-untyped]
        import onnxscript  # noqa: F401  # torch asks for it
    except ImportError as error:
        raise InputError(f"An export needs {error.name}. Install the extra: pip install -e '.[export]' in the clone.") from error
    inputs_by_name = {"inputs": inputs} if source is None else {"inputs": inputs, "source": source}
    training = [part for part in model.modules() if part.training]
    try:
        return _exported(model.eval(), Path(path), inputs_by_name, onnxruntime)
    finally:
        for part in training:
            part.training = True


def _exported(model: Model, path: Path, inputs_by_name: dict[str, Tensor], onnxruntime: Any) -> float:
    _check(model, path, inputs_by_name)
    batch = torch.export.Dim("batch")
    shapes = {name: {0: batch} | ({1: torch.export.Dim(f"{name}_tokens")} if _ids(t) else {}) for name, t in inputs_by_name.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own ways
        torch.onnx.export(model, (), str(path), kwargs=inputs_by_name, dynamic_shapes=shapes, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    for one in (inputs_by_name, {name: _another(t) for name, t in inputs_by_name.items()}):
        exported = torch.from_numpy(session.run(None, {name: t.numpy() for name, t in one.items()})[0])
        worst = max(worst, relative_error(exported, _answer(model, one)))
    if not worst < ALLOWED:
        raise InputError(f"{path} was written, but its answers differ from the model's by {worst:.1e}. Do not use it.")
    return worst


def _check(model: Model, path: Path, inputs_by_name: Mapping[str, Tensor]) -> None:
    """Raises InputError where an export cannot succeed, before it begins; also what the model itself says of an example."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: {'it is a folder' if path.is_dir() else 'its folder is not there'}.")
    if wrong := next((name for name, t in inputs_by_name.items() if not isinstance(t, Tensor)), None):
        raise InputError(f"An example for export is a tensor, but {wrong} is {type(inputs_by_name[wrong]).__name__}.")
    if (model.encoder is None) is ("source" in inputs_by_name):
        raise InputError(f"This model has {'no' if model.encoder is None else 'an'} encoder, so an example has "
                         f"{'no' if model.encoder is None else 'a'} source.")  # fmt: skip
    if any(p.dtype is torch.bfloat16 for p in model.parameters()):
        raise InputError("onnxruntime answers in float32, not in bfloat16. Export model.float().")
    for name, t in inputs_by_name.items():
        if len(t) < 2 or (_ids(t) and (t.ndim != 2 or t.shape[1] < 2)):
            raise InputError(
                "An example for export has two or more sequences, of ids two tokens or more, so that both numbers stay open, but "
                f"{name} is {tuple(t.shape)}."
            )
    _answer(model, inputs_by_name)


def _answer(model: Model, inputs_by_name: Mapping[str, Tensor]) -> Tensor:
    answer: Tensor = model(inputs_by_name["inputs"], source=inputs_by_name.get("source"))
    return answer


def _ids(t: Tensor) -> bool:
    return not t.is_floating_point()


def _another(t: Tensor) -> Tensor:
    """One sequence more, and of ids one token less."""
    more = torch.cat([t, t[:1]])
    return more[:, :-1].contiguous() if _ids(t) else more
