"""On a CUDA device: each backend against float64 on the CPU, forwards and backwards; which one runs; what may not wait."""

from dataclasses import replace

import pytest
import torch
from tests.drawn import attending, placed, title, words

from equiscope.attention import Blocks, Causal, Edges, Everything, MultiHeadAttention, Window
from equiscope.positions import Alibi, Fire, Kerple, NoPosition, Rope, SwinBias, T5Bias
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

if not torch.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)

pytestmark = pytest.mark.compile  # FlexAttention is compiled there
TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 5e-2}  # TF32 products keep ten bits
LENGTH = 160  # more than a block of FlexAttention
GRAPH = Edges([(i, j) for i in range(LENGTH) for j in (i, i // 2, 7)], LENGTH)


def results(model, tokens):
    """Output and gradients, in float64 on the CPU."""
    out = model(tokens)
    gradients = torch.autograd.grad(out.float().square().sum(), list(model.parameters()), allow_unused=True, materialize_grads=True)
    return [t.detach().double().cpu() for t in (out, *gradients)]


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("backend", ["auto", "eager", "sdpa", "flex", "chunked"])
@pytest.mark.parametrize("mask", [Everything(), Causal(), Causal() & Window(9), Blocks(50), GRAPH], ids=title)
@pytest.mark.parametrize("scheme", [NoPosition(), Rope(), Alibi(), T5Bias(), Kerple(), Fire(2.0), SwinBias((64, 8))], ids=title)
@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
def test_every_backend_gives_what_the_cpu_gives(scheme, mask, backend, dtype, padded):
    torch.compiler.reset()
    tokens = placed(scheme, words(length=LENGTH, batch=(2,)))
    if padded:
        tokens = replace(tokens, valid=torch.arange(LENGTH) >= torch.tensor([[0], [40]]))
    wanted = results(attending(scheme, mask, backend="eager", head_width=16), tokens)
    model = attending(scheme, mask, backend=backend, head_width=16).to("cuda", dtype)
    found = results(model, tokens.to(dtype, "cuda"))
    largest = max(g.norm() for g in wanted[1:])
    real = slice(None) if tokens.valid is None else tokens.valid
    assert relative_error(found[0][real], wanted[0][real]) < TOLERANCE[dtype]
    assert all((a - b).norm() < 2 * TOLERANCE[dtype] * largest for a, b in zip(found[1:], wanted[1:], strict=True))


def test_long_texts_take_the_compiled_kernel_and_decoding_does_not():
    model = attending(Alibi(), Causal(), head_width=16).to("cuda", torch.bfloat16)
    long, one = (Tokens.of(torch.zeros(1, n, 8, dtype=torch.bfloat16, device="cuda")) for n in (4096, 1))
    assert model.attention.runs_on(long, model.position) == "flex"
    assert model.float().attention.runs_on(long.to(torch.float32), model.position) == "sdpa"
    model.to(torch.bfloat16)
    assert model.attention.runs_on(one, model.position, source=long) == "sdpa"
    assert attending(Rope(), Causal()).cuda().float().attention.runs_on(long, Rope()) == "sdpa"


def test_a_bias_of_wide_heads_fits_into_shared_memory():
    attention = MultiHeadAttention(512, 8, mask=Causal(), backend="flex").to("cuda", torch.bfloat16)
    x = torch.randn(2, 512, 512, dtype=torch.bfloat16, device="cuda")
    assert attention(Tokens.of(x), Alibi().sized(512, 8, 64)).isfinite().all()


@pytest.mark.parametrize("backend", ["eager", "sdpa", "flex", "chunked"])
def test_a_row_that_may_look_nowhere_gives_nothing(backend):
    model = attending(Alibi(), Causal(), backend=backend, output=False, head_width=16).to("cuda", torch.bfloat16)
    tokens = words(length=LENGTH, batch=(2,)).to(torch.bfloat16, "cuda")
    out = model(replace(tokens, valid=(torch.arange(LENGTH, device="cuda") >= 3).expand(2, LENGTH)))
    assert (out[:, :3] == 0).all()
    assert out.isfinite().all()


@pytest.mark.parametrize("backend", ["auto", "sdpa", "flex"])
def test_decoding_equals_the_full_pass(backend):
    model = attending(T5Bias(), Causal(), backend=backend, head_width=16).to("cuda", torch.float32)
    tokens = words(length=20, batch=(2,)).to(torch.float32, "cuda")
    cache, found = model.attention.cache(), []
    with torch.no_grad():
        for i in range(20):
            part = slice(i, i + 1)
            token = Tokens(x=tokens.x[:, part], positions=tokens.positions[:, part], order=tokens.order[:, part])
            found.append(model.attention(token, model.position, cache=cache))
        assert relative_error(torch.cat(found, 1), model(tokens)) < 1e-4
