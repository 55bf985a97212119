"""The page of a comparison holds the whole record: both sides layer by layer, down to numbers."""

import base64
import gzip
import re
from dataclasses import replace
from functools import cache

import msgspec
import pytest
import torch
from tests.audit.parity.families import PlainA, ids, made, plain_b

import equiscope as eq
from equiscope.explore import html
from equiscope.explore.pages.parity import plain
from equiscope.record import Parity

DATA = re.compile(r'<script type="application/octet-stream" id="parity">([\w+/=]+)</script>')


@cache
def compared(**changed):
    a = made(PlainA)
    return eq.parity(a, plain_b(a, replace(a.o, **changed)), ids())


def test_the_page_holds_the_record_as_it_is():
    found = compared(activation="gelu")
    (data,) = DATA.findall(html(found))
    assert msgspec.json.decode(gzip.decompress(base64.b64decode(data)), type=Parity) == found


def test_layers_stand_side_by_side_and_the_first_difference_is_in_one():
    found = compared(activation="gelu")
    assert [(x.a, x.b) for x in found.layers] == [("", ""), ("h.0", "blocks.0"), ("h.1", "blocks.1"), ("", "")]
    assert [x.differs for x in found.layers] == [False, True, False, False]
    (pair,) = [pair for pair in found.layers[1].pairs if pair.state == "differs"]
    assert (pair.a, pair.b) == (found.step_a, found.step_b)
    assert pair.error > 1e-6
    assert pair.numbers_a != pair.numbers_b != []


def test_the_numbers_are_those_of_the_model():
    a = made(PlainA)
    found = eq.parity(a, plain_b(a), ids())
    first = next(pair for layer in found.layers for pair in layer.pairs if pair.a and pair.a.operation == "embedding")
    block = a.tokens.weight[ids()[0]][:5, :6].double()
    assert torch.allclose(torch.tensor(first.numbers_a, dtype=torch.float64), block, rtol=1e-6)
    assert first.numbers_b == []  # B prints the same
    assert not any(layer.differs for layer in found.layers)


@pytest.mark.parametrize("title", ["</script><img src=x onerror='1'>"])
def test_without_a_script_the_page_is_tables_and_a_name_adds_no_element(title):
    found = msgspec.structs.replace(compared(activation="gelu"), a=title)
    text = plain(found)
    assert "<img" not in html(found)
    assert text.count("<table>") == 1 + len(found.layers)
    assert "gelu in h.0" in text
    assert not re.search(r'(?:src|href)="https?:', html(found))
