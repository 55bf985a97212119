"""A quantized model is drift, and one that is also wrong has a cause: a weight that is not A's nearest, or another difference."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import equiscope as eq
from equiscope.audit.inputs.targets import target
from equiscope.audit.integrations.parity_junit import parity_junit
from tests.audit.parity.families import GatedA, PlainA, ids, made, plain_b
from tests.audit.parity.quantizers import dynamic, integers, with_integers, with_rounded_weights
from tests.pairwise import few

FORMS = {
    "integers per row": (lambda m: with_integers(m), "8 bits with one scale per row"),
    "integers per tensor": (lambda m: with_integers(m, per="tensor"), "8 bits with one scale per tensor"),
    "integers with zero points": (lambda m: with_integers(m, zero=True), "8 bits with one scale per row"),
    "4 bits in groups": (lambda m: with_integers(m, 4, 16), "4 bits with one scale per group of 16"),
    "rounded activations": (lambda m: with_integers(m, rounds=True), "8 bits with one scale per row"),
    "rounded weights": (lambda m: with_rounded_weights(m), "8 bits with one scale per row"),
    "torch, dynamic": (dynamic, "8 bits with one scale per tensor"),
}


FEWER = ("integers per tensor", "integers per row", "rounded weights")


@pytest.mark.parametrize("form", [pytest.param(form, marks=pytest.mark.thorough) if form in FEWER else form for form in FORMS])
def test_a_quantized_model_is_drift(form):
    a = made(GatedA)
    make, rounded = FORMS[form]
    found = eq.parity(a, make(a), ids())
    assert (found.verdict, found.kind, found.failed) == ("approximate", "quantization", False)
    assert found.cause == f"quantized weights: 15 of 16 weight matrices of B are A's, rounded to {rounded}"
    assert "Not quantized: embed_tokens.weight." in found.notes
    assert [one.layer for one in found.drift] == ["layers.0", "layers.1"]
    assert 1e-4 < found.drift[0].error < found.drift[1].error < 0.1
    assert found.answers[0].count == 11
    assert [one.state for one in found.weights].count("quantized") == 15
    assert "<failure" not in parity_junit(found)
    assert ("without rounding activations" in found.evidence) == (form in ("rounded activations", "torch, dynamic"))


def test_the_quantized_model_may_be_the_first_of_the_two():
    a = made(GatedA)
    found = eq.parity(dynamic(a), a, ids())
    assert found.kind == "quantization"
    assert "15 of 16 weight matrices of A are B's" in found.cause


@pytest.mark.parametrize(("name", "linear"), few([("GPT2LMHeadModel", 9), ("BertForMaskedLM", 14), ("ViTModel", 12)], 1))
@pytest.mark.parametrize("form", ["integers per row", pytest.param("torch, dynamic", marks=pytest.mark.thorough)])
def test_models_of_transformers(name, linear, form):
    pytest.importorskip("transformers")
    found = target(f"transformers:{name}")
    parity = eq.parity(found.model, FORMS[form][0](found.model), *found.args, kwargs=found.kwargs)
    assert (parity.kind, parity.failed) == ("quantization", False)
    assert [one.state for one in parity.weights].count("other") == 0
    assert len(parity.drift) == 2
    if form != "torch, dynamic":
        assert [one.state for one in parity.weights].count("quantized") >= linear


FAULTS = [
    ("scale", {}, "quantization scale", "the scale is 1.25 times as large"),
    ("scale", {"row": True}, "quantization scale", "in 8 of 32 rows the scale is 1.5 times as large"),
    ("axis", {}, "quantization axis", "the scales of the rows are applied to the columns"),
    ("zero point", {"zero": True}, "quantization zero point", "the zero point is off by 3"),
    ("rounding", {}, "quantization rounding", "numbers are rounded down, not to the nearest"),
]


@pytest.mark.parametrize(("fault", "more", "kind", "says"), FAULTS)
def test_a_wrongly_quantized_weight_is_named(fault, more, kind, says):
    a = made(PlainA)
    b = with_rounded_weights(a, faults={"h.1.value": fault}, **more)
    found = eq.parity(a, b, ids())
    assert (found.kind, found.failed) == (kind, True)
    assert found.step_b.module == "h.1.value"
    assert found.cause.endswith(f"B's h.1.value.weight is A's, rounded to 8 bits with one scale per "
                                f"{'column' if fault == 'axis' else 'row'}, but {says}")  # fmt: skip
    assert any("of 15 weight matrices of B are A's, rounded to 8 bits" in note for note in found.notes)


def test_other_weights_in_a_quantized_model_are_named():
    a = made(PlainA)
    b = with_rounded_weights(a)
    with torch.no_grad():
        b.h[1].fc_in.weight.copy_(b.h[0].fc_in.weight)
    found = eq.parity(a, b, ids())
    assert (found.kind, found.failed) == ("weights", True)
    assert found.step_b.module == "h.1.fc_in"


def test_a_layer_that_is_not_quantized_is_listed():
    a = made(PlainA)
    found = eq.parity(a, with_rounded_weights(a, left_out=["h.0.fc_out"]), ids())
    assert found.kind == "quantization"
    assert "Not quantized: tokens.weight, places.weight, h.0.fc_out.weight." in found.notes


@pytest.mark.parametrize(
    ("changed", "kind"),
    few(
        [
            ({"activation": "gelu"}, "activation"),
            ({"eps": 1e-3}, "epsilon"),
            ({"scale": 1 / 8}, "softmax scale"),
            ({"bias": False}, "bias"),
        ],
        1,
    ),
)
def test_a_difference_beside_the_quantization_is_named(changed, kind):
    a = made(PlainA)
    b = plain_b(a, replace(a.o, **changed), permuted=changed.get("eps"))
    with torch.no_grad():
        for name, p in b.named_parameters():
            if p.ndim == 2 and ("c_" in name):
                q, scale, _ = integers(p, 8, "tensor")
                p.copy_(q * scale)
    found = eq.parity(a, b, ids())
    assert (found.kind, found.failed) == (kind, True)


def test_a_kernel_that_computes_other_numbers_is_named():
    a = made(GatedA)
    b = dynamic(a)
    b.layers[1].up_proj.register_forward_hook(lambda _, given, y: 1.5 * y)
    found = eq.parity(a, b, ids())
    assert (found.kind, found.failed) == ("quantization kernel", True)
    assert found.step_b.module == "layers.1.up_proj"


def quantized_onnx(model, folder):
    """The path of the model's graph, and that of its dynamically quantized form."""
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    from onnxruntime.quantization import QuantType, quantize_dynamic

    torch.onnx.export(model, (ids(),), folder / "a.onnx", dynamo=True, verbose=False)
    # uint8: without VNNI, onnxruntime's product of uint8 and int8 saturates, which is a kernel that computes other numbers
    quantize_dynamic(folder / "a.onnx", folder / "b.onnx", weight_type=QuantType.QUInt8)
    return folder / "a.onnx", folder / "b.onnx"


def changed_onnx(path, ending, change):
    """The path of a graph in which the first constant whose name ends so is changed."""
    import onnx

    graph = onnx.load(path)
    one = next(one for one in graph.graph.initializer if one.name.endswith(ending))
    one.CopyFrom(onnx.numpy_helper.from_array(change(onnx.numpy_helper.to_array(one).copy()), one.name))
    onnx.save(graph, path.with_name("changed.onnx"))
    return path.with_name("changed.onnx")


def test_a_dynamically_quantized_onnx_graph_is_drift_and_its_faults_are_named(tmp_path):
    a = made(PlainA)
    full, path = quantized_onnx(a, tmp_path)
    for other in (a, full):
        found = eq.parity(other, path, ids())
        assert (found.kind, found.failed) == ("quantization", False)
        assert "14 of 14 weight matrices of B are A's, rounded to 8 bits with one scale per tensor" in found.cause
        assert (found.answers[0].count, found.answers[0].changed) == (11, 0)
    for ending, change, kind in (
        ("val_8_scale", lambda x: x * np.float32(1.5), "quantization scale"),
        ("val_8_zero_point", lambda x: x + np.array(5, x.dtype), "quantization zero point"),
    ):
        found = eq.parity(a, changed_onnx(path, ending, change), ids())
        assert (found.kind, found.failed) == (kind, True)
        assert found.step_a.module == "h.0.query"
    found = eq.parity(made(PlainA, activation="gelu"), path, ids())
    assert (found.kind, found.failed) == ("activation", True)
