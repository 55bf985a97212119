"""DeBERTa's terms against Hugging Face's V2, which reads the third by d(i, j) where the paper has d(j, i)."""

import pytest
import torch

from equiscope.positions import Deberta
from equiscope.positions.deberta import query_table_from_hugging_face
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick


def both(length, far):
    """Our term and theirs [H, N, N], for the same queries and keys."""
    from transformers import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

    config = DebertaV2Config(
        hidden_size=8, num_attention_heads=2, relative_attention=True, pos_att_type=["c2p", "p2c"], max_relative_positions=far,
        position_buckets=-1, share_att_key=False,
    )  # fmt: skip
    theirs = DisentangledSelfAttention(config).double()
    embeddings, q, k = torch.randn(2 * far, 8).double(), *torch.randn(2, 2, length, 4).double()
    scheme = Deberta(far).sized(8, 2, 4).double()
    at = torch.arange(length, dtype=torch.float64)[:, None]
    with torch.no_grad():
        wanted = theirs.disentangled_attention_bias(q, k, None, embeddings, 3)
        scheme.key_table.copy_(theirs.pos_key_proj(embeddings))
        scheme.query_table.copy_(query_table_from_hugging_face(theirs.pos_query_proj(embeddings)))
        return scheme.content_bias(scheme.rotate(q, at, "query"), k, (at,), (at.T,), None), wanted


def test_within_the_table_the_terms_are_the_same():
    found, wanted = both(length=9, far=9)
    assert relative_error(found, wanted) < 1e-6  # they divide by a square root in float32


def test_only_keys_beyond_the_table_after_the_query_differ():
    found, wanted = both(length=9, far=4)
    beyond = torch.ones(9, 9, dtype=torch.bool).triu(4)
    assert (found - wanted).abs()[:, ~beyond].max() < 1e-6
    assert (found - wanted).abs()[:, beyond].max() > 1e-3
