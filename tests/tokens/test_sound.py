"""Sound: every window has its time, the mel energies are those of an independent implementation (T3)."""

import io
import math
import tarfile
import wave as wave_files

import numpy as np
import pytest
import torch

from equiscope.errors import InputError, ShapeError, UnknownName
from equiscope.symmetry import relative_error
from equiscope.tokens import frames, log_mel, mel_filters, pack, read_sound, resampled, spectrogram_patches

RATE = 16000


@pytest.fixture
def digit(data, tmp_path):
    """A spoken seven, as a file."""
    with tarfile.open(data("fsdd/fsdd_train_idx05-49.tar.xz")) as archive:
        member = next(m for m in archive if m.name.endswith("7_jackson_12.wav"))
        (tmp_path / "seven.wav").write_bytes(archive.extractfile(member).read())
    return tmp_path / "seven.wav"


def sine(hertz, seconds=0.5, rate=RATE):
    return torch.sin(2 * math.pi * hertz * torch.arange(int(seconds * rate), dtype=torch.float64) / rate)


def test_frames_are_stretches_of_samples_at_their_centre_in_seconds():
    sound = torch.arange(100.0)
    tokens = frames(sound, 1000, frame_ms=20, hop_ms=15)
    assert tokens.x.shape == (6, 20)
    assert tokens.x[2].tolist() == list(range(30, 50))
    assert tokens.positions.squeeze(-1).tolist() == pytest.approx([0.010, 0.025, 0.040, 0.055, 0.070, 0.085])
    assert torch.equal(frames(sound, 1000, 20).x.flatten(), sound)
    assert frames(sound.expand(2, 3, 100), 1000, 20).x.shape == (2, 3, 5, 20)


@pytest.mark.parametrize("make", [frames, log_mel], ids=["raw", "mel"])
def test_a_sound_shorter_than_a_frame_and_a_frame_shorter_than_a_sample_are_refused(make):
    with pytest.raises(ShapeError, match=r"The sound has 100 samples \(6.25 ms at 16000 Hz\), but one frame takes 400 \(25 ms\)"):
        make(torch.zeros(100), RATE)
    with pytest.raises(InputError, match=r"A frame of 0.1 ms is 1.6 samples at 16000 Hz, and would be 2 \(0.125 ms\)"):
        frames(torch.zeros(1600), 16000, 0.1)
    with pytest.raises(InputError, match=r"A hop of 0.01 ms is less than one sample at 16000 Hz \(0.0625 ms\). Use a longer hop"):
        make(torch.zeros(1000), RATE, 25.0, 0.01)
    with pytest.raises(InputError, match="A frame of -5 ms"):
        make(torch.zeros(1000), RATE, -5.0)


@pytest.mark.parametrize("scale", ["slaney", "htk"])
@pytest.mark.parametrize(("rate", "length", "mels"), [(16000, 400, 80), (8000, 256, 40), (44100, 1024, 64)])
def test_mel_filters_are_those_of_transformers(scale, rate, length, mels):
    audio_utils = pytest.importorskip("transformers.audio_utils")
    theirs = audio_utils.mel_filter_bank(length // 2 + 1, mels, 0.0, rate / 2, rate, norm="slaney", mel_scale=scale)
    assert relative_error(mel_filters(rate, length, mels, scale), torch.from_numpy(theirs)) < 1e-12  # measured 8e-15


@pytest.mark.parametrize("scale", ["slaney", "htk"])
def test_log_mel_of_a_spoken_digit_is_that_of_transformers(digit, scale):
    audio_utils = pytest.importorskip("transformers.audio_utils")
    sound, rate = read_sound(digit)
    tokens = log_mel(sound.double(), rate, window_ms=32, hop_ms=10, mels=40, scale=scale)
    theirs = audio_utils.spectrogram(
        sound.double().numpy(), np.hanning(257)[:-1], 256, 80, power=2.0, center=False, log_mel="log", mel_floor=1e-10,
        mel_filters=audio_utils.mel_filter_bank(129, 40, 0.0, rate / 2, rate, norm="slaney", mel_scale=scale), dtype=np.float64,
    )  # fmt: skip
    assert relative_error(tokens.x, torch.from_numpy(theirs).T) < 1e-7  # their Fourier transform is in complex64: measured 3e-9


def test_a_tone_stands_in_the_band_of_its_frequency():
    bands = mel_filters(RATE, 400, 80)
    for hertz in (200, 1000, 5000):
        loudest = log_mel(sine(hertz), RATE).x.mean(0).argmax()
        assert loudest == bands[round(hertz * 400 / RATE)].argmax()


def test_a_click_is_heard_by_the_windows_around_its_time():
    sound = torch.zeros(RATE)
    sound[RATE // 2] = 1.0
    tokens = log_mel(sound, RATE)
    heard = tokens.positions[tokens.x.mean(-1) > -20].squeeze(-1)
    assert (heard - 0.5).abs().max() <= 0.0125 + 1e-6
    assert len(heard) in (2, 3)
    assert tokens.x.min() == pytest.approx(math.log(1e-10))


@pytest.mark.usefixtures("unchecked")
def test_another_scale_is_refused():
    with pytest.raises(UnknownName, match=r"no mel scale called 'bark'. Known: slaney, htk"):
        log_mel(torch.zeros(4000), 8000, scale="bark")


def test_bands_that_would_hear_nothing_are_refused():
    with pytest.raises(InputError, match=r"128 mel bands are too narrow for frequencies 40 Hz apart: \d+ would hear nothing"):
        log_mel(torch.zeros(4000), 8000, mels=128)


def test_patches_of_a_spectrogram_lie_at_their_time_and_band():
    made = log_mel(sine(440), RATE, mels=32)
    tokens = spectrogram_patches(made, (8, 16))
    assert tokens.x.shape == (len(made.x) // 8 * 2, 8 * 16)
    assert torch.equal(tokens.x[3].view(8, 16), made.x[8:16, 16:])
    assert tokens.positions[3].tolist() == pytest.approx([made.positions[8:16].mean().item(), 23.5])
    with pytest.raises(ShapeError, match="48×32 windows and bands is not a whole number of 8×5 patches"):
        spectrogram_patches(made, (8, 5))
    with pytest.raises(ShapeError, match=r"is not a whole number of 64×16 patches. Pad it, or resize it"):
        spectrogram_patches(made, (64, 16))
    with pytest.raises(InputError, match=r"padded or packed. Cut each sound into patches first"):
        spectrogram_patches(pack([made, made]), (8, 16))


def test_a_file_is_read_as_the_standard_library_reads_it(digit):
    sound, rate = read_sound(digit)
    with wave_files.open(str(digit)) as file:
        theirs = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 2**15
        assert rate == file.getframerate() == 8000
    assert torch.equal(sound, torch.tensor(theirs, dtype=torch.float32))
    assert abs(len(read_sound(digit, rate=RATE)[0]) - 2 * len(sound)) <= 1


def test_two_channels_become_their_mean(tmp_path):
    with wave_files.open(str(tmp_path / "two.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.array([[8192, 0], [16384, -16384]], "<i2").tobytes())
    assert read_sound(tmp_path / "two.wav")[0].tolist() == [0.125, 0.0]


def test_resampling_keeps_a_tone_and_drops_what_the_new_rate_cannot_hold():
    low = resampled(sine(440), RATE, 8000)
    assert (low - sine(440, rate=8000))[400:-400].abs().max() < 1e-5  # 20 bits; measured 4e-7
    assert resampled(sine(6000), RATE, 8000)[400:-400].abs().max() < 1e-5  # measured 1e-7
    pair = torch.stack([sine(440), sine(500)])
    assert torch.equal(resampled(pair, RATE, 8000)[0], low)
    assert resampled(pair, RATE, RATE) is pair
    with pytest.raises(InputError, match="got 16000 and 0"):
        resampled(pair, RATE, 0)


def _tone():
    """A second of a tone, as a file holds it."""
    held = io.BytesIO()
    with wave_files.open(held, "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(8000)
        file.writeframes((sine(440, 1.0, 8000) * 30000).to(torch.int16).numpy().tobytes())
    return held.getvalue()


def test_what_is_no_sound_is_refused(tmp_path):
    (tmp_path / "note.wav").write_text("no sound")
    with pytest.raises(InputError, match=r"note\.wav cannot be read as a sound: .* Give a WAV"):
        read_sound(tmp_path / "note.wav")
    with pytest.raises(InputError, match=r"There is no file .*nothing\.wav\. Give a WAV"):
        read_sound(tmp_path / "nothing.wav")
    assert len(read_sound("a name", content=_tone())[0]) == 8000


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_a_sound_that_is_cut_off_is_refused(tmp_path, kind):
    soundfile, held = pytest.importorskip("soundfile"), io.BytesIO()
    soundfile.write(held, sine(440, 1.0, RATE).numpy(), RATE, format=kind)
    whole = held.getvalue()
    assert len(read_sound("whole", content=whole)[0]) == RATE
    path = tmp_path / f"half.{kind.lower()}"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        InputError, match=r"is cut off: [2-5]\d% of its declared length" if kind in ("WAV", "MP3") else "cannot be read as a sound"
    ):
        read_sound(path)


@pytest.mark.parametrize("said", [0x7FFFF000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], ids=hex)
def test_a_wav_that_was_written_before_its_length_was_known_is_read(said):
    tone = _tone()
    place = tone.index(b"data") + 4
    assert len(read_sound("a name", content=tone[:place] + said.to_bytes(4, "little") + tone[place + 4 :])[0]) == 8000


def test_of_an_mp3_whose_title_says_info_the_length_is_a_guess():
    soundfile, held = pytest.importorskip("soundfile"), io.BytesIO()
    soundfile.write(held, sine(440, 3.0, 48000).numpy(), 48000, format="MP3", bitrate_mode="VARIABLE")
    file = held.getvalue()
    frames = file.replace(b"Xing", bytes(4), 1).replace(b"Info", bytes(4), 1)
    assert frames != file
    title = b"TIT2" + (8).to_bytes(4, "big") + b"\0\0\0Info !"
    tagged = b"ID3\x03\0\0" + bytes([0, 0, 0, len(title)]) + title + frames
    assert len(read_sound("a name", content=tagged)[0]) > 0
    with pytest.raises(InputError, match="is cut off"):
        read_sound("a name", content=tagged[: 10 + len(title)] + file[: len(file) // 2])


def test_a_flac_that_does_not_say_its_length_is_refused():
    soundfile, held = pytest.importorskip("soundfile"), io.BytesIO()
    soundfile.write(held, sine(440, 1.0, RATE).numpy(), RATE, format="FLAC")
    file = bytearray(held.getvalue())
    file[21:26] = bytes([file[21] & 0xF0, 0, 0, 0, 0])  # 36 bits of STREAMINFO
    for longest in (None, 60.0):
        with pytest.raises(InputError, match=r"^a name does not declare its length"):
            read_sound("a name", content=bytes(file), longest=longest)


def test_no_gradient_is_lost_in_silence_and_no_sounds_are_no_windows():
    with pytest.raises(InputError, match=r"no gradient passes\. Resample wave\.detach\(\)"):
        resampled(torch.zeros(100, requires_grad=True), RATE, 8000)
    assert log_mel(torch.zeros(0, 1000), RATE, mels=20).x.shape == (0, 4, 20)


def test_without_the_extra_the_message_says_how_to_install_it(without):
    without("soundfile")
    with pytest.raises(
        InputError, match=r"Reading a sound needs the package soundfile. Install it: pip install -e '\.\[sound\]' in the clone"
    ):
        read_sound(io.__file__)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda w: frames(w, 0), "got 0"), (lambda w: frames(w, 8000, math.nan), "got nan"),
        (lambda w: log_mel(w, 8000, mels=0), "mels=0"), (lambda w: resampled(w, math.nan, 8000), "got nan and 8000"),
        (lambda w: frames(w[0], 8000), "a single number"),
    ],
)  # fmt: skip
def test_numbers_that_make_no_windows_are_refused(make, words, unchecked):
    with pytest.raises((InputError, ShapeError), match=words):
        make(torch.zeros(800))


def test_samples_of_any_kind_are_heard(unchecked):
    wave = torch.randint(-99, 99, (800,), dtype=torch.int16)
    assert torch.equal(log_mel(wave, 8000, mels=20).x, log_mel(wave.float(), 8000, mels=20).x)
    assert torch.equal(resampled(wave.half(), 8000, 4000), resampled(wave.float(), 8000, 4000))


def test_a_file_that_has_less_than_a_sample_or_says_too_much_is_refused(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "one.wav", np.zeros(1), 44100)
    with pytest.raises(InputError, match="1 samples at 44100 Hz, which are none at 8000 Hz"):
        read_sound(tmp_path / "one.wav", 8000)
    (tmp_path / "a.raw").write_bytes(bytes(100))
    with pytest.raises(InputError, match="cannot be read as a sound"):
        read_sound(tmp_path / "a.raw")


def test_channels_that_cancel_each_other_are_refused(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    one = np.sin(np.arange(800) / 9).astype(np.float32) / 2
    soundfile.write(tmp_path / "a.wav", np.stack([one, -one], -1), 8000)
    with pytest.raises(InputError, match="has 2 channels that cancel each other: their mean is silent"):
        read_sound(tmp_path / "a.wav")
    soundfile.write(tmp_path / "b.wav", np.zeros((800, 2)), 8000)
    assert not read_sound(tmp_path / "b.wav")[0].any()  # silence is a sound
