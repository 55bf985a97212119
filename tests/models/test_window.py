"""A rolling window: writing beyond any length with few rows in memory, and what those numbers are."""

import pytest
import torch
from tests.models.test_generate import model

from equiscope.errors import InputError
from equiscope.models import Attention, Block, Norm, Spec, build, generate
from equiscope.models.beam import Beams
from equiscope.models.cpu_decoder import CPUDecoder
from equiscope.models.decoding import Decoding
from equiscope.models.window import windowed
from equiscope.positions import Alibi, Learned, Rope, Sinusoidal, T5Bias

pytestmark = pytest.mark.quick

TEXTS = [torch.arange(9) % 40, torch.arange(3)]


@pytest.mark.parametrize("position", [Rope(), Alibi(), T5Bias(), Sinusoidal()], ids=lambda p: p.name)
def test_it_writes_what_the_model_with_that_window_writes(position):
    made = model(position).double()
    block = Block(Attention(heads=2, position=position, causal=True, window=5), Norm())
    other = build(Spec(16, vocabulary=40, outputs=40, layers=2, block=block)).double()
    other.load_state_dict(made.state_dict())
    found, wanted = generate(made, TEXTS, 30, window=5), generate(other, TEXTS, 30)
    assert [t.tolist() for t in found] == [t.tolist() for t in wanted]
    assert windowed(made, 5).spec == other.spec
    text = TEXTS[0]
    for token in found[0][:12]:  # and that is its full pass
        with torch.no_grad():
            assert int(other(text)[-1].argmax()) == int(token)
        text = torch.cat([text, token[None]])


def test_memory_stays_and_parameters_are_shared():
    made = model().double()
    narrow = windowed(made, 4)
    decoding = Decoding(narrow, TEXTS[0], 40)
    with torch.no_grad():
        decoding.prefill()
        for _ in range(30):
            decoding.step(torch.ones(1, 1, dtype=torch.long))
    assert {cache.rows["k"].shape[-2] for cache in decoding.caches} == {3}
    assert all(a is b for a, b in zip(made.parameters(), narrow.parameters(), strict=True))
    assert made.spec.uniform_block.attention.window is None
    assert made.blocks[0].attention.mask.window is None


def test_a_narrower_window_of_the_model_stays():
    made = windowed(model(), 3)
    assert windowed(made, 8).spec.uniform_block.attention.window == 3
    assert windowed(made, 8).blocks[0].attention.mask.window == 3


def test_it_goes_with_beams_and_prepared_weights():
    made = model().double()
    narrow = windowed(made, 5)
    assert CPUDecoder(narrow).fallback_reason == ""
    assert torch.equal(generate(CPUDecoder(narrow), TEXTS[0], 30)[0], generate(made, TEXTS[0], 30, window=5)[0])
    found = generate(made, TEXTS, 8, beams=Beams(3), window=5)
    assert [t.tolist() for t in found] == [t.tolist() for t in generate(narrow, TEXTS, 8, beams=Beams(3))]
    with pytest.raises(InputError, match=r"CPUDecoder\(windowed\(model, size\)\)"):
        generate(CPUDecoder(made), TEXTS, 3, window=5)


def test_sums_that_leave_nothing_out_have_no_window():
    linear = build(Spec(16, 40, outputs=40, block=Block(Attention(heads=2, kind="linear", causal=True))))
    with pytest.raises(InputError, match="A RecurrentState holds no keys and values that a window could drop"):
        windowed(linear, 3)


def test_a_table_ends_with_a_window_too_and_says_so():
    with pytest.raises(InputError, match=r"knows positions 0\.\.15.*A window limits the mask, not the positions"):
        generate(model(Learned(16)), TEXTS, 30, window=5)
    with pytest.raises(InputError, match="at least 1 token"):
        generate(model(), TEXTS, 3, window=0)
