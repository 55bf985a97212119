"""Lie derivatives: how fast a symmetry breaks at the identity, by forward-mode differentiation in float64.

Finite elements can miss a violation that vanishes on a finite subgroup; a derivative cannot. Kernels without a forward mode (fused
attention) are replaced by the reference one. A model without forward-mode derivatives gives none, and the row says so.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

from equiscope.audit.subject import Pass
from equiscope.symmetry import Action
from equiscope.symmetry.flow import Flow


def derivative(run: Pass, action: type[Action], representations: dict[str, str]) -> float | None:
    """The largest Lie derivative over the directions of the group, relative to the size of the output; None if there is none.

    raises  ModelError where the model has no forward-mode derivative
    """
    flows = action.flows(run.inputs)
    sizes = [size for flow in flows if (size := _along(run, flow, representations)) is not None]
    return max(sizes, key=lambda s: float("inf") if s != s else s) if sizes else None


def _along(run: Pass, flow: Flow, representations: dict[str, str]) -> float | None:
    rates = flow.inputs(run.inputs)
    if not rates:
        return None
    changes: dict[str, tuple[Tensor, Tensor]] = {}

    def call(model: Any) -> Any:
        with forward_ad.dual_level(), sdpa_kernel(SDPBackend.MATH):
            dual_inputs = {n: _dual(run.inputs.values[n], rate) for n, rate in rates.items()}
            outputs = run.subject.select_outputs(run.inputs.with_values(dual_inputs).call(model))
            for name, t in outputs.items():
                primal, tangent = forward_ad.unpack_dual(t)
                rate = torch.zeros_like(primal) if tangent is None else tangent
                changes[name] = primal.detach().clone(), rate.detach().clone()
            return {n: y for n, (y, _) in changes.items()}

    run.outputs_of(call)
    worst = None
    for name, (y, rate) in changes.items():
        if not y.is_floating_point():
            continue
        expected = flow.output(y, representations.get(name, "invariant"))
        size = y.norm().item()
        if expected is None or size == 0:
            continue
        sizes = ((rate - expected).norm() / size).item()
        worst = sizes if worst is None else max(worst, sizes)
    return worst


def _dual(value: Any, rate: Tensor) -> Any:
    if hasattr(value, "positions") and hasattr(value, "x"):
        return replace(value, positions=forward_ad.make_dual(value.positions, rate), counted=None)
    return forward_ad.make_dual(value, rate)
