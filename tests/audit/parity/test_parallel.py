"""One process against several: a parallel model that is right has no difference, and of a planted fault the module is named."""

import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module

import equiscope as eq
from equiscope.audit import CAUSES
from equiscope.audit.parity.ranks.layouts import Shared, layout
from tests.audit.parity.parallel import FAULTS, IDS, decoder, planted, raises, sharded, sharded_with_other_norms
from tests.cli.test_cli import equi  # noqa: F401
from tests.models.test_plain_modules import IDS as TOKENS
from tests.models.test_plain_modules import LLAMA, PLAN, made
from tests.training.test_processes import torchrun

pytestmark = pytest.mark.xdist_group("processes")
THOROUGH = [fault for fault in FAULTS if fault[1] in ((1, "norm1"), (1, "attention"), (1, ""))]


def of_torch(model):
    """The plan of torch.distributed.tensor.parallel."""
    mesh = init_device_mesh("cpu", (2,))
    for block in model.blocks:
        parallelize_module(block, mesh, {name: style() for name, style in PLAN.items()})
        block.attention.heads, block.attention.kv_heads = 2, 1
    return model


@pytest.mark.parametrize(("fault", "at"), [pytest.param(*f, marks=[pytest.mark.thorough] * (f in THOROUGH)) for f in FAULTS])
def test_the_module_of_a_planted_fault_is_named(fault, at):
    parity = eq.parity(decoder(fused=fault == "fused cut"), planted(fault, at), IDS)
    assert (parity.kind, parity.step_a.module) == FAULTS[fault, at]
    assert not parity.holds
    assert parity.kind in CAUSES


def test_cuts_by_hand_by_torch_and_by_fsdp_have_no_difference():
    assert eq.parity(decoder(), planted("", (0, "")), IDS).holds
    assert eq.parity(decoder(), sharded, IDS).holds
    parity = eq.parity(made(LLAMA), of_torch, TOKENS)
    assert parity.holds
    assert parity.aligned == parity.values > 30


@pytest.mark.thorough
@pytest.mark.parametrize("processes", [2, 4])
def test_more_processes_and_a_fused_projection_have_no_difference(processes):
    assert eq.parity(decoder(fused=True), planted("", (0, "")), IDS, processes=processes).holds
    parity = eq.parity(decoder(), planted("bias before the sum", (1, "feedforward")), IDS, processes=processes)
    assert parity.cause.endswith(f"it counts {processes} times in B")


def test_shards_of_a_norm_that_come_from_two_models_are_named():
    parity = eq.parity(decoder(), sharded_with_other_norms, IDS)
    assert (parity.kind, parity.step_a.module) == ("weights", "blocks.1.norm2")


def test_a_process_that_raises_is_named_with_its_module():
    with pytest.raises(eq.errors.InputError, match=r"Process 1 of 2 raised RuntimeError: out of paper in blocks\.1\.norm2"):
        eq.parity(decoder(), raises, IDS)


def test_what_is_no_function_of_a_copy_is_refused():
    with pytest.raises(eq.errors.InputError, match=r"returns it as a parallel torch\.nn\.Module, but returned int"):
        eq.parity(decoder(), lambda model: 3, IDS)
    with pytest.raises(eq.errors.InputError, match="a function that gets a copy of A"):
        eq.parity(decoder(), decoder(), IDS, processes=2)
    with pytest.raises(eq.errors.InputError, match="2 processes or more"):
        eq.parity(decoder(), sharded, IDS, processes=1)


def test_layouts_are_told_apart():
    t = torch.randn(3, 8, dtype=torch.float64)
    other = torch.randn(3, 8, dtype=torch.float64)
    order = [0, 1, 4, 5, 2, 3, 6, 7]
    cases = {"whole": [t, t], "sharded": t.chunk(2, 0), "partial": [t - other, other], "permuted": t[:, order].chunk(2, 1)}
    for kind, ranks in cases.items():
        assert layout(Shared(t, list(ranks))).kind == kind
    assert layout(Shared(t, [other, t])) is None
    assert layout(Shared(t, [t, t * (1 + 1e-6)])) is None


def test_under_torchrun_every_process_gets_the_answer():
    command = torchrun(str(Path(__file__).with_name("torchrun.py")))
    here = os.pathsep.join([str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])])
    changed = {"OMP_NUM_THREADS": "1", "PYTHONPATH": here}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | changed, timeout=120)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")[:2]) == [f"{rank} all-reduce blocks.1.down_proj" for rank in range(2)]


def test_the_command_takes_names_of_both(equi):  # noqa: F811
    names = ["tests.audit.parity.parallel:example", "tests.audit.parity.parallel:of_name"]
    code, out, err = equi("parity", *names, "--processes", "2")
    assert code == 1, err
    assert "blocks.0.attention.o_proj.bias counts once in A, it counts 2 times in B" in " ".join(out.split())
