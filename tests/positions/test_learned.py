"""A learned table: equal to torch's own embedding of places, clear about where it ends, and stretched beyond (P5)."""

import json
import warnings

import pytest
import torch
from torch import nn

from equiscope.errors import InputError
from equiscope.positions import Learned, from_json, to_json
from equiscope.positions.learned import lengthened
from equiscope.tokens import Embedding, Tokens

pytestmark = pytest.mark.quick


class WithTable(nn.Module):
    def __init__(self, vocabulary, width, length):
        super().__init__()
        self.embedding, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)

    def forward(self, ids):
        return self.embedding(ids) + self.places(torch.arange(ids.shape[-1]))


@pytest.mark.parametrize("length", [8, 5, 1])
def test_a_module_with_a_learned_table_gives_the_same(length):
    theirs, ours, position = WithTable(128, 64, 8), Embedding(128, 64), Learned(8).sized(64, 4, 16)
    ours.weight.data.copy_(theirs.embedding.weight)
    position.table.weight.data.copy_(theirs.places.weight)
    ids = torch.randint(128, (3, length))
    tokens = Tokens.of(ours(ids))
    assert torch.equal(position.embed(tokens.x, tokens.positions), theirs(ids))  # one addition of the same numbers


@pytest.mark.parametrize(("start", "length", "worst"), [(0, 9, 8), (5, 4, 8), (600, 1, 600), (-1, 2, -1)])
def test_past_the_table_the_error_names_its_end_and_the_way_out(start, length, worst):
    tokens = Tokens.of(torch.zeros(length, 4), start)
    with pytest.raises(InputError) as caught:
        Learned(8).sized(4, 1, 4).embed(tokens.x, tokens.positions)
    way = "Count positions from 0, or use" if worst < 0 else f"Use length={worst + 1} or more, or"
    assert str(caught.value) == f"Learned knows positions 0..7, but got {worst}. {way} a scheme without a table such as Rope()."


def test_a_place_between_two_rows_is_refused():
    with pytest.raises(InputError, match=r"whole numbers only.*Rope\(\) or Alibi\(\)"):
        Learned(8).sized(4, 1, 4).encode(torch.tensor([[0.5]]), 4)


def test_a_table_that_was_never_made_says_how_to_make_it():
    with pytest.raises(InputError, match=r"no table yet.*sized"):
        Learned(8).encode(torch.tensor([[0.0]]), 4)


def test_an_empty_text_asks_for_no_row():
    assert Learned(8).sized(4, 1, 4).encode(torch.zeros(0, 1), 4).shape == (0, 4)


def test_only_the_rows_that_were_used_learn():
    position = Learned(8).sized(4, 1, 4)
    position.encode(torch.tensor([[2.0], [5.0]]), 4).sum().backward()
    assert position.table.weight.grad.norm(dim=1).nonzero().squeeze(1).tolist() == [2, 5]


def test_a_place_that_is_no_number_is_refused():
    with pytest.raises(InputError, match=r"are NaN or infinite\. Give every token a position"):
        Learned(8).sized(4, 1, 4).encode(torch.tensor([[0.0], [torch.nan]]), 4)


# --- more places than rows ---------------------------------------------------------------------------------------------
def counted(count):
    return torch.arange(count).double().unsqueeze(-1)


def stretched(length, stretch, width=4):
    return Learned(length, stretch=stretch).sized(width, 1, width).double()


@pytest.mark.parametrize(("length", "stretch"), [(8, 8), (8, 9), (8, 15), (5, 64), (2, 7), (1, 3), (1, 1)])
def test_stretching_is_torchs_interpolation_with_aligned_corners(length, stretch):
    position = stretched(length, stretch)
    found = position.encode(counted(stretch), 4)
    theirs = nn.functional.interpolate(position.table.weight.T[None], size=stretch, mode="linear", align_corners=True)[0].T
    assert (found - theirs).abs().max() < 1e-14
    assert torch.equal(found[0], position.table.weight[0])
    assert (found[-1] - position.table.weight[-1]).abs().max() < 1e-14


@pytest.mark.parametrize(("length", "longer"), [(8, 15), (5, 64), (8, 8), (8, 3), (1, 4)])
def test_a_lengthened_table_holds_what_stretching_reads(length, longer):
    old = Learned(length).sized(4, 1, 4).double()
    new = lengthened(old, longer)
    theirs = nn.functional.interpolate(old.table.weight.T[None], size=longer, mode="linear", align_corners=True)[0].T
    assert (new.length, new.stretch, new.table.weight.shape) == (longer, None, (longer, 4))
    assert (new.encode(counted(longer), 4) - theirs).abs().max() < 1e-14
    assert new.table.weight.requires_grad
    assert new.table.weight is not old.table.weight
    if longer >= length:
        position = stretched(length, longer)
        position.table.weight.data.copy_(old.table.weight)
        assert (position.encode(counted(longer), 4) - new.table.weight).abs().max() < 1e-14


def test_a_lengthened_table_stays_in_its_dtype():
    assert lengthened(Learned(8).sized(4, 1, 4).bfloat16(), 11).table.weight.dtype == torch.bfloat16
    with pytest.raises(InputError, match=r"no table to lengthen.*sized"):
        lengthened(Learned(8), 11)


def test_a_stretched_table_reads_between_places_and_both_rows_learn():
    position = stretched(8, 15)
    found = position.encode(torch.tensor([[5.0]]).double(), 4)
    assert (found - (position.table.weight[2] + position.table.weight[3]) / 2).abs().max() < 1e-15
    position.encode(torch.tensor([[2.5]]).double(), 4).sum().backward()  # row 1.25
    assert position.table.weight.grad[:, 0].tolist() == [0, 0.75, 0.25, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("worst", [15, 14.25, -0.5])
def test_past_a_stretched_table_the_error_names_its_end(worst):
    with pytest.raises(InputError, match=rf"knows positions 0..14, but got {worst:g}. {'Count' if worst < 0 else 'Use stretch='}"):
        stretched(8, 15).encode(torch.tensor([[0.0], [worst]]).double(), 4)


def test_a_table_is_not_stretched_to_less():
    with pytest.raises(InputError, match="stretch is at least the table's length of 8, but got 7"):
        Learned(8, stretch=7)


def test_its_settings_survive_a_file():
    scheme = Learned(8, stretch=15)
    assert repr(from_json(json.loads(json.dumps(to_json(scheme))))) == repr(scheme)


@pytest.mark.parametrize("position", [Learned(8), Learned(8, stretch=15)], ids=["rows", "stretched"])
def test_an_empty_text_and_a_model_without_numbers_are_not_looked_at(position):
    sized = position.sized(4, 1, 4)
    assert sized.encode(torch.zeros(2, 0, 1), 4).shape == (2, 0, 4)
    assert sized.to("meta").encode(torch.zeros(2, 3, 1, device="meta"), 4).shape == (2, 3, 4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("position", [Learned(8), Learned(8, stretch=15)], ids=["rows", "stretched"])
def test_on_a_gpu_the_check_does_not_make_the_gpu_wait(position):
    sized, at = position.sized(4, 1, 4).cuda(), torch.arange(8.0, device="cuda")[:, None]
    wanted = sized.encode(at, 4)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = sized.encode(at, 4)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(found, wanted)
