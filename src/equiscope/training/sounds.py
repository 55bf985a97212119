"""Sounds: a recording becomes one class, several labels, or numbers, by a read-out over its tokens."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.data import Sounds
from equiscope.data.picture_files import address
from equiscope.data.sound_augment import most_samples
from equiscope.data.sounds import (
    LabelledRecording,
    Recordings,
    SoundFormat,
    bands,
    check_samples,
    features,
    most_tokens,
    needed_samples,
    tokens_of,
)
from equiscope.data.targets import target_kind
from equiscope.errors import InputError
from equiscope.models import Built, Model
from equiscope.record import TokenSequence
from equiscope.tokens import Tokens, read_sound
from equiscope.training import answers
from equiscope.training.answer_task import AnswerTask
from equiscope.training.answers import Answer
from equiscope.training.attention_snapshot import attention_of, snapshot_length
from equiscope.training.folder import read_settings, write_settings
from equiscope.training.input_domain import InputNumbers
from equiscope.training.measures import Outcomes
from equiscope.training.metadata_columns import MetadataColumns
from equiscope.training.recipe import Recipe
from equiscope.training.task import NEW, Batch, ModelInputs, Prediction, batches

AT_ONCE = 64  # recordings that are evaluated together
PAIRS = 2**22  # of tokens that are answered together
SOUND_FORMAT = "sound_format.json"
LOOKED = 60.0  # seconds of a sound whose attention is looked at
WINDOW, COLUMNS, LOUD = 256, 320, 70.0  # samples, columns at most, and decibels of a spectrogram that is shown


class SoundsTask(AnswerTask):
    """A model learns the class, the labels or the numbers of recordings."""

    name: ClassVar[str] = "sounds"
    better: Literal["less", "more"] = "more"
    baselines: ClassVar[tuple[str, ...]] = ("mlp",)
    input_names = (
        "samples a second of the file", "seconds", "level in dB", "middle of the spectrum in Hz", "95 % of the spectrum below Hz",
    )  # fmt: skip

    recordings: Recordings  # none in the task of a run without data

    def __init__(
        self, recipe: Recipe, sound_format: SoundFormat, answer: Answer, recordings: Recordings | None = None,
        metadata: MetadataColumns | None = None,
    ) -> None:  # fmt: skip
        super().__init__(recipe)
        assert isinstance(recipe.data, Sounds)
        self.config, self.format = recipe.data, sound_format
        self.set_answer(answer, metadata)
        if recordings is not None:
            self.recordings, self.sources, self.notes = recordings, recordings.sources, recordings.notes
            for part, some in recordings.parts.items():
                self.encode(part, [r.name for r in some], [r.target for r in some], [r.others for r in some])
        changes = self.config.augment
        if self.config.tokens == "raw" and (changes.bands or changes.windows or changes.warp):
            self.notes = [
                *self.notes,
                "data.augment warps spectrograms and hides bands and windows of them, but nothing of raw tokens.",
            ]

    @classmethod
    def from_recipe(cls, recipe: Recipe, recipe_folder: Path | None = None) -> Self:
        """Read and check the recipe's recordings."""
        assert isinstance(recipe.data, Sounds)
        config, recordings = recipe.data, Recordings(recipe.data, recipe.seed, recipe_folder)
        answer = answers.of_targets(target_kind(config), [r.target for r in recordings.parts["train"]], config.numbers)
        metadata = MetadataColumns.of(config.metadata, [r.others.metadata for r in recordings.parts["train"]])
        return cls(recipe, recordings.format, answer, recordings, metadata)

    @classmethod
    def from_run(cls, recipe: Recipe, folder: Path) -> Self:
        assert isinstance(recipe.data, Sounds)
        sound_format = read_settings(folder / SOUND_FORMAT, SoundFormat, "how this run reads a sound")
        if len(sound_format.mean) != (wide := bands(recipe.data, sound_format.rate)):
            raise InputError(
                f"{folder / SOUND_FORMAT}, which says how this run reads a sound, cannot be read: it has "
                f"{len(sound_format.mean)} means, but the recipe makes {wide} numbers a window. Train again, or bring it back."
            )
        metadata = MetadataColumns.read(folder, recipe.data.metadata)
        return cls(recipe, sound_format, answers.read(folder), metadata=metadata)

    @classmethod
    def for_evaluation(cls, recipe: Recipe, folder: Path, names: Sequence[str]) -> Self:
        task = cls.from_run(recipe, folder)
        recordings = Recordings.from_files(task.config, task.format, NEW, names)
        return cls(recipe, task.format, task.answer, recordings, task.metadata)

    def save(self, folder: Path) -> None:
        write_settings(folder / SOUND_FORMAT, self.format)
        answers.save(self.answer, folder)
        self.metadata.save(folder)

    def resolved_fields(self, spec: dict[str, Any]) -> dict[str, Any]:
        spec = self.with_columns(spec)
        size, outputs = features(self.config, self.format.rate), self.answer.outputs
        layer, entry_fields = dict(spec.get("input") or {}), self.recipe.model.get("input", {})
        if "start" in self.recipe.model or "stem" in entry_fields:
            size = self._stem_features(layer, size)
        if "start" in self.recipe.model:
            if (layer.get("features"), spec.get("outputs")) != (size, outputs):
                raise InputError(
                    f"The checkpoint takes {layer.get('features')} numbers a token and gives {spec.get('outputs')} answers, but "
                    f"these recordings make {size} and need {outputs}. Use the tokens, windows, mels and targets of its training."
                )
            return spec
        if spec.get("vocabulary") is not None:
            raise InputError(f"model.vocabulary is {spec['vocabulary']}, but sounds have no vocabulary. Leave it out.")
        self.check_stated({"input.features": size, "outputs": outputs}, "the recordings have {}")
        if spec.setdefault("readout", "mean") == "each":
            raise InputError('model.readout "each" answers for every token, but a recording has one answer. Use "mean" or "class".')
        if "stem" in entry_fields:
            layer |= {"patch": [2 ** (len(layer["stem"]) - 1)]}
        else:  # a preset's cells are cut here already
            layer = {name: value for name, value in layer.items() if name not in ("patch", "stem")}
        layer |= {"features": size}
        return {"output": {"bias": True}, **spec, "input": layer, "outputs": outputs}

    def _stem_features(self, layer: dict[str, Any], wide: int) -> int:
        """Features of a token after the convolutions of a stem, which read consecutive frames."""
        stem, rate, config = layer.get("stem"), self.format.rate, self.config
        if not stem:
            return wide
        cell = 2 ** (len(stem) - 1)
        length, hop = (round(ms * rate / 1000) for ms in (config.window_ms, config.hop_ms))
        if config.tokens != "raw" or config.gaps or (length, hop, stem[0]) != (cell, cell, 1):
            ms = 1000 * cell / rate
            raise InputError(
                f"The convolutions of model.input.stem are {len(stem) - 1}, which read raw frames of {cell} samples of 1 channel, "
                f'one after another. Set data.tokens = "raw", window_ms = {ms:g} and hop_ms = {ms:g}, no gaps, and begin the stem '
                "with 1."
            )
        return int(stem[-1])

    def sizes(self, baseline: str) -> dict[str, Any]:
        self.check_baseline(baseline)
        wide, rate = features(self.config, self.format.rate), self.format.rate
        if self.config.longest is None:
            raise InputError("A baseline takes a whole recording at once. Set data.longest, the seconds of it that are read.")
        return {"shape": (most_tokens(self.config, rate), wide), "outputs": self.answer.outputs}

    def longest(self) -> Iterator[tuple[Literal["model", "encoder"], Tensor]]:
        for part, recordings in self.recordings.parts.items():
            longest = max((r.wave for r in recordings), key=len)
            if part == "train" and self.config.augment is not None:
                longest = F.pad(longest, (0, most_samples(len(longest), self.format.rate, self.config.augment) - len(longest)))
            yield "model", tokens_of(self.config, self.format, [longest]).positions[0]

    def batch(self, step: int, share: int = 0, shares: int = 1) -> Batch:
        size = self.recipe.budget.batch
        tokens, rows = self.recordings.batch(step, size, share, shares)
        assert tokens.valid is not None
        tensors = {
            "inputs": tokens.x,
            "positions": tokens.positions,
            "order": tokens.order,
            "valid": tokens.valid,
            "targets": self.targets["train"][rows],
        } | self.column_inputs(self.columns["train"][rows])
        return Batch(tensors, size, int(tokens.valid.sum()), len(rows), tokens.x.shape[-2])

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        t = batch.tensors
        tokens = Tokens(x=t["inputs"], positions=t["positions"], order=t["order"], valid=t["valid"])
        outputs = model(tokens, **({"columns": t["columns"]} if "columns" in t else {}))
        return self.answer.loss(outputs, t["targets"], self.config.smoothing)

    @torch.no_grad()
    def outcomes(self, model: Built, part: str) -> Outcomes:
        device, outputs = next(model.parameters()).device, []
        columns = self.columns[part].split(AT_ONCE)
        for (tokens, _), own in zip(self.recordings.recordings(part, AT_ONCE), columns, strict=True):
            outputs.append(model(tokens.to(device=device), **self.column_inputs(own.to(device))).float().cpu())
        names = [r.name for r in self.recordings.parts[part]]
        return self.answer.outcomes(names, torch.cat(outputs), self.targets[part], "recordings")

    def visible_inputs(self, part: str, rows: Sequence[int]) -> list[dict[str, str]]:
        """Spectrograms: time to the right, frequency upwards, darker for more energy."""
        return [{"picture": address(spectrogram(self.recordings.parts[part][row].wave))} for row in rows]

    def simple_features(self, part: str) -> tuple[Any, Tensor] | None:
        """The mean of the tokens of each third of a recording, and the logarithm of its length."""
        rows = []
        for tokens, _ in self.recordings.recordings(part, AT_ONCE):
            assert tokens.valid is not None
            for x, valid in zip(tokens.x, tokens.valid, strict=True):
                count = int(valid.sum())
                thirds = [x[i * count // 3 : max((i + 1) * count // 3, i * count // 3 + 1)].mean(0) for i in range(3)]
                rows.append(torch.cat([*thirds, torch.tensor([math.log(max(count, 1))])]).double())
        return torch.cat([torch.stack(rows), self.metadata.one_hot(self.columns[part])], -1).numpy(), self.targets[part]

    def simple_groups(self, part: str) -> Sequence[str]:
        """The column of groups, or else the fields of file names that part the recordings, such as speakers."""
        fields = sorted({name for wanted in self.config.where.values() for name in wanted} - {"label"})
        return [r.others.group or " ".join(r.name_fields[name] for name in fields) for r in self.recordings.parts[part]]

    @torch.no_grad()
    def predict(self, model: Built, inputs: Sequence[str], **options: Any) -> list[Prediction]:
        """The answer for each sound. options: top, how many classes with their probabilities; 3 by default.

        inputs: sound files, folders, archives, tables with a column of file names.
        """
        top = self.top_of(options)
        if not inputs:
            return []
        recordings = Recordings.unlabelled(self.config, self.format, inputs)
        waves, hop = [r.wave for r in recordings], max(1, round(self.config.hop_ms * self.format.rate / 1000))
        device, outputs = next(model.parameters()).device, []  # type: Any, list[Tensor]
        columns = self.metadata.tokens([r.others.metadata for r in recordings])
        for chosen in batches([len(wave) // hop for wave in waves], AT_ONCE, PAIRS):
            tokens = tokens_of(self.config, self.format, waves[chosen]).to(device=device)
            outputs.append(model(tokens, **self.column_inputs(columns[chosen].to(device))).float().cpu())
        numbers = _input_numbers(recordings, self.format.rate)
        return self.predictions([r.name for r in recordings], torch.cat(outputs), top, numbers)

    def input_numbers(self, part: str, training_ids: str = "") -> InputNumbers | None:
        return _input_numbers(self.recordings.parts[part], self.format.rate)

    def _wave(self, path: str, longest: float | None = None) -> Tensor:
        """The samples of a file. Raises InputError if it is too short, longer than `longest` seconds, or has NaN."""
        wave, rate = read_sound(path, self.format.rate, longest=longest)
        least = needed_samples(self.config, self.format.rate)
        check_samples(wave, path)
        if len(wave) < least:
            raise InputError(f"{path} lasts {1000 * len(wave) / rate:.3g} ms, but one token takes {1000 * least / rate:.3g} ms.")
        return wave if self.config.longest is None else wave[: max(least, round(self.config.longest * rate))]

    def model_inputs(self, model: Built, example: str) -> ModelInputs:
        tokens = tokens_of(self.config, self.format, [self._wave(example, LOOKED)]).to(device=next(model.parameters()).device)
        front = model.spec.prefix_tokens
        at, config = tokens.positions.reshape(-1, tokens.positions.shape[-1])[:, 0].tolist(), self.config
        windows = config.patch[0] if config.tokens == "patches" else 1  # windows of a slice
        lasts = (config.window_ms + (windows - 1) * config.hop_ms) / 1000
        begins = [max(0.0, t - lasts / 2) if config.positions == "seconds" else t * windows * config.hop_ms / 1000 for t in at]
        labels = [*self.front_names(model), *(f"{time:.3g} s" for time in begins)]
        line = TokenSequence(name="sound", kind="slices", labels=labels, seconds=begins, duration=lasts, prefix_tokens=front)
        return ModelInputs((tokens,), [line])

    @torch.no_grad()
    def sample(self, model: Built, i: int) -> tuple[str, Tensor]:
        recording, device = self.recordings.parts["validation"][i], next(model.parameters()).device
        tokens = tokens_of(self.config, self.format, [recording.wave]).to(device=device)
        columns = self.columns["validation"][i : i + 1].to(device)
        name = recording.name.rpartition(": ")[2].rpartition("/")[2]
        return name, model(tokens, **self.column_inputs(columns)).float().cpu()[0]

    def snapshot(self, model: Built, i: int) -> dict[str, Any]:
        """The attention between the first windows of a recording, with their times."""
        if not isinstance(model, Model):
            return {}
        wave = self.recordings.parts["validation"][i].wave
        tokens = tokens_of(self.config, self.format, [wave]).to(device=next(model.parameters()).device)
        first = slice(0, snapshot_length(model))
        excerpt = Tokens(x=tokens.x[0, first], positions=tokens.positions[0, first], order=tokens.order[first])
        unit = " s" if self.config.positions == "seconds" else ""
        names = [f"{position:.3g}{unit}" for position in excerpt.positions[:, 0].tolist()]
        before = model.spec.prefix_tokens  # rows that the read-out adds
        rows = slice(before, None)
        return {"tokens": names, "attention": attention_of(model, excerpt, rows=rows, columns=rows)}


def spectrogram(wave: Tensor) -> np.ndarray:
    """A picture of a sound [T]: bytes [1, frequencies, columns], the loudest black, what is LOUD softer white."""
    padded = F.pad(wave.float(), (0, max(0, WINDOW - len(wave))))
    hop = max(WINDOW // 8, -(-len(padded) // COLUMNS))
    energy = torch.stft(padded, WINDOW, hop, window=torch.hann_window(WINDOW), center=False, return_complex=True).abs().square()
    decibels = 10 * energy.clamp(min=1e-10).log10()
    share = ((decibels.max() - decibels) / LOUD).clamp(max=1)
    return (255 * share).round().byte().flip(0)[None].numpy()


def _input_numbers(recordings: Sequence[LabelledRecording], rate: int) -> InputNumbers:
    """Rate of the file, length, level, and where the energy lies in the spectrum. rate: to which recordings were brought."""
    rows = []
    for recording in recordings:
        wave = recording.wave.double()
        power = torch.fft.rfft(wave).abs().square()
        hertz = torch.linspace(0, rate / 2, len(power), dtype=torch.float64)
        total = power.sum().clamp(min=1e-30)
        below = hertz[min(int((power.cumsum(0) < 0.95 * total).sum()), len(hertz) - 1)]
        level = 10 * torch.log10(wave.square().mean() + 1e-10)
        middle = (power * hertz).sum() / total
        rows.append([recording.rate or rate, len(wave) / rate, float(level), float(middle), float(below)])
    values = np.array(rows)
    rates, seconds = np.median(values[:, 0]), np.median(values[:, 1])
    return InputNumbers(SoundsTask.input_names, [0.05 * rates, 0.25 * seconds, 3.0, 0.02 * rate, 0.02 * rate], values)
