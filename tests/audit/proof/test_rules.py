"""Every operation with a small module, of both signs: what holds is proved, what does not is refuted, with the right reason."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.proof.summaries import B, D, N, Of, proofs, said, words

YES, NO, DUNNO = "proved", "refuted", "unknown"
HOLD = (YES, YES, YES)
MIX = (YES, NO, YES)  # every token reads all
ONWARD = (NO, YES, YES)  # a token reads those before it
BACK = (NO, NO, YES)
TABLE = torch.randn(N, D, generator=torch.Generator().manual_seed(1))
HALF = torch.ones(N, N).tril()
LOW = torch.zeros(N, N).masked_fill(HALF == 0, float("-inf"))

Answers = tuple[str, str, str]
CASES: dict[str, tuple[Callable[[Tensor], Tensor], Answers]] = {
    # entry by entry
    "gelu": (F.gelu, HOLD),
    "clamp": (lambda x: x.clamp(-0.3, 0.4), HOLD),
    "where-by-itself": (lambda x: torch.where(x > 0, x, x.exp()), HOLD),
    "arithmetic": (lambda x: (x * 2 - 1) / (x**2 + 1) + x.abs().sqrt(), HOLD),
    "cast": (lambda x: x.double().float(), HOLD),
    "add-a-table": (lambda x: x + TABLE, ONWARD),
    "add-a-table-of-one-row": (lambda x: x + TABLE[:1].expand(N, D), HOLD),
    "add-a-constant-table": (lambda x: x + torch.ones(N, 1), HOLD),
    "multiply-by-places": (lambda x: x * torch.arange(N)[:, None], ONWARD),
    "places-that-cancel": (lambda x: (x + TABLE) - TABLE, HOLD),
    "where-by-place": (lambda x: torch.where(torch.arange(N)[:, None] < 3, x, -x), ONWARD),
    "a-table-for-each-row-of-the-batch": (lambda x: x + torch.arange(B)[:, None, None], (YES, YES, NO)),
    # layout
    "merge-and-split": (lambda x: x.reshape(-1, D).view(B, N, 2, 3).transpose(1, 2).flip(-1).transpose(1, 2).flatten(2), HOLD),
    "flip-features": (lambda x: x.flip(-1), HOLD),
    "flip-tokens": (lambda x: x.flip(1), BACK),
    "flip-tokens-twice": (lambda x: x.flip(1).flip(1), HOLD),
    "flip-the-batch": (lambda x: x.flip(0), (YES, YES, NO)),
    "roll-on": (lambda x: x.roll(1, 1), BACK),  # the last comes first
    "shift-on": (lambda x: F.pad(x, (0, 0, 1, 0))[:, :-1], ONWARD),
    "shift-back": (lambda x: F.pad(x, (0, 0, 0, 1))[:, 1:], BACK),
    "first-token-for-all": (lambda x: x[:, :1].expand_as(x), ONWARD),
    "second-token-for-all": (lambda x: x[:, 1:2].expand_as(x), BACK),
    "halves-exchanged": (lambda x: torch.cat(x.split(3, -1)[::-1], -1), HOLD),
    "stack-and-choose": (lambda x: torch.stack([x, -x], 1)[:, 1], HOLD),
    "mixed-up-view": (lambda x: x.reshape(B, D, N).mT, BACK),
    "rows-by-number": (lambda x: x[:, torch.tensor([2, 0, 1, 3, 4, 5, 6])], BACK),
    "features-by-number": (lambda x: x[..., torch.tensor([2, 0, 1, 3, 4, 5])], HOLD),
    "write-into-one-token": (lambda x: torch.cat([torch.zeros_like(x[:, :1]), x[:, 1:]], 1), ONWARD),
    "in-place-on-a-copy": (lambda x: x.clone().mul_(2).add_(1), HOLD),
    "in-place-on-one-token": (lambda x: _written(x), ONWARD),
    # along the tokens
    "less-the-mean": (lambda x: x - x.mean(1, keepdim=True), MIX),
    "over-the-sum": (lambda x: x.exp() / x.exp().sum(1, keepdim=True), MIX),
    "softmax-of-tokens": (lambda x: x.softmax(1), MIX),
    "log-softmax-of-features": (lambda x: x.log_softmax(-1), HOLD),
    "largest-of-tokens": (lambda x: x + x.amax(1, keepdim=True), MIX),
    "norm-of-tokens": (lambda x: x / x.norm(dim=1, keepdim=True), MIX),
    "spread-of-tokens": (lambda x: x / x.std(1, keepdim=True), MIX),
    "sorted-tokens": (lambda x: x.sort(1).values, BACK),
    "mean-of-sorted-tokens": (lambda x: x + x.sort(1).values[:, 3:4], MIX),
    "sorted-features": (lambda x: x.sort(-1).values, HOLD),
    "topk-of-features": (lambda x: x.topk(2, -1).values, HOLD),
    "cumsum": (lambda x: x.cumsum(1), ONWARD),
    "cumsum-of-features": (lambda x: x.cumsum(-1), HOLD),
    "cumsum-from-behind": (lambda x: x.flip(1).cumsum(1).flip(1), BACK),
    "cummax": (lambda x: x.cummax(1).values, ONWARD),
    "running-mean": (lambda x: x.cumsum(1) / torch.arange(1, N + 1)[:, None], ONWARD),
    "all-less-what-came-before": (lambda x: x.sum(1, keepdim=True) - x.cumsum(1), BACK),
    "product-so-far": (lambda x: x.cumprod(1), ONWARD),
    "log-of-a-sum-so-far": (lambda x: x.logcumsumexp(1), ONWARD),
    "log-of-a-sum": (lambda x: x - x.logsumexp(1, keepdim=True), MIX),
    "norm-of-order-three": (lambda x: x / x.norm(p=3, dim=1, keepdim=True), MIX),
    "any-token": (lambda x: torch.where((x > 0).any(1, keepdim=True), x, -x), MIX),
    # Fourier transforms and complex numbers
    "transform-of-tokens": (lambda x: torch.fft.fft(x, dim=1).real, BACK),
    "transform-of-features": (lambda x: torch.fft.fft(x, dim=-1).real, HOLD),
    "transform-of-both": (lambda x: torch.fft.fft2(x).real, BACK),
    "filtered-features": (lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=-1) * (1 + 2j), n=D, dim=-1), HOLD),
    "rotated-as-complex-numbers": (lambda x: _rotated(x, torch.arange(N)), ONWARD),
    "rotated-all-alike": (lambda x: _rotated(x, torch.zeros(N)), HOLD),
    "scores-of-rotated": (lambda x: ((_rotated(x, torch.arange(N)) @ x.mT) * HALF) @ x, ONWARD),
    "size-and-angle": (lambda x: torch.polar(x.exp(), x).abs() + torch.complex(x, x + 1).angle(), HOLD),
    "complex-mean-of-tokens": (lambda x: (torch.complex(x, x.exp()) / torch.complex(x, x.exp()).mean(1, keepdim=True)).real, MIX),
    # along the batch
    "less-the-mean-of-the-batch": (lambda x: x - 0.5 * x.mean(0, keepdim=True), (YES, YES, NO)),
    "less-the-mean-of-everything": (lambda x: x - 0.5 * x.mean(), (YES, NO, NO)),
    "softmax-of-the-batch": (lambda x: x.softmax(0), (YES, YES, NO)),
    # products
    "scores": (lambda x: (x @ x.mT).softmax(-1) @ x, MIX),
    "scores-without-softmax": (lambda x: x @ (x.mT @ x), MIX),
    "lower-triangle": (lambda x: ((x @ x.mT) * HALF) @ x, ONWARD),
    "one-beyond-the-triangle": (lambda x: ((x @ x.mT) * torch.ones(N, N).tril(1)) @ x, BACK),
    "mask-added": (lambda x: (x @ x.mT + LOW).softmax(-1) @ x, ONWARD),
    "mask-filled": (lambda x: (x @ x.mT).masked_fill(HALF == 0, float("-inf")).softmax(-1) @ x, ONWARD),
    "mask-filled-and-scaled": (lambda x: ((x @ x.mT).masked_fill(HALF == 0, float("-inf")) / 3).softmax(-1) @ x, ONWARD),
    "mask-after-softmax": (lambda x: ((x @ x.mT).softmax(-1) * HALF) @ x, BACK),
    "mask-after-softmax-made-one-again": (lambda x: _made_one((x @ x.mT).softmax(-1) * HALF) @ x, ONWARD),
    "softmax-by-hand": (lambda x: _softmax(x @ x.mT + LOW) @ x, ONWARD),
    "mask-of-minus-a-billion": (lambda x: (x @ x.mT).masked_fill(HALF == 0, -1e9).softmax(-1) @ x, (NO, DUNNO, YES)),
    "fixed-mixing": (lambda x: HALF @ x, ONWARD),
    "mixing-with-equal-weights": (lambda x: torch.ones(N, N) @ x, MIX),
    "mixing-with-itself-and-all": (lambda x: (torch.ones(N, N) + 3 * torch.eye(N)) @ x, MIX),
    "einsum": (lambda x: torch.einsum("bid,bjd,bje->bie", x, x, x), MIX),
    "distances": (lambda x: (-(x[:, :, None] - x[:, None]).square().sum(-1)).softmax(-1) @ x, MIX),
    "fused": (lambda x: F.scaled_dot_product_attention(x, x, x), MIX),
    "fused-causal": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), ONWARD),
    "fused-with-a-mask": (lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=HALF.bool()), ONWARD),
    "fused-with-a-mask-turned": (lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=HALF.bool().mT), BACK),
    "fused-with-a-distance": (lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=-_gaps()), BACK),
    "window": (lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=(_gaps() < 2) & (HALF > 0)), ONWARD),
}  # fmt: skip


def _gaps() -> Tensor:
    at = torch.arange(N)
    return (at[:, None] - at).abs().float()


def _rotated(x: Tensor, at: Tensor) -> Tensor:
    """Pairs of features turned by an angle for each position, as Llama's own code does."""
    angles = torch.outer(at, torch.tensor([1.0, 0.1, 0.01])).to(torch.float64)
    pairs = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2).to(x.dtype)


def _made_one(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


def _softmax(scores: Tensor) -> Tensor:
    raised = (scores - scores.amax(-1, keepdim=True)).exp()
    return raised / raised.sum(-1, keepdim=True)


def _written(x: Tensor) -> Tensor:
    x = x.clone()
    x[:, 2] = 0
    return x


REPEATED = (  # of an operation that another case has too, or one beside it
    "clamp", "cast", "add-a-table-of-one-row", "add-a-constant-table", "flip-features", "flip-tokens-twice", "roll-on",
    "shift-back", "halves-exchanged", "stack-and-choose", "write-into-one-token", "features-by-number", "in-place-on-a-copy",
    "over-the-sum", "log-softmax-of-features", "norm-of-tokens", "spread-of-tokens", "sorted-features", "cumsum-of-features",
    "cumsum-from-behind", "cummax", "all-less-what-came-before", "product-so-far", "log-of-a-sum", "norm-of-order-three",
    "transform-of-features", "transform-of-both", "rotated-all-alike", "scores-of-rotated", "complex-mean-of-tokens",
    "less-the-mean-of-everything", "softmax-of-the-batch", "scores-without-softmax", "one-beyond-the-triangle", "mask-added",
    "mask-filled-and-scaled", "softmax-by-hand", "mixing-with-equal-weights", "mixing-with-itself-and-all", "distances", "fused",
    "fused-with-a-mask-turned", "window", "where-by-place", "a-table-for-each-row-of-the-batch", "merge-and-split", "flip-tokens",
    "first-token-for-all", "mixed-up-view", "in-place-on-one-token", "mean-of-sorted-tokens", "sorted-tokens", "lower-triangle",
    "mask-after-softmax", "fixed-mixing", "log-of-a-sum-so-far", "running-mean", "largest-of-tokens", "filtered-features",
)  # fmt: skip
assert set(REPEATED) < set(CASES)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.thorough if n in REPEATED else []) for n in CASES])
def test_an_operation_is_distinguished(name: str):
    function, wanted = CASES[name]
    assert said(Of(function)) == wanted


def thorough(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    ("layer", "mode", "wanted"),
    [
        (nn.Linear(D, 4), "eval", HOLD),
        (nn.LayerNorm(D), "eval", HOLD),
        (nn.GroupNorm(1, N), "eval", (NO, NO, YES)),
        (nn.GRU(D, 4, batch_first=True), "eval", ONWARD),
        thorough(nn.RMSNorm(D), "eval", HOLD),
        thorough(nn.Dropout(0.5), "eval", HOLD),
        thorough(nn.LayerNorm((N, D)), "eval", (NO, NO, YES)),
        thorough(nn.LSTM(D, 4, batch_first=True), "eval", ONWARD),
        thorough(nn.GRU(D, 4, batch_first=True, bidirectional=True), "eval", BACK),
        thorough(nn.Softmax(-1), "eval", HOLD),
        thorough(nn.Identity(), "eval", HOLD),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else None,
)
def test_a_layer_of_torch_is_distinguished(layer: nn.Module, mode: str, wanted: Answers):
    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor) -> Tensor:
            made = self.layer(x)
            return made[0] if isinstance(made, tuple) else made

    assert said(First(), mode=mode) == wanted


class Along(nn.Module):
    """A layer whose channels are the features."""

    def __init__(self, layer: nn.Module, left: int = 0) -> None:
        super().__init__()
        self.layer, self.left = layer, left

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(F.pad(x.mT, (self.left, 0))).mT


def test_a_norm_over_the_batch_is_refuted_in_training_only():
    assert said(Along(nn.BatchNorm1d(D)), mode="eval") == HOLD
    found = proofs(Along(nn.BatchNorm1d(D)), mode="train")
    assert [found[n].answer for n in ("permute", "causal", "batch")] == [YES, NO, NO]
    assert found["batch"].where == "layer"
    assert "batch_norm" in found["batch"].operation


def test_a_norm_of_every_sequence_keeps_the_batch_apart():
    assert said(Along(nn.InstanceNorm1d(D))) == MIX


@pytest.mark.parametrize(
    ("layer", "left", "wanted"),
    [
        (nn.Conv1d(D, D, 3, dilation=2), 4, ONWARD),
        (nn.Conv1d(D, D, 3, padding=1, groups=D), 0, BACK),
        (nn.ConvTranspose1d(D, D, 3, padding=1), 0, BACK),
        thorough(nn.Conv1d(D, D, 3), 2, ONWARD),
        thorough(nn.Conv1d(D, D, 3, padding=1), 0, BACK),
        thorough(nn.Conv1d(D, D, 1), 0, HOLD),
        thorough(nn.ConvTranspose1d(D, D, 1), 0, HOLD),
    ],
)
def test_a_convolution_reads_what_its_padding_lets_it(layer: nn.Module, left: int, wanted: Answers):
    assert said(Along(layer, left)) == wanted


@pytest.mark.parametrize("pool", [nn.MaxPool1d, thorough(nn.AvgPool1d)])
def test_a_pool_depends_on_where_its_windows_are(pool: type[nn.Module]):
    assert said(Along(pool(3, 1, 1)))[1:] == (NO, YES)
    assert said(Along(pool(3, 1), left=2)) == ONWARD


def test_pooled_tokens_have_no_order_and_no_later():
    assert said(Of(lambda x: x.mean(1))) == (YES, DUNNO, YES)
    assert said(Of(lambda x: x[:, 0])) == (NO, DUNNO, YES)
    assert said(Of(lambda x: x[:, -1])) == (NO, DUNNO, YES)


def test_a_set_network_of_two_floors_is_proved():
    phi, rho = nn.Sequential(nn.Linear(D, 5), nn.ReLU(), nn.Linear(5, 5)), nn.Sequential(nn.Linear(5, 5), nn.ReLU())

    class DeepSets(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.phi, self.rho = phi, rho

        def forward(self, x: Tensor) -> Tensor:
            return self.rho(self.phi(x).sum(1))

    assert said(DeepSets())[0] == YES


def _powers(x: Tensor) -> Tensor:
    """An operation without a rule: of each sequence the exponential of a matrix."""
    return torch.linalg.matrix_exp(x @ x.mT / 9) @ x


def test_an_operation_without_a_rule_is_named_with_its_module():
    class Turned(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return _powers(x)

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turned = Turned()

        def forward(self, x: Tensor) -> Tensor:
            return self.turned(x)

    found = proofs(Inside())["permute"]
    assert (found.answer, found.where) == (DUNNO, "turned")
    assert "matrix_exp" in found.operation


def test_an_operation_without_a_rule_beside_the_answer_does_no_harm():
    class Beside(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 + 0 * _powers(x)

    assert said(Beside()) == HOLD


def test_a_graph_that_depends_on_the_numbers_is_unknown_with_a_reason():
    class Branch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    found = proofs(Branch())["permute"]
    assert found.answer == DUNNO
    assert "torch.export" in found.reason


def test_random_numbers_are_unknown():
    assert said(Of(lambda x: x + torch.randn_like(x))) == (DUNNO, DUNNO, DUNNO)


def test_what_breaks_on_the_way_and_heals_is_not_refuted():
    assert said(Of(lambda x: x + 0 * TABLE.cumsum(0))) == HOLD
    assert said(Of(lambda x: (x.cumsum(1) * 0) + x)) == HOLD


def test_what_depends_on_how_many_there_are_is_not_proved():
    assert said(Of(lambda x: x * x.shape[1])) == (YES, DUNNO, YES)
    assert said(Of(lambda x: x * x.shape[0])) == (YES, YES, DUNNO)


def test_the_named_operation_is_the_one_that_breaks_it():
    found = proofs(Of(lambda x: (x @ x.mT).softmax(-1) @ x))["causal"]
    assert found.operation == "aten._softmax"
    found = proofs(Of(lambda x: F.gelu(x + TABLE) * 2))["permute"]
    assert found.operation == "aten.add"


def test_rows_of_a_table_by_ids_move_with_the_ids():
    class Bag(nn.Module):
        def __init__(self, places: bool) -> None:
            super().__init__()
            self.table, self.at = nn.Embedding(20, D), nn.Embedding(N, D) if places else None

        def forward(self, ids: Tensor) -> Tensor:
            x = self.table(ids)
            return x if self.at is None else x + self.at(torch.arange(ids.shape[1]))

    ids = torch.randint(20, (B, N))
    assert said(Bag(False), ids) == HOLD
    assert said(Bag(True), ids) == ONWARD


def test_a_text_without_a_batch_is_proved_too():
    assert said(nn.Linear(D, 4), words()[0]) == (YES, YES, DUNNO)


def test_a_parameter_that_begins_at_zero_hides_nothing():
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.zeros(N, D))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.table

    assert said(Table()) == ONWARD
