"""What is proved of a random program holds when it runs; what is refuted does not."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.proof.summaries import B, N, proofs, shown, words

W = 4
HALF = torch.ones(N, N).tril().bool()
STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "tanh": torch.tanh,
    "square": lambda x: x * x,
    "norm": lambda x: F.layer_norm(x, (W,)),
    "softmax": lambda x: x.softmax(-1),
    "features-turned": lambda x: x.flip(-1),
    "merged": lambda x: x.reshape(-1, 2).tanh().reshape(x.shape),
    "flip": lambda x: x.flip(1),
    "cumsum": lambda x: x.cumsum(1) / N,
    "mean": lambda x: x - x.mean(1, keepdim=True),
    "largest": lambda x: x + x.amax(1, keepdim=True),
    "first": lambda x: x + x[:, :1],
    "last": lambda x: x + x[:, -1:],
    "onward": lambda x: F.pad(x, (0, 0, 1, 0))[:, :-1],
    "back": lambda x: F.pad(x, (0, 0, 0, 1))[:, 1:],
    "places": lambda x: x + torch.arange(N).to(x)[:, None] / N,
    "all": lambda x: x + (x @ x.mT).softmax(-1) @ x,
    "so-far": lambda x: x + (x @ x.mT).masked_fill(~HALF, float("-inf")).softmax(-1) @ x,
    "masked-late": lambda x: x + ((x @ x.mT).softmax(-1) * HALF) @ x,
    "fused": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "sorted": lambda x: x.sort(1).values,
    "features-mixed": lambda x: torch.einsum("bnd,bne->bnd", x, x) / W,
    "batch": lambda x: x - 0.5 * x.mean(0, keepdim=True),
    "batch-turned": lambda x: x.flip(0),
    "rows": lambda x: x * (1 + torch.arange(B).to(x)[:, None, None]),
    "view-mixed": lambda x: x.reshape(B, W, N).mT,
    "view-over-the-batch": lambda x: x.transpose(0, 1).reshape(B, N, W),
    "chosen": lambda x: torch.where(x > 0, x, x[:, :1]),
    "taken": lambda x: x.gather(1, x.argmax(1, keepdim=True)) + x,
    "transform": lambda x: torch.fft.fft(x, dim=1).real / N,
    "features-transformed": lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=-1) * (1 + 1j), n=W, dim=-1),
    "pairs-turned": lambda x: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * 1j).flatten(-2),
    "product-so-far": lambda x: x.tanh().cumprod(1),
    "largest-so-far": lambda x: x.cummax(1).values,
    "log-of-a-sum-so-far": lambda x: x.logcumsumexp(1),
    "pooled": lambda x: F.max_pool1d(F.pad(x.mT, (2, 0)), 3, 1).mT,
    "transposed": lambda x: F.conv_transpose1d(x.mT, torch.eye(W).to(x)[..., None].expand(W, W, 3) / 3, padding=1).mT,
    "convolved": lambda x: F.conv1d(F.pad(x.mT, (2, 0)), torch.eye(W).to(x)[..., None].expand(W, W, 3) / 3).mT,
}


class Steps(nn.Module):
    """One step after another, each after a linear map."""

    def __init__(self, names: list[str], pooled: bool) -> None:
        super().__init__()
        self.names, self.pooled = names, pooled
        self.maps = nn.ModuleList(nn.Linear(W, W) for _ in names)

    def forward(self, x: Tensor) -> Tensor:
        for name, layer in zip(self.names, self.maps, strict=True):
            x = STEPS[name](layer(x))
        return x.mean(1) if self.pooled else x


def random_programs(count: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test of so many programs; the same ones each time."""
    some = given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3), st.booleans())
    return lambda test: settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])(
        some(test)
    )


@random_programs(6)
def test_what_is_proved_holds_and_what_is_refuted_does_not(names: list[str], pooled: bool):
    proofs_agree_with_runs(names, pooled)


@pytest.mark.thorough
@random_programs(25)
def test_what_is_proved_of_more_programs_holds(names: list[str], pooled: bool):
    proofs_agree_with_runs(names, pooled)


def proofs_agree_with_runs(names: list[str], pooled: bool):
    torch.manual_seed(len(names))
    model = Steps(names, pooled)
    found = proofs(model, words(width=W))
    errors = shown(model, words(width=W))
    vanishes = bool(model.double()(words(width=W).double()).abs().max() < 1e-12)  # the mean of what has no mean: rounding alone
    for statement, proof in found.items():
        if proof.answer == "proved" and not vanishes:
            assert errors[statement] < 1e-9, (statement, proof)  # float64: rounding only
        if proof.answer == "refuted":
            assert errors[statement] > 1e-9, (statement, proof)


@pytest.mark.thorough
def test_every_step_alone_is_decided_as_it_runs():
    undecided = []
    for name in STEPS:
        model = Steps([name], False)
        found, errors = proofs(model, words(width=W)), shown(model, words(width=W))
        for statement, proof in found.items():
            wanted = "proved" if errors[statement] < 1e-9 else "refuted"
            assert proof.answer in (wanted, "unknown"), (name, statement, proof, errors)
            undecided += [(name, statement)] if proof.answer == "unknown" else []
    assert len(undecided) <= 6, undecided
