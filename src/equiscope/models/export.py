"""Export: a model as an ONNX file for other runtimes, through `torch.export`, checked against the model that it was made from."""

import warnings
from collections.abc import Mapping
from pathlib import Path

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
    raises   InputError where the extra `export` is not installed, or the file does not compute what the model does
    """
    try:
        import onnxruntime  # type: ignore[import-untyped]
        import onnxscript  # noqa: F401  # torch asks for it
    except ImportError as error:
        raise InputError(f"An export needs {error.name}. Install the extra: pip install 'equiscope[export]'.") from error
    given = {"inputs": inputs} if source is None else {"inputs": inputs, "source": source}
    if any(len(t) < 2 for t in given.values()):
        raise InputError("An example for export has two or more sequences, so that their number stays open, but got one.")
    model = model.eval()
    batch = torch.export.Dim("batch")
    shapes = {name: {0: batch} | ({1: torch.export.Dim(f"{name}_tokens")} if _ids(t) else {}) for name, t in given.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own ways
        torch.onnx.export(model, (), str(path), kwargs=given, dynamic_shapes=shapes, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    worst = 0.0
    for one in (given, {name: _another(t) for name, t in given.items()}):
        found = torch.from_numpy(session.run(None, {name: t.numpy() for name, t in one.items()})[0])
        worst = max(worst, relative_error(found, _answer(model, one)))
    if not worst < ALLOWED:
        raise InputError(f"{path} was written, but its answers differ from the model's by {worst:.1e}. Do not use it.")
    return worst


def _answer(model: Model, given: Mapping[str, Tensor]) -> Tensor:
    answer: Tensor = model(given["inputs"], source=given.get("source"))
    return answer


def _ids(t: Tensor) -> bool:
    return not t.is_floating_point()


def _another(t: Tensor) -> Tensor:
    """One sequence more, and of ids one token less."""
    more = torch.cat([t, t[:1]])
    return more[:, :-1].contiguous() if _ids(t) else more
