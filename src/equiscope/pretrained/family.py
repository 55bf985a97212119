"""Family: how one kind of checkpoint says its spec and names its weights, both ways."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.models import Model, Spec

EVERYWHERE = frozenset({  # fields that change no number of a forward pass
    "_name_or_path", "architectures", "bos_token_id", "chunk_size_feed_forward", "decoder_start_token_id", "dtype", "eos_token_id",
    "equiscope_version", "id2label", "initializer_range", "is_encoder_decoder", "keys_to_ignore_at_inference", "label2id",
    "model_type", "output_attentions", "output_hidden_states", "pad_token_id", "problem_type", "return_dict", "sep_token_id",
    "task_specific_params", "tokenizer_class", "torch_dtype", "torchscript", "transformers_version", "use_cache",
    "attention_dropout", "pretraining_tp", "use_bfloat16", "tf_legacy_loss", "pruned_heads", "is_decoder",
})  # fmt: skip
REQUIRED: Any = object()


@dataclass(frozen=True)
class Pair:
    """One tensor of theirs, and what it is made of here: side by side along the last axis, then transposed where `turned`.

    bare   without the family's prefix
    heads  theirs has the parts of each of so many heads beside one another, not all of one part first
    """

    theirs: str
    ours: tuple[str, ...]
    turned: bool = False
    bare: bool = False
    heads: int = 0

    def apart(self, joined: Tensor) -> Tensor:
        """Parts of each head [..., H*P*K] to one part after the other [..., P*H*K]."""
        return self._swapped(joined, (self.heads, len(self.ours))) if self.heads else joined

    def beside(self, joined: Tensor) -> Tensor:
        """The inverse of `apart`."""
        return self._swapped(joined, (len(self.ours), self.heads)) if self.heads else joined

    def _swapped(self, joined: Tensor, sizes: tuple[int, int]) -> Tensor:
        return joined.unflatten(-1, (*sizes, -1)).transpose(-3, -2).flatten(-3)


@dataclass(frozen=True)
class Family:
    """name is the config's model_type; `read` makes a spec of a config, `write` a config of a spec, `pairs` names the weights.

    prefix   what may stand before their names
    table    their name of the embedding's table
    unread   patterns of names that hold no weight, such as buffers
    """

    name: str
    read: Callable[[dict[str, Any]], Spec]
    write: Callable[[Spec], dict[str, Any]]
    pairs: Callable[[Spec], Iterable[Pair]]
    prefix: str = ""
    table: str = ""
    unread: tuple[str, ...] = field(default=())

    def take(self, model: Model, tensors: dict[str, Tensor], dtype: torch.dtype | None = None) -> None:
        """Give a model (on "meta") the tensors of a checkpoint.

        raises  InputError for tensors that are missing, too many, or of another shape than the config says
        """
        own = {name: p for name, p in model.named_parameters()}
        rest, wrong = dict(tensors), []
        if model.spec.tied and (head := rest.pop("lm_head.weight", None)) is not None:
            self._same(head, rest)
        for pair in self.pairs(model.spec):
            found = rest.pop(f"{self.prefix}{pair.theirs}", None)
            found = rest.pop(pair.theirs, None) if found is None else found
            if found is None:
                wrong.append(f"{self.prefix}{pair.theirs} is missing")
                continue
            parts = [own.pop(name) for name in pair.ours]
            wide = sum(p.shape[-1] for p in parts)
            wanted = (*parts[0].shape[:-1], wide)
            made = found.mT if pair.turned and found.ndim > 1 else found
            if tuple(made.shape) != wanted:
                wrong.append(f"{pair.theirs} is {tuple(found.shape)}, but the config makes it "
                             f"{wanted[::-1] if pair.turned and len(wanted) > 1 else wanted}")  # fmt: skip
                continue
            for name, part in zip(pair.ours, pair.apart(made).split([p.shape[-1] for p in parts], -1), strict=True):
                _put(model, name, part.to(dtype or part.dtype, copy=True).contiguous())
        wrong += [f"{name} belongs to no part" for name in rest if not any(re.fullmatch(pattern, name) for pattern in self.unread)]
        wrong += [f"{name} gets no number" for name in own] if not wrong else []
        if wrong:
            more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
            raise InputError(f"The weights do not fit config.json of a {self.name}: {'; '.join(wrong[:3])}{more}.")

    def _same(self, head: Tensor, tensors: dict[str, Tensor]) -> None:
        """Raise where a head is said to be the embedding and is not."""
        table = tensors.get(f"{self.prefix}{self.table}", tensors.get(self.table))
        if table is not None and not torch.equal(head, table):
            raise InputError(
                "config.json says tie_word_embeddings, but lm_head.weight is not the embedding's table. Set it to false."
            )

    def give(self, model: Model) -> dict[str, Tensor]:
        """The model's tensors under their names."""
        own = dict(model.named_parameters())
        made = {}
        for pair in self.pairs(model.spec):
            joined = pair.beside(torch.cat([own[name].detach() for name in pair.ours], -1))
            made[pair.theirs if pair.bare else f"{self.prefix}{pair.theirs}"] = (
                joined.mT.contiguous() if pair.turned and joined.ndim > 1 else joined
            )
        return made


class Fields:
    """A config that is read field by field; `close` names what nobody asked for."""

    def __init__(self, family: str, config: dict[str, Any]) -> None:
        self.family, self.config, self.asked = family, config, set(EVERYWHERE)

    def get(self, name: str, kind: type | tuple[type, ...], default: Any = REQUIRED) -> Any:
        """A field. Raises InputError where it is missing without a default, or of another kind."""
        self.asked.add(name)
        value = self.config.get(name)
        if value is None and default is not REQUIRED:
            return default
        if value is None:
            raise InputError(f"config.json of a {self.family} needs {name}.")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        fits = isinstance(value, kinds) or (float in kinds and isinstance(value, int))
        if not fits or (isinstance(value, bool) and bool not in kinds):
            raise InputError(f"config.json: {name} is {value!r}, but should be {' or '.join(k.__name__ for k in kinds)}.")
        return value

    def only(self, name: str, *values: Any) -> None:
        """Raises InputError where a field says what no model here does; the first value is what absence means."""
        self.asked.add(name)
        value = self.config.get(name, values[0])
        if value not in values:
            raise InputError(f"config.json: {name} is {value!r}, but only {' or '.join(map(repr, values))} can be built.")

    def skip(self, *names: str) -> None:
        """Fields that change no number."""
        self.asked |= set(names)

    def close(self) -> None:
        """Raises InputError for a field that is not known: it might change what the model computes."""
        if unknown := sorted(self.config.keys() - self.asked):
            raise InputError(
                f"config.json of a {self.family} has the field {unknown[0]!r} = {self.config[unknown[0]]!r}, which is not known "
                "here. What it changes cannot be built; remove it if it changes nothing."
            )


def layer_norm(theirs: str, ours: str) -> Iterable[Pair]:
    """Gain and shift of a LayerNorm."""
    yield Pair(f"{theirs}.weight", (f"{ours}.gain",))
    yield Pair(f"{theirs}.bias", (f"{ours}.shift",))


def refuse(when: bool, why: str) -> None:
    """Raises InputError: a spec that a family cannot hold."""
    if when:
        raise InputError(why)


def _put(model: nn.Module, name: str, value: Tensor) -> None:
    path, _, last = name.rpartition(".")
    setattr(model.get_submodule(path), last, nn.Parameter(value))
