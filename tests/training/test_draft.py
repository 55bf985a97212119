"""`equiscope new`: what is understood of data, a split without leaks, and a recipe that runs as it stands."""

import gzip
import json
import time
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equiscope.cli.new import new
from equiscope.errors import InputError
from equiscope.training import open_task, read_recipe
from equiscope.training.draft import RecipeDraft, StepTime, fit_budget, look, timed, timing, toml
from equiscope.training.draft.words import columns_of
from equiscope.training.reading import recipe
from equiscope.training.task import size_warnings
from tests.cli.test_cli import equi, refused  # noqa: F401

SAMPLES = Path(__file__).parents[2] / "recipes" / "samples"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(timing, "STEPS", 2)
    return tmp_path


def pictures(folder, each=12, size=(10, 8), seed=0, names=("cat", "dog")):
    chance = np.random.default_rng(seed)
    for name in names:
        (folder / name).mkdir(parents=True)
        for i in range(each):
            Image.fromarray(chance.integers(0, 256, size, dtype=np.uint8)).save(folder / name / f"{i:03}.png")
    return folder


def opened(draft, folder=Path()):
    """The task of a draft, with the files that belong to it."""
    for name, content in draft.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return open_task(recipe(draft.recipe()), folder)


def test_pictures_in_folders_of_classes(here):
    draft = look([str(pictures(here / "pets"))])
    assert draft.understood[0].endswith("pets has 24 pictures of 2 classes, one folder for each: cat (12), dog (12).")
    assert (draft.data["size"], draft.model["block"]["attention"]["position"]) == ([16, 16], "learned-nd")
    task = opened(draft)
    counts = {part: sum(task.class_counts(part).values()) for part in task.parts}
    assert counts == {"train": 18, "validation": 2, "test": 4}


def test_copies_of_a_picture_are_in_one_part(here):
    folder = pictures(here / "pets", each=30)
    for i in range(0, 30, 3):  # as frames of a video: a brighter copy
        pixels = np.asarray(Image.open(folder / "cat" / f"{i:03}.png")).astype(np.int16)
        Image.fromarray(np.clip(pixels + 1, 0, 255).astype(np.uint8)).save(folder / "cat" / f"copy{i:03}.png")
    draft = look([str(folder)])
    assert any("20 pictures are nearly copies of another" in warning for warning in draft.warnings), draft.warnings
    part_of = {
        line.split(",")[0]: name for name, content in draft.files.items() for line in content.splitlines()[1:]
    }  # fmt: skip
    copies = [file for file in part_of if "copy" in file]
    assert len(copies) == 10
    assert all(part_of[file] == part_of[file.replace("copy", "")] for file in copies)
    assert set(part_of.values()) == set(draft.files)
    opened(draft)


def test_folders_of_parts_are_kept(here):
    for part in ("train", "val", "test"):
        pictures(here / "pets" / part, each=6, seed=len(part))
    draft = look([str(here / "pets")])
    assert "The folders train, val, test are the parts, and are kept." in draft.understood
    assert sorted(opened(draft).parts) == ["test", "train", "validation"]


def test_parts_by_longer_names_are_parts_and_folders_that_may_be_parts_are_named(here):
    for number, part in enumerate(("Training Set", "test_images", "val-data")):
        pictures(here / "pets" / part, each=6, seed=number)
    assert "The folders Training Set, val-data, test_images are the parts, and are kept." in look([str(here / "pets")]).understood
    for number, part in enumerate(("fold1", "fold2")):
        pictures(here / "folds" / part, each=6, seed=number)
    assert "Each of these folders has the folders cat, dog. If those are the classes" in look([str(here / "folds")]).warnings[-1]


def test_few_pictures_of_a_class_are_named(here):
    pictures(here / "pets")
    pictures(here / "more", each=5, names=("eel",))
    (here / "more" / "eel").rename(here / "pets" / "eel")
    assert any("Fewer than 10 examples: eel (5)" in warning for warning in look([str(here / "pets")]).warnings)


def test_idx_files_in_either_order():
    files = [str(SAMPLES / f"fashion-{name}.gz") for name in ("images", "labels")]
    one, other = look(files), look(files[::-1])
    assert one.data == other.data
    assert one.data["train"] == files
    opened(one)


def test_sounds_without_enough_speakers_or_takes_are_in_parts_by_chance():
    draft = look([str(SAMPLES / "fsdd")])
    assert "File names name fewer than 5 speakers: the parts may share voices, so the result is too good." in draft.understood
    assert list(opened(draft).parts) == ["train", "validation", "test"]


@pytest.mark.parametrize(("speakers", "takes", "field"), [(5, 2, "speaker"), (2, 12, "index"), (1, 12, "index")])
def test_sounds_are_split_by_speaker_or_by_take(here, speakers, takes, field):
    (here / "said").mkdir()
    chance = np.random.default_rng(1)
    for label in ("no", "yes"):
        for speaker in ("ann", "bob", "cy", "dee", "eve")[:speakers]:
            for take in range(takes):
                with wave.open(str(here / "said" / f"{label}_{speaker}_{take}.wav"), "wb") as file:
                    file.setparams((1, 2, 8000, 0, "NONE", ""))
                    file.writeframes(chance.integers(-9000, 9000, 1600, dtype=np.int16).tobytes())
    draft = look(["said"])
    kept = {part: {r.name_fields[field] for r in rs} for part, rs in opened(draft).recordings.parts.items()}
    assert set(draft.data["where"]["test"]) == {field}
    assert not kept["train"] & kept["test"]
    assert not kept["train"] & kept["validation"]
    assert not kept["validation"] & kept["test"]


def test_parallel_texts_have_a_source_in_one_part_only(here):
    lines = [f"word {i % 90} of many" for i in range(120)]
    (here / "a.en").write_text("\n".join(lines) + "\n")
    (here / "a.de").write_text("\n".join(f"Wort {i} von vielen" for i in range(120)) + "\n")
    draft = look(["a.en", "a.de"])
    sources = {name: {line.split("\t")[0] for line in content.splitlines()[1:]} for name, content in draft.files.items()}
    assert sum(map(len, sources.values())) == 90
    assert any(sentence.startswith("30 sources have several targets") for sentence in draft.understood)
    opened(draft)
    (here / "a.de").write_text("one\n")
    with pytest.raises(InputError, match=r"a\.en has 120 lines, but a\.de has 1"):
        look(["a.en", "a.de"])


def test_a_dictionary_is_pairs(here):
    rows = [f"w{chr(97 + i % 26)}{chr(97 + i // 26)} W {i % 26} AH0  # note" for i in range(100)]
    (here / "said.dict").write_text("\n".join([*rows, "waa(2) W AH1"]))
    draft = look(["said.dict"])
    assert "waa\tW AH1" in "".join(draft.files.values())
    assert "#" not in "".join(draft.files.values())
    assert draft.data["vocabulary"] == 400


def test_a_table_of_two_texts_is_pairs_whatever_its_separator(here):
    rows = "".join(f'{i};"How old is {i}? Say; now";it is {i} years old\n' for i in range(80))
    (here / "asked.csv").write_text("id;question;answer\n" + rows)
    draft = look(["asked.csv"])
    assert draft.understood[0].startswith("The columns question and answer of asked.csv are pairs: 80 pairs")
    opened(draft)


def test_plain_text(here):
    draft = look([str(SAMPLES / "tinyshakespeare.txt")])
    assert (draft.data["tokens"], draft.model["block"]["attention"]["causal"]) == ("characters", True)
    opened(draft)


def test_molecules_with_their_names_and_unit():
    draft = look([str(SAMPLES / "ethanol.npz")])
    assert (draft.data["keys"]["energy"], draft.data["unit"]) == ("energies", "kcal/mol")
    assert any("one composition" in warning for warning in draft.warnings)
    opened(draft)


def test_lone_atoms_are_references(here):
    frame = "2\nProperties=species:S:1:pos:R:3 REF_energy={:.3f}\nH 0 0 0\nH 0 0 {:.3f}\n"
    atom = "1\nProperties=species:S:1:pos:R:3 REF_energy=-13.6 config_type=IsolatedAtom\nH 0 0 0\n"
    (here / "h2.xyz").write_text(atom + "".join(frame.format(-31.0 - i / 100, 0.7 + i / 100) for i in range(40)))
    draft = look(["h2.xyz"])
    assert draft.data["keys"] == {"energy": "REF_energy", "forces": "none"}
    assert "Isolated atoms: 1 frame. They are the reference energies, not examples." in draft.understood
    opened(draft)


@pytest.mark.parametrize(
    ("stated", "unit", "sentence"),
    [
        ("eV", "eV", "Energies are in eV, as the frames state."),
        ("KCAL/MOL", "kcal/mol", "Frames state the unit 'KCAL/MOL'. However: By their size the energies are in eV"),
        ("furlong", "eV", "Frames state the unit 'furlong', which is not one of eV, meV, kcal/mol"),
    ],
)
def test_the_unit_that_frames_state_is_taken_and_a_doubt_is_said(here, stated, unit, sentence):
    frame = "2\nenergy={} units=" + stated + "\nH 0 0 0\nH {} 0 0\n"
    (here / "h2.xyz").write_text("".join(frame.format(-31.2 - i / 1000, 0.7 + i / 100) for i in range(40)))
    draft = look(["h2.xyz"])
    assert draft.data["unit"] == unit
    assert any(line.startswith(sentence) for line in [*draft.understood, *draft.warnings])


def test_frames_that_are_copies_are_left_out(here):
    frame = "2\nProperties=species:S:1:pos:R:3 energy={:.3f}\nH 0 0 0\nH 0 0 {:.3f}\n"
    (here / "h2.xyz").write_text("".join(frame.format(-31.0 - i % 36 / 100, 0.7 + i % 36 / 100) for i in range(40)))
    draft = look(["h2.xyz"])
    assert draft.data["drop"] == {"train": [36, 37, 38, 39]}
    assert any(
        one.startswith("4 frames are copies of an earlier one, and left out (data.drop): 36, 37") for one in draft.understood
    )
    opened(draft)


def test_periodic_frames_have_a_cutoff(here):
    head = '2\nLattice="6 0 0 0 6 0 0 0 6" Properties=species:S:1:pos:R:3 energy={:.3f} pbc="{}"\nH 0 0 0\nH 0 0 {:.3f}\n'
    (here / "box.xyz").write_text("".join(head.format(-31.0 - i / 100, "T T T", 0.7 + i / 100) for i in range(40)))
    draft = look(["box.xyz"])
    assert draft.model["cutoff"] == 5.0
    opened(draft)
    (here / "slab.xyz").write_text("".join(head.format(-31.0 - i / 100, "T T F", 0.7 + i / 100) for i in range(40)))
    slabs = opened(look(["slab.xyz"])).frames.parts["train"]
    assert slabs[0].periodic == (True, True, False)
    assert slabs[0].cell[:2].tolist() == [[6, 0, 0], [0, 6, 0]]
    assert slabs[0].cell[2].tolist() == pytest.approx([0, 0, 200 + float(slabs[0].positions[1, 2])])


def test_a_table_of_texts_and_classes_among_other_columns(here):
    rows = "".join(f"{i % 7 / 10},{('good', 'bad')[i % 2]},a text with number {i} in it\n" for i in range(60))
    (here / "said.csv").write_text("confidence,sentiment,words\n" + rows)
    draft = look(["said.csv"])
    assert (draft.data["field"], draft.data["label"]) == ("words", "sentiment")
    assert "A model that always answers 'bad' would be right in 50%." in draft.understood
    assert sorted(opened(draft).parts) == ["test", "train", "validation"]


def test_a_table_of_texts_and_numbers(here):
    (here / "said.tsv").write_text("text\tprice\n" + "".join(f"a text of number {i}\t{i * 0.37}\n" for i in range(60)))
    draft = look(["said.tsv"])
    assert (draft.data["numbers"], draft.data["task"]) == (["price"], "texts")
    opened(draft)


def test_texts_in_folders_of_classes(here):
    for name in ("good", "bad"):
        (here / "reviews" / name).mkdir(parents=True)
        for i in range(15):
            (here / "reviews" / name / f"{i}.txt").write_text(f"{name} is what this number {i} is, I say")
    draft = look(["reviews"])
    assert draft.understood[0] == "reviews has 30 texts of 2 classes, one folder for each: bad (15), good (15)."
    opened(draft)
    with pytest.raises(InputError, match="--start is for texts with a class"):
        look([str(SAMPLES / "tinyshakespeare.txt")], "somewhere")


def test_what_is_not_known_is_refused(here):
    (here / "a.pdf").write_text("x")
    (here / "a.what").write_text("x")
    (here / "shards").mkdir()
    for i in range(2):
        (here / "shards" / f"{i}.parquet").write_bytes(b"PAR1")
    (here / "none.csv").write_text("a,b,label\n" + ",,\n" * 40)
    (here / "one.conll").write_text("word O\n\n" * 40)
    (here / "empty").mkdir()
    (here / "few.csv").write_text("a,b\n1,2\n")
    (here / "not.csv").write_text('a,b\n"open,1\n')
    (here / "not.jsonl").write_text('{"a": 1}\n[2]\n')
    (here / "bad.jsonl").write_text('{"a": 1}\n{"a"\n')
    (here / "bad.npz").write_text("PK nothing")
    (here / "nothing.csv").write_text("")
    (here / "packed.csv.gz").write_bytes(b"not packed")
    (here / "one.png").write_bytes(b"x")
    pictures(here / "pets", each=2)
    for names, sentence in (
        (["nowhere"], "There is no nowhere"), (["a.pdf"], "is a .pdf, which is not read"), (["a.what"], "has no known ending"),
        (["empty"], "empty is empty"),
        (["not.csv"], "a quotation mark is opened"),
        (["not.jsonl"], "line 2 is no table of names and values"),
        (["bad.jsonl"], "line 2"), (["bad.npz"], "bad.npz cannot be read"), (["nothing.csv"], "nothing.csv is empty"),
        (["shards"], r"but files that end in \.parquet\. Save each as \.csv: python"),
        (["none.csv"], r"The column label of none\.csv is empty, and it is to be predicted"),
        (["one.conll"], r"Every word of one\.conll has the label 'O'"),
        (["few.csv"], "fewer than two are numbers or categories"),
        (["packed.csv.gz"], "packed.csv.gz is damaged"), (["one.png"], "one.png is one picture"),
        (["pets"], r"need 4 pictures .* fewer of: cat \(2\), dog \(2\)"),
        (["a.pdf", "few.csv", "pets"], "3 files are no data set that is known"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=sentence):
            look(names)


WORDS = [f"{first}{second}" for first in ("app", "bea", "clo", "dogs", "eag", "fox") for second in ("les", "rs", "uds")]
SAID = [
    (f"{start} {word}", label) for word in WORDS for start, label in (("a lovely film of", "good"), ("never watch these", "bad"))
]


def written(path, rows, head="text,label"):
    path.write_text(head + "\n" + "".join(",".join(row) + "\n" for row in rows), encoding="utf-8")


def test_texts_that_are_nearly_copies_are_in_one_part(here):
    shouted = [(f"{text.upper()}!!", label) for text, label in SAID[:20]]
    shouted[3] = (shouted[3][0], "bad" if shouted[3][1] == "good" else "good")  # another text, so both classes can be right
    longer = [
        (f"{SAID[k][0]} which everybody praised so much last year {end}", SAID[k][1]) for k in (20, 21) for end in ("yes", "no")
    ]
    written(here / "said.csv", [*SAID, *shouted, *longer, ("a lovely film of foxuds", "bad")])
    draft = look(["said.csv"])
    assert any(
        "44 texts are nearly copies of another, such as 'a lovely film of apples' and 'A LOVELY" in w for w in draft.warnings
    )
    assert any(
        "1 text has copies of another class, such as 'a lovely film of foxuds' with bad and good" in w for w in draft.warnings
    )
    at: dict[str, set[str]] = {}
    for name, text in draft.files.items():
        for line in text.splitlines()[1:]:
            at.setdefault(line.lower().replace("!", "").rsplit(",", 1)[0].split(" year")[0], set()).add(name)
    assert all(len(names) == 1 for names in at.values())
    assert sorted(opened(draft).parts) == ["test", "train", "validation"]


def test_texts_of_one_author_are_in_one_part(here):
    written(here / "said.csv", [(*row, f"w{i % 9}") for i, row in enumerate(SAID)], "text,label,author_id")
    draft = look(["said.csv"])
    authors = {
        name: {SAID.index(tuple(line.split(",")[:2])) % 9 for line in text.splitlines()[1:]} for name, text in draft.files.items()
    }
    assert sum(map(len, authors.values())) == 9


def test_tables_of_parts_are_kept_and_leaks_are_named(here):
    (here / "said").mkdir()
    written(here / "said" / "train.csv", SAID[:30])
    written(here / "said" / "test.csv", SAID[24:])
    draft = look(["said"])
    assert (draft.data["test"], draft.data["held_out"]) == ("said/test.csv", 0.1)
    assert any("6 texts of the test part are nearly copies" in warning for warning in draft.warnings)
    opened(draft)


def test_several_labels_of_a_text(here):
    rows = [{"text": text, "tags": [label] + ["animal"] * ("dogsrs" in text)} for text, label in SAID]
    (here / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft = look(["said.jsonl"])
    assert draft.data["labels"] == "tags"
    assert "animal (2), bad (18), good (18)" in draft.understood[0]
    opened(draft)


def test_a_list_under_any_name_is_several_labels_and_an_object_is_said_to_be_left_out(here):
    rows = [{"text": text, "label": [label, "all"], "meta": {"by": "me"}} for text, label in SAID]
    (here / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft = look(["said.jsonl"])
    assert draft.data["labels"] == "label"
    assert "all (36), bad (18), good (18)" in draft.understood[0]
    assert draft.warnings[-1].endswith(
        "objects: meta. To use what is in one: jq -c '. + .meta | del(.meta)' said.jsonl > flat.jsonl"
    )
    opened(draft)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["0,5", "1,25"], r"line 2: '0,5' is not read as a number, but the column z holds numbers, and 39 others are so\. Write"),
        (["1,200", "17"], r"'1,200' is not read as a number.* and 19 others are so\. Write numbers such as 1234\.5"),
        (["12 %", "3.5%"], r"'12 %' is not read as a number"), (["$5", "$ 7.20"], r"'\$5' is not read as a number"),
        (["NA", "1.5"], r"'NA' is not read as a number.*Leave such cells empty"), (["2.5", "inf"], r"line 3: 'inf' is not read"),
        (["none", "some"], None), (["", "1.5"], None), (["2020-01-02", "2020-01-03"], None),
    ],
)  # fmt: skip
def test_a_number_in_another_notation_is_no_category(here, cells, said):
    rows = [f"{i % 7}.5;{'ab'[i % 2]};{cells[i % 2]}" for i in range(40)]
    (here / "t.csv").write_text("\n".join(["x;kind;z", *rows]))
    if said is None:
        look(["t.csv"])
        return
    with pytest.raises(InputError, match=said):
        look(["t.csv"])


def test_a_separator_that_is_not_known_and_a_comment_are_named(here):
    for name, first, sign, sentence in (
        ("a.csv", "text^label", "^", r"has one column, 'text\^label', but '\^' seems to stand between several"),
        ("b.csv", "text::label", "::", "but ':' seems to stand between several"),
        ("c.csv", "# by me\ntext,label", ",", "is a comment, '# by me'. Take out such lines"),
    ):
        (here / name).write_text("\n".join([first, *(sign.join(row) for row in SAID)]))
        with pytest.raises(InputError, match=sentence):
            look([name])


def test_a_folder_of_other_files_says_their_ending(here):
    (here / "set").mkdir()
    (here / "set" / "a.heic").write_bytes(b"ftyp")
    with pytest.raises(
        InputError, match=r"set has no file that is read here, but files that end in \.heic\. Convert each to \.png\. Known"
    ):
        look(["set"])


def test_a_long_line_that_is_compressed_is_read_at_once(here):
    text = "to be, or not to be " * 200_000  # 4 MB; byte by byte this takes seconds
    (here / "t.txt.gz").write_bytes(gzip.compress(text.encode()))
    start = time.process_time()
    assert columns_of(here / "t.txt.gz") is None
    assert time.process_time() - start < 0.5  # measured: 0.02


def test_a_folder_of_molecules_with_a_table_is_its_table(here):
    (here / "set" / "m").mkdir(parents=True)
    for i in range(40):
        (here / "set" / "m" / f"{i}.xyz").write_text(f"2\n\nH 0 0 0\nH {0.7 + i / 100} 0 0\n")
    (here / "set" / "t.csv").write_text("file,gap\n" + "".join(f"m/{i}.xyz,{i / 10}\n" for i in range(40)))
    draft = look(["set"])
    assert draft.data["task"] == "points"
    assert "gap" in draft.understood[0]


def test_all_lines_of_a_table_that_do_not_fit_are_named_at_once(here):
    rows = [",".join(row) for row in SAID]
    rows[3], rows[7], rows[9], rows[12] = rows[3] + ",more", "no end", ",good", "an empty label,"
    (here / "said.csv").write_text("text,label\n" + "\n".join(rows))
    with pytest.raises(InputError) as error:
        look(["said.csv"])
    for sentence in (
        "said.csv, line 5 has 3 columns, but the first line names 2: see that", "said.csv, line 9 has 1 column, but",
        "said.csv, line 11 has nothing in the column text.", "said.csv, line 14 has nothing in the column label.",
        "Correct these lines, or take them out.",
    ):  # fmt: skip
        assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("name", "how"), [("a b, c.csv", ""), ("日本.csv", "\ufeff"), ("said.csv.gz", "\r\n"), ("said.csv", "sep=;\n")]
)
def test_a_table_by_any_name_and_of_any_program(here, name, how):
    text = "text,label\n" + "".join(",".join(row) + "\n" for row in SAID)
    text = how + text.replace(",", ";") if "sep" in how else text.replace("\n", how) if how == "\r\n" else how + text
    data = text.encode()
    (here / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    draft = look([name])
    assert draft.understood[0].endswith("a class, label: bad (18), good (18).")
    opened(draft)


def test_columns_without_a_name_and_apostrophes_around_cells_are_told(here):
    written(here / "pandas.csv", [(str(i), f"'{text}'", label) for i, (text, label) in enumerate(SAID)], ",text,label")
    draft = look(["pandas.csv"])
    assert draft.understood[0].endswith("a class, label: bad (18), good (18).")
    assert draft.understood[-1] == "Not read: 1 column without a name in the first line."
    assert [one for one in draft.warnings if one.startswith("Every cell of text stands between apostrophes")]
    opened(draft)
    (here / "bars.csv").write_text("| text | label |\n|---|---|\n" + "".join(f"| {text} | {label} |\n" for text, label in SAID))
    with pytest.raises(InputError, match="names no columns, but reads like data"):
        look(["bars.csv"])


def test_pictures_that_are_not_read_whole_are_told(here):
    folder = pictures(here / "pets")
    frames = [Image.new("RGBA", (8, 8), (i, i, i, 0)) for i in range(0, 200, 100)]
    frames[0].save(folder / "dog" / "moves.gif", save_all=True, append_images=frames[1:])
    (folder / "dog" / "phone.heic").write_bytes(b"heic")
    draft = look(["pets"])
    assert "Of 1 picture with several frames the first is read. 1 picture is transparent in places" in draft.understood[1]
    assert draft.warnings[-1] == "1 file that ends in .heic is not read. Convert each to .png."
    for content, said in ((b"", "is empty"), (b"<html>", "is a web page"), (b"version https://git-lfs.github.com/spec/v1", "LFS")):
        (folder / "cat" / "000.png").write_bytes(content)
        with pytest.raises(InputError, match=said):
            look(["pets"])


def test_classes_that_cannot_be_learned_are_refused(here):
    written(here / "one.csv", [(text, "good") for text, _ in SAID])
    written(here / "each.csv", [(text, f"c{i}") for i, (text, _) in enumerate(SAID)])
    written(here / "head.csv", SAID[1:], ",".join(SAID[0]))
    written(here / "rare.csv", [*SAID, ("a strange thing", "odd"), ("an other strange thing", "odd")])
    pictures(here / "pets", names=("cat",))
    for name, sentence in (
        ("one.csv", "Every example of one.csv has the label 'good'"), ("each.csv", "36 different values for 36 examples"),
        ("head.csv", "names no columns, but reads like data"), ("pets", "are of the class cat"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=sentence):
            look([name])
    draft = look(["rare.csv"])
    assert "Classes with fewer than 4 texts are only learned from: odd." in draft.understood
    assert "odd" not in draft.files["rare-test.csv"] + draft.files["rare-validation.csv"]


def test_damaged_pictures_are_named_at_once(here):
    folder = pictures(here / "pets")
    for name in ("cat/001.png", "dog/005.png"):
        (folder / name).write_bytes(b"\x89PNG")
    for act in (lambda: look(["pets"]), lambda: open_task(recipe(IMAGES), here)):
        with pytest.raises(InputError, match=r"cat/001\.png cannot .* 1 other has the same fault; the last: .*dog/005\.png"):
            act()


IMAGES = {
    "title": "Pets", "data": {"task": "images", "train": "pets"}, "budget": {"steps": 2, "batch": 2},
    "model": {"width": 8, "layers": 1, "input": {"patch": [2, 2]}, "block": {"attention": {"heads": 2}}},
}  # fmt: skip


def test_pictures_by_names_links_and_beside_hidden_files(here):
    folder = pictures(here / "ünï, 日本")
    (folder / "__MACOSX" / "cat").mkdir(parents=True)
    (folder / ".DS_Store").write_text("x")
    (folder / "cat" / "._000.png").write_text("x")
    (folder / "cat" / "nowhere.png").symlink_to("/nowhere/1.png")
    (here / "flat").mkdir()
    for i, file in enumerate(sorted(folder.rglob("[0-9]*.png"))):
        (here / "flat" / f"{file.parent.name}_{i}.png").symlink_to(file)
    draft, flat = look([str(folder)]), look(["flat"])
    assert "24 pictures of 2 classes" in draft.understood[0]
    assert "the first word of their names, such as cat_0.png: cat (12), dog (12)" in flat.understood[0]
    for one in (draft, flat):
        opened(one)


def test_pictures_of_several_channels_are_read_in_colour(here):
    folder = pictures(here / "pets")
    for file in (folder / "dog").iterdir():
        Image.open(file).convert("RGB").save(file)
    draft = look(["pets"])
    assert "12 in colour and 12 in shades of grey: all are read in colour" in draft.understood[1]
    assert opened(draft).format.channels == 3


def test_classes_in_a_folder_within_a_folder(here):
    pictures(here / "download" / "v1" / "images")
    draft = look(["download"])
    assert draft.understood[0] == "download has one folder, and all files are in download/v1/images."
    opened(draft)


def test_groups_in_file_names_are_in_one_part(here):
    folder = pictures(here / "pets", each=40)
    for name in ("cat", "dog"):
        for i in range(40):
            (folder / name / f"{i:03}.png").rename(folder / name / f"p{i // 4}_{i % 4}.png")
    draft = look(["pets"])
    people = [{line.split("/")[-1].split("_")[0] for line in text.splitlines()[1:]} for text in draft.files.values()]
    assert sum(map(len, people)) == 10
    opened(draft)


@pytest.mark.parametrize("values", ["bytes", "shares", "colour", "words"])
def test_arrays_of_pictures(here, values):
    chance = np.random.default_rng(0)
    x, y = chance.integers(0, 256, (40, 9, 7), dtype=np.uint8), np.arange(40) % 2
    held = {"shares": x / 255, "colour": np.stack([x] * 3, 1)}.get(values, x)
    np.savez("pets.npz", images=held, labels=np.array(["cat", "dog"])[y] if values == "words" else y[:, None])
    draft = look(["pets.npz"])
    task = opened(draft)
    assert sum(task.class_counts("train").values()) == 40 - 2 * (4 + 2)
    assert task.format.channels == (3 if values == "colour" else 1)
    assert list(task.classes) == (["cat", "dog"] if values == "words" else ["0", "1"])


@pytest.mark.parametrize(("bits", "dark"), [(12, True), (16, False)])
def test_arrays_of_sixteen_bits_are_said_to_become_eight(here, bits, dark):
    x = np.random.default_rng(0).integers(0, 2**bits, (40, 9, 7), dtype=np.uint16)
    np.savez("scans.npz", images=x, labels=np.arange(40) % 2)
    draft = look(["scans.npz"])
    assert "Shades are of 16 bits: they are divided by 257, and 65,535 becomes 255." in draft.understood
    assert any("of 65,535, so its pictures are dark" in warning for warning in draft.warnings) is dark


@pytest.mark.parametrize("form", ["{part}_images", "x_{part}"])
def test_arrays_of_parts(here, form):
    chance, names = np.random.default_rng(0), {"train": 30, "val": 10, "test": 12}
    pixels = {part: chance.integers(0, 256, (count, 8, 8), dtype=np.uint8) for part, count in names.items()}
    labels = {part: np.arange(count) % 3 for part, count in names.items()}
    images, targets = form, form.replace("images", "labels").replace("x_", "y_")
    np.savez(
        "all.npz", **{images.format(part=p): x for p, x in pixels.items()}, **{targets.format(part=p): y for p, y in labels.items()}
    )
    task = opened(look(["all.npz"]))
    assert {part: sum(task.class_counts(part).values()) for part in task.parts} == {"train": 30, "validation": 10, "test": 12}
    assert not any("memorisation" in note for note in task.notes)
    with pytest.raises(InputError, match="The test part is defined twice"):
        open_task(recipe({**IMAGES, "data": {"task": "images", "train": "all.npz", "test": "all.npz"}}), here)


def test_arrays_that_are_no_pictures_are_refused(here):
    x, y = np.zeros((9, 8, 8), np.uint8), np.arange(9)
    for name, arrays, sentence in (
        ("a", {"a": x, "b": y}, "none is known as energy of molecules .* pictures are called images and labels"),
        ("b", {"images": x - 8.0, "labels": y}, "has values from -8 to -8. Give shades"),
        ("c", {"images": x, "labels": y[1:]}, "has 8 labels for 9 pictures"),
        ("d", {"images": x, "labels": np.eye(9)}, r"is of shape \[9, 9\] and type float64"),
        ("e", {"images": x[0], "labels": y}, r"is of shape \[8, 8\]"), ("f", {"images": x}, "but no labels"),
        ("g", {"images": x, "labels": y}, "Three parts need 4"), ("i", {"images": x[:0], "labels": y[:0]}, "it holds no picture"),
        ("h", {"images": np.array([x, 1], object), "labels": y}, "run code"),
    ):  # fmt: skip
        np.savez(f"{name}.npz", **arrays)
        with pytest.raises(InputError, match=sentence):
            look([f"{name}.npz"])


def test_a_recipe_in_another_folder_finds_its_files(equi, here):  # noqa: F811
    folder = pictures(here / "pets")
    (folder / "cat" / "copy.png").write_bytes((folder / "cat" / "000.png").read_bytes())
    (here / "there").mkdir()
    code, _, err = equi("new", "pets", "--out", "there/pets.toml", "--minutes", 60)
    assert code == 0, err
    assert (here / "there" / "pets-train.csv").read_text().splitlines()[1].startswith("../pets/cat/")


def test_a_budget_is_one_of_minutes():
    draft = RecipeDraft("x", {}, {}, examples=1000, epochs=100, batch=10, understood=[])
    assert fit_budget(draft, StepTime(0.1, 1.0, 5, []), 60) == "about 17 minutes here, 100 epochs (100 ms a step)"
    assert "30,000" not in fit_budget(draft, StepTime(0.1, 1.0, 5, []), 5)
    assert (draft.steps, draft.recipe()["budget"]["minutes"]) == (2890, 5)
    slow = RecipeDraft("x", {}, {}, examples=1000, epochs=100, batch=10, understood=[])
    fit_budget(slow, StepTime(0.1, 20.0, 5, []), 5)
    assert (slow.evaluations, slow.recipe()["evaluation"]["every"]) == (3, 1200), "a fifth of the minutes is for evaluations"
    with pytest.raises(InputError, match="A step takes 60 s here, so 5 minutes are"):
        fit_budget(draft, StepTime(60, 1.0, 5, []), 5)


def test_few_texts_get_a_proposal_to_fine_tune(here):
    (here / "few.csv").write_text("text,label\n" + "".join(f"the {'cat' if i % 2 else 'oak'} {i},{i % 2}\n" for i in range(80)))
    assert any("Prefer --start " in warning for warning in look(["few.csv"]).warnings)
    assert not any("--start" in warning for warning in look(["few.csv"], "checkpoint").warnings)


def test_bfloat16_is_written_only_where_it_is_faster(here):
    (here / "short.csv").write_text("text,label\n" + "".join(f"{'cat' if i % 2 else 'oak'} {i},{i % 2}\n" for i in range(80)))
    draft = look(["short.csv"])
    timed(draft, here)
    written = draft.recipe().get("engine", {})
    assert written in ({}, {"precision": "bfloat16"})
    assert ("engine.precision" in draft.comments) == bool(written)
    assert not RecipeDraft("x", {"task": "molecules"}, {}, 10, 1, 1, []).halved


def test_the_printed_commands_work_as_they_stand(equi, here):  # noqa: F811
    pictures(here / "pets")
    code, out, _ = equi("new", "pets", "--explain")
    assert (code, list(here.glob("*.toml"))) == (0, [])
    assert "pets has 24 pictures" in out
    code, out, _ = equi("new", "pets", "--minutes", 60, "--json")
    facts = json.loads(out)
    assert (code, facts["recipe"]) == (0, "pets.toml")
    budget = read_recipe(Path("pets.toml")).budget
    assert (budget.steps, budget.minutes) == (facts["steps"], 60)
    refused(equi("new", "pets"), "pets.toml is there already", "--force")
    train, evaluate, predict = (command.split()[1:] for command in facts["commands"])
    assert equi(*train, "--set", "budget.steps=3", "--set", "warmup=1", "--out", "runs/pets")[0] == 0
    assert "accuracy" in equi(*evaluate)[1]
    assert equi(*predict)[1].startswith("pets/dog/")


def test_a_refused_budget_leaves_no_files(here):
    folder = pictures(here / "pets")
    (folder / "cat" / "copy.png").write_bytes((folder / "cat" / "000.png").read_bytes())
    with pytest.raises(InputError, match="Give more --minutes"):
        new(["pets"], None, None, 1e-6, explain=False, json=False, force=False)
    assert not [*here.glob("*.csv"), *here.glob("*.toml")]


def test_a_recipe_is_commented(here):
    draft = look([str(pictures(here / "pets"))])
    text = toml(draft, "about 4 minutes here")
    assert f"steps = {draft.steps}  # about 4 minutes here" in text
    assert text.startswith(f"# {draft.understood[0]}")
    Path("x.toml").write_text(text)
    assert read_recipe(Path("x.toml")).to_dict() == recipe(draft.recipe()).to_dict()


def test_a_run_warns_of_few_examples_and_of_a_small_validation_part(here):
    pictures(here / "pets")
    task = opened(look(["pets"]))
    few, interval = size_warnings(task)
    assert few == "2 of 2 classes have fewer than 10 training examples: cat (9), dog (9)."
    assert interval.startswith("The validation part has 2 examples, so an accuracy near 50 % is known to ±69%")
    many = opened(look([str(pictures(here / "many", each=600, size=(4, 4)))]))
    assert sum(many.class_counts("validation").values()) == 120
    assert len(size_warnings(many)) == 1  # 120 examples: ±9 %


def test_a_run_warns_of_few_examples_of_a_label_and_of_few_numbers_to_choose_by(here):
    rows = [{"text": text, "tags": [label] + ["animal"] * ("dogsrs" in text)} for text, label in SAID]
    (here / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (few,) = size_warnings(opened(look(["said.jsonl"])))
    assert few.startswith("1 of 3 labels have fewer than 10 training examples: animal (")
    written(here / "priced.csv", [(f"{text} for {i}", str(i / 7)) for i, (text, _) in enumerate(SAID * 2)], "text,price")
    (unsure,) = size_warnings(opened(look(["priced.csv"])))
    assert unsure.startswith("The validation part has 6 examples, so a mean error on it is known to about ±60% of itself")
    assert "The validation part has 4 examples" in size_warnings(opened(look([str(SAMPLES / "ethanol.npz")])))[0]
