"""The order of the examples: every one once an epoch, and together those of similar length."""

import numpy as np

from equiscope.data.sampler import TOGETHER, Sampler


def test_examples_of_similar_length_are_together_and_each_comes_once():
    lengths = np.random.default_rng(0).integers(1, 100, TOGETHER * 8).tolist()
    steps = [Sampler(len(lengths), 3).similar(step, 8, lengths) for step in range(TOGETHER)]
    assert sorted(row for rows in steps for row in rows) == list(range(len(lengths)))
    spread = [max(lengths[row] for row in rows) - min(lengths[row] for row in rows) for rows in steps]
    assert np.mean(spread) < 15, "drawn at random, the eight lengths of a step span about 76"
    longest = [max(lengths[row] for row in rows) for rows in steps]
    assert longest != sorted(longest), "short and long batches alternate"


def test_a_set_that_is_smaller_than_the_steps_that_are_sorted_is_read_evenly():
    steps = [Sampler(10, 0).similar(step, 4, [1] * 10) for step in range(2 * TOGETHER)]
    counts = np.bincount([row for rows in steps for row in rows], minlength=10)
    assert (len(set(map(len, steps))), counts.max() - counts.min()) == (1, 1)
