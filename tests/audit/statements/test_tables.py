"""Tables computed in float32 do not count as violations."""

import pytest
import torch
from torch import nn

from equiscope.audit import check
from tests.audit.zoo_properties import Turn, placed
from tests.drawn import SEEDS


@pytest.mark.parametrize("seed", SEEDS)
def test_the_note_names_the_tables_and_no_other_buffer(seed):
    torch.manual_seed(seed)
    x, places = placed()
    model = Turn(kept="buffer")
    model.register_buffer("unused", torch.randn(30))
    row = check(model, x, places, actions=["shift"], properties=[], seed=seed)["shift"]
    assert row.verdict == "holds"
    assert row.note == "not larger than the rounding of the model's float32 tables (cosines, sines)"


def test_a_model_without_tables_is_measured_no_more_often():
    torch.manual_seed(0)
    x, places = placed()
    row = check(Turn(), x, places, actions=["shift"], properties=[])["shift"]
    assert "tables" not in row.note
    assert row.error < 1e-14


def test_complex_tables_keep_their_imaginary_part_in_float64():
    class Waves(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("waves", torch.polar(torch.ones(4), torch.arange(4.0)))

        def forward(self, x):
            return (x * self.waves).imag

    row = check(Waves(), torch.randn(2, 3, 4), properties=["batch"])["batch"]
    assert row.verdict == "holds"
    assert row.errors
