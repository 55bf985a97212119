"""The wrapper of docs/howto/guard.md, run by lm-evaluation-harness itself, where that is installed."""

import json
import re
from pathlib import Path

import pytest

from equiscope.errors import GuardFailed

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "guard.md"
LETTERS = "abcdefghijklmnopqrstuvwxyz .?"


@pytest.fixture
def wrapper():
    """The class on the page."""
    pytest.importorskip("lm_eval")
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names = {}
    exec(next(block for block in blocks if "lm_eval" in block), names)
    return names["Guarded"]


def evaluated(kind, folder):
    """The model, and its accuracy on two questions."""
    import lm_eval
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({c: i for i, c in enumerate([*LETTERS, "<end>"])}, unk_token="<end>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=30, n_embd=16, n_layer=2, n_head=2, n_positions=128, bos_token_id=29, eos_token_id=29)
    lm = kind(
        pretrained=GPT2LMHeadModel(config).eval(), device="cpu",
        tokenizer=PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>"),
    )  # fmt: skip
    questions = [{"q": "is two more than one?", "a": 0}, {"q": "is one more than two?", "a": 1}]
    (folder / "questions.json").write_text("\n".join(json.dumps(question) for question in questions))
    task = {
        "task": "more", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(folder / "questions.json")}},
        "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{q}}", "doc_to_choice": ["yes", "no"],
        "doc_to_target": "{{a}}", "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    return lm, lm_eval.simple_evaluate(model=lm, tasks=[task], bootstrap_iters=0)["results"]["more"]["acc,none"]


def test_the_harness_reports_the_score_of_a_healthy_model(wrapper, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    lm, accuracy = evaluated(wrapper, tmp_path)
    assert 0 <= accuracy <= 1
    assert lm.report.calls <= 40
    assert max(lm.report.lengths) == 128


def test_the_harness_reports_no_score_of_a_leaking_model(wrapper, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))

    class Leaking(wrapper):
        """Adds the mean of all logits to each."""

        def _model_call(self, *args, **kwargs):
            return (logits := super()._model_call(*args, **kwargs)) + logits.mean(1, keepdim=True)

    with pytest.raises(GuardFailed, match="it reads later tokens"):
        evaluated(Leaking, tmp_path)
