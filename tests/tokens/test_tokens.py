"""Tokens: lengths agree, places are data, and spelled words follow from their letters (T1)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from equiscope.errors import InputError, ShapeError
from equiscope.tokens import Embedding, Tokens, characters, spelled, vocabulary, words

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("field", ["positions", "order", "document", "valid"])
@pytest.mark.usefixtures("unchecked")
def test_lengths_that_disagree_are_refused(field):
    rows = {
        "positions": torch.zeros(3, 1), "order": torch.arange(3), "document": torch.zeros(3).long(),
        "valid": torch.ones(3).bool(),
    }  # fmt: skip
    rows[field] = torch.cat([rows[field], rows[field]])
    with pytest.raises(ShapeError, match=f"x has 3 tokens, but {field} has 6"):
        Tokens(x=torch.zeros(3, 2), **rows)


def test_places_are_counted_exactly_in_any_precision():
    """bfloat16 knows whole numbers only to 256."""
    tokens = Tokens.of(torch.zeros(300, 2, dtype=torch.bfloat16), start=1000)
    assert tokens.positions.squeeze(-1).tolist() == list(range(1000, 1300))
    assert tokens.order.tolist() == list(range(1000, 1300))
    assert tokens.to(torch.bfloat16).positions.dtype == torch.float32
    assert tokens.to(torch.float64).positions.dtype == torch.float64


def test_features_without_rows_are_refused():
    with pytest.raises(ShapeError, match=r"one row a token, but got shape \(3,\)"):
        Tokens.of(torch.zeros(3))


def test_words_and_characters_are_composed_and_never_nothing():
    assert words("  Love\tconquers \n all ") == ["Love", "conquers", "all"]
    assert words("nai\u0308ve") == words("na\u00efve") == ["na\u00efve"]
    assert characters("e\u0301 x") == ["\u00e9", " ", "x"]
    for empty in ("", " \t\n\u3000"):
        with pytest.raises(InputError, match=r"no words. Give at least one"):
            words(empty)
    with pytest.raises(InputError, match="empty"):
        characters("")


def test_a_vocabulary_counts_by_first_appearance():
    assert vocabulary(["b", "a", "b", "c"]) == {"b": 0, "a": 1, "c": 2}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.integers(1, 6), st.integers(0, 9))
@pytest.mark.slow
def test_a_words_numbers_follow_from_its_letters_alone(tokens, width, seed):
    found = spelled(tokens, width, seed)
    assert found.shape == (len(tokens), width)
    assert found.abs().max() <= 2
    assert torch.equal((found * 10).round() / 10, found)
    for i, token in enumerate(tokens):
        assert torch.equal(found[i], spelled([token], width, seed)[0])
        assert torch.equal(found[i], spelled([token], width + 2, seed)[0, :width])


def test_different_words_and_seeds_get_different_numbers():
    rows = spelled([f"word{i}" for i in range(300)], 8)
    assert len({tuple(row) for row in rows.tolist()}) == 300
    assert not torch.equal(spelled(["Love"], 8, 0), spelled(["Love"], 8, 1))
    assert abs(rows.mean().item()) < 0.1  # 2400 numbers of size about 1.2: a standard error of 0.024


def test_an_embedding_is_torchs():
    ours, ids = Embedding(9, 4), torch.tensor([[0, 8], [3, 3]])
    assert torch.equal(ours(ids), torch.nn.functional.embedding(ids, ours.weight))
    with pytest.raises(InputError, match=r"ids 0..8, but got 0..9"):
        ours(torch.tensor([0, 9]))
