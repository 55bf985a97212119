"""A function of tensors as steps: what a small machine of NumPy makes of the record is what PyTorch computes."""

import pytest
import torch
import torch.nn.functional as F
from contract.computed import OPERATIONS, drawn, pushing
from torch import nn

from equiscope.errors import InputError
from equiscope.models import Attention, Block, InputLayer, Spec, build
from equiscope.program.loops import computation, with_forces
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


KERNEL = drawn(4, 3, 3, 2)
FILTER = torch.complex(drawn(4, 8), drawn(8, 4).T)


def _rotated(x):
    angles = torch.outer(torch.arange(6.0), torch.arange(1.0, 5.0)).double()
    pairs = torch.view_as_complex(x.reshape(2, 6, 4, 2))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real,
        lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1) * FILTER, dim=1),
        lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho"), norm="ortho") + torch.fft.rfft(x, dim=1).abs().sum(),
        lambda x: torch.fft.irfft(torch.fft.rfft(x[:, :, :7], dim=2), n=7, dim=2),
        lambda x: (torch.fft.fft(x) / (1 + torch.fft.fft(x.flip(1)))).abs() + torch.fft.fft(x).conj().imag,
        lambda x: torch.polar(x.exp(), x.tanh()).angle() + (torch.complex(x, x).exp() * (2 - 1j)).imag,
        lambda x: (torch.complex(x, x + 1) @ torch.complex(x, -x).mT).cumsum(1).real,
        _rotated,
    ],
)
def test_complex_numbers_and_fourier_transforms(function):
    agrees(lambda x: {"y": function(x)}, x=drawn(96).view(2, 6, 8))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.cumprod(1),
        lambda x: x.cummax(1).values + x.cummin(2).indices,
        lambda x: x.logcumsumexp(1),
        lambda x: x.max(1).values + x.min(1).indices + x.argmin(1) + x.max() + x.argmax(),
        lambda x: x.logsumexp((1, 2)),
        lambda x: x.norm(p=1, dim=1) + x.norm(p=float("inf"), dim=1) + x.norm(p=3, dim=1) + x.norm(p=0, dim=1),
        lambda x: torch.where((-x.abs()).trunc().any(1), x[:, 0], x[:, 1]),
        lambda x: ((x > 0) ^ (x < 0.5)).double() + torch.logical_xor(x.round(), x > 0).double(),
        lambda x: (x * 2).round() + torch.tensor([0.5, 1.5, -0.5, -2.5] * 2).double().round(),
        lambda x: F.conv_transpose2d(x[:, None].expand(2, 4, 6, 8), KERNEL, stride=2, padding=1, output_padding=1, dilation=(2, 1)),
        lambda x: F.conv_transpose1d(x[:, :4], KERNEL[..., 0], stride=2, groups=2),
        lambda x: F.avg_pool2d(x, 2) + F.avg_pool1d(x, 2)[:, ::2],
        lambda x: F.avg_pool1d(x, 3, 1, 1),
        lambda x: F.max_pool2d(x, 2, 1, 1),
        lambda x: F.max_pool2d(x[None], 2, 2, return_indices=True)[1],
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.group_norm(x, 2),
    ],
)
def test_scans_pools_and_norms(function):
    agrees(lambda x: {"y": function(x).double()}, x=drawn(96).view(2, 6, 8))


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
        (lambda x: {"y": torch.complex(x, x).sqrt().abs()}, r"no steps for aten\.sqrt\.default on complex numbers"),
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
    model = build(Spec(8, input=InputLayer(features=4), layers=1, block=block, outputs=1)).double().eval()
    kinds, order = torch.tensor([[0.0], [1.0], [1.0], [0.0]], dtype=torch.float64), torch.arange(4)

    def energy(positions):
        each = model(Tokens(x=torch.cat([kinds, positions], -1), positions=order[:, None], order=order)).squeeze(-1)
        return {"energy": each.sum(), "each": each}

    agrees(with_forces(energy), positions=drawn(4, 3))


def test_an_energy_that_does_not_notice_places_pushes_nobody():
    agrees(with_forces(lambda positions: {"energy": torch.ones(1, dtype=torch.float64)}), positions=drawn(4, 3))
    agrees(with_forces(lambda positions: {"energy": (positions > 0).double().sum()}), positions=drawn(4, 3))
