"""A model leaves for other runtimes: what onnxruntime computes from the file is what the model computes."""

from dataclasses import replace

import pytest
import torch
from tests.pairwise import few

import equiscope as eq
from equiscope.errors import InputError
from equiscope.models import PRESETS, export_onnx, tiny

KINDS = ["gpt2", "llama-1b", "bert-base", "transformer-base", "vit-ti", "sound", "video"]


def example(spec):
    if spec.vocabulary:
        return torch.randint(spec.vocabulary, (2, 9)), torch.randint(spec.vocabulary, (2, 7)) if spec.encoder else None
    return torch.randn(2, *{1: (10,), 2: (3, 8, 8), 3: (4, 3, 4, 4)}[len(spec.input.patch)]), None


@pytest.mark.parametrize("name", few(KINDS, 1))
def test_an_onnx_file_computes_what_the_model_does_at_other_sizes_too(name, tmp_path, unchecked):
    pytest.importorskip("onnxruntime")
    spec = replace(tiny(PRESETS[name]()), layers=1)
    assert export_onnx(eq.build(spec), tmp_path / "model.onnx", *example(spec)) < 1e-5
    assert (tmp_path / "model.onnx").stat().st_size > 1000


def test_a_model_that_is_trained_goes_on_in_training(tmp_path):
    model = eq.build(tiny(PRESETS["gpt2"]())).train()
    model.blocks[0].eval()
    with pytest.raises(InputError):
        export_onnx(model, tmp_path, torch.zeros(2, 5, dtype=torch.long))
    assert [part.training for part in (model, model.blocks[0], model.blocks[1])] == [True, False, True]


@pytest.mark.parametrize("name", few(["transformer-base", "video", *KINDS[:3], *KINDS[4:6]], 2))
def test_torch_export_keeps_the_numbers(name, unchecked):
    spec = tiny(PRESETS[name]())
    model = eq.build(spec).eval()
    inputs, source = example(spec)
    given = {"inputs": inputs} if source is None else {"inputs": inputs, "source": source}
    with torch.no_grad():
        program = torch.export.export(model, (), given)
        assert torch.allclose(program.module()(**given), model(**given), atol=1e-6)


@pytest.mark.parametrize(
    "scheme", few([eq.positions.T5Bias(), eq.positions.Alibi(), eq.positions.Kerple()], 1), ids=lambda s: s.name
)
def test_biases_by_distance_leave_for_any_length(scheme, tmp_path, unchecked):
    pytest.importorskip("onnxruntime")
    spec = eq.Spec(16, 20, layers=1, block=eq.Block(eq.Attention(heads=2, position=scheme, causal=True)), outputs=20)
    assert export_onnx(eq.build(spec), tmp_path / "model.onnx", torch.randint(20, (2, 9))) < 1e-5


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (torch.zeros(2, 1, dtype=torch.long), "two tokens or more"),
        (torch.zeros(2, 0, dtype=torch.long), "two tokens or more"),
        (torch.zeros(7, dtype=torch.long), "two tokens or more"),
        (torch.full((2, 5), 10**6), "ids 0"),
        ([[1, 2, 3]] * 2, "is a tensor, but inputs is list"),
    ],
    ids=["one token", "none", "no batch", "unknown ids", "lists"],
)
def test_examples_that_are_none_are_refused(example, message, tmp_path, unchecked):
    with pytest.raises(InputError, match=message):
        export_onnx(eq.build(tiny(PRESETS["gpt2"]())), tmp_path / "m.onnx", example)


def test_an_export_that_cannot_succeed_is_refused_before_it_begins(tmp_path):
    model, ids = eq.build(tiny(PRESETS["gpt2"]())), torch.zeros(2, 5, dtype=torch.long)
    with pytest.raises(InputError, match="its folder is not there"):
        export_onnx(model, tmp_path / "nowhere" / "m.onnx", ids)
    with pytest.raises(InputError, match="it is a folder"):
        export_onnx(model, tmp_path, ids)
    with pytest.raises(InputError, match=r"Export model\.float"):
        export_onnx(eq.build(tiny(PRESETS["gpt2"]())).bfloat16(), tmp_path / "m.onnx", ids)
    with pytest.raises(InputError, match="has no encoder, so an example has no source"):
        export_onnx(model, tmp_path / "m.onnx", ids, ids)
    with pytest.raises(InputError, match="has an encoder, so an example has a source"):
        export_onnx(eq.build(tiny(PRESETS["transformer-base"]())), tmp_path / "m.onnx", ids)


def test_an_example_of_one_sequence_is_refused(tmp_path):
    with pytest.raises(InputError, match="two or more sequences"):
        export_onnx(eq.build(tiny(PRESETS["gpt2"]())), tmp_path / "m.onnx", torch.zeros(1, 5, dtype=torch.long))
