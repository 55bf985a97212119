"""A function of tensors as steps: what a small machine of NumPy makes of the record is what PyTorch computes."""

import pytest
import torch
import torch.nn.functional as F
from tests.explore.machine import run
from torch import nn

from equiscope.errors import InputError
from equiscope.explore.computation import computation, pushed


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


def rows(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WEIGHT, SHARES = rows(6, 6), rows(4, 6, seed=3)
PICKED = torch.tensor([[1, 2, 5, 0, 2, 1], [2, 2, 2, 3, 0, 0], [0, 0, 4, 1, 1, 1], [3, 1, 0, 0, 5, 5]])
OPERATIONS = {
    "arithmetic": lambda x: (2 * x - 1 / (x + 9)) * x.abs().sqrt() % 0.7 + torch.rsub(x, 3, alpha=2),
    "powers": lambda x: x**2 + x**3 + x.abs() ** 0.3 + x.abs() ** -0.5 + 2.0**x + x.square().reciprocal(),
    "functions": lambda x: x.sin() * x.cos().exp() + x.tanh() + x.abs().log1p() + torch.erf(x) + torch.atan2(x, x + 1) + x.expm1(),
    "activations": lambda x: F.gelu(x) + F.silu(x) + F.gelu(x, approximate="tanh") + F.softplus(x) + F.relu(x) + F.leaky_relu(x),
    "softmax": lambda x: x.softmax(-1) + x.log_softmax(0) + x.logsumexp(1, keepdim=True),
    "norms": lambda x: F.layer_norm(x, (6,)) + x / x.norm(dim=-1, keepdim=True) + F.rms_norm(x, (6,)),
    "chosen": lambda x: torch.where(x > 0, x, -2 * x).clamp(-1, 1.5) + x.masked_fill(x.ge(1) | (x == 2).logical_not(), 7.0),
    "hidden": lambda x: x.masked_fill(x.ge(1), -torch.inf).softmax(-1) + x.masked_fill(x > 0, -torch.inf).clamp_min(-5),
    "joined": lambda x: x.sum() + x.mean(0) + x.amax(1, keepdim=True) + x.amin() + x.var(1, keepdim=True) + x.std(),
    "expanded": lambda x: (x[:1].expand(4, 6) * 3).sum(0) + x[:, :1].expand(4, 6).sum(1, keepdim=True) + x[0, 0].expand(4, 6),
    "products": lambda x: x @ x.mT @ x + torch.einsum("ij,kj->ik", x, x).unsqueeze(-1).mean(1) + F.linear(x, WEIGHT, WEIGHT[0]),
    "views": lambda x: x.T.reshape(4, 6) + x.unflatten(1, (2, 3)).movedim(0, -1).flatten(1).reshape(4, 6) + x[:, ::2].repeat(1, 2),
    "slices": lambda x: torch.cat([x[:, 2:5], x[:, :3].flip(0)], 1) + torch.stack(x[:, 0].unbind(0))[:, None] + x.roll(1, 0),
    "placed": lambda x: F.pad(x, (1, -1, 2, 1))[2:6] + torch.diagonal(x[:, :4]).unsqueeze(-1) + x.tril() + x.cumsum(1),
    "indexed": lambda x: x[[0, -1, 1, 1]] + x[:, [3, 1]].repeat(1, 3) + x[[0, 1, 2, -1], [5, -1, 0, 2]].unsqueeze(-1),
    "gathered": lambda x: x.gather(1, PICKED[:, :3]).repeat(1, 2) + x.index_select(1, torch.arange(6).flip(0)),
    "sent": lambda x: torch.zeros_like(x).scatter_add(1, PICKED, x) + torch.zeros_like(x).index_add(0, PICKED[:, 1], x),
    "masked": lambda x: x[torch.tensor([True, False, True, False])].sum(0) + x,
    "crossed": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:]).repeat(1, 2) + torch.cross(x[:3], x[1:], dim=0).mean(),
    "written": lambda x: _written(x),
}  # fmt: skip


def _written(x):
    made = torch.zeros(4, 6, dtype=x.dtype)
    made[1:3, ::2] = x[:2, :3]
    made[:, 1].add_(x[:, 0])
    made[[0, 1], [2, 2]] = 7.0
    return made.mul_(2)


@pytest.mark.parametrize("name", OPERATIONS)
def test_steps_give_what_torch_computes_and_so_do_those_of_its_gradient(name):
    function = OPERATIONS[name]

    def weighed(x):
        return (function(x) * SHARES).sum()

    def both(positions):
        return {"made": function(positions), "energy": weighed(positions)}

    agrees(pushed(both), positions=rows(4, 6) + 0.1)


def test_integers_and_booleans_are_inputs_and_constants():
    table, mask = rows(5, 3), torch.tensor([True, False, True])
    record = agrees(
        lambda rows, at: {
            "picked": table[rows] * mask, "seen": (table[rows - 1] > at) & mask | ~mask, "twice": rows // 2 * 2,
            "many": rows.clamp(1, 3).prod(0), "same": rows,
        },
        rows=torch.tensor([4, 0, 1, 2]), at=torch.zeros(3, dtype=torch.float64),
    )  # fmt: skip
    assert {constant.array.dtype for constant in record.constants} >= {"float64", "bool"}


def test_what_no_input_changes_is_a_constant_and_what_nobody_asks_for_is_not_computed():
    weight = rows(3, 3).float().double()

    def function(positions):
        torch.linalg.norm(positions).exp()
        return {"moved": positions @ (weight @ weight.mT).exp().softmax(0), "weight": weight}

    record = agrees(function, positions=rows(2, 3))
    assert [step.op for step in record.steps] == ["dot", "copy"]
    assert sorted(constant.array.dtype for constant in record.constants) == ["float32", "float64"]  # where it is as exact


def test_what_is_the_same_is_computed_once_and_a_sum_of_products_makes_no_product():
    record = agrees(lambda x: {"one": (x * x.T).sum(0), "other": (x * x.T).sum(0) + 1, "third": (x.T @ x).sum()}, x=rows(3, 3))
    assert [step.op for step in record.steps] == ["dot", "add", "dot", "sum"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: {"y": torch.linalg.inv(x)}, r"no steps for aten\.linalg_inv_ex"),
        (lambda x: {"y": F.dropout(x, 0.5, training=True)}, r"draws by chance. Call model\.eval\(\)"),
        (lambda x: {"y": x.float().exp()}, r"in float64, but .* makes torch\.float32"),
        (lambda x: {"y": x if bool(x.sum() > 0) else -x}, "cannot branch"),
        (lambda x: {"y": x[x > 0]}, "fixed shapes"),
        (lambda x: {"y": None}, "tensors by name"),
        (lambda x: {"y": x.long() & 3}, "of booleans only"),
    ],
)
def test_what_steps_cannot_say_is_refused_with_the_reason(function, words):
    with pytest.raises(InputError, match=words):
        computation(function, {"x": rows(3, 3)})


def test_a_layer_of_torch_is_a_function_too():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu").double().eval()
    agrees(lambda x: {"y": layer(x)}, x=rows(2, 5, 8))
