"""Texts of several documents: with mask "documents" each is learned, measured and continued as if it stood alone."""

import pytest
import torch
import torch.nn.functional as F

from equiscope.checkpoints import load
from equiscope.data import Language, Passages
from equiscope.errors import InputError
from equiscope.models import Sampling, build, generate
from equiscope.record import read_run
from equiscope.symmetry import relative_error
from equiscope.training import fit, load_run, load_task, open_task, recipe, resolve_spec
from equiscope.training.reading import merged
from tests.training import test_images, test_translation
from tests.training.small import small

BLANK = {"separator": "\n\n", "context": 48}
TOKENS = {"characters": {}, "bytes": {"tokens": "bytes"}, "pieces": {"tokens": "pieces", "vocabulary": 300}}


def masked(folder, mask="documents", **changes):
    head = {"block": {"attention": {"heads": 2, "position": "rope", "causal": True, "mask": mask}}}
    return small(folder, **merged({"model": head, "data": BLANK}, changes))


@pytest.mark.parametrize("tokens", TOKENS)
def test_the_loss_of_a_passage_is_that_of_its_documents_each_read_alone(tokens, tmp_path):
    _, task = masked(tmp_path, data=TOKENS[tokens])
    model = build(resolve_spec(task)).double()
    batch = task.batch(0)
    total, several = torch.zeros((), dtype=torch.float64), 0
    for row, wanted in zip(batch.tensors["inputs"], batch.tensors["targets"], strict=True):
        documents = model.tokens(row).document
        several += int(documents[-1]) > 0
        text = task.tokenizer.decode(row.tolist())
        assert int(documents[-1]) == text.rstrip("\n").count("\n\n"), "as many as the text has"
        for document in documents.unique():
            part = documents == document
            total = total + F.cross_entropy(model(row[part]), wanted[part], reduction="sum")
    assert several, "a passage of several documents was read"
    assert relative_error(task.loss(model, batch), total) < 1e-6  # the loss is summed in float32
    _, plain = masked(tmp_path, "causal", data=TOKENS[tokens])
    other = build(resolve_spec(plain)).double()
    other.load_state_dict(model.state_dict())
    assert relative_error(plain.loss(other, batch), total) > 1e-5, "another mask reads across documents"


def test_a_run_learns_is_read_back_and_starts_another(tmp_path):
    found, task = masked(tmp_path, budget={"steps": 30})
    fit(found, task, tmp_path / "run")
    points = read_run(tmp_path / "run").points
    assert points[-1].loss < points[0].loss
    spec = load(tmp_path / "run").spec
    assert spec.to_dict()["input"] == {"separator": list(task.passages.separator())}
    assert load_run(tmp_path / "run").spec == spec
    begun = merged(
        found.to_dict() | {"model": {"start": str(tmp_path / "run")}}, {"data": {"tokens": "checkpoint", "separator": None}}
    )
    assert resolve_spec(open_task(recipe(begun))) == spec, "the model knows its documents, whatever the texts say"


@pytest.mark.parametrize("tokens", TOKENS)
def test_a_text_goes_on_as_one_whole_reading_says(tokens, tmp_path):
    """In generation the document of a new token follows the last separator; here the prompt ends with one."""
    _, task = masked(tmp_path, data=TOKENS[tokens])
    model = build(resolve_spec(task)).double().eval()
    ids = torch.tensor(task._ids("First:\nSpeak.\n\nAll:\n\n"))
    assert model.tokens(ids).document[-1] == 1
    written = generate(model, ids[None], 16, Sampling(temperature=1.0), seed=2)[0]
    for _ in range(3):  # documents that begin among the new tokens too
        ids = torch.cat([ids, torch.tensor(task.passages.separator()), written[:3]])
    following = []
    for _ in range(8):
        following.append(int(model(torch.cat([ids, torch.tensor(following, dtype=torch.long)]))[-1].argmax()))
    assert generate(model, ids[None], 8)[0].tolist() == following


def test_a_run_says_the_same_of_new_texts(tmp_path):
    found, task = masked(tmp_path, budget={"steps": 3})
    fit(found, task, tmp_path / "run")
    _, recalled = load_task(tmp_path / "run")
    model = load_run(tmp_path / "run")
    assert recalled._ids("a\n\nb") == task._ids("a\n\nb")
    assert recalled.predict(model, ["To be\n\n"], steps=4)[0].answer == task.predict(model, ["To be\n\n"], steps=4)[0].answer


def test_the_separator_stands_between_the_documents_of_files(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one two"}\n{"text": "two one"}\n' * 20)
    passages = Passages(Language(train=str(tmp_path / "a.jsonl"), context=8, separator="<|end|>", tokens="pieces", vocabulary=260))
    text = passages.tokenizer.decode(passages.ids["train"].tolist())
    assert text.startswith("one two<|end|>two one<|end|>one two")
    ids, separator = passages.ids["train"].tolist(), list(passages.separator())
    assert sum(ids[i : i + len(separator)] == separator for i in range(len(ids))) == text.count("<|end|>")


REFUSED = {
    "no separator": ({"data": {"separator": None}}, r"the texts are one document: there is no data\.separator.*Set it, such as"),
    "none in the texts": ({"data": {"separator": "§"}}, r"data\.separator, '§', does not occur in the training part.*Set it to"),
    "no text of the tokens": (
        {"data": {"separator": "ZZZ"}}, r"data\.separator, 'ZZZ', does not occur in the training part"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_texts_without_documents_are_refused_before_anything_is_trained(name, tmp_path):
    changes, said = REFUSED[name]
    _, task = masked(tmp_path, **changes)
    with pytest.raises(InputError, match=said):
        resolve_spec(task)
    _, plain = masked(tmp_path, "causal", **changes)
    assert "input" not in resolve_spec(plain).to_dict(), "another mask needs none"


WITHOUT = {
    "images": (lambda folder: test_images.plain(folder), {"block": {"attention": {"mask": "documents"}}}),
    "translation": (
        lambda folder: test_translation.asked(folder).to_dict(),
        {"encoder": {"block": {"attention": {"mask": "documents"}}}},
    ),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_tasks_without_documents_are_refused(name, tmp_path):
    made, model = WITHOUT[name]
    task = open_task(recipe(merged(made(tmp_path), {"model": model})))
    with pytest.raises(InputError, match=rf"the data of the task {task.name} has no documents\. Choose another mask"):
        resolve_spec(task)


def test_documents_are_kept_apart_in_every_layer_or_in_none(tmp_path):
    heads = [{"attention": {"causal": True, "mask": mask}} for mask in ("documents", "everything")]
    _, task = masked(tmp_path, model={"block": heads})
    with pytest.raises(InputError, match=r"Some layers have the mask documents.*Give the mask to all layers, or to none"):
        resolve_spec(task)


def test_an_empty_separator_is_refused(tmp_path):
    with pytest.raises(InputError, match=r'data\.separator is "", but takes a text in quotes that is not empty or "none"'):
        masked(tmp_path, data={"separator": ""})
