"""How weights follow the gradient, and how fast at which step."""

import copy
import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from equiscope.errors import InputError
from equiscope.models import build
from equiscope.training.muon import Muon
from equiscope.training.optimiser import Average, optimisers, set_rates, share, uphill
from equiscope.training.recipe import Optimiser

pytestmark = pytest.mark.quick

SPEC = {"width": 16, "layers": 2, "vocabulary": 11, "outputs": 11, "block": {"attention": {"heads": 2, "position": "learned"}}}


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_every_weight_follows_one_rule_and_those_of_one_axis_never_decay(kind):
    model = build(SPEC)
    groups = [group for made in optimisers(model, Optimiser(kind=kind, decay=0.1)) for group in made.param_groups]
    taken = [id(p) for group in groups for p in group["params"]]
    assert sorted(taken) == sorted(id(p) for p in model.parameters())
    for group in groups:
        assert {p.ndim >= 2 for p in group["params"]} == {group["weight_decay"] == 0.1}


def test_muon_takes_the_matrices_of_the_layers_alone():
    model = build(SPEC)
    _, muon = optimisers(model, Optimiser(kind="muon"))
    names = {id(p): name for name, p in model.named_parameters()}
    taken = {names[id(p)] for p in muon.param_groups[0]["params"]}
    assert taken == {name for name, p in model.named_parameters() if name.startswith("blocks.") and p.ndim == 2}
    assert "embedding.weight" not in taken
    assert not any(name.startswith("output_layer") for name in taken)


def stepped(weight, gradients, config):
    """A weight after these gradients."""
    holder = nn.Module()
    holder.blocks = nn.ParameterList([nn.Parameter(weight.clone())])
    p = holder.blocks[0]
    extra = nn.Parameter(torch.zeros(1))
    holder.extra = extra
    made = optimisers(holder, config)
    for gradient in gradients:
        p.grad, extra.grad = gradient.clone(), torch.zeros(1)
        for optimiser in made:
            optimiser.step()
    return p.detach()


def test_adamw_is_that_of_its_paper():
    """Loshchilov & Hutter 2019, algorithm 2, in float64."""
    config = Optimiser(rate=0.01, betas=(0.9, 0.95), eps=1e-8, decay=0.1)
    weight, gradients = torch.randn(3, 5), torch.randn(4, 3, 5)
    x, m, v = weight.double(), torch.zeros(3, 5).double(), torch.zeros(3, 5).double()
    for t, g in enumerate(gradients.double(), 1):
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
        x = x - 0.01 * 0.1 * x - 0.01 * (m / (1 - 0.9**t)) / ((v / (1 - 0.95**t)).sqrt() + 1e-8)
    assert torch.allclose(stepped(weight, gradients, config).double(), x, rtol=1e-5, atol=1e-7)  # float32


@pytest.mark.parametrize("shape", [(24, 6), (6, 24), (12, 12)])
def test_a_step_of_muon_turns_and_stretches_hardly_whichever_way_a_matrix_lies(shape):
    """All singular values of the change are near one (Jordan 2024), and its size is that of AdamW's (Liu et al. 2025)."""
    weight, gradient = torch.zeros(shape), torch.randn(1, *shape)
    change = stepped(weight, gradient, Optimiser(kind="muon", muon_rate=0.02, decay=0.0)) / -0.02
    rms = float(change.square().mean().sqrt())
    assert rms == pytest.approx(0.2 * math.sqrt(max(shape)) / math.sqrt(max(shape)), rel=0.3)
    singular = torch.linalg.svdvals(change / (0.2 * math.sqrt(max(shape))))
    assert 0.5 < float(singular.min()) <= float(singular.max()) < 1.4
    turned = stepped(weight.T, gradient.transpose(1, 2), Optimiser(kind="muon", muon_rate=0.02, decay=0.0)) / -0.02
    assert torch.allclose(turned.T, change, atol=0.05)  # bfloat16


@pytest.mark.parametrize("by", ["match_rms_adamw", "original"])
@pytest.mark.parametrize(("stacked", "supported"), [(1 << 20, True), (300, False)])
def test_muon_by_shape_is_torchs_muon(by, stacked, supported, monkeypatch):
    """Of matrices of several shapes, one of which has no gradient; states can be exchanged. torch rounds to bfloat16, ours where a
    CPU supports it.
    """
    monkeypatch.setattr("equiscope.training.muon.bfloat16_supported", lambda: supported)
    start = [torch.randn(shape) for shape in [(24, 6), (6, 24), (24, 6), (96, 70), (70, 96), (5, 5)]]
    ours, theirs = ([nn.Parameter(x.clone()) for x in start] for _ in range(2))
    said = {"lr": 0.02, "weight_decay": 0.1, "adjust_lr_fn": by}
    groups = [[{"params": some[:3]}, {"params": some[3:], "lr": 0.05, "nesterov": False}] for some in (ours, theirs)]
    one, other = Muon(groups[0], **said), torch.optim.Muon(groups[1], **said)
    one.stacked = stacked
    for step in range(5):
        if step == 3:
            one.load_state_dict(copy.deepcopy(other.state_dict()))
        for p, q in zip(ours[:-1], theirs[:-1], strict=True):
            p.grad = q.grad = torch.randn_like(p)
        one.step()
        other.step()
    for x, p, q in zip(start[:-1], ours, theirs, strict=False):
        assert (p - q).norm() < 0.02 * (q - x).norm()
    assert torch.equal(ours[-1], start[-1])
    for p, q in zip(ours[:-1], theirs[:-1], strict=True):
        assert torch.allclose(one.state[p]["momentum_buffer"], other.state[q]["momentum_buffer"])


def test_a_model_without_weights_is_refused():
    with pytest.raises(InputError, match="no parameter that could learn"):
        optimisers(nn.Identity(), Optimiser())


# ---------------------------------------------------------------------------------------------------------- schedules

KINDS = ("cosine", "wsd", "linear", "root", "constant")


@pytest.mark.parametrize("kind", KINDS)
def test_every_schedule_climbs_in_a_line_to_its_top_and_never_leaves_its_bounds(kind):
    config = Optimiser(schedule=kind, warmup=10, floor=0.1)
    parts = [share(config, step, 100) for step in range(100)]
    assert parts[:10] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    assert all(0.1 <= part <= 1 for part in parts[9:])
    assert all(later <= sooner + 1e-12 for sooner, later in pairwise(parts[9:]))
    assert share(Optimiser(schedule=kind), 0, 1) > 0  # a run of one step learns


@pytest.mark.parametrize(
    ("kind", "step", "part"),
    [
        ("cosine", 60, 0.55), ("cosine", 110, 0.1),  # half way: the middle between 1 and the floor; after the last step: the floor
        ("linear", 60, 0.55), ("linear", 110, 0.1),
        ("wsd", 89, 1.0), ("wsd", 90, 1.0), ("wsd", 100, 0.55), ("wsd", 110, 0.1),  # level for 80 of 100 steps, then down in a line
        ("root", 39, 0.5), ("root", 89, 1 / 3),  # as 1/sqrt(step): a half at four times the warm-up
        ("constant", 109, 1.0),
    ],
)  # fmt: skip
def test_a_schedule_passes_through_the_points_of_its_definition(kind, step, part):
    assert share(Optimiser(schedule=kind, warmup=10, floor=0.1, fall=0.2), step, 110) == pytest.approx(part)


def test_every_group_keeps_its_own_highest_rate():
    made = optimisers(build(SPEC), Optimiser(kind="muon", rate=1e-3, muon_rate=0.02))
    assert set_rates(made, 0.5) == pytest.approx(5e-4)
    assert [group["lr"] for optimiser in made for group in optimiser.param_groups] == pytest.approx([5e-4, 5e-4, 0.01])


# ------------------------------------------------------------------------------------------------------------ average


def test_the_average_is_a_plain_mean_first_and_then_forgets_by_its_factor():
    model = nn.Linear(3, 2)
    average, seen = Average(model, 0.75), []
    for step in range(1, 9):
        nn.init.normal_(model.weight)
        seen.append(model.weight.detach().clone())
        before = average.weights["weight"].clone()
        average.follow(model, step)
        wanted = torch.stack(seen).mean(0) if step <= 4 else 0.75 * before + 0.25 * seen[-1]
        assert torch.allclose(average.weights["weight"], wanted, atol=1e-6)


def test_swapping_twice_changes_nothing():
    model = nn.Linear(3, 2)
    average = Average(model, 0.9)
    nn.init.normal_(model.weight)
    own, mean = model.weight.detach().clone(), average.weights["weight"].clone()
    average.swap(model)
    assert torch.equal(model.weight, mean)
    average.swap(model)
    assert torch.equal(model.weight, own)
    assert torch.equal(average.weights["weight"], mean)


# --------------------------------------------------------------------------------------------------------- uphill


def test_weights_stand_uphill_and_come_back_to_the_last_bit():
    model = nn.Linear(3, 2)
    before = [p.detach().clone() for p in model.parameters()]
    model(torch.randn(5, 3)).square().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    length = torch.cat([g.flatten() for g in gradients]).norm()

    def failing():
        with uphill(model, 0.25):
            for p, was, gradient in zip(model.parameters(), before, gradients, strict=True):
                assert p.grad is None
                assert torch.allclose(p, was + 0.25 * gradient / length)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert all(torch.equal(p, was) for p, was in zip(model.parameters(), before, strict=True))


def test_where_nothing_pulls_the_weights_stay():
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    (0 * model(torch.randn(5, 3))).sum().backward()
    with uphill(model, 0.25):
        assert torch.equal(model.weight, before)
