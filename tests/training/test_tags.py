"""Labels of words: files of lines and of lists, spans, words that are not read, and a run beside its simple models."""

import json

import numpy as np
import pytest

from equiscope.data.tagged_texts import TaggedTexts, Tags, read
from equiscope.errors import InputError
from equiscope.models import build
from equiscope.training import evaluate, open_task, predict, recipe, resolve_spec, train
from equiscope.training.answers import WordLabels, word_labels
from equiscope.training.draft import look
from equiscope.training.reading import merged


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sentences(count=100):
    """A number is a plural if a three stands before it: the word alone does not say the label."""
    chance = np.random.default_rng(0)
    for _ in range(count):
        words = chance.choice(["one", "three", "cat", "dog"], int(chance.integers(3, 8))).tolist()
        yield [
            (word, "NUM" if word in ("one", "three") else "PLURAL" if i and words[i - 1] == "three" else "NOUN")
            for i, word in enumerate(words)
        ]


def conll(path, texts=None):
    texts = list(sentences()) if texts is None else texts
    path.write_text("\n\n".join("\n".join(f"{word} {label}" for word, label in text) for text in texts) + "\n", encoding="utf-8")
    return path


def plain(path, **changes):
    return merged(
        {
            "title": "words", "seed": 1, "data": {"task": "tags", "train": str(path), "test_held_out": 0.2, "vocabulary": 300},
            "model": {"width": 16, "layers": 1, "block": {"attention": {"heads": 2, "position": "t5"}}},
            "budget": {"steps": 120, "batch": 32}, "optimiser": {"rate": 1e-2, "warmup": 5}, "evaluation": {"every": 60},
        },
        changes,
    )  # fmt: skip


def test_the_label_of_a_word_depends_on_its_neighbours(here):
    run = train(plain(conll(here / "t.conll")), here / "run")
    assert list(run.result["test"]) == ["accuracy", "f1", "exact", "loss", "texts", "words"]
    found = evaluate(here / "run")["test"]
    assert found["accuracy"].value > 0.85
    assert set(found.simple) == {"majority", "linear", "most frequent label"}
    assert found.simple["most frequent label"]["accuracy"] < found["accuracy"].value
    assert found["f1 PLURAL"].low <= found["f1 PLURAL"].value
    assert sum(map(sum, found.confusion)) == found["words"].value
    new = evaluate(here / "run", conll(here / "new.txt"))["data"]  # without the training data
    assert new["texts"].value == 100
    (answer,) = predict(here / "run", ["three cat one dog"])
    assert answer.arrays["words"] == ["three", "cat", "one", "dog"]
    assert answer.answer.split()[2] == "one/NUM"
    assert answer.arrays["labels"][::2] == ["NUM", "NUM"]
    (here / "words.txt").write_text("three\ncat\n\none\n", encoding="utf-8")
    assert [a.arrays["words"] for a in predict(here / "run", ["words.txt"])] == [["three", "cat"], ["one"]]


def test_files_of_lines_and_of_lists_hold_the_same(here):
    texts = list(sentences(5))
    conll(here / "t.txt", texts)
    (here / "t.jsonl").write_text(
        "\n".join(json.dumps({"tokens": [w for w, _ in text], "tags": [t for _, t in text]}) for text in texts), encoding="utf-8"
    )
    lines = [f"{i}\t{w}\tx\t{t}\t_" for text in texts for i, (w, t) in [*enumerate(text, 1), (0, ("", ""))]]
    rows = ["# a comment", "1-2\tonethree\t_\t_\t_", *("" if line.startswith("0\t") else line for line in lines)]
    (here / "t.conllu").write_text("\n".join(rows), encoding="utf-8")
    each = [[(one.text, one.target) for one in read([here / name], Tags(train=""))] for name in ("t.txt", "t.jsonl", "t.conllu")]
    assert each[0] == each[1] == each[2]
    assert each[0][0] == (tuple(w for w, _ in texts[0]), [t for _, t in texts[0]])


def test_columns_say_which_are_the_word_and_the_label(here):
    (here / "t.tsv").write_text("NOUN\tx\tcat\nNUM\tx\tone\n\nNUM\tx\tone\n", encoding="utf-8")
    found = read([here / "t.tsv"], Tags(train="", columns=(3, 1)))
    assert [(one.text, one.target) for one in found] == [(("cat", "one"), ["NOUN", "NUM"]), (("one",), ["NUM"])]
    assert found[1].where.endswith("t.tsv, lines 4 to 4")


def test_f1_of_spans_counts_a_span_that_is_right_from_end_to_end():
    texts = [["a", "b", "c", "d"], ["a", "b"]]
    answer = word_labels(texts, [["B-X", "I-X", "O", "B-Y"], ["I-X", "O"]])  # an I-X without a B-X begins a span
    assert answer.in_spans
    index = {name: i for i, name in enumerate(answer.classes)}
    true = np.array([index[name] for name in ("B-X", "I-X", "O", "B-Y", "I-X", "O")])
    predicted = np.array([index[name] for name in ("B-X", "O", "O", "B-Y", "I-X", "O")])
    values = {one.name: one.point for one in answer.of_texts(texts, predicted, true)}
    assert values["span f1"] == pytest.approx(2 * 2 / (3 + 3))  # of 3 spans 2 are right, and 3 are given
    assert values["accuracy"] == pytest.approx(5 / 6)
    assert values["exact"] == 0.5
    assert not WordLabels(classes=["NOUN", "B-X"]).in_spans


def test_the_simple_model_takes_the_most_frequent_label_of_each_word():
    answer = word_labels([["a", "a", "a", "b"]], [["X", "X", "Y", "Y"]])
    assert answer.usual == {"a": "X", "b": "Y"}
    assert [answer.classes[i] for i in answer.most_frequent([["a", "b", "new"]])] == ["X", "Y", "X"]


def test_words_that_are_not_read_are_counted_and_get_the_most_frequent_label(here):
    task = open_task(recipe(plain(conll(here / "t.conll"), data={"length": 8, "tokens": "bytes"})))
    assert any("are not read: their texts have more than 8 tokens" in note for note in task.notes)
    model = build(resolve_spec(task))
    found = task.outcomes(model, "test")
    assert found.extra["words"] == len(task.targets["test"])  # all are measured
    batch = task.batch(0)
    assert batch.terms == len(batch.tensors["targets"]) < sum(len(words) for words in task.words["train"])
    both = [task.batch(0, share, 2) for share in (0, 1)]
    assert sum(len(one.tensors["targets"]) for one in both) == batch.terms == both[0].terms


def test_faults_come_all_at_once(here):
    (here / "t.conll").write_text("one NUM\ncat\n\ndog NOUN x\n\t\tNOUN\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        TaggedTexts(Tags(train=str(here / "t.conll")))
    said = str(caught.value)
    assert "line 2 has 1 column, where 2 are needed: 'cat'" in said
    assert "line 4 has 3 columns" in said
    rows = [{"tokens": ["a", "b"], "tags": ["X"]}, {"tokens": [], "tags": []}, {"tokens": ["a"]}, {"words": ["a"], "tags": ["X"]}]
    (here / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        TaggedTexts(Tags(train=str(here / "t.jsonl")))
    said = str(caught.value)
    assert "line 1 has 2 words in 'tokens', but 1 label in 'tags'." in said
    assert "line 3 has no list of words 'tags'; it has: tokens." in said
    assert "line 4 has no list of words 'tokens'; it has: words, tags." in said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {"columns": [0, 1]}}, "data.columns counts from 1"),
        ({"model": {"readout": "mean"}}, "gives one answer a text, but each word has a label"),
        ({"data": {"tokens": "checkpoint"}}, "model has no start"),
    ],
)
def test_what_does_not_fit_is_refused(here, changes, said):
    with pytest.raises(InputError) as caught:
        resolve_spec(open_task(recipe(plain(conll(here / "t.conll"), **changes))))
    assert said in str(caught.value)


def test_a_label_that_training_does_not_have_is_named(here):
    conll(here / "a.conll")
    conll(here / "b.conll", [[("cat", "VERB"), ("dog", "VERB")]])
    with pytest.raises(InputError, match=r"b\.conll, lines 1 to 2: cat has the class 'VERB', which is none of: NOUN, NUM, PLURAL"):
        open_task(recipe(plain(here / "a.conll", data={"validation": str(here / "b.conll")})))


def test_new_recognises_words_with_labels(here):
    draft = look([str(conll(here / "t.conll"))])
    assert "t.conll has 100 texts with" in draft.understood[0]
    assert (draft.data["task"], draft.data["test_held_out"]) == ("tags", 0.1)
    open_task(recipe(draft.recipe()))
    assert look([str(conll(here / "t.txt"))]).data["task"] == "tags"
    rows = [{"id": [1], "words": [w for w, _ in text], "ner_tags": [len(t) for _, t in text]} for text in sentences()]
    (here / "t.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    draft = look([str(here / "t.jsonl")])
    assert (draft.data["field"], draft.data["label"]) == ("words", "ner_tags")
    assert sorted(open_task(recipe(draft.recipe())).classes) == ["3", "4", "6"]  # numbers of classes are labels too
    (here / "spans.conll").write_text("a B-X\nb I-X\nc O\n\n" * 15 + "d B-Y\ne O\n\n" * 10, encoding="utf-8")
    assert "The labels mark spans" in look([str(here / "spans.conll")]).understood[1]
    (here / "poem.txt").write_text("two words\n\n" * 300, encoding="utf-8")  # lines of text
    assert look([str(here / "poem.txt")]).data["task"] == "language"
