"""`equiscope guard`, as its users type it: what it prints, its JSON, and its exit codes."""

import json
import sys

import msgspec
import pytest

from equiscope.cli import main
from equiscope.record import Guarded

MODELS = """
from tests.models import zoo_guard as zoo

leak, fine = zoo.LeakInPairs, zoo.Base
counts_first, proper = zoo.tilted(31, True), zoo.tilted(31, False)
number = 3
"""


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Type a command in a folder with models; the exit code, the output, and the error stream."""
    (tmp_path / "mine.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)

    def type_in(*words):
        monkeypatch.setattr(sys, "argv", ["equiscope", "guard", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out = capsys.readouterr()
        return ended.value.code or 0, out.out, out.err

    return type_in


def test_a_healthy_model_exits_with_0(said):
    code, out, err = said("mine.py:fine")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "mine.py:fine: the model passed.",
        "38 calls of 5, 16, 17, 33, 64, 65, 128, 256, 520 tokens; the future replaced at 22 positions.",
    ]


def test_a_leak_exits_with_1_and_says_what_finds_the_module(said):
    code, out, err = said("mine.py:leak", "--longest", "17")
    lines = out.splitlines()
    assert (code, err) == (1, "")
    assert lines[0].startswith("mine.py:leak: the model failed (future, ")
    assert lines[1].endswith("it reads later tokens.")
    assert lines[-1] == "equiscope check mine.py:leak --property causal finds the module and the operation."


def test_the_json_has_both_inputs(said):
    code, out, _ = said("mine.py:leak", "--longest", "17", "--json")
    found = msgspec.json.decode(out, type=Guarded)
    assert (code, found.verdict, found.kind, found.vocabulary) == (1, "broken", "future", 31)
    assert [i for i, (a, b) in enumerate(zip(found.tokens, found.other, strict=True)) if a != b] == found.changed
    assert found.position < found.changed[0]
    assert set(json.loads(out)) == {f.name for f in msgspec.structs.fields(Guarded)}
    code, out, _ = said("mine.py:fine", "--longest", "17", "--json")
    found = msgspec.json.decode(out, type=Guarded)
    assert (code, found.holds, found.kind, found.lengths) == (0, True, "", [5, 9, 16, 17])


def test_a_scorer_that_counts_the_scored_token_fails(said):
    code, out, _ = said("mine.py:counts_first", "--scorer", "--vocab", "31")
    assert code == 1
    assert "its probabilities sum to more than one" in out
    assert said("mine.py:proper", "--scorer", "--vocab", "31")[0] == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mine.py:proper", "--scorer"], "Add --vocab"),
        (["mine.py:number", "--scorer", "--vocab", "9"], "is no function"),
        (["mine.py:gone", "--scorer", "--vocab", "9"], "no class or function of mine.py called 'gone'"),
        (["mine.py:number"], "neither a torch.nn.Module nor something that makes one"),
    ],
)  # fmt: skip
def test_what_is_no_model_is_said(said, words, sentence):
    code, out, err = said(*words)
    assert (code, out) == (2, "")
    assert sentence in err
