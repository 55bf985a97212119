"""Padding and packing: what is no word has no say, in every scheme, mask and read-out; and what cannot be answered is refused."""

from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, LISTED, WIDTH, randomised, title
from tests.pairwise import pairwise
from tests.recorded import recorded

import equiscope as eq
from equiscope.errors import InputError
from equiscope.models import READOUTS
from equiscope.positions import NoPosition
from equiscope.symmetry import Permute, measure, relative_error

pytestmark = pytest.mark.quick

ROUNDING = 1e-12  # float64; the sums of a padded batch run in another order


def model(scheme, readout="each", causal=False):
    attention = eq.Attention(heads=HEADS, position=scheme, causal=causal)
    block = eq.Block(attention=attention, norm=eq.Norm("rms"))
    return randomised(eq.build(eq.Spec(width=WIDTH, layers=2, block=block, readout=readout)))


def padded(x, left):
    """Three more rows that are no words, with numbers of their own; words keep their places."""
    tokens = eq.Tokens.of(x, start=5)
    extra = torch.randn(3, WIDTH, dtype=torch.float64) * 9
    places = torch.tensor([[2.0], [3.0], [4.0]] if left else [[9.0], [10.0], [11.0]], dtype=torch.float64)
    no = torch.zeros(3, dtype=torch.bool)
    yes = torch.ones(len(x), dtype=torch.bool)
    parts = [(extra, places, no), (x, tokens.positions, yes)]
    x, at, valid = (torch.cat(p) for p in zip(*(parts if left else parts[::-1]), strict=True))
    return eq.Tokens(x=x, positions=at, order=at[:, 0].long(), valid=valid)


def on(scheme, tokens):
    """The same places as points with as many axes as the scheme reads: on a diagonal."""
    return replace(tokens, positions=tokens.positions.expand(-1, scheme.axes or 1) * torch.ones(scheme.axes or 1).double())


@pairwise(
    pytest.mark.parametrize("scheme", LISTED, ids=title),
    pytest.mark.parametrize("readout", [r for r in READOUTS if r != "concatenation"]),
    pytest.mark.parametrize("causal", [False, True], ids=["everything", "causal"]),
    pytest.mark.parametrize("left", [True, False], ids=["left", "right"]),
)
def test_a_padded_text_reads_out_as_the_text_alone(scheme, readout, causal, left):
    made, x = model(scheme, readout, causal), torch.randn(4, WIDTH, dtype=torch.float64)
    alone, among = made(on(scheme, eq.Tokens.of(x, start=5))), made(on(scheme, padded(x, left)))
    if readout == "each":
        among = among[3:] if left else among[:4]
    assert relative_error(among, alone) < ROUNDING


def test_a_line_of_all_rows_refuses_padding():
    with pytest.raises(InputError, match="cannot leave padding out"):
        model(NoPosition(), "concatenation")(padded(torch.randn(4, WIDTH).double(), left=True))


@pytest.mark.parametrize("readout", [r for r in READOUTS if r != "each"])
def test_one_answer_for_several_documents_is_refused(readout):
    tokens = eq.Tokens.of(torch.randn(4, WIDTH).double())
    with pytest.raises(InputError, match="several documents"):
        model(NoPosition(), readout)(replace(tokens, document=torch.tensor([0, 0, 1, 1])))


@pytest.mark.parametrize("flag", ["valid", "document"])
def test_a_shuffle_carries_what_belongs_to_the_word(flag):
    tokens = eq.Tokens.of(torch.randn(4, WIDTH).double())
    flags = {"valid": torch.tensor([True, True, True, False]), "document": torch.tensor([0, 0, 1, 1])}
    found = measure(model(NoPosition()), replace(tokens, **{flag: flags[flag]}), Permute((3, 1, 0, 2)))
    assert found.verdict == "holds"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_watching_changes_no_result_in_half_precision(kind, dtype):
    """Large rows, whose squares and products overflow where they are made in half precision."""
    block = eq.Block(attention=eq.Attention(heads=HEADS), norm=eq.Norm(kind))
    made = randomised(eq.build(eq.Spec(width=WIDTH, block=block))).to(dtype)
    tokens = eq.Tokens.of((torch.randn(4, WIDTH) * 300).to(dtype))
    program = recorded(made, tokens)
    seen = torch.from_numpy(eq.record.unpack(next(s.array for s in program.steps if s.id == program.outputs[0])))
    assert relative_error(seen, made(tokens).float()) < 0.02  # two roundings of 8 bits
