"""Casts of a model to a narrower dtype become float64 inside `promote_float64`, in whichever way they are written."""

import pytest
import torch

from equiscope.audit.subject.promote_float64 import promote_float64

CASTS = {
    "float": lambda x: x.float(),
    "half": lambda x: x.half(),
    "to": lambda x: x.to(torch.bfloat16),
    "softmax": lambda x: x.softmax(-1, dtype=torch.float32),
    "log_softmax": lambda x: x.log_softmax(-1, dtype=torch.float32),
    "new tensor": lambda x: torch.ones(4, dtype=torch.float32) * x,
    "sum": lambda x: x.sum(-1, dtype=torch.float32),
    "view of the same numbers": lambda x: x.view(torch.float32),
}


@pytest.mark.parametrize("name", CASTS)
def test_a_cast_keeps_float64(name):
    x = torch.randn(3, 4, dtype=torch.float64)
    with promote_float64():
        inside = CASTS[name](x)
    assert inside.dtype == torch.float64
    assert CASTS["float"](x).dtype == torch.float32  # and outside nothing is promoted
    if name in ("float", "half", "to", "view of the same numbers", "new tensor"):
        assert torch.equal(inside, x)


@pytest.mark.parametrize("name", ["complex64", "complex of a view"])
def test_complex_numbers_keep_their_precision(name):
    x = torch.randn(3, 4, dtype=torch.float64)
    with promote_float64():
        z = x.to(torch.complex64) if name == "complex64" else x.view(torch.complex64)
    assert z.dtype == torch.complex128
    assert torch.equal(z.real if name == "complex64" else torch.view_as_real(z).flatten(-2), x)


def test_a_view_that_reads_bits_is_left_as_it_is():
    x = torch.arange(4, dtype=torch.int64)
    with promote_float64():
        assert x.view(torch.int32).tolist()[::2] == [0, 1, 2, 3]
        assert x.to(torch.int32).view(torch.float32).dtype == torch.float32
