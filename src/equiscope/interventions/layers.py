"""Where layers, feed-forwards and the residual stream of a model are: the modules around each attention."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from equiscope.errors import InputError
from equiscope.interventions.attention_calls import AttentionSite
from equiscope.interventions.passes import ValuePoint
from equiscope.interventions.sites import OF_HEADS, Site


@dataclass(frozen=True)
class Layer:
    """An attention and the block around it.

    block  path of the block; its input is the residual stream
    down   path of the down-projection of its feed-forward; empty where it has none
    tokens axis of the tokens in its residual stream
    cross  whether it is cross-attention: another attention of its block runs before it, or its rows are not its columns
    """

    attention: AttentionSite
    block: str
    down: str
    tokens: int = -2
    cross: bool = False


def layers_of(model: nn.Module, attentions: Sequence[AttentionSite]) -> list[Layer]:
    """A layer for each attention, in the order in which they run."""
    layers: list[Layer] = []
    for one in attentions:
        layer = _layer(model, one)
        second = bool(layer.block) and any(other.block == layer.block for other in layers)
        layers.append(replace(layer, cross=second or one.rows != one.columns))
    return layers


def _layer(model: nn.Module, one: AttentionSite) -> Layer:
    parts = one.path.split(".")
    numbered = [".".join(parts[: i + 1]) for i in reversed(range(len(parts))) if parts[i].isdigit()]
    outside = {path: _linears(model, path, one.path) for path in numbered}
    block = next((path for path in numbered if outside[path]), numbered[0] if numbered else "")
    maps = outside.get(block, [])
    width = _sizes(model.get_submodule(maps[0]))[0] if maps else 0
    down = next((path for path in reversed(maps) if _sizes(model.get_submodule(path))[1] == width), "")
    attention = model.get_submodule(one.path)
    first = isinstance(attention, nn.MultiheadAttention) and not attention.batch_first
    return Layer(one, block, down, 0 if first else -2)


def _linears(model: nn.Module, block: str, attention: str) -> list[str]:
    """Linear maps in a block that do not belong to its attention."""
    inside = ((f"{block}.{name}" if name else block, part) for name, part in model.get_submodule(block).named_modules())
    return [path for path, part in inside if _sizes(part)[0] and not f"{path}.".startswith(f"{attention}.")]


def _sizes(module: nn.Module) -> tuple[int, int]:
    """Features in and out of a linear map, also of the Conv1D of transformers, whose weight is transposed; (0, 0) of others."""
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    weight = getattr(module, "weight", None)
    if type(module).__name__ == "Conv1D" and weight is not None and weight.ndim == 2:
        return weight.shape[0], weight.shape[1]
    return 0, 0


def points_of(site: Site, layers: Sequence[Layer]) -> list[ValuePoint]:
    """The points of a site. Raises InputError where the model has no such layer, head, neuron or module."""
    if site.quantity in ("module", "input"):
        return [ValuePoint(site.quantity, site.path)]
    counted = [
        one
        for one in layers
        if site.of in one.attention.path and f"{one.attention.path}.".startswith(f"{site.path}." * bool(site.path))
    ]
    if not counted:
        paths = list(dict.fromkeys(one.attention.path for one in layers))
        raise InputError(
            f"No attention runs in {site.path or site.of!r}. Attentions run in {', '.join(paths[:12]) or 'no module'}."
        )
    if site.quantity == "embeddings":
        return [ValuePoint("input", counted[0].block)]
    if site.quantity == "stream":
        assert site.layer is not None
        layer = site.layer if site.layer >= 0 else site.layer + len(counted) + 1
        if layer == len(counted):
            return [ValuePoint("module", counted[-1].block)]
        return [ValuePoint("input", _counted(counted, layer, site).block)]
    chosen = counted if site.layer is None else [_counted(counted, site.layer, site)]
    if site.quantity == "neurons":
        found = list(dict.fromkeys(one.down for one in chosen if one.down))
        if not found:
            raise InputError(f"No feed-forward was found in {chosen[0].block or 'the model'}. Name a module: module(path).")
        return [ValuePoint("input", path) for path in found]
    assert site.quantity in OF_HEADS
    for one in chosen:
        heads = one.attention.kv_heads if site.quantity in ("k", "v") else one.attention.heads
        if site.index is not None and not -heads <= site.index < heads:
            kind = f"heads of {site.quantity}" if heads != one.attention.heads else "heads"
            raise InputError(f"{one.attention.path or 'The model'} has {heads} {kind}, counted from 0, but {site} was asked for.")
    return [ValuePoint(site.quantity, one.attention.index) for one in chosen]


def _counted(layers: Sequence[Layer], number: int, site: Site) -> Layer:
    if not -len(layers) <= number < len(layers):
        raise InputError(f"There are {len(layers)} layers, counted from 0, but {site} was asked for.")
    return layers[number]
