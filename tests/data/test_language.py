"""Language: each position of a text is a target once an epoch, in one part only."""

import itertools
import tracemalloc

import numpy as np
import pytest
import torch

from equiscope.data import Language, Missing, Passages
from equiscope.data.language import IGNORED, SMALL
from equiscope.errors import InputError
from equiscope.tokens import by_characters
from tests.training.small import SAMPLE


@pytest.fixture
def text(tmp_path):
    """A file of a few thousand characters."""
    path = tmp_path / "text.txt"
    path.write_text(SAMPLE.read_text(encoding="utf-8")[:3000], encoding="utf-8")
    return path


def passages(text, cached_from=SMALL, **changes):
    return Passages(Language(**{"train": str(text), "context": 16, **changes}), seed=5, cached_from=cached_from)


def test_an_epoch_reads_every_place_once_and_begins_elsewhere_the_next_time(text):
    data = passages(text)
    count, span = data.sampler.count, 16
    length = len(data.ids["train"])
    data.ids["train"] = np.arange(length)  # every place says where it is
    firsts = []
    for epoch in range(3):
        rows = [data.batch(epoch * count + i, 1) for i in range(count)]
        places = sorted(int(x[0, 0]) for x, _ in rows)
        assert np.diff(places).tolist() == [span] * (count - 1)  # side by side: none twice, none left out
        assert places[-1] + 2 * span >= length - 1
        firsts.append(places[0])
    assert len(set(firsts)) > 1


def test_what_is_wanted_is_what_follows(text):
    x, y = passages(text).batch(3, 4)
    assert torch.equal(x[:, 1:], y[:, :-1])


def test_the_first_part_is_learned_and_the_rest_held_out(text):
    data, whole = passages(text, held_out=0.25), text.read_text(encoding="utf-8")
    assert "".join(data.text("train")) == whole[:2250]
    assert "".join(data.text("validation")) == whole[2250:]
    assert data.tokenizer.decode(data.ids["train"].tolist()) + data.tokenizer.decode(data.ids["validation"].tolist()) == whole
    assert data.characters == {"train": 2250, "validation": 750}


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5, 0.99])
def test_measuring_wants_every_place_but_the_first_once(text, overlap):
    data = passages(text, overlap=overlap)
    line = data.ids["validation"].astype(np.int64)
    found = []
    for x, y in data.passages("validation", 3):
        assert x.shape == y.shape
        assert len(x) <= 3
        found += y[y != IGNORED].tolist()
    assert found == line[1:].tolist()


def test_passages_that_overlap_know_what_came_before(text):
    half = passages(text, overlap=0.5)
    (x, y), (_, later) = itertools.islice(half.passages("validation", 2), 2)
    assert torch.equal(x[0, 8:], x[1, :8])
    assert (y[0] != IGNORED).all()
    assert y[1].tolist()[:8] == [IGNORED] * 8
    assert later[0].tolist()[:8] == [IGNORED] * 8


@pytest.mark.parametrize("tokens", ["characters", "bytes", "pieces"])
def test_a_large_text_is_mapped_and_gives_the_same_passages(text, tokens, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISCOPE_CACHE", str(tmp_path / "cache"))
    plain = passages(text, tokens=tokens, vocabulary=300)
    for _ in range(2):
        mapped = passages(text, 0, tokens=tokens, vocabulary=300)
        assert isinstance(mapped.ids["train"], np.memmap)
        assert mapped.tokenizer.inner.to_str() == plain.tokenizer.inner.to_str()
        for step in (0, 7):
            for one, other in zip(mapped.batch(step, 4), plain.batch(step, 4), strict=True):
                assert torch.equal(one, other)
        assert mapped.characters == plain.characters


@pytest.mark.parametrize("tokens", ["characters", "bytes"])
def test_a_text_is_never_in_memory_as_a_whole(text, tokens, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISCOPE_CACHE", str(tmp_path / "cache"))
    with (tmp_path / "large.txt").open("w", encoding="utf-8") as file:
        for _ in range(8000):
            file.write(text.read_text(encoding="utf-8"))
    tracemalloc.start()
    data = passages(tmp_path / "large.txt", tokens=tokens)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(data.characters.values()) == 8000 * 3000
    assert peak < 15e6  # a stretch and the table of signs; measured 6 to 10 MB, of a text of 24


def test_a_changed_text_is_another_line(text, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISCOPE_CACHE", str(tmp_path / "cache"))
    before = passages(text, 0).ids["train"].tolist()
    text.write_text(text.read_text(encoding="utf-8").replace("the", "THE"), encoding="utf-8")
    assert passages(text, 0).ids["train"].tolist() != before


def test_the_same_bytes_read_as_another_kind_are_another_line(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUISCOPE_CACHE", str(tmp_path / "cache"))
    for name in ("a.txt", "a.jsonl"):
        (tmp_path / name).write_text('{"text": "some words of a text"}\n' * 40)
    plain, fields = (passages(tmp_path / name, 0, tokens="bytes") for name in ("a.txt", "a.jsonl"))
    assert plain.tokenizer.decode(plain.ids["train"][:9].tolist()) == '{"text": '
    assert fields.tokenizer.decode(fields.ids["train"][:9].tolist()) == "some word"


def test_pieces_are_taught_by_the_training_part_alone(tmp_path):
    (tmp_path / "a.txt").write_text("low lower lowest " * 50)
    (tmp_path / "b.txt").write_text("zebra zebra zebra " * 50)
    data = passages(tmp_path / "a.txt", validation=str(tmp_path / "b.txt"), tokens="pieces", vocabulary=270)
    vocabulary = data.tokenizer.inner.get_vocab()
    assert any("low" in piece for piece in vocabulary)
    assert not any("ze" in piece for piece in vocabulary)


def test_characters_of_all_parts_are_known(tmp_path):
    (tmp_path / "a.txt").write_text("abab" * 20)
    (tmp_path / "b.txt").write_text("abzz" * 20)
    assert passages(tmp_path / "a.txt", validation=str(tmp_path / "b.txt")).tokenizer.size == 3


def test_a_folder_and_a_pattern_are_read_as_one_text(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(f"{name} text of some words\n" * 9)
    for name in (str(tmp_path), str(tmp_path / "*.txt")):
        data = passages(name)
        assert [source.name for source in data.sources] == [f"{tmp_path.name}/one.txt", f"{tmp_path.name}/two.txt"]
        assert "".join(data.text("train")).startswith("one text")
        assert "two text" in "".join(data.text("validation"))


def test_what_cannot_be_learned_from_is_refused_before(text, tmp_path):
    with pytest.raises(Missing, match=r"There is no nowhere\.txt"):
        passages("nowhere.txt")
    with pytest.raises(InputError, match=r"The validation part has 300 tokens, but one passage takes context \+ 1 = 301"):
        passages(text, context=300)
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(InputError, match=r"empty\.txt is empty: there is no text in it"):
        passages(tmp_path / "empty.txt")
    with pytest.raises(Missing, match=r"There is no charakters"):
        passages(text, tokens="charakters")


def test_a_character_that_a_tokenizer_from_elsewhere_does_not_know_is_said_with_its_line(text, tmp_path):
    by_characters(text.read_text(encoding="utf-8")).save(tmp_path / "tokenizer.json")
    (tmp_path / "other.txt").write_text("First\nsecond\nthird: ß\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"other\.txt, line 3: 'ß' \(U\+00DF\) has no id\..*\"bytes\" or \"pieces\""):
        passages(text, validation=str(tmp_path / "other.txt"), tokens=str(tmp_path / "tokenizer.json"))
