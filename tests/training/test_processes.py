"""Two processes learn what one does, and each goes on where the other stopped. With gloo, on a CPU."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch.multiprocessing as mp

from equiscope.record import read_run
from tests.cli.test_cli import equi, refused  # noqa: F401
from tests.training import together
from tests.training.small import plain, told
from tests.training.test_resume import as_toml

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]
QUIET = {"capture_output": True, "text": True, "env": os.environ | {"OMP_NUM_THREADS": "1"}, "timeout": 600}

SHORT = {"optimiser": {"average": 0.9}, "budget": {"steps": 6}, "evaluation": {"every": 6}}
KINDS = {
    "ddp": SHORT,
    "fsdp": {**SHORT, "engine": {"strategy": "fsdp", "recompute": True}, "budget": {"steps": 6, "accumulate": 2}},
}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def torchrun(*command):
    """As torchrun does it, with a port that is free."""
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port(), *command]


def trained(path, runs, processes):
    """What together.py says of each run; one process is this one."""
    if processes == 1:
        return together.main(runs)
    mp.start_processes(one_of_two, (free_port(), runs, path), nprocs=2, start_method="fork")
    return json.loads(path.read_text())


def one_of_two(rank, port, runs, path):
    """A process as torchrun starts it, but forked: torch is imported already."""
    ranks = dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)) | dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), "2")
    os.environ |= ranks | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "tests"}
    answers = together.main(runs)
    if rank == 0:
        path.write_text(json.dumps(answers))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same runs in one process, in two, and begun in one and finished in the other."""
    folder = tmp_path_factory.mktemp("together")

    def run(name, kind, stop=None, **changes):
        return {"folder": str(folder / f"{kind}-{name}"), "recipe": plain(folder, **{**KINDS[kind], **changes}), "stop": stop}

    other = folder / "ddp-other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    bad = {"optimiser": {"rate": 1e30, "warmup": 0}}
    said = {1: trained(folder / "1.json", [run("one", k) for k in KINDS] + [run("one-two", "ddp", stop=2)], 1)}
    two = [*(run("two", k) for k in KINDS), run("one-two", "ddp"), run("two-one", "fsdp", stop=2)]
    wrong = [run("other", "ddp"), run("diverges", "fsdp", **bad)]
    said[2] = trained(folder / "2.json", [*two, *wrong], 2)
    said[3] = trained(folder / "3.json", [run("two-one", "fsdp")], 1)
    return folder, said


@pytest.fixture(scope="module")
def rounded_runs(tmp_path_factory):
    """Runs in two processes and in one that differ in their rounding."""
    folder = tmp_path_factory.mktemp("rounded")

    def run(name, kind, **changes):
        return {"folder": str(folder / f"{kind}-{name}"), "recipe": plain(folder, **{**KINDS[kind], **changes})}

    half = [run("half", k, engine={"strategy": k, "precision": "bfloat16"}) for k in KINDS]
    muon = [run("muon", k, optimiser={"kind": "muon"}) for k in KINDS]
    sharp = [run("sharp", k, optimiser={"sharpness": 0.1}) for k in KINDS]
    trained(folder / "2.json", [*half, *muon, *sharp], 2)
    trained(folder / "1.json", half_alone([*half, *muon, *sharp]), 1)
    return folder


def half_alone(runs):
    return [run | {"folder": run["folder"] + "-one"} for run in runs]


def losses(run):
    return [line["loss"] for line in told(run) if line["entry"] == "point"]


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_learn_what_one_does(runs, kind):
    folder, said = runs
    assert losses(folder / f"{kind}-two") == pytest.approx(losses(folder / f"{kind}-one"), rel=1e-5)  # measured 2e-7
    scores = [[e["values"]["loss"] for e in told(folder / f"{kind}-{n}") if e["entry"] == "score"] for n in ("one", "two")]
    assert scores[1] == pytest.approx(scores[0], rel=1e-5)
    spread = said[2][list(KINDS).index(kind)]["spread"]
    assert (spread > 20) == (kind == "fsdp")  # all of them, or none


@pytest.mark.parametrize(("name", "kind"), [("one-two", "ddp"), ("two-one", "fsdp")])
def test_a_run_is_begun_by_one_process_and_finished_by_two_and_back(runs, name, kind):
    folder, _ = runs
    run = folder / f"{kind}-{name}"
    assert read_run(run).state == "finished"
    assert len(losses(run)) == 6
    assert losses(run) == pytest.approx(losses(folder / f"{kind}-one"), rel=1e-5)


def test_weights_optimiser_and_average_are_the_same_bits_however_many_read_them(runs):
    _, said = runs
    wrong = [answer for answers in said.values() for answer in answers if not answer["same"] and not any(answer["errors"])]
    assert not wrong


def test_what_goes_wrong_in_the_first_process_stops_all_with_its_sentence(runs):
    _, said = runs
    other, diverges = said[2][4:]
    assert all("holds other files" in error for error in other["errors"])
    assert all("Step" in error and "begins with" in error for error in diverges["errors"])


@pytest.mark.thorough
@pytest.mark.parametrize(("what", "within"), [("half", 5e-3), ("muon", 2e-3), ("sharp", 1e-4)])
@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_muon_and_two_gradients_a_step_learn_the_same_to_their_rounding(rounded_runs, kind, what, within):
    folder = rounded_runs  # both multiply in bfloat16; measured 5e-4 and 3e-4
    assert losses(folder / f"{kind}-{what}") == pytest.approx(losses(folder / f"{kind}-{what}-one"), rel=within)


def test_the_command_asks_for_as_many_processes_as_it_is_given(tmp_path, equi):  # noqa: F811
    toml = tmp_path / "recipe.toml"
    toml.write_text(as_toml(plain(tmp_path, budget={"batch": 1})))
    refused(equi("train", toml, "--devices", 2, "--out", tmp_path / "run"), "A batch of 1 cannot be shared out", "to 2 processes")


@pytest.mark.thorough
def test_the_command_starts_two_processes_itself(tmp_path):
    toml = tmp_path / "recipe.toml"
    toml.write_text(as_toml(plain(tmp_path)))
    command = [sys.executable, "-m", "equiscope.cli", "train", str(toml), "--devices", "2", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, **QUIET)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished") == 1
    assert read_run(tmp_path / "run").processes == 2


@pytest.mark.thorough
def test_torchrun_that_is_asked_to_stop_saves_after_the_same_step_everywhere(tmp_path):
    toml, run = tmp_path / "recipe.toml", tmp_path / "run"
    toml.write_text(as_toml(plain(tmp_path, budget={"steps": 100_000}, evaluation={"every": 100_000, "save": 100_000})))
    with open(os.devnull, "w") as quiet:
        process = subprocess.Popen(
            torchrun("-m", "equiscope.cli", "train", str(toml), "--out", str(run)), stdout=quiet, stderr=quiet, env=QUIET["env"]
        )
        while process.poll() is None and (not (run / "metrics.jsonl").exists() or len(told(run)) < 10):
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) != 0
    found = read_run(run)
    assert found.state == "stopped"
    assert found.reason.startswith("SIGTERM")
    assert (run / "checkpoints" / f"step-{len(found.points):09d}").is_dir()
