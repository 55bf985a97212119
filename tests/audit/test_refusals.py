"""What cannot be checked raises an error at once, with the next step; nothing else is refused."""

import pytest
import torch
from torch import nn

from equiscope.audit import check
from equiscope.errors import InputError, UnknownName
from tests.audit.zoo import Attend, features


def test_a_model_without_numbers_is_refused():
    with torch.device("meta"):
        model = Attend()
    with pytest.raises(InputError, match=r"query.weight is on the device 'meta'.*to_empty"):
        check(model, *features())


def test_an_input_without_numbers_is_refused():
    with pytest.raises(InputError, match="argument 0 is on the device 'meta'"):
        check(Attend(), torch.randn(2, 7, 8, device="meta"))


@pytest.mark.parametrize("shape", [(0, 7, 8), (2, 0, 8)])
def test_an_input_with_nothing_in_it_is_refused(shape):
    with pytest.raises(InputError, match=r"argument 0 has the shape .* nothing in it"):
        check(Attend(), torch.randn(shape))


def test_what_is_no_module_is_refused(unchecked):
    with pytest.raises(InputError, match=r"takes a torch\.nn\.Module, or the address of a server, but got function"):
        check(lambda x: x, *features())


@pytest.mark.parametrize(("asked", "word"), [({"actions": ["turn"]}, "permute"), ({"properties": ["sound"]}, "causal")])
def test_a_name_that_is_not_listed_shows_the_list(asked, word):
    with pytest.raises(UnknownName, match=word):
        check(Attend(), *features(), **asked)


def test_inputs_that_do_not_fit_are_refused_with_the_model_s_message():
    with pytest.raises(InputError, match="mat1 and mat2"):
        check(Attend(), torch.randn(2, 7, 5), actions=["permute"], properties=["causal"])


def test_a_model_is_left_as_it_was():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.seen = Attend(), []
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            self.seen.append(x)
            return self.inner(x)

    model = Counts().train()
    before = {n: t.clone() for n, t in model.state_dict().items()}
    check(model, *features(), actions=["permute"], properties=["batch", "deterministic"], proof=False)
    check(model, *features(), actions=[], properties=["causal"])  # and where a proof is tried
    assert model.training
    assert model.seen == []
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
