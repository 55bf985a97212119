"""Recordings with stretches left out: as many windows each time, at their own times, the same wherever a sound is measured."""

from pathlib import Path

import pytest
import torch

from equiscope.data import Sounds
from equiscope.data.gaps import remaining_windows, sound_generator
from equiscope.data.sampler import generator
from equiscope.data.sounds import Recordings, most_tokens, tokens_of
from equiscope.errors import InputError

DIGITS = Path(__file__).parents[2] / "recipes" / "samples" / "fsdd"
SAID = {
    "train": str(DIGITS), "pattern": "{label}_{speaker}_{index}", "mels": 16, "hop_ms": 20, "window_ms": 32, "longest": 1.0,
    "where": {"validation": {"index": "10"}, "test": {"index": "5"}},
}  # fmt: skip


@pytest.fixture(scope="module")
def whole():
    return Recordings(Sounds(**SAID), 3)


@pytest.fixture(scope="module")
def cut():
    return Recordings(Sounds(**SAID, gaps=0.4, gap=3), 3)


@pytest.mark.parametrize(("count", "share", "most"), [(1, 0.9, 4), (2, 0.9, 9), (30, 0.0, 4), (30, 0.5, 1), (30, 0.97, 50)])
def test_so_many_windows_are_left_in_their_order(count, share, most):
    for seed in range(20):
        rows = remaining_windows(count, share, most, generator(seed, "test"))
        assert len(rows) == max(1, count - round(share * count))
        assert rows.tolist() == sorted(set(rows.tolist()))
        assert 0 <= rows.min() <= rows.max() < count


def test_stretches_are_left_out_and_not_single_windows_only():
    rows = remaining_windows(1000, 0.3, 20, generator(0, "test"))
    steps = rows.diff()
    assert (steps > 5).sum() > 10


def test_times_are_those_of_the_windows_that_are_left(whole, cut):
    for one, other in zip(whole.parts["test"], cut.parts["test"], strict=True):
        every = tokens_of(whole.config, whole.format, [one.wave])
        some = tokens_of(cut.config, cut.format, [other.wave])
        rows = remaining_windows(every.x.shape[1], 0.4, 3, sound_generator(one.wave))
        assert torch.equal(some.positions[0], every.positions[0, rows])
        assert torch.equal(some.x[0], every.x[0, rows])
        assert some.order.tolist() == list(range(len(rows)))


def test_an_index_counts_what_is_left_and_does_not_know_the_gaps(cut):
    config = Sounds(**SAID, gaps=0.4, gap=3, positions="index")
    made = tokens_of(config, cut.format, [cut.parts["test"][0].wave])
    assert made.positions[0, :, 0].tolist() == list(range(made.x.shape[1]))


def test_a_recording_is_cut_alike_alone_and_in_a_batch_whatever_the_seed(cut):
    other = Recordings(Sounds(**SAID, gaps=0.4, gap=3), 99)
    waves = [r.wave for r in cut.parts["test"]]
    for run in (cut, other):
        together = tokens_of(run.config, cut.format, waves)
        for row, wave in enumerate(waves):
            alone, real = tokens_of(cut.config, cut.format, [wave]), together.valid[row]
            assert torch.equal(together.positions[row][real], alone.positions[0])
            assert torch.equal(together.x[row][real], alone.x[0])


def test_each_time_it_is_learned_from_a_recording_is_cut_anew_and_a_step_always_alike(cut):
    again = Recordings(cut.config, 3)
    for step in (0, 5):
        (first, _), (second, _) = cut.batch(step, 8), again.batch(step, 8)
        assert torch.equal(first.positions, second.positions)
        assert torch.equal(first.x, second.x)
    shares = [cut.batch(5, 8, share, 3)[0] for share in range(3)]
    whole = cut.batch(5, 8)[0]
    for row in range(8):
        part = shares[row % 3]
        assert torch.equal(whole.positions[row][whole.valid[row]], part.positions[row // 3][part.valid[row // 3]])
    count = len(cut.parts["train"])
    place = cut.sampler.batch(0, 1)[0][1]
    later = next(step for step in range(count, 2 * count) if cut.sampler.batch(step, 1)[0][1] == place)
    assert cut.batch(0, 1)[0].positions.tolist() != cut.batch(later, 1)[0].positions.tolist()


def test_no_recording_has_more_tokens_than_are_said_of_the_longest(whole, cut):
    for run in (whole, cut):
        most = most_tokens(run.config, run.rate)
        long = torch.randn(run.rate)
        assert tokens_of(run.config, run.format, [long]).x.shape[1] == most


def test_patches_need_windows_side_by_side():
    with pytest.raises(InputError, match=r"data\.gaps leaves windows out, but patches are of windows side by side"):
        Recordings(Sounds(**SAID, gaps=0.1, tokens="patches", patch=(2, 4)))
