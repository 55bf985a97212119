"""Walk: run an exported program over the field, operation by operation.

Values that depend on no input and no parameter (masks, tables of positions) are computed as real numbers. Everything else is a
formula. An operation without a rule is a function of everything that it reads, so a missing rule cannot make a proof succeed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from equiscope.audit.proof.exported_program import ExportedProgram
from equiscope.audit.proof.field import NoRule, function, hash_key, ordered
from equiscope.audit.proof.field_steps import FieldSteps
from equiscope.audit.proof.formulas import Formulas, in_field, unknown_values
from equiscope.audit.proof.order_statistics import ORDER_STATISTICS
from equiscope.program.loops.aten import name_of, operation_names, parts
from equiscope.program.loops.computation import called
from equiscope.program.loops.lower_complex import Complex, constant
from equiscope.program.program import each, leaves_of

FLOATS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
CHECKS_ONLY = ("_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size")


class RandomOperation(Exception):
    """An operation draws random numbers; the node says which."""

    def __init__(self, node: Node) -> None:
        super().__init__(operation(node))
        self.node = node


@dataclass
class Walk:
    """One execution of a program, for one choice of the indeterminates.

    constants     values that depend on no input, shared by walks of one seed
    without_rule  operations that had no rule, in order
    """

    program: ExportedProgram
    seed: int = 0
    masks_infinite: bool = False
    constants: dict[Node, Any] = field(default_factory=dict)
    without_rule: list[Node] = field(default_factory=list)

    def outputs(self, leaf_values: list[Any]) -> dict[str, Tensor]:
        """The outputs by name, in the field."""
        output_nodes = {node for _, node in self.program.outputs if node is not None}
        values = {node: value for node, value in self.steps(leaf_values) if node in output_nodes}
        return {name: in_field(values[node], self.masks_infinite) for name, node in self.program.outputs if node in values}

    def steps(self, leaf_values: list[Any]) -> Iterator[tuple[Node, Any]]:
        """Every operation with its value. Raises RandomOperation where one draws random numbers."""
        yield from self._graph(self.program.graph, self.program.module, self._by_placeholder(leaf_values))

    def _by_placeholder(self, leaf_values: list[Any]) -> dict[str, Any]:
        return {name: leaf_values[number] for name, number in self.program.leaf_numbers.items()}

    def _graph(self, graph: Any, module: Any, leaf_inputs: dict[str, Any]) -> Iterator[tuple[Node, Any]]:
        values: dict[Node, Any] = {}
        uses_left = {node: len(node.users) for node in graph.nodes}
        for node in graph.nodes:
            if node in self.constants:
                values[node] = self.constants[node]
            elif node.op == "output":
                values[node] = torch.fx.node.map_arg(node.args[0], lambda n: values[n])
            elif node.op == "placeholder":
                values[node] = self._placeholder(node, leaf_inputs)
            elif node.op == "get_attr":
                values[node] = getattr(module, str(node.target))
            else:
                values[node] = self._value(node, values, module)
            if (node.op == "placeholder" and node.name not in leaf_inputs) or (
                node.op == "call_function" and all(n in self.constants for n in node.all_input_nodes)
            ):
                self.constants[node] = values[node]
            yield node, values[node]
            for source in node.all_input_nodes:
                uses_left[source] -= 1
                if not uses_left[source]:
                    values.pop(source, None)

    def _placeholder(self, node: Node, leaf_inputs: dict[str, Any]) -> Any:
        if node.name in leaf_inputs:
            return leaf_inputs[node.name]
        if (name := self.program.parameters.get(node.name)) is not None:
            return unknown_values(node.meta["val"], "parameter", name, self.seed)
        return self.program.buffers[node.name]

    def _value(self, node: Node, values: dict[Node, Any], module: Any) -> Any:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])
        op: Any = node.target
        if getattr(op, "__name__", "") == "getitem":
            return args[0][args[1]]  # type: ignore[index]
        if not isinstance(op, torch._ops.OpOverload):
            return self._subgraph(node, args) if isinstance(op, torch._ops.HigherOrderOperator) else op(*args, **kwargs)
        if op.overloadpacket.__name__ == "sym_size":
            tensor: Any = args[0].t if isinstance(args[0], Formulas) else args[0]
            return tensor.shape[args[1]]
        if op.overloadpacket.__name__ in CHECKS_ONLY:
            return None
        is_random = torch.Tag.nondeterministic_seeded in op.tags
        if is_random and not _is_inactive(op, args):
            raise RandomOperation(node)
        if is_random and "dropout" in op.overloadpacket.__name__:
            return _without_dropout(args, node.meta.get("val"))
        if not any(isinstance(v, Formulas) for v in leaves_of((args, kwargs))):
            return _evaluate(op, args, kwargs)
        return self._formulas(node, op, args, kwargs)

    def _subgraph(self, node: Node, args: Any) -> Any:
        """A subgraph that runs under another mode (no gradients, no autocast)."""
        inner = next((a for a in args if isinstance(a, torch.fx.GraphModule)), None)
        if inner is None or not str(node.target.__name__).startswith("wrap_with"):  # type: ignore[union-attr]
            raise RandomOperation(node)
        leaf_values = args[list(map(lambda a: a is inner, args)).index(True) + 1 :]
        names = [n.name for n in inner.graph.nodes if n.op == "placeholder"]
        return list(self._graph(inner.graph, inner, dict(zip(names, leaf_values, strict=True))))[-1][1]

    def _formulas(self, node: Node, op: Any, args: Any, kwargs: Any) -> Any:
        result = node.meta["val"]
        try:
            value = self._by_rule(node, op, args, kwargs)
            _check_shapes(value, result)
        except RandomOperation:
            raise
        except Exception:  # a rule that fails for these arguments counts as missing
            self.without_rule.append(node)
            value = _opaque(op, args, kwargs, result, self.masks_infinite)
        return value

    def _by_rule(self, node: Node, op: Any, args: Any, kwargs: Any) -> Any:
        """By its loops, by torch's decomposition, or as an elementwise function. Raises NoRule."""
        name, result = name_of(op), node.meta["val"]
        if name in ORDER_STATISTICS:
            leaf_values = each(
                (args, kwargs), lambda x: in_field(x, self.masks_infinite) if isinstance(x, (Formulas, Tensor)) else x
            )
            return _with_dtypes(ORDER_STATISTICS[name](name, result, *leaf_values[0], **leaf_values[1]), result)
        if op in parts():
            return self._decomposed(node, op, args, kwargs)
        if torch.Tag.pointwise in op.tags and name not in operation_names():
            return _pointwise(name, args, kwargs, result, self.masks_infinite)
        return _by_loops(op, args, kwargs, result, self.masks_infinite)

    def _decomposed(self, node: Node, op: Any, args: Any, kwargs: Any) -> Any:
        """By torch's decomposition."""
        leaf_values = [x for x in leaves_of((args, kwargs)) if isinstance(x, (Formulas, Tensor))]
        graph = node.meta.get("decomposed") or node.meta.setdefault("decomposed", _traced(op, args, kwargs))
        names = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
        before, constants = len(self.without_rule), self.constants
        self.constants = {}
        try:
            value = list(self._graph(graph.graph, graph, dict(zip(names, leaf_values, strict=True))))[-1][1]
        finally:
            self.constants = constants
        if len(self.without_rule) > before:
            self.without_rule[before:] = [node]
        return tuple(value) if isinstance(value, list) else value


def _traced(op: Any, args: Any, kwargs: Any) -> torch.fx.GraphModule:
    """The decomposition of an operation for tensors of these shapes, as a graph."""

    def blank(x: Any) -> Any:
        return torch.zeros(x.t.shape, dtype=x.dtype) if isinstance(x, Formulas) else x

    leaf_values = [blank(x) for x in leaves_of((args, kwargs)) if isinstance(x, (Formulas, Tensor))]

    def rerun(*tensors: Tensor) -> Any:
        rest = iter(tensors)
        filled = each((args, kwargs), lambda x: next(rest) if isinstance(x, (Formulas, Tensor)) else x)
        return op(*filled[0], **filled[1])

    return make_fx(rerun, decomposition_table=parts(), tracing_mode="fake")(*leaf_values)


def _by_loops(op: Any, args: Any, kwargs: Any, result: Any, masks_infinite: bool) -> Any:
    steps = FieldSteps(masks_infinite)

    def leaf_values(x: Any) -> Any:
        if isinstance(x, Formulas):
            part = FLOATS.get(x.dtype, x.dtype)
            real = steps.to_value(x.t, part)
            return real if x.imag is None else Complex(real, steps.to_value(x.imag, part))
        return constant(steps, x) if isinstance(x, Tensor) else x

    args, kwargs = each((args, kwargs), leaf_values)
    value = called(steps, op, args, kwargs)
    is_tuple = isinstance(result, (list, tuple))

    def to_formulas(value: Any, like: Tensor) -> Any:
        if not isinstance(value, Complex):
            return Formulas(steps.read(value), like.dtype) if like is not None else None
        return Formulas(steps.read(value.real), like.dtype, steps.read(value.imag))

    return tuple(map(to_formulas, value, result)) if is_tuple else to_formulas(value, result)


def operation(node: Node) -> str:
    """The name of the operation, such as aten.bmm."""
    op: Any = node.target
    return f"aten.{op.overloadpacket.__name__}" if isinstance(op, torch._ops.OpOverload) and op.namespace == "aten" else str(op)


def module_of(node: Node) -> str:
    """The path of the innermost module of the operation; empty for the model itself."""
    names = [name for name, _ in (node.meta.get("nn_module_stack") or {}).values()]
    return str(names[-1]).removeprefix("model").removeprefix(".") if names else ""


def _evaluate(op: Any, args: Any, kwargs: Any) -> Any:
    with torch.no_grad():
        return op(*args, **kwargs)


def _is_inactive(op: Any, args: Any) -> bool:
    """Whether it is dropout at rate 0 or in evaluation mode."""
    name = op.overloadpacket.__name__
    if name == "scaled_dot_product_attention":
        return len(args) < 5 or args[4] == 0
    return (name == "native_dropout" and (args[1] == 0 or args[2] is False)) or (
        name == "dropout" and (args[1] == 0 or not args[2])
    )


def _without_dropout(args: Any, result: Any) -> Any:
    x = args[0]
    return (x, torch.ones(result[0].shape, dtype=torch.bool)) if isinstance(result, (list, tuple)) else x


def _check_shapes(value: Any, result: Any) -> None:
    """Assert that a rule returns the right shapes."""
    if isinstance(result, Tensor):
        assert tuple(value.t.shape) == tuple(result.shape)
    elif isinstance(result, (list, tuple)) and isinstance(value, tuple):
        for f, m in zip(value, result, strict=True):
            assert not isinstance(m, Tensor) or tuple(f.t.shape) == tuple(m.shape)


def _with_dtypes(value: Any, result: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(Formulas(f, m.dtype) for f, m in zip(value, result, strict=True))
    return Formulas(value, result.dtype)


def _pointwise(name: str, args: Any, kwargs: Any, result: Any, masks_infinite: bool) -> Formulas:
    """An elementwise function. Arguments that are not tensors belong to its name."""
    if result.dtype.is_complex or any(isinstance(v, (list, tuple)) for v in args):
        raise NoRule
    leaf_values = [in_field(v, masks_infinite) for v in leaves_of((args, kwargs)) if isinstance(v, (Tensor, Formulas))]
    words = [repr(v) for v in leaves_of((args, kwargs)) if not isinstance(v, (Tensor, Formulas))]
    return Formulas(function((name, *words), *torch.broadcast_tensors(*leaf_values)), result.dtype)


def _opaque(op: Any, args: Any, kwargs: Any, result: Any, masks_infinite: bool) -> Any:
    """A function of everything that the operation reads, a different one for each entry."""
    read = [
        ordered("read", in_field(v, masks_infinite).flatten(), [0])
        for v in leaves_of((args, kwargs))
        if isinstance(v, (Tensor, Formulas))
    ]
    words = repr([v for v in leaves_of((args, kwargs)) if not isinstance(v, (Tensor, Formulas))])
    name = function((str(op), words), *read)

    def entry(number: int, like: Tensor) -> Formulas:
        return unknown_values(like, "place", number).map(lambda t: function(("entry", number), t, name.expand(like.shape)))

    return tuple(entry(n, m) for n, m in enumerate(result)) if isinstance(result, (list, tuple)) else entry(0, result)


__all__ = ["RandomOperation", "Walk", "hash_key", "module_of", "operation"]
