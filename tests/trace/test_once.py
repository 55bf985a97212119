"""What is kept beside a tensor is what would be made again."""

import gc

import numpy as np
import pytest
import torch
from tests.drawn import attending, words
from torch.utils.flop_counter import FlopCounterMode

from equiscope.position import Rope
from equiscope.position.frequencies import ladder
from equiscope.tokens import Tokens
from equiscope.trace import watch
from equiscope.trace.once import _kept, once


class Maker:
    def __init__(self, of):
        self.of, self.times = of, 0

    def __call__(self):
        self.times += 1
        return self.of * 2

    def ask(self, key="double"):
        return once(self.of, key, self)


def test_it_is_made_once_for_each_key():
    make = Maker(torch.ones(3))
    assert make.ask() is make.ask()
    make.ask("other")
    assert make.times == 2


def test_it_is_made_again_when_the_numbers_change():
    make = Maker(torch.ones(3))
    make.ask()
    make.of[1] = 5
    assert make.ask().tolist() == [2, 10, 2]
    make.of.mul_(2)
    assert make.ask().tolist() == [4, 20, 4]


def test_it_goes_with_the_tensor():
    make = Maker(torch.ones(3))
    make.ask()
    number = id(make.of)
    assert number in _kept
    del make
    gc.collect()
    assert number not in _kept


def test_memory_of_others_is_never_trusted():
    array = np.ones(3)
    make = Maker(torch.from_numpy(array))
    make.ask()
    array[0] = 7  # no version tells of it
    assert make.ask().tolist() == [14, 2, 2]


def test_what_is_learned_is_made_again():
    make = Maker(torch.ones(3, requires_grad=True))
    make.ask().sum().backward()
    make.ask().sum().backward()
    assert make.of.grad.tolist() == [4, 4, 4]
    weight = torch.ones((), requires_grad=True)
    of = torch.ones(3)
    for _ in range(2):
        once(of, "weighed", lambda: of * weight).sum().backward()
    assert weight.grad == 6


def test_nothing_is_kept_where_somebody_counts_compiles_or_differentiates():
    make = Maker(torch.ones(3))
    make.ask()
    with FlopCounterMode(display=False):
        make.ask()
    torch.func.vmap(lambda x: x * make.ask())(torch.ones(2, 3))
    torch.compile(lambda: make.ask(), backend="eager")()
    assert make.times >= 3


def test_what_no_gradient_may_pass_is_not_kept_for_those_that_do():
    make = Maker(torch.ones(3))
    with torch.inference_mode():
        make.ask()
    x = torch.ones(3, requires_grad=True)
    (x * make.ask()).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("pairs", ["interleaved", "half"])
def test_queries_and_keys_share_their_angles_and_no_other_scheme_gets_them(pairs):
    at, x = torch.arange(5.0)[:, None], torch.randn(2, 5, 8)
    schemes = [Rope(pairs=pairs), Rope(base=50.0, pairs=pairs), Rope(fraction=0.5, pairs=pairs), Rope(key_speed=2.0, pairs=pairs)]
    shared = [s.turn(x, at, role) for s in schemes for role in ("query", "key")]
    alone = [s.turn(x, at.clone(), role) for s in schemes for role in ("query", "key")]
    assert all(torch.equal(a, b) for a, b in zip(shared, alone, strict=True))
    assert not torch.equal(shared[6], shared[7])


def test_a_scheme_of_ones_own_is_asked_every_time():
    class Slower(Rope):
        rate = 1.0

        def frequencies(self, head_width):
            return super().frequencies(head_width) * self.rate

    scheme, at, x = Slower(), torch.arange(5.0)[:, None], torch.randn(2, 5, 8)
    first = scheme.turn(x, at, "query")
    scheme.rate = 0.5
    assert not torch.equal(scheme.turn(x, at, "query"), first)


def test_who_watches_sees_every_step():
    model, tokens = attending(Rope()), Tokens.of(words().x)
    before = watch(model, tokens)
    model(tokens)  # now angles are kept
    assert [step.op for step in watch(model, tokens).steps] == [step.op for step in before.steps]


def test_frequencies_are_ones_own_and_those_of_another_device_are_not_kept():
    with torch.device("meta"):
        assert ladder(4, 77.0).is_meta
    mine = ladder(4, 77.0)
    mine.zero_()
    assert ladder(4, 77.0)[0] == 1
