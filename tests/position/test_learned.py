"""A learned table: equal to torch's own embedding of places, and clear about where it ends (P5)."""

import pytest
import torch
from torch import nn

from equiscope.errors import InputError
from equiscope.position import Learned
from equiscope.tokens import Embedding, Tokens


class WithTable(nn.Module):
    def __init__(self, vocabulary, width, length):
        super().__init__()
        self.embedding, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)

    def forward(self, ids):
        return self.embedding(ids) + self.places(torch.arange(ids.shape[-1]))


@pytest.mark.parametrize("length", [8, 5, 1])
def test_a_module_with_a_learned_table_gives_the_same(length):
    theirs, ours, position = WithTable(128, 64, 8), Embedding(128, 64), Learned(8).sized(64, 4, 16)
    ours.table.data.copy_(theirs.embedding.weight)
    position.table.data.copy_(theirs.places.weight)
    ids = torch.randint(128, (3, length))
    tokens = Tokens.of(ours(ids))
    assert torch.equal(position.embed(tokens.x, tokens.at), theirs(ids))  # one addition of the same numbers


@pytest.mark.parametrize(("start", "length", "worst"), [(0, 9, 8), (5, 4, 8), (600, 1, 600), (-1, 2, -1)])
def test_past_the_table_the_error_names_its_end_and_the_way_out(start, length, worst):
    tokens = Tokens.of(torch.zeros(length, 4), start)
    with pytest.raises(InputError) as caught:
        Learned(8).sized(4, 1, 4).embed(tokens.x, tokens.at)
    assert str(caught.value) == (
        f"Learned knows positions 0..7, but got {worst}. Use length={abs(worst) + 1} or more, "
        "or a scheme without a table such as Rope()."
    )


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
    assert position.table.grad.norm(dim=1).nonzero().squeeze(1).tolist() == [2, 5]
