"""Recorded activations and ONNX files are sides too."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import equiscope as eq
from equiscope.errors import InputError
from tests.audit.parity.families import GatedA, PlainA, gated_b, ids, made, plain_b


def recorded(model, *inputs):
    """The activations of each module, and the inputs, under their names: what a person writes for a dump."""
    arrays, hooks = {f"input.{i}": x for i, x in enumerate(inputs)}, []
    for name, module in model.named_modules():
        hook = lambda _, given, y, name=name: arrays.update({name or "output": y.detach()})  # noqa: E731
        hooks.append(module.register_forward_hook(hook))
    with torch.no_grad():
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return arrays


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_dump_of_the_other_form_holds(tmp_path, suffix):
    a = made(PlainA)
    arrays = recorded(plain_b(a, permuted=True), ids())
    path = tmp_path / f"b{suffix}"
    if suffix == ".npz":
        np.savez(path, **{n: t.numpy() for n, t in arrays.items()})
    else:
        save_file({n: t.contiguous().clone() for n, t in arrays.items()}, path)
    assert eq.parity(a, path).holds


def test_the_first_tensor_of_a_dump_that_differs_is_named():
    a = made(PlainA)
    arrays = recorded(plain_b(a, replace(a.o, activation="gelu")), ids())
    found = eq.parity(a, arrays)
    assert not found.holds
    assert found.step_a.operation == "gelu"
    assert found.step_b.value == "blocks.0.c_out"


def test_a_dump_with_python_objects_is_refused(tmp_path):
    np.savez(tmp_path / "bad.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="no file of plain arrays"):
        eq.parity(made(PlainA), tmp_path / "bad.npz", ids())


def test_an_onnx_file_holds_and_its_planted_difference_is_named(tmp_path):
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    a = made(PlainA)
    for name, changed in (("good", {}), ("bad", {"activation": "gelu"})):
        b = plain_b(a, replace(a.o, **changed))
        torch.onnx.export(b, (ids(),), tmp_path / f"{name}.onnx", dynamo=True, verbose=False)
    assert eq.parity(a, tmp_path / "good.onnx", ids()).holds
    found = eq.parity(a, tmp_path / "bad.onnx", ids(), differences=1)
    assert found.kind == "activation"


def test_causes_are_named_against_an_onnx_file_with_rotary_embeddings(tmp_path):
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    a = made(GatedA)
    torch.onnx.export(a, (ids(),), tmp_path / "a.onnx", dynamo=True, verbose=False)
    assert eq.parity(gated_b(a, permuted=True), tmp_path / "a.onnx", ids()).holds
    for changed, kind in (
        ({"base": 5e5}, "rope base"), ({"scale": 1 / 8}, "softmax scale"), ({"order": "strided"}, "head order"),
        ({"window": 4}, "window"), ({"norm": "other"}, "norm kind"), ({"cap": 2.0}, "soft-cap"),
    ):  # fmt: skip
        assert eq.parity(gated_b(a, replace(a.o, **changed)), tmp_path / "a.onnx", ids(), differences=1).kind == kind


@pytest.mark.parametrize("family", [GatedA, PlainA])
def test_an_exported_program_holds(family):
    model = made(family)
    assert eq.parity(model, torch.export.export(model, (ids(),)).module(), ids()).holds


def test_without_inputs_two_modules_ask_for_them():
    with pytest.raises(InputError, match="Neither A nor B comes with inputs"):
        eq.parity(made(PlainA), made(PlainA))


def test_the_command_answers_in_json_and_by_exit_code(tmp_path):
    (tmp_path / "two.py").write_text(
        "from dataclasses import replace\nfrom tests.audit.parity.families import *\n"
        "def first(): return made(PlainA), ids()\n"
        "def second(): return plain_b(made(PlainA))\n"
        "def third(): return plain_b(made(PlainA), replace(made(PlainA).o, eps=1e-3))\n"
    )
    for other, code, kind in (("second", 0, ""), ("third", 1, "epsilon")):
        command = [sys.executable, "-m", "equiscope", "parity", f"{tmp_path}/two.py:first", f"{tmp_path}/two.py:{other}", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert json.loads(done.stdout)["kind"] == kind
