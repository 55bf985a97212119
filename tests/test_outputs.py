"""The one door for outputs: whole or not at all, through what is no regular file, and tested before the work begins."""

import errno
import os
import stat
import threading

import pytest

from equiscope import outputs
from equiscope.errors import Unwritable

DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9)}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "victim").write_text("kept")
    return tmp_path


def entries(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing/x.html", "there is no folder"),
        ("victim/x.html", "Not a directory"),
        (".", "it is a folder"),
        ("", "it is a folder"),
        ("new/", "No such file or directory"),
        ("n" * 300, "File name too long"),
        ("n/" * 3000 + "x", "File name too long"),
        ("loop", "Too many levels of symbolic links"),
        ("to-nowhere", "there is no folder"),
        ("zero\0byte", "null byte"),
        ("silent-pipe", "a pipe that nobody reads"),
        ("/proc/x.html", "cannot be written"),
        ("/dev/fd/973", "Bad file descriptor"),
    ],
)
def test_what_cannot_be_written_is_one_sentence_and_changes_nothing(here, name, why):
    (here / "loop").symlink_to("loop")
    (here / "to-nowhere").symlink_to("missing/x")
    os.mkfifo(here / "silent-pipe")
    before = entries(here)
    with pytest.raises(Unwritable, match=why) as refused:
        outputs.write(name, "text", "Say --out elsewhere.", patience=0.2)
    assert refused.value.path == name
    assert refused.value.hint == "Say --out elsewhere."
    assert str(refused.value).count("\n") == 0
    assert entries(here) == before
    assert (here / "victim").read_text() == "kept"


@pytest.mark.parametrize("name", ["missing/x.html", "victim/x.html", ".", "n" * 300, "loop", "/proc/x.html", "/dev/fd/973"])
def test_the_destination_is_refused_before_the_work_too(here, name):
    (here / "loop").symlink_to("loop")
    with pytest.raises(Unwritable):
        outputs.check(name)


@pytest.mark.parametrize("name", ["victim", "victim/inside", "n" * 300, "loop", "/proc/new"])
def test_a_folder_of_results_is_refused_before_the_work(here, name):
    (here / "loop").symlink_to("loop")
    for act in (outputs.check_folder, outputs.make_folder):
        with pytest.raises(Unwritable, match="Too many levels of symbolic links" if name == "loop" else "cannot be written"):
            act(name)


def test_a_folder_of_results_is_made_where_a_link_leads(here):
    (here / "to-nowhere").symlink_to("missing/x")
    outputs.make_folder("to-nowhere")
    assert (here / "missing" / "x").is_dir()


@pytest.mark.parametrize("laid", [".part", ".tmp", "~", ".swp", ".new", ".0"])
def test_a_link_laid_beside_the_output_is_not_written_through(here, laid):
    (here / f"out.html{laid}").symlink_to("victim")
    (here / f".out.html{laid}").symlink_to("victim")
    outputs.write("out.html", "page")
    assert (here / "out.html").read_text() == "page"
    assert (here / "victim").read_text() == "kept"


def test_a_link_is_followed_and_stays_a_link(here):
    (here / "one").symlink_to("two")
    (here / "two").symlink_to("victim")
    outputs.write("one", "page")
    assert (here / "one").is_symlink()
    assert (here / "victim").read_text() == "page"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root makes devices")
@pytest.mark.parametrize("name", DEVICES)
def test_a_device_is_written_through_and_stays_one(here, name):
    try:
        os.mknod(here / name, stat.S_IFCHR | 0o666, os.makedev(*DEVICES[name]))
        os.close(os.open(here / name, os.O_RDONLY))
    except OSError:
        pytest.skip("this system lets nobody make or open devices")
    if name == "full":
        with pytest.raises(Unwritable, match="No space left"):
            outputs.write(name, "page")
    else:
        outputs.check(name)
        outputs.write(name, "page")
    assert stat.S_ISCHR(os.lstat(here / name).st_mode)
    assert entries(here) == sorted([name, "victim"])


def test_a_pipe_gets_all_of_a_large_output_and_stays_a_pipe(here):
    os.mkfifo("pipe")
    content = []
    reader = threading.Thread(target=lambda: content.append((here / "pipe").read_bytes()))
    reader.start()
    outputs.write("pipe", b"x" * 10**6)
    reader.join()
    assert content == [b"x" * 10**6]
    assert (here / "pipe").is_fifo()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ESTALE])
def test_a_disk_that_refuses_leaves_what_was_there_and_nothing_beside_it(here, monkeypatch, code):
    def refuse(handle):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(Unwritable, match=os.strerror(code)):
        outputs.write("victim", "page")
    assert (here / "victim").read_text() == "kept"
    assert entries(here) == ["victim"]


def test_an_output_keeps_the_permissions_of_the_file_it_replaces(here):
    for mode in (0o600, 0o640, 0o644, 0o660, 0o755):
        (here / "victim").chmod(mode)
        outputs.write("victim", "page")
        assert stat.S_IMODE((here / "victim").stat().st_mode) == mode
