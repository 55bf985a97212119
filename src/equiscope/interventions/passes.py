"""One forward pass of a model, in which values at points are read and changed.

Attention is reached through torch's functions, at the implementation that the model uses: queries, keys and values are changed
before a fused call, and the output after it. Scores and weights do not exist in a fused call: for the heads whose scores or weights
are read or changed they are computed beside it, and these heads' output is with_main_tensor. Other values are reached by hooks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.interventions.attention_calls import (
    FUSED_NAMES,
    MASKED,
    PRODUCTS,
    SOFTMAX,
    AttentionSite,
    FusedCall,
    Product,
    Reader,
    attend,
    four_axes,
)
from equiscope.interventions.main_tensor import holder, main_tensor, with_main_tensor
from equiscope.program.attended.calls import scoped
from equiscope.program.hooks import hooked
from equiscope.program.modes import Functions, uncompiled
from equiscope.program.private import opened


class ValuePoint(NamedTuple):
    """Where a value stands: a quantity of an attention by its number; "module", "input" or "positions" of a module by its path: its
    result, its first argument of floats, of whole numbers; or a "table" that is added, by the name of the parameter.
    """

    quantity: str
    key: int | str


class Edit(NamedTuple):
    """A change of the value at a point.

    change  gets the value [B, ...] of one copy of the inputs, and returns the new one
    heads   that it changes; None: all. copy: number of the copy of the inputs that it changes; None: all
    """

    change: Callable[[Tensor], Tensor]
    heads: tuple[int, ...] | None = None
    copy: int | None = None


Edits = Mapping[ValuePoint, Sequence[Edit]]
SUMS = (torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.add_, Tensor.__iadd__)
BESIDE = ("allowed", "scores", "weights")


@dataclass
class Structure:
    """What the reading pass found: attentions, and how many calls a pass makes."""

    attentions: list[AttentionSite] = field(default_factory=list)
    counts: tuple[int, int, int] = (0, 0, 0)

    def __post_init__(self) -> None:
        self.fused = {one.fused: one.index for one in self.attentions if one.fused >= 0}
        self.products = {one.product: (one.index, "first") for one in self.attentions if one.product >= 0}
        self.products |= {one.mixing: (one.index, "second") for one in self.attentions if one.mixing >= 0}
        self.softmaxes = {one.softmax: one.index for one in self.attentions if one.softmax >= 0}


class ForwardPass:
    """A forward pass. structure: of the reading pass; None: this is the reading pass.

    copies  number of copies of the inputs along the batch axis, the first axis of every value
    holders where the tensor of a module's point stands, as an expression: "args[0]", "output[0]", "args[0].x"
    wanted  points whose values are stored in `values`
    """

    def __init__(
        self, model: nn.Module, structure: Structure | None = None, edits: Edits | None = None, wanted: Sequence[ValuePoint] = (),
        copies: int = 1, gradients: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.structure, self.edits, self.wanted = model, structure, dict(edits or {}), set(wanted)
        self.copies, self.gradients, self.values = copies, gradients, dict[ValuePoint, Tensor]()
        self.scope: list[str] = []
        self.reader = Reader(lambda: self.scope[-1] if self.scope else "") if structure is None else None
        self._fused_calls = self._products = self._softmaxes = self._heads_of_batch = 0
        self._net = Functions(self._answer)
        tables = [point for point in self.edits if point.quantity == "table"]
        self._tables = {id(model.get_parameter(str(point.key))): point for point in tables}
        self._reached: set[ValuePoint] = set()
        self.holders: dict[ValuePoint, str] = {}

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The model's output. Every hook is gone afterwards, also after an exception."""
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.gradients))
            stack.enter_context(uncompiled())
            stack.enter_context(self._modules())
            if self.reader is not None:
                self.scope = stack.enter_context(scoped(self.model))
            stack.enter_context(self._net)
            output = self.model(*args, **kwargs)
        counts = self._fused_calls, self._products, self._softmaxes
        if self.structure is None:
            assert self.reader is not None
            self.structure = Structure(self.reader.attentions, counts)
        elif counts != self.structure.counts and any(isinstance(point.key, int) for point in (*self.edits, *self.wanted)):
            raise InputError(
                "With this change the model computes other attentions than before: it branches on its numbers, so a site cannot be "
                "found again. Change another site."
            )
        missed = [point for point in self.edits if point not in self._reached]
        if missed:
            raise InputError(f"{_named(missed[0])} was not reached: the model does not compute it on this input.")
        return output

    # --- values at points
    def _at(self, point: ValuePoint, value: Tensor) -> Tensor:
        """The value after the edits of this point; it is stored where it is wanted."""
        for edit in self.edits.get(point, ()):
            self._reached.add(point)
            value = self._edited(value, edit)
        if point in self.wanted:
            self.values[point] = value if self.gradients else value.detach().clone()
        return value

    def _edited(self, value: Tensor, edit: Edit) -> Tensor:
        if edit.copy is None or self.copies == 1:
            return edit.change(value)
        size, rest = divmod(len(value), self.copies)
        if rest or not size:
            raise InputError(f"a value {list(value.shape)} has no axis for {self.copies} copies")
        rows = slice(edit.copy * size, (edit.copy + 1) * size)
        value = value.clone()
        value[rows] = edit.change(value[rows])
        return value

    def _touched(self, *points: ValuePoint) -> bool:
        return any(point in self.edits or point in self.wanted for point in points)

    # --- modules
    @contextmanager
    def _modules(self) -> Iterator[None]:
        paths = {str(p.key) for p in (*self.edits, *self.wanted) if isinstance(p.key, str) and p.quantity != "table"}
        modules = [(path, self.model.get_submodule(path)) for path in sorted(paths)]

        def before(path: str, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if (positions := ValuePoint("positions", path)) in self.edits:
                args, kwargs = self._positions(positions, args, kwargs)
                return args, kwargs
            point = ValuePoint("input", path)
            if not self._touched(point):
                return None
            value = main_tensor((args, kwargs))
            if value is None:
                raise InputError(f"{path} takes no tensor of floats, so its input cannot be changed.")
            self.holders[point] = holder(args, "args") or holder(kwargs, "kwargs")
            return with_main_tensor((args, kwargs), self._at(point, value))

        def after(path: str, _: nn.Module, output: Any) -> Any:
            point = ValuePoint("module", path)
            if output is None or not self._touched(point):
                return None
            value = main_tensor(output)
            if value is None:
                raise InputError(f"{path} returns no tensor of floats, so its output cannot be changed.")
            self.holders[point] = holder(output, "output")
            return with_main_tensor(output, self._at(point, value))

        with hooked(modules, before=before, after=after):
            yield

    def _positions(self, point: ValuePoint, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a module that reads positions: its first tensor of whole numbers after the edits."""
        named = [*enumerate(args), *kwargs.items()]
        key = next((key for key, x in named if isinstance(x, Tensor) and not x.is_floating_point()), None)
        if key is None:
            raise InputError(f"{point.key} was given no positions, so no token can be moved.")
        new, options = list(args), dict(kwargs)
        target: Any = new if isinstance(key, int) else options
        target[key] = self._at(point, target[key])
        return tuple(new), options

    # --- functions of torch
    def _answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in FUSED_NAMES:
            return self._fused(func, args, kwargs)
        if func in PRODUCTS or func is torch.einsum:
            return self._product(func, args, kwargs)
        if func in SOFTMAX:
            return self._softmax(func, args, kwargs)
        if self._tables and func in SUMS:
            args = tuple(self._at(self._tables[id(x)], x) if id(x) in self._tables else x for x in args)
        if func is F.multi_head_attention_forward and (inner := opened(func)) is not None:
            return self._inside(inner, args, kwargs)
        return func(*args, **kwargs)

    def _inside(self, inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """nn.MultiheadAttention: its heads may lie in the batch axis."""
        self._heads_of_batch = args[4] if len(args) > 4 else kwargs["num_heads"]
        if self.reader is not None:
            self.reader.heads_of_batch = self._heads_of_batch
        try:
            with self._net:
                return inner(*args, **kwargs)
        finally:
            self._heads_of_batch = 0
            if self.reader is not None:
                self.reader.heads_of_batch = 0

    def _fused(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        number, self._fused_calls = self._fused_calls, self._fused_calls + 1
        if self.reader is not None:
            self.reader.fused(number, FusedCall.of(func, args, kwargs))
            return func(*args, **kwargs)
        assert self.structure is not None
        index = self.structure.fused.get(number, -1)
        points = [ValuePoint(name, index) for name in ("q", "k", "v", "output", *BESIDE)]
        if not self._touched(*points):
            return func(*args, **kwargs)
        call, one = FusedCall.of(func, args, kwargs), self.structure.attentions[index]
        if call.given.get("dropout_p"):
            raise InputError(
                "The model drops attention weights at random, so a change is not distinct from chance. Call model.eval()."
            )
        q, k, v = (self._rows(point, t, one) for point, t in zip(points[:3], (call.q, call.k, call.v), strict=True))
        output = call.run(q, k, v)
        if self._touched(*points[4:]):
            output = self._edited_heads(call, one, q, k, v, output)
        return self._at(points[3], four_axes(output)).reshape(output.shape) if self._touched(points[3]) else output

    def _rows(self, point: ValuePoint, t: Tensor, one: AttentionSite, keys: bool = False) -> Tensor:
        """Queries, keys or values after the edits; under grouped queries each head of keys and values once."""
        if not self._touched(point):
            return t
        view = four_axes(t, self._heads_of_batch)
        each = view.shape[1] // one.kv_heads if point.quantity in ("k", "v") else 1
        value = self._at(point, view[:, ::each])
        return (value.repeat_interleave(each, 1) if each > 1 else value).reshape(t.shape)

    def _edited_heads(self, call: FusedCall, one: AttentionSite, q: Tensor, k: Tensor, v: Tensor, output: Tensor) -> Tensor:
        """The output with the heads whose scores or weights are edited with_main_tensor by these, computed step by step."""
        points = [ValuePoint(name, one.index) for name in BESIDE]
        edits = [edit for point in points for edit in self.edits.get(point, ())]
        every = any(point in self.wanted for point in points) or any(edit.heads is None for edit in edits)
        heads = list(range(one.heads)) if every else sorted({h for edit in edits for h in edit.heads or ()})
        q, k, v, full = (four_axes(t) for t in (q, k, v, output))
        k, v = (t if t.shape[1] == one.heads else t.repeat_interleave(one.heads // t.shape[1], 1) for t in (k, v))
        n, m = q.shape[-2], k.shape[-2]
        raw = call.scores(q, k) if every or call.bias is not None else call.scores(q[:, heads], k[:, heads])
        raw = raw if raw.shape[1] == len(heads) else raw[:, heads]
        shape = (len(q), one.heads, n, m)
        mask = call.mask(n, m).expand(shape)
        allowed = self._at(points[0], mask)
        if allowed is not mask and not call.has_bias_of_masked_pairs and bool((allowed & ~mask).any()):
            raise InputError(
                "The mask and the bias of this attention are one tensor, so the bias of masked pairs is unknown, and they cannot "
                "be opened. Give a mask that allows fewer pairs."
            )
        scores = self._some(points[1], raw, heads, one.heads).masked_fill(~allowed[:, heads], -torch.inf)
        if points[1] in self.wanted:
            self.values[points[1]] = scores.detach().clone()
        weights = self._some(points[2], attend(scores, v[:, heads])[0], heads, one.heads)
        if not edits:
            return output  # values were read alone
        z = (weights @ v[:, heads].to(weights.dtype)).to(output.dtype)
        full = full.clone()
        full[:, heads] = z
        return full.reshape(output.shape)

    def _some(self, point: ValuePoint, value: Tensor, heads: list[int], count: int) -> Tensor:
        """Edits count all heads, so values of some heads are laid among all."""
        if not self._touched(point):
            return value
        if len(heads) == count:
            return self._at(point, value)
        full = value.new_zeros(len(value), count, *value.shape[2:])
        full[:, heads] = value
        return self._at(point, full)[:, heads]

    def _product(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        product = Product.of(func, args)
        if product is None:
            return func(*args, **kwargs)
        number, self._products = self._products, self._products + 1
        left, right = (args[i] for i in product.operands)
        if self.reader is not None:
            out = func(*args, **kwargs)
            self.reader.product(number, product.left(left), product.right(right), product.out(out))
            return out
        assert self.structure is not None
        index, role = self.structure.products.get(number, (-1, ""))
        points = [ValuePoint(name, index) for name in (("q", "k") if role == "first" else ("v", "output"))]
        if index < 0 or not self._touched(*points):
            return func(*args, **kwargs)
        one, new = self.structure.attentions[index], list(args)
        if role == "first":
            new[product.operands[0]] = self._inner(points[0], left, product.left, one)
            new[product.operands[1]] = self._inner(points[1], right, lambda t: product.right(t).mT, one)
            return func(*new, **kwargs)
        new[product.operands[1]] = self._inner(points[0], right, product.right, one)
        return self._inner(points[1], func(*new, **kwargs), product.out, one)

    def _inner(self, point: ValuePoint, t: Tensor, view: Callable[[Tensor], Tensor], one: AttentionSite) -> Tensor:
        """A tensor after the edits of a point, where the value is a view of it."""
        if not self._touched(point):
            return t
        t = t.clone()
        value = view(t)
        value.copy_(self._rows(point, value.clone(), one))
        return t

    def _softmax(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        scores, dim = args[0] if args else kwargs["input"], args[1] if len(args) > 1 else kwargs.get("dim", -1)
        if dim not in (-1, scores.ndim - 1):
            return func(*args, **kwargs)
        number, self._softmaxes = self._softmaxes, self._softmaxes + 1
        if self.reader is not None:
            weights = func(*args, **kwargs)
            self.reader.softmax(number, scores, weights)
            return weights
        assert self.structure is not None
        index = self.structure.softmaxes.get(number, -1)
        points = [ValuePoint(name, index) for name in BESIDE]
        if index < 0 or not self._touched(*points):
            return func(*args, **kwargs)
        value = four_axes(scores, self._heads_of_batch)
        mask = value > MASKED
        allowed = self._at(points[0], mask)
        if allowed is not mask:
            if bool((allowed & ~mask).any()):
                raise InputError(
                    "This attention is written out, and the scores of masked pairs are gone before its softmax, so they cannot be "
                    "opened. Give a mask that allows fewer pairs."
                )
            value = value.masked_fill(~allowed, -torch.inf)
        value = torch.where(value > MASKED, self._at(points[1], value), value)
        given = value.reshape(scores.shape)
        weights = func(given, *args[1:], **kwargs) if args else func(**{**kwargs, "input": given})
        view = four_axes(weights, self._heads_of_batch)
        if allowed is not mask:
            view = view.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
        return self._at(points[2], view).reshape(weights.shape)


def _named(point: ValuePoint) -> str:
    return f"The {point.quantity} of {f'attention {point.key}' if isinstance(point.key, int) else point.key}"
