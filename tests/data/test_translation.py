import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from equiscope.data import Translation
from equiscope.data.bpe_dropout import BpeDropout
from equiscope.data.translation import Pairs
from equiscope.errors import InputError
from equiscope.tokens.tokenizer import by_characters, by_pieces

SAMPLES = Path(__file__).parents[2] / "recipes" / "samples"


def proverbs(**fields):
    return Translation(
        **{
            "train": ("proverbs-train.en", "proverbs-train.de"),
            "validation": ("proverbs-validation.en", "proverbs-validation.de"),
            "vocabulary": 400,
        }
        | fields
    )


def open_file(**fields):
    return Pairs(proverbs(**fields), 0, SAMPLES)


def written(folder: Path, source: str | bytes, target: str | bytes, names=("a.en", "a.de")) -> tuple[str, str]:
    for name, content in zip(names, (source, target), strict=True):
        content = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    return names


def refused(folder: Path, message: str, **fields):
    with pytest.raises(InputError, match=message):
        Pairs(proverbs(**fields), 0, folder)


def test_ids_of_a_pair_are_those_of_its_two_lines():
    pairs = open_file()
    source, target = ((SAMPLES / f"proverbs-train.{side}").read_text().splitlines() for side in ("en", "de"))
    for step in range(10):
        for row in pairs.batch(step, 8):
            assert pairs.tokenizer.decode(row.source.tolist()).strip() == source[row.pair]
            assert pairs.tokenizer.decode(row.target.tolist()).strip() == target[row.pair]
            assert row.source[-1] == row.target[-1] == pairs.end


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("size", [1, 7, 8, 72, 100])
def test_every_pair_comes_once_an_epoch(size, dropout):
    pairs = open_file(dropout=dropout)
    steps = -(-72 // size)
    for epoch in (0, 1):
        numbers = [row.pair for step in range(epoch * steps, (epoch + 1) * steps) for row in pairs.batch(step, size)]
        assert sorted(numbers) == list(range(72))


def test_one_very_long_pair_leaves_no_batch_empty(tmp_path):
    names = written(tmp_path, "a\n" * 9 + "a b c d e f g h i j k l m n o p q r s t u v w x y z\n" * 2, "b\n" * 11)
    pairs = Pairs(proverbs(train=names, validation=names), 0, tmp_path)
    assert all(pairs.batch(step, 1) for step in range(11))


def test_a_batch_has_little_padding():
    pairs = open_file()
    share = []
    for step in range(9):
        lengths = [len(row.source) for row in pairs.batch(step, 8)]
        share.append(1 - sum(lengths) / (max(lengths) * len(lengths)))
    everything = [len(row.source) for step in range(9) for row in pairs.batch(step, 8)]
    assert np.mean(share) < 0.6 * (1 - np.mean(everything) / max(everything))


def test_a_step_is_a_function_of_the_seed_and_its_number():
    one, other = open_file(dropout=0.3), open_file(dropout=0.3)
    late = [row.source.tolist() for row in one.batch(31, 8)]
    for step in range(32):
        again = [row.source.tolist() for row in other.batch(step, 8)]
    assert late == again
    assert late != [row.source.tolist() for row in Pairs(proverbs(dropout=0.3), 1, SAMPLES).batch(31, 8)]


def test_words_cut_at_random_are_the_same_words():
    pairs = open_file(dropout=0.5)
    plain = open_file()
    cuts = [{row.pair: row.source.tolist() for step in steps for row in pairs.batch(step, 8)} for steps in (range(9), range(9, 18))]
    for pair, (ids, _) in enumerate(zip(plain.ids["train"][0], range(72), strict=False)):
        text = plain.tokenizer.decode(ids.tolist())
        assert {plain.tokenizer.decode(cut[pair]) for cut in cuts} == {text}
    assert sum(cuts[0][pair] != cuts[1][pair] for pair in range(72)) > 60  # another way in each epoch


def test_without_dropout_pieces_are_those_of_the_tokenizer():
    tokenizer = by_pieces((SAMPLES / "proverbs-train.de").read_text(), 400)
    pieces, chance = BpeDropout(tokenizer, 0.0, 0), random.Random(0)
    for word in ("ĠBusch", "Ein", "Ġgutes", "Ġzz"):
        assert pieces.joined(word, chance) == [p.value for p in tokenizer.inner.model.tokenize(word)]


def test_dropout_is_refused_where_there_are_no_joins_of_pieces():
    with pytest.raises(InputError, match="WordLevel"):
        BpeDropout(by_characters("abc"), 0.1, 0)


def test_pieces_are_taught_by_the_training_part_alone(tmp_path):
    names = written(tmp_path, "one two\n" * 20, "eins zwei\n" * 20)
    other = written(tmp_path, "xylophone quartz\n" * 50, "Xylophon Quarz\n" * 50, ("v.en", "v.de"))
    pairs = Pairs(proverbs(train=names, validation=other, vocabulary=300), 0, tmp_path)
    assert not any("quar" in token.lower() for token in pairs.tokenizer.inner.get_vocab())


def test_a_word_is_the_same_piece_wherever_it_stands():
    pairs = open_file()
    first, second = pairs.tokenizer.encode("A friend")[0], pairs.tokenizer.encode("friend A")[-2]
    assert first == second


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
def test_tables_give_the_same_pairs_as_parallel_lines(tmp_path, kind):
    both = [("A, b", 'Ein "b"'), ("c d", "zwei"), ("e", "drei")]
    written(tmp_path, "".join(a + "\n" for a, _ in both), "".join(b + "\n" for _, b in both))
    if kind == "jsonl":
        text = "".join(json.dumps({"en": a, "de": b}) + "\n" for a, b in both)
    elif kind == "tsv":
        text = "de\ten\n" + "".join(f"{b}\t{a}\n" for a, b in both)
    else:
        text = "en,de\n" + "".join('"{}","{}"\n'.format(a, b.replace('"', '""')) for a, b in both)
    (tmp_path / f"a.{kind}").write_text(text)
    table = Pairs(proverbs(train=f"a.{kind}", fields=("en", "de"), held_out=0.34, validation=None), 0, tmp_path)
    lines = Pairs(proverbs(train=("a.en", "a.de"), held_out=0.34, validation=None), 0, tmp_path)
    for part in ("train", "validation"):
        assert [p[:2] for p in table.texts[part]] == [p[:2] for p in lines.texts[part]]
    assert len(table.texts["validation"]) == 1


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", 'source,target\na,b\n"c,' + "d\n" * 70_000, r"a\.csv, line 3 is not CSV: field larger than"),
        ("a.csv", 'source,target\na,b\nc,"d\ne,f\n', r"a\.csv, line 3 is not CSV: a quotation mark is opened there and not closed"),
        ("a.csv", "source,target\na,b\nc\rd,e\n", r"a\.csv, line 3 is not CSV: new-line character"),
        ("a.jsonl", '{"source": "a", "target": "b"}\n' + "[" * 200_000, r"a\.jsonl, line 2 is not JSON: more than 64 brackets"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(tmp_path, name, content, said):
    (tmp_path / name).write_text(content, newline="")
    refused(tmp_path, said, train=name, validation=None)


def test_empty_rows_of_a_table_are_none(tmp_path):
    (tmp_path / "a.tsv").write_text("source\ttarget\na dog\tein Hund\n\na cat\teine Katze\n\n", encoding="utf-8")
    config = proverbs(train="a.tsv", validation=None, held_out=0.5)
    assert sum(map(len, Pairs(config, 0, tmp_path).texts.values())) == 2


def test_lines_may_end_as_on_old_macs(tmp_path):
    names = written(tmp_path, "a b\rc\r", "d\re f\r")
    assert [p[:2] for p in Pairs(proverbs(train=names, validation=names), 0, tmp_path).texts["train"]] == [
        ("a b", "d"),
        ("c", "e f"),
    ]


def test_compressed_lines_are_read_as_they_are(tmp_path):
    names = written(tmp_path, "a b\nc\n", "d\ne f\n", ("a.en.gz", "a.de.gz"))
    assert [p[:2] for p in Pairs(proverbs(train=names, validation=names), 0, tmp_path).texts["train"]] == [
        ("a b", "d"),
        ("c", "e f"),
    ]


def test_signs_that_could_end_a_line_do_not_put_the_sides_out_of_step(tmp_path):
    names = written(tmp_path, "one\u2028mo\rre\r\nsecond\n", "eins\x0bmehr\nzweite")
    assert [p.target for p in Pairs(proverbs(train=names, validation=names), 0, tmp_path).texts["train"]] == [
        "eins\x0bmehr",
        "zweite",
    ]


def test_lower_makes_all_letters_small():
    assert Counter(c for p in open_file(lower=True).texts["validation"] for c in p.source + p.target if c.isupper()) == {}


def test_unequal_line_counts_are_refused_with_both(tmp_path):
    names = written(tmp_path, "a\nb\nc\n", "d\ne\n")
    refused(tmp_path, r"a\.en has 3 lines, but .*a\.de has 2\.", train=names, validation=names)


def test_an_empty_file_is_refused(tmp_path):
    names = written(tmp_path, "a\nb\n", "")
    refused(tmp_path, r"a\.de is empty", train=names, validation=names)


def test_a_line_that_is_no_text_is_refused_with_its_number(tmp_path):
    names = written(tmp_path, "a\nb\n", b"d\n\xff\n")
    refused(tmp_path, r"a\.de, line 2 is not UTF-8", train=names, validation=names)


@pytest.mark.parametrize("name", ["a.de.gz", "a.de.xz", "a.de.bz2"])
def test_a_damaged_archive_is_refused(tmp_path, name):
    names = written(tmp_path, "a\nb\n", b"", ("a.en", "x"))
    (tmp_path / name).write_bytes(b"\xfd7zXZ\x00 no such thing")
    refused(tmp_path, f"{name} is damaged", train=(names[0], name), validation=(names[0], name))


def test_training_pairs_with_an_empty_side_are_left_out_and_named(tmp_path):
    names = written(tmp_path, "a\n\nc\nd\n", "e\nf\ng\n \n")
    written(tmp_path, "a\n", "e\n", ("v.en", "v.de"))
    pairs = Pairs(proverbs(train=names, validation=("v.en", "v.de")), 0, tmp_path)
    assert [p.target for p in pairs.texts["train"]] == ["e", "g"]
    assert re.search("2 training pairs .* line 2", pairs.notes[0])


def test_a_pair_to_be_measured_with_an_empty_side_is_refused(tmp_path):
    names = written(tmp_path, "a\nb\n", "c\nd\n")
    other = written(tmp_path, "a\n\n", "c\nd\n", ("v.en", "v.de"))
    refused(tmp_path, r"v\.de, line 2: a side is empty", train=names, validation=other)


def test_training_pairs_that_are_too_long_are_left_out_and_counted(tmp_path):
    names = written(tmp_path, "a\nb " + "c " * 50 + "\n", "d\ne\n")
    pairs = Pairs(proverbs(train=names, validation=names, length=10), 0, tmp_path)
    assert [len(pairs.texts[part]) for part in ("train", "validation")] == [1, 2]  # what is measured stays whole
    assert re.search("1 training pair of more than 10 tokens .* line 2", pairs.notes[0])
    refused(tmp_path, "No training pair has 1 token a side", train=names, validation=names, length=1)


def test_the_same_file_on_both_sides_is_refused(tmp_path):
    written(tmp_path, "a\nb\n", "c\nd\n")
    refused(tmp_path, "same text", train=("a.en", "a.en"), validation=("a.en", "a.de"))


def test_a_table_without_the_columns_is_refused_with_those_it_has(tmp_path):
    (tmp_path / "a.tsv").write_text("en\tde\na\tb\n")
    refused(tmp_path, r"a\.tsv has the columns en, de, but no 'source'", train="a.tsv", validation=None)
    (tmp_path / "b.tsv").write_text("source\ttarget\na\tb\nc\n")
    refused(tmp_path, r"b\.tsv, line 3 has 1 cell, but", train="b.tsv", validation=None)
    (tmp_path / "c.jsonl").write_text('{"source": "a", "target": "b"}\n{"source": "a"}\n')
    refused(tmp_path, r"c\.jsonl, line 2 has no text 'target'", train="c.jsonl", validation=None)
    (tmp_path / "d.txt").write_text("a\tb\n")
    refused(tmp_path, r"d\.txt is no \.tsv", train="d.txt", validation=None)


def test_a_tokenizer_without_an_end_is_refused(tmp_path):
    by_characters("abcd\n ").save(tmp_path / "tokenizer.json")
    names = written(tmp_path, "a\nb\n", "c\nd\n")
    refused(tmp_path, "needs a token <end> or </s>", train=names, validation=names, tokens="tokenizer.json")
