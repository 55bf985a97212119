"""Gradient: the backward pass computes the derivative of the forward pass.

A custom backward, a detached tensor or a hook that scales can be wrong while every output is right; only training then suffers. The
outputs are differenced along random directions of the parameters and of the inputs, with two step sizes, and compared with the
gradients of random sums of the outputs. (Where the forward pass has a symmetry, correct gradients have it too.)

Some models are given exactly at a kink: a residual branch that begins as zero leaves relu at 0, and equal values meet in a max.
There the derivatives to the two sides differ, and no gradient equals their mean. Then the test is repeated nearby.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided
from equiscope.audit.subject import ModelError, Pass, Subject
from equiscope.audit.subject.deepcopy import deepcopy
from equiscope.program.hooks import hooked
from equiscope.record import Row
from equiscope.record.audit import Verdict
from equiscope.symmetry import Inputs
from equiscope.symmetry.inputs import InputKind

STEP = 1e-5  # relative; in float64 a central difference with it is right to about 1e-10, and rarely crosses a kink
AGREES = 1e-6
ZERO = 1e-15  # a size below it is what rounding leaves of zero
NEARBY = 1e-2  # relative, of parameters and inputs: far beyond STEP, so that it leaves a kink
SUMS = 3  # random sums of the outputs whose gradients are compared
FLOATS: tuple[InputKind, ...] = ("features", "image", "wave", "points", "vectors", "tokens")


@dataclass(frozen=True)
class DirectionalDerivatives:
    """Derivatives of a few random sums of the outputs along one direction.

    coarse, fine  by differences with two step sizes; backward: by gradients
    """

    coarse: Tensor
    fine: Tensor
    backward: Tensor

    @property
    def scale(self) -> float:
        sizes = self.fine.norm().item(), self.backward.norm().item()
        return max(sizes, key=lambda x: math.inf if x != x else x)

    @property
    def error(self) -> float:
        return (self.fine - self.backward).norm().item() / self.scale if not self.scale <= 1e-9 else 0.0

    @property
    def resolution(self) -> float:
        """The difference between the two step sizes: smaller errors cannot be resolved."""
        return (self.fine - self.coarse).norm().item() / self.scale if not self.scale <= 1e-9 else 0.0


class Gradient(MeasuredProperty):
    """Gradients with respect to parameters and inputs equal the finite differences of the outputs."""

    name = "gradient"
    summary = "gradients are the derivatives of what the model computes"

    def missing(self, subject: Subject) -> str:
        trainable = any(p.requires_grad and p.is_floating_point() for p in subject.model.parameters())
        return "" if trainable or _float_inputs(subject.inputs) else "there are no floating-point parameters or inputs"

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        run = subject.in_dtype(torch.float64)
        if run.model is subject.model:
            run.model = deepcopy(run.model)  # the parameters are perturbed, never the user's own
        trainable = {n: p for n, p in run.model.named_parameters() if p.requires_grad and p.is_floating_point()}
        float_inputs = _float_inputs(run.inputs)
        derivatives = {}
        if trainable:
            derivatives["parameters"] = _derivatives(run, list(trainable.values()), {})
        if float_inputs:
            derivatives["inputs"] = _derivatives(run, [], float_inputs)
        errors = [s.error for s in derivatives.values()]
        if any(e != e for e in errors):
            raise Undecided("outputs or gradients are not finite")
        wrong = _wrong(derivatives)
        given = {n: (list(trainable.values()), {}) if n == "parameters" else ([], float_inputs) for n in wrong}
        if not wrong or not all(_at_kink(run, *given[n], s.error) for n, s in wrong.items()):
            return self._judged(run, derivatives, trainable, tolerance, "")
        with _nearby(run):
            derivatives |= {n: _derivatives(run, parameters, _moved(run, inputs)) for n, (parameters, inputs) in given.items()}
            note = "not differentiable at the given point, a kink as of relu at 0: tested nearby"
            return self._judged(run, derivatives, trainable, tolerance, note)

    def _judged(
        self, run: Pass, derivatives: dict[str, DirectionalDerivatives], trainable: dict[str, nn.Parameter], tolerance: float,
        note: str,
    ) -> Row:  # fmt: skip
        wrong, errors = _wrong(derivatives), [s.error for s in derivatives.values()]
        if not wrong:
            resolution = max(s.resolution for s in derivatives.values())
            if resolution > 1e-2:
                raise Undecided(f"the outputs are not smooth here: halving the step changes a derivative by {resolution:.0%}")
            return self.row("holds", errors, note=note if _has_slope(derivatives) else "no output depends on them")
        verdict: Verdict = "approximate" if max(errors) < tolerance else "broken"
        where = _first_wrong_module(run, trainable) if "parameters" in wrong else ""
        scope = f"; this affects {where} and the modules before it, not those after it" if where else ""
        return self.row(verdict, errors, where=where, cause=_cause(wrong) + scope, note=note)


def _wrong(derivatives: dict[str, DirectionalDerivatives]) -> dict[str, DirectionalDerivatives]:
    return {n: s for n, s in derivatives.items() if s.error > max(AGREES, 10 * s.resolution)}


def _has_slope(derivatives: dict[str, DirectionalDerivatives]) -> bool:
    return any(s.scale > 1e-9 for s in derivatives.values())


def _cause(wrong: dict[str, DirectionalDerivatives]) -> str:
    whose = " and ".join(wrong)
    slopes = next(iter(wrong.values()))
    if slopes.backward.norm() < 1e-9 * slopes.fine.norm():
        return f"the gradient with respect to the {whose} is zero, but the outputs depend on them: something is detached or rounded"
    if slopes.fine.norm() < 1e-9 * slopes.backward.norm():
        odd = "there is a gradient, but the outputs do not depend on them (a straight-through estimator?)"
        return f"with respect to the {whose} {odd}"
    ratio = slopes.backward / slopes.fine
    if (ratio - ratio[0]).norm() < 1e-4 * ratio.norm():
        return f"the gradient with respect to the {whose} is {ratio[0].item():.4g} times the derivative of the outputs"
    return f"the gradient with respect to the {whose} is not the derivative of the outputs"


def _derivatives(run: Pass, parameters: Sequence[Tensor], float_inputs: dict[str, Tensor]) -> DirectionalDerivatives:
    """Derivatives along one random direction of these parameters, or of these inputs."""
    inputs, direction, values = _line(run, parameters, float_inputs)
    differences = []
    for h in (STEP, STEP / 2):
        differences.append([(a - b) / (2 * h) for a, b in zip(values(h), values(-h), strict=True)])
    if not differences[0]:
        raise Undecided("no output has floating-point values that could be differentiated")
    sums = _sums(differences[0], run.subject.seed)
    coarse, fine = (torch.stack([_dot(weights, d) for weights in sums]) for d in differences)
    return DirectionalDerivatives(coarse, fine, _backward(run, inputs, direction, sums))


def _line(
    run: Pass, parameters: Sequence[Tensor], float_inputs: dict[str, Tensor], salt: int = 29
) -> tuple[Inputs, "Direction", Callable[[float], list[Tensor]]]:
    """The inputs, a random direction of these variables, and the outputs at a step along it."""
    perturbed = {n: t.detach().clone() for n, t in float_inputs.items()}
    inputs = _with_inputs(run.inputs, perturbed)
    variables = [*parameters, *perturbed.values()]
    sizes = [_size(v) for v in variables]

    def direction() -> Iterator[tuple[Tensor, Tensor]]:
        """Drawn again at each call, so that no copy is stored."""
        generator = torch.Generator().manual_seed(run.subject.seed + salt)
        for v, size in zip(variables, sizes, strict=True):
            yield v, size * torch.randn(v.shape, generator=generator, dtype=torch.float64).to(v)

    def values(h: float) -> list[Tensor]:
        with _perturbed(direction, h):
            return [t for t in run.outputs_of(inputs.call).values() if t.is_floating_point()]

    return inputs, direction, values


def _size(v: Tensor) -> float:
    """The root mean square of a variable, by which it is perturbed; 1 of one that is zero, or was before it was perturbed."""
    size = v.detach().norm().item() / max(v.numel(), 1) ** 0.5
    return size if size > ZERO else 1.0


def _at_kink(run: Pass, parameters: Sequence[Tensor], float_inputs: dict[str, Tensor], wrong: float) -> bool:
    """Whether the derivatives to the two sides differ by about the error, however small the step: by a curvature they would not."""
    _, _, values = _line(run, parameters, float_inputs)
    middle, gaps, scale = values(0.0), list[float](), 0.0
    sums = _sums(middle, run.subject.seed)
    for h in (STEP, STEP / 2):
        ahead, behind = values(h), values(-h)
        bends = [(a - 2 * m + b) / h for a, m, b in zip(ahead, middle, behind, strict=True)]
        slopes = [(a - b) / (2 * h) for a, b in zip(ahead, behind, strict=True)]
        gaps.append(torch.stack([_dot(weights, bends) for weights in sums]).norm().item())
        scale = torch.stack([_dot(weights, slopes) for weights in sums]).norm().item()
    return gaps[1] > 0.75 * gaps[0] and gaps[1] > 0.1 * wrong * scale


@contextmanager
def _nearby(run: Pass) -> Iterator[None]:
    """Inside, all parameters differ a little, at random: a kink of zero or of equal values is left that way."""
    _, direction, _ = _line(run, [p for p in run.model.parameters() if p.is_floating_point()], {}, 37)
    with _perturbed(direction, NEARBY):
        yield


def _moved(run: Pass, float_inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Inputs that differ as little."""
    generator = torch.Generator().manual_seed(run.subject.seed + 53)
    noise = {n: torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t) for n, t in float_inputs.items()}
    return {n: t + NEARBY * _size(t) * noise[n] for n, t in float_inputs.items()}


Direction = Callable[[], Iterator[tuple[Tensor, Tensor]]]


@contextmanager
def _perturbed(direction: Direction, h: float) -> Iterator[None]:
    """Inside, the variables are perturbed. They belong to a copy, so a rounding in the sixteenth digit does not matter."""
    with torch.no_grad():
        for v, d in direction():
            v.add_(d, alpha=h)
    try:
        yield
    finally:
        with torch.no_grad():
            for v, d in direction():
                v.sub_(d, alpha=h)


def _sums(like: list[Tensor], seed: int) -> list[list[Tensor]]:
    generator = torch.Generator().manual_seed(seed + 31)
    return [[torch.randn(t.shape, generator=generator, dtype=torch.float64) for t in like] for _ in range(SUMS)]


def _dot(weights: list[Tensor], values: list[Tensor]) -> Tensor:
    return torch.stack([(w * v).sum() for w, v in zip(weights, values, strict=True)]).sum()


def _backward(run: Pass, inputs: Inputs, direction: Direction, sums: list[list[Tensor]]) -> Tensor:
    """Gradients of the sums along the direction; each parameter's gradient is freed after use."""
    variables = [v for v, _ in direction()]
    before = [v.requires_grad for v in variables]
    with run.within(gradients=True):
        try:
            for v in variables:
                v.requires_grad_(True)
            chosen = run.subject.select_outputs(inputs.call(run.counted_model)).values()
            outputs = [t for t in (torch.view_as_real(c) if c.is_complex() else c for c in chosen) if t.is_floating_point()]
            if not any(t.requires_grad for t in outputs):
                return torch.zeros(len(sums), dtype=torch.float64)
            return torch.stack([_along(outputs, weights, direction) for weights in sums])
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"the backward pass raised {type(error).__name__}: {' '.join(str(error).split())[:160]}") from error
        finally:
            for v, needed in zip(variables, before, strict=True):
                v.requires_grad_(needed)


def _along(outputs: list[Tensor], weights: list[Tensor], direction: Direction) -> Tensor:
    total = torch.stack(
        [(t.double() * w.to(t.device)).sum() for t, w in zip(outputs, weights, strict=True) if t.requires_grad]
    ).sum()
    gradients = torch.autograd.grad(total, [v for v, _ in direction()], retain_graph=True, allow_unused=True)
    slopes = [(g * d).sum() for g, (_, d) in zip(gradients, direction(), strict=True) if g is not None]
    return torch.stack(slopes).sum().cpu().double() if slopes else torch.zeros((), dtype=torch.float64)


def _first_wrong_module(run: Pass, trainable: dict[str, nn.Parameter]) -> str:
    """The last module whose parameters have wrong gradients: a fault affects all modules before it. Found by bisection."""
    order = _call_order(run, trainable)
    low, high = 0, len(order)  # of order[low:], some gradient is wrong; of order[high:], none
    while high - low > 1:
        middle = (low + high) // 2
        tail = [trainable[n] for path in order[middle:] for n in _parameters_of(trainable, path)]
        slopes = _derivatives(run, tail, {})
        if slopes.error > max(AGREES, 10 * slopes.resolution):
            low = middle
        else:
            high = middle
    return order[low] or type(run.model).__name__


def _call_order(run: Pass, trainable: dict[str, nn.Parameter]) -> list[str]:
    """Modules with parameters, in the order in which they end."""
    order: list[str] = []
    holders = {n.rpartition(".")[0] for n in trainable}
    modules = {path: m for path, m in run.model.named_modules() if path in holders}
    with hooked(modules.items(), after=lambda path, *_: order.append(path)):
        run.outputs_of(run.inputs.call)
    called = list(dict.fromkeys(order))
    return [path for path in modules if path not in called] + called


def _parameters_of(trainable: dict[str, nn.Parameter], path: str) -> list[str]:
    return [n for n in trainable if n.rpartition(".")[0] == path]


def _float_inputs(inputs: Inputs) -> dict[str, Tensor]:
    """The inputs with floating-point values."""
    derivatives = {n: getattr(v, "x", v) for n, v in inputs.of(*FLOATS).items()}
    return {n: t for n, t in derivatives.items() if isinstance(t, Tensor) and t.is_floating_point()}


def _with_inputs(inputs: Inputs, perturbed: dict[str, Tensor]) -> Inputs:
    return inputs.with_values({n: replace(v, x=t) if hasattr(v := inputs.values[n], "x") else t for n, t in perturbed.items()})
