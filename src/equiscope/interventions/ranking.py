"""Rankings: many sites, each changed alone, by the change of a metric; measured in batches of copies, or estimated by gradients.

The estimate is the first-order change, gradient · (new value − value), of all sites from one forward and one backward pass.
Sources: Michel et al. 2019, "Are Sixteen Heads Really Better than One?" (ablation of heads); Nanda 2023, "Attribution Patching".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from equiscope.errors import InputError, counted, wrong_choice
from equiscope.interventions.changes import Change
from equiscope.interventions.effect import metric_values
from equiscope.interventions.passes import Edit, ValuePoint
from equiscope.interventions.sites import Site, head, neuron
from equiscope.record import display

if TYPE_CHECKING:
    from equiscope.interventions.experiment import Experiment

ROWS = 2048  # tokens of a batch of copies: more copies gain nothing on a CPU
COPIES = 16
SAME = 1e-3  # of the largest output: an unchanged copy in a batch must be as near to the unchanged run
PRINTED = 20
By = Literal["zero", "mean"] | Callable[[Site], Change | Sequence[Change]]


@dataclass(frozen=True)
class SiteEffect:
    """A site, and the change of the metric when it alone is changed.

    effect    measured, after minus before; None where it was only estimated
    estimate  by the gradient; None where it was only measured
    """

    site: Site
    effect: float | None = None
    estimate: float | None = None

    @property
    def size(self) -> float:
        """The absolute effect, measured where it was."""
        return abs(self.effect if self.effect is not None else self.estimate or 0.0)


@dataclass(repr=False)
class Ranking(display.Printed):
    """Sites by the size of their effect on a metric, the largest first.

    rows     a SiteEffect for each site
    metric   its name; before: its value in the unchanged run
    calls    calls of the model; copies: how many changed copies one call computed; passes: calls in copies of the inputs
    backward  backward passes
    batch_error  largest difference of an unchanged copy in a batch from the unchanged run, relative to its largest output
    worst    largest |estimate − effect| of the sites that have both; checked: their number; correlation: of these two numbers
    """

    rows: list[SiteEffect]
    metric: str
    before: float
    change: str
    calls: int
    passes: int
    copies: int = 1
    backward: int = 0
    batch_error: float | None = None
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, index: int) -> SiteEffect:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def checked(self) -> int:
        return len(self._both)

    @property
    def worst(self) -> float | None:
        return max((abs(a - b) for a, b in self._both), default=None)

    @property
    def correlation(self) -> float | None:
        """Pearson's, of estimates and effects; None for fewer than three, or where one of them does not vary."""
        if self.checked < 3:
            return None
        a, b = (torch.tensor(x, dtype=torch.float64) for x in zip(*self._both, strict=True))
        spread = a.std() * b.std()
        return None if spread == 0 else torch.corrcoef(torch.stack([a, b]))[0, 1].item()

    @property
    def _both(self) -> list[tuple[float, float]]:
        return [(row.estimate, row.effect) for row in self.rows if row.estimate is not None and row.effect is not None]

    @property
    def _heading(self) -> str:
        backward = f" and {self.backward} backward" if self.backward else ""
        together = f", up to {self.copies} copies in one" if self.copies > 1 else ""
        cost = f"{counted(self.calls, 'forward call')}{backward}{together}"
        text = f"{len(self)} sites by change of {self.metric} ({self.before:.4g} unchanged), each {self.change}: {cost}"
        if self.worst is not None and self.backward:
            near = "" if self.correlation is None else f", correlation {self.correlation:.3f}"
            text += f"; estimates checked on {self.checked} sites: largest error {self.worst:.3g}{near}"
        return text

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        estimated = any(row.estimate is not None for row in self.rows)
        rows = [("site", "change", *(("estimate",) if estimated else ()))]
        for row in self.rows[:PRINTED]:
            rows.append((str(row.site), _number(row.effect), *((_number(row.estimate),) if estimated else ())))
        if len(self) > PRINTED:
            rows.append((f"… {len(self) - PRINTED} more", "", *(("",) if estimated else ())))
        return rows


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:+.4g}"


def sites_of(experiment: "Experiment", which: str | Sequence[Site]) -> list[Site]:
    """Sites to rank: "heads"; "layers": the attention and the feed-forward of each; or a list."""
    if not isinstance(which, str):
        return list(which)
    layers = experiment.layers
    if which == "heads":
        return [head(i, h) for i, layer in enumerate(layers) for h in range(layer.attention.heads)]
    if which == "layers":
        sites = []
        for i, layer in enumerate(layers):
            sites.append(head(i))
            if layer.down and layer.down not in [one.down for one in layers[i + 1 :]]:
                sites.append(neuron(i))
        return sites
    raise wrong_choice("rank(which)", which, ["heads", "layers"])


def change_of(by: By) -> tuple[Callable[[Site], list[Change]], str]:
    """The changes of each site, which act together, and how they read."""
    if by == "zero":
        return lambda one: [one.zero()], "set to 0"
    if by == "mean":
        return lambda one: [one.mean()], "set to its mean"
    if isinstance(by, str):
        raise wrong_choice("rank(by)", by, ["zero", "mean"])

    def made(one: Site) -> list[Change]:
        found = by(one)
        return [found] if isinstance(found, Change) else list(found)

    return made, "changed"


def rank(experiment: "Experiment", which: str | Sequence[Site], by: By, metric: str | None, copies: int | None) -> Ranking:
    """Each site changed alone, and the change of a metric; many copies of the inputs in one pass where the model allows it."""
    name, sites, (make, words) = metric_name(experiment, metric), sites_of(experiment, which), change_of(by)
    before = experiment.passes
    changes = [make(one) for one in sites]
    position = list(experiment.metrics).index(name)
    base, notes = experiment.metrics_before[position], list(experiment.notes)
    count, error = _copies(experiment, copies), None
    effects: list[float] = []
    if count > 1:
        try:
            effects, error = _batched(experiment, changes, count, name, base)
        except (RuntimeError, ValueError, IndexError) as problem:
            notes.append(f"The model does not take copies along its first axis ({_short(problem)}), so each site is one pass.")
    if error is not None and not error < SAME:
        notes.append(f"An unchanged copy in a batch differs by {error:.1g} from the unchanged run, so each site is one pass.")
        effects = []
    if not effects and sites:
        count = 1
        effects = [experiment.run(one).metrics[position].change for one in changes]
    calls = experiment.passes - before
    rows = [SiteEffect(one, effect) for one, effect in zip(sites, effects, strict=True)]
    rows.sort(key=lambda row: -row.size)
    return Ranking(rows, name, base, words, calls, calls * count, count, 0, error, notes)


def estimate(
    experiment: "Experiment", which: str | Sequence[Site], by: By, metric: str | None, check: int, copies: int | None
) -> Ranking:  # fmt: skip
    """The first-order effect of each change, and the measured effect of the largest ones."""
    name, sites, (make, words) = metric_name(experiment, metric), sites_of(experiment, which), change_of(by)
    before = experiment.passes
    slopes, values = gradients(experiment, [change for one in sites for change in make(one)], name)
    numbers = []
    for one in sites:
        total = 0.0
        for point, edit in (found for change in make(one) for found in experiment.edits_of(change)):
            if point not in slopes:
                raise InputError(f"{one} is changed before the softmax or by a mask: no gradient gives its effect. Use rank().")
            new = edit.change(values[point])
            total += ((new - values[point]) * slopes[point]).sum().item()
        numbers.append(total)
    order = sorted(range(len(sites)), key=lambda i: -abs(numbers[i]))
    position = list(experiment.metrics).index(name)
    checked = rank(experiment, [sites[i] for i in order[:check]], by, name, copies) if check else None
    true = {row.site: row.effect for row in checked.rows} if checked else {}
    rows = [SiteEffect(sites[i], true.get(sites[i]), numbers[i]) for i in order]
    calls = experiment.passes - before
    return Ranking(
        rows, name, experiment.metrics_before[position], words, calls,
        calls - (checked.calls if checked else 0) + (checked.passes if checked else 0),
        checked.copies if checked else 1, 1, checked.batch_error if checked else None, list(experiment.notes),
    )  # fmt: skip


def gradients(
    experiment: "Experiment", changes: Sequence[Change], name: str
) -> tuple[dict[ValuePoint, Tensor], dict[ValuePoint, Tensor]]:
    """The gradient of a metric by each value that changes, and these values, from one forward and one backward pass."""
    points = list(dict.fromkeys(point for one in changes for point, _ in experiment.edits_of(one) if point.quantity != "allowed"))
    added: dict[ValuePoint, Tensor] = {}

    def nothing_added(point: ValuePoint) -> Callable[[Tensor], Tensor]:
        def change(value: Tensor) -> Tensor:
            added[point] = torch.zeros_like(value, requires_grad=True)
            return value + added[point]

        return change

    with torch.enable_grad():
        output, values = experiment.forward({p: [Edit(nothing_added(p))] for p in points}, points, gradients=True)
        number = experiment.metrics[name](experiment.output(output))
        if not isinstance(number, Tensor) or not number.requires_grad:
            raise InputError(f"The metric {name} has no gradient: it left torch, or does not read the output. Use rank() instead.")
        found = torch.autograd.grad(number.reshape(()), [added[p] for p in points], allow_unused=True)
    zero = (torch.zeros_like(added[p]) if g is None else g for p, g in zip(points, found, strict=True))
    return dict(zip(points, zero, strict=True)), {p: values[p].detach() for p in points}


def metric_name(experiment: "Experiment", metric: str | None) -> str:
    if not experiment.metrics:
        raise InputError("A ranking needs a metric, such as Experiment(model, inputs, logit(17)).")
    name = next(iter(experiment.metrics)) if metric is None else metric
    if name not in experiment.metrics:
        raise wrong_choice("metric", name, list(experiment.metrics))
    return name


def _copies(experiment: "Experiment", copies: int | None) -> int:
    if copies is not None:
        if copies < 1:
            raise InputError(f"copies is 1 or more, but got {copies}.")
        return copies
    if any(one.tokens != -2 for one in experiment.layers):  # the first axis is that of tokens
        return 1
    rows = max((one.attention.rows * one.attention.batch for one in experiment.layers), default=ROWS)
    return max(1, min(COPIES, ROWS // max(rows, 1)))


def _batched(
    experiment: "Experiment", changes: Sequence[Sequence[Change]], copies: int, name: str, base: float
) -> tuple[list[float], float]:
    """The effect of each change, and the error of the unchanged copy that the first batch contains."""
    effects: list[float] = []
    error, todo, first = 0.0, list(changes), True
    while todo:
        some, todo = todo[: copies - first], todo[copies - first :]
        edits: dict[ValuePoint, list[Edit]] = {}
        for number, together in enumerate(some, start=int(first)):
            for point, edit in (found for change in together for found in experiment.edits_of(change, number)):
                edits.setdefault(point, []).append(edit)
        size = len(some) + first
        output = experiment.output(experiment.forward(edits, copies=size)[0])
        if len(output) != size * len(experiment.before):
            raise InputError("the output has no batch axis")
        parts = output.chunk(size)
        if first:
            scale = experiment.before.abs().max().item() or 1.0
            error = (parts[0] - experiment.before).abs().max().item() / scale
            if not error < SAME:
                return [], error
        effects += [metric_values({name: experiment.metrics[name]}, part)[0] - base for part in parts[int(first) :]]
        first = False
    return effects, error


def _short(problem: Any) -> str:
    text = " ".join(str(problem).split()).rstrip(".")
    return text if len(text) < 90 else f"{text[:87]}..."
