"""Where a run lives: nobody else's files are touched, and one process at a time writes."""

import os

import pytest

from equiscope.checkpoints.run_folder import locked
from equiscope.errors import InputError
from equiscope.record.run import METRICS, Entries, Point, read_entries
from equiscope.training import fit
from tests.training.small import small

pytestmark = pytest.mark.quick


def test_a_folder_that_holds_other_files_is_left_alone(tmp_path):
    found, task = small(tmp_path)
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"mine holds other files, and no run\. Choose another folder with --out\."):
        fit(found, task, out)
    assert (out / "thesis.txt").read_text() == "mine"
    assert {path.name for path in out.iterdir()} <= {"thesis.txt", ".lock"}


def test_a_file_is_no_folder(tmp_path):
    found, task = small(tmp_path)
    with pytest.raises(InputError, match=r"text\.txt cannot be written: it is a file, and no folder\. .*--out"):
        fit(found, task, tmp_path / "text.txt")
    with pytest.raises(InputError, match=r"cannot be written: Not a directory\..*--out"):
        fit(found, task, tmp_path / "text.txt" / "run")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="/proc is where even the owner of a machine writes nothing")
def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    found, task = small(tmp_path)
    from pathlib import Path

    with pytest.raises(InputError, match=r"/proc/run cannot be written: .*--out"):
        fit(found, task, Path("/proc/run"))


def test_two_do_not_train_in_one_folder(tmp_path):
    found, task = small(tmp_path)
    with locked(tmp_path / "run"), pytest.raises(InputError, match=r"Another process is training in .*run\."):
        fit(found, task, tmp_path / "run")
    assert fit(found, task, tmp_path / "run").state == "finished"


def test_what_a_kill_leaves_before_the_record_is_written_is_no_other_file(tmp_path):
    found, task = small(tmp_path)
    out = tmp_path / "run"
    out.mkdir()
    (out / ".lock").touch()
    (out / ".run.json").write_text("{")
    assert fit(found, task, out).state == "finished"


def point(step):
    return Point(step=step, loss=1.0, rate=0.1, norm=1.0, seconds=1.0, tokens=1.0)


def test_lines_after_a_step_are_left_out_and_one_that_was_cut_too(tmp_path):
    entries = Entries(tmp_path, -1)
    for step in range(1, 5):
        entries.add(point(step))
    entries.close()
    (tmp_path / METRICS).write_bytes((tmp_path / METRICS).read_bytes()[:-3])
    again = Entries(tmp_path, 2)
    assert again.steps == 2
    again.add(point(3))
    again.close()
    assert [entry.step for entry in read_entries(tmp_path)] == [1, 2, 3]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is a disk that is always full")
def test_a_full_disk_is_said_by_the_line_that_does_not_fit(tmp_path):
    entries = Entries(tmp_path, -1)
    entries._file.close()
    with open("/dev/full", "ab", buffering=0) as full:
        entries._file = full
        with pytest.raises(OSError, match="No space left"):
            entries.add(point(1))
