"""What is left out at random while a model is trained."""

import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.audit.subject.no_dropout import no_dropout
from equiscope.blocks import DropPath, drop
from equiscope.errors import InputError

pytestmark = pytest.mark.quick


def spec(**more):
    return eq.Spec(16, vocabulary=9, layers=2, outputs=9, **more)


def test_nothing_is_left_out_in_evaluation():
    torch.manual_seed(0)
    plain = eq.build(spec())
    torch.manual_seed(0)
    dropping = eq.build(spec(dropout=0.5, drop_path=0.5)).eval()
    ids = torch.arange(8)[None]
    assert torch.equal(plain(ids), dropping(ids))


def test_while_trained_two_passes_differ():
    model = eq.build(spec(dropout=0.5)).train()
    ids = torch.arange(8)[None]
    assert not torch.equal(model(ids), model(ids))


def test_a_skipped_sequence_gets_nothing_and_the_mean_stays():
    torch.manual_seed(0)
    made = DropPath(0.25).train()(torch.ones(40_000, 1, 2))
    assert made.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert torch.equal(made[..., 0], made[..., 1])  # of a sequence all or nothing
    assert float(made.mean()) == pytest.approx(1.0, abs=0.02)  # 40 000 draws: 5 standard deviations are 0.014


def test_an_audit_leaves_nothing_out():
    with no_dropout():
        made = nn.Dropout(0.5).train()(torch.ones(8192))
    assert torch.equal(made, torch.ones(8192))


def test_layers_are_skipped_more_often_the_deeper_they_are():
    rates = [[part.p for part in block.drop if isinstance(part, DropPath)] for block in eq.build(spec(drop_path=0.3)).blocks]
    assert rates == [[0.15], [0.3]]


def test_nothing_to_leave_out_is_no_module():
    assert drop(0.0) is None
    assert all(block.drop is None for block in eq.build(spec()).blocks)


def test_a_share_of_one_is_refused():
    with pytest.raises(InputError, match="dropout"):
        spec(dropout=1.0)


def test_a_spec_with_dropout_reads_back_and_its_evaluated_form_has_none():
    said = spec(dropout=0.1, drop_path=0.2)
    assert eq.Spec.of(said.to_dict()) == said
    assert said.without_dropout == spec()


def test_dropout_does_not_stand_in_the_way_of_a_checkpoint(tmp_path):
    from dataclasses import replace

    from equiscope.models.presets import gpt2

    model = eq.build(replace(gpt2(16, 1, 2, vocabulary=11, length=8), dropout=0.1)).eval()
    back = eq.load(eq.save(model, tmp_path))
    ids = torch.arange(8)[None]
    assert torch.equal(model(ids), back(ids))
