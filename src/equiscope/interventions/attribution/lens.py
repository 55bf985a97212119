"""Logit lens: what the model would answer if its last part read the residual stream of an earlier layer.

The model's own last part runs: its final norm, its pooling, its output layer. Nothing is trained.
Limits: the last part has learned to read the stream after the last layer alone. Where an early stream lies in another basis, the
lens shows nothing although the answer may be decided; a trained map for each layer (Belrose et al. 2023) reads more.
Source: nostalgebraist 2020, "interpreting GPT: the logit lens".
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equiscope.errors import InputError
from equiscope.interventions.attribution.tail import blocks_of, tail_of
from equiscope.interventions.passes import Edit, ValuePoint
from equiscope.record import display

if TYPE_CHECKING:
    from equiscope.interventions.experiment import Experiment

LIMITS = (
    "The last part of the model has learned to read the last stream alone: a layer without the answer here may have decided it "
    "in another form."
)


@dataclass(repr=False)
class LogitLens(display.Printed):
    """The answers of a model's last part to the residual stream of every layer.

    logits   [L + 1, ...], like the output of the model: of the embeddings, then after each of L blocks; the last is the output
    layers   their names
    norm     path of the final norm that was applied; empty: none was
    applied  in words: which modules read the streams
    passes   that this took
    """

    logits: Tensor
    layers: list[str]
    norm: str
    applied: str
    passes: int
    limits: str = LIMITS

    @property
    def agreement(self) -> list[float]:
        """Of each layer: the share of rows whose largest output is that of the last layer."""
        best = self.logits.argmax(-1).flatten(1)
        return [float(share) for share in (best == best[-1]).double().mean(1)]

    @property
    def divergence(self) -> list[float]:
        """Of each layer: KL(last ‖ layer) of the softmaxes, the mean over rows, in nats."""
        logs = self.logits.double().log_softmax(-1)
        return [float(x) for x in (logs[-1].exp() * (logs[-1] - logs)).sum(-1).flatten(1).mean(1)]

    def of(self, answer: int, token: int = -1) -> list[tuple[float, int]]:
        """Of each layer: the probability of an answer, and how many others are larger; at a token, where the output has them."""
        rows = self.logits[:, 0] if self.logits.ndim == 3 else self.logits[:, 0, token]
        chosen = rows[:, answer, None]
        probabilities = rows.double().softmax(-1)[:, answer]
        return [(float(p), int(n)) for p, n in zip(probabilities, (rows > chosen).sum(-1), strict=True)]

    def best(self, token: int = -1) -> list[int]:
        """Of each layer: the index of the largest output of the first sequence, at a token where the output has them."""
        rows = self.logits[:, 0] if self.logits.ndim == 3 else self.logits[:, 0, token]
        return [int(i) for i in rows.argmax(-1)]

    @property
    def _remarks(self) -> list[str]:
        return [self.limits]

    @property
    def _heading(self) -> str:
        return f"Logit lens, {self.passes} passes. {self.applied}"

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        final = self.best()[-1]
        rows: list[tuple[str, ...]] = [
            ("stream", "largest output", f"probability of {final}", f"rank of {final}", "rows that agree with the last", "KL, nats")
        ]
        for name, best, (p, rank), same, kl in zip(
            self.layers, self.best(), self.of(final), self.agreement, self.divergence, strict=True
        ):
            rows.append((name, str(best), f"{p:.3f}", str(rank + 1), f"{same:.0%}", f"{kl:.3f}"))
        return rows


def lens(experiment: "Experiment", norm: bool, of: str) -> LogitLens:
    """The lens of every layer. Raises InputError where streams differ in shape, or the output is no table of logits."""
    before = experiment.passes
    blocks = blocks_of(experiment.layers, of)
    tail = tail_of(experiment, blocks[-1])
    if experiment.before.ndim not in (2, 3):
        raise InputError(f"A lens reads logits [B, V] or [B, N, V], but the model returned {list(experiment.before.shape)}.")
    if not norm and not tail.norm.path:
        raise InputError("No final norm was found after the last block, so there is none to leave out. Leave norm=False out.")
    streams = experiment.values([block.entry for block in blocks] + [blocks[-1].exit])
    last = streams[blocks[-1].exit]
    logits = []
    for block in blocks:
        stream = streams[block.entry]
        if stream.shape != last.shape:
            raise InputError(
                f"The stream that enters {block.path} has shape {list(stream.shape)}, the last one {list(last.shape)}: the last "
                "part of the model cannot read it."
            )
        logits.append(_read(experiment, blocks[-1].exit, stream, "" if norm else tail.norm.path))
    logits.append(experiment.before if norm else _read(experiment, blocks[-1].exit, last, tail.norm.path))
    names = ["embeddings", *(f"after block {i}" for i in range(len(blocks)))]
    applied = (
        tail.words if norm else f"The final norm ({tail.norm.path}) is left out; the rest of the model's last part is applied."
    )
    return LogitLens(torch.stack(logits), names, tail.norm.path if norm else "", applied, experiment.passes - before)


def _read(experiment: "Experiment", point: ValuePoint, stream: Tensor, left_out: str) -> Tensor:
    """The output for another last stream. left_out: path of a norm that passes its input on."""
    edits = {point: [Edit(lambda _: stream)]}
    if left_out:
        edits[ValuePoint("module", left_out)] = [Edit(lambda _: stream)]
    return experiment.output(experiment.forward(edits)[0])
