"""Parts compose: norms take off what a scheme adds to all features alike, and the model respects what the scheme does not."""

import pytest
import torch

import equiscope as eq
from equiscope.models import Spec
from equiscope.models.spec import Attention, Block, InputLayer, Norm
from equiscope.positions import Index

pytestmark = pytest.mark.quick

INDEX = Attention(heads=2, position=Index())
RMS, POST = Block(attention=INDEX, norm=Norm(kind="rms")), Block(attention=INDEX, norm=Norm(order="post"))


def spec(**parts):
    return Spec(width=16, vocabulary=12, **({"block": Block(attention=INDEX)} | parts))


@pytest.mark.parametrize(
    ("made", "holds"),
    [
        (spec(), True),
        (spec(layers=2, readout="mean", outputs=3), True),
        (spec(block=POST, input=InputLayer(norm=True)), True),
        (spec(block=RMS), False),
        (spec(layers=2, block=(Block(attention=INDEX), RMS)), False),
        *(
            pytest.param(*case, marks=pytest.mark.thorough)
            for case in [
                (spec(block=Block(attention=INDEX, parallel=True)), True),
                (spec(block=Block(attention=INDEX, feedforward=None)), True),
                (spec(block=RMS, input=InputLayer(norm=True)), False),
                (spec(block=POST), False),
                (spec(block=Block(attention=INDEX, norm=None)), False),
            ]
        ),
    ],
)
def test_what_is_added_to_all_features_is_taken_off_by_norms_that_subtract_the_mean(made, holds):
    torch.manual_seed(0)
    model = eq.build(made).eval()
    audit = eq.check(model, torch.randint(10, (2, 7)), actions=["permute", "shift"], proof=False, effort="quick")
    for action in ("permute", "shift"):
        row = audit[action]
        assert (row.claimed, row.holds) == (("yes", True) if holds else ("no", False))
        assert ("subtracts the mean" in row.reason) == holds
