"""Synthetic tasks: what an answer is, that nothing before it gives it away, and which values are refused."""

import itertools

import pytest
import torch

from equiscope.data.language import IGNORED
from equiscope.data.synthetic import Synthetic, SyntheticExamples
from equiscope.errors import InputError

SIZES = {
    "copy": {"length": 5, "symbols": 7},
    "reverse": {"length": 5, "symbols": 7},
    "sort": {"length": 5, "symbols": 7},
    "recall": {"length": 9, "symbols": 4},
    "induction": {"length": 8, "symbols": 3},
    "back": {"length": 9, "symbols": 7, "distance": 3},
    "parity": {"length": 9, "symbols": 2},
    "addition": {"length": 2, "symbols": 11},
}


def opened(name, **changes):
    return SyntheticExamples(Synthetic(generate=name, **(SIZES[name] | changes)), seed=3)


def answers(name, ids, separator):
    """The answers of one example by its definition, in plain Python: positions and ids."""
    n = len(ids)
    if name in ("copy", "reverse", "sort"):
        question = ids[: ids.index(separator)]
        target = {"copy": question, "reverse": question[::-1], "sort": sorted(question)}[name]
        return {len(question) + i: target[i] for i in range(len(question))}
    if name == "recall":
        pairs = list(zip(ids[::2], ids[1::2], strict=False))
        last = dict(pairs)
        return {2 * i: last[ids[2 * i]] for i in range((n + 1) // 2) if ids[2 * i] in ids[: 2 * i : 2]}
    if name == "back":
        return {i: ids[i - 3] for i in range(3, n)}
    if name == "parity":
        return {i: sum(ids[: i + 1]) % 2 for i in range(n)}
    return {2: (ids[0] + ids[1]) % 11}


@pytest.mark.parametrize("name", [name for name in SIZES if name != "induction"])
@pytest.mark.parametrize("part", ["validation", "test", "train"])
def test_every_answer_is_that_of_the_definition(name, part):
    examples = opened(name)
    batches = [examples.batch(step, 16) for step in range(5)] if part == "train" else [examples.examples(part)]
    separator = SIZES[name]["symbols"]
    for inputs, targets in batches:
        assert inputs.shape == targets.shape
        for ids, scored in zip(inputs.tolist(), targets.tolist(), strict=True):
            assert {i: a for i, a in enumerate(scored) if a != IGNORED} == answers(name, ids, separator)


def test_an_induction_answer_is_what_followed_every_earlier_occurrence_of_the_repetition():
    inputs, targets = opened("induction").examples("test")
    n, some = 8, 0
    for ids, scored in zip(inputs.tolist(), targets.tolist(), strict=True):
        for at in range(n, len(ids)):
            repeated = ids[n : at + 1]
            m = len(repeated)
            following = {ids[i + m] for i in range(n - m) if ids[i : i + m] == repeated}
            assert scored[at] == (following.pop() if len(following) == 1 else IGNORED)
            some += scored[at] != IGNORED
        assert set(scored[:n]) == {IGNORED}
    assert some > len(inputs)


@pytest.mark.parametrize("name", [name for name in SIZES if name not in ("back", "parity", "addition")])
def test_answers_that_are_read_stand_behind_the_token_that_predicts_them(name):
    inputs, targets = opened(name).examples("test")
    for ids, scored in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert all(after == a for after, a in zip(ids[1:], scored, strict=False) if a != IGNORED)


@pytest.mark.parametrize("name", ["copy", "reverse", "recall", "back", "parity"])
def test_nothing_but_the_question_predicts_an_answer(name):
    """The best guess by position alone is right as often as a uniform one."""
    examples = opened(name, examples=2000)
    symbols = SIZES[name]["symbols"]
    assert examples.chance("test") == pytest.approx(1 / symbols, abs=0.03)


@pytest.mark.parametrize("name", SIZES)
def test_examples_are_a_function_of_the_seed_and_differ_between_parts(name):
    first, second = opened(name), opened(name)
    for part in ("validation", "test"):
        assert all(torch.equal(a, b) for a, b in zip(first.examples(part), second.examples(part), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first.batch(4, 8), second.batch(4, 8), strict=True))
    validation, test = first.examples("validation")[0], first.examples("test")[0]
    assert validation.shape != test.shape or not torch.equal(validation, test)


def test_pairs_that_are_tested_are_not_trained_on_in_either_order():
    examples = opened("addition")
    parts = {part: {tuple(sorted(x)) for x in examples.examples(part)[0][:, :2].tolist()} for part in ("validation", "test")}
    parts["train"] = {tuple(sorted(x)) for step in range(40) for x in examples.batch(step, 32)[0][:, :2].tolist()}
    for one, other in itertools.combinations(parts.values(), 2):
        assert not one & other
    assert len(parts["train"] | parts["validation"] | parts["test"]) == 11 * 12 / 2


def test_lengths_of_training_reach_the_longest_and_longer_ones_are_tested():
    examples = opened("copy")
    lengths = {examples.batch(step, 2)[0].shape[1] for step in range(60)}
    assert lengths == {2, 4, 6, 8, 10}
    assert examples.examples("test", 40)[0].shape == (256, 80)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generate": "addition"}, r"data\.length is 4, but addition has two numbers\. Set it to 2\."),
        ({"generate": "back"}, r"shortest input of back with an answer has 5 tokens\. Give a larger length, or a smaller distance"),
        ({"generate": "induction", "length": 2}, r"input of induction with an answer has 3 tokens\. Give a larger length\."),
        ({"generate": "addition", "length": 2, "symbols": 2, "held_out": 0.1}, r"0\.1 of 3 pairs, which leaves a part empty"),
    ],
)  # fmt: skip
def test_what_cannot_be_generated_is_refused_in_a_sentence(changes, message):
    with pytest.raises(InputError, match=message):
        SyntheticExamples(Synthetic(**({"generate": "copy", "length": 4, "symbols": 4} | changes)))
