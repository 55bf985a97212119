"""Models of unusual form are checked: exported, scripted and frozen ones, and those whose functions hold parts of them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from equiscope.audit import check
from equiscope.audit.inputs.variations import lengthened
from equiscope.audit.subject.deepcopy import deepcopy
from equiscope.audit.subject.outputs import BatchLayout
from equiscope.errors import InputError
from equiscope.program.irregular_masks import irregular_positions
from equiscope.symmetry import inputs_of

X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))


def exported(model: nn.Module) -> nn.Module:
    return torch.export.export(model.eval(), (X,)).module()


def frozen(model: nn.Module) -> nn.Module:
    return torch.jit.freeze(torch.jit.script(model.eval()))


@pytest.mark.parametrize("make", [exported, pytest.param(frozen, marks=pytest.mark.thorough)])
def test_a_program_that_has_no_modes_is_checked(make):
    audit = check(make(nn.Sequential(nn.Linear(8, 8), nn.ReLU())), X, properties="batch", effort="quick", proof=False)
    assert [row.verdict for row in audit] == ["holds", "holds"]


def test_a_function_that_holds_the_model_is_copied_with_it():
    model = nn.Sequential(nn.Linear(8, 8))
    inner = model[0].forward
    model[0].forward = lambda x: 2 * inner(x)
    copy = deepcopy(model).double()
    assert copy(X.double()).dtype == torch.float64
    assert torch.allclose(copy(X.double()).float(), model(X), atol=1e-6)
    audit = check(model.double(), X.double(), properties=["gradient", "dtype"], effort="quick", proof=False)
    assert audit["gradient"].holds
    assert audit["dtype"].holds


def test_a_mask_is_irregular_where_a_block_ends():
    causal = torch.ones(12, 12, dtype=torch.bool).tril()
    opened = causal.clone()
    opened[7, 8] = True
    assert irregular_positions(causal) == irregular_positions(~causal) == set()
    assert irregular_positions(causal.triu(-3)) == set()  # a window
    assert min(irregular_positions(opened)) == 8
    assert irregular_positions(torch.rand(12, 12)) == set()  # a table of biases


class First(nn.Module):
    """Adds a row of a table to all sequences: that of the first sequence's number."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.table, self.own = nn.Embedding(9, 8), own

    def forward(self, x: Tensor, number: Tensor) -> Tensor:
        return x + self.table(number if self.own else number[:1])[:, None]


@pytest.mark.parametrize(("own", "answer"), [(False, "refuted"), pytest.param(True, "proved", marks=pytest.mark.thorough)])
def test_a_proof_of_independence_gives_every_sequence_flags_of_its_own(own: bool, answer: str):
    row = check(First(own), X, kwargs={"number": torch.tensor([3, 3])}, properties="batch", effort="quick", proof=True)["batch"]
    assert row.proof is not None
    assert (row.proof.answer, row.holds) == (answer, own)
    assert not own or row.proof.reason.endswith("with fixed number (tested modulo 2^31 - 1, 2 times)")


def test_an_output_without_tensors_is_refused_with_what_to_pass():
    class Wrapped(nn.Linear):
        def forward(self, x: Tensor) -> SimpleNamespace:  # type: ignore[override]
            return SimpleNamespace(hidden=super().forward(x))

    with pytest.raises(InputError, match="no tensor, but SimpleNamespace; pass pick="):
        check(Wrapped(8, 8), X, properties="pure")
    assert check(Wrapped(8, 8), X, properties="pure", pick=lambda output: output.hidden)["pure"].holds


class Packed(nn.GRU):
    """Leaves out the rows beyond the longest sequence."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:  # type: ignore[override]
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(super().forward(packed)[0], batch_first=True)[0]


class Mean(nn.Module):
    """The mean over the tokens, or over others."""

    def __init__(self, over: str) -> None:
        super().__init__()
        self.inner, self.over = nn.Linear(8, 8), over

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        n = x.shape[1]
        rows = {"longest": lengths.amax(0, keepdim=True), "one more": lengths + 1}.get(self.over, lengths)
        total = (self.inner(x) * (torch.arange(n) < rows[:, None])[..., None]).sum(1)
        return total / (n if self.over == "all rows" else rows[:, None])


@pytest.mark.parametrize(("model", "causal", "padding", "batch"), [
    (Packed(8, 8, batch_first=True), "holds", "holds", "holds"),
    (Mean("tokens"), "undecided", "holds", "holds"),
    (Mean("all rows"), "undecided", "broken", "holds"),
    (Mean("one more"), "undecided", "broken", "holds"),
    (Mean("longest"), "undecided", "broken", "broken"),
])  # fmt: skip
def test_lengths_follow_the_tokens(model: nn.Module, causal: str, padding: str, batch: str):
    audit = check(
        model.double(), X.double(), kwargs={"lengths": torch.tensor([4, 2])}, properties=["causal", "right-padding", "batch"],
        effort="quick", proof=False, random_parameters=False,
    )  # fmt: skip
    assert [row.verdict for row in audit.rows[:3]] == [causal, padding, batch]
    assert audit.notes == [
        "lengths is 5, the number of rows, for every sequence; right-padding, batch and causal measure shorter ones too"
    ]


def test_lengths_mark_no_padding_on_the_left_and_are_no_list():
    model = Packed(8, 8, batch_first=True)
    row = check(model, X, kwargs={"lengths": torch.tensor([5, 5])}, properties="left-padding").rows[0]
    assert row.note == "lengths counts the first tokens of each sequence, so padding cannot come before them"
    with pytest.raises(InputError, match="'lengths' is a list of numbers"):
        check(model, X, kwargs={"lengths": [5, 2]}, properties="batch")
    with pytest.raises(InputError, match="none larger than the number of tokens"):
        check(model, X, kwargs={"lengths": torch.tensor([6, 2])}, kinds={"lengths": "lengths"}, properties="batch")


def test_lengths_are_cut_extended_and_kept_with_the_rows():
    given = inputs_of((X,), {"lengths": torch.tensor([5, 2])}, ("x", "lengths"))
    longer = lengthened(given, 9, torch.Generator())
    assert longer is not None
    assert [inputs.values["lengths"].tolist() for inputs in (given.rows([0, 1, 2]), given.rows([4, 3, 2, 1, 0]), longer)] == [
        [3, 2],
        [5, 2],
        [9, 2],
    ]
    assert inputs_of((X,), {"lengths": torch.tensor([7, 6])}, ("x", "lengths")).kinds["lengths"] == "other"


class Returns(nn.Module):
    """Returns a batch in a form of its own; each output reads its own token, or the last sequence of the batch too."""

    def __init__(self, form: Callable[[Tensor], Any], reads_others: bool) -> None:
        super().__init__()
        self.inner, self.form, self.reads_others = nn.Linear(8, 8), form, reads_others

    def forward(self, x: Tensor) -> Any:
        return self.form(self.inner(x) + (x[-1:] if self.reads_others else 0))


@pytest.mark.parametrize("form", [
    lambda y: y.squeeze(0), lambda y: y[..., :1].squeeze(), list, lambda y: [{"logits": one, "score": one.mean()} for one in y],
])  # fmt: skip
@pytest.mark.parametrize(("reads_others", "rows"), [(False, 1), (True, 2)])
def test_a_batch_of_one_without_its_axis_and_a_list_of_sequences_are_decided(form, reads_others: bool, rows: int):
    audit = check(
        Returns(form, reads_others).double(), X[:rows, :3].double(), properties=["causal", "batch"], effort="quick", proof=False,
        random_parameters=False,
    )  # fmt: skip
    assert [row.verdict for row in audit.rows[:2]] == ["holds", "broken" if reads_others else "holds"]
    assert len(audit.notes) == 1


def test_items_of_several_sizes_are_stacked():
    one, two = {"0": torch.ones(2, 3)}, {"0": torch.ones(2, 3), "1": torch.ones(1, 3)}
    layout = BatchLayout.of(one, two, 2)
    assert layout.applied(two)[""].tolist() == [[[1, 1, 1], [1, 1, 1]], [[1, 1, 1], [0, 0, 0]]]
    assert BatchLayout.of(two, two, 2) == BatchLayout()  # a pair of outputs


@pytest.mark.parametrize("form", [torch.fft.fft, Tensor.to_sparse, lambda y: y.masked_fill(torch.eye(5, 8).bool(), -torch.inf)])
def test_outputs_that_are_complex_sparse_or_infinite_somewhere_are_read_as_they_are(form):
    audit = check(
        Returns(form, False).double(),
        X.double(),
        properties=["deterministic", "dead-context"],
        actions=(),
        effort="quick",
        proof=False,
    )
    assert audit["deterministic"].verdict == "holds"
    assert audit["dead-context"].cause == "every output depends on its own token only"
