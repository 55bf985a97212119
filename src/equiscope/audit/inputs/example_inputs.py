"""Example inputs: inputs for a model that comes without any, made from what the model says of itself.

A configuration says how many words there are, how large a picture is, which ids mean something special. Where there is none, the
first layers tell: a table of words takes ids, a convolution pictures, a linear map features. What is made is tried; the first
that the model answers to is taken, and if none is, the error names all that were tried.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor, nn

from equiscope.audit.subject import arguments
from equiscope.audit.subject.state import State
from equiscope.errors import InputError
from equiscope.tokens import Tokens
from equiscope.tokens.elements import NUMBERS

LONGEST = 600  # tokens of a text that is made longer than a model's original maximum
LENGTHS = (13, 17, 19, 23, 11, 7, 5, 3)  # primes, so that an axis of that size is the tokens' and no other
POINTS = ("pos", "coords", "coordinates", "xyz", "positions", "points")
ATOMS = ("z", "atomic_numbers", "species", "numbers")


@dataclass(frozen=True)
class ExampleInputs:
    """What a model is called with. kinds: argument -> what it is, where the name does not tell."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def told(self) -> str:
        """In words: shapes by name."""
        named = {f"input{i}": v for i, v in enumerate(self.args)} | self.kwargs
        return ", ".join(f"{n} {list(v.shape)}" if isinstance(v, Tensor) else n for n, v in named.items()) or "nothing"


def inputs_for(model: nn.Module, config: Any = None, seed: int = 0) -> ExampleInputs:
    """Inputs that this model takes. config: the model's own unless said.

    raises  InputError where none of those tried is answered, naming them and what the model said
    """
    generator = Generator().manual_seed(seed)
    config = getattr(model, "config", None) if config is None else config
    if hasattr(model, "spec") and hasattr(model, "moving_parts"):
        tries = _ours(model, generator)
    elif hasattr(config, "model_type"):
        tries = _configured(model, config, generator)
    elif isinstance(getattr(model, "default_cfg", None), dict) and "input_size" in model.default_cfg:  # type: ignore[operator]
        tries = _pictured(model, generator)
    else:
        tries = _guessed(model, generator)
    return _answered(model, tries)


def _answered(model: nn.Module, tries: Iterator[ExampleInputs]) -> ExampleInputs:
    failed = []
    for given in tries:
        try:
            with torch.no_grad(), _asleep(model), torch.random.fork_rng(devices=[]):
                model(*given.args, **given.kwargs)
        except Exception as error:  # whatever other people's code raises
            failed.append(f"{given.told()} ({type(error).__name__}: {' '.join(str(error).split())[:90]})")
            continue
        return given
    tried = "; ".join(failed) or "nothing, since its arguments say nothing"
    raise InputError(
        f"No inputs could be made for {type(model).__name__}. Tried: {tried}. "
        "Give them: let a factory return (model, inputs) or (model, args, kwargs)."
    )


@contextmanager
def _asleep(model: nn.Module) -> Iterator[None]:
    """Evaluation while it is tried; what the model writes into itself is put back."""
    training, state = {m: m.training for m in model.modules()}, State(model)
    model.eval()
    try:
        yield
    finally:
        for m, mode in training.items():
            m.training = mode
        state.restore()


# ------------------------------------------------------------------------------------------------------------ our own models


def _ours(model: Any, generator: Generator) -> Iterator[ExampleInputs]:
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


def _configured(model: nn.Module, config: Any, generator: Generator) -> Iterator[ExampleInputs]:
    """By `main_input_name`, then with what goes beside it: a decoder's ids, a picture with a text, a text with a picture."""
    taken, main = arguments(model), getattr(model, "main_input_name", "input_ids")
    made: dict[str, Any] = {}
    makers: dict[str, Any] = {"input_ids": ids_for, "pixel_values": _picture, "input_features": _spectrum, "input_values": _wave}
    if main not in taken:
        main = next((n for n in makers if n in taken), "input_ids" if not taken else taken[0])
    beside = [n for n in makers if n in taken and n != main]
    if main in makers:
        made[main] = makers[main](model, config, generator)
    decoder = {}
    if "decoder_input_ids" in taken:
        decoder["decoder_input_ids"] = ids_for(model, config, generator, 11)
    if made:
        yield ExampleInputs((), made | decoder)
        yield ExampleInputs((), made)
    for name in beside:
        yield ExampleInputs((), made | {name: makers[name](model, config, generator)} | decoder)
    yield from _guessed(model, generator)


def ids_for(model: nn.Module, config: Any, generator: Generator, length: int | None = None) -> Tensor:
    """Ids [1, N] within the vocabulary, from its longest stretch without special tokens; N a prime that is no size in the model."""
    text = _text(config)
    words = _vocabulary(model, text)
    special = sorted(i for i in _special(config) | _special(text) if 0 <= i < words)
    low, high = max(zip([-1, *special], [*special, words], strict=True), key=lambda gap: gap[1] - gap[0])
    low = low + 1 if high - low > 2 else 0
    return torch.randint(low, max(high, low + 2), (1, length or length_for(model, text)), generator=generator)


def length_for(model: nn.Module, config: Any = None) -> int:
    """A number of tokens unlike any size of the model's, and no more than it has places for.

    Angles that follow the length do so beyond the original maximum only, so there the text is longer, if that is not long.
    """
    sizes = {size for p in model.parameters() for size in p.shape}
    sizes |= {v for v in vars(config).values() if isinstance(v, int)} if config is not None else set()
    said = (getattr(config, n, None) for n in ("max_position_embeddings", "n_positions", "max_target_positions"))
    most = next((v for v in said if isinstance(v, int) and v > 0), 64)
    beyond = original + 1 if (original := _original(config)) else 0
    longer = (n for n in range(beyond, beyond + 64) if n not in sizes and all(n % k for k in range(2, n)))
    if 0 < beyond <= LONGEST:
        return next(longer)
    return next((n for n in LENGTHS if n not in sizes and n <= most), 3)


def _original(config: Any) -> int:
    """The length from which on a rotary model's angles follow the length; 0 where they never do."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(rope, dict) or rope.get("rope_type", rope.get("type")) not in ("dynamic", "longrope"):
        return 0
    said = rope.get("original_max_position_embeddings") or getattr(config, "max_position_embeddings", 0)
    return int(said or 0)


def _text(config: Any) -> Any:
    get = getattr(config, "get_text_config", None)
    try:
        return get(decoder=True) if callable(get) else config
    except Exception:  # several texts
        return getattr(config, "text_config", config)


def _vocabulary(model: nn.Module, config: Any) -> int:
    try:
        rows = getattr(model.get_input_embeddings(), "num_embeddings", None)  # type: ignore[operator]
    except Exception:  # not every class has one
        rows = None
    said = getattr(config, "vocab_size", None)
    found = [n for n in (rows, said) if isinstance(n, int) and n > 1]
    return min(found, default=50)


def _special(config: Any) -> set[int]:
    found: set[int] = set()
    for name, value in vars(config).items() if hasattr(config, "__dict__") else ():
        if name.endswith(("_token_id", "_token_index", "_token_ids")):
            found |= {v for v in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(v, int)}
    return found


def _inside(config: Any, name: str, default: int) -> int:
    """A size of the configuration, or of one inside it."""
    for one in (config, *(v for v in vars(config).values() if hasattr(v, "model_type"))):
        value = getattr(one, name, None)
        value = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(value, int):
            return value
    return default


def _picture(model: nn.Module, config: Any, generator: Generator) -> Tensor:
    size = _inside(config, "image_size", 32)
    return _noise(1, _inside(config, "num_channels", 3), size, size, g=generator)


def _spectrum(model: nn.Module, config: Any, generator: Generator) -> Tensor:
    bins = _inside(config, "num_mel_bins", 80)
    places = getattr(config, "max_source_positions", None)
    if isinstance(places, int):
        return _noise(1, bins, 2 * places, g=generator)
    return _noise(1, 64, bins, g=generator)


def _wave(model: nn.Module, config: Any, generator: Generator) -> Tensor:
    return _noise(1, 4000, g=generator)


def _pictured(model: Any, generator: Generator) -> Iterator[ExampleInputs]:
    channels, height, width = model.default_cfg["input_size"]
    embed = getattr(model, "patch_embed", None)
    size = getattr(embed, "img_size", None)
    if isinstance(size, tuple):
        yield ExampleInputs((_noise(1, channels, *size, g=generator),))
    for side in (64, 96):
        yield ExampleInputs((_noise(1, channels, side, side, g=generator),))
    yield ExampleInputs((_noise(1, channels, height, width, g=generator),))


# --------------------------------------------------------------------------------------------------------- any other module


def _guessed(model: nn.Module, generator: Generator) -> Iterator[ExampleInputs]:
    """Points where an argument is called so; else ids, features or pictures, whichever the first layer takes."""
    taken = arguments(model)
    needed = _required(model)
    if any(n in POINTS for n in taken):
        yield from _spatial(model, taken, generator)
    count = max(len(needed), 1)
    table = next((m for m in model.modules() if isinstance(m, nn.Embedding)), None)
    seen: set[tuple[int, ...]] = set()
    if table is not None:
        length = length_for(model)
        yield ExampleInputs(tuple(torch.randint(table.num_embeddings, (1, length), generator=generator) for _ in range(count)))
    for shape in _shapes(model):
        if shape not in seen:
            seen.add(shape)
            yield ExampleInputs(tuple(_noise(*shape, g=generator) for _ in range(count)))


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
            # where rows of a batch come second, one sequence without a batch cannot be mistaken for a batch
            yield from ((n, width),) if sequence_first else ((1, n, width), (n, width), (1, width))
    yield from ((1, n, 16), (1, 3, 32, 32))


def _spatial(model: nn.Module, taken: tuple[str, ...], generator: Generator) -> Iterator[ExampleInputs]:
    """Points, with atoms or features beside them where there is an argument for these: of the elements that the model names."""
    named = getattr(getattr(model, "spec", None), "elements", ())
    known = torch.tensor([NUMBERS.get(symbol, 1) for symbol in named] or list(range(1, 9)))
    for lead in ((1,), ()):
        given: dict[str, Any] = {}
        for name in taken:
            if name in POINTS:
                given[name] = _noise(*lead, 13, 3, g=generator)
            elif name in ATOMS:
                given[name] = known[torch.randint(len(known), (*lead, 13), generator=generator)]
        yield ExampleInputs((), given)


def _required(model: nn.Module) -> tuple[str, ...]:
    """Names of arguments without a default."""
    import inspect

    try:
        taken = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in taken if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _noise(*shape: int, g: Generator) -> Tensor:
    return torch.randn(*shape, generator=g)
