"""ALiBi's key form against BLOOM's in Hugging Face; skipped without transformers."""

import pytest
import torch

from equiscope.positions import Alibi
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("heads", [1, 8, 12])
def test_the_key_form_is_blooms(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 50, dtype=torch.long), heads, torch.float32)
    at = torch.arange(50.0)[:, None]
    found = Alibi(kind="key").sized(8 * heads, heads, 8).score_bias(torch.arange(heads)[:, None, None], (at,), (at.T,))
    assert relative_error(found, theirs) < 1e-6  # float32
