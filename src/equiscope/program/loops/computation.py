"""A function of tensors as a record that a page can run: torch traces it, and every operation becomes loop steps.

There is no second implementation of a model: the page computes what PyTorch computes, gradients included.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from equiscope.errors import InputError
from equiscope.program.loops import lower_products, lower_scans  # noqa: F401  # enter their operations into the list
from equiscope.program.loops.aten import ALIASES, LIKE, LOWERED, VIEWS, name_of, operation_names, parts
from equiscope.program.loops.loop_ir import LoopIR, Value
from equiscope.program.loops.lower_complex import Complex, complex_rule, constant, on_complex
from equiscope.program.loops.lower_views import viewed
from equiscope.program.program import each, leaves_of
from equiscope.record.computation import Computation

Function = Callable[..., dict[str, Tensor]]
STORAGE = ("memory_format", "layout", "device", "pin_memory", "non_blocking")  # arguments that change no value


def computation(function: Function, inputs: dict[str, Tensor]) -> Computation:
    """What function(**inputs) computes, for other numbers of the same shapes.

    inputs   by name; floating-point numbers in float64
    returns  a record with the function's outputs, by name
    raises   InputError for an operation without steps, a branch or a shape that depends on the input, random numbers, and
             numbers that are not float64
    """
    names = list(inputs)
    outputs: list[str] = []

    def flat(*tensors: Tensor) -> list[Tensor]:
        results = function(**dict(zip(names, tensors, strict=True)))
        others = [name for name, x in results.items() if not isinstance(x, Tensor)]
        if others:
            raise InputError(
                f"The outputs of a computation are tensors by name, but {others[0]} is {type(results[others[0]]).__name__}."
            )
        outputs[:] = list(results)
        return list(results.values())

    graph = traced(flat, list(inputs.values()))
    ir = LoopIR()
    given = {name: ir.fresh(x.shape, x.dtype) for name, x in inputs.items()}
    values = _Reader(ir, graph).read(list(given.values()))
    return ir.computation(given, dict(zip(outputs, values, strict=True)))


def with_forces(function: Function) -> Function:
    """The same function with "forces": minus the gradient of the sum of its "energy" by its input `positions`."""

    def computed(positions: Tensor, **rest: Tensor) -> dict[str, Tensor]:
        with torch.enable_grad():
            inputs = positions.detach().requires_grad_()
            outputs = function(positions=inputs, **rest)
            energy = outputs["energy"].sum()
            depends = energy.requires_grad  # else no path leads from the positions to the energy
            gradient = torch.autograd.grad(energy, inputs, materialize_grads=True)[0] if depends else torch.zeros_like(inputs)
        return {**{name: x.detach() for name, x in outputs.items()}, "forces": -gradient}

    return computed


def traced(function: Callable[..., list[Tensor]], inputs: list[Tensor]) -> GraphModule:
    """The graph of torch's operations that the function calls."""
    try:
        # one mode for the shapes of all steps: else torch makes one for each, which takes as long as the rest
        with sdpa_kernel([SDPBackend.MATH]), torch.no_grad(), tracing(TracingContext(FakeTensorMode())):
            graph = make_fx(function, decomposition_table=parts())(*inputs)
            if any(_writes(node) for node in graph.graph.nodes):
                graph = make_fx(torch.func.functionalize(graph), decomposition_table=parts())(*inputs)
    except RuntimeError as error:
        if "tracing tensor" not in str(error) and "data-dependent" not in str(error).lower():
            raise
        raise InputError(
            "A computation cannot branch: somewhere Python asks for a number that depends on the input. Use torch.where, or fix "
            f"what it asks for before. torch says: {str(error).splitlines()[0]}"
        ) from error
    graph.graph.eliminate_dead_code()
    return graph


class _Reader:
    """Walks a graph in order; each node becomes a value of the loop IR, a tuple of values, or None."""

    def __init__(self, ir: LoopIR, graph: GraphModule) -> None:
        self.ir, self.graph = ir, graph
        self.values: dict[Node, Any] = {}
        self.cache: dict[Any, Any] = {}

    def read(self, inputs: list[Value]) -> list[Any]:
        rest = iter(inputs)
        for node in self.graph.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = next(rest)
            elif node.op == "get_attr":
                attribute = _attribute(self.graph, str(node.target))
                self.values[node] = constant(self.ir, attribute) if isinstance(attribute, Tensor) else attribute
            elif node.op == "output":
                return list(self._resolve(node.args[0]))
            else:
                arguments, named = self._resolve(node.args), self._resolve(node.kwargs)
                key = (node.target, _frozen(arguments), _frozen(named))
                if key not in self.cache:
                    self.cache[key] = self._lower(node, arguments, named)
                self.values[node] = self.cache[key]
        raise AssertionError("a graph has an output")

    def _lower(self, node: Node, arguments: Any, named: Any) -> Any:
        op: Any = node.target
        name, ir = name_of(op), self.ir
        if name == "getitem":
            return arguments[0][arguments[1]]
        if torch.Tag.nondeterministic_seeded in getattr(op, "tags", ()):
            raise InputError(f"A computation is the same each time, but {name} draws by chance. Call model.eval() first.")
        results = called(ir, op, arguments, named)
        if any(x.slot not in ir.bases for x in values_in(results)):
            self._double(op, node)
        return results

    def _double(self, op: Any, node: Node) -> None:
        meta = node.meta.get("tensor_meta")
        dtype = getattr(meta, "dtype", torch.float64)
        if dtype.is_floating_point and dtype != torch.float64:
            raise InputError(f"A computation is in float64, but {op} makes {dtype}. Call model.double(), and give float64 inputs.")

    def _resolve(self, some: Any) -> Any:
        return each(some, lambda x: self.values[x] if isinstance(x, Node) else x)


def called(ir: LoopIR, op: Any, arguments: Any, named: dict[str, Any]) -> Any:
    """The result of a torch operation on values, as steps. Raises InputError for an operation that has none."""
    name, values = name_of(op), values_in([arguments, named])

    def tensor_of(x: Any) -> Any:
        """The tensor of a constant, or a tensor of the same shape where only the shape is read."""
        if isinstance(x, Complex):
            return torch.complex(tensor_of(x.real), tensor_of(x.imag))
        if not isinstance(x, Value):
            return x
        return ir.tensor(x) if x.slot in ir.bases else torch.zeros(x.shape, dtype=x.dtype)

    if name in LIKE or all(x.slot in ir.bases for x in values):
        results = op(*each(arguments, tensor_of), **each(named, tensor_of))
        return each(results, lambda x: constant(ir, x) if isinstance(x, Tensor) else x)
    named = {key: x for key, x in named.items() if key not in STORAGE}
    if on_complex(name, list(leaves_of([arguments, named]))):
        return complex_rule(op, name)(ir, *arguments, **named)
    if name in VIEWS and op is not torch.ops.aten.view.dtype:
        return viewed(ir, op, arguments[0], arguments[1:], named)
    if name in ALIASES:
        return arguments[0]
    if name not in LOWERED:
        raise InputError(
            f"A computation has no steps for {op}; it has {len(operation_names())} others: "
            "equiscope.program.loops.aten.operation_names(). Write the model with these, or add its loops to program/loops."
        )
    return LOWERED[name](ir, *arguments, **named)


def values_in(some: Any) -> list[Value]:
    """The values in arguments or results; a complex value is two."""
    parts = [(x.real, x.imag) if isinstance(x, Complex) else (x,) for x in leaves_of(some)]
    return [x for both in parts for x in both if isinstance(x, Value)]


def _writes(node: Node) -> bool:
    return bool(getattr(getattr(node.target, "_schema", None), "is_mutable", False))


def _attribute(graph: GraphModule, path: str) -> Any:
    attribute: Any = graph
    for name in path.split("."):
        attribute = getattr(attribute, name)
    return attribute


def _frozen(some: Any) -> Any:
    if isinstance(some, list | tuple):
        return tuple(_frozen(x) for x in some)
    if isinstance(some, dict):
        return tuple(sorted((key, _frozen(x)) for key, x in some.items()))
    return (type(some), some)  # 1 is no True and no 1.0
