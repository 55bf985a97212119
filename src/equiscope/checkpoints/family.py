"""A family of checkpoints: its config as a spec, and its tensor names, in both directions."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.checkpoints import strict
from equiscope.checkpoints.fields import ParsedConfig
from equiscope.checkpoints.strict import Fit, ShapeMismatch
from equiscope.errors import InputError
from equiscope.functional import Activation
from equiscope.models import Block, Model, Spec
from equiscope.models.spec import KIND, MASK, POSITION, SCORE

ACTIVATIONS: dict[str, Activation] = {  # of several names of one activation, the first is written
    "gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu_fast": "gelu-tanh", "relu": "relu",
    "silu": "silu", "swish": "silu", "tanh": "tanh",
}  # fmt: skip
ACTIVATION_NAMES = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}


@dataclass(frozen=True)
class WeightMap:
    """One tensor of a checkpoint, and the parameters of the model that it consists of, concatenated along the first axis.

    transposed   the tensor is [in, out]
    bare         its name has no prefix of the family
    heads        the number of heads whose parts are interleaved in the tensor; 0: all of one part comes first
    """

    tensor: str
    parameters: tuple[str, ...]
    transposed: bool = False
    bare: bool = False
    heads: int = 0

    def deinterleave(self, joined: Tensor) -> Tensor:
        """From the parts of each head [H*P*K, ...] to all of one part after another [P*H*K, ...]."""
        return self._swap_axes(joined, (self.heads, len(self.parameters))) if self.heads else joined

    def interleave(self, joined: Tensor) -> Tensor:
        """The inverse of `deinterleave`."""
        return self._swap_axes(joined, (len(self.parameters), self.heads)) if self.heads else joined

    def _swap_axes(self, joined: Tensor, sizes: tuple[int, int]) -> Tensor:
        return joined.unflatten(0, (*sizes, -1)).transpose(0, 1).flatten(0, 2)


@dataclass(frozen=True)
class WeightTransform:
    """Tensors of a checkpoint that functions convert to parameters of the model (`load`), and back (`store`)."""

    tensors: tuple[str, ...]
    parameters: tuple[str, ...]
    load: Callable[[list[Tensor]], list[Tensor]]
    store: Callable[[list[Tensor]], list[Tensor]]


@dataclass(frozen=True)
class Family:
    """One family of checkpoints.

    name            model_type of its config.json
    read_config     a spec from a config; write: a config from a spec
    weight_maps     the names of the weights for a spec
    prefix          an optional prefix of tensor names
    table           name of the embedding table
    table_copies    names under which the table may be stored again; a copy must equal the table
    ignored         patterns of tensor names that are not weights, such as buffers
    preserved       of those, without the prefix: tensors that a model without a head keeps, and writes back
    derived_fields  fields of config.json that follow from the spec, so that those of the source checkpoint are not kept
    duplicates      names of tensors, and a second name under which the same numbers are written
    renamed         patterns of former tensor names, and their present names
    resolve         a spec from a spec and the tensors, where only the weights decide
    """

    name: str
    read_config: Callable[[dict[str, Any]], ParsedConfig]
    write: Callable[[Spec], dict[str, Any]]
    weight_maps: Callable[[Spec], Iterable[WeightMap | WeightTransform]]
    prefix: str = ""
    table: str = ""
    table_copies: tuple[str, ...] = ("lm_head.weight",)
    ignored: tuple[str, ...] = field(default=())
    preserved: tuple[str, ...] = field(default=())
    derived_fields: tuple[str, ...] = ()
    duplicates: dict[str, str] = field(default_factory=dict)
    renamed: tuple[tuple[str, str], ...] = field(default=())
    resolve: Callable[[Spec, dict[str, Tensor]], Spec] = field(default=lambda spec, tensors: spec)

    def config(self, spec: Spec) -> dict[str, Any]:
        """config.json of a spec. Raises InputError where this family would read another model from it, naming the field."""
        config = self.write(spec)
        if other := _difference(spec.explicit, self.read(config).explicit, ""):
            raise InputError(f"its models have {other}.")
        return config

    def read(self, config: dict[str, Any]) -> Spec:
        """The spec of a config."""
        return self.read_config(config).spec

    def expected_names(self, spec: Spec) -> set[str]:
        """Names of the tensors that a model of this spec reads, with and without the prefix."""
        names = {
            name
            for mapping in self.weight_maps(spec)
            for name in ((mapping.tensor,) if isinstance(mapping, WeightMap) else mapping.tensors)
        }
        return names | {f"{self.prefix}{name}" for name in names}

    def load_tensors(self, model: Model, tensors: dict[str, Tensor], dtype: torch.dtype | None = None) -> Fit:
        """Load the tensors of a checkpoint into a model on the "meta" device. Returns how each was used.

        raises  WeightsError for tensors that are missing, extra, of another shape than the config says, or not finite
        """
        own = {name: p for name, p in model.named_parameters()}
        today = {name: self._current_name(name) for name in tensors}
        rest, fit = {today[name]: tensor for name, tensor in tensors.items()}, Fit()
        strict.require_float_dtypes(rest, (name for name in rest if not self.ignores(name)))
        has = self.expected_names(model.spec) | (set(self.table_copies) if model.spec.tied else set())
        if model.spec.tied or model.spec.shared:
            stand_in = self._pop_table_copies(model.spec, rest)
            today = {name: self.table if now == stand_in else now for name, now in today.items()}
        for mapping in self.weight_maps(model.spec):
            stored, names, missing = self._pop_tensors(mapping, rest)
            if missing:
                bare = isinstance(mapping, WeightMap) and mapping.bare
                fit.missing += [f"{'' if bare else self.prefix}{name}" for name in missing]
                continue
            fit.used += names
            parts = [own.pop(name) for name in mapping.parameters]
            if isinstance(mapping, WeightTransform) and dtype is not None:  # computed in that precision
                stored = [tensor.to(dtype) for tensor in stored]
            converted, wrong = _converted(mapping, names, stored, parts)
            fit.shapes += [wrong] if wrong else []
            for name, part in zip(mapping.parameters, converted, strict=False):
                _set_parameter(model, name, part.to(dtype or part.dtype, copy=True).contiguous())
        named = {name.removeprefix(self.prefix): tensor for name, tensor in rest.items()} if model.spec.outputs is None else {}
        model.unused_tensors = {
            name: tensor.to(dtype or tensor.dtype, copy=True)
            for name, tensor in named.items() if any(re.fullmatch(pattern, name) for pattern in self.preserved)
        }  # fmt: skip
        for name in rest:
            fit.add_unused(name, has, "no weight of such a model" if self.ignores(name) else "")
        fit.nonfinite = strict.nonfinite_tensors({today[name]: tensor for name, tensor in tensors.items()}, fit.used)
        fit.raise_on_mismatch(f"a {self.name}")
        model.tie()
        assert not own, f"no pair of {self.name} names {next(iter(own), '')}"
        fit.used += [name for name in today.values() if name not in fit.used and name not in fit.ignored]  # copies of the table
        back = {now: name for name, now in today.items()}
        fit.used = [back[name] for name in fit.used]
        fit.ignored = {back[name]: why for name, why in fit.ignored.items()}
        return fit

    def ignores(self, name: str) -> bool:
        """Whether a tensor of this name is no weight of these models."""
        return any(re.fullmatch(pattern, name) for pattern in self.ignored)

    def tensors_of(self, model: Model) -> dict[str, Tensor]:
        """The model's tensors by their names in the checkpoint."""
        own = dict(model.named_parameters())
        tensors: dict[str, Tensor] = {}
        for mapping in self.weight_maps(model.spec):
            parts = [own[name].detach() for name in mapping.parameters]
            if isinstance(mapping, WeightTransform):
                tensors |= {
                    f"{self.prefix}{name}": tensor for name, tensor in zip(mapping.tensors, mapping.store(parts), strict=True)
                }
                continue
            joined = mapping.interleave(torch.cat(parts))
            tensors[mapping.tensor if mapping.bare else f"{self.prefix}{mapping.tensor}"] = (
                joined.mT.contiguous() if mapping.transposed else joined
            )
        tensors |= {
            second: tensors[first].clone()
            for first, second in self.duplicates.items()
            if first in tensors and second not in tensors
        }
        return tensors | ({f"{self.prefix}{n}": t for n, t in model.unused_tensors.items()} if model.family == self.name else {})

    def _current_name(self, name: str) -> str:
        for pattern, now in self.renamed:
            name = re.sub(pattern, now, name)
        return name

    def _pop_tensors(
        self, mapping: WeightMap | WeightTransform, rest: dict[str, Tensor]
    ) -> tuple[list[Tensor], list[str], list[str]]:
        """Remove the tensors of a mapping from `rest`. Returns them, their full names, and the names of missing ones."""
        names = (mapping.tensor,) if isinstance(mapping, WeightMap) else mapping.tensors
        full = [f"{self.prefix}{name}" if f"{self.prefix}{name}" in rest else name for name in names]
        missing = [name for name, there in zip(names, full, strict=True) if there not in rest]
        return ([], [], missing) if missing else ([rest.pop(name) for name in full], full, [])

    def _pop_table_copies(self, spec: Spec, tensors: dict[str, Tensor]) -> str:
        """Remove copies of the table. Returns the name of a copy that stands in for a missing table, else "".

        raises  InputError where a copy differs from the table
        """
        stand_in = ""
        table = tensors.get(f"{self.prefix}{self.table}", tensors.get(self.table))
        for name in self.table_copies:
            if name == self.table_copies[0] and not spec.tied:
                continue
            copy = tensors.pop(name, None)
            if copy is not None and table is None:
                table, stand_in = copy, name
                tensors[self.table] = copy
            if copy is not None and table is not None and not torch.equal(copy, table):
                raise InputError(f"config.json says tie_word_embeddings, but {name} is not the embedding's table. Set it to false.")
        return stand_in


def _converted(
    mapping: WeightMap | WeightTransform, names: list[str], tensors: list[Tensor], parts: Sequence[Tensor]
) -> tuple[list[Tensor], ShapeMismatch | None]:  # fmt: skip
    """The tensors of a mapping as parameters, or the mismatch of their shapes."""
    if isinstance(mapping, WeightTransform):
        try:
            converted = mapping.load(tensors)
        except (RuntimeError, IndexError):
            converted = []
        if [t.shape for t in converted] == [p.shape for p in parts]:
            return converted, None
        expected_names = [tuple(t.shape) for t in mapping.store([torch.empty(p.shape, device="meta") for p in parts])]
        return [], next(
            (
                ShapeMismatch(name, tuple(t.shape), shape)
                for name, t, shape in zip(mapping.tensors, tensors, expected_names, strict=True)
                if t.shape != shape
            ),
            ShapeMismatch(mapping.tensors[0], tuple(tensors[0].shape), expected_names[0]),
        )
    wanted_shape = (sum(p.shape[0] for p in parts), *parts[0].shape[1:])
    expected_shape = wanted_shape[::-1] if mapping.transposed else wanted_shape
    if tuple(tensors[0].shape) != expected_shape:
        return [], ShapeMismatch(names[0], tuple(tensors[0].shape), expected_shape)
    joined = tensors[0].mT if mapping.transposed else tensors[0]
    return list(mapping.deinterleave(joined).split([p.shape[0] for p in parts])), None


def _difference(a: Any, b: Any, path: str) -> str:
    """The first field in which two explicit specs differ, as a sentence; empty where none does."""
    if is_dataclass(a) and type(a) is type(b):
        parts = [(f".{f.name}", getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name != "backend"]
    elif isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = [(f"[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    else:
        for kind in (POSITION, MASK, SCORE, KIND):
            if isinstance(a, kind.base) and isinstance(b, kind.base):
                a, b = kind.to_json(a), kind.to_json(b)
        return "" if a == b else f"{path.lstrip('.')} = {b!r}, this one has {a!r}"
    return next((difference for name, x, y in parts if (difference := _difference(x, y, f"{path}{name}"))), "")


def affine(theirs: str, ours: str, bias: bool = True, bare: bool = False) -> Iterable[WeightMap]:
    """Weight and bias of a linear map or a norm."""
    yield WeightMap(f"{theirs}.weight", (f"{ours}.weight",), bare=bare)
    if bias:
        yield WeightMap(f"{theirs}.bias", (f"{ours}.bias",), bare=bare)


def block_cycle(blocks: list[Block]) -> tuple[Block, ...]:
    """The shortest sequence of blocks whose repetition gives these layers; one block where all are equal."""
    for length in range(1, len(blocks) + 1):
        if len(blocks) % length == 0 and blocks[:length] * (len(blocks) // length) == blocks:
            break
    return tuple(blocks[:length])


def refuse(when: bool, why: str) -> None:
    """Raise InputError for a spec that a family cannot represent."""
    if when:
        raise InputError(why)


def _set_parameter(model: nn.Module, name: str, value: Tensor) -> None:
    path, _, last = name.rpartition(".")
    setattr(model.get_submodule(path), last, nn.Parameter(value))
