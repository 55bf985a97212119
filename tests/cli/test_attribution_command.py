"""`equiscope explore --attribution`: the page of an answer, and what it refuses."""

import json

import pytest
from tests.cli.test_cli import equi

__all__ = ["equi"]  # the fixture
TEXT = "To be, or"


def test_the_command_makes_it(equi, tmp_path):
    code, out, err = equi("explore", TEXT, "--model", "characters", "--attribution", "--token", 4, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["read"] == [4]
    code, out, _ = equi("explore", TEXT, "--model", "characters", "--attribution", "--export", tmp_path / "a.html")
    assert (code, "works offline" in out) == (0, True)


def test_a_molecule_has_one(equi):
    code, out, err = equi("explore", "--model", "ethanol", "--attribution", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["sequence"]["labels"][:3] == ["C0", "C1", "O2"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((TEXT, "--attribution"), "--attribution needs a model. Add --model"),
        ((TEXT, "--model", "characters", "--token", 3), "--token 3 is for --attribution"),
        ((TEXT, "--model", "characters", "--attribution", "--token", 99), "answers after 9 tokens, counted from 0, but token 99"),
        ((TEXT, "--model", "characters", "--attribution", "--causal"), "--attribution shows one model without --causal"),
        (("none.xyz", "--attribution"), "--attribution needs a model"),
        (("none.xyz", "--model", "ethanol", "--attribution", "--token", 1), "takes no --token"),
        (("a", "--model", "characters", "--attribution"), "The answer is read at token 0 alone"),
    ],
)
def test_what_it_refuses(equi, options, said):
    code, _, err = equi("explore", *options)
    assert code == 2
    assert said in " ".join(err.split())
