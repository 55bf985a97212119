"""Sounds: recordings with classes, labels or numbers become tokens at times in seconds, padded to the longest of a batch.

The fields of a file name (class, speaker, take) determine the part of a recording. All random numbers of a recording in an epoch
are a function of the seed, the epoch and the recording.
"""

import hashlib
import io
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Self

import msgspec
import torch
from msgspec import Struct
from torch import Tensor

from equiscope.data.faults import Faults
from equiscope.data.files import find_files
from equiscope.data.gaps import remaining_windows, sound_generator
from equiscope.data.groups import Groups, held_out
from equiscope.data.sampler import Sampler, derived_seed, generator
from equiscope.data.sound_augment import SoundAugment, changed, hidden
from equiscope.data.sound_files import ENDINGS, contents, folder_of, is_sound, name_fields
from equiscope.data.split_folders import one_part, spread
from equiscope.data.tables import separator_notes
from equiscope.data.targets import OtherCells, check_groups, check_targets, only_classes, target_columns, target_kind
from equiscope.errors import InputError, did_you_mean
from equiscope.record import DataFile
from equiscope.spec_base import Share, Size
from equiscope.tokens import Tokens, frames, log_mel, read_sound, resampled, spectrogram_patches
from equiscope.tokens.sound import Mel

Positive = Annotated[float, msgspec.Meta(gt=0)]
Span = Annotated[float, msgspec.Meta(gt=0, le=3.6e6)]  # an hour
TOGETHER = 64  # recordings that are cut into windows at once
LOUDEST = 2.0**40  # also whole numbers of 32 bits, as they are, are heard
FEW = 2**28  # samples that are held in memory: nine hours at 8 kHz, one gigabyte


class Sounds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sounds", tag_field="task"):
    """Recordings, each with a class, with several labels, or with numbers.

    train       a folder, an archive (.tar, compressed or not, or .zip), files with * for many, a table (CSV, TSV or JSONL) with a
                column of file names, relative to the table, and others for the target, or a folder of parts: train, val, test
    validation  recordings that choose the best weights; test: recordings that are evaluated once, at the end
    field       column of a table with the file names
    label       column with the class of a recording; without a table, the folder or the file's name says it
    labels      column with any number of labels, separated by `separator`, or a list in JSONL; instead of `label`
    separator   between two labels of a cell
    numbers     columns with the numbers that are predicted; instead of `label`
    metadata    further columns of a table that are read with the recording, such as an age or a device: one token of each
    group       column whose equal values belong together, such as a speaker: `held_out` and `test_held_out` then take whole groups,
                and so do the folds in which the simple model is chosen
    pattern     of file names, e.g. "{label}_{speaker}_{index}"; without one, the name of the folder is the class
    where       which recordings of `train` belong to another part, by the fields of their file names: a word, a list of words, or a
                range of numbers, e.g. {validation = {index = "10-12"}, test = {speaker = ["theo"]}}
    held_out    random share of the recordings for the validation part, if neither `validation` nor `where` defines it
    test_held_out  random share for the test part, which is taken first, if neither `test` nor `where` defines it
    rate        in hertz; every recording is resampled to it. Without one, all recordings must have the same rate
    tokens      "log-mel" (one token for each window), "patches" (of the log-mel spectrogram), or "raw" (the samples of a frame)
    window_ms   length of a window or frame; hop_ms: from one window to the next
    mels        number of mel bands; scale: of the bands, see `tokens.mel_filters`; patch: windows and bands of a patch
    positions   of the tokens: "seconds", the middle of the window; or "index", the number of the window
    gaps        share of each recording's windows that is removed at random, in stretches: drawn again in each epoch of training,
                and fixed by the sound itself in evaluation; gap: windows of one stretch at most
    center      whether to subtract each recording's own mean of each band, which removes the response of the microphone
    longest     seconds of a recording that are read; the rest is cut off
    smoothing   label smoothing: share of the target that is spread over all classes in training
    augment     random augmentation of the training recordings
    """

    train: str
    validation: str | None = None
    test: str | None = None
    field: str = "path"
    label: str = "label"
    labels: str | None = None
    separator: Annotated[str, msgspec.Meta(min_length=1)] = ";"
    numbers: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    group: str | None = None
    pattern: str | None = None
    where: dict[Literal["validation", "test"], dict[str, str | int | list[str]]] = msgspec.field(default_factory=dict)
    held_out: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.1
    test_held_out: Share = 0.0
    rate: Size | None = None
    tokens: Literal["log-mel", "patches", "raw"] = "log-mel"
    window_ms: Span = 25.0
    hop_ms: Span = 10.0
    mels: Size = 40
    scale: Mel = "slaney"
    patch: tuple[Size, Size] = (4, 8)
    positions: Literal["seconds", "index"] = "seconds"
    gaps: Share = 0.0
    gap: Size = 8
    center: bool = False
    longest: Positive | None = None
    smoothing: Share = 0.0
    augment: SoundAugment = msgspec.field(default_factory=SoundAugment)


class WaveStore:
    """Waves: the first ones in memory, further ones in an unnamed temporary file from which they are read on demand."""

    def __init__(self, samples: int = FEW) -> None:
        self.held, self.samples = 0, samples
        self.file: IO[bytes] | None = None

    def put(self, wave: Tensor) -> Callable[[], Tensor]:
        """Store a wave [T]; returns a function that loads it. Raises InputError if the disk is full."""
        self.held += len(wave)
        if self.held <= self.samples:
            return lambda: wave
        try:
            if self.file is None:
                self.file = tempfile.TemporaryFile()  # noqa: SIM115 it lives as long as the shelf
            file = self.file
            offset = file.seek(0, io.SEEK_END)
            file.write(wave.numpy().tobytes())
        except OSError as error:
            raise InputError(
                f"More than {self.samples:,} samples are kept in a file of {tempfile.gettempdir()}, which cannot be written: "
                f"{error.strerror}. Make room, or set TMPDIR to another folder."
            ) from error
        return lambda: self._read(offset, len(wave))

    def _read(self, offset: int, length: int) -> Tensor:
        assert self.file is not None
        self.file.seek(offset)
        return torch.frombuffer(bytearray(self.file.read(4 * length)), dtype=torch.float32)


@dataclass(frozen=True)
class LabelledRecording:
    """A sound and its target: a class, a list of labels, or a list of numbers; None where it is unknown.

    load         returns its wave
    name_fields  the parts of its file name, by the names in the pattern
    rate         samples a second of the file; 0 where it is unknown
    others       its cells in further columns of a table
    """

    name: str
    target: Any
    load: Callable[[], Tensor]
    name_fields: dict[str, str] = field(default_factory=dict)
    rate: int = 0
    others: OtherCells = field(default_factory=OtherCells)

    @property
    def wave(self) -> Tensor:
        return self.load()


class SoundFormat(Struct, frozen=True, kw_only=True):
    """How a run reads a sound: with the weights, all that prediction needs.

    rate  in hertz; mean, deviation: of each number of a token, over all tokens of the training part
    """

    rate: int
    mean: list[float]
    deviation: list[float]

    def __post_init__(self) -> None:
        """Check values from a file: msgspec turns a ValueError into a DecodeError."""
        if not 0 < self.rate <= 10**6 or not self.mean or len(self.mean) != len(self.deviation):
            raise ValueError("a rate in hertz, and as many means as deviations are needed")
        if not all(map(math.isfinite, self.mean)) or not all(0 < one < math.inf for one in self.deviation):
            raise ValueError("means are finite, and deviations positive")


class Recordings:
    """The recordings of a `Sounds` recipe, opened and checked.

    raises  InputError with the file that is missing, unreadable, empty, too short, of another rate, or without a class
    """

    def __init__(
        self, config: Sounds, seed: int = 0, recipe_folder: Path | None = None, samples_in_memory: int = FEW
    ) -> None:  # fmt: skip
        self.config, self.seed = config, seed
        check_targets(config)
        if config.tokens == "patches" and config.mels % config.patch[1]:
            raise InputError(f"data.patch has {config.patch[1]} bands, which do not divide the {config.mels} of data.mels.")
        if config.tokens == "patches" and config.gaps:
            raise InputError("data.gaps leaves windows out, but patches are of windows side by side. Use log-mel or raw tokens.")
        named: dict[str, str | None] = {"train": config.train, "validation": config.validation, "test": config.test}
        named, self.notes = spread(named, recipe_folder, is_sound, config.pattern is None, tuple(config.where))
        self.notes += separator_notes(
            (path for name in named.values() if name for path in find_files(name, recipe_folder)),
            [config.field, *target_columns(config)],
        )
        self.sources: list[DataFile] = []
        self.rate, self.waves = config.rate or 0, WaveStore(samples_in_memory)
        whole = {part: self._read(part, name, recipe_folder) for part, name in named.items() if name is not None}
        check_groups(config, [r.others.group for r in whole["train"]])
        self.parts: dict[str, list[LabelledRecording]] = parted(config, whole, seed)
        _one_target(self.parts)
        if target_kind(config) == "class":
            self._check_classes()
        mean, deviation = band_statistics(config, self.rate, self.parts["train"])
        self.format = SoundFormat(rate=self.rate, mean=mean, deviation=deviation)
        self.sampler = Sampler(len(self.parts["train"]), seed)

    def _check_classes(self) -> None:
        """Check that there are two classes or more, and that every part has only those of the training part."""
        classes = sorted({r.target for r in self.parts["train"]})
        if len(classes) < 2:
            raise InputError(f"All recordings of {self.config.train} are of the class {classes[0]!r}. Give two classes or more.")
        faults = Faults("Add training data of that class, or leave the file out.")
        for part, recordings in self.parts.items():
            for r in recordings:
                if r.target not in classes:
                    only = f"is of the class {r.target!r}, but training has only {', '.join(classes)}."
                    faults.add(f"{r.name} of the {part} part {only}", r.name)
        faults.check()

    @classmethod
    def from_files(cls, config: Sounds, sound_format: SoundFormat, part: str, names: Sequence[str]) -> Self:
        """New recordings as the one part, resampled to the rate of a run."""
        recordings = cls._of_run(config, sound_format)
        read: list[LabelledRecording] = []
        for name in names:
            for path in find_files(name):
                one_part(path, is_sound, config.pattern is None)
            read += recordings._read(part, name, None)
        recordings.parts = {part: read}
        return recordings

    @classmethod
    def unlabelled(cls, config: Sounds, sound_format: SoundFormat, names: Sequence[str]) -> list[LabelledRecording]:
        """Recordings without targets, resampled to the rate of a run. names: files, folders, archives, tables."""
        recordings = cls._of_run(config, sound_format)
        read: list[LabelledRecording] = []
        faults = Faults()
        for name in names:
            before = len(read) + len(faults.found)
            for where, _, content, others in contents(name, config, labelled=False):
                with faults.caught(where):
                    wave, rate = read_sound(where, content=content)
                    load = recordings.waves.put(recordings._checked(wave, rate, where))
                    read.append(LabelledRecording(where, None, load, rate=rate, others=others))
            if len(read) + len(faults.found) == before:
                raise no_recording(name)
        faults.check()
        return read

    @classmethod
    def _of_run(cls, config: Sounds, sound_format: SoundFormat) -> Self:
        """An instance without recordings that reads files like a run."""
        recordings = cls.__new__(cls)
        recordings.config, recordings.format, recordings.rate = (
            msgspec.structs.replace(config, rate=sound_format.rate),
            sound_format,
            sound_format.rate,
        )
        recordings.sources, recordings.waves, recordings.notes = [], WaveStore(), []
        return recordings

    def batch(self, step: int, size: int, share: int = 0, shares: int = 1) -> tuple[Tokens, Tensor]:
        """The recordings share, share + shares, ... of a step, augmented, and their rows [B] in the training part."""
        chosen = self.sampler.batch(step, size)[share::shares]
        changes, mels = self.config.augment, self.config.tokens != "raw"
        waves, masks = [], []
        for epoch, example in chosen:
            draw = generator(self.seed, "sound", epoch, example)
            waves.append(changed(self.parts["train"][example].wave, self.rate, changes, draw))
            masks.append(draw)
        draws = [generator(self.seed, "gaps", *which) for which in chosen] if self.config.gaps else None
        heard = tokens_of(self.config, self.format, waves, (lambda x, i: hidden(x, changes, masks[i])) if mels else None, draws)
        return heard, torch.tensor([example for _, example in chosen])

    def recordings(self, part: str, size: int) -> Iterator[tuple[Tokens, list[LabelledRecording]]]:
        """All recordings of a part without augmentation, `size` at a time."""
        some = self.parts[part]
        for first in range(0, len(some), size):
            few = some[first : first + size]
            yield tokens_of(self.config, self.format, [r.wave for r in few]), few

    def _read(self, part: str, name: str, recipe_folder: Path | None) -> list[LabelledRecording]:
        """All recordings of a name, sorted by name."""
        size, digests, read = 0, {}, []
        faults = Faults()
        for where, given, content, others in contents(name, self.config, recipe_folder):
            with faults.caught(where):
                fields_of_name = name_fields(self.config.pattern, where) if self.config.pattern is not None else {}
                if given is None:
                    only_classes(self.config, f"{where} is a recording alone")
                target = fields_of_name.get("label") or folder_of(where) if given is None else given
                wave, rate = read_sound(where, content=content)
                load = self.waves.put(self._checked(wave, rate, where))
                read.append(LabelledRecording(where, target, load, fields_of_name, rate, others))
                digests[where] = f"{Path(where).name} {target} {hashlib.sha256(content).hexdigest()}\n"
                size += len(content)
        faults.check()
        if not read:
            raise no_recording(name)
        digest = hashlib.sha256("".join(digests[where] for where in sorted(digests)).encode()).hexdigest()
        self.sources.append(DataFile(name="/".join(Path(name).parts[-2:]), part=part, bytes=size, sha256=digest))
        return sorted(read, key=lambda r: r.name)

    def _checked(self, wave: Tensor, rate: int, where: str) -> Tensor:
        check_samples(wave, where)
        self.rate = self.rate or rate
        if rate != self.rate and self.config.rate is None:
            raise InputError(
                f"{where} has {rate} samples a second, but the ones before have {self.rate}. Set data.rate to resample all."
            )
        wave = resampled(wave, rate, self.rate)
        least = needed_samples(self.config, self.rate)
        if len(wave) < least:
            raise InputError(
                f"{where} lasts {1000 * len(wave) / self.rate:.3g} ms, but one token takes {1000 * least / self.rate:.3g} ms. "
                "Leave it out, or use a shorter data.window_ms."
            )
        return wave if self.config.longest is None else wave[: max(least, round(self.config.longest * self.rate))].clone()


def no_recording(name: str) -> InputError:
    return InputError(f"{name} has no recording. Sounds are files that end in {', '.join(ENDINGS)}.")


def check_samples(wave: Tensor, where: str) -> None:
    """Raises InputError for NaN or infinite samples, and for ones so large that energies would overflow."""
    most = float(wave.abs().max()) if len(wave) else 0.0
    if not math.isfinite(most):
        raise InputError(f"{where} has samples that are no numbers. Give another file.")
    if most > LOUDEST:
        raise InputError(f"{where} has samples of up to {most:.0e}, and sounds have some from -1 to 1. Give another file.")


def parted(config: Sounds, whole: dict[str, list[LabelledRecording]], seed: int) -> dict[str, list[LabelledRecording]]:
    """Recordings by part: those selected by `where` leave `train`; without a validation part, a share is held out."""
    parts: dict[str, list[LabelledRecording]] = {"train": [], **{p: r for p, r in whole.items() if p != "train"}}
    for part in config.where:
        if part in whole:
            raise InputError(f"The {part} part is defined twice: by data.{part} and by data.where.{part}. Leave one out.")
        parts[part] = []
    for r in whole["train"]:
        parts[next((part for part, wanted in config.where.items() if _fits(r, wanted)), "train")].append(r)
    if config.test_held_out and "test" in parts:
        raise InputError("data.test_held_out, and data.test or data.where, both say what the test part is. Leave one of them out.")
    for part, name, share in (("test", "test", config.test_held_out), ("validation", "held", config.held_out)):
        if part in parts or not share:
            continue
        if config.group:
            groups = Groups(len(parts["train"]))
            groups.join_equal(r.others.group or None for r in parts["train"])
            rows = set(held_out(groups, round(len(parts["train"]) * share), seed, name))
            parts[part] = [r for i, r in enumerate(parts["train"]) if i in rows]
            parts["train"] = [r for i, r in enumerate(parts["train"]) if i not in rows]
            continue
        rank = sorted(
            parts["train"], key=lambda r: derived_seed(seed, name, r.target if isinstance(r.target, str) else "", Path(r.name).name)
        )
        out = {id(r) for r in rank[: max(1, round(len(rank) * share))]}
        parts[part] = [r for r in parts["train"] if id(r) in out]
        parts["train"] = [r for r in parts["train"] if id(r) not in out]
    for name, recordings in parts.items():
        if not recordings:
            condition = next((f" where {wanted}" for part, wanted in config.where.items() if part == name), "")
            raise InputError(f"No recording of {config.train} is left for the {name} part{condition}. Change data.where.")
    return {part: parts[part] for part in ("train", "validation", "test") if part in parts}


def _fits(recording: LabelledRecording, wanted: dict[str, str | int | list[str]]) -> bool:
    """Whether the fields of a name match: words, or whole numbers in a range such as "5-9"."""
    for name, value in wanted.items():
        value_of_name = (
            recording.target if name == "label" and isinstance(recording.target, str) else recording.name_fields.get(name)
        )
        if value_of_name is None:
            raise InputError(
                f"data.where uses {name}, but file names have only: {', '.join(recording.name_fields) or 'nothing'}. "
                f"{did_you_mean(name, recording.name_fields) or 'Change data.pattern.'}"
            )
        bounds = re.fullmatch(r"(\d+)-(\d+)", value) if isinstance(value, str) else None
        if bounds:
            if not value_of_name.isdecimal():
                raise InputError(
                    f"{recording.name} says {name} {value_of_name!r}, which is no number, but data.where asks for {value}."
                )
            if not int(bounds[1]) <= int(value_of_name) <= int(bounds[2]):
                return False
        elif value_of_name not in (value if isinstance(value, list) else [str(value)]):
            return False
    return True


def _one_target(parts: dict[str, list[LabelledRecording]]) -> None:
    """Raise InputError if the same sound has two targets, or is in the training part and in another one."""
    seen: dict[bytes, tuple[str, LabelledRecording]] = {}
    for part, recordings in parts.items():
        for r in recordings:
            key = hashlib.sha256(r.wave.numpy().tobytes()).digest()
            where, other = seen.setdefault(key, (part, r))
            if other.target != r.target:
                raise InputError(
                    f"{r.name} is {r.target!r}, but {other.name}, the same sound, is {other.target!r}. Correct one of them."
                )
            if where == "train" and part != "train":
                raise InputError(
                    f"{r.name} of the {part} part is also in the training part, as {other.name}. Leave one of them out."
                )


# --- tokens -----------------------------------------------------------------------------------------------------------
def tokens_of(
    config: Sounds, sound_format: SoundFormat, waves: list[Tensor], hide: Callable[[Tensor, int], Tensor] | None = None,
    draws: Sequence[torch.Generator] | None = None,
) -> Tokens:  # fmt: skip
    """Sounds [T] of any lengths as one batch: x [B, N, F], positions [B, N, A], valid [B, N], False for padding.

    hide   augments spectrogram number i, [N, mels], before it is cut into patches
    draws  generators for the gaps of each; by default determined by the sounds themselves
    """
    spectrogram, real = windows(config, sound_format.rate, waves)
    if config.gaps:
        spectrogram, real = _with_gaps(config, spectrogram, real, draws or [sound_generator(wave) for wave in waves])
    x, at, counts = spectrogram.x, spectrogram.positions[..., :1], real.sum(-1)
    if config.center:
        x = _centred(x, real)
    x = (x - torch.tensor(sound_format.mean)) / torch.tensor(sound_format.deviation)
    if hide is not None:
        x = torch.stack([torch.cat([hide(row[:n], i), row[n:]]) for i, (row, n) in enumerate(zip(x, counts.tolist(), strict=True))])
    tokens = Tokens(x=x, positions=at.expand(len(waves), -1, -1), order=spectrogram.order)
    if config.tokens == "patches":
        tall, bands = config.patch[0], config.mels // config.patch[1]
        tokens = spectrogram_patches(tokens, config.patch)
        counts = counts // tall * bands
        at, seconds = tokens.positions, tokens.positions[..., :1]
        steps = torch.arange(seconds.shape[-2]).div(bands, rounding_mode="floor")
        if config.positions == "index":
            at = torch.stack([steps, torch.arange(len(steps)) % bands], -1).expand(len(waves), -1, -1).float()
    elif config.positions == "index":
        at = torch.arange(x.shape[1], dtype=torch.float32)[:, None].expand(len(waves), -1, -1)
    else:
        at = tokens.positions
    valid = torch.arange(tokens.x.shape[1]) < counts[:, None]
    return Tokens(x=tokens.x * valid[..., None], positions=at.contiguous(), order=tokens.order, valid=valid)


def windows(config: Sounds, rate: int, waves: list[Tensor]) -> tuple[Tokens, Tensor]:
    """Sounds [T] of any lengths as windows [B, N, F], and which of them [B, N] are not padding."""
    length, hop = (round(ms * rate / 1000) for ms in (config.window_ms, config.hop_ms))
    lengths = torch.tensor([max(len(wave), needed_samples(config, rate)) for wave in waves])
    sounds = torch.zeros(len(waves), int(lengths.max()))
    for row, wave in zip(sounds, waves, strict=True):
        row[: len(wave)] = wave
    if config.tokens == "raw":
        tokens = frames(sounds, rate, config.window_ms, config.hop_ms)
    else:
        tokens = log_mel(sounds, rate, config.window_ms, config.hop_ms, config.mels, config.scale)
    counts = (lengths - length).div(hop, rounding_mode="floor") + 1
    return tokens, torch.arange(tokens.x.shape[1]) < counts[:, None]


def _with_gaps(config: Sounds, windows: Tokens, real: Tensor, draws: Sequence[torch.Generator]) -> tuple[Tokens, Tensor]:
    """The remaining windows [B, N, F] at their own times, and which of them [B, N'] are not padding."""
    remaining = [remaining_windows(n, config.gaps, config.gap, draw) for n, draw in zip(real.sum(-1).tolist(), draws, strict=True)]
    longest = max(map(len, remaining))
    rows = torch.stack([torch.cat([row, row[-1:].expand(longest - len(row))]) for row in remaining])
    real = torch.arange(longest) < torch.tensor([len(row) for row in remaining])[:, None]
    x = windows.x.take_along_dim(rows[..., None], 1)
    return Tokens(x=x, positions=windows.positions[rows], order=torch.arange(longest)), real


def _centred(x: Tensor, real: Tensor) -> Tensor:
    """Each recording [B, N, F] minus the mean of its own windows."""
    return x - (x * real[..., None]).sum(1, keepdim=True) / real.sum(-1)[:, None, None]


def needed_samples(config: Sounds, rate: int) -> int:
    """Number of samples of the shortest sound with a token."""
    length, hop = (round(ms * rate / 1000) for ms in (config.window_ms, config.hop_ms))
    return length + hop * (config.patch[0] - 1 if config.tokens == "patches" else 0)


def most_tokens(config: Sounds, rate: int) -> int:
    """Number of tokens of a recording of `longest` seconds."""
    assert config.longest is not None
    length, hop = (round(ms * rate / 1000) for ms in (config.window_ms, config.hop_ms))
    count = (max(needed_samples(config, rate), round(config.longest * rate)) - length) // hop + 1
    count -= min(count - 1, round(config.gaps * count))
    return count if config.tokens != "patches" else count // config.patch[0] * (config.mels // config.patch[1])


def features(config: Sounds, rate: int) -> int:
    """Features of a token."""
    if config.tokens == "raw":
        return round(config.window_ms * rate / 1000)
    return config.mels if config.tokens == "log-mel" else math.prod(config.patch)


def bands(config: Sounds, rate: int) -> int:
    """Features of a window: those of a token, or the mels that patches are cut from."""
    return config.mels if config.tokens == "patches" else features(config, rate)


def band_statistics(config: Sounds, rate: int, recordings: Sequence[LabelledRecording]) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each band over all windows; for raw samples, 0 and one number for all."""
    total, square, count = 0.0, 0.0, 0  # type: float | Tensor, float | Tensor, int
    for first in range(0, len(recordings), TOGETHER):
        tokens, real = windows(config, rate, [r.wave for r in recordings[first : first + TOGETHER]])
        x = (_centred(tokens.x, real) if config.center else tokens.x)[real].double()
        total, square, count = total + x.sum(0), square + x.square().sum(0), count + len(x)
    mean, power = torch.as_tensor(total) / count, torch.as_tensor(square) / count
    if config.tokens == "raw":
        deviation = power.mean().sqrt().expand(len(power))
        mean = torch.zeros_like(power)
    else:
        deviation = (power - mean.square()).clamp(min=0).sqrt()
    return mean.tolist(), deviation.clamp(min=1e-5).tolist()
