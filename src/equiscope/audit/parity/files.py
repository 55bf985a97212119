"""Sides that are files: recorded activations of any framework, and ONNX graphs.

Activations are `.npz` or `.safetensors`, one named array for each tensor; names that start with "input." are the inputs, and
names that start with "output" the outputs. Loading a file never runs code from it. An ONNX graph runs in onnxruntime with every
tensor as an output, also in float64 where its operators have that precision; its constants are float32, so that it is judged in
one precision.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equiscope import budgets
from equiscope.audit.parity.sides import OUTPUT, Node, Side
from equiscope.errors import InputError, printable

DUMPS = (".npz", ".safetensors")
INPUT = "input."


def read_dump(path: Path) -> dict[str, Tensor]:
    """The named arrays of a file, in its order. Raises InputError for what is no such file, or holds something else."""
    budgets.regular(path, "an .npz or .safetensors file")
    return _safetensors(path) if path.suffix == ".safetensors" else _npz(path)


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, *budgets.DAMAGED) as error:
        raise InputError(f"{path} is no safetensors file, or a damaged one: {_bare(error)}. Write it again.") from error


def _npz(path: Path) -> dict[str, Tensor]:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is no .npz file, or one that is cut off. Write it with numpy.savez.")
    try:
        with budgets.archive(path) as packed:
            return {one.name.removesuffix(".npy"): _array(packed, one, path) for one in packed}
    except budgets.DAMAGED as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged: {_bare(error)}. Write it again with numpy.savez.") from error


def _array(packed: budgets.Archive, one: budgets.ArchiveMember, path: Path) -> Tensor:
    """One array of an .npz file."""
    name = f"{path}: {printable(one.name.removesuffix('.npy'))}"
    with packed.open(one) as file:
        try:
            array = np.lib.format.read_array(file, allow_pickle=False)
        except ValueError as error:
            why = "holds Python objects, which are not read" if "Object arrays" in str(error) else f"is no array: {_bare(error)}"
            raise InputError(f"{name} {why}. Write arrays of numbers with numpy.savez.") from error
    try:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    except TypeError as error:
        raise InputError(
            f"{name} has the dtype {array.dtype}, which torch does not have. Write numbers, such as float64."
        ) from error


def _bare(error: BaseException) -> str:
    return " ".join(str(error).split())[:160].rstrip(".: ")


def inputs_of_dump(arrays: Mapping[str, Tensor]) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """The inputs that a dump holds: "input.0" is the first argument, "input.mask" the one of that name."""
    given = {name.removeprefix(INPUT): t for name, t in arrays.items() if name.startswith(INPUT)}
    numbered = sorted((name for name in given if name.isdigit()), key=int)
    return tuple(given[name] for name in numbered), {name: t for name, t in given.items() if not name.isdigit()}


def of_dump(arrays: Mapping[str, Tensor], title: str) -> Side:
    """A side of recorded activations. Raises InputError where there are none."""
    names = [name for name, t in arrays.items() if not name.startswith(INPUT) and t.is_floating_point() and t.numel()]
    if not names:
        raise InputError(f"{title} holds no tensor of numbers besides inputs. Record activations under their names.")
    values = dict(enumerate(arrays[name] for name in names))
    nodes = [Node(i, name, "", name) for i, name in enumerate(names)]
    outputs = {name: i for i, name in enumerate(names) if name.startswith(OUTPUT)}
    high = {i: t.double() for i, t in values.items()}
    units = {i: torch.finfo(t.dtype).eps / 2 for i, t in values.items() if t.dtype.itemsize < 4}
    single = not all(t.dtype == torch.float64 for t in values.values()) or all(_is_float32(t) for t in values.values())
    return Side(title, nodes, high, {}, set(values), outputs, single=single, units=units)


def _is_float32(t: Tensor) -> bool:
    """Whether these numbers were computed in float32, whatever stores them."""
    return torch.equal(t.float().double(), t.double())


def read_onnx(path: Path) -> Any:
    """The graph of an ONNX file. Raises InputError without onnx and onnxruntime, or where there is none."""
    try:
        import onnx
        import onnxruntime  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise InputError(f"{path} needs onnx and onnxruntime. Install them: pip install onnx onnxruntime") from error
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        return onnx.load(str(path))
    except Exception as error:  # a parser of another library
        raise InputError(f"{path} is no ONNX file: {' '.join(str(error).split())[:160]}.") from error


def of_onnx(model: Any, path: Path, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Side:
    """A side of an ONNX graph, read from this file, on these inputs. Raises InputError where the graph does not run."""
    import onnx
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    names = [name for node in model.graph.node for name in node.output if name]
    constants = {one.name for one in model.graph.initializer}
    feeds = _feeds([one.name for one in model.graph.input if one.name not in constants], args, kwargs, path)
    low = _run(onnxruntime, onnx, model, feeds, names, path)
    try:
        high: dict[str, np.ndarray[Any, Any]] | None = _run(
            onnxruntime, onnx, _in_float64(onnx, model), {n: _double(x) for n, x in feeds.items()}, names, path
        )
    except InputError:  # an operator without float64
        high = None
    return _side(model, path, feeds, low, high, onnx)


def _feeds(names: list[str], args: tuple[Any, ...], kwargs: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The inputs of a graph by their names there: keyword arguments by name, the others in their order."""
    named = {name: x for name, x in kwargs.items() if isinstance(x, Tensor)}
    rest = iter([x for x in args if isinstance(x, Tensor)] + [x for name, x in named.items() if name not in names])
    feeds = {name: named[name] if name in named else next(rest, None) for name in names}
    if any(x is None for x in feeds.values()):
        raise InputError(f"{path} takes {', '.join(names)}. Give them by position or as keyword arguments.")
    return {name: x.detach().cpu().numpy() for name, x in feeds.items() if x is not None}


def _double(x: Any) -> Any:
    return x.astype(np.float64) if x.dtype == np.float32 else x


def _run(runtime: Any, onnx: Any, model: Any, feeds: dict[str, Any], names: list[str], path: Path) -> dict[str, Any]:
    """Every tensor of the graph by name. Sequences of tensors are left out."""
    traced = onnx.ModelProto()
    traced.CopyFrom(model)
    shown = {one.name for one in traced.graph.output}
    traced.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in shown)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = runtime.InferenceSession(traced.SerializeToString(), options, providers=["CPUExecutionProvider"])
        wanted = [one.name for one in session.get_outputs()]
        values = zip(wanted, session.run(wanted, feeds), strict=True)
        return {name: x for name, x in values if isinstance(x, np.ndarray)}
    except Exception as error:  # another library
        raise InputError(f"{path} does not run in onnxruntime: {' '.join(str(error).split())[:200]}.") from error


def _in_float64(onnx: Any, model: Any) -> Any:
    """The graph with each float32 number, input and cast in float64."""
    double = onnx.ModelProto()
    double.CopyFrom(model)
    single, wide = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE

    def widened(t: Any) -> Any:
        return onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(t).astype(np.float64), t.name)

    for i, one in enumerate(double.graph.initializer):
        if one.data_type == single:
            double.graph.initializer[i].CopyFrom(widened(one))
    for value in (*double.graph.input, *double.graph.output):
        if value.type.tensor_type.elem_type == single:
            value.type.tensor_type.elem_type = wide
    del double.graph.value_info[:]
    for node in double.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type == single:
                attribute.t.CopyFrom(widened(attribute.t))
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == single:
                attribute.i = wide
    return double


def _side(model: Any, path: Path, feeds: dict[str, Any], low: dict[str, Any], high: dict[str, Any] | None, onnx: Any) -> Side:
    tensors = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer} | feeds | low
    wide = {name: _double(x) for name, x in tensors.items()} | (high or {})
    names = {name: i for i, name in enumerate(tensors)}
    moving = {names[name] for name in feeds}
    nodes, sequences = [], dict[str, tuple[int, ...]]()  # a sequence stands for the tensors that it is made of
    for node in model.graph.node:
        inputs = tuple(i for name in node.input for i in ((names[name],) if name in names else sequences.get(name, ())))
        sequences |= {name: inputs for name in node.output if name and name not in names}
        equation = next((one.s.decode() for one in node.attribute if one.name == "equation"), "")
        for name in node.output:
            if name in names:
                nodes.append(Node(names[name], name, node.op_type, node.name, inputs, equation=equation))
                moving |= {names[name]} if set(inputs) & moving else set()
    numbers, narrow = ({names[n]: torch.from_numpy(np.array(x)) for n, x in one.items()} for one in (wide, tensors))
    outputs = {one.name: names[one.name] for one in model.graph.output if one.name in names}
    leaves = {i for name, i in names.items() if name not in low}
    titles = {i: name for name, i in names.items()}
    return Side(path.name, nodes, numbers, narrow if high else {}, moving, outputs, leaves, single=True, names=titles)
