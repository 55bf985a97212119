"""Each operation against plain torch or plain Python, and the contract's list of them."""

import json
import math

import pytest
import torch
from contract import golden

from equiscope.audit.subject.promote_float64 import promote_float64
from equiscope.functional import rotate
from equiscope.program.operations import OPERATIONS

A, B = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 3, 4, dtype=torch.float64)
ANGLES = torch.randn(3, 2, dtype=torch.float64)
VALID = torch.tensor([[True, True, False], [False, False, False]])


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def norm(x, center, eps):
    y = x - x.mean(-1, keepdim=True) if center else x
    return y / (y.square().mean(-1, keepdim=True) + eps).sqrt()


def turned(x, angles, pairs):
    """Two columns at a time, with a 2 x 2 rotation matrix."""
    out = x.clone()
    for w, (i, j) in enumerate(pairs):
        c, s = angles[..., w].cos(), angles[..., w].sin()
        out[..., i], out[..., j] = x[..., i] * c - x[..., j] * s, x[..., i] * s + x[..., j] * c
    return out


CASES = {
    "matmul": [((A, B.mT), {}, torch.einsum("bnk,bmk->bnm", A, B))],
    "add": [((A, B[0]), {}, A + B[0])],
    "subtract": [((A, B), {}, A + -B)],
    "multiply": [((A, B[:, :1]), {}, torch.stack([A[:, i] * B[:, 0] for i in range(3)], 1))],
    "scale": [((A, -0.5), {}, -A / 2), ((A, 0.5), {"root": 4}, A / 2)],
    "divide": [((numbers([6, -3], [1, 0]), numbers(2, 4)), {}, numbers([3, -0.75], [0.5, 0])),
               ((numbers(1, -1), numbers(0)), {}, numbers(math.inf, -math.inf))],
    "maximum": [((numbers([1], [-2]), numbers(0, -3)), {}, numbers([1, 1], [0, -2]))],
    "clamp": [((numbers(-3, -1, 0.5, 2, math.inf), -1, 1.5), {}, numbers(-1, -1, 0.5, 1.5, 1.5))],
    "distance": [((A, B), {}, torch.maximum(A - B, B - A))],
    "activation": [
        ((A, "relu"), {}, A.clamp(min=0)),
        ((A, "gelu"), {}, A * 0.5 * (1 + torch.erf(A / math.sqrt(2)))),
        ((A, "gelu-tanh"), {}, A / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (A + 0.044715 * A**3)))),
        ((A, "silu"), {}, A / (1 + (-A).exp())),
        ((A, "tanh"), {}, (2 * A).expm1() / ((2 * A).exp() + 1)),
    ],
    "function": [
        ((numbers(0, 1, -1), "exp"), {}, numbers(1, math.e, 1 / math.e)),
        ((numbers(0, 1, math.e - 1), "log1p"), {}, numbers(0, math.log(2), 1)),
        ((numbers(0, 2.25, 9), "sqrt"), {}, numbers(0, 1.5, 3)),
        ((numbers(-3, 0.5), "square"), {}, numbers(9, 0.25)),
        ((numbers(-0.5, 2.9, 3), "floor"), {}, numbers(-1, 2, 3)),
        ((numbers(-0.5, 0.5, 1.5, 2.5, 2.6), "round"), {}, numbers(0, 0, 2, 2, 3)),  # halves to the even one
        ((numbers(0, math.log(3), -math.inf), "sigmoid"), {}, numbers(0.5, 0.75, 0)),
        ((numbers(0, math.log(3), 800), "softplus"), {}, numbers(math.log(2), math.log(4), 800)),
    ],
    "cast": [((A, "float32"), {}, A.float()), ((A, "int64"), {}, A.trunc().long())],
    "sinusoid": [
        ((ANGLES, "sine"), {}, ANGLES.sin()),
        ((ANGLES, "half"), {}, torch.cat([ANGLES.sin(), ANGLES.cos()], 1)),
        ((ANGLES, "interleaved"), {},
         torch.stack([f(ANGLES[:, w]) for w in (0, 1) for f in (torch.sin, torch.cos)], 1)),
    ],
    "bucket": [
        # 8 buckets one way: 0..3 are near; 4 5 6 7 begin at 4, 8, 16, 32 = 4 (far/4)^(r/4), as far is 64
        ((numbers(-5, 0, 3, 4, 7, 8, 15, 16, 31, 32, 999), 8, 64, False), {}, torch.tensor([0, 0, 3, 4, 4, 5, 5, 6, 6, 7, 7])),
        # both ways: 0 1 are near, 2 and 3 begin at 2 and 4 = 2 (far/2)^(1/2), as far is 8; keys after the query are 4 farther up
        ((numbers(0, 1, 2, 3, 4, 8, 99, -1, -2, -4, -99), 8, 8, True), {}, torch.tensor([0, 1, 2, 2, 3, 3, 3, 5, 6, 7, 7])),
        # Hugging Face's default of 32 and 128: 8 + floor(ln(g / 8) / ln(16) 8), the lower half for keys before the query
        ((torch.tensor([7, 8, 12, 20, 100, 128, -20]), 32, 128.0, True), {}, torch.tensor([7, 8, 9, 10, 15, 15, 26])),
    ],
    "rotate": [
        ((A, ANGLES, "interleaved"), {}, turned(A, ANGLES, [(0, 1), (2, 3)])),
        ((A, ANGLES, "half"), {}, turned(A, ANGLES, [(0, 2), (1, 3)])),
        ((A, ANGLES[:, :1], "half"), {}, turned(A, ANGLES[:, :1], [(0, 1)])),
        ((A[:, None], torch.stack([ANGLES, -ANGLES]), "half"), {},
         torch.stack([turned(A[:1], ANGLES, [(0, 2), (1, 3)]), turned(A[1:], -ANGLES, [(0, 2), (1, 3)])])),
    ],
    "not_after": [((torch.tensor([1, 2, 3]), torch.tensor([2])), {}, torch.tensor([True, True, False]))],
    "both": [((VALID, torch.tensor([True, False, True])), {}, torch.tensor([[True, False, False], [False] * 3]))],
    "either": [((VALID, torch.tensor([True, False, True])), {}, torch.tensor([[True, True, True], [True, False, True]]))],
    "opposite": [((VALID,), {}, torch.tensor([[False, False, True], [True, True, True]]))],
    "equal": [((numbers([1], [3]), torch.tensor([1, 3, 2])), {}, torch.tensor([[True, False, False], [False, True, False]]))],
    "below": [((numbers(-1, 1.9, 2, 3), 2), {}, torch.tensor([True, True, False, False]))],
    "modulo": [((torch.tensor([-4, -1, 0, 2, 3, 7]), 3), {}, torch.tensor([2, 2, 0, 2, 0, 1])),
               ((numbers(-0.5), 2), {}, numbers(1.5))],
    "block": [((torch.tensor([-3, -1, 0, 1, 2, 5]), 2), {}, torch.tensor([-2, -1, 0, 0, 1, 2]))],
    "mask": [((A[..., :3], VALID[:, None]), {}, torch.where(VALID[:, None], A[..., :3], -torch.inf))],
    "softmax": [
        ((A,), {}, A.softmax(-1)),
        ((torch.tensor([[-math.inf, 0.0, 0.0], [-math.inf] * 3]),), {}, torch.tensor([[0, 0.5, 0.5], [0, 0, 0]])),
        ((torch.tensor([1e30, 1e30], dtype=torch.float64),), {}, torch.tensor([0.5, 0.5], dtype=torch.float64)),
    ],
    "share": [((numbers([1, 3], [-1, 3], [0, 0], [2, -2]),), {}, numbers([0.25, 0.75], [-0.5, 1.5], [0, 0], [2, -2]))],
    "later": [
        ((numbers([1, 10, 100], [2, 20, 200]), numbers([0, 1, 2])), {}, numbers([111, 110, 100], [222, 220, 200])),
        ((numbers([1, 10, 100]), numbers([5, 0, 3])), {}, numbers([1, 111, 101])),  # rows need not stand in order
        ((numbers([1, 10, 100]), numbers([4, 4, 4])), {}, numbers([111, 110, 100])),  # of equal places the later row is later
    ],
    "norm": [((A, center, 1e-5), {}, norm(A, center, 1e-5)) for center in (True, False)],
    "gather": [((A[0], torch.tensor([2, 0, 2])), {}, torch.stack([A[0, 2], A[0, 0], A[0, 2]])),
               ((A[0], torch.tensor([[1.0], [2.0]])), {}, A[0, 1:, None])],
    "neighbours": [
        ((numbers([1, 2], [3, 4], [5, 6]), torch.tensor([[-1, 0], [2, 1]])), {}, numbers([0, 0, 1, 2], [5, 6, 3, 4])),
        ((torch.stack([A[0], A[1]]), torch.tensor([[2.0, -1.0]])), {}, torch.cat([A[:, 2:3], torch.zeros(2, 1, 4)], -1)),
    ],
    "take": [
        ((numbers([10, 11, 12], [20, 21, 22]), torch.tensor([[2, 0, 2, 1], [0, 0, 1, 2]])), {},
         numbers([12, 10, 12, 11], [20, 20, 21, 22])),
        ((numbers([10, 11, 12]), torch.tensor([[[0.0]], [[2.0]]])), {}, numbers([[10]], [[12]])),
        ((A[:, None], torch.tensor([3, 0])[:, None, None]), {}, torch.stack([A[..., 3:], A[..., :1]], 1)),  # of two heads
    ],
    "bins": [
        ((numbers([0.5, 0.25, 0.25], [1, 2, 3]), torch.tensor([[3, 0, 3], [1, 1, 1]]), 4), {},
         numbers([0.25, 0, 0, 0.75], [0, 6, 0, 0])),
        ((numbers([[1, 2]], [[3, 4]]), torch.tensor([[1.0, 0.0]]), 2), {}, numbers([[2, 1]], [[4, 3]])),
    ],
    "columns": [((A, 1, 3), {}, torch.stack([A[..., 1], A[..., 2]], -1))],
    "repeat_heads": [((A, 2), {}, torch.stack([A[0], A[0], A[1], A[1]])), ((A[:, None], 3), {}, torch.stack([A] * 3, 1))],
    "concat": [((A, B), {}, torch.cat([A, B], 2)),
               ((A[0, :1], B), {"axis": -2}, torch.cat([A[:1, :1].expand(2, 1, 4), B], 1))],
    "heads": [((A, 2), {}, torch.stack([A[..., :2], A[..., 2:]], 1))],
    "join": [((torch.stack([A, B], 1),), {}, torch.cat([A, B], -1))],
    "transpose": [((A,), {}, A.permute(0, 2, 1))],
    "column": [((A,), {}, A.reshape(2, 3, 4, 1))],
    "row": [((A,), {}, A.reshape(2, 3, 1, 4))],
    "squeeze": [((A.reshape(2, 3, 4, 1),), {}, A)],
    "broadcast_heads": [((A,), {}, A.reshape(2, 1, 3, 4))],
    "mean": [((A,), {}, A.sum(1) / 3), ((A, VALID), {}, torch.stack([A[0, :2].sum(0) / 2, torch.zeros(4)]))],
    "pick": [((A, 0), {}, A[:, 0]), ((A, -1), {}, A[:, 2])],
    "flatten": [((A,), {}, A.reshape(2, 12))],
}  # fmt: skip


@pytest.mark.quick
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_does_what_it_says(name):
    for inputs, params, wanted in CASES[name]:
        found = OPERATIONS[name](*inputs, **params)
        assert found.shape == wanted.shape
        if wanted.dtype == torch.bool:
            assert torch.equal(found, wanted)
        else:
            # float64, by another formula
            torch.testing.assert_close(found, wanted.to(found.dtype), rtol=1e-12, atol=1e-14)


@pytest.mark.quick
def test_the_closed_list_is_the_contracts_and_every_entry_is_documented():
    assert json.loads((golden.FOLDER / "operations.json").read_text(encoding="utf-8")) == [*OPERATIONS, "loops"]
    assert set(CASES) == set(OPERATIONS)
    assert all(operation.__doc__ for operation in OPERATIONS.values())


def test_every_operation_is_in_a_golden_case():
    """So both runtimes are held to the same numbers; the page shows no batch, and casts nothing: it is float64 throughout."""
    used = {step.op for made in golden.cases().values() for step in made.program.steps}
    assert set(OPERATIONS) - used <= {"broadcast_heads", "cast"}


@pytest.mark.thorough  # `run.py check` does the same
def test_golden_traces_agree():
    assert golden.stale() == []


@pytest.mark.quick
@pytest.mark.compile
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_compiled_rotations_are_one_graph_with_the_same_gradients(layout):
    torch.manual_seed(0)
    x, angles = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 5, 8), (5, 4)))
    compiled = torch.compile(lambda x, angles: rotate(x, angles, layout), backend="aot_eager", fullgraph=True)
    for weights in (angles.detach(), angles):  # fixed angles, learned ones
        out, wanted = compiled(x, weights), rotate(x, weights, layout)
        torch.testing.assert_close(out, wanted, rtol=1e-14, atol=1e-14)
        learned = [x, weights] if weights.requires_grad else [x]
        found, expected = (torch.autograd.grad((z * z.detach().cos()).sum(), learned) for z in (out, wanted))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.quick
@pytest.mark.compile
def test_compiled_turns_have_forward_derivatives_by_their_angles_and_batches_of_them():
    torch.manual_seed(0)
    x, angles = torch.randn(3, 5, 8, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64)

    def slope(angles):
        return torch.func.jvp(lambda a: rotate(x, a, "half"), (angles,), (torch.ones_like(angles),))[1]

    def each(many):
        return torch.vmap(lambda a: rotate(x, a, "half"))(many)

    for function, given in ((slope, angles), (each, torch.stack([angles, 2 * angles]))):
        found = torch.compile(function, backend="aot_eager", fullgraph=True)(given)
        torch.testing.assert_close(found, function(given), rtol=1e-12, atol=1e-12)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(angles, torch.ones_like(angles))
        out = torch.compile(lambda a: rotate(x, a, "half"), backend="aot_eager")(dual)
        found = torch.autograd.forward_ad.unpack_dual(out).tangent
    torch.testing.assert_close(found, slope(angles), rtol=1e-12, atol=1e-12)


@pytest.mark.quick
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize(
    "x",
    [torch._neg_view(A), A.mT.clone().mT, A[..., :0], torch.cat([A, A]).flatten()[1:25].view(2, 3, 4), A[..., :1].expand_as(A)],
    ids=["negative bit", "columns apart", "no columns", "odd beginning", "one number"],
)  # fmt: skip
def test_rows_are_turned_however_they_lie(x, layout):
    angles = ANGLES[:, : x.shape[-1] // 2]
    pairs = [(2 * w, 2 * w + 1) if layout == "interleaved" else (w, w + 2) for w in range(angles.shape[-1])]
    x = x.detach().requires_grad_()
    got = rotate(x, angles, layout)
    assert torch.allclose(got, turned(x.detach(), angles, pairs), rtol=0, atol=1e-14)
    (slope,) = torch.autograd.grad(got, x, got.detach())
    assert torch.allclose(slope, x, rtol=0, atol=1e-14)


@pytest.mark.quick
def test_a_rotation_is_exact_where_casts_are_lifted():
    x, angles = A.float(), ANGLES.float()
    with promote_float64():
        got = rotate(x, angles, "interleaved")
    assert torch.allclose(got, rotate(x, angles, "interleaved").to(got), atol=1e-6)
