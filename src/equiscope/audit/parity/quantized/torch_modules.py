"""torch's dynamically quantized modules as floating-point modules of the same arithmetic, which every precision can run.

`torch.ao.quantization.quantize_dynamic` leaves kernels that exist in float32 only and that hold their weights packed.
"""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

PACKAGE = "torch.ao.nn.quantized"


class RoundedLinear(nn.Module):
    """A linear map whose input is rounded to one of `levels` + 1 numbers, between its smallest and its largest one."""

    def __init__(self, weight: Tensor, bias: Tensor | None, levels: int) -> None:
        super().__init__()
        self.weight, self.bias, self.levels = nn.Parameter(weight), None if bias is None else nn.Parameter(bias), levels

    def forward(self, x: Tensor) -> Tensor:
        """x [..., inputs] to [..., outputs]."""
        low, high = x.min().clamp(max=0.0), x.max().clamp(min=0.0)
        step = (high - low) / self.levels
        zero = (-low / step).round()
        integers = ((x / step).round() + zero).clamp(0, self.levels)
        return nn.functional.linear((integers - zero) * step, self.weight, self.bias)

    def explains(self, x: Tensor, y: Tensor) -> bool:
        """Whether y may be this linear map of x, each number of which is rounded by half a step at most."""
        x, weight = x.double(), self.weight.double()
        bias = torch.zeros(len(weight)).double() if self.bias is None else self.bias.double()
        step = (x.max().clamp(min=0.0) - x.min().clamp(max=0.0)) / self.levels
        exact = nn.functional.linear(x, weight, bias)
        rounding = 2.0**-20 * nn.functional.linear(x.abs(), weight.abs(), bias.abs())  # of sums in float32
        return bool(((y.double() - exact).abs() <= 0.501 * step * weight.abs().sum(-1) + rounding).all())


def in_floats(model: nn.Module) -> nn.Module | None:
    """A copy of the model without torch's quantized linear maps and embeddings; None where it has none."""
    if not any(_is_quantized(module) for module in model.modules()):
        return None
    found, made = copy.deepcopy(model), dict[int, nn.Module]()
    for parent in list(found.modules()):
        for name, child in list(parent.named_children()):
            if _is_quantized(child):
                if id(child) not in made:
                    made[id(child)] = _in_floats(child)
                setattr(parent, name, made[id(child)])
    return found


def _is_quantized(module: nn.Module) -> bool:
    if not type(module).__module__.startswith(PACKAGE) or type(module).__name__ not in ("Linear", "Embedding"):
        return False
    weight: Any = module.weight
    return bool(weight().is_quantized)  # of dynamic quantization to float16 it is not


def _in_floats(module: Any) -> nn.Module:
    weight = module.weight().dequantize().detach()
    if type(module).__name__ == "Embedding":
        made: nn.Module = nn.Embedding.from_pretrained(weight)
        return made.train(module.training)
    bias = module.bias()
    bias = None if bias is None else bias.detach()
    x = torch.randn(64, weight.shape[1], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = module(x)
        forms = [RoundedLinear(weight, bias, levels) for levels in (127, 255)]  # torch's engines differ in this
        return min(forms, key=lambda form: float((form(x) - y).norm())).train(module.training)


def wrong_kernels(model: nn.Module, floats: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """The quantized linear maps of a model whose outputs are further from those in `floats` than rounding the input explains.

    Each is compared at the input that it gets in this call.
    """
    wrong: dict[str, None] = {}
    handles, forms = [], dict(floats.named_modules())
    for name, module in model.named_modules():
        form = forms.get(name)
        if isinstance(form, RoundedLinear):

            def compare(_: nn.Module, given: tuple[Tensor, ...], y: Tensor, form: RoundedLinear = form, name: str = name) -> None:
                if not form.explains(given[0], y):
                    wrong.setdefault(name)

            handles.append(module.register_forward_hook(compare))
    try:
        with torch.no_grad():
            model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return list(wrong)
