"""A function of tensors as steps: what a small machine of NumPy makes of the record is what PyTorch computes."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from equiscope.errors import InputError
from equiscope.explore.space.computed import OPERATIONS, drawn, pushing
from equiscope.models import Attention, Block, Entry, Spec, build
from equiscope.program.loops import computation, pushed
from equiscope.program.loops.interpret import run
from equiscope.tokens import Tokens


def agrees(function, tolerance=1e-12, **inputs):
    """Traced at these inputs, the record gives the function's outputs at others of the same shapes."""
    record = computation(function, inputs)
    generator = torch.Generator().manual_seed(1)
    for _ in range(2):
        moved = {
            name: x + 0.3 * torch.randn(x.shape, generator=generator, dtype=x.dtype) if x.is_floating_point() else x.flip(0)
            for name, x in inputs.items()
        }
        wanted, found = function(**moved), run(record, **moved)
        assert set(wanted) == set(found)
        for name, x in wanted.items():
            assert found[name].shape == x.shape
            assert (found[name] - x.double()).abs().max() <= tolerance * x.double().abs().max().clamp_min(1), name
    return record


@pytest.mark.parametrize("name", OPERATIONS)
def test_steps_give_what_torch_computes_and_so_do_those_of_its_gradient(name):
    agrees(pushing(OPERATIONS[name]), positions=drawn(4, 6) + 0.1)


def test_integers_and_booleans_are_inputs_and_constants():
    table, mask = drawn(5, 3), torch.tensor([True, False, True])
    record = agrees(
        lambda rows, at: {
            "picked": table[rows] * mask, "seen": (table[rows - 1] > at) & mask | ~mask, "twice": rows // 2 * 2,
            "many": rows.clamp(1, 3).prod(0), "same": rows,
        },
        rows=torch.tensor([4, 0, 1, 2]), at=torch.zeros(3, dtype=torch.float64),
    )  # fmt: skip
    assert {constant.array.dtype for constant in record.constants} >= {"float64", "bool"}


def test_what_no_input_changes_is_a_constant_and_what_nobody_asks_for_is_not_computed():
    weight = drawn(3, 3).float().double()

    def function(positions):
        torch.linalg.norm(positions).exp()
        return {"moved": positions @ (weight @ weight.mT).exp().softmax(0), "weight": weight}

    record = agrees(function, positions=drawn(2, 3))
    assert [step.op for step in record.steps] == ["dot", "copy"]
    assert sorted(constant.array.dtype for constant in record.constants) == ["float32", "float64"]  # where it is as exact


def test_what_is_the_same_is_computed_once_and_a_sum_of_products_makes_no_product():
    record = agrees(lambda x: {"one": (x * x.T).sum(0), "other": (x * x.T).sum(0) + 1, "third": (x.T @ x).sum()}, x=drawn(3, 3))
    assert [step.op for step in record.steps] == ["dot", "add", "dot", "sum"]
    record = agrees(lambda x: {"part": (x * x[0]).T[1:4].sum(1), "other": (x * x[0])[2, 1:].sum()}, x=drawn(3, 5))
    assert [step.op for step in record.steps] == ["dot", "dot"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: {"y": torch.linalg.inv(x)}, r"no steps for aten\.linalg_inv_ex"),
        (lambda x: {"y": F.dropout(x, 0.5, training=True)}, r"draws by chance. Call model\.eval\(\)"),
        (lambda x: {"y": x.float().exp()}, r"in float64, but .* makes torch\.float32"),
        (lambda x: {"y": x if bool(x.sum() > 0) else -x}, "cannot branch"),
        (lambda x: {"y": x[x > 0]}, "fixed shapes"),
        (lambda x: {"y": torch.complex(x, x).abs()}, r"no steps for aten\.complex"),
        (lambda x: {"y": x.view(torch.int64)}, r"no steps for aten\.view\.dtype"),
        (lambda x: {"y": None}, "tensors by name"),
        (lambda x: {"y": x.long() & 3}, "of booleans only"),
    ],
)
def test_what_steps_cannot_say_is_refused_with_the_reason(function, words):
    with pytest.raises(InputError, match=words):
        computation(function, {"x": drawn(3, 3)})


def test_a_layer_of_torch_is_a_function_too():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu").double().eval()
    agrees(lambda x: {"y": layer(x)}, x=drawn(2, 5, 8))


def test_a_transformer_that_reads_raw_coordinates_is_one_and_is_pushed():
    block = Block(attention=Attention(heads=2))
    torch.manual_seed(0)
    model = build(Spec(8, entry=Entry(features=4), layers=1, block=block, outputs=1)).double().eval()
    kinds, order = torch.tensor([[0.0], [1.0], [1.0], [0.0]], dtype=torch.float64), torch.arange(4)

    def energy(positions):
        each = model(Tokens(x=torch.cat([kinds, positions], -1), at=order[:, None], order=order)).squeeze(-1)
        return {"energy": each.sum(), "each": each}

    agrees(pushed(energy), positions=drawn(4, 3))


def test_an_energy_that_does_not_notice_places_pushes_nobody():
    agrees(pushed(lambda positions: {"energy": torch.ones(1, dtype=torch.float64)}), positions=drawn(4, 3))
    agrees(pushed(lambda positions: {"energy": (positions > 0).double().sum()}), positions=drawn(4, 3))
