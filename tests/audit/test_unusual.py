"""Models of unusual form are checked: exported, scripted and frozen ones, and those whose functions hold parts of them."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from equiscope.audit import check
from equiscope.audit.subject.deepcopy import deepcopy
from equiscope.errors import InputError
from equiscope.program.boundaries import irregular_positions

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


class Counted(nn.Module):
    """Takes the number of tokens of each sequence instead of a mask."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        return x if lengths is None else x * (torch.arange(x.shape[1]) < lengths[:, None])[..., None]


def test_lengths_instead_of_a_padding_mask_are_named_with_what_to_do():
    row = check(
        Counted(), torch.ones(2, 3, 4), kwargs={"lengths": torch.tensor([3, 2])}, properties="right-padding", actions=()
    ).rows[0]
    assert row.verdict == "not applicable"
    assert "the model takes lengths, not a mask: wrap it" in row.note
