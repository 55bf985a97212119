"""Evaluation: a task's outcomes on a part become metrics with intervals, the worst examples, a confusion matrix."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from equiscope.errors import InputError
from equiscope.models import Built
from equiscope.record.evaluation import (
    WORST,
    AnsweredExample,
    MetricDifference,
    MetricValue,
    PartEvaluation,
    PredictedNumber,
    between,
    number,
)
from equiscope.training import measures, simple_model
from equiscope.training.measures import Outcomes
from equiscope.training.task import Task

ABBREVIATIONS = ("bleu", "f1", "mae", "r2", "rmse")  # names of metrics


def evaluated(
    task: Task, model: Built, part: str, other: tuple[Task, Built] | None = None, folder: Path | None = None
) -> PartEvaluation:
    """The evaluation of a model on a part; other: a second run, whose examples must be the same.

    folder  of the run, with its simple model
    """
    found = task.outcomes(model, part)
    values = found.values if found is not None and found.whole else task.final(model, part)
    if found is None:
        metrics = [MetricValue(name=name, value=value) for name, value in values.items()]
        return PartEvaluation(part=part, summary=_summary(metrics, {}, task.better), metrics=metrics)
    spread = dict(zip((one.name for one in found.measures), measures.intervals(found.measures), strict=True))
    units = {one.name: one.unit for one in found.measures}
    metrics = [
        MetricValue(name=name, value=value, low=low, high=high, unit=units.get(name, ""))
        for name, value in values.items()
        for low, high in [spread.get(name) or (None, None)]
    ]
    more: Sequence[Mapping[str, Any]] = found.more or [{}] * len(found.names)
    far = task.far(part, folder, found) if folder is not None else None
    if far is not None:
        more = [dict(one) | {"distance": distance} for one, distance in zip(more, far[0].tolist(), strict=True)]
    examples = [
        AnsweredExample(name=name, answer=answer, target=target, error=error, more=extra)
        for name, answer, target, error, extra in zip(
            found.names, found.answers, found.targets, found.errors.tolist(), more, strict=True
        )
    ]
    rows = np.argsort(-found.errors, kind="stable")[:WORST].tolist()
    worst = [replace(examples[i], **seen) for i, seen in zip(rows, task.visible_inputs(part, rows), strict=True)]
    simple = simple_model.values(task, part, folder) if folder is not None else {}
    return PartEvaluation(
        part=part, summary=_summary(metrics, simple, task.better), metrics=metrics, worst=worst, examples=examples,
        classes=list(found.classes), confusion=_confusion(found),
        numbers=[
            PredictedNumber(name=one.name, unit=one.unit, true=one.true.tolist(), predicted=one.predicted.tolist())
            for one in found.parity
        ],
        differences=_differences(found, other, part) if other is not None else [], simple=simple,
        warnings=[far[1]] if far is not None and far[1] else [],
    )  # fmt: skip


def _summary(metrics: Sequence[MetricValue], simple: Mapping[str, Mapping[str, float]], better: str) -> str:
    """The decisive metric, and whether it, or else the first metric that simple models have, is better than theirs."""
    shared = next((one for one in metrics if any(one.name in values for values in simple.values())), None)
    if shared is None or shared.value is None:
        return f"{_metric_text(metrics[0])}."
    beside = {name: values[shared.name] for name, values in simple.items() if shared.name in values}
    best, value = (max if better == "more" else min)(beside.items(), key=lambda one: one[1])
    ahead = shared.value > value if better == "more" else shared.value < value
    within = shared.low is not None and shared.high is not None and shared.low <= value <= shared.high
    where = "not clearly different from" if within else "ahead of" if ahead else "behind"
    text = f"{_metric_text(shared)}, {where} the best simple model ({best}: {number(value, shared.unit)})."
    return text if shared is metrics[0] else f"{_metric_text(metrics[0])}. {text}"


def _metric_text(one: MetricValue) -> str:
    interval, first = between(one.low, one.high), one.name.partition(" ")[0]
    title = first.upper() if first in ABBREVIATIONS else first.capitalize()
    return f"{title}{one.name[len(first) :]} {number(one.value, one.unit)}{f' (95 % interval {interval})' if interval else ''}"


def _confusion(outcomes: Outcomes) -> list[list[int]]:
    if outcomes.true is None or outcomes.predicted is None:
        return []
    many = len(outcomes.classes)
    counts: list[list[int]] = np.bincount(outcomes.true * many + outcomes.predicted, minlength=many**2).reshape(many, many).tolist()
    return counts


def _differences(first: Outcomes, other: tuple[Task, Built], part: str) -> list[MetricDifference]:
    second = other[0].outcomes(other[1], part)
    if second is None or list(second.names) != list(first.names) or list(second.targets) != list(first.targets):
        raise InputError("The two runs do not read the same examples from this data, so they cannot be compared one by one.")
    values = {one.name: one.point for one in second.measures}
    return [
        MetricDifference(
            name=name, first=one.value + values[name], second=values[name], difference=one.value,
            low=one.interval[0] if one.interval else None, high=one.interval[1] if one.interval else None, p=one.p,
        )
        for name, one in measures.differences(first.measures, second.measures).items()
    ]  # fmt: skip
