"""`equiscope compare` on the command line: what goes on, what is drawn again, what is refused, and where the answer stands."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from tests.cli.test_cli import equi, refused  # noqa: F401
from tests.cli.test_train import WORDS

from equiscope.cli import main
from equiscope.comparison import job, workers

pytestmark = pytest.mark.xdist_group("compare-command")
VARY = ("--vary", "heads=1,2")


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Path:
    """A folder with a recipe, a question, and a comparison of two runs that was made by the command."""
    folder = tmp_path_factory.mktemp("compared")
    (folder / "words.toml").write_text(WORDS)
    (folder / "words.txt").write_text("to be or not to be, that is the question\n" * 20)
    (folder / "heads.toml").write_text('question = "One or two?"\nrecipe = "words.toml"\nseeds = 1\n[vary]\nheads = [1, 2]\n')
    (folder / "odd.toml").write_text('question = "One?"\nrecipe = "words.toml"\nvarying = 1\n')
    words = ["compare", "words.toml", *VARY, "--seeds", "1", "--processes", "2", "--out", "both"]

    def run_all(folder, plan, processes, tick):
        for group in workers.left(folder, plan):
            tick(group)
            for one in group:
                job.run(folder, one, plan)

    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as answer, redirect_stderr(io.StringIO()) as errors:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["equiscope", *words])
        patch.setattr(workers, "run_all", run_all)  # in this process
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code, errors.getvalue()
    (folder / "said.txt").write_text(answer.getvalue())
    return folder


@pytest.fixture(autouse=True)
def here(compared, monkeypatch):
    monkeypatch.chdir(compared)


def test_the_answer_is_the_first_line_and_the_page_begins_with_it(compared):
    answer = (compared / "said.txt").read_text().splitlines()[0]
    assert answer.startswith("With one seed the spread is unknown, so nothing is decided: ")
    found = json.loads((compared / "both" / "comparison.json").read_text())
    assert found["answer"] == answer
    assert found["command"] == "equiscope compare words.toml --vary heads=1,2 --seeds 1 --out both"
    assert answer[:40] in (compared / "both" / "report.html").read_text()


def test_what_is_done_is_told_again_without_training(equi, compared):  # noqa: F811
    before = {path: path.stat().st_mtime_ns for path in (compared / "both" / "runs").rglob("*") if path.is_file()}
    for words in (("both",), ("both", "--redraw"), ("words.toml", *VARY, "--seeds", "1", "--out", "both")):
        code, out, _ = equi("compare", *words)
        assert code == 0
        assert out.splitlines()[0] == (compared / "said.txt").read_text().splitlines()[0]
    assert {path: path.stat().st_mtime_ns for path in (compared / "both" / "runs").rglob("*") if path.is_file()} == before


def test_a_comparison_is_json_and_is_drawn_again_from_it(equi, compared):  # noqa: F811
    kept = (compared / "both" / "comparison.json").read_text()
    code, out, _ = equi("compare", "both", "--json")
    assert (code, json.loads(out)) == (0, json.loads(kept))
    assert equi("compare", "both/comparison.json", "--out", "again")[0] == 0
    assert (compared / "again" / "comparison.json").read_text() == kept
    assert (compared / "again" / "report.html").exists()


def test_runs_that_were_made_alone_are_compared(equi):  # noqa: F811
    code, out, _ = equi("compare", "both/runs/heads-1/seed-0", "both/runs/heads-2/seed-0")
    assert code == 0
    assert out.startswith("With one seed the spread is unknown")


def test_jobs_are_only_written_down(equi, compared):  # noqa: F811
    code, out, _ = equi("compare", "heads.toml", "--jobs", "--out", "later")
    assert code == 0
    assert out == f"{Path('later/jobs.txt')}: a command for each run. When they are done: equiscope compare later\n"
    assert len((compared / "later" / "jobs.txt").read_text().splitlines()) == 2
    assert json.loads((compared / "later" / "plan.json").read_text())["question"] == "One or two?"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("words.toml",), "There is nothing to compare. Say what varies, such as --vary position=none,sinusoidal,rope."),
        (("words.toml", "--vary", "hedas=1,2"), "A recipe has no field hedas that could vary. Did you mean heads"),
        (("words.toml", "--vary", "heads=1"), "A comparison has two candidates or more, but got 1."),
        (("words.toml", "--vary", "heads=2,3"), "Candidate 'heads 3': "),
        (("words.toml", *VARY, "--seeds", "x"), "--seeds takes how many, or which: 3, or 1,5,9; but got 'x'."),
        (("words.toml", *VARY, "--seeds", "0"), "A comparison has 1 to 10000 seeds, but got 0."),
        (("words.toml", *VARY, "--seeds", "9" * 30), "A comparison has 1 to 10000 seeds, but got 9999"),
        (("words.toml", *VARY, "--equal", "speed"), "called 'speed'. Known: parameters, compute."),
        (("words.toml", *VARY, "--ray", "--jobs"), "--ray runs the jobs, and --jobs only writes them. Give one of them."),
        (("words.toml", *VARY, "--seeds", "2", "--out", "both"), "both holds another comparison: seeds: [0], now [0, 1]."),
        (("heads.toml", *VARY), "heads.toml says itself what varies. Leave --vary out, or give its recipe."),
        (("odd.toml", "--small"), "there is no field varying. Did you mean vary?"),
        (("both", "--looks", "2,3"), "both goes on with its own plan. Leave --looks out."),
        (("both", "--seeds", "1"), "both has the seeds [0]. --seeds adds to them: give a larger number, or these and further ones"),
        (("words.toml", *VARY, "--looks", "4,x"), "--looks takes numbers of seeds, such as 4,8; but got '4,x'."),
        (("words.toml", *VARY, "--looks", "8,4"), "ascend from 2 or more to the number of all seeds, 4, but got [8, 4]. Give for"),
        (("words.toml", *VARY, "--smallest-effect", "-1"), "The smallest effect is a positive number in units of the metric"),
        (("both/comparison.json", "--smallest-effect", "1"), "is drawn as it is. Leave --smallest-effect out."),
        (("both/runs/heads-1/seed-0",), "both/runs/heads-1/seed-0 is one run. Give two or more, or a recipe with --vary."),
        (("both/plan.json",), "both/plan.json is no comparison: "),
        (("nothing.json",), "nothing.json cannot be read: No such file or directory."),
        (("nothing.toml", *VARY), "There is no recipe nothing.toml."),
    ],
)
def test_wrong_use_is_one_sentence_and_nothing_is_written(equi, compared, words, said):  # noqa: F811
    before = sorted(compared.rglob("*"))
    refused(equi("compare", *words), said)
    assert sorted(compared.rglob("*")) == before
