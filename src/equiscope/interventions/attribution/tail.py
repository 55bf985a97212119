"""The tail of a model: what runs after its last block, from the residual stream to the answer; most often a norm and a linear map.

The final norm divides by a scale that it computes from the stream. With this scale frozen, the norm is a linear map and an offset,
so parts that add up to the stream add up to the logit too: y = s · w ⊙ (x − mean(x)) + b, for RMSNorm without the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from equiscope.errors import InputError
from equiscope.interventions.layers import Layer
from equiscope.interventions.main_tensor import main_tensor
from equiscope.interventions.passes import ValuePoint
from equiscope.program.hooks import hooked

if TYPE_CHECKING:
    from equiscope.interventions.experiment import Experiment


@dataclass(frozen=True)
class StreamBlock:
    """A block of the stack: its path, and the layers (attentions) in it, by their numbers among all."""

    path: str
    layers: tuple[int, ...]

    @property
    def entry(self) -> ValuePoint:
        return ValuePoint("input", self.path)

    @property
    def exit(self) -> ValuePoint:
        return ValuePoint("module", self.path)


def blocks_of(layers: Sequence[Layer], of: str) -> list[StreamBlock]:
    """The blocks around the attentions whose path contains `of`, in order; of a model with several stacks the last one.

    raises  InputError where no attention stands in a block
    """
    found: dict[str, list[int]] = {}
    for number, layer in enumerate(layers):
        if of in layer.attention.path and layer.block:
            found.setdefault(layer.block, []).append(number)
    if not found:
        raise InputError(f"No block of layers was found{f' in {of!r}' if of else ''}, so there is no residual stream to read.")
    paths = [layer.attention.path for layer in layers]
    twice = next((path for path in paths if paths.count(path) > 1), "")
    if twice:
        raise InputError(f"{twice} runs more than once in a pass, so its streams share the path of its block.")
    last = _stack(next(reversed(found)))
    return [StreamBlock(path, tuple(numbers)) for path, numbers in found.items() if _stack(path) == last]


def _stack(path: str) -> str:
    """A path without its numbers: blocks of one stack differ in them alone."""
    return ".".join(part for part in path.split(".") if not part.isdigit())


@dataclass(frozen=True)
class Frozen:
    """The final norm with its scale frozen: y = gain ⊙ C x + b, with C x = x − mean(x) where it centers. Of no norm y = x.

    path  of the norm; empty where there is none; gain [B, N, D]: weight times scale; offset: b
    """

    path: str = ""
    gain: Tensor | None = None
    centers: bool = False
    offset: Tensor | None = None

    def back(self, gradient: Tensor) -> Tensor:
        """From a gradient by y to that by x, with the scale frozen."""
        if self.gain is None:
            return gradient
        product = gradient * self.gain
        return product - product.mean(-1, keepdim=True) if self.centers else product


@dataclass(frozen=True)
class Tail:
    """Modules that run after the last block, by their paths; the norm among them that reads the stream, with its scale frozen."""

    modules: tuple[str, ...]
    norm: Frozen

    @property
    def words(self) -> str:
        """What the tail is, in words."""
        if not self.modules:
            return "Nothing runs after the last block: each stream is read as if it were the output."
        norm = f" (final norm: {self.norm.path})" if self.norm.path else " (there is no final norm)"
        return f"Each stream is read by the modules that follow the last block: {', '.join(self.modules)}{norm}."


def tail_of(experiment: "Experiment", block: StreamBlock) -> Tail:
    """The tail after a block, from one pass of the model."""
    stream: list[Tensor] = []
    ran: list[str] = []
    norms: list[tuple[str, nn.Module, Tensor, Tensor]] = []
    inputs: dict[str, Tensor | None] = {}

    def before(path: str, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if stream and path:
            ran.append(path)
            inputs[path] = main_tensor((args, kwargs))

    def after(path: str, module: nn.Module, output: Any) -> None:
        value = main_tensor(output) if output is not None else None
        if path == block.path and value is not None:
            stream[:] = [value]
        read = inputs.get(path)
        if stream and read is not None and value is not None and _same(read, stream[0]) and not list(module.children()):
            norms.append((path, module, read, value))

    with hooked(list(experiment.model.named_modules()), before=before, after=after):
        experiment.forward({})
    modules = tuple(path for path in dict.fromkeys(ran) if not any(path.startswith(f"{other}.") for other in ran))
    if not stream:
        raise InputError(f"{block.path} returns no tensor of floats, so there is no residual stream to read.")
    frozen = (frozen_norm(path, module, x, y) for path, module, x, y in norms)
    return Tail(modules, next((one for one in frozen if one is not None), Frozen()))


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.equal(a, b)


def frozen_norm(path: str, norm: nn.Module, x: Tensor, y: Tensor) -> Frozen | None:
    """A norm that turned x into y, with its scale frozen; None where no LayerNorm or RMSNorm with its parameters gives y.

    The gain is its weight, or 1 + weight as in Gemma.
    """
    epsilon = next((e for name in ("eps", "variance_epsilon", "epsilon") if isinstance(e := getattr(norm, name, None), float)), 0.0)
    weight, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    ones = torch.ones(x.shape[-1], dtype=torch.float64, device=x.device)
    x64, b64 = x.detach().double(), (0 * ones if bias is None else bias.detach().double())
    w64 = ones if weight is None else weight.detach().double()
    if w64.shape != ones.shape or b64.shape != ones.shape:
        return None
    tolerance = 1e-5 if y.dtype == torch.float64 else 1e-2  # norms of transformers compute in float32
    for centers in (True, False):
        read = x64 - x64.mean(-1, keepdim=True) if centers else x64
        scale = (read.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        for w in (w64, 1 + w64):
            near = (read * scale * w + b64 - y.detach().double()).abs().max() <= tolerance * y.detach().abs().max()
            if near:
                return Frozen(path, scale * w, centers, b64)
    return None
