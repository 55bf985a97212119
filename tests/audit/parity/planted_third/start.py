"""Parameters of a model as after training: no zeros, no ones, no two alike."""

import torch


@torch.no_grad()
def trained(model):
    """The model in evaluation mode with random parameters: biases around 0, norm weights around 1, matrices that keep the scale."""
    for name, p in model.named_parameters():
        last = name.rsplit(".", 1)[-1]
        if p.dim() >= 2:
            p.normal_(0, 1.3 / p[0].numel() ** 0.5)
        elif last in ("weight", "gamma", "scale"):
            p.normal_(1, 0.25)
        else:
            p.normal_(0, 0.3)
    return model.eval()


def put(module, **tensors):
    """Copy tensors into the parameters of these names, and check the shapes."""
    for name, value in tensors.items():
        p = module.get_parameter(name)
        assert p.shape == value.shape, (name, p.shape, value.shape)
        p.data.copy_(value.detach())
    return module
