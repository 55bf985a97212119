"""What tests in space share: turns, random features, random parameters."""

import math

import torch

from equiscope.geometry import Features


def turn(degrees: float, seed: int = 0) -> torch.Tensor:
    """A turn about a random axis, float64 [3, 3]."""
    axis = torch.nn.functional.normalize(torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64), dim=0)
    x, y, z = axis.tolist()
    cross = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)
    angle = math.radians(degrees)
    return torch.eye(3, dtype=torch.float64) + math.sin(angle) * cross + 2 * math.sin(angle / 2) ** 2 * cross @ cross


def features(widths, batch=2, points=5, dtype=torch.float64, seed=0) -> Features:
    generator = torch.Generator().manual_seed(seed)
    shapes = {kind: (batch, points, *([3] if kind[0] == "1" else []), width) for kind, width in widths.items()}
    return Features({kind: torch.randn(shape, generator=generator, dtype=dtype) for kind, shape in shapes.items()})


def places(batch=2, points=5, spread=2.0, dtype=torch.float64, seed=1) -> torch.Tensor:
    return torch.randn(batch, points, 3, generator=torch.Generator().manual_seed(seed), dtype=dtype) * spread


def randomised(module, scale=0.5, dtype=torch.float64):
    """A module whose parameters are all drawn: nothing that a start sets to 0 is hidden."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * scale)
    return module.to(dtype)


def apart(found: Features, wanted: Features) -> float:
    """Largest difference of any kind, by the largest number of that kind."""
    assert found.keys() == wanted.keys()
    return max(float((found[k] - wanted[k]).detach().abs().max() / wanted[k].detach().abs().max()) for k in wanted)
