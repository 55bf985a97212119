"""Documents that share a sequence."""

import pytest
import torch

from equiscope.audit import check
from tests.audit.statements.conftest import LLAMA
from tests.drawn import SEEDS
from tests.judges import transformers

EVERY = pytest.mark.parametrize("seed", SEEDS)


@EVERY
@pytest.mark.parametrize("name", ["gpt2", "llama", "gptj", "neox", "ours", "ours-llama"])
def test_a_document_of_a_packed_row_is_read_as_if_alone(made, ids, name, seed):
    row = check(made(name, seed), ids, properties=["packing"], seed=seed)["packing"]
    assert row.verdict == "holds"


def test_transformers_mixes_documents_while_it_keeps_a_cache(made, ids):
    assert "packing needs use_cache=False" in check(made("llama"), ids, properties=["packing"])["packing"].note
    model = made("llama").double()
    places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])
    with torch.no_grad():  # the same without us
        alone = model(ids[:, 4:], use_cache=False).logits
        kept, forgotten = (model(ids, position_ids=places, use_cache=c).logits[:, 4:] for c in (False, True))
    assert (kept - alone).norm() < 1e-6 * alone.norm()
    assert (forgotten - alone).norm() > 1e-2 * alone.norm()


def test_of_a_batch_the_first_sequence_is_packed(made, ids):
    row = check(made("llama"), ids.expand(3, -1), properties=["packing"])["packing"]
    assert row.verdict == "holds"


def test_a_mask_that_was_given_is_left_out_since_it_speaks_of_the_whole_row(made, ids):
    row = check(made("llama"), ids, kwargs={"attention_mask": torch.ones_like(ids)}, properties=["packing"])["packing"]
    assert row.verdict == "holds"


def test_two_tokens_are_enough_and_one_is_not(made, ids):
    assert check(made("llama"), ids[:, :2], properties=["packing"])["packing"].verdict == "holds"
    assert check(made("llama"), ids[:, :1], properties=["packing"])["packing"].note == "there is only one token"


def test_gpt_oss_attends_to_other_documents_as_its_masks_do_not_get_the_positions(ids):
    config = transformers.GptOssConfig(**LLAMA, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, pad_token_id=0)
    torch.manual_seed(0)
    model = transformers.GptOssForCausalLM(config).eval()
    row = check(model, ids, properties=["packing"])["packing"]
    assert row.verdict == "broken"
    assert "restarting positions do not separate them" in row.cause
    with torch.no_grad():  # the same without us
        alone = model(ids[:, 4:], use_cache=False).logits
        packed = model(ids, position_ids=torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]]), use_cache=False).logits[:, 4:]
    assert (packed - alone).norm() > 1e-2 * alone.norm()
