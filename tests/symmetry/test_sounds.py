"""Sounds: later and louder."""

import pytest
import torch
from torch import nn

from equiscope.audit import check
from equiscope.symmetry import inputs_of, named
from equiscope.symmetry.sounds import SOUNDS, Gain, TimeShift, TimeShiftPadded


def heard(silence=0):
    wave = nn.functional.pad(torch.randn(2, 32, dtype=torch.float64), (silence, silence))
    return inputs_of((), {"wave": wave})


@pytest.mark.parametrize("action", SOUNDS)
def test_every_element_says_itself_and_is_plain_data(action):
    inputs = heard()
    for one in [*action.samples(inputs, torch.Generator().manual_seed(0), 5), *action.simpler(inputs)]:
        assert one.describe() != one.summary
        assert action(**one.element()) == one
        assert not torch.equal(one.on_input(inputs).values["wave"], inputs.values["wave"])
    assert named(action.name) is action


def test_there_and_back_is_nothing():
    inputs = heard()
    wave = inputs.values["wave"]
    assert torch.equal(TimeShift((-5,), (32,)).on_input(TimeShift((5,), (32,)).on_input(wave)), wave)
    assert torch.equal(Gain(0.5).on_input(Gain(2.0).on_input(wave)), wave)


def test_a_sound_begins_later_after_silence():
    wave = torch.tensor([1.0, 2.0, 3.0])
    assert TimeShiftPadded((1,), (3,)).on_input(wave).tolist() == [0, 1, 2]
    assert TimeShiftPadded((9,), (3,)).on_input(wave).tolist() == [0, 0, 0]
    assert TimeShift((1,), (3,)).on_input(wave).tolist() == [3, 1, 2]
    assert TimeShiftPadded((1,), (3,)).describe() == "shift by 1 sample later, padded with zeros"


def test_a_sound_between_silences_is_moved_within_them():
    ways = [one.by[0] for one in TimeShiftPadded.samples(heard(silence=10), torch.Generator().manual_seed(0), 20)]
    assert max(map(abs, ways)) <= 5


def test_a_summing_network_hears_a_sound_between_silences_alike():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(1, 4, 3, padding=1)

        def forward(self, wave):
            return self.conv(wave[:, None]).relu().sum(-1)

    for silence, wanted in ((8, "holds"), (0, "broken")):
        row = check(Sum(), kwargs={"wave": heard(silence).values["wave"].float()}, actions=["time-shift-padded"]).rows[0]
        assert row.verdict == wanted


def test_the_power_of_a_gain_is_measured():
    class Power(nn.Module):
        def forward(self, wave):
            return wave.square().mean(-1), wave / wave.abs().amax(-1, keepdim=True), wave.sign()

    row = check(Power(), kwargs={"wave": heard().values["wave"].float()}, actions=["gain"])["gain"]
    assert row.verdict == "holds"
    assert row.output == "0: power 2, 1: invariant, 2: invariant"


def test_a_wrong_power_is_broken():
    row = check(nn.Identity(), torch.randn(2, 32), kinds={"input": "wave"}, actions=["gain"], output="power 2")["gain"]
    assert row.verdict == "broken"


def test_integer_inputs_are_neither_scaled_nor_rotated():
    sound = inputs_of((), {"wave": torch.arange(8)})
    assert Gain.missing(sound) == "an integer waveform cannot be multiplied by a fraction"
    assert TimeShift.missing(sound) == ""
