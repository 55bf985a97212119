"""Sounds: every recording gets its class, its part and its times; what is random is a function of seed, epoch and recording."""

import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from equiscope.data import Missing, Sounds
from equiscope.data.sampler import generator
from equiscope.data.sound_augment import SoundAugment, changed, hidden
from equiscope.data.sounds import FEW, LabelledRecording, Recordings, SoundFormat, band_statistics, features, tokens_of
from equiscope.errors import InputError
from equiscope.symmetry import relative_error
from equiscope.tokens import frames, log_mel, spectrogram_patches

DIGITS = Path(__file__).parents[2] / "recipes" / "samples" / "fsdd"
PATTERN = "{label}_{speaker}_{index}"


def noise(seconds, rate=8000, seed=0):
    return torch.randn(round(seconds * rate), generator=generator(seed, "noise")).clamp(-3, 3) / 4


def written(path, seconds=0.2, rate=8000, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, noise(seconds, rate, seed).numpy(), rate, subtype="FLOAT" if path.suffix == ".wav" else None)
    return path


@pytest.fixture
def voices(tmp_path):
    """Two words, two speakers, five takes of each, of different lengths."""
    for number, (word, who, take) in enumerate((w, s, i) for w in ("yes", "no") for s in ("ann", "bob") for i in range(5)):
        written(tmp_path / "voices" / f"{word}_{who}_{take}.wav", 0.1 + 0.01 * number, seed=number)
    return tmp_path / "voices"


def recordings_of(folder, samples_in_memory=FEW, **changes):
    config = Sounds(**{"train": str(folder), "pattern": PATTERN, **changes})
    return Recordings(config, seed=3, samples_in_memory=samples_in_memory)


def heard(mean, deviation):
    return SoundFormat(rate=8000, mean=mean, deviation=deviation)


def clips_of(*waves):
    return [LabelledRecording(str(i), "a", lambda wave=wave: wave) for i, wave in enumerate(waves)]


def classes_of(recordings):
    return sorted({r.target for r in recordings.parts["train"]})


def names(recordings, part):
    return sorted(Path(r.name).stem for r in recordings.parts[part])


# --- which recordings, and where ------------------------------------------------------------------------------------
def test_names_say_the_class_and_the_part(voices):
    where = {"validation": {"index": "0-1", "speaker": "ann"}, "test": {"speaker": ["bob"], "index": 4}}
    found = recordings_of(voices, where=where)
    assert classes_of(found) == ["no", "yes"]
    assert names(found, "validation") == ["no_ann_0", "no_ann_1", "yes_ann_0", "yes_ann_1"]
    assert names(found, "test") == ["no_bob_4", "yes_bob_4"]
    assert len(found.parts["train"]) == 20 - 6


def test_a_speaker_may_be_left_out(voices):
    found = recordings_of(voices, where={"test": {"speaker": "bob"}}, held_out=0.2)
    assert {r.name_fields["speaker"] for r in found.parts["test"]} == {"bob"}
    assert {r.name_fields["speaker"] for part in ("train", "validation") for r in found.parts[part]} == {"ann"}
    assert [len(found.parts[part]) for part in ("train", "validation", "test")] == [8, 2, 10]


def test_folders_are_classes_where_no_pattern_says_them(tmp_path):
    for number in range(6):
        written(tmp_path / "set" / ("dog" if number % 2 else "cat") / f"{number}.flac", seed=number)
    (tmp_path / "set" / "README.md").write_text("no sound")
    found = recordings_of(tmp_path / "set", pattern=None)
    assert classes_of(found) == ["cat", "dog"]
    assert sum(map(len, found.parts.values())) == 6


def test_a_folder_whose_name_has_a_colon_is_a_class_of_its_own(tmp_path):
    for number in range(12):
        written(tmp_path / "set" / ("lo: a", "hi: a", "hi: b")[number % 3] / f"{number}.wav", seed=number)
    assert classes_of(recordings_of(tmp_path / "set", pattern=None)) == ["hi: a", "hi: b", "lo: a"]
    with tarfile.open(tmp_path / "set: all.tar", "w") as archive:
        archive.add(tmp_path / "set", "set")
    assert classes_of(recordings_of(tmp_path / "set: all.tar", pattern=None)) == ["hi: a", "hi: b", "lo: a"]


def test_a_table_says_path_and_label(tmp_path):
    for number in range(4):
        written(tmp_path / "wav" / f"{number}.wav", seed=number)
    table = tmp_path / "set.csv"
    table.write_text("path,label\n" + "".join(f"wav/{i}.wav,{'ab'[i % 2]}\n" for i in range(4)))
    assert classes_of(recordings_of(table, pattern=None, held_out=0.3)) == ["a", "b"]
    table.write_text(table.read_text().replace(",a", ", a "))
    assert classes_of(recordings_of(table, pattern=None, held_out=0.3)) == ["a", "b"]
    table.write_text("path,label\nwav/0.wav,a\nwav/9.wav,b\n")
    with pytest.raises(InputError, match=r"set\.csv, line 3: there is no file .*9\.wav\. Paths are beside the table"):
        recordings_of(table, pattern=None)
    table.write_text("path,label\nwav/0.wav,\n")
    with pytest.raises(InputError, match=r"set\.csv, line 2 has no class in 'label'"):
        recordings_of(table, pattern=None)
    table.write_text("path,label\nwav/0.wav,Smith, John\nwav/1.wav,Smith, Will\n")
    with pytest.raises(InputError, match=r"set\.csv, line 2 has 3 columns, but the first line names 2\. See that a cell"):
        recordings_of(table, pattern=None)
    table.write_text("file,label\nwav/0.wav,a\n")
    with pytest.raises(InputError, match=r"has the columns file, label, but no 'path'"):
        recordings_of(table, pattern=None)


def test_a_quotation_mark_between_tabs_takes_no_row_in(tmp_path):
    for number in range(4):
        written(tmp_path / f"{number}.wav", seed=number)
    table = tmp_path / "set.tsv"
    table.write_text("label\tpath\n" + '"a\t0.wav\nb\t1.wav\n"a\t2.wav\nb\t3.wav\n')
    found = recordings_of(table, pattern=None, held_out=0.3)
    assert classes_of(found) == ['"a', "b"]
    assert sum(map(len, found.parts.values())) == 4
    table = tmp_path / "set.csv"
    table.write_text('path,label\n0.wav,a\n"1.wav,b\n' + "2.wav,a\n" * 20_000)
    with pytest.raises(InputError, match=r"set\.csv, line 3 is not CSV: field larger than"):
        recordings_of(table, pattern=None)


def test_a_link_in_an_archive_to_what_is_not_in_it_is_no_recording(voices, tmp_path):
    with tarfile.open(tmp_path / "voices.tgz", "w:gz") as archive:
        archive.add(voices, "voices")
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo(f"voices/no_eve_{int(kind)}.wav")
            link.type, link.linkname = kind, "nowhere.wav"
            archive.addfile(link)
    assert recordings_of(tmp_path / "voices.tgz").sources[0].sha256 == recordings_of(voices).sources[0].sha256


def test_an_archive_is_read_like_a_folder(voices, tmp_path):
    with tarfile.open(tmp_path / "voices.tar.xz", "w:xz") as archive:
        archive.add(voices, "voices")
    one, other = recordings_of(voices), recordings_of(tmp_path / "voices.tar.xz")
    for part in ("train", "validation"):
        assert names(one, part) == names(other, part)
    assert [s.name for s in other.sources] == [f"{tmp_path.name}/voices.tar.xz"]
    assert one.sources[0].sha256 == other.sources[0].sha256  # of what the recordings hold


def test_a_file_that_changed_its_name_is_other_data(voices):
    before = recordings_of(voices).sources[0].sha256
    (voices / "no_ann_2.wav").rename(voices / "yes_ann_9.wav")
    assert recordings_of(voices).sources[0].sha256 != before


def test_many_recordings_lie_in_a_file_and_give_the_same_batches(voices):
    memory = recordings_of(voices, mels=16)
    spilled = recordings_of(voices, 5000, mels=16)
    assert spilled.waves.file is not None
    assert spilled.format == memory.format
    for step in range(3):
        assert torch.equal(spilled.batch(step, 5)[0].x, memory.batch(step, 5)[0].x)


# --- what is refused ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda f: (f / "yes_ann_0.wav").write_bytes(b""), r"yes_ann_0\.wav is empty: it has no bytes"),
        (lambda f: (f / "yes_ann_0.wav").write_bytes(b"RIFF or not"), r"yes_ann_0\.wav cannot be read as a sound: [^<]*$"),
        (lambda f: soundfile.write(f / "yes_ann_0.wav", np.zeros(0), 8000), r"yes_ann_0\.wav is a sound without samples"),
        (lambda f: written(f / "yes_ann_0.wav", 0.01), r"yes_ann_0\.wav lasts 10 ms, but one token takes 25 ms\. Leave it out"),
        (lambda f: written(f / "yes_ann_0.wav", rate=16000), r"has 16000 samples a second, .* before have 8000\. Set data\.rate"),
        (lambda f: written(f / "hello.wav"), r"hello\.wav has no label: its name does not fit '\{label\}_\{speaker\}_"),
        (
            lambda f: soundfile.write(f / "yes_ann_0.wav", np.full(900, np.nan), 8000, subtype="FLOAT"),
            r"yes_ann_0\.wav has samples that are no numbers",
        ),
        (
            lambda f: (f / "yes_bob_9.wav").write_bytes((f / "no_ann_2.wav").read_bytes()),
            r"(yes|no)_\w+\.wav is '\w+', but .*wav, the same sound, is '\w+'\. Correct one of them",
        ),
    ],
)  # fmt: skip
def test_a_recording_that_cannot_be_learned_from_is_named(voices, spoil, said):
    spoil(voices)
    with pytest.raises(InputError, match=said):
        recordings_of(voices)


def test_a_sound_that_is_learned_from_and_measured_on_is_named(voices):
    (voices / "no_bob_9.wav").write_bytes((voices / "no_bob_1.wav").read_bytes())
    with pytest.raises(InputError, match=r"no_bob_9\.wav of the test part is also in the training part, as .*no_bob_1\.wav"):
        recordings_of(voices, where={"test": {"index": 9}})


def test_parts_that_cannot_be_are_refused(voices, tmp_path):
    with pytest.raises(Missing, match=r"There is no nowhere"):
        recordings_of("nowhere")
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match=r"none has no recording\. Sounds are files that end in \.wav"):
        recordings_of(tmp_path / "none")
    with pytest.raises(InputError, match=r"No recording of .* is left for the test part where \{'index': '50-60'\}"):
        recordings_of(voices, where={"test": {"index": "50-60"}})
    with pytest.raises(InputError, match=r"data\.where uses take, but file names have only: label, speaker, index"):
        recordings_of(voices, where={"test": {"take": 1}})
    with pytest.raises(InputError, match=r"says speaker '\w+', which is no number, but data\.where asks for 1-2"):
        recordings_of(voices, where={"test": {"speaker": "1-2"}})
    with pytest.raises(InputError, match=r"defined twice: by data\.test and by data\.where\.test"):
        recordings_of(voices, test=str(voices), where={"test": {"index": 1}})
    with pytest.raises(InputError, match=r"All recordings of .* are of the class 'no'"):
        recordings_of(voices, where={"validation": {"label": "yes"}})
    with pytest.raises(InputError, match=r"data\.patch has 7 bands, which do not divide the 40 of data\.mels"):
        recordings_of(voices, tokens="patches", patch=(4, 7))
    with pytest.raises(InputError, match=r"each name once, but got 'no names'"):
        recordings_of(voices, pattern="no names")


def test_a_class_that_was_never_learned_is_named(voices, tmp_path):
    written(tmp_path / "test" / "maybe_ann_1.wav", seed=99)
    with pytest.raises(InputError, match=r"maybe_ann_1\.wav of the test part is of the class 'maybe', but training has"):
        recordings_of(voices, test=str(tmp_path / "test"))


# --- tokens ---------------------------------------------------------------------------------------------------------
def test_another_rate_is_brought_to_the_one_that_is_said(voices):
    written(voices / "yes_ann_0.wav", 0.2, rate=16000, seed=50)
    found = recordings_of(voices, rate=4000)
    assert found.format.rate == 4000
    wave = next(r.wave for part in found.parts.values() for r in part if r.name.endswith("yes_ann_0.wav"))
    assert len(wave) == 800


@pytest.mark.parametrize("tokens", ["log-mel", "raw", "patches"])
@pytest.mark.parametrize("level", [False, True])
def test_padding_changes_no_recording(tokens, level):
    config = Sounds(train="", tokens=tokens, mels=16, patch=(3, 4), center=level)
    waves = [noise(seconds, seed=i) for i, seconds in enumerate((0.31, 0.07, 0.2))]
    mean, deviation = band_statistics(config, 8000, clips_of(*waves))
    sound_format = heard(mean, deviation)
    together = tokens_of(config, sound_format, waves)
    assert together.valid is not None
    assert together.x.shape[-1] == features(config, 8000)
    for row, wave in enumerate(waves):
        alone = tokens_of(config, sound_format, [wave])
        real = together.valid[row]
        assert alone.valid is not None
        assert bool(alone.valid.all())
        assert relative_error(together.x[row][real], alone.x[0]) < 1e-5  # float32: sums in another order
        assert torch.equal(together.positions[row][real], alone.positions[0])
        assert not together.x[row][~real].any()


def test_places_are_seconds_or_counts(tmp_path):
    wave = noise(0.2)
    for tokens, made in (("log-mel", log_mel(wave, 8000, mels=16)), ("raw", frames(wave, 8000, 25, 10))):
        config = Sounds(train="", tokens=tokens, mels=16)
        sound_format = heard(*band_statistics(config, 8000, clips_of(wave)))
        assert torch.equal(tokens_of(config, sound_format, [wave]).positions[0], made.positions)
        counted = tokens_of(Sounds(train="", tokens=tokens, mels=16, positions="index"), sound_format, [wave]).positions[0, :, 0]
        assert counted.tolist() == list(range(len(made.positions)))
    config = Sounds(train="", tokens="patches", mels=16, patch=(3, 4))
    sound_format = heard(*band_statistics(config, 8000, clips_of(wave)))
    cut = spectrogram_patches(log_mel(wave, 8000, mels=16), (3, 4))
    found = tokens_of(config, sound_format, [wave])
    assert torch.equal(found.positions[0], cut.positions)
    counted = tokens_of(Sounds(train="", tokens="patches", mels=16, patch=(3, 4), positions="index"), sound_format, [wave])
    assert counted.positions[0, :5].tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0]]


@pytest.mark.parametrize("tokens", ["log-mel", "raw"])
def test_numbers_of_the_training_part_have_mean_0_and_size_1(voices, tokens):
    found = recordings_of(voices, tokens=tokens, mels=16, where={"validation": {"index": 0}})
    x = torch.cat([t.x[t.valid] for t, _ in found.recordings("train", 7)])
    assert x.mean().abs() < 0.02
    assert (x.square().mean() - 1).abs() < 0.01
    if tokens == "log-mel":
        assert x.mean(0).abs().max() < 1e-4
        assert (x.std(0) - 1).abs().max() < 1e-2


def test_the_same_seed_gives_the_same_batch_for_any_number_of_processes(voices):
    changes = SoundAugment(speed=0.1, shift=20, gain=6, noise=0.1, bands=4, windows=4, masks=2)
    one, again = (recordings_of(voices, mels=16, augment=changes) for _ in range(2))
    whole, wanted = one.batch(7, 6)
    assert torch.equal(whole.x, again.batch(7, 6)[0].x)
    for share in range(2):
        part, labels = again.batch(7, 6, share, 2)
        assert torch.equal(labels, wanted[share::2])
        assert torch.equal(part.valid.sum(-1), whole.valid[share::2].sum(-1))
        for a, b, real in zip(part.x, whole.x[share::2], part.valid, strict=True):
            assert relative_error(b[: len(a)][real], a[real]) < 1e-5
    other = Recordings(one.config, seed=4).batch(7, 6)[0]
    assert other.x.shape != whole.x.shape or not torch.equal(other.x, whole.x)


def test_a_recording_is_changed_otherwise_in_every_epoch(voices):
    found = recordings_of(voices, mels=16, augment=SoundAugment(gain=6), where={"validation": {"index": "0-3"}})
    count = len(found.parts["train"])
    first, later = ([found.batch(e * count + i, 1)[0] for i in range(count)] for e in range(2))
    sums = [sorted(float(t.x.sum()) for t in epoch) for epoch in (first, later)]
    assert not np.allclose(*sums)
    plain = recordings_of(voices, mels=16, where={"validation": {"index": "0-3"}})
    first, later = ([plain.batch(e * count + i, 1)[0] for i in range(count)] for e in range(2))
    assert np.allclose(*(sorted(float(t.x.sum()) for t in epoch) for epoch in (first, later)), atol=1e-3)


def test_every_change_does_what_it_says():
    wave = noise(0.5)

    def made(seed=0, **some):
        return changed(wave, 8000, SoundAugment(**some), generator(seed))

    assert torch.equal(made(), wave)
    lengths = [len(made(seed, speed=0.2)) for seed in range(50)]
    assert 0.5 * 8000 / 1.21 < min(lengths) < 3700
    assert 4500 < max(lengths) < 0.5 * 8000 / 0.79
    shifted = made(shift=50)
    assert abs(len(shifted) - len(wave)) <= 800
    gains = torch.tensor([float(made(seed, gain=6).norm() / wave.norm()) for seed in range(50)])
    assert 0.5 < gains.min() < 0.7
    assert 1.4 < gains.max() < 2.0
    assert 0 < relative_error(made(noise=0.1), wave) < 0.11
    x = torch.ones(20, 10)
    masked = hidden(x, SoundAugment(bands=3, windows=4, masks=1), generator(5))
    assert torch.equal(x, torch.ones(20, 10))
    bands, rows = (masked == 0).all(0).sum(), (masked == 0).all(1).sum()
    assert int(bands) <= 3
    assert int(rows) <= 4
    assert masked.sum() == (10 - bands) * (20 - rows)


def test_soft_ends_are_cut_away_and_nothing_between():
    steps = [0.001, 0.01, 0.1, 0.01, 1.0, 0.001, 0.03, 0.001]  # 10 ms each
    rows = torch.tensor(steps)

    def left(rows, most):
        waves = [changed(rows.repeat_interleave(80), 8000, SoundAugment(trim=most), generator(seed)) for seed in range(200)]
        return {tuple(round(float(v), 3) for v in wave[::80]) for wave in waves}

    cuts = {tuple(steps[a:b]) for a in (1, 2, 4) for b in (5, 7)} - {(1.0,)} | {tuple(steps)}  # of a quarter too little is left
    assert left(rows, 0.9) == cuts
    assert left(rows.flip(0), 0.9) == {cut[::-1] for cut in cuts}
    assert left(rows, 0.3) == {tuple(steps[1:7])}
    assert left(rows, 0.0) == {tuple(steps)}
    silent = torch.tensor([0.0] * 3 + [0.01, 0.1, 1.0, 0.1, 0.01])  # what is silent at one end is as silent at the other
    assert left(silent, 0.6) == {tuple(r[::-1]) for r in left(silent.flip(0), 0.6)} == {(0.01, 0.1, 1.0, 0.1, 0.01)}
    for alike in (torch.zeros(400), torch.ones(400), torch.ones(3), torch.rand(79)):
        assert torch.equal(changed(alike, 8000, SoundAugment(trim=0.9), generator(0)), alike)


def test_a_warped_spectrogram_keeps_its_ends_and_its_order():
    x = torch.arange(40.0)[:, None].expand(40, 3)
    made = [hidden(x, SoundAugment(warp=0.3), generator(seed)) for seed in range(50)]
    for warped in made:
        assert torch.equal(warped[[0, -1]], x[[0, -1]])
        pace = warped.diff(dim=0)
        assert torch.equal(pace[:, :1].expand(-1, 3), pace)
        assert float(pace.max() / pace.min()) <= np.exp(0.6) + 1e-3
    assert max(float((warped - x).abs().max()) for warped in made) > 1
    for short in (1, 2):
        assert torch.equal(hidden(x[:short], SoundAugment(warp=0.3), generator(0)), x[:short])


def test_a_faster_sound_is_higher():
    tone = torch.sin(2 * torch.pi * 500 * torch.arange(8000) / 8000)
    for seed in range(3):
        faster = changed(tone, 8000, SoundAugment(speed=0.3), generator(seed))
        peak = int(torch.fft.rfft(faster).abs().argmax()) * 8000 / len(faster)
        assert abs(peak - 500 * len(tone) / len(faster)) < 2


def test_the_spoken_digits_that_come_along_are_read():
    found = recordings_of(DIGITS, where={"validation": {"index": 10}, "test": {"index": 5}})
    assert classes_of(found) == list("0123456789")
    assert {part: len(r) for part, r in found.parts.items()} == {"train": 40, "validation": 20, "test": 20}
