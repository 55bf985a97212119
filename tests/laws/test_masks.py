"""The laws of masks: what a mask claims to keep is what attention without places keeps under it, no less and no more."""

from dataclasses import replace

import pytest
import torch
from tests.drawn import attending, words

from equiscope.attention import MASKS, Blocks, Causal, Dilated, Documents, Edges, Everything, Prefix, Window
from equiscope.positions import NoPosition
from equiscope.symmetry import Permute, Reverse, Shift, closed, relative_error
from equiscope.tokens import Tokens

ROUNDING, NOTICED = 1e-12, 1e-6
LISTED = [
    Everything(), Causal(), Window(2), Dilated(2), Blocks(4), Prefix(2), Edges([(0, 1), (1, 1), (2, 5), (3, 0), (5, 4)], 40),
    Causal() & Window(3), Causal() | Prefix(3), Dilated(3) & Window(4), ~Causal(), ~Window(2), ~Blocks(3),
    (Causal() & Window(2)) | ~Blocks(3), Documents() & Causal(), Documents(),
]  # fmt: skip
masks = pytest.mark.parametrize("mask", LISTED, ids=repr)


def ranked(tokens: Tokens, order: torch.Tensor) -> Tokens:
    """The same words at other ranks, and at the places of those ranks."""
    return replace(tokens, order=order, positions=order.double().unsqueeze(-1), counted=None)


@masks
def test_a_mask_keeps_exactly_what_it_claims(mask):
    tokens, model = words(length=7), attending(NoPosition(), mask)  # seven: turned round, no block lies on another
    if any(isinstance(part, Documents) for part in mask.modules()):
        tokens = replace(tokens, document=torch.tensor([0, 0, 0, 0, 1, 1, 1]))
    first, last = int(tokens.order[0]), int(tokens.order[-1])
    moved = {
        Permute: (ranked(tokens, tokens.order[torch.tensor([3, 0, 5, 1, 6, 4, 2])]), "other ranks for the same words"),
        Shift: (ranked(tokens, tokens.order + 17), "ranks from 17 on"),
        Reverse: (ranked(tokens, first + last - tokens.order), "ranks counted from the end"),
    }
    for action, (other, what) in moved.items():
        error = relative_error(model(other), model(tokens))
        assert error < ROUNDING if action in mask.preserves else error > NOTICED, f"{what}: {error:.1e}"


@masks
def test_claims_hold_with_everything_that_they_imply(mask):
    assert closed(mask.preserves) == mask.preserves


def test_every_mask_is_tried():
    assert set(MASKS) <= {type(mask) for mask in LISTED}


@pytest.mark.parametrize("size", [2, 4])
def test_blocks_keep_the_subgroup_of_whole_blocks(size):
    tokens, model = words(), attending(NoPosition(), Blocks(size))
    assert relative_error(model(ranked(tokens, tokens.order + 3 * size)), model(tokens)) < ROUNDING
    assert relative_error(model(ranked(tokens, tokens.order + 1)), model(tokens)) > NOTICED


@pytest.mark.parametrize("layers", [1, 2])
def test_a_causal_layer_without_places_knows_the_order_of_the_past_from_the_second_layer_on(layers):
    """Its last word sees a set; a second layer sees what each of the words before has seen."""
    tokens, shuffled = words(), torch.tensor([3, 0, 4, 1, 2, 5])  # the last word stays
    model = attending(NoPosition(), Causal())

    def last(x):
        for _ in range(layers):
            x = x + model(replace(tokens, x=x))
        return x[-1]

    error = relative_error(last(tokens.x[shuffled]), last(tokens.x))
    assert error < ROUNDING if layers == 1 else error > NOTICED
