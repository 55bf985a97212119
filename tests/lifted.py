"""Peers in float64 throughout: their code casts norms, angles and softmax to float32, whatever the weights are."""

import torch
from torch.overrides import TorchFunctionMode


class Lifted(TorchFunctionMode):
    """Inside, a cast to float32 becomes one to float64, and so does a dtype that is asked for."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.float:
            return args[0].double()
        if kwargs.get("dtype") == torch.float32:
            kwargs["dtype"] = torch.float64
        if func in (torch.Tensor.to, torch.Tensor.type):
            args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        return func(*args, **kwargs)


def lifted(model):
    """The model in float64, made again from its definition where that was rounded: rotary clocks, Marian's
    sinusoids, BLOOM's constant of GELU."""
    model = model.double()
    for module in model.modules():
        if type(module).__name__ == "BloomGelu":  # sqrt(2 / pi) in eight digits
            module.forward = lambda x: torch.nn.functional.gelu(x, approximate="tanh")
        if type(module).__name__ == "MarianSinusoidalPositionalEmbedding":
            rows, width = module.weight.shape
            angles = torch.arange(rows).double()[:, None] / 10000 ** (torch.arange(0, width, 2).double() / width)
            module.weight.data = torch.cat([angles.sin(), angles.cos()], -1)
        if hasattr(module, "original_inv_freq"):
            with Lifted():
                exact = _clocks(module)
            module.register_buffer("inv_freq", exact, persistent=False)
    return model


def _clocks(module):
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    if module.rope_type == "default":
        return module.compute_default_rope_parameters(module.config)[0].double()
    return ROPE_INIT_FUNCTIONS[module.rope_type](module.config, torch.device("cpu"))[0].double()
