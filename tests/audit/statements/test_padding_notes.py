"""Left padding without `position_ids`, and padding of documents."""

from dataclasses import replace

import pytest
import torch

import equiscope as eq
from equiscope.audit import check
from equiscope.positions import Rope
from tests.drawn import HEADS, SEEDS, WIDTH, randomised, words


@pytest.mark.parametrize("seed", SEEDS)
def test_a_learned_table_needs_position_ids(made, ids, seed):
    row = check(made("gpt2", seed), ids, properties=["left-padding"], seed=seed)["left-padding"]
    assert row.verdict == "holds"
    assert row.note.startswith("without position_ids it does not hold")


def test_a_rotation_does_not(made, ids):
    row = check(made("llama"), ids, properties=["left-padding"])["left-padding"]
    assert (row.verdict, row.note) == ("holds", "")


def test_padding_on_the_right_needs_none(made, ids):
    assert check(made("gpt2"), ids, properties=["right-padding"])["right-padding"].note == ""


def test_documents_of_a_batch_are_padded_too():
    document = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]])
    model = randomised(eq.build(eq.Spec(WIDTH, block=eq.Block(eq.Attention(HEADS, position=Rope(), causal=True)))))
    tokens = replace(words(batch=(2,)), document=document)
    audit = check(model, tokens, properties=["left-padding", "right-padding"], actions=[], proof=False)
    assert (audit["left-padding"].verdict, audit["right-padding"].verdict) == ("holds", "holds")
