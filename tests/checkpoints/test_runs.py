"""A run's folder is a checkpoint like any other: a model comes out of it, or a sentence."""

import json
import shutil

import pytest
import torch
from tests.training.small import small

from equiscope.checkpoints import load, read_spec
from equiscope.checkpoints.run_folder import AVERAGE, WEIGHTS, checkpoints, identity, load_run, read_checkpoint, weights_of
from equiscope.errors import InputError
from equiscope.record import read_run
from equiscope.training import fit

pytestmark = [pytest.mark.quick, pytest.mark.xdist_group("runs")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run that averages its weights."""
    made = tmp_path_factory.mktemp("run")
    fit(*small(made, optimiser={"average": 0.9}, model={"dropout": 0.1}), made / "run")
    return made / "run"


@pytest.fixture
def run(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "run")


def test_load_takes_a_run_as_it_takes_a_checkpoint_of_the_world(run):
    model = load(run)
    assert not model.training
    assert model.spec == read_spec(run)
    assert next(load(run, torch.bfloat16).parameters()).dtype == torch.bfloat16
    best = weights_of(run, read_run(run))
    assert all(torch.equal(p, best[name]) for name, p in model.named_parameters())


def test_the_last_weights_are_the_averaged_ones_where_the_run_averages(run):
    newest = read_checkpoint(checkpoints(run)[0], identity(read_run(run)))
    last = dict(load_run(run, "last").named_parameters())
    assert all(torch.equal(last[name], t) for name, t in newest.tensors(AVERAGE).items())
    assert not all(torch.equal(last[name], t) for name, t in newest.tensors(WEIGHTS).items())


def test_a_folder_without_a_run_or_a_checkpoint_says_the_next_step(run, tmp_path):
    with pytest.raises(InputError, match=r"is no run: it has no run\.json\."):
        load_run(tmp_path)
    shutil.rmtree(run / "best")
    with pytest.raises(InputError, match=r"best is gone, where the best weights were; the last ones are in"):
        load_run(run)
    assert load_run(run, "last") is not None
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(InputError, match=r"has no checkpoint yet\. Resume it with `equiscope train .*run`\."):
        load_run(run)


def test_a_record_that_was_changed_does_not_take_the_weights_of_before(run):
    data = json.loads((run / "run.json").read_text())
    data["spec"]["width"] = 32
    (run / "run.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match="another run"):
        load_run(run)


def test_weights_of_a_checkpoint_with_a_missing_file_are_not_taken(run):
    (next((run / "best").iterdir()) / WEIGHTS).unlink()
    with pytest.raises(InputError, match=r"model\.safetensors cannot be read: No such file"):
        load_run(run)


def test_a_name_that_no_folder_can_have_has_no_checkpoints(tmp_path):
    assert checkpoints(tmp_path / ("n" * 300)) == []


def test_a_file_that_a_checkpoint_never_had_is_no_damage(run):
    newest = read_checkpoint(checkpoints(run)[0], identity(read_run(run)))
    assert newest.tensors("none.safetensors") == {}
