"""Every command, given a path or a name that cannot be: one sentence and exit code 2, and nothing is changed or run."""

import io
import os
import sys

import pytest

from equiscope import budgets
from equiscope.cli import main

READERS = {
    "describe": ("describe", "{}"),
    "check": ("check", "{}", "--seconds=1"),
    "explore a drawing": ("explore", "--model", "{}", "--json"),
    "explore heads": ("explore", "a b", "--model", "{}", "--json"),
    "explore a picture": ("explore", "--page=tokens", "--image={}", "--json"),
    "explore a sound": ("explore", "--page=tokens", "--audio={}", "--json"),
    "generate": ("generate", "{}", "a"),
    "train": ("train", "{}"),
    "compare": ("compare", "{}", "--vary=width=8,16"),
    "evaluate": ("evaluate", "{}"),
    "predict": ("predict", "{}", "a"),
}
NAMES = [
    "n" * 300, "n/" * 3000, "missing", "missing/", "loop", "file/inside", "\udcff", "new\nline", "", "~nobody-is-called-so/x",
    "$(touch planted)", "/proc/self/mem", "/proc/missing", "empty", "deep.json", "deep.toml",
]  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("words")
    (tmp_path / "empty").write_text("")
    (tmp_path / "deep.json").write_text("[" * 5000)
    (tmp_path / "deep.toml").write_text("a = " + "[" * 5000)
    return tmp_path


def said(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["equiscope", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err


@pytest.mark.parametrize("arguments", READERS.values(), ids=READERS)
def test_names_that_cannot_be_read_are_said(here, monkeypatch, capsys, arguments):
    before = sorted(os.listdir(here))
    for name in NAMES:
        code, err = said(monkeypatch, capsys, *(word.format(name) for word in arguments))
        assert code == 2, name
        assert err.startswith("equiscope: "), (name, err)
        assert len(err) < 2500, (name, err)
    assert sorted(os.listdir(here)) == before


@pytest.mark.parametrize("name", ["pipe", "pipe.json", "pipe.toml", "pipe.png", "pipe.xyz"])
@pytest.mark.parametrize(  # most commands wait ten seconds for a writer, so one stands for all
    "arguments",
    [pytest.param(words, id=reader, marks=() if reader == "check" else pytest.mark.thorough) for reader, words in READERS.items()],
)
def test_a_pipe_that_nobody_writes_into_is_said(here, monkeypatch, capsys, arguments, name):
    os.mkfifo(here / name)
    code, err = said(monkeypatch, capsys, *(word.format(name) for word in arguments))
    assert code == 2
    assert err.startswith("equiscope: "), err


@pytest.mark.parametrize(
    "arguments",
    [
        ("table", "sinusoidal"),
        ("describe", "gpt2", "--json"),
        pytest.param(("describe",), marks=pytest.mark.thorough),
        ("data",),
        ("study", "--list"),
        ("check", "--list"),
        ("--help",),
    ],
)
def test_a_full_disk_behind_standard_output_is_said(monkeypatch, capsys, arguments):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        try:
            code, err = said(monkeypatch, capsys, *arguments)
        finally:
            monkeypatch.undo()
            os.close(os.dup(full.fileno()))
    assert code == 2
    assert "No space left on device" in err


@pytest.mark.parametrize(
    "content", [b"x" * (budgets.SETTINGS + 1), b"\xff\xfe", b"", "é".encode("utf-16"), b"\x80words"], ids=range(5)
)
def test_standard_input_has_a_budget_and_is_text(here, monkeypatch, capsys, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    code, err = said(monkeypatch, capsys, "generate", "missing", "-")
    assert code == 2
    assert err.startswith("equiscope: ")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("check", "weights.pt"), "is a pickle, which can run any code when it is opened; it is not read"),
        (("parity", "weights.pt", "gpt2"), "is a pickle"),
        (("check", "weights.npz"), "holds numbers and no module"),
        (("check", "gpt2", "--property", "shift"), "There is no property called 'shift'. shift is an action: give it as one."),
        (("check", "gpt2", "--action", "causal"), "There is no action called 'causal'. causal is a property: give it as one."),
        (("book", "--out", "mine.pdf"), "The book is one .html file or a folder, but got mine.pdf. Give --out mine.html."),
        (("check", "file:make"), "There is no module 'file'"),
    ],
)
def test_what_is_meant_is_said(here, monkeypatch, capsys, arguments, wanted):
    for name in ("weights.pt", "weights.npz"):
        (here / name).write_bytes(b"numbers")
    code, err = said(monkeypatch, capsys, *arguments)
    assert code == 2
    assert wanted in err


def test_the_list_of_commands_cuts_no_line_off(here, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["equiscope", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "..." not in capsys.readouterr().out.split("COMMAND [ARGS]...")[-1]
