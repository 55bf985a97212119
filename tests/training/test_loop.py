"""What a run says and keeps when it is stopped, when its numbers are none, and when it is given again."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import count, pairwise

import msgspec
import pytest
import torch

from equiscope.checkpoints import save
from equiscope.checkpoints.run_folder import build_from, checkpoints, load_run
from equiscope.errors import InputError
from equiscope.models import Spec, build
from equiscope.record import read_run, write_run
from equiscope.record.run import Point, Score
from equiscope.tokens.tokenizer import by_characters
from equiscope.training import Watcher, fit, loop, open_task, recipe
from equiscope.training.engine import Diverged, TrainingEngine
from equiscope.training.language import LanguageTask
from tests.pairwise import few
from tests.training.small import files, plain, small, told
from tests.training.small import text as small_text


def test_a_run_writes_a_line_for_each_step_and_measures_before_the_first_and_after_the_last(tmp_path):
    found, task = small(tmp_path, evaluation={"samples": 1})
    seen = []
    made = fit(found, task, tmp_path / "run", Watcher(entry=seen.append))
    run = read_run(tmp_path / "run")
    assert [point.step for point in run.points] == list(range(1, 13))
    assert [score.step for score in run.scores] == [0, 4, 8, 12]
    assert made.state == run.state == "finished"
    assert seen == [*read_in_order(tmp_path / "run")]
    assert made.result["validation"]["loss"] == min(score.values["loss"] for score in run.scores)
    assert run.points[-1].loss < run.points[0].loss


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The small run, from its beginning to its end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    fit(*small(folder), folder / "run")
    return folder / "run"


def read_in_order(run):
    from equiscope.record.run import read_entries

    return read_entries(run)


def test_a_finished_run_is_not_trained_again(tmp_path):
    found, task = small(tmp_path)
    fit(found, task, tmp_path / "run")
    before, said = files(tmp_path / "run"), []
    made = fit(found, task, tmp_path / "run", Watcher(message=said.append, entry=lambda entry: pytest.fail("a step was made")))
    assert made.state == "finished"
    assert "is finished" in said[0]
    assert files(tmp_path / "run") == before


@pytest.mark.quick
def test_a_run_ends_by_its_minutes_with_the_whole_schedule(tmp_path):
    budget = {"steps": 100_000, "minutes": 0.02}
    found, task = small(tmp_path, budget=budget, optimiser={"warmup": 10_000, "floor": 0.0}, evaluation={"every": 25_000})
    made = fit(found, task, tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert (made.state, made.reason) == ("finished", f"0.02 minutes were over after step {made.steps} of 100000")
    assert len(run.points) == made.steps < 100_000
    rates = [point.rate for point in run.points]
    top = rates.index(max(rates))
    assert rates == sorted(rates[:top]) + sorted(rates[top:], reverse=True)
    assert min(rates[-1], rates[0]) < 0.5 * max(rates)
    assert run.scores[-1].step == made.steps  # measured at the end, whatever `every`
    again = fit(
        *small(tmp_path, budget=budget, optimiser={"warmup": 10_000, "floor": 0.0}, evaluation={"every": 25_000}), tmp_path / "run"
    )
    assert (again.state, again.steps) == ("finished", made.steps)


def test_minutes_that_are_enough_change_nothing(tmp_path, undisturbed):
    assert fit(*small(tmp_path, budget={"minutes": 600}), tmp_path / "with").state == "finished"
    assert told(tmp_path / "with") == told(undisturbed)
    assert files(tmp_path / "with") == files(undisturbed)


def test_a_run_that_goes_on_has_the_minutes_that_were_left(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "perf_counter", count(0, 0.2).__next__)  # seconds pass by looks at the clock
    budget = {"steps": 100_000, "minutes": 0.1}

    def stopping(entry):
        if isinstance(entry, Point) and entry.step == 10:  # the signal is seen after the next step
            os.kill(os.getpid(), signal.SIGTERM)

    stopped = fit(*small(tmp_path, budget=budget), tmp_path / "run", Watcher(entry=stopping))
    assert stopped.state == "stopped"
    done = len(read_run(tmp_path / "run").points)
    before = read_run(tmp_path / "run").points[-1].rate
    spent = json.loads((checkpoints(tmp_path / "run")[0] / "checkpoint.json").read_text())["facts"]["elapsed"]
    finished = fit(*small(tmp_path, budget=budget), tmp_path / "run")
    assert finished.state == "finished"
    assert 0 < spent < 6
    assert read_run(tmp_path / "run").points[done].rate <= before


def test_a_step_with_sharpness_counts_two_passes(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "best_rate", lambda *_: 1e9)  # the rate of this machine varies
    work = []
    for sharpness in (0.0, 0.1):
        made, task = small(tmp_path, optimiser={"sharpness": sharpness})
        fit(made, task, tmp_path / f"run {sharpness}")
        points = read_run(tmp_path / f"run {sharpness}").points
        work.append(sum(b.mfu * (b.seconds - a.seconds) for a, b in pairwise(points)))
    assert work[1] == pytest.approx(2 * work[0], rel=0.05)


@pytest.mark.parametrize(("slower", "said"), [(1.0, False), (9.0, True)])
def test_a_cpu_that_is_slow_in_bfloat16_is_told_before_the_first_step(tmp_path, monkeypatch, slower, said):
    monkeypatch.setattr(loop, "best_rate", lambda _, dtype: 9e9 / slower if dtype is torch.bfloat16 else 9e9)
    messages = []
    fit(*small(tmp_path, engine={"precision": "bfloat16"}), tmp_path / "run", Watcher(message=messages.append))
    sentence = "a matrix product in bfloat16 takes 9.0 times as long as in float32. To train faster: --set engine.precision=float32"
    assert (f"On this CPU {sentence}" in messages) is said


def test_the_best_weights_are_those_of_the_best_measurement(tmp_path):
    found, task = small(tmp_path, optimiser={"rate": 0.5, "warmup": 0, "clip": 1.0}, evaluation={"every": 1})
    fit(found, task, tmp_path / "run")
    scores = read_run(tmp_path / "run").scores
    lowest = min(scores, key=lambda score: score.values["loss"])
    assert [path.name for path in checkpoints(tmp_path / "run", "best")] == [f"step-{lowest.step:09d}"]
    assert task.evaluate(load_run(tmp_path / "run")) == lowest.values
    assert [score.best for score in scores][lowest.step]


# ---------------------------------------------------------------------------------------------------- asked to stop


def stopping(number, step=5):
    """Somebody who sends a signal at a step."""

    def entry(entry):
        if isinstance(entry, Point) and entry.step == step:
            os.kill(os.getpid(), number)

    return Watcher(entry=entry)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_stop_saves_and_goes_on_later(tmp_path, undisturbed, number):
    found, task = small(tmp_path)
    made = fit(found, task, tmp_path / "run", stopping(number))
    assert made.state == read_run(tmp_path / "run").state == "stopped"
    assert made.reason == f"{number.name} after step 6 of 12, which is saved"
    assert checkpoints(tmp_path / "run")[0].name == "step-000000006"
    fit(found, task, tmp_path / "run")
    assert told(tmp_path / "run") == told(undisturbed)
    assert files(tmp_path / "run") == files(undisturbed)


def test_the_first_signal_is_answered_and_the_last_step_is_not_measured_after_one(tmp_path, undisturbed):
    found, task = small(tmp_path)
    said: list[str] = []
    made = fit(found, task, tmp_path / "run", replace(stopping(signal.SIGTERM, step=12), message=said.append))
    assert any(sentence.startswith("Stopping after the current step") for sentence in said)
    assert (made.state, made.reason) == ("stopped", "SIGTERM after the last step, which is saved, before the last measurement")
    assert fit(found, task, tmp_path / "run").state == "finished"
    assert told(tmp_path / "run") == told(undisturbed)


@pytest.mark.parametrize("stop", [0, signal.SIGINT])
def test_compilers_that_end_with_the_signal_or_fail_are_said(tmp_path, monkeypatch, stop):
    from torch._inductor.exc import CppCompileError

    found, task = small(tmp_path, engine={"compile": True})

    def failing(*given):
        if stop:
            os.kill(os.getpid(), stop)
        raise CppCompileError(["g++"], "many lines\n" * 1000)

    monkeypatch.setattr(TrainingEngine, "step", failing)
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **options: None)
    if stop:
        made = fit(found, task, tmp_path / "run")
        assert (made.state, made.reason) == ("stopped", "SIGINT while the model was compiled; nothing was saved yet")
    else:
        with pytest.raises(InputError, match=r"engine\.compile could not compile this model here: C\+\+ compile error"):
            fit(found, task, tmp_path / "run")


@pytest.mark.compile
def test_compiling_is_announced_where_it_happens_and_evaluation_compiles_nothing(tmp_path, monkeypatch):
    """With a compiler that only traces, which takes no time: the batches of step 9 and later are shorter."""
    found, task = small(tmp_path, engine={"compile": True}, evaluation={"samples": 1})
    batch, compiled = task.batch, torch.compile

    def shorter(step, *rest):
        made = batch(step, *rest)
        return made if step < 8 else replace(made, tensors={name: tensor[:, :5] for name, tensor in made.tensors.items()})

    def traced(self, **options):
        self._compiled_call_impl = compiled(self._call_impl, backend="eager", dynamic=False)

    monkeypatch.setattr(task, "batch", shorter)
    monkeypatch.setattr(torch.nn.Module, "compile", traced)
    said: list[object] = []
    watcher = Watcher(
        entry=lambda entry: said.append((type(entry).__name__, entry.step)), compiling=said.append,
        message=lambda sentence: said.append(sentence.partition(",")[0]),
    )  # fmt: skip
    fit(found, task, tmp_path / "run", watcher)
    steps = [one for one in said if not isinstance(one, tuple) or one[0] != "Sample"]
    first = steps.index(True)
    assert steps[first - 2 : first + 3] == [("Score", 0), loop.COMPILING.partition(",")[0], True, False, ("Point", 1)]
    again = steps.index(True, first + 1)
    assert steps[again - 2 : again + 3] == [
        ("Score", 8), "Step 9 has inputs of another shape", True, False, ("Point", 9),
    ]  # fmt: skip
    assert steps.count(True) == steps.count(False) == 2


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="signals of a process")
def test_the_first_ctrl_c_ends_a_compilation_of_a_process(tmp_path):
    from tests.training.test_resume import as_toml

    (tmp_path / "recipe.toml").write_text(as_toml(plain(tmp_path, engine={"compile": True})))
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "equiscope.cli", "train", "recipe.toml"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=tmp_path, env=environment, start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    said = [process.stderr.readline()]
    while said[-1] and loop.COMPILING not in said[-1]:
        said.append(process.stderr.readline())
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "SIGINT while the model was compiled; nothing was saved yet" in out
    assert "Traceback" not in err


def test_compiling_without_a_compiler_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    def none():
        raise RuntimeError("No working C++ compiler found")

    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", none)
    found, task = small(tmp_path, engine={"compile": True})
    with pytest.raises(InputError, match="none works here: No working"):
        fit(found, task, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_command_exits_with_the_signal_that_stopped_it(tmp_path, monkeypatch, number, code):
    from equiscope.cli.train import train as command
    from tests.training.test_resume import as_toml

    (tmp_path / "recipe.toml").write_text(as_toml(plain(tmp_path)))
    step = TrainingEngine.step

    def interrupted(self, task, number_of_step, *rest):
        if number_of_step == 3:
            os.kill(os.getpid(), number)
        return step(self, task, number_of_step, *rest)

    monkeypatch.setattr(TrainingEngine, "step", interrupted)
    assert command(tmp_path / "recipe.toml", tmp_path / "run", [], False, 1, False) == code


def test_a_second_interruption_ends_at_once_and_nothing_is_lost(tmp_path, undisturbed):
    found, task = small(tmp_path)
    twice = stopping(signal.SIGINT)
    inner = twice.entry
    twice.entry = lambda entry: (inner(entry), inner(entry))
    with pytest.raises(KeyboardInterrupt):
        fit(found, task, tmp_path / "run", twice)
    fit(found, task, tmp_path / "run")
    assert told(tmp_path / "run") == told(undisturbed)


# ------------------------------------------------------------------------------------------------- numbers that are none


def spoiled(monkeypatch, at, spoil):
    """From a step on, `spoil` changes the model's answers or the loss."""
    plain_step = TrainingEngine.step

    def step(self, task, number, *given):
        if number == at:
            spoil(self)
        return plain_step(self, task, number, *given)

    monkeypatch.setattr(TrainingEngine, "step", step)


def bad_forward(engine):
    engine.model.blocks[1].feedforward.register_forward_hook(lambda part, given, answer: answer * float("nan"))


def bad_backward(engine):
    def hook(part, given, answer):
        answer.register_hook(lambda gradient: gradient * float("inf"))

    engine.model.blocks[0].attention.register_forward_hook(hook)


def bad_weights(engine):
    engine.model.blocks[1].attention.k_proj.weight.data[0, 0] = float("nan")


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        (bad_forward, r"loss is nan\. It begins with the output of blocks\.1\.feedforward\."),
        (bad_backward, r"gradient's length is (nan|inf)\. It begins with the gradient (that reaches|of)"),
    ],
)
def test_a_number_that_is_none_stops_the_run_and_says_step_and_part(tmp_path, undisturbed, monkeypatch, spoil, where):
    found, task = small(tmp_path)
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        spoiled(patch, 7, spoil)
        with pytest.raises(Diverged, match=rf"Step 8: .*{where}.*step-000000007.*optimiser\.rate"):
            fit(found, task, run)
    assert read_run(run).state == "failed"
    assert [folder.name[-2:] for folder in checkpoints(run)] == ["07", "06", "03"]  # nothing is taken away
    assert [score.step for score in read_run(run).scores] == [0, 4]
    fit(found, task, run)  # what was kept is good
    assert told(run) == told(undisturbed)


def test_a_gradient_that_is_too_long_at_the_first_step_says_so(tmp_path, monkeypatch):
    """Each entry is finite, but the sum of their squares is not. No rate is the cause, so none is advised."""
    found, task = small(tmp_path)

    def long_gradient(engine):
        engine.model.blocks[0].attention.q_proj.weight.register_hook(lambda gradient: torch.full_like(gradient, 1e19))

    spoiled(monkeypatch, 0, long_gradient)
    with pytest.raises(Diverged) as error:
        fit(found, task, tmp_path / "run")
    text = str(error.value)
    assert "the gradient's length is inf. It begins with the gradient of blocks.0.attention.q_proj.weight: its entries are" in text
    assert "the largest is 1e+19, but float32 cannot hold the sum of their squares." in text
    assert "No step has changed the weights yet" in text
    assert "optimiser.rate" not in text


def test_weights_that_are_no_numbers_are_never_saved(tmp_path, monkeypatch):
    found, task = small(tmp_path)
    spoiled(monkeypatch, 7, bad_weights)
    with pytest.raises(
        Diverged, match=r"Step 8: the loss is nan\. It begins with the weights blocks\.1\.attention\.k_proj\.weight\."
    ):
        fit(found, task, tmp_path / "run")
    assert [folder.name[-2:] for folder in checkpoints(tmp_path / "run")] == ["06", "03"]
    assert all(t.isfinite().all() for t in load_run(tmp_path / "run").state_dict().values())


WORSE = {"rate": 3.0, "warmup": 0, "clip": None, "schedule": "constant"}


def test_best_weights_that_are_lost_are_missed(tmp_path):
    found, task = small(tmp_path, optimiser=WORSE)
    fit(found, task, tmp_path / "run")
    assert task.evaluate(load_run(tmp_path / "run")) != task.evaluate(load_run(tmp_path / "run", "last"))
    shutil.rmtree(tmp_path / "run" / "best")
    with pytest.raises(InputError, match=r"best is gone, where the best weights were; the last ones are in .*checkpoints"):
        load_run(tmp_path / "run")
    assert load_run(tmp_path / "run", "last") is not None


@pytest.mark.parametrize("damage", ["gone", "flipped"])
def test_a_run_whose_best_weights_are_lost_goes_on_and_says_so(tmp_path, damage):
    found, task = small(tmp_path, optimiser=WORSE)

    def stop(entry):
        if isinstance(entry, Point) and entry.step == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    assert fit(found, task, tmp_path / "run", Watcher(entry=stop)).state == "stopped"
    weights = next((tmp_path / "run" / "best").rglob("*.safetensors"))
    if damage == "gone":
        shutil.rmtree(tmp_path / "run" / "best")
    else:
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(bytes(content))
    said = []
    made = fit(found, task, tmp_path / "run", Watcher(message=said.append))
    assert made.state == "finished"
    assert any("replace them, and better ones later" in sentence for sentence in said), said
    later = [score.values["loss"] for score in read_run(tmp_path / "run").scores if score.step > 6]
    assert made.result["validation"]["loss"] <= min(later)
    assert made.result["validation"] == task.evaluate(load_run(tmp_path / "run"))


def test_the_norm_of_a_feedforward_that_there_is_not_is_left_out():
    spec = Spec.of(
        {"width": 16, "vocabulary": 9, "outputs": 9, "block": {"attention": {"heads": 2, "causal": True}, "feedforward": None}}
    )
    tensors = {name: p.detach() for name, p in build(spec).named_parameters()}
    assert build_from(spec, tensors | {"blocks.0.feedforward_norm.weight": torch.ones(16)}) is not None
    with pytest.raises(InputError, match="which no part of the run's model reads"):
        build_from(spec, tensors | {"blocks.0.attention.other": torch.ones(16)})


def test_what_is_measured_on_what_was_learned_is_said(tmp_path):
    said = []
    found, task = small(tmp_path, data={"validation": str(small_text(tmp_path))})
    fit(found, task, tmp_path / "run", Watcher(message=said.append))
    assert "The validation part is also in the training part" in said[0]


def test_a_rate_that_is_far_too_high_is_said_and_the_best_weights_stay(tmp_path):
    found, task = small(tmp_path, optimiser={"rate": 1e30, "warmup": 0, "clip": None}, evaluation={"every": 1, "save": 1})
    with pytest.raises(Diverged, match=r"Step \d+.*lower optimiser\.rate"):
        fit(found, task, tmp_path / "run")
    best = load_run(tmp_path / "run")
    assert all(p.isfinite().all() for p in best.parameters())


def test_a_measurement_that_is_no_number_is_never_the_best(tmp_path, monkeypatch):
    found, task = small(tmp_path)
    measured = iter([float("nan"), 3.0, float("nan"), 4.0])
    monkeypatch.setattr(LanguageTask, "evaluate", lambda self, model, part="validation": {"loss": next(measured, 5.0)})
    seen = []
    fit(found, task, tmp_path / "run", Watcher(entry=lambda entry: seen.append(entry) if isinstance(entry, Score) else None))
    assert [score.best for score in seen] == [False, True, False, False]


# ---------------------------------------------------------------------------------------------------- another run


@pytest.fixture
def begun(tmp_path):
    """A run that was stopped."""
    found, task = small(tmp_path)
    fit(found, task, tmp_path / "run", stopping(signal.SIGTERM))
    return tmp_path


def test_old_checkpoints_that_a_kill_left_are_gone_at_the_end(tmp_path, monkeypatch):
    found, task = small(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(loop.run_folder, "prune", lambda *given: None)
        made = fit(found, task, tmp_path / "run")
    write_run(msgspec.structs.replace(made, state="running"), tmp_path / "run")  # as after a kill before the end
    assert len(checkpoints(tmp_path / "run")) > found.evaluation.keep
    fit(found, task, tmp_path / "run")
    assert len(checkpoints(tmp_path / "run")) == found.evaluation.keep


def test_a_changed_recipe_is_refused_with_the_difference(begun):
    found, task = small(begun, optimiser={"rate": 1e-4})
    with pytest.raises(InputError, match=r"another recipe.*optimiser\.rate: 0\.003, now 0\.0001.*--out"):
        fit(found, task, begun / "run")


def test_changed_data_is_refused_with_its_name(begun):
    path = begun / "text.txt"
    path.write_text(path.read_text().replace("a", "e"))
    found, task = small(begun)
    with pytest.raises(InputError, match=r"other data: .*text\.txt with sha256"):
        fit(found, task, begun / "run")


def test_a_changed_tokenizer_is_refused_and_the_runs_own_stays(tmp_path):
    other = tmp_path / "tokenizer.json"
    by_characters(small_text(tmp_path).read_text()).save(other)
    made = {"tokens": str(other), "held_out": 0.2}
    found, task = small(tmp_path, data=made)
    fit(found, task, tmp_path / "run")
    kept = (tmp_path / "run" / "tokenizer.json").read_bytes()
    by_characters("".join(sorted(set(small_text(tmp_path).read_text())))).save(other)  # the same signs under other ids
    found, task = small(tmp_path, data=made)
    with pytest.raises(InputError, match=r"tokenizer\.json is another than the data makes now"):
        fit(found, task, tmp_path / "run")
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == kept


def test_each_of_several_files_of_one_name_is_looked_at(tmp_path):
    whole = small_text(tmp_path).read_text()
    for name, part in (("a", whole[:1500]), ("b", whole[1500:])):
        (tmp_path / name / "x").mkdir(parents=True)
        (tmp_path / name / "x" / "t.txt").write_text(part)
    found, task = small(tmp_path, data={"train": str(tmp_path / "*" / "x" / "t.txt")})
    fit(found, task, tmp_path / "run")
    first = tmp_path / "a" / "x" / "t.txt"
    first.write_text(first.read_text().replace("a", "e"))
    found, task = small(tmp_path, data={"train": str(tmp_path / "*" / "x" / "t.txt")})
    with pytest.raises(InputError, match="other data"):
        fit(found, task, tmp_path / "run")


def test_data_that_has_gone_is_refused_with_its_name(begun):
    (begun / "text.txt").unlink()
    with pytest.raises(InputError, match=r"There is no .*text\.txt"):
        open_task(recipe(read_run(begun / "run").recipe))


def test_data_that_goes_while_it_is_read_stops_the_run_and_it_goes_on_later(begun, monkeypatch):
    found, task = small(begun)
    batch = LanguageTask.batch

    def gone(self, step, *given):
        if step >= 9:
            raise FileNotFoundError(2, "No such file or directory", "picture-17.png")
        return batch(self, step, *given)

    with monkeypatch.context() as patch:
        patch.setattr(LanguageTask, "batch", gone)
        with pytest.raises(InputError, match=r"picture-17\.png: No such file or directory.*is complete.*the same command"):
            fit(found, task, begun / "run")
    assert fit(found, task, begun / "run").state == "finished"


def test_a_run_knows_its_recipe_when_the_file_has_gone(begun):
    from equiscope.cli.train import train as command

    assert command(begun / "run", None, [], False, 1, False) == 0


def test_lost_lines_are_said(begun):
    (begun / "run" / "metrics.jsonl").unlink()
    found, task = small(begun)
    said = []
    fit(found, task, begun / "run", Watcher(message=said.append))
    assert any("has lines for 0 steps only" in sentence for sentence in said)


def test_a_line_that_was_cut_is_written_again(begun, undisturbed):
    found, task = small(begun)
    metrics = begun / "run" / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-9])
    fit(found, task, begun / "run")
    assert told(begun / "run")[-1] == told(undisturbed)[-1]


def test_another_machine_is_said(begun, monkeypatch):
    found, task = small(begun)
    monkeypatch.setattr(loop.folder, "versions", lambda: {"equiscope": "9", "torch": "9.9"})
    said = []
    fit(found, task, begun / "run", Watcher(message=said.append))
    assert "differ by rounding" in said[1]
    assert "torch" in said[1]


# ------------------------------------------------------------------------------------------------------ a start


def test_a_run_begins_with_the_weights_of_another_run(tmp_path):
    found, task = small(tmp_path)
    fit(found, task, tmp_path / "first")
    (tmp_path / "vocabulary.json").write_text((tmp_path / "first" / "tokenizer.json").read_text())
    data = plain(tmp_path)
    data["model"] = {"start": str(tmp_path / "first")}
    found = recipe(data)
    task = open_task(found)
    fit(found, task, tmp_path / "second")
    scores = [read_run(tmp_path / name).scores for name in ("first", "second")]
    assert scores[1][0].values == min((score.values for score in scores[0]), key=lambda values: values["loss"])


@pytest.mark.parametrize("family", few(["gpt2", "llama"], 1))
def test_a_run_begins_with_the_weights_of_a_checkpoint_of_the_world(tmp_path, family):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    if family == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=256, n_positions=32, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
        )
        theirs = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.LlamaConfig(
            vocab_size=256, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
        )
        theirs = transformers.LlamaForCausalLM(config)
    theirs.save_pretrained(tmp_path / "theirs")
    data = plain(tmp_path, data={"tokens": "bytes"})
    data["model"] = {"start": str(tmp_path / "theirs")}
    found = recipe(data)
    task = open_task(found)
    fit(found, task, tmp_path / "run")
    run = read_run(tmp_path / "run")
    batch = task.batch(0)
    with torch.no_grad():
        loss = theirs.eval()(batch.tensors["inputs"]).logits
    mean = torch.nn.functional.cross_entropy(loss.flatten(0, 1), batch.tensors["targets"].flatten())
    assert run.points[0].loss == pytest.approx(float(mean), rel=1e-5)
    assert run.points[-1].loss < run.points[0].loss
    save(load_run(tmp_path / "run"), tmp_path / "back", family)  # and back into the world
