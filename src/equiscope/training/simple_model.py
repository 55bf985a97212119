"""Simple models beside a run: the majority or the mean, and a linear model on simple features of the same training part.

They are fitted when a run is finished, and stored in its folder, so that every evaluation shows them beside the model: a
transformer that is worse has learned little. The linear model needs scikit-learn; without it the other is shown alone.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from equiscope import outputs
from equiscope.errors import InputError
from equiscope.training.answers import Numbers, OneClass
from equiscope.training.task import Task

FILE = "simple_model.safetensors"
STEPS = 1000  # of the optimiser of a linear model, at most


def fit(task: Task, folder: Path) -> None:
    """Fit the simple models on the training part, and store them; nothing for a task without simple features."""
    if task.simple_answer is None or (features := task.simple_features("train")) is None:
        return
    stored = {"constant": task.simple_answer.constant()}
    try:
        import sklearn  # type: ignore[import-untyped]  # noqa: F401

        weight, bias = _fitted(task, *features)
        stored |= {"weight": torch.from_numpy(weight).float().contiguous(), "bias": torch.from_numpy(bias).float()}
    except ImportError:
        pass
    outputs.put(folder / FILE, tensors_to_bytes(stored))


def values(task: Task, part: str, folder: Path) -> dict[str, dict[str, float]]:
    """The metrics of the simple models on a part, by their name: `without_input` of the answer, and "linear"."""
    answer = task.simple_answer
    if answer is None:
        return task.simple_metrics(part)
    if not (folder / FILE).is_file() or (features := task.simple_features(part)) is None:
        return task.simple_metrics(part)
    x, targets = features
    names = [""] * len(targets)
    try:
        from safetensors.torch import load

        stored = load((folder / FILE).read_bytes())
        predicted = {answer.without_input: stored["constant"].expand(len(targets), -1)}
        if "weight" in stored:
            linear = torch.from_numpy(np.asarray(x @ stored["weight"].double().numpy().T)) + stored["bias"]
            predicted["linear"] = linear.float()
        found = {name: answer.outcomes(names, one, targets, "examples") for name, one in predicted.items()}
    except Exception as error:
        raise InputError(f"{folder / FILE} cannot be used: {error}. Delete it: the simple models are then left out.") from error
    each = {name: {one.name: one.point for one in outcome.measures} for name, outcome in found.items()}
    return each | task.simple_metrics(part)


def _fitted(task: Task, x: Any, targets: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Weight [outputs, features] and bias [outputs] whose products with the features are outputs as those of the model."""
    from sklearn.linear_model import LogisticRegression, Ridge  # type: ignore[import-untyped]

    wanted = targets.numpy()
    if isinstance(task.simple_answer, Numbers):
        ridge = Ridge(alpha=1.0).fit(x, wanted)
        return np.atleast_2d(ridge.coef_), np.atleast_1d(ridge.intercept_)
    if isinstance(task.simple_answer, OneClass):
        model = LogisticRegression(C=10.0, max_iter=STEPS).fit(x, wanted)
        weight, bias = np.zeros((task.simple_answer.outputs, x.shape[1])), np.full(task.simple_answer.outputs, -30.0)
        rows, constants = model.coef_, model.intercept_
        if len(rows) == 1:  # two classes have one row, which is for the second
            rows, constants = np.stack([-rows[0] / 2, rows[0] / 2]), np.array([-constants[0] / 2, constants[0] / 2])
        weight[model.classes_], bias[model.classes_] = rows, constants
        return weight, bias
    each = []
    for column in wanted.T:
        if len(set(column.tolist())) < 2:  # every example has the label, or none has
            each.append((np.zeros(x.shape[1]), 30.0 if column[0] else -30.0))
            continue
        one = LogisticRegression(C=10.0, max_iter=STEPS).fit(x, column)
        each.append((one.coef_[0], float(one.intercept_[0])))
    return np.stack([w for w, _ in each]), np.array([b for _, b in each])
