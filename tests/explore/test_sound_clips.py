"""A sound that stands in a page is the one that was heard, at a bounded size."""

from base64 import b64decode

import numpy as np
import pytest
import torch

from equiscope.explore.heads.model_inputs import sound_clip


def samples(found):
    return np.frombuffer(b64decode(found.samples), "<i2")


def wave(seconds, rate, hertz=440.0):
    return torch.sin(2 * torch.pi * hertz * torch.arange(round(seconds * rate)) / rate)


@pytest.mark.parametrize(
    ("seconds", "rate", "kept"), [(1, 8000, 8000), (1, 16_000, 16_000), (1, 44_100, 16_000), (20, 16_000, 8000), (1, 4000, 8000)]
)
def test_it_has_one_of_two_rates(seconds, rate, kept):
    found = sound_clip(wave(seconds, rate), rate)
    assert found.rate == kept
    assert len(samples(found)) == pytest.approx(seconds * kept, abs=2)


def test_samples_at_their_own_rate_are_those_of_the_wave():
    found = sound_clip(0.5 * wave(1, 8000), 8000)
    assert np.abs(samples(found) / 32767 - 0.5 * wave(1, 8000).numpy()).max() < 1 / 32767


def test_a_minute_is_less_than_a_megabyte_and_a_half():
    assert len(sound_clip(torch.zeros(60 * 44_100), 44_100).samples) < 1.4e6


def test_what_is_too_loud_is_cut_off():
    assert samples(sound_clip(torch.tensor([2.0, -2.0]), 8000)).tolist() == [32767, -32767]
