"""FlexAttention: compiled where it can be on this device, and giving way, with the reason, where it cannot."""

import pytest
import torch
from tests.drawn import HEADS, WIDTH, attending, title, words

from equiscope.attention import Causal, Everything, MultiHeadAttention, Plan, Window, kernels
from equiscope.position import Alibi, NoPosition, Rope, Shaw, T5Bias
from equiscope.symmetry import relative_error


@pytest.mark.compile
@pytest.mark.parametrize("mask", [Everything(), Causal(), Causal() & Window(3)], ids=["everything", "causal", "window"])
@pytest.mark.parametrize("scheme", [NoPosition(), Rope(), Alibi(), T5Bias()], ids=title)
def test_the_compiled_kernel_gives_what_eager_gives(scheme, mask, monkeypatch):
    """float32 on a CPU, forward: the compiled kernel has neither float64 nor a backward there."""
    torch.compiler.reset()
    compiled = kernels.flex
    monkeypatch.setattr(kernels, "flex", lambda *args, **kw: compiled(*args, **{**kw, "compiled": True}))
    tokens = words(length=32, batch=(2,))
    model = attending(scheme, mask, backend="flex", head_width=16).float()
    with torch.no_grad():
        given = tokens.to(torch.float32)
        assert model.attention.runs_on(given, model.position) == "flex"
        wanted = attending(scheme, mask, backend="eager", head_width=16)(tokens)
        assert relative_error(model(given).double(), wanted) < 1e-5  # float32: eps 1e-7 times some dozens of operations


def test_where_a_gradient_is_wanted_on_a_cpu_it_gives_way_and_says_why():
    attention, tokens = MultiHeadAttention(WIDTH, HEADS, backend="flex"), words().to(torch.float32)
    assert attention.runs_on(tokens) == "sdpa"
    assert "no backward on CPU" in attention.why_not("flex", Plan(NoPosition(), tokens, tokens))
    attention(tokens).sum().backward()
    assert attention.query.grad is not None


def test_a_scheme_that_reads_weights_goes_on_to_the_one_that_makes_them():
    attention, tokens = MultiHeadAttention(WIDTH, HEADS, backend="flex"), words().to(torch.float32)
    scheme = Shaw().sized(WIDTH, HEADS, WIDTH // HEADS)
    with torch.no_grad():
        assert attention.runs_on(tokens, scheme) == "chunked"
    assert "reads what the tokens hold" in attention.why_not("flex", Plan(scheme, tokens, tokens))
    assert "reads the weights" in attention.why_not("sdpa", Plan(scheme, tokens, tokens))
