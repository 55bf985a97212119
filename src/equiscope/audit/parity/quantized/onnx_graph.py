"""Dynamically quantized ONNX graphs as graphs in floating point: weights times their scale, activations that are not rounded.

Read as onnxruntime writes them: DynamicQuantizeLinear, MatMulInteger, Cast and Mul for a product with a weight, and
DequantizeLinear of a weight, or of rows that Gather looked up in one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from equiscope.audit.parity.sides import Side


@dataclass(frozen=True)
class QuantizedProduct:
    """A product of the graph.

    node    its name; x, scale, y: names of its input, of the input's scale and of its result; weight: [inputs, outputs]
    """

    node: str
    x: str
    scale: str
    y: str
    weight: Any

    def explains(self, native: Side, index: dict[str, int]) -> bool:
        """Whether the recorded result is this product, with each number of the input rounded by half a step at most."""
        x, step, y = (native.high[index[name]].double() for name in (self.x, self.scale, self.y))
        weight = torch.from_numpy(self.weight).double()
        rounding = 2.0**-20 * (x.abs() @ weight.abs())  # of products in float32
        return bool(((y - x @ weight).abs() <= 0.501 * step * weight.abs().sum(0) + rounding).all())


def in_floats(model: Any) -> tuple[Any, list[QuantizedProduct]] | None:
    """The graph in floating point, and its products; None where nothing of it is quantized."""
    import onnx

    arrays = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    makers = {name: node for node in model.graph.node for name in node.output}
    readers: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    weights: dict[str, Any] = {}
    products, instead, gone = [], dict[str, Any](), set[str]()

    def weight(q: str, scale: str, zero: str | None) -> str:
        name = q.removesuffix("_quantized")
        point = arrays[zero].astype(np.float32) if zero else np.float32(0)
        weights[name] = (arrays[q].astype(np.float32) - point) * arrays[scale].astype(np.float32)
        return name

    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[1] in arrays:
            zero = node.input[2] if len(node.input) > 2 and node.input[2] else None
            before = makers.get(node.input[0])
            if node.input[0] in arrays and arrays[node.input[1]].size == 1:
                weights[node.output[0]] = weights.pop(weight(node.input[0], node.input[1], zero))
                gone.add(node.output[0])
            elif before is not None and before.op_type == "Gather" and before.input[0] in arrays:
                table = weight(before.input[0], node.input[1], zero)
                made = onnx.helper.make_node("Gather", [table, before.input[1]], [node.output[0]], before.name)
                made.attribute.extend(before.attribute)
                instead[node.output[0]] = made
                gone.add(before.output[0])
        if node.op_type == "MatMulInteger" and node.input[1] in arrays:
            found = _scaled(node, arrays, makers, readers)
            if found is None:
                continue
            start, cast, end, scale = found
            name = weight(node.input[1], scale, node.input[3] if len(node.input) > 3 and node.input[3] else None)
            products.append(QuantizedProduct(end.name, start.input[0], start.output[1], end.output[0], weights[name]))
            instead[end.output[0]] = onnx.helper.make_node("MatMul", [start.input[0], name], [end.output[0]], end.name)
            gone |= {node.output[0], cast.output[0]}
    if not instead and not gone:
        return None
    floats = onnx.ModelProto()
    floats.CopyFrom(model)
    del floats.graph.node[:], floats.graph.value_info[:]
    floats.graph.node.extend(instead.get(n.output[0], n) for n in model.graph.node if n.output[0] not in gone)
    floats.graph.initializer.extend(onnx.numpy_helper.from_array(x, name) for name, x in weights.items())
    _prune(floats)
    return floats, products


def _scaled(node: Any, arrays: dict[str, Any], makers: dict[str, Any], readers: dict[str, list[Any]]) -> Any:
    """Around a product of integers: what rounds its input, the cast and the product with the scales, and the weight's scale."""
    start, cast = makers.get(node.input[0]), next(iter(readers.get(node.output[0], [])), None)
    if start is None or start.op_type != "DynamicQuantizeLinear" or cast is None or cast.op_type != "Cast":
        return None
    end = next(iter(readers.get(cast.output[0], [])), None)
    scales = None if end is None else makers.get(next((name for name in end.input if name != cast.output[0]), ""))
    if end is None or end.op_type != "Mul" or scales is None or scales.op_type != "Mul":
        return None
    scale = next((name for name in scales.input if name in arrays), None)
    return None if scale is None or start.output[1] not in scales.input else (start, cast, end, scale)


def _prune(model: Any) -> None:
    """Leave out what no output needs."""
    needed = {one.name for one in model.graph.output}
    nodes = []
    for node in reversed(model.graph.node):
        if any(name in needed for name in node.output):
            needed |= set(node.input)
            nodes.append(node)
    kept = [one for one in model.graph.initializer if one.name in needed]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(reversed(nodes))
    model.graph.initializer.extend(kept)


def with_weights(model: Any, numbers: dict[str, torch.Tensor]) -> Any:
    """The graph with other numbers in these constants."""
    import onnx

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for i, one in enumerate(changed.graph.initializer):
        if one.name in numbers:
            array = numbers[one.name].reshape(tuple(one.dims)).float().numpy()
            changed.graph.initializer[i].CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(array), one.name))
    return changed
