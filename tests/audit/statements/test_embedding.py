"""Embeddings: sound poolings depend on no padding, batch or order, and each planted fault is named by the change that shows it."""

import json

import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.checkpoints.sentence_encoder import SentenceEncoder, load_sentence_encoder
from tests.judges import transformers


class CountsPadding(SentenceEncoder):
    def pool(self, x, mask):
        return x.mean(-2)


class FirstRow(SentenceEncoder):
    def pool(self, x, mask):
        return x[:, 0]


class OverBatch(SentenceEncoder):
    def pool(self, x, mask):
        pooled = super().pool(x, mask)
        return pooled / pooled.norm(dim=0, keepdim=True)


class MaxWithZeros(SentenceEncoder):
    def pool(self, x, mask):
        return (x * mask[..., None]).amax(-2)


class Roberta(nn.Module):
    """Positions that count tokens, as they should under padding on the left."""

    def __init__(self, bert):
        super().__init__()
        self.bert = bert

    def forward(self, input_ids, attention_mask):
        positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        return self.bert(input_ids=input_ids, attention_mask=attention_mask, position_ids=positions)


def bert():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=40, max_position_embeddings=32, initializer_range=0.5, **sizes)
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def row(encoder):
    ids = torch.randint(3, 40, (6, 7), generator=torch.Generator().manual_seed(3))
    mask = (torch.arange(7) < torch.tensor([7, 5, 6, 3, 7, 4])[:, None]).long()
    kwargs = {"input_ids": ids * mask, "attention_mask": mask}
    return eq.check(encoder.eval(), kwargs=kwargs, properties="embedding", actions=[])["embedding"]


def broken(found):
    return {o.name for o in found.outputs if o.decides and o.verdict != "holds"}


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "mean_sqrt", "last"])
def test_sound_poolings_hold_and_low_precision_is_reported(pooling):
    found = row(SentenceEncoder(Roberta(bert()), pooling, True))
    assert found.holds
    precision = {o.name: o for o in found.outputs if not o.decides}
    assert precision.keys() == {"bfloat16", "float16"}
    assert all("cosines change by up to" in o.note for o in precision.values())


@pytest.mark.parametrize(
    ("fault", "pooling", "changes"),
    [
        (CountsPadding, "mean", {"right padding", "left padding", "longer padding", "alone"}),
        (FirstRow, "cls", {"left padding"}),
        (OverBatch, "mean", {"alone"}),
        (MaxWithZeros, "max", {"alone"}),
    ],
)
def test_a_planted_fault_is_named(fault, pooling, changes):
    found = row(fault(Roberta(bert()), pooling, False))
    assert found.fails
    assert changes <= broken(found)
    assert all(change in found.cause for change in changes)


def test_positions_that_padding_on_the_left_shifts_are_found():
    assert broken(row(SentenceEncoder(bert(), "mean", True))) == {"left padding"}


def test_what_gives_no_vector_for_a_text_is_undecided():
    found = row(bert())
    assert found.verdict == "undecided"
    assert "one vector for each sequence" in found.note


def test_a_folder_that_lists_another_module_is_refused(tmp_path):
    (tmp_path / "modules.json").write_text(json.dumps([{"type": "a.Transformer"}, {"type": "a.Pooling"}, {"type": "a.Dense"}]))
    with pytest.raises(eq.errors.InputError, match="lists Transformer, Pooling, Dense"):
        load_sentence_encoder(tmp_path)
