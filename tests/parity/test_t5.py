"""T5's bias against Hugging Face's, on the same table; skipped without transformers."""

import pytest
import torch

from equiscope.positions import T5Bias
from tests.drawn import randomised

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("buckets", "far"), [(32, 128), (16, 40)])
@pytest.mark.parametrize("both", [True, False], ids=["encoder", "decoder"])
def test_the_bias_is_hugging_faces_number_for_number(both, buckets, far, dtype):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(
        d_model=12, d_kv=4, num_heads=3, relative_attention_num_buckets=buckets, relative_attention_max_distance=far,
        is_decoder=not both,
    )  # fmt: skip
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).to(dtype)
    scheme = randomised(T5Bias(buckets, far, both).sized(12, 3, 4)).to(dtype)
    theirs.relative_attention_bias.weight.data = scheme.table.weight.data
    at = torch.arange(600, dtype=dtype)[:, None]
    with torch.no_grad():
        found = scheme.score_bias(torch.arange(3)[:, None, None], (at,), (at.T,))
        assert torch.equal(found, theirs.compute_bias(600, 600)[0])
