"""Family: how one kind of checkpoint says its spec and names its weights, both ways."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.checkpoints import strict
from equiscope.checkpoints.fields import Reading
from equiscope.checkpoints.strict import Fit, Misshapen
from equiscope.errors import InputError
from equiscope.functional import Activation
from equiscope.models import Block, Model, Spec
from equiscope.models.spec import KIND, MASK, POSITION, SCORE

ACTIVATIONS: dict[str, Activation] = {  # the first word for each of ours is the one that is written
    "gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu_fast": "gelu-tanh", "relu": "relu",
    "silu": "silu", "swish": "silu", "tanh": "tanh",
}  # fmt: skip
THEIRS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}


@dataclass(frozen=True)
class Pair:
    """One tensor of theirs, and those of ours that it is made of, one after another along the first axis.

    transposed  theirs is [in, out]
    bare        without the family's prefix
    heads       theirs has the parts of each of so many heads beside one another, not all of one part first
    """

    theirs: str
    ours: tuple[str, ...]
    transposed: bool = False
    bare: bool = False
    heads: int = 0

    def apart(self, joined: Tensor) -> Tensor:
        """Parts of each head [H*P*K, ...] to one part after the other [P*H*K, ...]."""
        return self._swapped(joined, (self.heads, len(self.ours))) if self.heads else joined

    def beside(self, joined: Tensor) -> Tensor:
        """The inverse of `apart`."""
        return self._swapped(joined, (len(self.ours), self.heads)) if self.heads else joined

    def _swapped(self, joined: Tensor, sizes: tuple[int, int]) -> Tensor:
        return joined.unflatten(0, (*sizes, -1)).transpose(0, 1).flatten(0, 2)


@dataclass(frozen=True)
class Made:
    """Tensors of theirs that become tensors of ours by more than laying them side by side, and the way back."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    into: Callable[[list[Tensor]], list[Tensor]]
    back: Callable[[list[Tensor]], list[Tensor]]


@dataclass(frozen=True)
class Family:
    """name is the config's model_type; `reading` makes a spec of a config, `write` a config of a spec, `pairs` names the weights.

    prefix   what may stand before their names
    table    their name of the embedding's table
    copies   names under which the table may stand again; what is there must be the table
    unread   patterns of names that hold no weight of these models, such as buffers
    kept     patterns of those, without the prefix, that a model without a head gets back when it is written
    decides  fields of config.json that follow from the spec, whatever a checkpoint said that the model came from
    twice    names of theirs, and a second name under which the same numbers are written
    old      patterns of names of before, and what they are called today
    settle   what only the weights tell: a spec of a spec and the tensors
    """

    name: str
    reading: Callable[[dict[str, Any]], Reading]
    write: Callable[[Spec], dict[str, Any]]
    pairs: Callable[[Spec], Iterable[Pair | Made]]
    prefix: str = ""
    table: str = ""
    copies: tuple[str, ...] = ("lm_head.weight",)
    unread: tuple[str, ...] = field(default=())
    kept: tuple[str, ...] = field(default=())
    decides: tuple[str, ...] = ()
    twice: dict[str, str] = field(default_factory=dict)
    old: tuple[tuple[str, str], ...] = field(default=())
    settle: Callable[[Spec, dict[str, Tensor]], Spec] = field(default=lambda spec, tensors: spec)

    def config(self, spec: Spec) -> dict[str, Any]:
        """config.json of a spec. Raises InputError where this family would read another model from it, naming the field."""
        config = self.write(spec)
        if other := _difference(spec.explicit, self.read(config).explicit, ""):
            raise InputError(f"its models have {other}.")
        return config

    def read(self, config: dict[str, Any]) -> Spec:
        """The spec of a config."""
        return self.reading(config).spec

    def wanted(self, spec: Spec) -> set[str]:
        """Names of theirs that a model of this spec reads, with and without what may stand before them."""
        names = {name for pair in self.pairs(spec) for name in ((pair.theirs,) if isinstance(pair, Pair) else pair.theirs)}
        return names | {f"{self.prefix}{name}" for name in names}

    def take(self, model: Model, tensors: dict[str, Tensor], dtype: torch.dtype | None = None) -> Fit:
        """Give a model (on "meta") the tensors of a checkpoint; what became of each.

        raises  WeightsError for tensors that are missing, extra, of another shape than the config says, or not finite
        """
        own = {name: p for name, p in model.named_parameters()}
        today = {name: self._today(name) for name in tensors}
        rest, fit = {today[name]: tensor for name, tensor in tensors.items()}, Fit()
        strict.numbers(rest, (name for name in rest if not self.ignores(name)))
        has = self.wanted(model.spec) | (set(self.copies) if model.spec.tied else set())
        if model.spec.tied or model.spec.shared:
            stand_in = self._same(model.spec, rest)
            today = {name: self.table if now == stand_in else now for name, now in today.items()}
        for pair in self.pairs(model.spec):
            found, names, missing = self._found(pair, rest)
            if missing:
                bare = isinstance(pair, Pair) and pair.bare
                fit.missing += [f"{'' if bare else self.prefix}{name}" for name in missing]
                continue
            fit.used += names
            parts = [own.pop(name) for name in pair.ours]
            if isinstance(pair, Made) and dtype is not None:  # what is computed is computed in that precision
                found = [tensor.to(dtype) for tensor in found]
            made, wrong = _fitted(pair, names, found, parts)
            fit.shapes += [wrong] if wrong else []
            for name, part in zip(pair.ours, made, strict=False):
                _put(model, name, part.to(dtype or part.dtype, copy=True).contiguous())
        named = {name.removeprefix(self.prefix): tensor for name, tensor in rest.items()} if model.spec.outputs is None else {}
        model.beside = {
            name: tensor.to(dtype or tensor.dtype, copy=True)
            for name, tensor in named.items() if any(re.fullmatch(pattern, name) for pattern in self.kept)
        }  # fmt: skip
        for name in rest:
            fit.leave(name, has, "no weight of such a model" if self.ignores(name) else "")
        fit.nonfinite = strict.infinite({today[name]: tensor for name, tensor in tensors.items()}, fit.used)
        fit.checked(f"a {self.name}")
        model.tie()
        assert not own, f"no pair of {self.name} names {next(iter(own), '')}"
        fit.used += [name for name in today.values() if name not in fit.used and name not in fit.ignored]  # copies of the table
        back = {now: name for name, now in today.items()}
        fit.used = [back[name] for name in fit.used]
        fit.ignored = {back[name]: why for name, why in fit.ignored.items()}
        return fit

    def ignores(self, name: str) -> bool:
        """Whether a tensor of this name is no weight of these models."""
        return any(re.fullmatch(pattern, name) for pattern in self.unread)

    def give(self, model: Model) -> dict[str, Tensor]:
        """The model's tensors under their names."""
        own = dict(model.named_parameters())
        made: dict[str, Tensor] = {}
        for pair in self.pairs(model.spec):
            parts = [own[name].detach() for name in pair.ours]
            if isinstance(pair, Made):
                made |= {f"{self.prefix}{name}": tensor for name, tensor in zip(pair.theirs, pair.back(parts), strict=True)}
                continue
            joined = pair.beside(torch.cat(parts))
            made[pair.theirs if pair.bare else f"{self.prefix}{pair.theirs}"] = (
                joined.mT.contiguous() if pair.transposed else joined
            )
        made |= {second: made[first].clone() for first, second in self.twice.items() if first in made and second not in made}
        return made | ({f"{self.prefix}{n}": t for n, t in model.beside.items()} if model.family == self.name else {})

    def _today(self, name: str) -> str:
        for pattern, now in self.old:
            name = re.sub(pattern, now, name)
        return name

    def _found(self, pair: Pair | Made, rest: dict[str, Tensor]) -> tuple[list[Tensor], list[str], list[str]]:
        """Their tensors, taken out of the rest, with their names there, and the names of those that are not there."""
        names = (pair.theirs,) if isinstance(pair, Pair) else pair.theirs
        full = [f"{self.prefix}{name}" if f"{self.prefix}{name}" in rest else name for name in names]
        missing = [name for name, there in zip(names, full, strict=True) if there not in rest]
        return ([], [], missing) if missing else ([rest.pop(name) for name in full], full, [])

    def _same(self, spec: Spec, tensors: dict[str, Tensor]) -> str:
        """Take copies of the table out; the name of one that is the table where there is none, else "".

        raises  InputError where one is said to be the table and is not
        """
        stand_in = ""
        table = tensors.get(f"{self.prefix}{self.table}", tensors.get(self.table))
        for name in self.copies:
            if name == self.copies[0] and not spec.tied:
                continue
            copy = tensors.pop(name, None)
            if copy is not None and table is None:
                table, stand_in = copy, name
                tensors[self.table] = copy
            if copy is not None and table is not None and not torch.equal(copy, table):
                raise InputError(f"config.json says tie_word_embeddings, but {name} is not the embedding's table. Set it to false.")
        return stand_in


def _fitted(
    pair: Pair | Made, names: list[str], found: list[Tensor], parts: Sequence[Tensor]
) -> tuple[list[Tensor], Misshapen | None]:  # fmt: skip
    """Their tensors, which the file calls so, as ours; or what is wrong with their shapes."""
    if isinstance(pair, Made):
        try:
            made = pair.into(found)
        except (RuntimeError, IndexError):
            made = []
        if [t.shape for t in made] == [p.shape for p in parts]:
            return made, None
        wanted = [tuple(t.shape) for t in pair.back([torch.empty(p.shape, device="meta") for p in parts])]
        return [], next(
            (
                Misshapen(name, tuple(t.shape), shape)
                for name, t, shape in zip(pair.theirs, found, wanted, strict=True)
                if t.shape != shape
            ),
            Misshapen(pair.theirs[0], tuple(found[0].shape), wanted[0]),
        )
    wanted_shape = (sum(p.shape[0] for p in parts), *parts[0].shape[1:])
    said = wanted_shape[::-1] if pair.transposed else wanted_shape
    if tuple(found[0].shape) != said:
        return [], Misshapen(names[0], tuple(found[0].shape), said)
    joined = found[0].mT if pair.transposed else found[0]
    return list(pair.apart(joined).split([p.shape[0] for p in parts])), None


def _difference(a: Any, b: Any, path: str) -> str:
    """The first field in which two explicit specs make other models, in words; empty where there is none."""
    if is_dataclass(a) and type(a) is type(b):
        parts = [(f".{f.name}", getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name != "backend"]
    elif isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = [(f"[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    else:
        for kind in (POSITION, MASK, SCORE, KIND):
            if isinstance(a, kind.base) and isinstance(b, kind.base):
                a, b = kind.to_json(a), kind.to_json(b)
        return "" if a == b else f"{path.lstrip('.')} = {b!r}, this one has {a!r}"
    return next((found for name, x, y in parts if (found := _difference(x, y, f"{path}{name}"))), "")


def affine(theirs: str, ours: str, bias: bool = True, bare: bool = False) -> Iterable[Pair]:
    """Weight and bias of a linear map or a norm."""
    yield Pair(f"{theirs}.weight", (f"{ours}.weight",), bare=bare)
    if bias:
        yield Pair(f"{theirs}.bias", (f"{ours}.bias",), bare=bare)


def shortest(blocks: list[Block]) -> tuple[Block, ...]:
    """The fewest blocks that take turns in these layers; one where all are alike."""
    for length in range(1, len(blocks) + 1):
        if len(blocks) % length == 0 and blocks[:length] * (len(blocks) // length) == blocks:
            break
    return tuple(blocks[:length])


def refuse(when: bool, why: str) -> None:
    """Raises InputError: a spec that a family cannot hold."""
    if when:
        raise InputError(why)


def _put(model: nn.Module, name: str, value: Tensor) -> None:
    path, _, last = name.rpartition(".")
    setattr(model.get_submodule(path), last, nn.Parameter(value))
