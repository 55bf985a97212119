"""FlexAttention: compiled where it can be on this device, and giving way, with the reason, where it cannot."""

from dataclasses import replace

import pytest
import torch
import torch.nn.attention.flex_attention as flex_attention
from tests.drawn import HEADS, WIDTH, attending, title, words

from equiscope import kernels
from equiscope.attention import AttentionContext, Causal, Edges, Everything, MultiHeadAttention, Window
from equiscope.errors import InputError
from equiscope.positions import Alibi, NoPosition, Rope, Shaw, T5Bias
from equiscope.symmetry import relative_error

MASKS = {
    "everything": Everything(),
    "causal": Causal(),
    "window": Causal() & Window(3),
    "edges": Edges([(i, i // 2) for i in range(32)], 32),
}
ALWAYS = [("t5", "edges")]  # bias and mask are read from tables; where a kernel computes them, --thorough compiles it


@pytest.mark.compile
@pytest.mark.parametrize(
    ("scheme", "mask"),
    [
        pytest.param(s, m, id=f"{title(s)}-{name}", marks=[] if (s.name, name) in ALWAYS else pytest.mark.thorough)
        for s in (NoPosition(), Rope(), Alibi(), T5Bias())
        for name, m in MASKS.items()
    ],
)
def test_the_compiled_kernel_gives_what_eager_gives(scheme, mask, monkeypatch):
    """float32 on a CPU, forward: the compiled kernel has neither float64 nor a backward there."""
    torch.compiler.reset()
    compiled = kernels.flex_attention
    monkeypatch.setattr(kernels, "flex_attention", lambda *args, **kw: compiled(*args, **{**kw, "compiled": True}))
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
    assert "no backward on CPU" in attention.why_not("flex", AttentionContext(NoPosition(), tokens, tokens))
    attention(tokens).sum().backward()
    assert attention.q_proj.weight.grad is not None


def test_a_scheme_that_reads_weights_goes_on_to_the_one_that_makes_them():
    attention, tokens = MultiHeadAttention(WIDTH, HEADS, backend="flex"), words().to(torch.float32)
    scheme = Shaw().sized(WIDTH, HEADS, WIDTH // HEADS)
    with torch.no_grad():
        assert attention.runs_on(tokens, scheme) == "chunked"
    assert "reads the content of the tokens" in attention.why_not("flex", AttentionContext(scheme, tokens, tokens))
    assert "reads the weights" in attention.why_not("sdpa", AttentionContext(scheme, tokens, tokens))


def test_it_looks_at_what_it_is_given_as_the_others_do(monkeypatch):
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    tokens = words(batch=(2,))
    packed = replace(tokens, document=torch.tensor([0, 0, 0, 1, 1, 1]))
    with torch.no_grad():
        with pytest.raises(InputError, match="One sequence has documents"):
            MultiHeadAttention(WIDTH, HEADS, backend="flex").double()(packed, source=tokens)
        with pytest.raises(InputError, match=r"nodes 0\.\.2, but the tokens have ranks 0\.\.5"):
            MultiHeadAttention(WIDTH, HEADS, mask=Edges([(1, 1)], 3), backend="flex").double()(tokens)


def test_without_pairs_it_gives_way():
    attention = MultiHeadAttention(WIDTH, HEADS, mask=Causal(), backend="flex").double()
    nothing = words(length=0, batch=(2,))
    with torch.no_grad():
        assert attention(nothing).shape == (2, 0, WIDTH)
        assert attention(words(batch=(2,)), source=nothing).abs().max() == 0
