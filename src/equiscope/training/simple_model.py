"""Simple models beside a run: the majority or the mean, and a linear model on simple features of the same training part.

They are fitted when a run is finished, and stored in its folder, so that every evaluation shows them beside the model: a
transformer that is worse has learned little. The linear model is what a careful person writes with scikit-learn: scaled features,
or TF-IDF of counts; the scale and the strength of the penalty by cross-validation. Without scikit-learn the other is shown alone.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from equiscope import outputs
from equiscope.errors import InputError
from equiscope.training.answers import Answer, Numbers, OneClass
from equiscope.training.task import Task

FILE = "simple_model.safetensors"
STEPS, CLOSE = 300, 1e-3  # of the optimiser of a linear model, at most; and where it ends
FACTOR, LEAST, MOST = 3.0, 1e-3, 1e3  # between two values of C that are tried, from 1 on; and the outermost
FOLDS, MANY = 3, 5000  # of more examples than that, only the first of the folds is left out
SECONDS = 60.0  # of computation, after which no further C is tried
PRODUCTS = 10**8  # of features and outputs: of more, the model is fitted on a part of the examples
TERMS = 200_000  # of a kind of counts that are kept, the most frequent ones


def fit(task: Task, folder: Path) -> None:
    """Fit the simple models on the training part, and store them; nothing for a task without simple features."""
    answer = task.simple_answer
    if answer is None or (features := task.simple_features("train")) is None:
        return
    stored: dict[str, Tensor] = {"constant": answer.constant()}
    try:
        import sklearn  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        pass
    else:
        x, targets = features
        terms = _terms(x) if isinstance(x, list) else {}
        weight, bias = _chosen(answer, _prepared(x, terms), targets, task.simple_groups("train"))
        stored |= terms | {"weight": torch.from_numpy(weight).float().contiguous(), "bias": torch.from_numpy(bias).float()}
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
            linear = torch.from_numpy(np.asarray(_prepared(x, stored) @ stored["weight"].double().numpy().T)) + stored["bias"]
            predicted["linear"] = linear.float()
        found = {name: answer.outcomes(names, one, targets, "examples") for name, one in predicted.items()}
    except Exception as error:
        raise InputError(f"{folder / FILE} cannot be used: {error}. Delete it: the simple models are then left out.") from error
    each = {name: {one.name: one.point for one in outcome.measures} for name, outcome in found.items()}
    return each | task.simple_metrics(part)


def _terms(kinds: list[Any]) -> dict[str, Tensor]:
    """Of each kind of counts, the columns that two examples or more have, and their inverse document frequency."""
    found: dict[str, Tensor] = {}
    for i, counts in enumerate(kinds):
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        columns = np.sort(np.argsort(-frequency, kind="stable")[: min(TERMS, int((frequency > 1).sum()))])
        rarity = np.log((1 + counts.shape[0]) / (1 + frequency[columns])) + 1  # as scikit-learn's TfidfTransformer
        found |= {f"columns.{i}": torch.from_numpy(columns).int(), f"rarity.{i}": torch.from_numpy(rarity).float()}
    return found


def _prepared(x: Any, terms: dict[str, Tensor]) -> Any:
    """Features [N, F]: dense ones as they are; of each kind of counts TF-IDF: 1 + log of a count times its rarity, in rows of
    length 1.
    """
    if not isinstance(x, list):
        return x
    from scipy.sparse import diags, hstack  # type: ignore[import-untyped]
    from sklearn.preprocessing import normalize  # type: ignore[import-untyped]

    kinds = []
    for i, counts in enumerate(x):
        rows = counts[:, terms[f"columns.{i}"].numpy()].astype(np.float64)
        rows.data = 1 + np.log(rows.data)
        kinds.append(normalize(rows @ diags(terms[f"rarity.{i}"].double().numpy())))
    return hstack(kinds).tocsr()


def _chosen(answer: Answer, x: Any, targets: Tensor, groups: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Weight [outputs, features] and bias [outputs] of the linear model with the best C, and the best scale of dense features.

    From 1 on, C grows or falls by a factor as long as the error on examples that were left out falls. groups: of each row, which
    are left out whole, as a speaker who is in one part of the data.
    """
    size = x.nnz if hasattr(x, "nnz") else x.size
    kept = np.linspace(0, len(targets) - 1, max(2, min(len(targets), int(len(targets) * PRODUCTS / (size * answer.outputs)))))
    x, targets = x[kept.astype(int)], targets[kept.astype(int)]
    order = np.random.default_rng(0).permutation(len(targets))
    every = _folds(order, [groups[i] for i in kept.astype(int)] if groups else [])
    folds = every[: FOLDS if len(targets) <= MANY else 1] if len(targets) >= 2 * FOLDS else []
    began, errors = time.process_time(), dict[tuple[bool, float], float]()

    def error(each: bool, c: float) -> float:
        if (each, c) not in errors:
            errors[each, c] = float(np.mean([_error(answer, x, targets, order, fold, each, c) for fold in folds]))
        return errors[each, c]

    def late() -> bool:
        return time.process_time() - began > SECONDS

    for each in (True, False) if isinstance(x, np.ndarray) else (True,):
        best = 1.0
        for factor in (FACTOR, 1 / FACTOR) if folds and not late() else ():
            while LEAST <= best * factor <= MOST and not late() and error(each, best * factor) < error(each, best):
                best *= factor
            if best != 1.0:
                break
    return _fitted(answer, x, targets, *min(errors, key=errors.__getitem__, default=(True, 1.0)))


def _folds(order: np.ndarray, groups: Sequence[str]) -> list[np.ndarray]:
    """Rows in FOLDS folds of similar size, whole groups in each; without two groups, single rows. order: of the rows, at random."""
    rows = defaultdict[str, list[int]](list)
    for i in order.tolist():
        rows[(groups[i] if groups else "") or f"\0{i}"].append(i)
    if not groups or len(rows) == 1:
        return np.array_split(order, FOLDS)
    folds: list[list[int]] = [[] for _ in range(FOLDS)]
    for group in sorted(rows.values(), key=len, reverse=True):
        min(folds, key=len).extend(group)
    return [np.array(fold) for fold in folds if fold]


def _error(answer: Answer, x: Any, targets: Tensor, order: np.ndarray, fold: np.ndarray, each: bool, c: float) -> float:
    """The mean error of the examples of a fold, after fitting the others."""
    rest = order[~np.isin(order, fold)]
    weight, bias = _fitted(answer, x[rest], targets[rest], each, c)
    predicted = torch.from_numpy(np.asarray(x[fold] @ weight.T) + bias).float()
    return float(answer.outcomes([""] * len(fold), predicted, targets[fold], "examples").errors.mean())


def _fitted(answer: Answer, x: Any, targets: Tensor, each: bool, c: float) -> tuple[np.ndarray, np.ndarray]:
    """Weight [outputs, features] and bias [outputs] whose products with the features are outputs as those of the model.

    each  whether each dense feature gets unit variance; otherwise they keep their ratios, as the pixels of a picture should
    c     the inverse of the strength of the penalty
    """
    used, scale, center = np.arange(x.shape[1]), np.ones(x.shape[1]), np.zeros(x.shape[1])
    if isinstance(x, np.ndarray):
        deviation = x.std(0) if each else np.full(x.shape[1], x.std())
        center, scale = x.mean(0), np.where(deviation > 1e-9, deviation, 1.0)
        x = (x - center) / scale
    else:  # of hashed features few are there, and the penalty keeps the weights of the others at 0
        used = np.unique(x.indices)
        x = x[:, used]
    rows = list(_rows(answer, x, targets.numpy(), c))
    weight = np.zeros((len(rows), len(scale)))
    weight[:, used] = np.stack([weight for weight, _ in rows]) / scale[used]
    return weight, np.array([bias for _, bias in rows]) - weight @ center


def _rows(answer: Answer, x: Any, wanted: np.ndarray, c: float) -> Iterator[tuple[np.ndarray, float]]:
    """Weight [features] and bias of each output."""
    from sklearn.linear_model import LogisticRegression, Ridge  # type: ignore[import-untyped]

    if isinstance(answer, Numbers):
        ridge = Ridge(alpha=1 / c).fit(x, wanted)
        yield from zip(np.atleast_2d(ridge.coef_), np.atleast_1d(ridge.intercept_).tolist(), strict=True)
        return
    one_class = isinstance(answer, OneClass)
    for column in [wanted] if one_class else wanted.T:
        there = np.unique(column)
        if len(there) == 1:  # every example has the label, or none has; or all are of one class
            known = [int(there[0])]
            coefficients, constants = np.zeros((1, x.shape[1])), np.array([30.0])
        else:
            model = LogisticRegression(C=c, max_iter=STEPS, tol=CLOSE).fit(x, column)
            known, coefficients, constants = model.classes_.astype(int).tolist(), model.coef_, model.intercept_
            if len(known) == 2:  # one row, which is for the second
                coefficients, constants = np.stack([-coefficients[0], coefficients[0]]) / 2, np.array([-1, 1]) * constants[0] / 2
        if one_class:
            found = dict(zip(known, zip(coefficients, constants.tolist(), strict=True), strict=True))
            yield from (found.get(k, (np.zeros(x.shape[1]), -30.0)) for k in range(answer.outputs))
        elif len(there) == 1:
            yield np.zeros(x.shape[1]), 30.0 if column[0] else -30.0
        else:
            yield 2 * coefficients[1], 2 * float(constants[1])
