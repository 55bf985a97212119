"""Inputs: the arguments of any module, each with its kind, so that an action knows what to transform.

Models of equiscope take Tokens. Other models take ids, embeddings, masks, images, waveforms or points, by position or by name. An
action transforms its kinds (per token: ids, features and flags; or positions) and leaves all others unchanged.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor

from equiscope.errors import InputError, UnknownName

InputKind = Literal[
    "ids", "features", "flags", "position_ids", "coordinates", "image", "wave", "points", "vectors", "atoms", "tokens", "edges",
    "adjacency", "steps", "pairs", "lengths", "other",
]  # fmt: skip
KINDS: tuple[InputKind, ...] = get_args(InputKind)
AXIS: dict[InputKind, int] = {
    "ids": -1, "features": -2, "flags": -1, "position_ids": -1, "coordinates": -2, "points": -2, "vectors": -2, "atoms": -1,
    "steps": -3,
}  # fmt: skip
WORDS: tuple[InputKind, ...] = (
    "ids",
    "features",
    "flags",
    "points",
    "vectors",
    "atoms",
    "steps",
)  # permuted with the tokens
NAMED: dict[str, InputKind] = {
    "input_ids": "ids", "decoder_input_ids": "other", "inputs_embeds": "features", "attention_mask": "flags",
    "src_key_padding_mask": "flags", "key_padding_mask": "flags", "token_type_ids": "flags", "valid": "flags",
    "position_ids": "position_ids", "positions": "position_ids", "at": "coordinates", "pixel_values": "image", "image": "image",
    "images": "image", "input_values": "wave", "wave": "wave", "audio": "wave",
    "pos": "points", "coords": "points", "coordinates": "points", "xyz": "points", "points": "points", "velocities": "vectors",
    "forces": "vectors", "z": "atoms", "atomic_numbers": "atoms", "species": "atoms", "edge_index": "edges", "labels": "other",
    "adj": "adjacency", "adj_mat": "adjacency", "adj_matrix": "adjacency", "adjacency": "adjacency",
    "adjacency_matrix": "adjacency", "edge_attr": "adjacency", "edge_features": "adjacency",
    "cache_position": "other", "mask": "pairs", "src_mask": "pairs", "attn_mask": "pairs",
}  # fmt: skip

LENGTHS = (  # tokens of each sequence, as in pack_padded_sequence
    "lengths", "lens", "seq_lens", "seq_lengths", "sequence_lengths", "input_lengths", "src_lengths", "src_lens", "x_lengths",
)  # fmt: skip
PER_TOKEN = ("mask", "masks", "padding_mask", "pad_mask", "node_mask", "atom_mask", "segment_ids", "batch")  # one number a token


@dataclass(frozen=True)
class Inputs:
    """Arguments by name; the first `positional` of them are given by position.

    Of the kinds, "steps" are features [N, B, D], "pairs" masks [N, N], "adjacency" values of each pair of nodes, [..., N, N] or
    [..., N, N, E], and "lengths" the number of tokens of each sequence [B], the first rows of it.

    values  name -> argument
    kinds   name -> its kind; an action transforms the kinds it knows
    """

    values: dict[str, Any]
    kinds: dict[str, InputKind]
    positional: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def call(self, model: Callable[..., Any]) -> Any:
        """Call the model on a copy, so that a model that writes into its input changes no tensor of the caller."""
        return self.copied().call_on_itself(model)

    def call_on_itself(self, model: Callable[..., Any]) -> Any:
        """Call the model on these tensors themselves."""
        named = {n: v for n, v in self.values.items() if n not in self.positional}
        return model(*(self.values[n] for n in self.positional), **named)

    def copied(self) -> "Inputs":
        """A copy with cloned tensors. Other objects with tensors (a cache) are copied too, if possible."""
        memo: dict[int, Any] = {}
        return self.with_values({n: _copied(v, memo) for n, v in self.values.items()})

    def of(self, *kinds: InputKind) -> dict[str, Any]:
        """Values of these kinds."""
        return {n: v for n, v in self.values.items() if self.kinds[n] in kinds}

    def has(self, *kinds: InputKind) -> bool:
        return bool(self.of(*kinds))

    def with_values(self, changed: Mapping[str, Any]) -> "Inputs":
        """Replace the values of these names."""
        return replace(self, values=self.values | dict(changed))

    def each(self, change: Callable[[Any], Any], *kinds: InputKind) -> "Inputs":
        """Apply a function to every value of these kinds."""
        converted: dict[int, Any] = {}  # an object passed twice (queries that are keys too) stays one object
        for value in self.of(*kinds).values():
            if id(value) not in converted:
                converted[id(value)] = change(value)
        return self.with_values({n: converted[id(v)] for n, v in self.of(*kinds).items()})

    def rows(self, pick: Tensor | list[int], kinds: tuple[InputKind, ...] = WORDS) -> "Inputs":
        """Select rows of every input of these kinds, in this order. Lengths count the selected rows that are tokens. Of an
        adjacency, rows and columns are selected.
        """
        rows = torch.as_tensor(pick)
        changed, selected = {}, dict[int, Any]()
        for name, value in self.of("lengths").items():
            changed[name] = (rows.to(value.device) < value[:, None]).sum(-1).to(value.dtype)
        for name, value in self.of("adjacency").items():
            for axis in pair_axes(value, self.length):
                value = value.index_select(value.ndim + axis, rows.to(value.device))
            changed[name] = value
        for name, value in self.of(*kinds).items():
            axis = AXIS[self.kinds[name]]
            if isinstance(value, Tensor) and value.ndim >= -axis and value.shape[axis] >= 1:
                if id(value) not in selected:
                    selected[id(value)] = value.index_select(value.ndim + axis, rows.to(value.device))
                changed[name] = selected[id(value)]
        return self.with_values(changed)

    def to(self, dtype: torch.dtype) -> "Inputs":
        """Convert floating-point values to a dtype; ids, flags and position ids stay integers."""

        def cast(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.to(dtype) if value.is_floating_point() else value
            if type(value) in (tuple, list):  # the state of an LSTM
                return type(value)(cast(v) for v in value)
            if type(value) is dict:
                return {n: cast(v) for n, v in value.items()}
            return value.to(dtype) if hasattr(value, "leaves") else value

        return self.each(cast, *KINDS)

    @property
    def length(self) -> int | None:
        """Number of tokens (or points); None without any, as for images."""
        for name, value in self.values.items():
            kind = self.kinds[name]
            if kind == "tokens":
                return int(value.x.shape[-2])
            if kind in ("ids", "features", "points", "atoms", "steps") and isinstance(value, Tensor):
                return int(value.shape[AXIS[kind]])
        return None

    @property
    def batch(self) -> int | None:
        """Batch size; None without a batch axis."""
        for name, value in self.values.items():
            kind, value = self.kinds[name], getattr(value, "x", value)
            if kind in ("image", "wave") and isinstance(value, Tensor):
                return int(value.shape[0]) if value.ndim > (3 if kind == "image" else 1) else None
            if kind == "steps":
                return int(value.shape[1])
            if kind in ("ids", "features", "points", "tokens", "atoms") and isinstance(value, Tensor):
                ends = 1 if kind in ("ids", "atoms") else 2
                return int(value.shape[0]) if value.ndim > ends else None
        return None

    @property
    def single(self) -> Any:
        """The value if there is a single one, else all inputs."""
        return next(iter(self.values.values())) if len(self.values) == 1 else self

    def describe(self) -> str:
        """Name, kind and shape of each input; of a number, a boolean or None, its value."""
        return ", ".join(f"{n}: {self._described(n, getattr(v, 'x', v))}" for n, v in self.values.items())

    def _described(self, name: str, value: Any) -> str:
        if value is None or isinstance(value, (bool, int, float)):
            return str(value)
        return f"{self.kinds[name]} {list(value.shape)}" if hasattr(value, "shape") else self.kinds[name]


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A copy; an object passed twice stays one object."""
    if id(value) not in memo:
        memo[id(value)] = _copy_of(value, memo)
    return memo[id(value)]


def _copy_of(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    if type(value) in (tuple, list):
        return type(value)(_copied(v, memo) for v in value)
    if type(value) is dict:
        return {n: _copied(v, memo) for n, v in value.items()}
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.device)):
        return value
    if hasattr(value, "x") and hasattr(value, "positions") and is_dataclass(value):  # Tokens
        tensors = {f.name: _copied(v, memo) for f in fields(value) if isinstance(v := getattr(value, f.name), (Tensor, tuple))}
        return replace(value, **tensors)  # type: ignore[type-var]
    try:
        return copy.deepcopy(value)
    except Exception:  # it may contain anything
        return value


def guess(name: str, value: Any, first: bool) -> InputKind:
    """Guess the kind of an argument from its name and shape. `first`: no argument before it holds tokens."""
    if hasattr(value, "x") and hasattr(value, "positions") and hasattr(value, "order"):
        return "tokens"
    if not isinstance(value, Tensor):
        return "other"
    if name == "positions" and value.is_floating_point() and _fits("points", value):
        return "points"
    if name in NAMED and _fits(NAMED[name], value):
        return NAMED[name]
    if is_named_lengths(name) and _fits("lengths", value):
        return "lengths"
    if not first:
        return "flags" if value.dtype == torch.bool and value.ndim == 2 else "other"
    if not value.is_floating_point():
        return "ids" if value.dtype != torch.bool else "other"
    if value.ndim == 4 or (value.ndim == 3 and value.shape[0] == 3 and value.shape[1] == value.shape[2] > 4):
        return "image"
    if value.ndim >= 2 and value.shape[-1] == 3:
        return "points"
    return "features" if value.ndim >= 2 else "wave"


def _fits(kind: InputKind, value: Tensor) -> bool:
    if kind in ("points", "vectors"):
        return value.ndim >= 2 and value.shape[-1] == 3
    if kind in ("ids", "atoms"):
        return not value.is_floating_point()
    if kind == "lengths":
        return value.ndim == 1 and not value.is_floating_point() and value.dtype != torch.bool
    if kind == "image":
        return value.ndim >= 3
    if kind in ("pairs", "adjacency"):
        return value.ndim >= 2 and (value.shape[-1] == value.shape[-2] or (kind == "adjacency" and value.ndim > 2))
    return not (kind == "features" and value.ndim < 2)


def inputs_of(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    names: tuple[str, ...] = (),
    kinds: Mapping[str, str] | None = None,
) -> Inputs:
    """Arguments with their kinds, guessed from names and shapes or given.

    names  of the positional arguments, from the model's signature
    kinds  name -> kind, to override the guess
    raises UnknownName for an unknown kind, InputError for a name that is no argument
    """
    called = tuple(names[i] if i < len(names) else f"input{i}" for i in range(len(args)))
    values: dict[str, Any] = dict(zip(called, args, strict=True)) | dict(kwargs or {})
    given = dict(kinds or {})
    for name, kind in given.items():
        if name not in values:
            raise InputError(f"A kind is given for {name!r}, which is no argument. Arguments: {', '.join(values) or 'none'}.")
        if kind not in KINDS:
            raise UnknownName("kind of input", kind, list(KINDS))
    kinds_: dict[str, InputKind] = {}
    for name, value in values.items():
        first = not any(k in ("ids", "features", "tokens", "points", "image", "wave") for k in kinds_.values())
        twin = next((k for n, k in kinds_.items() if values[n] is value and isinstance(value, Tensor)), None)
        kinds_[name] = cast(InputKind | None, given.get(name)) or twin or guess(name, value, first)
    inputs = Inputs(values, kinds_, called)
    beside: dict[str, InputKind] = {
        n: "flags" for n, v in inputs.of("other").items() if n in PER_TOKEN and n not in given and _one_per_token(inputs, v)
    }
    beside |= {n: "points" for n, v in inputs.of("other").items() if n == "x" and n not in given and _one_per_token(inputs, v, 3)}
    alien = [n for n, v in inputs.of("pairs").items() if v.shape[-1] != inputs.length]
    alien += [n for n, v in inputs.of("adjacency").items() if not _is_adjacency(inputs, n, v, n in given)]
    alien += [
        n
        for n, v in values.items()
        if (kinds_[n] == "lengths" or is_named_lengths(n)) and not _are_lengths(inputs, n, v, n in given)
    ]
    for name, value in inputs.of(*WORDS).items():  # keys and values of another sequence have their own mask
        axis = AXIS[kinds_[name]]
        if isinstance(value, Tensor) and value.ndim >= -axis and value.shape[axis] != inputs.length:
            if name in given:
                raise InputError(
                    f"{name!r} is declared as {kinds_[name]}, one row a token, but has {value.shape[axis]} rows "
                    f"for {inputs.length} tokens. Declare it as 'other', or give both the same length."
                )
            alien.append(name)
    other: dict[str, InputKind] = {n: "other" for n in alien}
    return replace(inputs, kinds=kinds_ | beside | other)


def pair_axes(value: Tensor, length: int | None) -> tuple[int, int]:
    """The two axes of nodes of an adjacency [..., N, N] or [..., N, N, E], counted from the end."""
    return (-2, -1) if value.shape[-2:] == (length, length) else (-3, -2)


def is_named_lengths(name: str) -> bool:
    """Whether an argument of this name holds the number of tokens of each sequence."""
    return name in LENGTHS or f"{name}s" in LENGTHS


def _are_lengths(inputs: Inputs, name: str, value: Any, declared: bool) -> bool:
    """Whether it is a number of tokens for each sequence. Raises InputError where it is declared so and is not, or is a list."""
    size, n = inputs.batch, inputs.length
    if type(value) in (list, tuple) and len(value) == size and all(isinstance(v, int) for v in value):
        is_list = f"{name!r} is a {type(value).__name__} of numbers"
        raise InputError(f"{is_list}. Give it as a tensor of integers [{size}], so that a check can change it.")
    fits = isinstance(value, Tensor) and _fits("lengths", value) and len(value) == size
    if fits and n is not None and int(value.min()) >= 0 and int(value.max()) <= n:
        return True
    if declared and inputs.kinds[name] == "lengths":
        raise InputError(
            f"{name!r} is declared as lengths, the number of tokens of each sequence, but the inputs are {inputs.describe()}. "
            "Give a tensor of integers [batch], none larger than the number of tokens, or declare it as 'other'."
        )
    return False


def _is_adjacency(inputs: Inputs, name: str, value: Any, declared: bool) -> bool:
    """Whether it has one entry, or one vector, for each pair of nodes. Raises InputError where it is declared so and has not."""
    n = inputs.length
    if isinstance(value, Tensor) and value.ndim >= 2 and ((n, n) in (value.shape[-2:], value.shape[-3:-1])):
        return True
    if declared:
        raise InputError(
            f"{name!r} is declared as adjacency, one entry for each pair of nodes, but the inputs are {inputs.describe()}. "
            "Give a tensor [..., N, N] or [..., N, N, E] of N nodes, or declare it as 'other'."
        )
    return False


def _one_per_token(inputs: Inputs, value: Any, wide: int = 0) -> bool:
    """Whether it has one number a token, or `wide` numbers."""
    words = next((v for v in inputs.of("ids", "features", "points", "atoms").values() if isinstance(v, Tensor)), None)
    if words is None or not isinstance(value, Tensor) or inputs.length is None:
        return False
    lead = value.shape[: value.ndim - (wide > 0)]
    fits = not wide or value.shape[-1:] == (wide,)
    return fits and len(lead) > 0 and lead == words.shape[: len(lead)] and lead[-1] == inputs.length
