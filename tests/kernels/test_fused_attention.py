"""The door of fused attention: whatever kernel runs, outputs and gradients are those of the reference."""

import itertools
import math

import pytest
import torch
from tests.kernels.fused import N, gradients, made, rows, same
from tests.pairwise import pairwise

from equiscope.kernels import DistanceBias, attention, cpu, private, reference, short
from equiscope.kernels.bias import rounded
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick


def mask_of(kind):
    causal, last = torch.ones(N, N, dtype=torch.bool).tril(), torch.arange(N) < 250
    return {
        "none": None,
        "window": causal & causal.mT.roll(20, 0),
        "padding": (causal & last).expand(2, 1, N, N),
        "a whole row": causal & (torch.arange(N) != 140)[:, None],
        "everything": torch.zeros(N, N, dtype=torch.bool),
    }[kind]


def bias_of(kind):
    if kind == "by distance":
        return DistanceBias(made(3, 2 * N - 1, seed=3), N)
    shape = {"none": None, "a table a head": (3, N, N), "a table a pair": (2, 3, N, N), "of the key": (1, N)}[kind]
    return None if shape is None else made(*shape, seed=3)


@pairwise(
    pytest.mark.parametrize("learned", [False, True]),
    pytest.mark.parametrize("bias", ["none", "by distance", "a table a head", "a table a pair", "of the key"]),
    pytest.mark.parametrize("kind", ["none", "window", "padding", "a whole row", "everything"]),
    pytest.mark.parametrize("causal", [False, True]),
)
def test_the_door_and_the_reference_agree(causal, kind, bias, learned):
    (q, k, v), added = rows(), bias_of(bias)
    table = added.values if isinstance(added, DistanceBias) else added
    if table is not None:
        table.requires_grad_(learned)
    inputs = [x for x in (q, k, v, table) if x is not None and x.requires_grad]
    ours, theirs = (f(q, k, v, scale=0.5, mask=mask_of(kind), causal=causal, bias=added) for f in (attention, reference))
    same([ours], [theirs])
    if kind != "everything":
        same(gradients([ours], inputs), gradients([theirs], inputs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("bias", ["none", "by distance", "a table a head"])
def test_in_fewer_digits_they_agree_within_them(dtype, bias):
    q, k, v = (x.detach().to(dtype) for x in rows())
    ours, theirs = (f(q, k, v, scale=0.5, causal=True, bias=bias_of(bias)) for f in (attention, reference))
    assert ours.dtype == theirs.dtype == dtype
    assert relative_error(ours.double(), theirs.double()) < 4 * torch.finfo(dtype).eps  # rounding


@pytest.mark.parametrize("shape", [(N, 4), (3, N, 4), (2, 2, 3, N, 4)])
@pytest.mark.parametrize("value_width", [3, 4, 5])
def test_any_number_of_axes_and_values_of_another_width(shape, value_width):
    (q, k), v = (made(*shape, seed=s) for s in range(2)), made(*shape[:-1], value_width, seed=2)
    for bias in (None, made(N, N, seed=3)):
        ours, theirs = (f(q, k, v, scale=0.5, causal=True, bias=bias) for f in (attention, reference))
        same([ours], [theirs])
        same(gradients([ours], [q, k, v]), gradients([theirs], [q, k, v]))


def test_without_torchs_private_kernel_the_public_one_computes_the_same(monkeypatch):
    (q, k, v), values = rows(), made(3, 2 * N - 1, seed=3)
    ours = attention(q, k, v, scale=0.5, causal=True, bias=DistanceBias(values, N))
    monkeypatch.setattr(private, "flash", None)
    assert not cpu.supports(q, k, v, values)
    theirs = attention(q, k, v, scale=0.5, causal=True, bias=DistanceBias(values, N))
    same([ours], [theirs])
    same(gradients([ours], [q, k, v, values]), gradients([theirs], [q, k, v, values]))


def test_without_torchs_word_for_transforms_they_are_taken_to_be_at_work(monkeypatch):
    monkeypatch.setattr(private, "_functorch_active", None)
    assert private.functorch_active()
    assert private.transformed(torch.ones(1))


@pytest.mark.parametrize(("causal", "learned", "n"), list(itertools.product([True, False], [True, False], [N, 1100])))
def test_a_bias_by_distance_is_its_table_added_to_the_scores(causal, learned, n):
    q, k, v = rows(n=n, batch=1)
    values = made(3, 2 * n - 1, seed=3)
    values = values if learned else values.detach()
    inputs = [q, k, v, values] if learned else [q, k, v]
    distances = DistanceBias(values, n)
    ours = attention(q, k, v, scale=0.5, causal=causal, bias=distances)
    theirs = reference(q, k, v, scale=0.5, causal=causal, bias=distances)
    same([ours], [theirs])
    same(gradients([ours], inputs), gradients([theirs], inputs))


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("kind", ["none", "padding", "a whole row"])
def test_a_table_beside_a_causal_mask_is_added_to_the_scores(learned, kind):
    q, k, v = rows()
    table = made(1, 3, N, N, seed=3) if learned else made(1, 3, N, N, seed=3).detach()
    inputs = [q, k, v, table] if learned else [q, k, v]
    ours = attention(q, k, v, scale=0.5, mask=mask_of(kind), causal=True, bias=table)
    theirs = reference(q, k, v, scale=0.5, mask=mask_of(kind), causal=True, bias=table)
    same([ours], [theirs])
    same(gradients([ours], inputs), gradients([theirs], inputs))


@pytest.mark.parametrize(
    ("loud", "dtype", "close"), [(1, torch.float32, 1e-6), (30, torch.float32, 1e-5), (30, torch.float64, 1e-12)]
)
def test_what_a_fixed_bias_makes_faint_is_left_out_only_where_no_score_can_lift_it(loud, dtype, close):
    n = 600
    q, k, v = (t.detach().to(dtype).requires_grad_() for t in rows(n=n, batch=1))
    values = -torch.tensor([2.0, 0.5, 0.03])[:, None] * torch.arange(n - 1, -n, -1).abs()
    distances = DistanceBias(values.to(dtype), n)
    asked = loud * q  # at 30 the scores of a row are hundreds apart: what is far may win against the bias
    ours = attention(asked, k, v, scale=0.5, causal=True, bias=distances)
    theirs = reference(asked, k, v, scale=0.5, causal=True, bias=distances)
    scores = (0.5 * asked @ k.mT + distances.table()).masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -math.inf)
    weights = scores.softmax(-1)
    assert loud == 1 or float(weights.detach()[..., 100:, :].diagonal(-100, -2, -1).max()) > 0.5
    same([ours], [theirs], close)
    same(gradients([ours], [q, k, v]), gradients([theirs], [q, k, v]), close)


def test_weights_too_small_to_count_are_left_out_without_a_trace():
    q, k, v = (t.float() for t in rows(n=N, batch=1))
    values = -30 * torch.arange(N - 1, -N, -1).abs().expand(3, -1)  # e^-9000: nothing, in float64 too
    ours = attention(q, k, v, scale=0.5, causal=True, bias=DistanceBias(values.float().requires_grad_(), N))
    theirs = reference(q, k, v, scale=0.5, causal=True, bias=DistanceBias(values.float(), N))
    same([ours], [theirs], 1e-6)  # float32: measured 1e-7
    same(gradients([ours], [v]), gradients([theirs], [v]), 1e-6)


def test_few_digits_keep_what_weighs():
    table = torch.tensor([[-1e5, 1024.0, 1026.5, -math.inf], [-math.inf] * 4], dtype=torch.float64)
    fewer = rounded(table, torch.float16)
    assert fewer.tolist() == [[-math.inf, -2.5, 0.0, -math.inf], [-math.inf] * 4]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (1, 1, 1, 4), (2, 2, 2, 5, 6)])
def test_weights_in_a_table_are_what_torchs_kernel_makes(shape, causal, padded):
    torch.manual_seed(0)
    q, k, v = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = torch.rand(*shape[:-3], 1, 1, shape[-2]) < 0.6 if padded else None
    if mask is not None:
        mask[0] = False  # a sequence of nothing else: its rows are 0, and so are its gradients
    ours = short.table_attention(q, k, v, 0.3, mask, causal)
    theirs = attention(q, k, v, scale=0.3, mask=mask, causal=causal)
    assert relative_error(ours, theirs) < 1e-14
    assert mask is None or not ours[0].any()
    g = torch.randn_like(ours)
    for a, b in zip(torch.autograd.grad(ours, (q, k, v), g), torch.autograd.grad(theirs, (q, k, v), g), strict=True):
        assert relative_error(a, b) < 1e-14


def test_short_rows_in_bfloat16_are_as_exact_in_a_table_as_their_digits_are():
    torch.manual_seed(0)
    exact = [torch.randn(2, 3, 64, 32, dtype=torch.float64) for _ in range(3)]
    rows = [x.bfloat16().requires_grad_() for x in exact]
    assert short.supports(*rows)
    assert not short.supports(*(x.detach() for x in rows))  # nothing is learned: torch's kernel is faster
    assert not short.supports(*(x.detach().float().requires_grad_() for x in rows))
    for mask in (None, (torch.arange(64) < torch.tensor([[40], [64]]))[:, None, None]):
        found = attention(*rows, scale=32**-0.5, mask=mask, causal=True)
        wanted = reference(*exact, scale=32**-0.5, mask=mask, causal=True)
        assert relative_error(found.double(), wanted) < 2**-7  # 8 digits of a weight and a value


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 compiles its own kernel there, as exact and slower")
def test_compiled_code_takes_the_table_for_short_rows_too():
    torch.manual_seed(0)
    called: list[str] = []

    def noticed(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        called.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    rows = [torch.randn(2, 3, 64, 32, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    compiled = torch.compile(lambda q, k, v: attention(q, k, v, scale=0.2, causal=True), backend=noticed, fullgraph=True)
    assert torch.equal(compiled(*rows), attention(*rows, scale=0.2, causal=True))
    assert not [name for name in called if "scaled_dot_product" in name]
    called.clear()
    with torch.no_grad():
        compiled(*rows)
    assert [name for name in called if "scaled_dot_product" in name]  # nothing is learned: torch's kernel


def test_what_is_exported_in_bfloat16_takes_any_length():
    class Attends(torch.nn.Module):
        def forward(self, q, k, v):
            return attention(q, k, v, scale=0.2, causal=True)

    rows = [torch.randn(2, 3, 64, 32, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    length = torch.export.Dim("length", min=2, max=4096)
    exported = torch.export.export(Attends(), tuple(rows), dynamic_shapes=[{2: length}] * 3, strict=False).module()
    longer = [torch.randn(2, 3, 900, 32, dtype=torch.bfloat16) for _ in range(3)]
    torch.testing.assert_close(exported(*longer), attention(*longer, scale=0.2, causal=True), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("learned", [False, True])
def test_rows_with_a_bias_may_lie_in_any_way(learned):
    torch.manual_seed(0)
    plain = [torch.randn(2, 3, 9, 8, dtype=torch.float64) for _ in range(3)]
    bias, g = torch.randn(9, 9, dtype=torch.float64, requires_grad=learned), torch.randn(2, 3, 9, 1, dtype=torch.float64)
    kinds = [plain, [x.mT.clone().mT for x in plain], [x[..., :1].expand_as(x) for x in plain]]
    for some in kinds:
        lying, dense = [x.detach().requires_grad_() for x in some], [x.clone().requires_grad_() for x in some]
        got, wanted = attention(*lying, scale=0.3, bias=bias), attention(*dense, scale=0.3, bias=bias)
        assert relative_error(got, wanted) < 1e-14
        slopes = torch.autograd.grad(got, lying, g.expand_as(got))
        for mine, theirs in zip(slopes, torch.autograd.grad(wanted, dense, g.expand_as(got).clone()), strict=True):
            assert relative_error(mine, theirs) < 1e-14


@pytest.mark.parametrize("learned", [False, True])
def test_a_bias_must_not_be_changed_before_the_backward_pass(learned):
    q, k, v = (torch.randn(2, 3, 40, 16, requires_grad=True) for _ in range(3))
    bias = torch.randn(40, 40, requires_grad=learned)
    made = attention(q, k, v, scale=0.25, bias=bias)
    with torch.no_grad():
        bias.mul_(5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()
