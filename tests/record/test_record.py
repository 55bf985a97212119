"""Records are plain data: what goes in comes out (but -0, which is written 0), and the written contract is this one."""

import subprocess
import sys

import msgspec
import numpy as np
import pytest
import torch
from contract.schemas import stale, written
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.drawn import attending, words
from tests.recorded import recorded

from equiscope.errors import InputError
from equiscope.positions import Rope
from equiscope.record import Array, Explorable, ProgramRecord, pack, unpack

shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
arrays = st.sampled_from(["float64", "float32", "int64", "bool"]).flatmap(
    lambda dtype: hnp.arrays(dtype, shapes, elements=st.integers(-(2**53), 2**53) if dtype == "int64" else None)
)  # a page's numbers are float64: whole ones are exact up to 2^53


@settings(max_examples=200, deadline=None)
@given(arrays)
def test_an_array_comes_back_number_for_number(values):
    again = unpack(msgspec.json.decode(msgspec.json.encode(pack(values)), type=Array))
    assert (again.dtype, again.shape) == (values.dtype, values.shape)
    np.testing.assert_array_equal(again, values)


@pytest.mark.parametrize(("values", "readable"), [([0.5, -2, 100.1234], True), ([1 / 3, 0.5], False), ([float("inf")], False)])
def test_short_numbers_are_written_so_that_a_person_can_read_them(values, readable):
    assert isinstance(pack(np.array(values)).data, list) == readable


def test_a_dtype_outside_the_contract_is_refused():
    with pytest.raises(InputError, match=r"holds float64, .*bool, but got complex128"):
        pack(np.array([1j]))


def test_an_array_that_does_not_fill_its_shape_is_refused():
    with pytest.raises(InputError, match=r"shape \[2, 2\] holds 4 numbers, found 3"):
        unpack(Array(shape=[2, 2], dtype="float64", data=[1, 2, 3]))


def test_the_written_schema_is_that_of_the_records():
    assert stale() == [], "python -m contract.schemas"
    assert Explorable.__name__ in written("schema.json")


def test_a_trace_survives_json():
    program = recorded(attending(Rope()), words())
    assert msgspec.json.decode(msgspec.json.encode(program), type=ProgramRecord) == program


def test_a_record_cannot_be_changed():
    array = pack(np.ones(2))
    with pytest.raises(AttributeError):
        array.dtype = "float32"


@pytest.mark.parametrize(
    "code",
    [
        "import equiscope.record",
        "import equiscope",
        "import equiscope; equiscope.__version__, dir(equiscope)",
        "import sys; sys.argv = ['equiscope', '--help']\n"
        "from equiscope.cli import main\n"
        "try: main()\nexcept SystemExit as ended: assert not ended.code",
    ],
)
def test_plain_data_and_help_need_no_torch(code):
    after = f"{code}\nimport sys\nassert 'torch' not in sys.modules, 'torch was imported'"
    found = subprocess.run([sys.executable, "-c", after], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def test_a_tensor_of_any_float_becomes_a_record():
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        program = recorded(attending(Rope()).to(dtype), words().to(dtype))
        assert program.leaves[0].array.dtype == ("float64" if dtype == torch.float64 else "float32")
