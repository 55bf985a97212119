"""What is left out at random while a model is trained."""

import pytest
import torch

import equiscope as eq
from equiscope.audit.undropped import undropped
from equiscope.blocks import Dropout, Skip, drop
from equiscope.errors import InputError


@pytest.fixture(autouse=True)
def _as_on_other_processors(monkeypatch):
    monkeypatch.setitem(Dropout.forward.__globals__, "INTEL", False)


def spec(**more):
    return eq.Spec(16, vocabulary=9, layers=2, outputs=9, **more)


def test_nothing_is_left_out_in_evaluation():
    torch.manual_seed(0)
    plain = eq.build(spec())
    torch.manual_seed(0)
    dropping = eq.build(spec(dropout=0.5, skip=0.5)).eval()
    ids = torch.arange(8)[None]
    assert torch.equal(plain(ids), dropping(ids))


def test_while_trained_two_passes_differ():
    model = eq.build(spec(dropout=0.5)).train()
    ids = torch.arange(8)[None]
    assert not torch.equal(model(ids), model(ids))


def test_a_skipped_sequence_gets_nothing_and_the_mean_stays():
    torch.manual_seed(0)
    made = Skip(0.25).train()(torch.ones(40_000, 1, 2))
    assert made.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert torch.equal(made[..., 0], made[..., 1])  # of a sequence all or nothing
    assert float(made.mean()) == pytest.approx(1.0, abs=0.02)  # 40 000 draws: 5 standard deviations are 0.014


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_share_of_the_numbers_is_left_out_independently_and_the_mean_stays(share, dtype):
    torch.manual_seed(0)
    rows = 1_001  # so that the last random number is needed in part
    made = Dropout(share).train()(torch.ones(rows, 401, dtype=dtype)).double()
    kept, n = made != 0, made.numel()
    assert made[kept].unique().tolist() == [pytest.approx(1 / (1 - share), rel=torch.finfo(dtype).eps * 2 + 2**-16 / (1 - share))]
    within = 5 * (share * (1 - share) / n) ** 0.5
    assert float(kept.double().mean()) == pytest.approx(1 - share, abs=within)
    for ahead in range(1, 9):  # four numbers are of one draw: neighbours would show what they have in common
        pairs = (kept.flatten()[ahead:] & kept.flatten()[:-ahead]).double().mean()
        assert float(pairs) == pytest.approx((1 - share) ** 2, abs=2 * within)
    for place in range(4):
        assert float(kept.flatten()[place::4].double().mean()) == pytest.approx(1 - share, abs=2 * within)


def test_what_is_left_out_has_no_gradient_and_the_rest_is_scaled():
    x = torch.randn(70, 101, dtype=torch.float64, requires_grad=True)
    made = Dropout(0.5).train()(x)
    (gradient,) = torch.autograd.grad(made.sum(), x)
    assert torch.equal(made, x * gradient)
    assert set(gradient.unique().tolist()) == {0.0, 2.0}


def test_the_same_seed_leaves_out_the_same():
    dropping, x = Dropout(0.3).train(), torch.ones(5001)
    made = [(torch.manual_seed(seed), dropping(x))[1] for seed in (1, 1, 2)]
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])


@pytest.mark.compile
def test_compiled_code_leaves_out_the_same():
    dropping, x = Dropout(0.3).train(), torch.randn(5003, requires_grad=True)

    def twice(x):  # of one tensor other numbers each time
        return dropping(x), dropping(x)

    torch.manual_seed(1)
    plain = twice(x)
    torch.manual_seed(1)
    compiled = torch.compile(twice, fullgraph=True)(x)
    assert not torch.equal(*plain)
    for one, other in zip(plain, compiled, strict=True):
        assert torch.equal(one, other)
        assert torch.equal(*(torch.autograd.grad(made.sum(), x, retain_graph=True)[0] for made in (one, other)))


@pytest.mark.compile
@pytest.mark.parametrize("how", ["same", "different"])
def test_compiled_transforms_draw_as_they_are_told(how):
    dropping = Dropout(0.5).train()
    made = torch.compile(torch.func.vmap(dropping, randomness=how))(torch.ones(2, 8192))
    assert torch.equal(*made) == (how == "same")


def test_of_little_or_all_torch_decides():
    assert Dropout(0.3).train()(torch.ones(0, 4)).shape == (0, 4)
    assert Dropout(1.0).train()(torch.ones(5000)).tolist() == [0.0] * 5000
    assert Dropout(1e-9).train()(torch.ones(5000)).tolist() == [1.0] * 5000
    assert float(Dropout(0.5).train()(torch.ones(4000)).mean()) == pytest.approx(1.0, abs=0.08)


def test_functional_transforms_draw_for_each_example():
    made = torch.func.vmap(Dropout(0.5).train(), randomness="different")(torch.ones(2, 8192))
    assert not torch.equal(*made)


def test_numbers_are_drawn_where_the_tensor_is():
    with torch.device("meta"):
        made = Dropout(0.5).train()(torch.ones(8192, device="cpu"))
    assert made.device.type == "cpu"


def test_an_audit_leaves_nothing_out():
    with undropped():
        made = Dropout(0.5).train()(torch.ones(8192))
    assert torch.equal(made, torch.ones(8192))


def test_layers_are_skipped_more_often_the_deeper_they_are():
    rates = [[part.p for part in block.drop if isinstance(part, Skip)] for block in eq.build(spec(skip=0.3)).blocks]
    assert rates == [[0.15], [0.3]]


def test_nothing_to_leave_out_is_no_module():
    assert drop(0.0) is None
    assert all(block.drop is None for block in eq.build(spec()).blocks)


def test_a_share_of_one_is_refused():
    with pytest.raises(InputError, match="dropout"):
        spec(dropout=1.0)


def test_a_spec_with_dropout_reads_back_and_its_evaluated_form_has_none():
    said = spec(dropout=0.1, skip=0.2)
    assert eq.Spec.of(said.to_dict()) == said
    assert said.trained == spec()


def test_dropout_does_not_stand_in_the_way_of_a_checkpoint(tmp_path):
    from dataclasses import replace

    from equiscope.models.presets import gpt2

    model = eq.build(replace(gpt2(16, 1, 2, vocabulary=11, places=8), dropout=0.1)).eval()
    back = eq.load(eq.save(model, tmp_path))
    ids = torch.arange(8)[None]
    assert torch.equal(model(ids), back(ids))
