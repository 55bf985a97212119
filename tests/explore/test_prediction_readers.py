"""How an answer is read follows from what a model says of it; a model that says nothing is not read."""

import pytest
import torch
from tests.judges import transformers
from tests.pictures_of_timm import timm
from tests.pictures_of_timm import vit as timm_vit

from equiscope.explore.heads.predictions import model_reader
from equiscope.models import PRESETS, build, tiny
from equiscope.tokens.tokenizer import by_bytes

SIZES = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def bert(kind="BertForSequenceClassification", **more):
    return getattr(transformers, kind)(transformers.BertConfig(**SIZES, **more))


@pytest.mark.parametrize(
    "model",
    [
        lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=300, n_embd=16, n_layer=1, n_head=2)),
        lambda: transformers.T5ForConditionalGeneration(
            transformers.T5Config(vocab_size=300, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
        ),
        lambda: build(tiny(PRESETS["gpt2"]())),
    ],
)
def test_who_writes_says_the_next_token(model):
    assert model_reader(model(), None).kind == "next"
    assert [model_reader(model(), None).name(97), model_reader(model(), by_bytes().inner).name(97)] == ["97", "a"]


def test_who_sorts_says_a_class_by_its_name():
    voice = model_reader(bert(id2label={0: "calm", 1: "cross"}), None)
    assert (voice.kind, voice.name(1), voice.independent) == ("class", "cross", False)
    assert model_reader(bert(problem_type="multi_label_classification"), None).independent


def test_classes_of_timm_are_numbered():
    assert model_reader(timm_vit()[0], None).name(3) == "class 3"


@pytest.mark.parametrize(
    "model",
    [
        lambda: bert("BertForMaskedLM"),
        lambda: bert("BertForTokenClassification"),
        lambda: bert(problem_type="regression"),
        lambda: timm().models.vision_transformer.VisionTransformer(
            img_size=32, patch_size=8, embed_dim=32, depth=1, num_heads=4, num_classes=0
        ),
        lambda: torch.nn.Linear(2, 2),
    ],
)
def test_of_others_nothing_is_read(model):
    assert model_reader(model(), None) is None
