"""The page of an answer: which tokens, layers and parts decide it. Cheap scores stand beside the measured effect of removal."""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import msgspec
import numpy as np
import torch
from torch import nn

from equiscope.errors import InputError, counted
from equiscope.explore.heads.predictions import PredictionReader
from equiscope.explore.page import PLAIN, number, table
from equiscope.explore.space.atom_effects import atom_effects, energies_of_layers
from equiscope.explore.space.elements import radius
from equiscope.geometry import SpaceModel
from equiscope.interventions import Experiment, LogitLens, logit
from equiscope.interventions.attribution import token_effects as names
from equiscope.interventions.attribution.direct import LogitAttribution
from equiscope.interventions.attribution.token_effects import spearman
from equiscope.interventions.experiment import Arguments
from equiscope.record import AnswerCandidate, Attribution, LensLayer, LogitShare, TokenScore, TokenSequence, pack
from equiscope.tokens.elements import SYMBOLS
from equiscope.tokens.points import Points

CANDIDATES = 5  # most probable answers that the page names
LENS_TOKENS = 64  # columns of the table of all tokens and layers
CROSS_SHARE = (
    "What the token adds to the logit directly, as a value of every head of cross-attention. The final norm's scale is frozen."
)
EXPLANATIONS = {
    names.ATTENTION: "The weights of the last layer at the token where the answer is read, averaged over heads.",
    names.ROLLOUT: "The weights of all layers, averaged over heads and with the residual path as one half, multiplied (Abnar & "
    "Zuidema 2020).",
    names.SHARE: "What the token adds to the logit directly: as a value of every head, and by its own row of the embeddings. The "
    "scale of the final norm is frozen.",
    names.LENS: "The logit that the model's last part reads from this token's own stream after the last layer.",
    names.MEAN: "The measured drop when the token's embedding is replaced by the mean of all tokens: another way to remove it, "
    "which runs the model as often.",
    names.DELETED: "The measured drop when the atom is taken out of the molecule, beyond the energy of the isolated atom: another "
    "way to remove it, which runs the model as often.",
    names.CROSS: "The cross-attention weights at the token where the answer is read, averaged over heads and layers.",
    names.CROSS_ROLLOUT: "The same weights multiplied by the rollout of the encoder.",
}


def attribution(
    model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], sequences: Sequence[TokenSequence],
    reader: PredictionReader | None, title: str, name: str, notes: Sequence[str] = (), token: int | None = None,
    answer: int | None = None, served: bool = False,
) -> Attribution:  # fmt: skip
    """Explain the logit of the most probable answer, at a token where the model answers after each.

    token   where the answer is read, by default the last one, and of a translation the middle one
    answer  the index of another answer than the most probable one; served: whether a server answers the page
    raises  InputError where the model returns no logits, or its attention is not read
    """
    inputs = Arguments(tuple(args), dict(kwargs))
    plain = Experiment(model, inputs)
    before = plain.before
    if reader is None or before.ndim != (2 if reader.kind == "class" else 3):
        raise InputError(
            f"{type(model).__name__} declares no classes and no next tokens, and returned {list(before.shape)}. In Python, "
            "eq.show(eq.Experiment(model, inputs, metric)) explains any metric of the output, such as logit(17, token=3)."
        )
    cross = any(layer.cross for layer in plain.layers)
    token = (before.shape[1] // 2 if cross and before.ndim == 3 else -1) if token is None else token
    rows = before[0] if before.ndim == 2 else before[0, _row(token, before.shape[1])]
    if answer is not None and not 0 <= answer < len(rows):
        raise InputError(f"The model has {counted(len(rows), 'answer')}, counted from 0, but answer {answer} was asked for.")
    chosen = int(rows.argmax()) if answer is None else answer
    label = f"logit of “{_visible(reader.name(chosen))}”"
    experiment = Experiment(model, inputs, {label: logit(chosen, token)})
    content, lens = _explained(experiment, sequences, title, name, notes)
    probabilities = rows.double().sigmoid() if reader.independent else rows.double().softmax(-1)
    best = None if lens is None or before.ndim == 2 else lens.logits[:, 0].double().softmax(-1).max(-1)
    first = max(0, before.shape[1] - LENS_TOKENS) if best is not None else 0
    used, indices = (np.zeros(0), np.zeros(0)) if best is None else np.unique(best.indices[:, first:].numpy(), return_inverse=True)
    return msgspec.structs.replace(
        content, answer=reader.name(chosen), probability=float(probabilities[chosen]),
        answers=_fitting(sequences[1:], before.shape[1]) if cross and before.ndim == 3 else None,
        lens=[] if lens is None else _rows(lens, reader, chosen, token),
        lens_names=[reader.name(int(i)) for i in used],
        lens_best=None if best is None else pack(indices.reshape(len(best.indices), -1).astype(np.int64)),
        lens_probability=None if best is None else pack(best.values[:, first:].float().numpy()),
        lens_first=first,
        chosen=chosen, served=served,
        candidates=[
            AnswerCandidate(index=int(i), name=reader.name(int(i)), probability=float(probabilities[i]))
            for i in probabilities.topk(min(CANDIDATES, len(probabilities))).indices
        ],
        calls=content.calls + plain.passes,
    )  # fmt: skip


def of_experiment(experiment: Experiment, sequences: Sequence[TokenSequence], title: str = "") -> Attribution:
    """Explain the first metric of an experiment.

    sequences  labels of its tokens; the first one that fits is taken
    raises     InputError without a metric, and where no attention is read
    """
    name = type(experiment.model).__name__
    return _explained(experiment, sequences, title or name, name, ())[0]


def _explained(
    experiment: Experiment, sequences: Sequence[TokenSequence], title: str, name: str, notes: Sequence[str]
) -> tuple[Attribution, LogitLens | None]:  # fmt: skip
    """The page of a metric, and the lens of which it shows the metric."""
    found = experiment.token_effects()
    lens, lens_note = _lens(experiment)
    parts, parts_note = _parts(experiment)
    shares, correlation = _shares(experiment, parts)
    metric, cross = experiment.metrics[found.metric], any(layer.cross for layer in experiment.layers)
    content = Attribution(
        title=title, model=name, answer="", metric=found.metric, value=found.before,
        sequence=_fitting(sequences, experiment.layers[0].attention.columns), tokens=found.tokens, removed=found.removed,
        read=found.read, removal=found.limits,
        scores=[
            TokenScore(
                name=key, explanation=CROSS_SHARE if cross and key == names.SHARE else EXPLANATIONS[key],
                signed=key in names.SIGNED, values=values, correlation=found.correlations[key],
            )
            for key, values in found.scores.items()
        ],
        lens=[] if lens is None else [
            LensLayer(name=layer, value=float(metric(logits))) for layer, logits in zip(lens.layers, lens.logits, strict=True)
        ],
        lens_note=lens_note,
        parts=shares, parts_note=parts_note, parts_error=0.0 if parts is None else parts.error, parts_correlation=correlation,
        calls=experiment.passes, notes=[*notes, *found.notes],
    )  # fmt: skip
    return content, lens


def attribution_response(make: Callable[[int | None, int | None], Attribution]) -> Callable[[Mapping[str, str]], bytes]:
    """The response to /attribution?token=N&answer=K, both optional: the record of that answer. make: of token and answer."""

    def response(query: Mapping[str, str]) -> bytes:
        words = [query.get(name, "") for name in ("token", "answer")]
        if not all(re.fullmatch(r"[0-9]{0,9}", word) for word in words):
            raise InputError("Request /attribution?token=N&answer=K, numbers from 0 on.")
        token, answer = (int(word) if word else None for word in words)
        return msgspec.json.encode(make(token, answer))

    return response


MOLECULE_EXPLANATIONS = {
    names.ATTENTION: "The weight that the atom has in the last block, averaged over heads and over the atoms that attend.",
    names.ROLLOUT: "The weights of all blocks, averaged over heads and with the residual path as one half, multiplied (Abnar & "
    "Zuidema 2020), averaged over the atoms that attend.",
    names.SHARE: "The energy that the model gives to this atom itself, without that of an isolated atom.",
}
REACH = 1.25  # a bond is at most so many sums of covalent radii


def of_molecule(model: SpaceModel, points: Points, title: str, name: str, unit: str = "", notes: Sequence[str] = ()) -> Attribution:
    """Explain the energy of a molecule: which atoms decide it.

    raises  InputError for a model that reads no energy, and for an element that it does not know
    """
    assert points.numbers is not None
    numbers, positions = points.numbers, points.positions
    found, layers = atom_effects(model, numbers, positions), energies_of_layers(model, numbers, positions)
    symbols = [SYMBOLS[int(n) - 1] for n in numbers]
    labels = [f"{symbol}{i}" for i, symbol in enumerate(symbols)]
    shares = found.scores[names.SHARE]
    parts = [
        LogitShare(name=label, share=share, kind="atom", removed=gone)
        for label, share, gone in zip(labels, shares, found.removed, strict=True)
    ]
    parts.append(LogitShare(name="isolated atoms", share=found.before - sum(shares), kind="offset"))
    centred = positions - positions.mean(0)
    plane = torch.linalg.svd(centred, full_matrices=True).Vh[:2]
    radii = torch.tensor([radius(int(n)) for n in numbers])
    near = torch.cdist(positions, positions) < REACH * (radii[:, None] + radii)
    bonds = points.bonds if points.bonds is not None else near.triu(1).nonzero()
    return Attribution(
        title=title, model=name, answer=f"{found.before:.3f} {unit}".strip().replace("-", "−"),
        metric=f"energy in {unit}" if unit else "energy",
        value=found.before, sequence=TokenSequence(name="atoms", kind="tokens", labels=labels), tokens=found.tokens,
        removed=found.removed, read=found.read, removal=found.limits,
        scores=[
            TokenScore(
                name=key, explanation=MOLECULE_EXPLANATIONS.get(key) or EXPLANATIONS[key], signed=key in names.SIGNED,
                values=values, correlation=found.correlations[key],
            )
            for key, values in found.scores.items()
        ],
        lens=[
            LensLayer(name="elements alone" if i == 0 else f"after block {i - 1}", value=value) for i, value in enumerate(layers)
        ],
        lens_note="The model's own last part (norm, readout) reads the features before the first block and after each. It has "
        "learned to read the last features alone.",
        parts=parts, parts_note="The model's energy is a sum over atoms, so these shares sum to it. What other atoms add to an "
        "atom's share through messages is in that share.",
        parts_error=abs(sum(part.share for part in parts) - found.before), parts_correlation=found.correlations[names.SHARE],
        drawing=(centred @ plane.mT).tolist(), bonds=bonds.tolist(), calls=found.calls + len(layers),
        notes=[*notes, f"There are {len(labels)} atoms, so a rank correlation says little."],
    )  # fmt: skip


def _visible(name: str) -> str:
    """A name in a sentence: line ends and the spaces at its ends are written out."""
    inside = name.replace("\n", "↵").replace("\t", "⇥")
    left, right = len(inside) - len(inside.lstrip(" ")), len(inside) - len(inside.rstrip(" "))
    return "␣" * left + inside.strip(" ") + "␣" * (right if inside.strip(" ") else 0)


def _row(token: int, rows: int) -> int:
    if not -rows <= token < rows:
        raise InputError(f"The model answers after {counted(rows, 'token')}, counted from 0, but token {token} was asked for.")
    return token


def _lens(experiment: Experiment) -> tuple[LogitLens | None, str]:
    try:
        lens = experiment.lens()
    except InputError as error:
        return None, str(error)
    return lens, f"{lens.applied} {lens.limits}"


def _parts(experiment: Experiment) -> tuple[LogitAttribution | None, str]:
    try:
        parts = experiment.attribution()
    except InputError as error:
        return None, str(error)
    return parts, " ".join([parts.limits, *parts.notes])


def _shares(experiment: Experiment, parts: LogitAttribution | None) -> tuple[list[LogitShare], float | None]:
    """The parts with the measured effect of setting each head and feed-forward to 0, and the rank correlation of both."""
    if parts is None:
        return [], None
    sites = [part.site for part in parts.parts if part.site is not None]
    effects = {row.site: row.effect for row in experiment.rank(sites).rows} if sites else {}
    shares = [
        LogitShare(
            name=part.name, share=part.share, kind=part.kind, block=part.block,
            head=None if part.site is None or part.kind != "head" else part.site.index,
            removed=None if part.site is None else effects[part.site],
        )
        for part in parts.parts
    ]  # fmt: skip
    both = [(one.share, -one.removed) for one in shares if one.removed is not None]
    return shares, spearman(*(list(x) for x in zip(*both, strict=True))) if both else None


def _rows(lens: LogitLens, reader: PredictionReader, answer: int, token: int) -> list[LensLayer]:
    rows = lens.logits[:, 0] if lens.logits.ndim == 3 else lens.logits[:, 0, token]
    probabilities = (
        [p for p, _ in lens.of(answer, token)] if not reader.independent else rows[:, answer].double().sigmoid().tolist()
    )
    ranks = [rank + 1 for _, rank in lens.of(answer, token)]
    return [
        LensLayer(
            name=name, value=float(rows[i, answer]), best=reader.name(lens.best(token)[i]), probability=probabilities[i],
            rank=ranks[i], agreement=lens.agreement[i], divergence=None if reader.independent else lens.divergence[i],
        )
        for i, name in enumerate(lens.layers)
    ]  # fmt: skip


def _fitting(sequences: Sequence[TokenSequence], tokens: int) -> TokenSequence:
    """The first sequence of this length; numbers where there is none."""
    fits = [one for one in sequences if len(one.labels) == tokens]
    return fits[0] if fits else TokenSequence(name="tokens", kind="tokens", labels=[str(i) for i in range(tokens)])


def plain(content: Attribution) -> str:
    """Tokens, layers and parts as tables, as markup."""
    labels = content.sequence.labels
    tokens = [
        [str(t), labels[t], number(gone), *(number(one.values[i]) for one in content.scores)]
        for i, (t, gone) in enumerate(zip(content.tokens, content.removed, strict=True))
    ]
    last = ["", "rank correlation with removal", "", *(number(one.correlation) for one in content.scores)]
    lens = [
        [
            one.name, number(one.value), one.best, number(one.probability), str(one.rank or ""), number(one.agreement),
            number(one.divergence),
        ]
        for one in content.lens
    ]  # fmt: skip
    shares = [[one.name, number(one.share), number(one.removed)] for one in content.parts]
    heads = ["number", "token", "removed", *(one.name for one in content.scores)]
    return (
        f'<div class="bare-report"><h1>{escape(content.title)}</h1>\n<p>{escape(content.summary)}</p>\n<p>{PLAIN}</p>\n'
        + "".join(f"<p>{escape(note)}</p>\n" for note in content.notes)
        + table(f"Tokens: change of {content.metric}, {number(content.value)} unchanged", heads, [*tokens, last])
        + f"<p>{escape(content.removal)}</p>\n"
        + table("Logit lens", ["stream", content.metric, "best answer", "probability", "rank", "rows that agree", "KL, nats"], lens)
        + f"<p>{escape(content.lens_note)}</p>\n"
        + table("Direct logit attribution", ["part", "share", "measured change when set to 0"], shares)
        + f"<p>{escape(content.parts_note)}</p></div>"
    )
