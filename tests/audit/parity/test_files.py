"""Recorded activations and ONNX files are sides too."""

import io
import json
import pickle
import struct
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

import equiscope as eq
from equiscope.audit.inputs.targets import named_object
from equiscope.audit.parity.terminal import lines
from equiscope.errors import InputError
from tests.audit.parity.families import GatedA, PlainA, gated_b, ids, made, plain_b
from tests.cli.test_cli import equi  # noqa: F401
from tests.pairwise import few


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
    found = eq.parity(a, arrays, differences=1)
    assert not found.holds
    assert found.step_a.operation == "gelu"
    assert found.step_b.value == "blocks.0.c_out"


def header(shape, dtype="F32", size=16):
    """A .safetensors file of one tensor, whose header may claim anything."""
    text = json.dumps({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(16)


def zipped(arrays):
    """An .npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def claiming(shape):
    """An .npz file whose array claims a shape, and has 16 bytes."""
    array, file = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("x.npy", array.getvalue() + bytes(16))
    return file.getvalue()


def bomb():
    """An .npz file of 300 kB that unfolds to 300 MB."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed, packed.open("x.npy", "w") as one:
        for _ in range(300):
            one.write(bytes(10**6))
    return file.getvalue()


DAMAGED = {
    "nothing.npz": (b"", "no .npz file, or one that is cut off"),
    "words.npz": (b"words", "no .npz file, or one that is cut off"),
    "pickle.npz": (pickle.dumps({"a": 1}), "no .npz file, or one that is cut off"),
    "cut.npz": (zipped({"x": np.ones(9)})[:90], "no .npz file, or one that is cut off"),
    "objects.npz": (zipped({"x": np.array([{"a": 1}], dtype=object)}), "x holds Python objects, which are not read"),
    "letters.npz": (zipped({"x": np.array(["a"])}), "x has the dtype <U1, which torch does not have"),
    "claims.npz": (claiming((2**9, 2**20)), "x is no array: EOF"),
    "endless.npz": (claiming((2**62, 2**9)), "x is no array"),
    "bomb.npz": (bomb, "holds more than is read"),
    "nothing.safetensors": (b"", "no safetensors file, or a damaged one"),
    "words.safetensors": (b"no header at all", "no safetensors file, or a damaged one"),
    "claims.safetensors": (struct.pack("<Q", 2**32) + b"{}", "no safetensors file, or a damaged one"),
    "larger.safetensors": (header([2**20, 2**10], size=2**32), "no safetensors file, or a damaged one"),
    "endless.safetensors": (header([2**62, 4]), "no safetensors file, or a damaged one"),
    "negative.safetensors": (header([-4]), "no safetensors file, or a damaged one"),
    "dtype.safetensors": (header([4], dtype="Q7"), "no safetensors file, or a damaged one"),
    "folder.npz": (None, "folder.npz is a folder"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_file_that_is_no_dump_is_refused_in_one_sentence(tmp_path, name):
    content, wanted = DAMAGED[name]
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content() if callable(content) else content)
    with pytest.raises(InputError) as refused:
        eq.parity(made(PlainA), path, ids())
    assert wanted in str(refused.value)
    assert "allow_pickle" not in str(refused.value)
    assert ".." not in str(refused.value)


def test_a_dump_from_a_machine_of_the_other_byte_order_is_read(tmp_path):
    a, arrays = made(PlainA), {name: t.numpy() for name, t in recorded(made(PlainA), ids()).items()}
    np.savez(tmp_path / "big.npz", **{name: x.astype(x.dtype.newbyteorder(">")) for name, x in arrays.items()})
    assert eq.parity(a, tmp_path / "big.npz").holds


OWN = """import torch

class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.map = torch.nn.Linear(7, 3).double()

    def forward(self, first, second, third):
        return self.map(torch.cat([first, second + third.shape[0]], -1))

def wide():
    torch.manual_seed(0)
    return Wide()

def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3)
"""


def test_a_dump_has_the_inputs_of_a_model_for_which_none_can_be_made(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    target, path = f"{tmp_path}/own.py:wide", tmp_path / "b.npz"
    inputs = [torch.randn(2, 3).double(), torch.randn(2, 4).double(), torch.randn(5).double()]
    model = target_of(target)
    np.savez(path, **{f"input.{i}": x.numpy() for i, x in enumerate(inputs)}, output=model(*inputs).detach().numpy())
    assert eq.parity(target, path).holds
    with pytest.raises(InputError, match="No inputs could be made for Wide"):
        eq.parity(target, target)


def test_a_dump_without_inputs_is_not_compared_on_inputs_that_are_made_up(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    target = f"{tmp_path}/own.py:linear"
    output = target_of(target)(torch.ones(2, 4)).detach()
    with pytest.raises(InputError, match=r"records no inputs, and .*own\.py:linear comes with none"):
        eq.parity(target, {"output": output})
    assert eq.parity(target, {"output": output}, torch.ones(2, 4)).holds


def target_of(text):
    return named_object(text)()


def test_the_terminal_says_which_side_is_not_finite_and_what_a_row_notes():
    a = made(PlainA)
    arrays = recorded(a, ids())
    text = printed(eq.parity(a, {**arrays, "output": torch.full_like(arrays["output"], torch.nan)}))
    assert "note: output: not finite in B" in text
    assert "Nothing could be decided" in text
    assert "cause" not in text
    assert "the shapes differ: [" in printed(eq.parity(a, {**arrays, "output": arrays["output"][:, :-1]}))


def test_a_file_is_in_no_mode():
    a, x = torch.nn.Linear(4, 4).train(), torch.randn(3, 4)
    arrays = {"input.0": x, "output": a(x).detach() ** 2}
    assert eq.parity(a, arrays, differences=1).notes[-1].startswith("A was in training mode. They differ in evaluation mode too")


def printed(parity):
    console = Console(width=200, file=io.StringIO())
    console.print(lines(parity))
    return console.file.getvalue()


def test_the_planted_difference_of_an_onnx_file_is_named(tmp_path):
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    a = made(PlainA)
    b = plain_b(a, replace(a.o, activation="gelu"))
    torch.onnx.export(b, (ids(),), tmp_path / "b.onnx", dynamo=True, verbose=False)
    assert eq.parity(a, tmp_path / "b.onnx", ids(), differences=1).kind == "activation"


@pytest.mark.parametrize(("factor", "holds"), [(2.0, True), (3.0, False)])
def test_an_onnx_file_with_a_sequence_of_tensors_is_a_side(tmp_path, factor, holds):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    sizes = [onnx.numpy_helper.from_array(np.array(a), n) for n, a in (("one", 1), ("two", np.float32(2)), ("first", [2, 2]))]
    nodes = [
        node("SplitToSequence", ["x", "first"], ["parts"], axis=1), node("SequenceAt", ["parts", "one"], ["second"], name="take"),
        node("Mul", ["second", "two"], ["y"], name="scale"),
    ]  # fmt: skip
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [3, 4])], [value("y", 1, [3, 2])], sizes)
    opset = onnx.helper.make_opsetid("", 18)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9), str(tmp_path / "b.onnx"))

    class Halves(torch.nn.Module):
        def forward(self, x):
            return x.split(2, 1)[1] * factor

    parity = eq.parity(Halves(), tmp_path / "b.onnx", torch.randn(3, 4), differences=1)
    assert parity.holds == holds
    assert holds or "Mul in scale" in parity.where
    pair = onnx.helper.make_graph(
        [node("Add", ["x", "w"], ["y"])], "g", [value(n, 1, [3, 4]) for n in "xw"], [value("y", 1, [3, 4])]
    )
    onnx.save(onnx.helper.make_model(pair, opset_imports=[opset], ir_version=9), str(tmp_path / "two.onnx"))
    with pytest.raises(InputError, match="takes x, w"):
        eq.parity(Halves(), tmp_path / "two.onnx", torch.randn(3, 4), differences=1)


ROTARY = [
    ({"base": 5e5}, "rope base"), ({"order": "strided"}, "head order"), ({"scale": 1 / 8}, "softmax scale"),
    ({"window": 4}, "window"), ({"norm": "other"}, "norm kind"), ({"cap": 2.0}, "soft-cap"),
]  # fmt: skip


@pytest.mark.parametrize("differences", few([ROTARY[:2], ROTARY[2:]], 1), ids=["two", "others"])
def test_causes_are_named_against_an_onnx_file_with_rotary_embeddings(tmp_path, differences):
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    a = made(GatedA)
    torch.onnx.export(a, (ids(),), tmp_path / "a.onnx", dynamo=True, verbose=False)
    assert eq.parity(gated_b(a, permuted=True), tmp_path / "a.onnx", ids()).holds
    for changed, kind in differences:
        assert eq.parity(gated_b(a, replace(a.o, **changed)), tmp_path / "a.onnx", ids(), differences=1).kind == kind


@pytest.mark.parametrize("family", [GatedA, PlainA])
def test_an_exported_program_holds(family):
    model = made(family)
    assert eq.parity(model, torch.export.export(model, (ids(),)).module(), ids()).holds


def test_without_inputs_two_modules_ask_for_them():
    with pytest.raises(InputError, match="Neither A nor B comes with inputs"):
        eq.parity(made(PlainA), made(PlainA))


def test_the_command_answers_in_json_and_by_exit_code(tmp_path, equi):  # noqa: F811
    (tmp_path / "two.py").write_text(
        "from dataclasses import replace\nfrom tests.audit.parity.families import *\n"
        "def first(): return made(PlainA), ids()\n"
        "def second(): return plain_b(made(PlainA))\n"
        "def third(): return plain_b(made(PlainA), replace(made(PlainA).o, output_cap=3.0))\n"
    )
    for other, code, kind in (("second", 0, ""), ("third", 1, "output cap")):
        ended, out, err = equi("parity", f"{tmp_path}/two.py:first", f"{tmp_path}/two.py:{other}", "--json")
        assert ended == code, err
        assert json.loads(out)["kind"] == kind
