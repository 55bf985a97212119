"""A small file: its numbers are within the bound that it states, of a model of any kind."""

import msgspec
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from equiscope.explore.heads.compact import compact
from equiscope.explore.page import html, pack
from equiscope.explore.pages.heads import HeadsPage
from equiscope.program.attended.attended import Attended, with_reconstruction_error
from equiscope.record import TokenSequence, unpack
from equiscope.record.rounded import ROUGH, weights


def drawn(rows=40, columns=40, width=16, causal=True, strength=1.0, bias=None, mask=None, heads=4, kv_heads=2):
    """An attention of a few heads, with what it computed."""
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(h, n, width, generator=g) for h, n in ((heads, rows), (kv_heads, columns), (kv_heads, columns)))
    made = Attended("made", strength * q, k, v, width**-0.5, causal, bias=bias, mask=mask)
    made.output = torch.stack([made.recomputed_weights(h).float() @ v[h * kv_heads // heads] for h in range(heads)])
    return with_reconstruction_error(made)


def page_weights(numbers, head, heads):
    """As a page computes them."""
    if numbers.encoded_weights:
        kept = np.ones((numbers.rows, numbers.columns), dtype=bool)
        if numbers.causal:
            kept = np.tri(numbers.rows, numbers.columns, numbers.columns - numbers.rows, dtype=bool)
        made = np.zeros(kept.shape)
        made[kept] = weights(numbers.encoded_weights[head])
        return made
    parts = {}
    for name, step in (("q", numbers.q_scale), ("k", numbers.k_scale)):
        table = unpack(getattr(numbers, name)).astype(float)
        parts[name] = torch.from_numpy(table * (1 if step is None else unpack(step)[..., None]))
    others = {name: None if (a := getattr(numbers, name)) is None else torch.from_numpy(unpack(a)) for name in ("bias", "mask")}
    return Attended("page", parts["q"], parts["k"], None, numbers.scale, numbers.causal, **others).recomputed_weights(head).numpy()


CASES = {
    "few tokens": drawn(),
    "few tokens, no mask": drawn(causal=False),
    "two lines": drawn(12, 30, causal=False),
    "causal behind a cache": drawn(12, 30),
    "many tokens": drawn(300, 300),
    "many tokens, a bias": drawn(300, 300, bias=-0.1 * torch.arange(300.0).flip(0)[None, None]),
    "many tokens, a mask": drawn(300, 300, causal=False, mask=(torch.arange(300) < 200)[None, None]),
    "many tokens, sharp": drawn(300, 300, strength=40.0),
}


@pytest.mark.parametrize("name", list(CASES))
def test_weights_are_within_the_stated_bound(name):
    one = CASES[name]
    made = compact(one, 1e9)
    assert 0 < made.relative_error <= ROUGH
    assert bool(made.encoded_weights) == name.startswith(("few", "two", "causal"))
    for head in range(4):
        wanted, found = one.recomputed_weights(head).numpy(), page_weights(made, head, 4)
        large = wanted > 2e-9
        assert np.abs(found / np.where(large, wanted, 1) - 1)[large].max() <= made.relative_error * (1 + 1e-4)
        assert found[~large].max(initial=0) <= 2e-9 * (1 + made.relative_error)


def test_bytes_are_left_for_halves_where_they_are_too_rough():
    calm, sharp = (compact(CASES[name], 1e9) for name in ("many tokens", "many tokens, sharp"))
    assert (calm.q.dtype, calm.q_scale is None) == ("int8", False)
    assert (sharp.q.dtype, sharp.q_scale is None) == ("float16", True)


def test_weights_that_the_model_wrote_down_stay_its_own():
    one = drawn(300, 300)
    one.weights, one.reconstruction_error = torch.softmax(torch.randn(4, 300, 300), -1).tril(), 0.5
    made = compact(one, 1e9)
    assert made.q is None
    large = one.weights[2] > 2e-9
    assert np.abs(page_weights(made, 2, 4) / np.where(large, one.weights[2], 1) - 1)[large].max() <= ROUGH * 1.0001


def test_what_finds_no_room_is_not_there():
    assert compact(drawn(), 100) is None


class Drawn(nn.Module):
    """Attention over queries, keys and values drawn by chance, so that scores are as wide as 1."""

    def __init__(self, tokens, layers=2, heads=3, width=16):
        super().__init__()
        self.parts = torch.randn(layers, 3, 1, heads, tokens, width, generator=torch.Generator().manual_seed(0))

    def forward(self, _):
        for q, k, v in self.parts:
            out = scaled_dot_product_attention(q, k, v, is_causal=True)
        return out


def looked(tokens):
    line = TokenSequence(name="text", kind="words", labels=[f"w{i}" for i in range(tokens)])
    return HeadsPage(Drawn(tokens), (torch.zeros(1),), {}, [line], "drawn", "drawn")


def test_a_small_file_says_what_it_is():
    made = looked(40)
    content = made.file(compact=True)
    assert "weights alone, rounded, so weights may be off by 12 % of themselves" in content.notes[-1]
    assert all(not layer.thumbnail and layer.reconstruction_error < 1e-5 and not layer.reason for layer in content.layers)
    whole = made.file()
    assert [h.role for layer in content.layers for h in layer.heads] == [h.role for layer in whole.layers for h in layer.heads]
    assert len(pack(content)) < len(pack(whole)) / 5
    assert len(html(content, small=True)) < len(html(content)) - 40_000
    assert msgspec.json.decode(msgspec.json.encode(content), type=type(content)) == content


def test_of_many_tokens_queries_and_keys_are_kept_and_the_small_pictures():
    content = looked(200).file(compact=True)
    assert "it has queries and keys, rounded" in content.notes[-1]
    assert all(
        layer.thumbnail and layer.tensors.v is None and 1e-3 < layer.tensors.relative_error < ROUGH for layer in content.layers
    )


def test_what_is_too_large_even_so_says_so():
    page = looked(40)
    page.float16_bytes = 100
    content = page.file(compact=True)
    assert all(layer.tensors is None and "Even rounded" in layer.reason and layer.thumbnail for layer in content.layers)
