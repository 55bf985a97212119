"""`equiscope generate`: text from a checkpoint on the command line."""

import io
import json
from types import SimpleNamespace

import pytest
import torch
from tests.checkpoints.test_parity import peer
from tests.cli.test_cli import equi, refused  # noqa: F401
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import equiscope as eq
from equiscope.models import PRESETS, Beams, generate


@pytest.fixture
def folder(tmp_path):
    """A tiny GPT-2 whose fifty tokens are bytes, so that some signs take several of them."""
    model = peer("gpt2")
    model.config.eos_token_id = None
    model.save_pretrained(tmp_path)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    some = [c for c in alphabet if c.isascii()][:40] + [c for c in alphabet if not c.isascii()][:10]
    bytewise = Tokenizer(models.BPE({c: i for i, c in enumerate(some)}, [], unk_token=some[0]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    bytewise.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_it_goes_on_with_a_text(equi, folder):  # noqa: F811
    code, out, err = equi("generate", folder, "12:34", "--steps", 20)
    assert code == 0
    assert out.startswith("12:34")
    assert "20 tokens in" in err
    code, out_json, _ = equi("generate", folder, "12:34", "--steps", 20, "--json")
    found = json.loads(out_json)
    wanted = generate(eq.load(folder), torch.tensor(found["ids"]), 20)[0].tolist()
    assert found["new_ids"] == wanted
    assert out == "12:34" + found["text"] + "\n"


def test_without_a_tokenizer_it_takes_ids(equi, folder):  # noqa: F811
    (folder / "tokenizer.json").unlink()
    code, out, _ = equi("generate", folder, "1, 2 3", "--ids", "--steps", 5)
    assert code == 0
    assert [int(n) for n in out.split()] == generate(eq.load(folder), torch.tensor([1, 2, 3]), 5)[0].tolist()
    refused(equi("generate", folder, "12"), "has no tokenizer.json", "--ids")
    (folder / "tokenizer.model").write_bytes(b"of SentencePiece")
    refused(equi("generate", folder, "12"), "has tokenizer.model, but no tokenizer.json", "AutoTokenizer.from_pretrained(", "--ids")
    (folder / "tokenizer.model").unlink()
    for wrong in ("one two", "9" * 20, "-1"):
        refused(equi("generate", folder, "--ids", "--", wrong), "is a list of ids")


def test_a_smaller_model_may_go_ahead(equi, folder, tmp_path_factory):  # noqa: F811
    other = tmp_path_factory.mktemp("smaller")
    eq.save(eq.build(PRESETS["gpt2"](8, 1, 2, 50, 64)).eval(), other)
    plain = equi("generate", folder, "1 2 3", "--ids", "--steps", 12)
    code, out, err = equi("generate", folder, "1 2 3", "--ids", "--steps", 12, "--draft", other)
    assert (code, out) == (0, plain[1])
    assert "12 tokens in" in err
    refused(equi("generate", folder, "1 2", "--ids", "--draft", other, "--beams", 2), "Leave --draft out")
    eq.save(eq.build(PRESETS["gpt2"](8, 1, 2, 40, 64)).eval(), other)
    refused(equi("generate", folder, "1 2", "--ids", "--draft", other), "vocabulary of 40")
    refused(equi("generate", folder, "1 2", "--ids", "--draft", other / "no"), "There is no folder")


def test_a_prompt_may_be_piped_in(equi, folder, monkeypatch):  # noqa: F811
    def piped(*words, text):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
        return equi("generate", folder, "-", "--steps", 5, *words)

    assert piped(text=b"12:34\r\n")[1] == equi("generate", folder, "12:34", "--steps", 5)[1]
    assert piped("--ids", text=b"1\n2 3\n")[1] == equi("generate", folder, "1 2 3", "--ids", "--steps", 5)[1]
    refused(piped(text=b""), "Nothing is piped in. Give a prompt")
    refused(piped(text=b"\xff"), "is not UTF-8")


def test_it_ends_where_the_checkpoint_says(equi, folder):  # noqa: F811
    wanted = generate(eq.load(folder), torch.tensor([1, 2, 3]), 9)[0].tolist()
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [wanted[2]]}))
    _, out, _ = equi("generate", folder, "1 2 3", "--ids", "--steps", 9)
    assert [int(n) for n in out.split()] == wanted[: wanted.index(wanted[2]) + 1]


def test_beams_search_for_the_best(equi, folder):  # noqa: F811
    code, out, err = equi("generate", folder, "1 2 3", "--ids", "--steps", 9, "--beams", 3, "--length-penalty", 0.6)
    wanted = generate(eq.load(folder), torch.tensor([1, 2, 3]), 9, beams=Beams(3, 0.6))[0].tolist()
    assert code == 0
    assert [int(n) for n in out.split()] == wanted
    assert "9 tokens in" in err
    refused(equi("generate", folder, "1 2 3", "--ids", "--beams", 3, "--top-k", 4, "--temperature", 1), "which samples nothing")
    refused(equi("generate", folder, "1 2 3", "--ids", "--beams", 40), "40 beams need a vocabulary of 80")


@pytest.mark.parametrize("name", ["t5", "marian"])
def test_of_a_pair_the_prompt_is_what_the_encoder_reads(equi, tmp_path, name):  # noqa: F811
    theirs = peer(name)
    theirs.config.decoder_start_token_id = 49
    theirs.config.eos_token_id = None
    theirs.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    ours, source, start = eq.load(tmp_path), torch.tensor([5, 6, 7]), torch.tensor([49])
    code, out, _ = equi("generate", tmp_path, "5 6 7", "--ids", "--steps", 7)
    assert code == 0
    assert [int(n) for n in out.split()] == generate(ours, start, 7, source=source)[0].tolist()
    code, out, _ = equi("generate", tmp_path, "5 6 7", "--ids", "--steps", 7, "--beams", 2, "--json")
    found = json.loads(out)
    assert found["ids"] == [5, 6, 7]
    assert found["new_ids"] == generate(ours, start, 7, source=source, beams=Beams(2))[0].tolist()
    config = json.loads((tmp_path / "config.json").read_text())
    del config["decoder_start_token_id"], config["pad_token_id"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    refused(equi("generate", tmp_path, "5 6", "--ids"), "has no first token of the decoder")


def test_padding_that_a_folder_forbids_is_not_written(equi, tmp_path):  # noqa: F811
    """A Marian of the hub: bad_words_ids name its padding, which nothing else keeps from being written."""
    theirs = peer("marian")
    theirs.save_pretrained(tmp_path)
    ours, source, start = eq.load(tmp_path), torch.tensor([5, 6, 7]), torch.tensor([49])
    free = generate(ours, start, 7, source=source)[0].tolist()
    (tmp_path / "generation_config.json").write_text(
        json.dumps({"bad_words_ids": [[free[0]], [1, 2]], "decoder_start_token_id": 49})
    )
    for more in ((), ("--beams", 2)):
        code, out, _ = equi("generate", tmp_path, "5 6 7", "--ids", "--steps", 7, *more)
        assert code == 0
        assert free[0] not in [int(n) for n in out.split()]
    for field, wrong in (
        ("bad_words_ids", [3]),
        ("eos_token_id", "</s>"),
        ("eos_token_id", [1, None]),
        ("decoder_start_token_id", True),
    ):
        (tmp_path / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": 49} | {field: wrong}))
        refused(equi("generate", tmp_path, "5 6 7", "--ids"), field)


def test_a_window_is_what_is_seen(equi, folder):  # noqa: F811
    code, out, _ = equi("generate", folder, "1 2 3", "--ids", "--steps", 20, "--window", 3)
    assert code == 0
    assert [int(n) for n in out.split()] == generate(eq.load(folder), torch.tensor([1, 2, 3]), 20, window=3)[0].tolist()
    refused(equi("generate", folder, "12", "--steps", 70, "--window", 3), "A window limits the mask")


def test_a_seed_repeats(equi, folder):  # noqa: F811
    words = ("generate", folder, "12", "--steps", 20, "--temperature", 1.5, "--top-k", 20, "--seed")
    assert equi(*words, 3)[1] == equi(*words, 3)[1] != equi(*words, 4)[1]


def test_mistakes_are_sentences(equi, folder, tmp_path):  # noqa: F811
    refused(equi("generate", tmp_path / "nowhere", "12"), "There is no folder")
    refused(equi("generate", folder, ""), "A prompt is empty")
    refused(equi("generate", folder, "12", "--steps", 70), "knows positions 0..63", "there is room for 63 tokens.")
    assert equi("generate", folder, "12", "--steps", 70)[1] == ""
    refused(equi("generate", folder, "12", "--repetition-penalty", 0), "repetition_penalty is in")
    refused(equi("generate", folder, "12", "--top-k", 3), "temperature 0 samples nothing")
    refused(equi("generate", folder, "12", "--length-penalty", 2), "Add --beams 4")
    refused(equi("generate", folder, "12", "--beams", 2, "--length-penalty", 400), "length_penalty is in")
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "generation_config.json").mkdir()
    refused(equi("generate", folder, "12"), "cannot be read")
    (folder / "generation_config.json").rmdir()
    (folder / "tokenizer.json").write_text("{}")
    refused(equi("generate", folder, "12"), "is no tokenizer")
