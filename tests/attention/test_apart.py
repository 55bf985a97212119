"""Attention with torch's own products beside others that go through oneDNN: the same numbers, and the switch where it should be."""

import math

import pytest
import torch
from torch import nn

from equiscope.attention import apart, kernels
from equiscope.attention.plan import Distances
from equiscope.symmetry import relative_error
from equiscope.trace.attentions import watching

SWITCH = torch.backends.mkldnn.matmul
B, H, N, M, K = 2, 3, 40, 50, 8


def rows(n=N, m=M, width=K, dtype=torch.float32):
    torch.manual_seed(0)
    sizes = ((n, K), (m, K), (m, width))
    return [torch.randn(B, size, H, wide).to(dtype).transpose(1, 2).requires_grad_() for size, wide in sizes]


def masks(kind):
    torch.manual_seed(1)
    seen = torch.rand(B, 1, N, M) < 0.7
    return {
        "nobody": None,
        "pairs": seen,
        "padding": seen[:, :, :1],
        "queries": seen[..., :1],  # a row sees all, or nothing
        "all batches": seen[0, 0],
    }[kind]


def answer(q, k, v, seen, causal):
    z = kernels.fused(q, k, v, 0.3, seen, causal)
    return [z, *torch.autograd.grad((z * torch.linspace(-1, 1, z.numel()).to(z).view(z.shape)).sum(), (q, k, v))]


@pytest.fixture
def used(monkeypatch):
    """Which precisions were asked for inside attention."""
    seen, products = [], apart._products

    def noted(precision):
        seen.append(precision)
        return products(precision)

    monkeypatch.setattr(apart, "_products", noted)
    return seen


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["nobody", "pairs", "padding", "queries", "all batches"])
@pytest.mark.parametrize("width", [K, K - 3])
def test_numbers_and_gradients_are_those_of_the_usual_way(causal, kind, width, used):
    exact = answer(*rows(width=width, dtype=torch.float64), masks(kind), causal)
    assert used == []
    with apart.routed(True):
        ours = answer(*rows(width=width), masks(kind), causal)
    assert used == ["bf16", "ieee", "ieee"]  # the switch; the way there; the way back
    for a, b in zip(ours, exact, strict=True):
        assert (a - b).norm() <= 1e-6 * b.norm() + 1e-7  # float32, measured 2e-7


def test_a_fixed_bias_goes_the_same_way_and_no_bias_is_forgotten(used):
    q, k, v = rows(m=N)
    values = torch.linspace(-2, 2, H * (2 * N - 1)).view(H, -1)
    for bias in (Distances(values, N), Distances(values, N).table()):
        theirs = kernels.fused(q, k, v, 0.3, None, True, bias)
        with apart.routed(True):
            ours = kernels.fused(q, k, v, 0.3, None, True, bias)
            ours.sum().backward()
        assert relative_error(ours, theirs) < 1e-6
    assert used.count("ieee") == 4
    assert used.count("bf16") == 2


def test_a_model_that_is_compiled_inside_goes_apart_and_outside_as_before(used):
    torch.compiler.reset()
    q, k, v = rows(m=N)
    bias = torch.randn(1, H, N, N)
    compiled = torch.compile(
        lambda q, k, v: kernels.fused(q, k, v, 0.3, None, True) + kernels.fused(q, k, v, 0.3, None, False, bias)
    )
    theirs = torch.autograd.grad(compiled(q, k, v).square().sum(), (q, k, v))
    assert used == []
    for _ in range(2):
        with apart.routed(True):
            ours = torch.autograd.grad(compiled(q, k, v).square().sum(), (q, k, v))
    assert used == ["bf16", "ieee", "ieee", "ieee", "ieee"] * 2
    assert max(relative_error(a, b) for a, b in zip(ours, theirs, strict=True)) < 1e-6
    torch.autograd.grad(compiled(q, k, v).square().sum(), (q, k, v))
    assert len(used) == 10


def test_what_it_does_not_take_goes_as_before(used):
    q, k, v = rows()
    with apart.routed(True):
        kernels.fused(q.double(), k.double(), v.double(), 0.3)
        assert torch.func.grad(lambda q: kernels.fused(q, k, v, 0.3).sum())(q.detach()).shape == q.shape
        assert kernels.fused(q[:, :, :0], k, v, 0.3).shape == (B, H, 0, K)
        assert kernels.fused(q[:, :, None], k[:, :, None], v[:, :, None], 0.3).shape == (B, H, 1, N, K)
        assert used == ["bf16"]
        assert kernels.fused(q[0], k[0], v[0], 0.3).shape == (H, N, K)  # as a batch of one
        assert used == ["bf16", "ieee"]


def test_the_operators_keep_torchs_rules():
    q, k, v = rows(m=N)
    for mask, causal in ((None, True), (torch.zeros(B, H, N, N), False)):
        torch.library.opcheck(apart._scaled_dot_product_attention, (q, k, v, mask, causal, 0.3))


def test_the_switches_are_set_back_after_an_error():
    before = SWITCH.fp32_precision

    def fail():
        assert SWITCH.fp32_precision == "bf16"
        with apart.own_products():
            assert SWITCH.fp32_precision == "ieee"
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"), apart.routed(True):
        fail()
    assert SWITCH.fp32_precision == before
    assert not apart._wanted


def test_it_is_seen_as_attention():
    class Model(nn.Module):
        def forward(self, q, k, v):
            return kernels.fused(q, k, v, 1 / math.sqrt(K), None, False)

    q, k, v = (x.detach() for x in rows())
    model = Model()
    with apart.routed(True), watching(model) as found:
        z = model(q, k, v)
    assert any(one.result is not None and torch.equal(one.result, z) and torch.equal(one.q, q) for one in found)
