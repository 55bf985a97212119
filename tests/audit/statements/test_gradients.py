"""Gradients and forces against finite differences, and training mode against evaluation mode."""

import pytest
import torch
from torch import nn

from equiscope.audit import check
from tests.drawn import SEEDS


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "ours-llama"])
def test_gradients_of_real_models_are_slopes(made, ids, name, seed):
    row = check(made(name, seed), ids, properties=["gradient"], seed=seed)["gradient"]
    assert row.verdict == "holds"
    assert row.passes <= 15


def test_a_backward_that_is_cut_in_one_layer_is_found_there(made, ids):
    model = made("gpt2")
    model.transformer.h[1].mlp.c_fc.register_full_backward_hook(lambda module, inward, outward: (0.5 * inward[0],))
    row = check(model, ids, properties=["gradient"])["gradient"]
    assert row.verdict == "broken"
    assert row.where == "transformer.h.1.ln_2"  # the last whose gradients are wrong: they come back through c_fc


class Begun(nn.Module):
    """A residual branch that begins as zero, then relu: where the first relu gives 0, the second is at its kink."""

    def __init__(self):
        super().__init__()
        self.first, self.branch, self.last = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 3)
        nn.init.zeros_(self.branch.weight)
        nn.init.zeros_(self.branch.bias)

    def forward(self, x):
        x = self.first(x).relu()
        return self.last((x + self.branch(x)).relu())


class Equal(nn.Module):
    """A maximum of equal values: of a picture of one shade, by weights that begin as equal."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 8))

    def forward(self, x):
        return (x @ self.weight.T).amax(-1, keepdim=True) * x


@pytest.mark.parametrize("model", [Begun, Equal])
def test_a_kink_at_the_given_parameters_is_no_wrong_gradient(model):
    torch.manual_seed(0)
    row = check(model(), torch.randn(4, 8), properties=["gradient"], random_parameters=False)["gradient"]
    assert (row.verdict, row.note[:45]) == ("holds", "not differentiable at the given point, a kink")


def test_a_wrong_gradient_at_a_kink_is_found_nearby():
    torch.manual_seed(0)
    model = Begun()
    model.branch.register_full_backward_hook(lambda module, inward, outward: (0.5 * inward[0],))
    row = check(model, torch.randn(4, 8), properties=["gradient"], random_parameters=False)["gradient"]
    assert (row.verdict, row.where) == ("broken", "first")


def test_the_parameters_and_their_gradients_are_left_as_they_were(made, ids):
    model = made("gpt2").double()
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    check(model, ids, properties=["gradient", "dtype", "train-eval"])
    assert all(torch.equal(p, before[n]) for n, p in model.named_parameters())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert not model.training


@pytest.mark.parametrize("name", ["gpt2", "ours"])
def test_a_transformer_trains_as_it_is_evaluated_dropout_aside(made, ids, name):
    assert check(made(name), ids, properties=["train-eval"])["train-eval"].verdict == "holds"


def test_a_difference_in_training_is_information(made):
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(5))
    rows = check(model, torch.randn(2, 5, 8), random_parameters=False)
    assert rows["train-eval"].verdict == "broken"
    assert not rows["train-eval"].fails


def test_statistics_that_training_moves_are_put_back():
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(5))
    before = model[1].running_mean.clone()
    row = check(model, torch.randn(4, 5, 8), properties=["train-eval"])["train-eval"]
    assert torch.equal(model[1].running_mean, before)
    assert "1" in row.note


class Far(nn.Module):
    """An energy per atom of a cluster far larger than what moves in it, as electronic structure has."""

    def __init__(self):
        super().__init__()
        self.inward, self.outward = nn.Linear(1, 8), nn.Linear(8, 1)

    def forward(self, pos):
        pos = pos.detach().requires_grad_(True)
        energy = self.outward(self.inward((pos[:, None] - pos).pow(2).sum(-1, keepdim=True)).tanh()).sum() - 1e5
        return {"energy": energy, "forces": -torch.autograd.grad(energy, pos)[0]}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_large_constant_in_the_energy_hides_nothing(seed):
    torch.manual_seed(seed)
    row = check(Far(), torch.randn(5, 3), properties=["conservative"], seed=seed)["conservative"]
    assert row.verdict == "holds"
    assert row.passes <= 22


def test_an_energy_in_steps_has_no_slope_to_compare_with():
    class Steps(Far):
        def forward(self, pos):
            pos = pos.detach().requires_grad_(True)
            near = ((pos[:, None] - pos).pow(2).sum(-1) * 100).floor().sum()
            return {"energy": near + 0 * pos.sum(), "forces": torch.zeros_like(pos)}

    row = check(Steps(), torch.randn(5, 3), properties=["conservative"])["conservative"]
    assert row.verdict == "undecided"
    assert "not smooth" in row.note
