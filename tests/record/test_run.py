"""A run as data: what it holds, what is said of it, and how a folder of one is read."""

from itertools import pairwise

import msgspec
import pytest
from tests.explore.runs import long, pictured, run, translated

from equiscope.errors import InputError
from equiscope.record import Point, RunReport, RunUpdate, Score, read_run, run_report, write_run
from equiscope.record.run import METRICS, RUN, gathered, read_entries
from equiscope.record.run_report import left, summary


def written(found, folder):
    """A folder of this run, as training leaves it."""
    write_run(found, folder)
    entries = [*found.points, *found.scores, *found.samples]
    (folder / METRICS).write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
    return entries


@pytest.mark.parametrize("made", [run, translated, pictured])
def test_a_run_goes_to_its_folder_and_back(made, tmp_path):
    written(made(), tmp_path)
    assert read_run(tmp_path) == made()
    assert read_run(tmp_path, entries=False).points == []


def test_a_last_line_that_was_cut_is_left_out_and_another_is_said(tmp_path):
    entries = written(run(), tmp_path)
    path = tmp_path / METRICS
    path.write_bytes(path.read_bytes()[:-9])
    assert read_entries(tmp_path) == entries[:-1]
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 1 is damaged: .*\. Delete that line: .* and the run goes on\."):
        read_run(tmp_path)


def test_a_folder_that_is_no_run_says_what_makes_one(tmp_path):
    with pytest.raises(InputError, match=r"is no run: it has no run\.json\. Give a folder that `equiscope train` has made"):
        read_run(tmp_path)


def test_what_cannot_be_read_is_said_with_the_next_step(tmp_path):
    (tmp_path / "recipe.toml").write_text("")
    with pytest.raises(InputError, match=r"recipe\.toml is a file, but a run is a folder with run\.json\. Give a folder"):
        read_run(tmp_path / "recipe.toml")
    (tmp_path / RUN).mkdir()
    with pytest.raises(InputError, match=r"run\.json, the record of a run, cannot be read: Is a directory\. Give a folder"):
        read_run(tmp_path)
    with pytest.raises(InputError, match="cannot be read: File name too long"):
        read_run(tmp_path / ("n" * 300))
    (tmp_path / RUN).rmdir()
    (tmp_path / RUN).write_text("{")
    with pytest.raises(InputError, match=r"run\.json is damaged: .*\. Restore it, or train again"):
        read_run(tmp_path)
    (tmp_path / METRICS).mkdir()
    with pytest.raises(InputError, match=r"metrics\.jsonl cannot be read: Is a directory"):
        read_entries(tmp_path)


def test_what_a_page_gets_is_plain_data():
    for record in (run_report(run()), RunUpdate(series="s", first=0, entries=[*run().points], summary="", state="running")):
        assert msgspec.json.decode(msgspec.json.encode(record), type=type(record)) == record
    assert run_report(run()).run is not None
    assert isinstance(run_report(run()), RunReport)


def test_very_many_points_are_thinned_evenly_and_the_last_one_stays():
    found = run_report(long(50_001), most=20_000)
    steps = [point.step for point in found.run.points]
    assert found.every == 3
    assert len(steps) <= 20_000
    assert steps[-1] == 50_001
    assert {b - a for a, b in pairwise(steps)} <= {1, 2, 3}
    assert run_report(run()).every == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "Finished after 60 steps: validation loss 1.25."),
        ({"result": {}}, "Finished after 60 steps."),
        ({"done": 30}, "Step 30 of 60: training loss 2.482."),
        ({"done": 0}, "Beginning: 60 steps are to come."),
        (
            {"state": "stopped", "reason": "stopped after step 9 of 60, and saved"},
            "Stopped after step 9 of 60, and saved.",
        ),
        ({"state": "failed", "reason": "Step 3: the loss is nan."}, "Failed: Step 3: the loss is nan."),
        ({"state": "failed"}, "Failed."),
    ],
)
def test_one_sentence_says_where_a_run_is(more, said):
    assert summary(run(**more)) == said


def test_the_time_that_is_left_follows_the_pace_of_late():
    assert left(run(done=20)) == pytest.approx(0.25 * 40)
    fast = [Point(step=s, loss=1, rate=1, norm=1, seconds=100 + 0.01 * s, tokens=1) for s in range(21, 31)]
    assert left(run(done=20), fast) == pytest.approx(0.01 * 30)
    assert left(run(done=1)) is None
    assert left(run()) is None


def test_entries_find_their_lists():
    found = run()
    mixed = [*found.samples, *found.points, *found.scores]
    assert gathered(msgspec.structs.replace(found, points=[], scores=[], samples=[]), mixed) == found


def test_a_score_that_is_no_number_spoils_no_record(tmp_path):
    nan = float("nan")
    scores = [Score(step=0, part="validation", values={"loss": nan, "bits": 2.0})]
    written(run(scores=scores, result={"test": {"loss": nan}}), tmp_path)
    found = read_run(tmp_path)
    assert found.scores[0].values == {"loss": None, "bits": 2.0}
    assert summary(found) == "Finished after 60 steps: test loss is no number."
    assert run_report(found).run == found
