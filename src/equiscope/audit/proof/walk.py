"""Walk: run a program over the field, operation by operation.

What depends on no input and no parameter (masks, tables of positions) is computed with its real numbers. Everything else is a
formula. An operation without a rule is a function of everything that it reads, so nothing can be proved by not knowing it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from equiscope.audit.proof.exported_program import Program
from equiscope.audit.proof.field import NoRule, function, key, listed
from equiscope.audit.proof.field_steps import FieldSteps
from equiscope.audit.proof.formulas import Formulas, lifted, unknown_numbers
from equiscope.audit.proof.order_statistics import ORDER_STATISTICS
from equiscope.program.loops.aten import known, name_of, parts
from equiscope.program.loops.computation import called
from equiscope.program.loops.lower_complex import Complex, constant
from equiscope.program.program import each, leaves_of

FLOATS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
SILENT = ("_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size")


class Random(Exception):
    """An operation draws random numbers; the node says which."""

    def __init__(self, node: Node) -> None:
        super().__init__(operation(node))
        self.node = node


@dataclass
class Walk:
    """One way through a program, for one choice of random numbers.

    kept     what depends on no input, shared by walks of one seed
    unruled  operations that had no rule, in their order
    """

    program: Program
    seed: int = 0
    deep: bool = False
    kept: dict[Node, Any] = field(default_factory=dict)
    unruled: list[Node] = field(default_factory=list)

    def outputs(self, given: list[Any]) -> dict[str, Tensor]:
        """What comes out, by name, in the field."""
        wanted = {node for _, node in self.program.outputs if node is not None}
        values = {node: value for node, value in self.steps(given) if node in wanted}
        return {name: lifted(values[node], self.deep) for name, node in self.program.outputs if node in values}

    def steps(self, given: list[Any]) -> Iterator[tuple[Node, Any]]:
        """Every operation with its value. Raises Random."""
        yield from self._graph(self.program.graph, self.program.module, self._placed(given))

    def _placed(self, given: list[Any]) -> dict[str, Any]:
        return {name: given[number] for name, number in self.program.given.items()}

    def _graph(self, graph: Any, module: Any, placed: dict[str, Any]) -> Iterator[tuple[Node, Any]]:
        values: dict[Node, Any] = {}
        left = {node: len(node.users) for node in graph.nodes}
        for node in graph.nodes:
            if node in self.kept:
                values[node] = self.kept[node]
            elif node.op == "output":
                values[node] = torch.fx.node.map_arg(node.args[0], lambda n: values[n])
            elif node.op == "placeholder":
                values[node] = self._placeholder(node, placed)
            elif node.op == "get_attr":
                values[node] = getattr(module, str(node.target))
            else:
                values[node] = self._made(node, values, module)
            if (node.op == "placeholder" and node.name not in placed) or (
                node.op == "call_function" and all(n in self.kept for n in node.all_input_nodes)
            ):
                self.kept[node] = values[node]
            yield node, values[node]
            for source in node.all_input_nodes:
                left[source] -= 1
                if not left[source]:
                    values.pop(source, None)

    def _placeholder(self, node: Node, placed: dict[str, Any]) -> Any:
        if node.name in placed:
            return placed[node.name]
        if (name := self.program.parameters.get(node.name)) is not None:
            return unknown_numbers(node.meta["val"], "parameter", name, self.seed)
        return self.program.buffers[node.name]

    def _made(self, node: Node, values: dict[Node, Any], module: Any) -> Any:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])
        op: Any = node.target
        if getattr(op, "__name__", "") == "getitem":
            return args[0][args[1]]  # type: ignore[index]
        if not isinstance(op, torch._ops.OpOverload):
            return self._inner(node, args) if isinstance(op, torch._ops.HigherOrderOperator) else op(*args, **kwargs)
        if op.overloadpacket.__name__ == "sym_size":
            sized: Any = args[0].t if isinstance(args[0], Formulas) else args[0]
            return sized.shape[args[1]]
        if op.overloadpacket.__name__ in SILENT:
            return None
        drawn = torch.Tag.nondeterministic_seeded in op.tags
        if drawn and not _still(op, args):
            raise Random(node)
        if drawn and "dropout" in op.overloadpacket.__name__:
            return _dropless(args, node.meta.get("val"))
        if not any(isinstance(v, Formulas) for v in leaves_of((args, kwargs))):
            return _folded(op, args, kwargs)
        return self._formulas(node, op, args, kwargs)

    def _inner(self, node: Node, args: Any) -> Any:
        """A part that runs under another mode (no gradients, no autocast): its operations, one after another."""
        inner = next((a for a in args if isinstance(a, torch.fx.GraphModule)), None)
        if inner is None or not str(node.target.__name__).startswith("wrap_with"):  # type: ignore[union-attr]
            raise Random(node)
        given = args[list(map(lambda a: a is inner, args)).index(True) + 1 :]
        names = [n.name for n in inner.graph.nodes if n.op == "placeholder"]
        return list(self._graph(inner.graph, inner, dict(zip(names, given, strict=True))))[-1][1]

    def _formulas(self, node: Node, op: Any, args: Any, kwargs: Any) -> Any:
        made = node.meta["val"]
        try:
            found = self._by_rule(node, op, args, kwargs)
            _fits(found, made)
        except Random:
            raise
        except Exception:  # a rule that does not fit these arguments is none
            self.unruled.append(node)
            found = _unknown(op, args, kwargs, made, self.deep)
        return found

    def _by_rule(self, node: Node, op: Any, args: Any, kwargs: Any) -> Any:
        """By its loops; as torch takes it apart; or as a function of the entries that stand at one place. Raises NoRule."""
        name, made = name_of(op), node.meta["val"]
        if name in ORDER_STATISTICS:
            given = each((args, kwargs), lambda x: lifted(x, self.deep) if isinstance(x, (Formulas, Tensor)) else x)
            return _typed(ORDER_STATISTICS[name](name, made, *given[0], **given[1]), made)
        if op in parts():
            return self._decomposed(node, op, args, kwargs)
        if torch.Tag.pointwise in op.tags and name not in known():
            return _pointwise(name, args, kwargs, made, self.deep)
        return _by_loops(op, args, kwargs, made, self.deep)

    def _decomposed(self, node: Node, op: Any, args: Any, kwargs: Any) -> Any:
        """As the operations that torch makes of it."""
        given = [x for x in leaves_of((args, kwargs)) if isinstance(x, (Formulas, Tensor))]
        graph = node.meta.get("decomposed") or node.meta.setdefault("decomposed", _traced(op, args, kwargs))
        names = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
        before, kept = len(self.unruled), self.kept
        self.kept = {}
        try:
            found = list(self._graph(graph.graph, graph, dict(zip(names, given, strict=True))))[-1][1]
        finally:
            self.kept = kept
        if len(self.unruled) > before:
            self.unruled[before:] = [node]
        return tuple(found) if isinstance(found, list) else found


def _traced(op: Any, args: Any, kwargs: Any) -> torch.fx.GraphModule:
    """The operations that torch makes of one, on tensors of these shapes."""

    def blank(x: Any) -> Any:
        return torch.zeros(x.t.shape, dtype=x.dtype) if isinstance(x, Formulas) else x

    given = [blank(x) for x in leaves_of((args, kwargs)) if isinstance(x, (Formulas, Tensor))]

    def again(*tensors: Tensor) -> Any:
        rest = iter(tensors)
        filled = each((args, kwargs), lambda x: next(rest) if isinstance(x, (Formulas, Tensor)) else x)
        return op(*filled[0], **filled[1])

    return make_fx(again, decomposition_table=parts(), tracing_mode="fake")(*given)


def _by_loops(op: Any, args: Any, kwargs: Any, made: Any, deep: bool) -> Any:
    steps = FieldSteps(deep)

    def given(x: Any) -> Any:
        if isinstance(x, Formulas):
            part = FLOATS.get(x.dtype, x.dtype)
            real = steps.lifted(x.t, part)
            return real if x.imag is None else Complex(real, steps.lifted(x.imag, part))
        return constant(steps, x) if isinstance(x, Tensor) else x

    args, kwargs = each((args, kwargs), given)
    found = called(steps, op, args, kwargs)
    several = isinstance(made, (list, tuple))

    def numbers(value: Any, like: Tensor) -> Any:
        if not isinstance(value, Complex):
            return Formulas(steps.read(value), like.dtype) if like is not None else None
        return Formulas(steps.read(value.real), like.dtype, steps.read(value.imag))

    return tuple(map(numbers, found, made)) if several else numbers(found, made)


def operation(node: Node) -> str:
    """Its name, as in aten.bmm."""
    op: Any = node.target
    return f"aten.{op.overloadpacket.__name__}" if isinstance(op, torch._ops.OpOverload) and op.namespace == "aten" else str(op)


def module_of(node: Node) -> str:
    """The deepest module that the operation stands in, by its name in the model; empty for the model itself."""
    names = [name for name, _ in (node.meta.get("nn_module_stack") or {}).values()]
    return str(names[-1]).removeprefix("model").removeprefix(".") if names else ""


def _folded(op: Any, args: Any, kwargs: Any) -> Any:
    with torch.no_grad():
        return op(*args, **kwargs)


def _still(op: Any, args: Any) -> bool:
    """Dropout that drops nothing."""
    name = op.overloadpacket.__name__
    if name == "scaled_dot_product_attention":
        return len(args) < 5 or args[4] == 0
    return (name == "native_dropout" and (args[1] == 0 or args[2] is False)) or (
        name == "dropout" and (args[1] == 0 or not args[2])
    )


def _dropless(args: Any, made: Any) -> Any:
    x = args[0]
    return (x, torch.ones(made[0].shape, dtype=torch.bool)) if isinstance(made, (list, tuple)) else x


def _fits(found: Any, made: Any) -> None:
    """Our own mistakes in a rule must not pass."""
    if isinstance(made, Tensor):
        assert tuple(found.t.shape) == tuple(made.shape)
    elif isinstance(made, (list, tuple)) and isinstance(found, tuple):
        for f, m in zip(found, made, strict=True):
            assert not isinstance(m, Tensor) or tuple(f.t.shape) == tuple(m.shape)


def _typed(found: Any, made: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(Formulas(f, m.dtype) for f, m in zip(found, made, strict=True))
    return Formulas(found, made.dtype)


def _pointwise(name: str, args: Any, kwargs: Any, made: Any, deep: bool) -> Formulas:
    """A function of the entries that stand at one place. What is no tensor belongs to its name."""
    if made.dtype.is_complex or any(isinstance(v, (list, tuple)) for v in args):
        raise NoRule
    given = [lifted(v, deep) for v in leaves_of((args, kwargs)) if isinstance(v, (Tensor, Formulas))]
    words = [repr(v) for v in leaves_of((args, kwargs)) if not isinstance(v, (Tensor, Formulas))]
    return Formulas(function((name, *words), *torch.broadcast_tensors(*given)), made.dtype)


def _unknown(op: Any, args: Any, kwargs: Any, made: Any, deep: bool) -> Any:
    """A function of everything that is read, for each entry another one."""
    read = [listed("read", lifted(v, deep).flatten(), [0]) for v in leaves_of((args, kwargs)) if isinstance(v, (Tensor, Formulas))]
    words = repr([v for v in leaves_of((args, kwargs)) if not isinstance(v, (Tensor, Formulas))])
    name = function((str(op), words), *read)

    def one(number: int, like: Tensor) -> Formulas:
        return unknown_numbers(like, "place", number).map(lambda t: function(("entry", number), t, name.expand(like.shape)))

    return tuple(one(n, m) for n, m in enumerate(made)) if isinstance(made, (list, tuple)) else one(0, made)


__all__ = ["Random", "Walk", "key", "module_of", "operation"]
