"""An intervention as plain torch: hooks on modules, and a function in place of torch's attention. It runs without equiscope.

The text reads `model` and `inputs`, and `other` (inputs of another run) or `numbers_1` (a tensor) where a change needs them; it
writes `output`, what the model returns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.interventions.attention_calls import AttentionSite
from equiscope.interventions.cache import by_site
from equiscope.interventions.changes import Change, Cut, MaskChange, MeanAblation, Move, Patch, ScaleBy, Set, Swap
from equiscope.interventions.layers import points_of
from equiscope.interventions.moving import moved
from equiscope.interventions.passes import ValuePoint
from equiscope.interventions.sites import OF_HEADS, Site

if TYPE_CHECKING:
    from equiscope.interventions.experiment import Experiment

SDPA = "scaled_dot_product_attention"
MODULES = {SDPA: "torch.nn.functional", "biased_attention": "equiscope.kernels.cpu", "table_attention": "equiscope.kernels.short"}


def code(
    experiment: "Experiment", changes: Sequence[Change | Move], holders: Mapping[ValuePoint, str]
) -> tuple[str, dict[str, Any]]:
    """The text, and the variables that it reads. holders: where the tensors of modules stand in the pass with the changes.

    raises  InputError where a change has no such text, as in attention that is written out
    """
    writer = _TorchText(experiment, holders, any(map(_reads_other_run, changes)) and not _only_saves(experiment, changes))
    for change in changes:
        writer.add(change)
    return writer.text(), writer.given


class _TorchText:
    """Lines of each part of the text. at: of an attention call, before ("q", "k", "v"), inside, and after it."""

    def __init__(self, experiment: "Experiment", holders: Mapping[ValuePoint, str], saves: bool) -> None:
        """saves: a first run stores values, and changes nothing; else the statements that store need no such distinction."""
        self.experiment, self.holders, self.saves = experiment, holders, saves
        self.unless = "if not saving: " if saves else ""
        inputs = experiment.inputs
        self.given: dict[str, Any] = {"model": experiment.model, "inputs": inputs.kwargs or inputs.args}
        self.star = "**" if inputs.kwargs else "*"
        self.hooks: list[list[str]] = []
        self.before: dict[int, list[str]] = {}
        self.inside: dict[int, dict[str, list[str]]] = {}
        self.edited: dict[int, list[str]] = {}
        self.after: dict[int, list[str]] = {}
        self.source: Any = self  # no source yet
        self.imports: set[str] = set()
        self.first: list[str] = []
        self.last: list[str] = []

    def add(self, change: Change | Move) -> None:
        if isinstance(change, Move):
            self._move(change)
            return
        for point in points_of(change.site, self.experiment.layers):
            if isinstance(point.key, int):
                self._attention(change, self.experiment.structure.attentions[point.key], point)
            else:
                self._module(change, point)

    # --- attention
    def _attention(self, change: Change, one: AttentionSite, point: ValuePoint) -> None:
        if one.fused < 0:
            raise InputError(
                f"{one.path} writes its attention out: no function can be replaced, so there is no text in plain torch."
            )
        name = point.quantity
        index = partial(self._index, one)
        if name in ("q", "k", "v"):
            lines = self.before.setdefault(one.fused, [])
            lines += [f"{name} = {name}.clone()", *self._statements(change, name, index, point)]
        elif name == "output":
            self.after.setdefault(one.fused, []).extend(self._statements(change, "output", index, point))
        else:
            stage = "allowed" if isinstance(change, (Cut, MaskChange)) else name
            where = "..., " + (_slice(change.site.index, one.heads) if change.site.index is not None else ":") + ", :, :"
            stages = self.inside.setdefault(one.fused, {})
            stages.setdefault(stage, []).extend(self._statements(change, stage, index, point))
            edited = self.edited.setdefault(one.fused, [])
            heads = [where]
            if isinstance(change, Swap):
                heads.append(f"..., {_slice(change.other, one.heads)}, :, :")
            edited.extend(x for x in heads if x not in edited)

    def _index(self, one: AttentionSite, site: Site) -> str:
        if site.index is None:
            head = ":"
        elif site.quantity in ("k", "v"):
            each = one.heads // one.kv_heads if one.repeated else 1
            first = site.index % one.kv_heads
            head = f"{first * each}:{(first + 1) * each}"
        else:
            head = _slice(site.index, one.heads)
        tokens = ":" if site.tokens is None else str(list(site.tokens))
        return f"..., {head}, {tokens}, {':' if site.entry is None else _plain_slice(site.entry)}"

    def _function(self, number: int, one: AttentionSite, name: str) -> list[str]:
        """A function in place of torch's attention, for one call."""
        stages, lines, call = self.inside.get(number, {}), self._others(one), "original(q, k, v, *args, **options)"
        before = self.before.get(number, [])
        lines += [line for i, line in enumerate(before) if line not in before[:i]]
        each = 1 if one.repeated else one.heads // one.kv_heads
        if stages.keys() == {"weights"} and one.function == SDPA:
            lines.append("unit = torch.eye(k.shape[-2]).to(v).expand(*k.shape[:-1], -1)")
            lines.append("weights = original(q, k, unit, *args, **options).clone()  # for a unit matrix the output is the weights")
            lines += stages["weights"]
            call = "weights @ v" if each == 1 else f"weights @ v.repeat_interleave({each}, -3)"
        elif stages.keys() == {"allowed"} and one.function == SDPA and one.masked != "float":
            mask = "q.new_ones(*q.shape[:-1], k.shape[-2], dtype=torch.bool)"
            if one.masked:
                lines.append('mask = options.get("attn_mask", args[0] if args else None)')
                mask = "mask.expand(*q.shape[:-1], -1)"
            lines += [f"allowed = {mask}.{'tril' if one.causal else 'clone'}()", *stages["allowed"]]
            call = 'original(q, k, v, **options | {"attn_mask": allowed, "is_causal": False})'
        elif stages:
            lines += [f"output = {call}.clone()", *self._step_by_step(number, one)]
            call = "output"
        if after := self.after.get(number):
            lines += [f"output = {call}{'.clone()' if call != 'output' else ''}", *after]
            call = "output"
        original = f"{MODULES[one.function].removeprefix('equiscope.kernels.')}.{one.function}"
        return [f"def {name}(q, k, v, *args, original={original}, **options):", *(f"    {x}" for x in [*lines, f"return {call}"])]

    def _others(self, one: AttentionSite) -> list[str]:
        """Lines that leave other attentions of the same module as they are."""
        same = [site for site in self.experiment.structure.attentions if site.path == one.path and site.fused >= 0]
        if len(same) == 1:
            return []
        self.first.append("calls = []")
        place = same.index(one) + 1
        return [
            "calls.append(0)",
            f"if len(calls) % {len(same)} != {place % len(same)}: return original(q, k, v, *args, **options)",
        ]

    def _step_by_step(self, number: int, one: AttentionSite) -> list[str]:
        """Scores and weights of one attention call, with the changes between them."""
        stages = self.inside[number]
        each = one.heads // one.kv_heads
        lines = []
        if each > 1 and not one.repeated:
            lines.append(f"k, v = k.repeat_interleave({each}, -3), v.repeat_interleave({each}, -3)")
        lines.append(f"scores = q @ k.mT * {one.scale!r}")
        if one.function != "scaled_dot_product_attention":
            self.imports.add("from equiscope.kernels.bias import dense")
            lines.append("mask, causal, bias = args[1:]")
            lines.append("scores = scores + dense(bias)")
            lines.append("allowed = torch.ones_like(scores, dtype=torch.bool)")
            lines.append("allowed = allowed.tril() if causal else allowed")
            lines.append("allowed = allowed if mask is None else allowed & mask")
        else:
            if one.masked:
                lines.append('mask = options.get("attn_mask", args[0] if args else None)')
            allowed = {
                "bool": "mask.expand_as(scores)",
                "float": "(mask > -1e4).expand_as(scores)",
                "": "torch.ones_like(scores, dtype=bool)",
            }
            lines.append(f"allowed = {allowed[one.masked]}.{'tril' if one.causal else 'clone'}()")
            if one.masked == "float":
                lines.append("scores = scores + mask.masked_fill(mask <= -1e4, 0)")
        lines += stages.get("allowed", [])
        lines += stages.get("scores", [])
        lines.append("weights = scores.masked_fill(~allowed, -torch.inf).softmax(-1).nan_to_num(0)")
        lines += stages.get("weights", [])
        lines += [f"{self.unless}output[{where}] = (weights @ v)[{where}]" for where in self.edited[number]]
        return lines

    # --- modules
    def _module(self, change: Change, point: ValuePoint) -> None:
        holder = self.holders[point]
        axis = self.experiment.token_axis(point)
        index = partial(_module_index, axis)
        returns = {
            "output": "return x", "args[0]": "return (x, *args[1:]), kwargs",
            "args[0].x": "return (dataclasses.replace(args[0], x=x), *args[1:]), kwargs", "output[0]": "return (x, *output[1:])",
        }  # fmt: skip
        if holder.startswith("kwargs["):
            returns[holder] = f"return args, kwargs | {{{holder[7:-1]}: x}}"
        if holder not in returns:
            raise InputError(f"{point.key} holds its tensor in {holder}: there is no text in plain torch for it.")
        if holder.endswith(".x"):
            self.imports.add("import dataclasses")
        number = len(self.hooks) + 1
        before = point.quantity == "input"
        arguments = "module, args, kwargs" if before else "module, args, output"
        kind, more = ("register_forward_pre_hook", ", with_kwargs=True") if before else ("register_forward_hook", "")
        hook = f'model.get_submodule("{point.key}").{kind}(change_{number}{more})'
        body = [f"x = {holder}.clone()", *self._statements(change, "x", index, point), returns[holder]]
        self.hooks.append([hook, f"def change_{number}({arguments}):", *(f"    {line}" for line in body)])

    # --- positions
    def _move(self, move: Move) -> None:
        model: Any = self.experiment.model
        token, position = move.token, move.position
        if callable(getattr(model, "tokens", None)) and self.experiment.inputs.args:
            self.imports.add("import dataclasses")
            new = repr(position) if not isinstance(position, tuple) else f"torch.tensor({position})"
            grid = isinstance(position, int) and model.tokens(self.given["inputs"][0]).positions.shape[-1] > 1
            self.first += [
                "tokens = model.tokens(inputs[0])", "positions = tokens.positions.clone()",
                f"positions[..., {token}, :] = {f'tokens.positions[..., {position}, :]' if grid else new}",
                "inputs = (dataclasses.replace(tokens, positions=positions), *inputs[1:])",
            ]  # fmt: skip
            return
        for point, _ in moved(model, (), {}, move)[2]:
            if point.quantity == "table":
                self.first += [
                    f'table = model.get_parameter("{point.key}")', "before = table.detach().clone()",
                    f"table.data[..., {token}, :] = before[..., {position}, :]",
                ]  # fmt: skip
                self.last.append("table.data.copy_(before)")
                continue
            named = "position_ids" if not isinstance(model.get_submodule(str(point.key)), nn.Embedding) else ""
            where = f'kwargs["{named}"]' if named else "args[0]"
            if named:
                lines = [f"x = {where}.clone()", f"x[..., {token}] = x[..., 0] + {position}"]
                lines.append(f'return args, kwargs | {{"{named}": x}}')
            elif "relative" in str(point.key):
                lines = [
                    f"at = torch.arange(len(args[0])); at[{token}] = {position}", "gap = at[None, :] - at[:, None]",
                    "return (args[0][(-gap).clamp(min=0), gap.clamp(min=0)],), kwargs",
                ]  # fmt: skip
            else:
                lines = [f"x = {where}.clone()", f"x[..., {token}] = x[..., 0] + {position}", "return (x,), kwargs"]
            number = len(self.hooks) + 1
            lines = ["if saving: return args, kwargs"] * bool(self.unless) + lines
            hook = f'model.get_submodule("{point.key}").register_forward_pre_hook(change_{number}, with_kwargs=True)'
            self.hooks.append([hook, f"def change_{number}(module, args, kwargs):", *(f"    {line}" for line in lines)])

    # --- statements
    def _statements(self, change: Change, x: str, index_of: Callable[[Site], str], point: ValuePoint) -> list[str]:
        if _reads_other_run(change):
            return self._saved(change, x, index_of(change.site), point)
        return [self.unless + line for line in self._plain_statements(change, x, index_of, point)]

    def _plain_statements(self, change: Change, x: str, index_of: Callable[[Site], str], point: ValuePoint) -> list[str]:
        index = index_of(change.site)
        match change:
            case Set(numbers=numbers):
                return [f"{x}[{index}] = {self._numbers(numbers, change, x)}"]
            case ScaleBy(factor=factor):
                return [f"{x}[{index}] = {x}[{index}] * {factor!r}"]
            case Swap(other=other):
                second = index_of(with_(change.site, index=other))
                return [f"{x}[{index}], {x}[{second}] = {x}[{second}].clone(), {x}[{index}].clone()"]
            case Cut(token=token, keys=keys):
                head = ":" if change.site.index is None else _slice(change.site.index, self._size(point))
                if token is not None:
                    return [f"allowed[..., {head}, {token}, {list(keys)}] = False"]
                if any(one.cross and one.attention.index == point.key for one in self.experiment.layers):
                    return [f"allowed[..., {head}, :, {list(keys)}] = False"]
                return [f"allowed[..., {head}, torch.arange(allowed.shape[-2]) != {key}, {key}] = False" for key in keys]
            case MaskChange(allowed=allowed):
                head = ":" if change.site.index is None else _slice(change.site.index, self._size(point))
                return [f"allowed[..., {head}, :, :] = {self._numbers(allowed, change, x)}"]
            case Patch() | MeanAblation():
                values = self.experiment.sources(change, [point])[point]
                return [f"{x}[{index}] = {self._numbers(values, change, x)}[{index}]"]
        raise InputError(f"{change} has no text in plain torch.")

    def _saved(self, change: Change, x: str, index: str, point: ValuePoint) -> list[str]:
        source = change.source if isinstance(change, Patch) else change.of if isinstance(change, MeanAblation) else None
        if self.source is not self and self.source is not source:
            raise InputError("The changes read several other runs: a text in plain torch has one. Write one change at a time.")
        self.source = source
        if source is not None:
            self.given["other"] = source
        mean = ""
        if isinstance(change, MeanAblation):
            axis = "0" if point.quantity in ("scores", "weights") else f"(0, {self.experiment.token_axis(point)})"
            mean = f".mean({axis}, keepdim=True)"
            index_of = index if change.site.tokens is None else index.replace(str(list(change.site.tokens)), ":")
        else:
            index_of = index
        key = f'"{point.quantity} {point.key}{" mean" * bool(mean)}"'
        if not self.saves:
            value = f"{x}{mean}" if mean else f"{x}.clone()"
            return [f"{x}[{index}] = saved.setdefault({key}, {value})[{index_of}]"]
        return [f"if saving: saved[{key}] = {x}{mean}", f"else: {x}[{index}] = saved[{key}][{index_of}]"]

    def _numbers(self, numbers: Tensor | float, change: Change, x: str) -> str:
        if not isinstance(numbers, Tensor):
            return repr(float(numbers))
        name = f"numbers_{sum(key.startswith('numbers') for key in self.given) + 1}"
        if change.site.index is not None and change.site.quantity in OF_HEADS and numbers.ndim == 3:
            numbers = numbers.unsqueeze(1)
        self.given[name] = numbers
        return f"{name}.to({x})"

    def _size(self, point: ValuePoint) -> int:
        if not isinstance(point.key, int):
            return 10**9
        one = self.experiment.structure.attentions[point.key]
        return one.kv_heads if point.quantity in ("k", "v") else one.heads

    # --- the whole
    def text(self) -> str:
        sites = {one.fused: one for one in self.experiment.structure.attentions if one.fused >= 0}
        calls = sorted({*self.before, *self.inside, *self.after})
        if len({sites[n].path for n in calls}) < len(calls):
            raise InputError("The changes are in several attentions of one module: write one change at a time.")
        managers, lines, places = ["torch.no_grad()"], list[str](), list[str]()
        for n in calls:
            one, end = sites[n], "" if len(calls) == 1 else f"_{len(places) + 1}"
            lines += [*self._function(n, one, f"changed{end}"), ""]
            room = MODULES[one.function]
            if one.function != SDPA:
                self.imports.add(f"from equiscope.kernels import {room.removeprefix('equiscope.kernels.')}")
            store = ("saved, ", "{}, ") if len(calls) == 1 and self.source is not self else ("", "")
            places.append(
                f'{store[0]}layer{end}, place{end} = {store[1]}model.get_submodule("{one.path}"), "{room}.{one.function}"'
            )
            inner = f"mock.patch(place{end}, changed{end})(layer{end}.forward)"
            managers.append(f'mock.patch.object(layer{end}, "forward", {inner})')
        for hook, *rest in self.hooks:
            lines += [*rest, ""]
            managers.append(hook)
        lines += ["calls = []"] * any("calls.append" in line for line in lines) + places
        if any(isinstance(part, (nn.TransformerEncoderLayer, nn.MultiheadAttention)) for part in self.experiment.model.modules()):
            lines.append("torch.backends.mha.set_fastpath_enabled(False)  # the fast path calls no function that can be replaced")
        if self.source is not self and len(calls) != 1:
            lines.append("saved = {}")
        lines += self._runs(with_line(managers))
        head = [*sorted(self.imports), *["from unittest import mock"] * bool(calls), "import torch"]
        return "\n".join([*head, "", *lines, *self.last]) + "\n"

    def _runs(self, opening: str) -> list[str]:
        """The passes: that of the changes, and before it one that stores values, where a change reads them."""
        run = f"model({self.star}inputs)"
        if self.source is self:
            return [*self.first, opening, f"    output = {run}"]
        first = "inputs" if self.source is None else "other"
        star = self.star if self.source is None else "**" if isinstance(self.source, Mapping) else "*"
        if star == "*" and first == "other" and not isinstance(self.source, (tuple, list)):
            self.given["other"] = (self.source,)
        if not self.saves:
            return [*self.first, opening, f"    _, output = model({star}{first}), {run}  # the first pass saves"]
        lines = ["saving = True", f"model({star}{first})", "saving = False", *self.first, f"output = {run}"]
        return [opening, *(f"    {line}" for line in lines)]


def _only_saves(experiment: "Experiment", changes: Sequence[Change | Move]) -> bool:
    """Whether a first run may run the statements of the changes: it then replaces values by themselves, or no others follow."""
    first = changes[0]
    if isinstance(first, MeanAblation) and len(changes) == 1:
        return len(points_of(first.site, experiment.layers)) == 1
    return all(isinstance(one, Patch) and _reads_other_run(one) for one in changes)


def _reads_other_run(change: Change | Move) -> bool:
    """Whether the value is that of another run, which the text must run first; not a stored one."""
    if not isinstance(change, (Patch, MeanAblation)):
        return False
    source = change.source if isinstance(change, Patch) else change.of
    return not isinstance(source, Mapping) or by_site(source) is None


def with_line(managers: Sequence[str]) -> str:
    joined = ", ".join(managers)
    return f"with {joined}:" if len(joined) < 120 else "with (\n    " + ",\n    ".join(managers) + ",\n):"


def _slice(index: int, size: int) -> str:
    first = index % size
    return f"{first}:{first + 1}"


def _module_index(axis: int, site: Site) -> str:
    number = site.entry if site.index is None else site.index
    last = ":" if number is None else _plain_slice(number)
    if site.tokens is None:
        return f"..., {last}"
    return f"{list(site.tokens)}, ..., {last}" if axis == 0 else f"..., {list(site.tokens)}, {last}"


def _plain_slice(index: int) -> str:
    return f"{index}:{index + 1}" if index != -1 else "-1:"
