"""Sinusoids beside the table that Marian's models of Hugging Face hold (P3)."""

import pytest
import torch

from equiscope.positions import Sinusoidal
from equiscope.positions.sinusoidal import sinusoids_half_from_interleaved
from tests.judges import transformers

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("width", [4, 10, 64])
def test_sines_then_cosines_are_marians_table(width):
    table = transformers.models.marian.modeling_marian.MarianSinusoidalPositionalEmbedding(50, width).create_weight()
    at = torch.arange(50, dtype=torch.float64)[:, None]
    ours = Sinusoidal(layout="half").encode(at, width)
    assert (ours - table.detach().double()).abs().max() < 1e-6  # theirs is kept in float32
    by_pairs = Sinusoidal().encode(at, width)
    assert torch.equal(sinusoids_half_from_interleaved(by_pairs), ours)
