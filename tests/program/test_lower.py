"""The page's record of any module: in Python it computes what the model computes, and reads as short as a person would write it."""

from collections import Counter

import pytest
import torch
from msgspec import UNSET

from equiscope.functional import semantic
from equiscope.program import watch
from equiscope.program.lower import lowered
from equiscope.program.replay import replay
from equiscope.record import unpack
from tests.program.test_capture import error
from tests.program.zoo import ZOO, another, built

DOUBLE, SINGLE = 1e-12, 1e-6  # the page computes in float64: a model that casts to float32 differs by that rounding
CASTS = ("Llama", "Llama, padded", "Llama with a cache", "T5", "casts")
LEFT = {  # what the page has no steps for, and shows as it was
    "writes through complex views": 1, "NumPy": 1, "thread": 1, "flexible attention": 1, "odd functions": 3,
}  # fmt: skip


def record(name):
    case = ZOO[name]
    program = watch(built(case), *case.args(), kwargs=case.kwargs())
    return program, lowered(program)


@pytest.mark.parametrize("name", ZOO)
def test_the_record_computes_what_the_program_computes(name, unchecked):
    program, page_program = record(name)
    values = replay(page_program)
    tolerance = SINGLE if name in CASTS else DOUBLE
    named = [step.id for step in page_program.steps if step.array is not None]
    assert len(named) >= len(page_program.steps) // 3 or name in LEFT
    for ident in named:
        seen = program.values[program.names[ident]]
        assert error(values[ident].double(), seen.double()) < tolerance * max(1.0, seen.double().abs().nan_to_num(0, 0, 0).max()), (
            ident
        )
    assert sum(leaf.kind == "opaque" for leaf in page_program.leaves) == LEFT.get(name, 0)


FOLLOWS = [name for name, case in ZOO.items() if name not in LEFT and not case.again and case.make]


@pytest.mark.parametrize("name", FOLLOWS)
def test_the_record_on_other_numbers_is_the_program_on_them(name, unchecked):
    program, page_program = record(name)
    changes = {leaf.name: another(leaf.value) for leaf in program.leaves if leaf.kind == "input"}
    expected = program.run(changes)
    leaves = {name: t for name, t in changes.items() if name in {leaf.id for leaf in page_program.leaves}}
    values = replay(page_program, leaves)
    tolerance = SINGLE if name in CASTS else DOUBLE
    for ident, value in zip(page_program.outputs, dict.fromkeys(program.outputs.values()), strict=True):
        seen = expected.values[value].double()
        assert error(values[ident].double(), seen) < tolerance * max(1.0, seen.abs().max()), ident


@pytest.mark.parametrize(
    ("name", "most"),
    [("hand-written attention", 21), ("encoder layer", 33), ("GPT-2", 68), ("Llama", 89), ("timm ViT", 78), ("transformer", 101)],
)
def test_foreign_models_read_as_short_as_ours(name, most):
    _, page_program = record(name)
    assert len(page_program.steps) <= most
    assert Counter(step.op for step in page_program.steps)["loops"] <= 2


@pytest.mark.parametrize("name", ["hand-written attention", "encoder layer", "GPT-2", "Llama", "BERT", "ViT", "timm ViT"])
def test_the_parts_of_attention_are_named_by_structure(name):
    _, page_program = record(name)
    found = Counter(step.symbol for step in page_program.steps)
    layers = 1 if name in ("hand-written attention", "encoder layer") else 2
    assert [found[symbol] for symbol in "SAZ"] == [layers] * 3
    heads = {step.symbol: step for step in page_program.steps}
    assert heads["A"].axes[-2:] == heads["S"].axes[-2:]
    rows = torch.from_numpy(unpack(heads["A"].array)).sum(-1)
    assert torch.allclose(rows, torch.ones_like(rows))


def test_what_is_left_is_loops_that_the_page_runs_or_a_leaf_that_says_so():
    _, page_program = record("odd functions")
    loops = [step for step in page_program.steps if step.op == "loops"]
    assert {"einsum", "logsumexp"} <= {step.params["call"] for step in loops}
    left = [leaf for leaf in page_program.leaves if leaf.kind == "opaque"]
    assert all("does not change" in leaf.label for leaf in left)


def test_complex_calls_inside_loops_are_named_with_what_reads_them():
    calls = [(step.params["call"], step.params["before"]) for step in record("Fourier mixing")[1].steps if step.op == "loops"]
    assert calls == [("view_as_real", "mul∘view_as_complex"), ("real", "fft_fft∘fft_fft")]


def test_a_record_says_that_the_model_may_branch():
    _, page_program = record("branch")
    assert "may have branched" in page_program.notes[0]
    assert record("encoder layer")[1].notes is UNSET


def test_a_function_of_ours_is_one_step_of_a_program_and_one_operation_of_the_page():
    @semantic
    def rotate(x, angles, layout="half"):
        a, b = x.chunk(2, -1)
        cosine, sine = angles.cos(), angles.sin()
        return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1)

    class Turning(torch.nn.Linear):
        def forward(self, x):
            return rotate(super().forward(x), x[..., :2])

    model, x = Turning(4, 4).double(), torch.randn(3, 4, dtype=torch.float64)
    program = watch(model, x)
    assert [step.op for step in program.steps] == ["linear", "getitem", "rotate"]
    assert error(program.run({"input.0": x + 1}).outputs[""], model(x + 1)) < DOUBLE
    page_program = lowered(program)
    assert page_program.steps[-1].op == "rotate"
    assert page_program.steps[-1].params == {"layout": "half"}
    assert error(replay(page_program, {"input.0": x + 1})[page_program.outputs[0]], model(x + 1)) < DOUBLE


def test_a_legend_names_a_parameter():
    class Named(torch.nn.Linear):
        legend = {"weight": ("W_x", "row column", "the map")}  # noqa: RUF012

    page_program = lowered(watch(Named(2, 3), torch.randn(4, 2)))
    weight = next(leaf for leaf in page_program.leaves if leaf.id == "weight.mT")
    assert (weight.symbol, weight.axes, weight.label) == ("W_x", ["row", "column"], "the map")


def test_the_variables_of_the_caller_name_no_number():
    program = watch(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()), torch.randn(2, 4))
    assert {step.symbol for step in lowered(program).steps}.isdisjoint({"program", "p"})
    assert {step.source.name for step in program.steps if step.source} == {""}
