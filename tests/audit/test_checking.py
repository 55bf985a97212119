"""Check: what is said in full, what is left out, what is done twice."""

import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.audit import check, replay
from equiscope.errors import InputError, UnknownName
from tests.audit.zoo import Attend, Layers, NormTokens, Table, features
from tests.pairwise import each_value


class Ahead(nn.Module):
    """A convolution over tokens that sees the next one."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 6)
        self.mix = nn.Conv1d(6, 6, 3, padding=1)

    def forward(self, ids):
        return self.mix(self.table(ids).mT).mT


def ids():
    return torch.randint(20, (1, 11), generator=torch.Generator().manual_seed(0))


def test_a_counterexample_is_measured_again():
    row = check(ahead(), ids(), proof=False, properties=["causal"], actions=[]).rows[0]
    assert row.verdict == "broken"
    assert replay(ahead(), row, ids()) == pytest.approx(row.counterexample.error, rel=1e-9)


def ahead():
    torch.manual_seed(0)
    return Ahead()


def test_what_holds_has_no_counterexample_to_repeat():
    row = check(ahead(), ids(), proof=False, properties=["batch"], actions=[]).rows[0]
    with pytest.raises(InputError, match="no counterexample"):
        replay(ahead(), row, ids())


def test_inputs_that_no_action_changes_are_undecided():
    flat = torch.ones(1, 3, 8, 8)
    row = check(nn.Conv2d(3, 4, 3), flat, actions=["image-flip"], random_parameters=False).rows[0]
    assert row.verdict == "undecided"
    assert "no change of these inputs" in row.note


def test_at_random_parameters_other_inputs_are_read_too():
    row = check(nn.Conv2d(3, 4, 3), torch.ones(1, 3, 8, 8), actions=["image-flip"]).rows[0]
    assert (row.verdict, row.parameters) == ("broken", "random")


def test_the_model_and_the_random_numbers_of_the_world_stay_as_they_were():
    model = ahead().train()
    before = {n: p.clone() for n, p in model.state_dict().items()}
    torch.manual_seed(7)
    wanted = torch.rand(1)
    torch.manual_seed(7)
    check(model, ids(), effort="quick")
    assert torch.equal(torch.rand(1), wanted)
    assert model.training
    assert torch.get_default_dtype() == torch.float32
    assert all(torch.equal(p, before[n]) for n, p in model.state_dict().items())


def test_a_check_that_is_stopped_says_what_it_did_not_reach():
    audit = check(ahead(), ids(), proof=False, should_stop=lambda: True, properties=["causal"], actions=["permute"])
    assert not audit.finished
    assert {row.verdict for row in audit} == {"undecided"}
    assert not audit.failed


def test_time_that_is_over_leaves_rows_undecided():
    audit = check(ahead(), ids(), proof=False, seconds=0, properties=["causal"])
    assert audit["causal"].verdict == "undecided"
    assert not audit.finished


def test_the_share_that_is_done_only_grows_and_ends_at_most_at_all():
    told = []
    check(ahead(), ids(), proof=False, effort="quick", progress=lambda share, what: told.append(share))
    assert told == sorted(told)
    assert 0 <= told[0] <= told[-1] <= 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"actions": ["turn"]}, "permute, shift"),
        ({"properties": ["fast"]}, "deterministic, batch"),
        ({"effort": "huge"}, "quick, default"),
    ],
)
def test_an_unknown_name_lists_the_known_ones(asked, message):
    with pytest.raises(UnknownName, match=message):
        check(ahead(), ids(), proof=False, **asked)


def test_what_is_no_module_is_refused(unchecked):
    with pytest.raises(InputError, match=r"torch\.nn\.Module"):
        check(torch.sin, ids())


def test_a_claim_of_ours_is_in_the_row_with_its_reason():
    spec = eq.Spec(width=8, block=eq.Block(attention=eq.Attention(heads=2, position=eq.positions.Rope())))
    audit = check(eq.build(spec), torch.randn(1, 11, 8), actions=["permute", "shift"])
    assert (audit["shift"].claimed, audit["shift"].verdict) == ("yes", "holds")
    assert audit["permute"].claimed == "no"
    assert audit["permute"].where
    assert "Rope" in audit["permute"].reason


@each_value(
    pytest.mark.parametrize("proof", [False, True]),
    pytest.mark.parametrize("made", [lambda: Attend(), lambda: Layers(places=Table(), attend=Attend()), lambda: NormTokens(False)]),
)
def test_every_call_of_the_model_is_counted(made, proof):
    model, calls = made(), []
    handle = torch.nn.modules.module.register_module_forward_pre_hook(lambda m, _: calls.append(type(m) is type(model)) or None)
    try:
        audit = check(model, *features(), proof=proof)
    finally:
        handle.remove()
    assert sum(audit.passes.values()) == sum(calls)


@pytest.mark.parametrize("write", [lambda w: w.mul_(1.5), lambda w: w.data.mul_(1.5), lambda w: w.div_(w.norm())])
def test_a_model_that_writes_into_its_parameters_is_left_as_it_was(write):
    class Writes(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                write(self.weight)
            return super().forward(x)

    model = Writes(8, 8)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    audit = check(model, *features(), effort="quick")
    assert audit["pure"].verdict == "broken"
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
