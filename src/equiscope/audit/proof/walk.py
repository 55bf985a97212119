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

from equiscope.audit.proof import elementwise, layout, products, reductions
from equiscope.audit.proof.field import NoRule, function, key, letters, listed
from equiscope.audit.proof.formulas import Call, Formulas, Rule
from equiscope.audit.proof.program import Program

RULES: dict[str, Rule] = {**elementwise.RULES, **layout.RULES, **reductions.RULES, **products.RULES}
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
        blank = Call(None, (), {}, deep=self.deep)
        return {name: blank.lifted(values[node]) for name, node in self.program.outputs if node in values}

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
            made = node.meta["val"]
            return Formulas(letters(made.shape, "parameter", name, self.seed), made.dtype)
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
        if not any(isinstance(v, Formulas) for v in _all(args, kwargs)):
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
        made = node.meta.get("val")
        call = Call(op, args, kwargs, made, self.deep)
        rule = RULES.get(call.name)
        if rule is None and torch.Tag.pointwise in op.tags:
            rule = elementwise.anything
        try:
            if rule is None:
                raise NoRule
            found: Any = rule(call)
            _fits(found, made)
        except Exception:  # a rule that does not fit these arguments is none
            self.unruled.append(node)
            found = _unknown(call)
        return _typed(found, made)


def operation(node: Node) -> str:
    """Its name, as in aten.bmm."""
    op: Any = node.target
    return f"aten.{op.overloadpacket.__name__}" if isinstance(op, torch._ops.OpOverload) and op.namespace == "aten" else str(op)


def module_of(node: Node) -> str:
    """The deepest module that the operation stands in, by its name in the model; empty for the model itself."""
    names = [name for name, _ in (node.meta.get("nn_module_stack") or {}).values()]
    return str(names[-1]).removeprefix("model").removeprefix(".") if names else ""


def _all(args: Any, kwargs: Any) -> Iterator[Any]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)):
            yield from _all(value, {})
        else:
            yield value


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
        assert tuple(found.shape) == tuple(made.shape)
    elif isinstance(made, (list, tuple)) and isinstance(found, tuple):
        for f, m in zip(found, made, strict=True):
            assert not isinstance(m, Tensor) or tuple(f.shape) == tuple(m.shape)


def _typed(found: Any, made: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(Formulas(f, m.dtype) for f, m in zip(found, made, strict=True))
    return Formulas(found, made.dtype)


def _unknown(call: Call) -> Any:
    """A function of everything that is read, for each entry another one."""
    read = [
        listed("read", call.lifted(v).flatten(), [0]) for v in _all(call.args, call.kwargs) if isinstance(v, (Tensor, Formulas))
    ]
    words = repr([v for v in _all(call.args, call.kwargs) if not isinstance(v, (Tensor, Formulas))])
    name = function((str(call.op), words), *read)

    def each(number: int, made: Any) -> Tensor:
        return function(("entry", number), letters(made.shape, "place", number), name.expand(made.shape))

    if isinstance(call.made, (list, tuple)):
        return tuple(each(n, m) for n, m in enumerate(call.made))
    return each(0, call.made)


__all__ = ["RULES", "Random", "Walk", "key", "module_of", "operation"]
