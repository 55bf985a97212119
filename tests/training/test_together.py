"""Seeds trained as one batched model are the runs that they would be apart, up to rounding."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope.record import Run, read_run
from equiscope.training import Batch, LanguageTask, Watcher, fit, open_task, recipe, resolve_spec
from equiscope.training.loop import untrained_model
from equiscope.training.together import NotTogether, Stack, fit_together, unsupported
from tests.training.small import files, plain, told
from tests.training.test_images import plain as pictures

SEEDS = (3, 4)


def several(folder: Path, seeds: tuple[int, ...] = SEEDS, **changes: Any) -> tuple[list[Any], list[Any]]:
    """A recipe with several seeds, and their tasks."""
    recipes = [recipe(plain(folder, **changes) | {"seed": seed}) for seed in seeds]
    return recipes, [open_task(one) for one in recipes]


def both_ways(folder: Path, **changes: Any) -> tuple[list[Path], list[Path]]:
    """The folders of runs trained together, and apart."""
    recipes, tasks = several(folder, **changes)
    together, apart = ([folder / way / str(one.seed) for one in recipes] for way in ("together", "apart"))
    for one, task, out in zip(recipes, tasks, apart, strict=True):
        fit(one, task, out)
    runs = fit_together(recipes, [open_task(one) for one in recipes], together)
    assert [run.state for run in runs if isinstance(run, Run)] == ["finished"] * len(recipes)
    return together, apart


def largest_difference(a: Path, b: Path) -> float:
    """Of the losses, the norms of the gradients and the scores of two runs, relative."""
    one, other = ([{**line.pop("values", {}), **line} for line in told(run) if "prompt" not in line] for run in (a, b))
    assert [line.keys() for line in one] == [line.keys() for line in other]
    pairs = [(x[name], y[name]) for x, y in zip(one, other, strict=True) for name in x]
    numbers = [(x, y) for x, y in pairs if isinstance(x, float)]
    assert all(x == y for x, y in pairs if not isinstance(x, float))
    return max(abs(x - y) / max(abs(x), abs(y), 1e-3) for x, y in numbers)


@pytest.mark.parametrize(
    "changes",
    [
        {
            "model": {"block": {"attention": {"position": "learned"}, "norm": {"kind": "rms"}}, "tied": True},
            "optimiser": {"kind": "muon", "average": 0.9}, "budget": {"accumulate": 2, "steps": 6},
        },
        pytest.param({}, marks=pytest.mark.thorough),
        pytest.param({"model": {"block": {"attention": {"position": "alibi"}}}}, marks=pytest.mark.thorough),
    ],
    ids=["learned and tied, muon, average, accumulate", "rope", "alibi"],
)  # fmt: skip
def test_runs_together_are_the_runs_apart(tmp_path, changes):
    for a, b in zip(*both_ways(tmp_path, **changes), strict=True):
        assert largest_difference(a, b) < 2e-3  # float32, 12 steps
        assert read_run(a, entries=False).notes[-1].startswith("Trained as one batched model with the seeds")


def test_pictures_of_which_only_some_seeds_mix_a_step(tmp_path):
    changes = {"data": {"augment": {"mixup": 0.5, "mix_probability": 0.5, "flip": 0.5}}, "budget": {"steps": 4}}
    recipes = [recipe(pictures(tmp_path, **changes) | {"seed": seed}) for seed in (1, 2)]
    mixed = [["other" in open_task(one).batch(step).tensors for one in recipes] for step in range(4)]
    assert any(len(set(step)) == 2 for step in mixed)
    together, apart = ([tmp_path / way / str(one.seed) for one in recipes] for way in ("together", "apart"))
    fit_together(recipes, [open_task(one) for one in recipes], together)
    for one, a, b in zip(recipes, together, apart, strict=True):
        fit(one, open_task(one), b)
        assert largest_difference(a, b) < 2e-3


class Exact(LanguageTask):
    """With a loss in float64."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        outputs = model(batch.tensors["inputs"])
        return F.cross_entropy(outputs.flatten(0, -2), batch.tensors["targets"].flatten(), reduction="sum")


@pytest.mark.quick
@pytest.mark.parametrize("position", ["rope", "alibi", "t5"])
def test_in_float64_losses_and_weights_are_those_of_models_alone(tmp_path, position):
    recipes, _ = several(tmp_path, model={"block": {"attention": {"position": position}}})
    tasks = [Exact.from_recipe(one) for one in recipes]
    stack = Stack(recipes, tasks, [doubled(*one) for one in zip(recipes, tasks, strict=True)])
    alone = [Stack([one], [task], [doubled(one, task)]) for one, task in zip(recipes, tasks, strict=True)]
    for step in range(5):
        together = dict(stack.step(step, lambda: 0, range(2)))
        for i, single in enumerate(alone):
            (_, result), *_ = single.step(step, lambda: 0, [0])
            assert together[i].loss == pytest.approx(result.loss, rel=1e-10)
            assert together[i].norm == pytest.approx(result.norm, rel=1e-10)
    for member, single in zip(stack.members, alone, strict=True):
        for p, q in zip(member.model.parameters(), single.members[0].model.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-10)


def doubled(one: Any, task: Any) -> Any:
    return untrained_model(one, task, resolve_spec(task)).double()


def test_a_stop_is_resumed_bit_for_bit_from_the_last_common_checkpoint(tmp_path):
    recipes, _ = several(tmp_path)
    tasks = [open_task(one) for one in recipes]
    through, stopped = ([tmp_path / way / str(one.seed) for one in recipes] for way in ("through", "stopped"))
    fit_together(recipes, tasks, through)

    def stop(entry: Any) -> None:
        if getattr(entry, "loss", None) is not None and entry.step == 7:
            signal.raise_signal(signal.SIGTERM)

    runs = fit_together(recipes, tasks, stopped, Watcher(entry=stop))
    assert [run.state for run in runs if isinstance(run, Run)] == ["stopped", "stopped"]
    newest = max((stopped[1] / "checkpoints").iterdir())
    (newest / "model.safetensors").write_bytes(b"")  # as if a kill had come between the checkpoints of the two
    runs = fit_together(recipes, tasks, stopped)
    assert [run.state for run in runs if isinstance(run, Run)] == ["finished", "finished"]
    for a, b in zip(through, stopped, strict=True):
        assert told(a) == told(b)
        assert files(a) == files(b)


def test_runs_go_on_apart_from_checkpoints_together_and_are_refused_together_without_a_common_one(tmp_path):
    recipes, _ = several(tmp_path)
    outs = [tmp_path / "runs" / str(one.seed) for one in recipes]

    def stop(entry: Any) -> None:
        if getattr(entry, "loss", None) is not None and entry.step == 7:
            signal.raise_signal(signal.SIGTERM)

    fit_together(recipes, [open_task(one) for one in recipes], outs, Watcher(entry=stop))
    assert fit(recipes[0], open_task(recipes[0]), outs[0]).state == "finished"
    with pytest.raises(NotTogether, match="no checkpoint of the same step"):
        fit_together(recipes, [open_task(one) for one in recipes], outs)


def test_a_seed_that_diverges_is_saved_and_the_others_go_on(tmp_path, monkeypatch):
    recipes, tasks = several(tmp_path, seeds=(3, 4, 5), budget={"steps": 4})
    outs = [tmp_path / "runs" / str(one.seed) for one in recipes]
    good = type(tasks[1]).batch

    def broken(self: LanguageTask, step: int, share: int = 0, shares: int = 1) -> Batch:
        if self.recipe.seed == 4 and step == 2:
            with torch.no_grad():
                stacks[0].members[1].model.output_layer.lm_head.weight.fill_(float("nan"))
        return good(self, step, share, shares)

    stacks: list[Stack] = []
    check = Stack._check
    monkeypatch.setattr(Stack, "_check", lambda self: (stacks.append(self), check(self))[1])
    monkeypatch.setattr(LanguageTask, "batch", broken)
    first, wild, last = fit_together(recipes, tasks, outs)
    assert isinstance(first, Run)
    assert isinstance(last, Run)
    assert first.state == last.state == "finished"
    assert "Step" in str(wild)
    assert "output_layer" in str(wild)
    assert read_run(outs[1], entries=False).state == "failed"


def test_what_is_not_computed_as_one_model_is_refused_with_the_reason(tmp_path):
    data = {**plain(tmp_path), "model": {"baseline": "lstm", "width": 16, "layers": 1}}
    recipes = [recipe(data | {"seed": seed}) for seed in SEEDS]
    tasks = [open_task(one) for one in recipes]
    with pytest.raises(NotTogether, match="cannot be computed for several seeds at once"):
        fit_together(recipes, tasks, [tmp_path / "a", tmp_path / "b"])
    assert not (tmp_path / "a").exists()
    recipes, tasks = several(tmp_path, optimiser={"sharpness": 0.1})
    assert unsupported(recipes[0], type(tasks[0])) == "optimiser.sharpness is set, which works on one model"
