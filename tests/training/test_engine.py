"""One step of learning: the same however it is cut, kept, or put back."""

import json
import subprocess
import sys

import pytest
import torch

from equiscope.errors import InputError
from equiscope.models import build
from equiscope.training import engine as engines
from equiscope.training import fit
from equiscope.training.engine import Diverged, TrainingEngine
from equiscope.training.task import resolve_spec
from tests.pairwise import few
from tests.training.small import plain, small


def engine(folder, **changes):
    """An engine with fresh weights, and its task."""
    found, task = small(folder, **changes)
    torch.manual_seed(0)
    return TrainingEngine(found, build(resolve_spec(task))), task


def losses(folder, steps=4, **changes):
    made, task = engine(folder, **changes)
    return [made.step(task, step).loss for step in range(steps)]


@pytest.mark.quick
def test_a_batch_that_is_read_in_turns_is_the_batch(tmp_path):
    whole = losses(tmp_path, budget={"batch": 6})
    assert losses(tmp_path, budget={"batch": 6, "accumulate": 3}) == pytest.approx(whole, rel=1e-6)  # float32; measured 1e-7
    assert losses(tmp_path, budget={"batch": 6, "accumulate": 4}) == pytest.approx(whole, rel=1e-6)  # turns of 2, 2, 1 and 1


def test_turns_in_bfloat16_are_added_in_float32(tmp_path):
    whole = losses(tmp_path, budget={"batch": 8}, engine={"precision": "bfloat16"})
    turns = losses(tmp_path, budget={"batch": 8, "accumulate": 8}, engine={"precision": "bfloat16"})
    assert turns == pytest.approx(whole, rel=2e-3)
    assert whole == pytest.approx(losses(tmp_path, budget={"batch": 8}), rel=5e-3)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_recomputing_changes_no_bit_with_dropout_too(tmp_path, precision):
    kept = losses(tmp_path, model={"dropout": 0.2}, engine={"precision": precision})
    assert losses(tmp_path, model={"dropout": 0.2}, engine={"precision": precision, "recompute": True}) == kept


def test_recomputing_keeps_less(tmp_path):
    held = {}
    for recompute in (False, True):
        made, task = engine(tmp_path, engine={"recompute": recompute})
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, sizes=sizes: sizes.append(t.numel()) or t, lambda t: t):
            made._called(task.batch(0).tensors["inputs"])
        held[recompute] = sum(sizes)
    assert held[True] < held[False] / 2


def test_the_gradient_is_cut_to_its_length_and_said_before(tmp_path):
    free, task = engine(tmp_path, optimiser={"clip": None})
    cut, _ = engine(tmp_path, optimiser={"clip": 0.01})
    seen = {}
    for name, made in (("free", free), ("cut", cut)):
        step = made.optimisers[0].step

        def kept(made=made, name=name, step=step):
            seen[name] = torch.stack([p.grad.norm() for p in made.model.parameters()]).norm()
            step()

        made.optimisers[0].step = kept
    assert free.step(task, 0).norm == pytest.approx(cut.step(task, 0).norm)
    assert float(seen["free"]) == pytest.approx(free.step(task, 0).norm, rel=0.5)
    assert float(seen["cut"]) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("sharpness", [0.0, 0.1])
def test_a_step_that_diverges_changes_no_weight(tmp_path, sharpness):
    made, task = engine(tmp_path, optimiser={"sharpness": sharpness})
    made.step(task, 0)
    before = made.state()
    made.model.blocks[0].register_forward_hook(lambda part, given, answer: answer / 0)
    with pytest.raises(Diverged, match=r"Step 2: .*begins with the output of blocks\.0\."):
        made.step(task, 1)
    after = made.state()
    assert all(torch.equal(after[name][key], t) for name, tensors in before.items() for key, t in tensors.items())


def test_with_sharpness_the_step_is_by_the_gradient_uphill(tmp_path):
    """Algorithm 1 of Foret et al. 2021, in float64: the gradient of the weights that are 0.1 along the first one."""
    made, task = engine(tmp_path, optimiser={"sharpness": 0.1, "clip": None})
    made.model.double()
    batch, weights, seen = task.batch(0, 0, 1), list(made.model.parameters()), []
    made.optimisers[0].step = lambda: seen.extend(p.grad.clone() for p in weights)

    def gradient():
        return torch.autograd.grad(task.loss(made.model, batch).double() / batch.terms, weights)

    first = gradient()
    length = torch.stack([g.norm() for g in first]).norm()
    with torch.no_grad():
        torch._foreach_add_(weights, [0.1 * g / length for g in first])
    wanted = gradient()
    with torch.no_grad():
        torch._foreach_sub_(weights, [0.1 * g / length for g in first])
    said = made.step(task, 0)
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-7) for a, b in zip(seen, wanted, strict=True))  # the loss is float32
    assert not all(torch.allclose(a, b, rtol=1e-2) for a, b in zip(seen, first, strict=True))
    assert said.norm == pytest.approx(float(torch.stack([g.norm() for g in wanted]).norm()), rel=1e-4)


def test_both_gradients_of_a_step_have_the_same_dropout_and_are_read_in_turns(tmp_path):
    sharp = {"optimiser": {"sharpness": 0.1}}
    whole = losses(tmp_path, budget={"batch": 6}, **sharp)
    assert losses(tmp_path, budget={"batch": 6, "accumulate": 3}, **sharp) == pytest.approx(whole, rel=1e-6)
    assert losses(tmp_path, budget={"batch": 6}, engine={"precision": "bfloat16"}, **sharp) == pytest.approx(whole, rel=5e-3)
    assert whole != pytest.approx(losses(tmp_path, budget={"batch": 6}), rel=1e-4)
    made, task = engine(tmp_path, model={"dropout": 0.5}, optimiser={"sharpness": 1e-12})
    first = made._gradient(task, 0, [task.batch(0)])
    assert torch.equal(made._gradient(task, 0, [task.batch(0)]), first)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_what_an_engine_gives_another_takes(tmp_path, kind):
    changes = {"optimiser": {"kind": kind, "average": 0.9}, "engine": {"precision": "bfloat16"}}
    one, task = engine(tmp_path, **changes)
    for step in range(3):
        one.step(task, step)
    other, _ = engine(tmp_path, **changes)
    files = one.state()
    other.restore(files.__getitem__)
    assert all(torch.equal(other.state()[name][key], t) for name, tensors in files.items() for key, t in tensors.items())
    assert other.step(task, 3).loss == one.step(task, 3).loss


def test_an_average_that_is_missing_is_refused_before_a_weight_has_changed(tmp_path):
    one, _ = engine(tmp_path)
    other, _ = engine(tmp_path, optimiser={"average": 0.9})
    files = {name: {key: t + 1 for key, t in tensors.items()} for name, tensors in one.state().items()}
    before = other.state()["model.safetensors"]
    with pytest.raises(InputError, match="average of the weights"):
        other.restore(files.__getitem__)
    assert all(torch.equal(other.state()["model.safetensors"][key], t) for key, t in before.items())


# ------------------------------------------------------------------------------------------------------- products


SWITCH = torch.backends.mkldnn.matmul
with_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this build of torch has no oneDNN")


@with_onednn
def test_products_go_through_onednn_while_a_run_goes_that_asks_for_it(tmp_path, monkeypatch):
    before, found = SWITCH.fp32_precision, []
    monkeypatch.setattr(engines.TrainingEngine, "step", noting(engines.TrainingEngine.step, found))
    fit(*small(tmp_path, engine={"products": "onednn"}), tmp_path / "run")
    assert set(found) == {"bf16"}
    assert SWITCH.fp32_precision == before
    found.clear()
    fit(*small(tmp_path), tmp_path / "plain")
    assert set(found) == {before}


def noting(step, found):
    def noted(*given, **named):
        found.append(SWITCH.fp32_precision)
        return step(*given, **named)

    return noted


@with_onednn
def test_the_switch_of_products_is_set_back_after_an_error():
    before = SWITCH.fp32_precision

    def fail():
        assert SWITCH.fp32_precision == "bf16"
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"), engines.onednn_products():
        fail()
    assert SWITCH.fp32_precision == before


def test_onednn_is_refused_where_torch_has_none(monkeypatch):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with pytest.raises(InputError, match="this build of torch has no oneDNN"), engines.onednn_products():
        pass


# ------------------------------------------------------------------------------------------------------ processes


def test_one_process_needs_neither_fabric_nor_the_checkpoints_of_many(tmp_path, monkeypatch):
    for name in ("lightning_fabric", "torch.distributed.checkpoint"):
        monkeypatch.setitem(sys.modules, name, None)  # an import fails
    found, task = small(tmp_path, budget={"steps": 3})
    assert fit(found, task, tmp_path / "run").state == "finished"


@pytest.mark.thorough
def test_a_process_that_trains_imports_neither_fabric_nor_the_checkpoints_of_many(tmp_path):
    code = (
        "import sys, json; from pathlib import Path; from equiscope.training import *; "
        "found = recipe(json.loads(sys.argv[1])); fit(found, open_task(found), Path(sys.argv[2])); "
        "print([name for name in sys.modules if name.startswith(('lightning', 'torch.distributed.checkpoint'))])"
    )
    given = [json.dumps(plain(tmp_path, budget={"steps": 3})), str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_several_processes_without_the_extra_are_refused_with_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    found, task = small(tmp_path)
    with pytest.raises(InputError, match=r"2 processes.*pip install -e '\.\[train\]' in the clone; or train with one process"):
        TrainingEngine(found, build(resolve_spec(task)), devices=2)


def test_a_batch_that_cannot_be_shared_out_is_refused(tmp_path):
    found, task = small(tmp_path, budget={"batch": 4, "accumulate": 3})
    with pytest.raises(InputError, match="A batch of 4 cannot be shared out in 3 turns to 2 processes"):
        TrainingEngine(found, build(resolve_spec(task)), devices=2)


# ---------------------------------------------------------------------------------------------------------- cost


def test_a_step_costs_six_times_the_multiply_adds_of_a_forward_pass(tmp_path):
    """As torch counts operations, forward and back; of attention, the products with all pairs."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    _, task = small(tmp_path)
    spec = resolve_spec(task)
    model, batch = build(spec), task.batch(0)
    with FlopCounterMode(display=False) as process_count, sdpa_kernel(SDPBackend.MATH):
        task.loss(model, batch).backward()
    assert process_count.get_total_flops() == pytest.approx(6 * task.multiply_adds(spec, batch), rel=0.01)


@pytest.mark.slow
@pytest.mark.compile
@pytest.mark.thorough
def test_a_compiled_step_on_a_cpu_drops_what_a_plain_one_drops(tmp_path):
    dropping = {"model": {"dropout": 0.3, "drop_path": 0.3}}
    assert losses(tmp_path, engine={"compile": True}, **dropping) == pytest.approx(losses(tmp_path, **dropping), rel=1e-5)


@pytest.mark.compile
@pytest.mark.parametrize(
    ("options", "more", "within"),
    few([({}, {}, 1e-5), ({}, {"recompute": True}, 1e-5), ({"precision": "bfloat16"}, {"precision": "bfloat16"}, 5e-3)], 1),
)
def test_a_compiled_step_learns_the_same(tmp_path, options, more, within):
    one_layer = {"model": {"layers": 1}, "steps": 2}  # C++ is compiled for each layer
    compiled = losses(tmp_path, engine={"compile": True, **more}, **one_layer)
    assert compiled == pytest.approx(losses(tmp_path, engine=options, **one_layer), rel=within)


@pytest.mark.quick
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_model_computes_in_the_precision_of_the_recipe(tmp_path, precision):
    found, _ = engine(tmp_path, engine={"precision": precision})
    assert {str(p.dtype).removeprefix("torch.") for p in found._computing.parameters()} == {precision}
    assert {p.dtype for p in found.model.parameters()} == {torch.float32}
