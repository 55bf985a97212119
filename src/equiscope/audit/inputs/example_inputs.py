"""Example inputs: inputs for a model that comes without any, from its configuration or its first layers.

A configuration gives the size of the vocabulary, the size of a picture and the special ids. Without one, the first layers decide:
an embedding takes ids, a convolution pictures, a linear layer features. Candidates are tried in turn. The first that the model
accepts, with finite outputs, is used; if it accepts none, the error names those that were tried.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn

from equiscope.audit.inputs.companions import calls, required
from equiscope.audit.inputs.padding_mask import MASKS, TRUE_IS_PADDING, TRUE_IS_TOKEN, all_tokens, masks_where_true, written
from equiscope.audit.subject import Subject, arguments
from equiscope.audit.subject.outputs import flat
from equiscope.audit.subject.state import State
from equiscope.errors import InputError, one_line
from equiscope.symmetry.inputs import inputs_of
from equiscope.tokens import Tokens
from equiscope.tokens.elements import NUMBERS

LONGEST = 600  # largest number of tokens of an input beyond a model's original maximum
LENGTHS = (13, 17, 19, 23, 11, 7, 5, 3)  # primes, so that only the axis of tokens has that size
SAID = 6  # failed candidates that an error names
POINTS = ("pos", "coords", "coordinates", "xyz", "positions", "points")
ATOMS = ("z", "atomic_numbers", "species", "numbers")


@dataclass(frozen=True)
class ExampleInputs:
    """The arguments of a call of a model. kinds: argument -> its kind, where the name does not show it."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def describe(self, names: Sequence[str] = ()) -> str:
        """In words: shapes by name. names: of the positional arguments."""
        called = {names[i] if i < len(names) else f"input{i}": value for i, value in enumerate(self.args)} | self.kwargs
        return ", ".join(f"{n} {list(v.shape)}" if isinstance(v, Tensor) else n for n, v in called.items()) or "nothing"


def inputs_for(model: nn.Module, seed: int = 0) -> ExampleInputs:
    """Inputs that this model accepts.

    raises  InputError where the model rejects all candidates, with the first of them and the model's messages
    """
    generator = Generator().manual_seed(seed)
    config = getattr(model, "config", None)
    if hasattr(model, "spec") and hasattr(model, "moving_parts"):
        candidates = _equiscope_model(model, generator)
    elif hasattr(config, "model_type"):
        candidates = _transformers_model(model, config, generator)
    elif isinstance(getattr(model, "default_cfg", None), dict) and "input_size" in model.default_cfg:  # type: ignore[operator]
        candidates = _timm_model(model, generator)
    else:
        candidates = _any_model(model, generator)
    return _nothing_hidden(model, _first_accepted(model, candidates))


def _first_accepted(model: nn.Module, candidates: Iterator[ExampleInputs]) -> ExampleInputs:
    """The first candidate with finite outputs; where none has, the first that the model accepts."""
    failures, accepted = [], None
    for candidate in candidates:
        try:
            with torch.no_grad(), _in_eval_mode(model), torch.random.fork_rng(devices=[]):
                output = model(*candidate.args, **candidate.kwargs)
        except (Exception, SystemExit) as error:  # the model's code may raise anything
            failures.append(f"{candidate.describe(arguments(model))} ({one_line(error, 110)})")
            continue
        if all(bool(t.isfinite().all()) for t in flat(output).values()):
            return candidate
        accepted = accepted or candidate
    if accepted is not None:
        return accepted
    tried = "; ".join(failures[:SAID]) or "nothing, because its arguments give no hint"
    tried += f"; and {len(failures) - SAID} more" if len(failures) > SAID else ""
    raise InputError(
        f"No inputs could be made for {type(model).__name__}. Tried: {tried}. "
        "Give inputs: let a factory return (model, inputs) or (model, args, kwargs)."
    )


def _nothing_hidden(model: nn.Module, example: ExampleInputs) -> ExampleInputs:
    """The same inputs, where masks whose names do not tell what they are true at hide nothing: a padding mask marks every row as a
    token, a mask of pairs lets every query attend to every key.
    """
    names = arguments(model)
    if not any("mask" in name for name in names[: len(example.args)]):
        return example
    unclear = [i for i, n in enumerate(names[: len(example.args)]) if n in MASKS and n not in (*TRUE_IS_TOKEN, *TRUE_IS_PADDING)]
    inputs, values = inputs_of(example.args, example.kwargs, names, example.kinds), list(example.args)
    for i in unclear:
        values[i] = written(Subject(model, inputs), names[i], all_tokens(inputs))
    for name, value in inputs.of("pairs").items():
        if name in names[: len(values)] and value.dtype == torch.bool:
            masked = masks_where_true(Subject(model, inputs), name)
            values[names.index(name)] = torch.full_like(value, not masked)
    return replace(example, args=tuple(values))


@contextmanager
def _in_eval_mode(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode; its state is restored afterwards."""
    training, state = {m: m.training for m in model.modules()}, State(model)
    model.eval()
    try:
        yield
    finally:
        for m, mode in training.items():
            m.training = mode
        state.restore()


# ------------------------------------------------------------------------------------------------------------ our own models


def _equiscope_model(model: Any, generator: Generator) -> Iterator[ExampleInputs]:
    spec = model.spec
    extra = {}
    if spec.encoder is not None:
        words = spec.encoder.vocabulary
        extra["source"] = (
            torch.randint(words, (1, 11), generator=generator) if words else _noise(1, 11, spec.encoder.input.features, g=generator)
        )
    if spec.vocabulary:
        for n in LENGTHS:
            yield ExampleInputs(
                (torch.randint(spec.vocabulary, (1, n), generator=generator),), extra, {"source": "other"} if extra else {}
            )
        return
    if spec.input.patch is not None:
        axes = len(spec.input.patch)
        channels = spec.input.channels
        grids = [tuple(getattr(model.position, "shape", ()))] * (axes == 2) + [(13,), (2, 4, 4), (4, 4)]
        for grid in (g for g in grids if len(g) == axes):
            sizes = [c * p for c, p in zip(grid, spec.input.patch, strict=True)]
            shape = {1: sizes, 2: [channels, *sizes], 3: [sizes[0], channels, *sizes[1:]]}[axes]
            yield ExampleInputs((model.tokens(_noise(1, *shape, g=generator)),), extra)
        return
    axes = getattr(model.position, "axes", None) or 1
    width = spec.input.features or spec.width
    at = torch.randn(1, 13, axes, generator=generator) if axes > 1 else torch.arange(13.0)[None, :, None]
    yield ExampleInputs(
        (model.tokens(Tokens(x=_noise(1, 13, width, g=generator), positions=at, order=torch.arange(13)[None])),), extra
    )


# ------------------------------------------------------------------------------------------------------ transformers and timm


def _transformers_model(model: nn.Module, config: Any, generator: Generator) -> Iterator[ExampleInputs]:
    """By `main_input_name`, then together with others: a decoder's ids, a picture with a text, a text with a picture."""
    names, main = arguments(model), getattr(model, "main_input_name", "input_ids")
    main_inputs: dict[str, Any] = {}
    makers: dict[str, Any] = {"input_ids": ids_for, "pixel_values": _picture, "input_features": _spectrum, "input_values": _wave}
    if main not in names:
        main = next((n for n in makers if n in names), "input_ids" if not names else names[0])
    companions = [n for n in makers if n in names and n != main]
    if main in makers:
        main_inputs[main] = makers[main](model, config, generator)
    decoder = {}
    if "decoder_input_ids" in names:
        decoder["decoder_input_ids"] = ids_for(model, config, generator, 11)
    if main_inputs:
        yield ExampleInputs((), main_inputs | decoder)
        yield ExampleInputs((), main_inputs)
    for name in companions:
        yield ExampleInputs((), main_inputs | {name: makers[name](model, config, generator)} | decoder)
    yield from _any_model(model, generator)


def ids_for(model: nn.Module, config: Any, generator: Generator, length: int | None = None) -> Tensor:
    """Ids [1, N] from the longest range of the vocabulary without special tokens; N is a prime that is no size in the model."""
    text = _text_config(config)
    words = _vocabulary(model, text)
    special = sorted(i for i in _special(config) | _special(text) if 0 <= i < words)
    low, high = max(zip([-1, *special], [*special, words], strict=True), key=lambda gap: gap[1] - gap[0])
    low = low + 1 if high - low > 2 else 0
    return torch.randint(low, max(high, low + 2), (1, length or length_for(model, text)), generator=generator)


def length_for(model: nn.Module, config: Any = None) -> int:
    """A number of tokens that is no size in the model, and not more than its maximum.

    Rotary angles that depend on the length do so only beyond the original maximum; for such models the input is longer, if that
    maximum is not large.
    """
    sizes = {size for p in model.parameters() for size in p.shape}
    sizes |= {v for v in vars(config).values() if isinstance(v, int)} if config is not None else set()
    limits = (getattr(config, n, None) for n in ("max_position_embeddings", "n_positions", "max_target_positions"))
    most = next((v for v in limits if isinstance(v, int) and v > 0), 64)
    beyond = original + 1 if (original := _dynamic_length(config)) else 0
    longer = (n for n in range(beyond, beyond + 64) if n not in sizes and all(n % k for k in range(2, n)))
    if 0 < beyond <= LONGEST:
        return next(longer)
    return next((n for n in LENGTHS if n not in sizes and n <= most), 3)


def _dynamic_length(config: Any) -> int:
    """The length beyond which the angles of a rotary model depend on the length; 0 where they never do."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(rope, dict) or rope.get("rope_type", rope.get("type")) not in ("dynamic", "longrope"):
        return 0
    original = rope.get("original_max_position_embeddings") or getattr(config, "max_position_embeddings", 0)
    return int(original or 0)


def _text_config(config: Any) -> Any:
    get = getattr(config, "get_text_config", None)
    try:
        return get(decoder=True) if callable(get) else config
    except Exception:  # several text configurations
        return getattr(config, "text_config", config)


def _vocabulary(model: nn.Module, config: Any) -> int:
    try:
        rows = getattr(model.get_input_embeddings(), "num_embeddings", None)  # type: ignore[operator]
    except Exception:  # not every class has one
        rows = None
    sizes = [n for n in (rows, getattr(config, "vocab_size", None)) if isinstance(n, int) and n > 1]
    return min(sizes, default=50)


def _special(config: Any) -> set[int]:
    special_ids: set[int] = set()
    for name, value in vars(config).items() if hasattr(config, "__dict__") else ():
        if name.endswith(("_token_id", "_token_index", "_token_ids")):
            special_ids |= {v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, int)}
    return special_ids


def _size_in(config: Any, name: str, default: int) -> int:
    """A size from the configuration, or from one inside it."""
    for one in (config, *(v for v in vars(config).values() if hasattr(v, "model_type"))):
        value = getattr(one, name, None)
        value = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(value, int):
            return value
    return default


def _picture(model: nn.Module, config: Any, generator: Generator) -> Tensor:
    size = _size_in(config, "image_size", 32)
    return _noise(1, _size_in(config, "num_channels", 3), size, size, g=generator)


def _spectrum(model: nn.Module, config: Any, generator: Generator) -> Tensor:
    bins = _size_in(config, "num_mel_bins", 80)
    positions = getattr(config, "max_source_positions", None)
    if isinstance(positions, int):
        return _noise(1, bins, 2 * positions, g=generator)
    return _noise(1, 64, bins, g=generator)


def _wave(model: nn.Module, config: Any, generator: Generator) -> Tensor:
    return _noise(1, 4000, g=generator)


def _timm_model(model: Any, generator: Generator) -> Iterator[ExampleInputs]:
    channels, height, width = model.default_cfg["input_size"]
    embed = getattr(model, "patch_embed", None)
    size = getattr(embed, "img_size", None)
    if isinstance(size, tuple):
        yield ExampleInputs((_noise(1, channels, *size, g=generator),))
    for side in (64, 96):
        yield ExampleInputs((_noise(1, channels, side, side, g=generator),))
    yield ExampleInputs((_noise(1, channels, height, width, g=generator),))


# --------------------------------------------------------------------------------------------------------- any other module


def _any_model(model: nn.Module, generator: Generator) -> Iterator[ExampleInputs]:
    """Points where an argument has such a name; otherwise ids, features or pictures, as the first layer takes them."""
    names = arguments(model)
    needed = required(model) or {"input0": None}
    if any(n in POINTS for n in names):
        yield from _spatial(model, names, generator)
    table = next((m for m in model.modules() if isinstance(m, nn.Embedding)), None)
    draws: list[Callable[[], Tensor]] = []
    if table is not None:
        draws.append(partial(torch.randint, table.num_embeddings, (1, length_for(model)), generator=generator))
    draws += [partial(_noise, *shape, g=generator) for shape in dict.fromkeys(_shapes(model))]
    for draw in draws:
        for values, kinds in calls(needed, draw):
            yield ExampleInputs(values, kinds={n: kind for n, kind in kinds.items() if n in names})


def _shapes(model: nn.Module) -> Iterator[tuple[int, ...]]:
    """Shapes that the first layers take, in the order of the layers."""
    sequence_first = any(getattr(m, "batch_first", True) is False for m in model.modules())
    n = length_for(model)
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            yield from ((1, m.in_channels, side, side) for side in (32, 64, 224))
        elif isinstance(m, nn.Conv1d):
            yield from ((1, m.in_channels, size) for size in (n, 4000))
        elif isinstance(m, (nn.MultiheadAttention, nn.Linear, nn.LayerNorm)):
            width = (
                m.embed_dim
                if isinstance(m, nn.MultiheadAttention)
                else m.in_features
                if isinstance(m, nn.Linear)
                else m.normalized_shape[-1]
            )
            # where the batch axis is second, a single sequence without it cannot be mistaken for a batch
            yield from ((n, width),) if sequence_first else ((1, n, width), (n, width), (1, width))
    yield from ((1, n, 16), (1, 3, 32, 32))


def _spatial(model: nn.Module, names: tuple[str, ...], generator: Generator) -> Iterator[ExampleInputs]:
    """Points, with atoms where there is an argument for them, drawn from the elements that the model names."""
    symbols = getattr(getattr(model, "spec", None), "elements", ())
    elements = torch.tensor([NUMBERS.get(symbol, 1) for symbol in symbols] or list(range(1, 9)))
    for lead in ((1,), ()):
        candidate: dict[str, Any] = {}
        for name in names:
            if name in POINTS:
                candidate[name] = _noise(*lead, 13, 3, g=generator)
            elif name in ATOMS:
                candidate[name] = elements[torch.randint(len(elements), (*lead, 13), generator=generator)]
        yield ExampleInputs((), candidate)


def _noise(*shape: int, g: Generator) -> Tensor:
    return torch.randn(*shape, generator=g)
