"""GPU against CPU; without a GPU, the reason."""

import pytest
import torch
from torch import nn

from equiscope.audit import check
from equiscope.audit.statements.numerics import device
from tests.drawn import SEEDS

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_there_is_a_row_only_on_request():
    rows = check(nn.Linear(4, 4), torch.randn(2, 3, 4), random_parameters=False)
    assert "device" not in [row.name for row in rows]
    assert check(nn.Linear(4, 4), torch.randn(2, 3, 4), properties=["device"])["device"].verdict == "undecided"


class Elsewhere(nn.Linear):
    """Computes something else wherever it was moved to by name."""

    def to(self, *args, **kwargs):
        if "there" in args:
            self.scaled = 1.01
            return self
        return super().to(*args, **kwargs)

    def forward(self, x):
        return super().forward(x) * getattr(self, "scaled", 1.0)


@pytest.fixture
def second(monkeypatch):
    """A second device, on a machine that has none: the CPU under another name."""
    moved = device._on_device
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(device, "_inputs_on_device", lambda inputs, where: inputs)
    monkeypatch.setattr(
        device,
        "_on_device",
        lambda model, where: moved(model.to("there") if where == "cuda" and isinstance(model, Elsewhere) else model, "cpu"),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_on_both_is_exact_and_something_else_is_broken(second, seed):
    torch.manual_seed(seed)
    x = torch.randn(2, 3, 4)
    assert check(nn.Linear(4, 4), x, properties=["device"])["device"].verdict == "holds"
    assert check(Elsewhere(4, 4), x, properties=["device"])["device"].verdict == "broken"


@CUDA
def test_a_model_gives_the_same_on_a_gpu(made, ids):
    assert check(made("llama"), ids, properties=["device"])["device"].verdict == "holds"
