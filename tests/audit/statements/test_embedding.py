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


class Cuts(SentenceEncoder):
    """Cuts a text as `side` says."""

    side = "end"

    def tokens(self, texts):
        rows = [self.tokenizer.encode(text).ids for text in texts]
        if self.side == "start":
            rows = [row[:1] + row[1 - self.limit :] if len(row) > self.limit else row for row in rows]
        if self.side == "closing":
            rows = [row[: self.limit] for row in rows]
        if self.side == "middle":
            rows = [row[:4] + row[4 - self.limit :] if len(row) > self.limit else row for row in rows]
        length = max(map(len, rows))
        mask = (torch.arange(length) < torch.tensor([len(row) for row in rows])[:, None]).long()
        return {"input_ids": torch.tensor([row + [0] * (length - len(row)) for row in rows]), "attention_mask": mask}


def letters():
    """A tokenizer of 37 words, with a special token at both ends."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2} | {f"w{i}": i for i in range(3, 40)}
    inner = Tokenizer(models.WordLevel(words, unk_token="[PAD]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return inner


def cut(kind, limit=12, side="end"):
    torch.manual_seed(0)
    encoder = kind(Roberta(bert()), "mean", True, letters(), limit)
    encoder.side = side
    found = row(encoder)
    return found, {o.name: o for o in found.outputs}


def test_a_text_longer_than_the_limit_keeps_its_beginning_and_its_closing_token():
    found, outputs = cut(SentenceEncoder)
    assert found.holds
    assert outputs["truncation"].verdict == "holds"
    beyond = outputs["beyond the limit"]
    assert not beyond.decides
    assert beyond.error > 1e-3
    assert "are cut at 12 without an error: cosines change by up to" in beyond.note


@pytest.mark.parametrize(
    ("side", "words"),
    [
        ("closing", "is cut with its last special token"),
        ("start", "the last 12 are kept, not the first"),
        ("middle", "other 12 tokens are kept than the first 12"),
        ("nowhere", "more than the limit of 12"),
    ],
)
def test_a_text_that_is_cut_elsewhere_is_found(side, words):
    found, outputs = cut(Cuts, side=side)
    assert found.verdict == "broken"
    assert found.cause == "a long text is cut in another place than its end"
    assert words in outputs["truncation"].note
    assert "searches" in outputs["truncation"].note


def test_a_model_that_takes_no_more_tokens_than_its_limit_is_said():
    found, outputs = cut(SentenceEncoder, limit=30)
    assert found.holds
    assert outputs["truncation"].verdict == "holds"
    assert outputs["beyond the limit"].verdict == "undecided"
    assert outputs["beyond the limit"].note.endswith("the model takes no more tokens")
