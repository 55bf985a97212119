"""A checkpoint that is damaged is never taken in silence: the one before is, and it is said; or none."""

import errno
import json
import pathlib
import pickle
import shutil
import struct

import pytest
import torch
from safetensors.torch import save

from equiscope.checkpoints import run_folder
from equiscope.checkpoints.run_folder import MANIFEST, WEIGHTS, checkpoints, identity, load_run, manifest_digest, read_checkpoint
from equiscope.errors import InputError
from equiscope.record import read_run
from equiscope.training import Watcher, fit
from equiscope.training.state import OPTIMISER
from tests.pairwise import few
from tests.training.small import files, small, told

pytestmark = [pytest.mark.quick, pytest.mark.xdist_group("checkpoint")]
NAMES = (WEIGHTS, OPTIMISER, "average.safetensors", MANIFEST)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    recipe, task = small(folder, evaluation={"keep": 3}, optimiser={"average": 0.9})
    fit(recipe, task, folder / "run")
    return recipe, task, folder / "run"


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished[2], tmp_path / "run")


def taken(run):
    """The step of the checkpoint that would be taken, and what is said."""
    said = []

    def fits(found):
        for name in NAMES[:3]:
            found.tensors(name)
        return found.step

    return run_folder.latest(run, fits, said.append, identity(read_run(run))), said


def resealed(folder, **changes):
    """A manifest that was changed by somebody who knows how it is sealed."""
    manifest = json.loads((folder / MANIFEST).read_text()) | changes
    (folder / MANIFEST).write_text(json.dumps(manifest | {"sha256": manifest_digest(manifest)}))


def replaced(folder, name, content):
    import hashlib

    (folder / name).write_bytes(content)
    said = json.loads((folder / MANIFEST).read_text())["files"]
    resealed(folder, files=said | {name: [len(content), hashlib.sha256(content).hexdigest()]})


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "halved": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "emptied": lambda path: path.write_bytes(b""),
    "one bit flipped": flipped,
    "one byte more": lambda path: path.write_bytes(path.read_bytes() + b" " * (path.name != MANIFEST) + b"x"),
    "deleted": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


def test_a_whole_checkpoint_is_taken_and_nothing_is_said(run):
    assert taken(run) == (12, [])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_one_before_is_taken_and_it_is_said_which_file_is_damaged(run, name, damage):
    newest = checkpoints(run)[0]
    DAMAGES[damage](newest / name)
    step, said = taken(run)
    assert step == 9
    assert len(said) == 1
    assert newest.name in said[0]


@pytest.mark.parametrize("content", [b"[]", b"{}", b"null", b"[" * 100_000, b'{"sha256": 1e999}', b"\xff\xfe", b"9" * 5000])
def test_a_manifest_that_is_none_is_said_to_be_none(run, content):
    (checkpoints(run)[0] / MANIFEST).write_bytes(content)
    step, said = taken(run)
    assert step == 9
    assert "damaged" in said[0]


def test_files_of_another_step_are_not_taken(run):
    newest, before = checkpoints(run)[:2]
    shutil.copy(before / WEIGHTS, newest / WEIGHTS)
    assert taken(run)[0] == 9
    shutil.rmtree(newest)
    shutil.copytree(before, newest)  # whole, but not of its step
    step, said = taken(run)
    assert step == 9
    assert "another step" in said[0]


def test_a_checkpoint_of_another_run_is_not_taken(run, tmp_path):
    other, task = small(tmp_path, seed=4)
    fit(other, task, tmp_path / "other")
    newest = checkpoints(run)[0]
    shutil.rmtree(newest)
    shutil.copytree(checkpoints(tmp_path / "other")[0], newest)
    step, said = taken(run)
    assert step == 9
    assert "another run" in said[0]


@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 90_000_000) + b"{}",
        (lambda header: struct.pack("<Q", len(header)) + header)(
            b'{"embedding.weight":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}'
        ),
    ],
)
def test_a_header_that_claims_too_much_is_refused_even_if_the_manifest_is_sealed_again(run, content):
    replaced(checkpoints(run)[0], WEIGHTS, content)
    step, said = taken(run)
    assert step == 9
    assert "damaged" in said[0]


def test_weights_of_another_shape_are_refused_before_any_is_taken(finished, run, tmp_path):
    recipe, task, _ = finished
    for folder in checkpoints(run):
        found = read_checkpoint(folder, identity(read_run(run))).tensors(WEIGHTS)
        replaced(folder, WEIGHTS, save(found | {"output_layer.lm_head.weight": torch.zeros(2, 2)}))
    with pytest.raises(InputError, match=r"No checkpoint of .* is complete\."):
        fit(recipe, task, run)


def test_where_none_is_whole_it_is_refused_with_the_next_step(finished, run):
    recipe, task, _ = finished
    for folder in checkpoints(run):
        flipped(folder / WEIGHTS)
    said = []
    with pytest.raises(InputError, match=r"No checkpoint of .* is complete.*--out"):
        fit(recipe, task, run, Watcher(message=said.append))
    assert len(said) == 3


def test_going_on_from_the_one_before_makes_the_same_run(finished, run):
    recipe, task, undisturbed = finished
    flipped(checkpoints(run)[0] / OPTIMISER)
    said = []
    fit(recipe, task, run, Watcher(message=said.append))
    assert "damaged" in said[0]
    assert said[1] == "Resuming after step 9 of 12."
    assert files(run) == files(undisturbed)
    assert told(run) == told(undisturbed)


def test_damaged_weights_are_not_evaluated(run):
    flipped(next((run / "best").glob("*/model.safetensors")))
    with pytest.raises(InputError, match="damaged"):
        load_run(run)
    assert load_run(run, "last") is not None


class Planted:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def test_a_planted_pickle_is_never_opened(finished, run, tmp_path, monkeypatch):
    recipe, task, _ = finished
    mark = tmp_path / "opened"
    planted = pickle.dumps(Planted(mark))
    for folder in [*checkpoints(run), *checkpoints(run, "best"), run]:
        for name in ("pytorch_model.bin", "optimiser.pt", ".metadata", "model.pkl"):
            (folder / name).write_bytes(planted)
    for folder in checkpoints(run)[:2]:
        (folder / WEIGHTS).write_bytes(planted)
    monkeypatch.setattr(torch, "load", lambda *given, **named: pytest.fail("torch.load was called"))
    fit(recipe, task, run)
    load_run(run)
    assert not mark.exists()


def test_a_kill_while_a_checkpoint_takes_the_place_of_another_loses_neither(finished, tmp_path, monkeypatch):
    undisturbed = finished[2]
    run = shutil.copytree(undisturbed, tmp_path / "run")
    best = next((run / "best").iterdir())

    class Killed(BaseException):
        pass

    def killed(self, target):
        if self.name.endswith(".part"):
            raise Killed
        return rename(self, target)

    rename = pathlib.Path.rename
    found = read_checkpoint(best, identity(read_run(run)))
    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "rename", killed)
        with pytest.raises(Killed):
            run_folder.write_checkpoint(best, found.step, {WEIGHTS: found.tensors(WEIGHTS)}, found.facts, identity(read_run(run)))
    assert not best.exists()
    run_folder.restore(run)
    assert read_checkpoint(best, identity(read_run(run))).step == found.step
    run_folder.write_checkpoint(best, found.step, {WEIGHTS: found.tensors(WEIGHTS)}, found.facts, identity(read_run(run)))
    assert [path.name for path in best.parent.iterdir()] == [best.name]
    assert files(run) == files(undisturbed)


@pytest.mark.parametrize("failing", few((4, 10, 1, 7), 2))
def test_a_full_disk_keeps_what_was_saved_and_going_on_afterwards_works(finished, tmp_path, monkeypatch, failing):
    recipe, task, undisturbed = finished
    count, put = 0, run_folder._put

    def full(path, content):
        nonlocal count
        count += 1
        if count >= failing:
            path.write_bytes(content[:10])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        put(path, content)

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "_put", full)
        with pytest.raises(InputError, match=r"No space left on device.*the same command"):
            fit(recipe, task, run)
    assert read_run(run).state == "failed"
    assert not list(run.glob("*/.step-*"))
    before = checkpoints(run)
    assert [taken(run)[0]] == [int(folder.name[5:]) for folder in before[:1]] or not before
    fit(recipe, task, run)
    assert told(run) == told(undisturbed)
    assert files(run) == files(undisturbed)


def test_a_folder_that_cannot_be_made_is_said_with_its_own_reason(tmp_path, monkeypatch):
    def full(path, *how, **named):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "mkdir", full)
        with pytest.raises(OSError, match="No space left on device"):
            run_folder.write_checkpoint(tmp_path / "step-1", 1, {}, {}, "run")
