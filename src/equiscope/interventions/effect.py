"""Effect: the output of a model before and after changes, and the change of metrics."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.program.origins import tensors
from equiscope.record import display

Metric = Callable[[Tensor], Any]


class MetricChange(NamedTuple):
    """A metric of the output before and after the changes."""

    name: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """After minus before."""
        return self.after - self.before


@dataclass(repr=False)
class Effect:
    """What changes did to a model's output.

    changes  in words, in the order in which they were given
    before, after  the output: logits where the model has them, [B, N, V] or [B, V]
    metrics  a MetricChange for each metric
    passes   forward passes that this result took; the unchanged run of the experiment is not among them
    notes    what a reader must know
    """

    changes: list[str]
    before: Tensor
    after: Tensor
    metrics: list[MetricChange]
    passes: int
    notes: list[str] = field(default_factory=list)
    write_code: Callable[[], tuple[str, dict[str, Any]]] | None = None

    @property
    def change(self) -> Tensor:
        """After minus before, like the output."""
        return self.after - self.before

    @property
    def largest(self) -> float:
        """The largest absolute change of a number of the output."""
        return self.change.abs().max().item()

    @property
    def cosine(self) -> float:
        """Cosine between the outputs before and after, all numbers as one vector."""
        return _cosine(self.before.flatten(), self.after.flatten()).item()

    @property
    def cosines(self) -> Tensor:
        """Cosine of each row of the output: [B, N] of logits [B, N, V]."""
        return _cosine(self.before, self.after)

    def __getitem__(self, metric: str) -> MetricChange:
        found = next((one for one in self.metrics if one.name == metric), None)
        if found is None:
            raise InputError(f"There is no metric {metric!r}. Metrics: {', '.join(one.name for one in self.metrics) or 'none'}.")
        return found

    def code(self) -> str:
        """The same changes in plain torch. The text reads the variables in `variables`, and writes `output`.

        raises  InputError where a change has no such text
        """
        return self._code[0]

    @property
    def variables(self) -> dict[str, Any]:
        """What the text of `code()` reads: model, inputs, and other or numbers_1, ... : `exec(effect.code(), effect.variables)`."""
        return self._code[1]

    @property
    def _code(self) -> tuple[str, dict[str, Any]]:
        if self.write_code is None:
            raise InputError("This effect was not made by an experiment, so it has no code.")
        return self.write_code()

    def __repr__(self) -> str:
        return display.text(self._heading, self._rows)

    def _repr_html_(self) -> str:
        return display.html(self._heading, ("", "before", "after", "change"), self._rows)

    @property
    def _heading(self) -> str:
        return f"Effect of: {'; '.join(self.changes) or 'no change'}"

    @property
    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = [("", "before", "after", "change")]
        rows += [(m.name, f"{m.before:.4g}", f"{m.after:.4g}", f"{m.change:+.4g}") for m in self.metrics]
        rows.append(("largest change of the output", "", "", f"{self.largest:.4g}"))
        rows.append(("cosine of the outputs", "", f"{self.cosine:.6f}", ""))
        if self.before.shape[-1] > 1 and self.before.ndim > 1:
            same = self.before.argmax(-1) == self.after.argmax(-1)
            rows.append(("rows whose largest output is another", "", f"{int((~same).sum())} of {same.numel()}", ""))
        return rows


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    wide = torch.promote_types(a.dtype, torch.float32)
    return torch.cosine_similarity(a.to(wide), b.to(wide), -1)


def main_output(output: Any) -> Tensor:
    """The tensor of an output that metrics read: logits, else the last hidden state, else the first tensor of floats."""
    if isinstance(output, Tensor):
        return output
    for name in ("logits", "last_hidden_state"):
        found = output.get(name) if isinstance(output, dict) else getattr(output, name, None)
        if isinstance(found, Tensor):
            return found
    floats = (t for _, t in tensors(output) if t.is_floating_point())
    found = next(floats, None)
    if found is None:
        raise InputError(
            f"The model returned {type(output).__name__} without a tensor of floats. Give output=, a function that picks it."
        )
    return found


def metric_values(metrics: dict[str, Metric], output: Tensor) -> list[float]:
    """Each metric of an output, as a number. Raises InputError where one returns several numbers."""
    return [_number(name, metric(output)).item() for name, metric in metrics.items()]


def _number(name: str, value: Any) -> Tensor:
    value = torch.as_tensor(value)
    if value.numel() != 1:
        raise InputError(f"The metric {name} returned {list(value.shape)} numbers; one is needed. Take their sum or their mean.")
    return value.reshape(())


def logit(answer: int, token: int = -1) -> Metric:
    """The mean logit of an answer: of a class, or of a word at a token. Outputs [B, V] or [B, N, V]."""
    return lambda output: _at(output, token)[:, answer].mean()


def logit_difference(answer: int, other: int, token: int = -1) -> Metric:
    """The mean difference of two logits. Outputs [B, V] or [B, N, V]."""
    return lambda output: (_at(output, token)[:, answer] - _at(output, token)[:, other]).mean()


def log_probability(answer: int, token: int = -1) -> Metric:
    """The mean log-probability of an answer, in nats. Outputs [B, V] or [B, N, V]."""
    return lambda output: _at(output, token).log_softmax(-1)[:, answer].mean()


def _at(output: Tensor, token: int) -> Tensor:
    """[B, V] of a token; of an output without an axis for tokens the output itself."""
    if output.ndim not in (2, 3):
        raise InputError(
            f"The output has shape {list(output.shape)}; this metric reads [B, V] or [B, N, V]. Write a function of it."
        )
    return output if output.ndim == 2 else output[:, token]
