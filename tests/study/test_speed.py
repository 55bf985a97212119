"""Times of a layer's parts beside what they multiply: what fits is found, and what does not fit is left out."""

import pytest
import torch

from equiscope.record.cost import Timing
from equiscope.study.cost import FORMULAS
from equiscope.study.speed import rate, speeds
from equiscope.training.folder import processor


def planted(overhead, pace, works, part="attention", fitted=True):
    return [
        Timing(part=part, n=1, d=1, heads=1, multiply_adds=w, median=overhead + w / pace, low=0, high=0, fitted=fitted)
        for w in works
    ]  # fmt: skip


@pytest.mark.parametrize(("overhead", "pace"), [(0.2, 5e4), (0.0, 3e7), (4.0, 1e3)])
def test_a_planted_overhead_and_rate_are_found(overhead, pace):
    found = rate("attention", planted(overhead, pace, [10**3, 10**5, 10**7]))
    assert found.rate == pytest.approx(pace, rel=1e-9)
    assert found.overhead == pytest.approx(overhead, rel=1e-6, abs=1e-9)


def test_an_overhead_is_never_below_nothing():
    times = [1.0, 21.0, 230.0]  # large sizes are slower than small ones, a multiply-add
    timed = [Timing(part="attention", n=1, d=1, heads=1, multiply_adds=10**i, median=t, low=t, high=t) for i, t in enumerate(times)]
    assert rate("attention", timed).overhead == 0


def test_one_size_or_another_part_fits_no_rate():
    assert rate("attention", planted(0.1, 1e4, [1000, 1000])) is None
    assert rate("feed-forward", planted(0.1, 1e4, [10, 1000])) is None
    assert rate("attention", planted(0.1, 1e4, [10, 1000], fitted=False)) is None
    assert rate("attention", []) is None


def test_times_stand_beside_what_torch_counts_and_the_formulas_say():
    before = torch.get_num_threads()
    found = speeds(quick=True)
    assert torch.get_num_threads() == before
    assert (found.threads, found.torch, found.dtype) == (1, torch.__version__, "float32")
    for one in found.timings:
        parts = {name: formula(one.n, one.d) for name, (_, formula) in FORMULAS.items()}
        forward = parts.pop("feed-forward")
        wanted = forward if one.part == "feed-forward" else sum(parts.values())
        assert one.multiply_adds == wanted
        assert 0 < one.low <= one.median <= one.high
    assert {one.heads for one in found.timings if not one.fitted} == {1}


def test_the_sizes_can_be_followed():
    heard = []
    speeds(quick=True, each=lambda items, what: heard.append((len(items), what)) or items)
    assert heard == [(4, "timing")]


def test_the_processor_has_a_name():
    assert processor()
