"""Errors of equivariance and of the gradient, in float64, with few points and randomly perturbed weights.

Weights are perturbed because an initialisation may hide an error: weights of zero in a later layer, norm weights of one.
"""

import torch
from benchmarks.geometry import energies, points

MOVED, STEP, WAYS = 0.1, 1e-4, 6  # how far weights are moved; of a difference; directions that are tried


def exactness(make, channels, count, learns):
    """Relative errors: of the energy after a rotation, of the gradient after it, and of gradients against finite differences.

    learns  whether the contestant is one of `energies`: the gradient of its loss with respect to weights is compared too
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(0)
        model = make(channels).double()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(MOVED * torch.randn_like(weight))
        at, given = points.places(count), points.atoms(count) if learns else points.features(count, channels)
        return _errors(model, given, at.double(), learns)
    except Exception as error:  # a peer may fail in any way: that is a result
        return {"why": f"{type(error).__name__}: {str(error).splitlines()[0][:90] if str(error) else ''}"}
    finally:
        torch.set_default_dtype(before)


def _errors(model, given, at, learns):
    turn, _ = torch.linalg.qr(torch.randn(3, 3))
    turn = turn * torch.det(turn).sign()
    energy, slope = _sloped(model, given, at, learns)
    other, turned = _sloped(model, given, at @ turn.mT + torch.randn(3), learns)
    ways = torch.randn(WAYS, *at.shape)
    wanted = torch.stack([_difference(lambda h, way=way: _sloped(model, given, at + h * way, learns)[0]) for way in ways])
    found = {
        "turned": float((other - energy).abs() / energy.abs()), "slope turned": _relative(turned @ turn, slope),
        "slope": _relative((ways * slope).sum((-1, -2, -3)), wanted),
    }  # fmt: skip
    return found | ({"learned": _learned(model, given, at)} if learns else {})


def _sloped(model, given, at, learns):
    if learns:
        energy, forces = model(given, at)
        return energy.detach().sum(), -forces.detach()
    at = at.clone().requires_grad_()
    energy = model(given, at)
    return energy.detach(), torch.autograd.grad(energy, at)[0]


def _learned(model, numbers, at):
    energies.step(model, numbers, at)
    weights = [p for p in model.parameters() if p.grad is not None]
    slopes = [p.grad.clone() for p in weights]
    found, wanted = [], []
    for _ in range(WAYS):
        ways = [torch.randn_like(p) * p.detach().square().mean().sqrt() for p in weights]

        def moved(h, ways=ways):
            with torch.no_grad():
                for p, way in zip(weights, ways, strict=True):
                    p.add_(h * way)
            lost = energies.loss(model, numbers, at).detach()
            with torch.no_grad():
                for p, way in zip(weights, ways, strict=True):
                    p.sub_(h * way)
            return lost

        wanted.append(_difference(moved))
        found.append(sum((slope * way).sum() for slope, way in zip(slopes, ways, strict=True)))
    return _relative(torch.stack(found), torch.stack(wanted))


def _difference(f, h=STEP):
    """The derivative at 0, by a five-point formula."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def _relative(found, wanted):
    return float((found - wanted).norm() / wanted.norm())
