"""The formulas of the page of cost: what torch's counter counts, what a description says, what is held in memory."""

import json
from functools import partial
from html import escape

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.test_cli import equi, refused
from tests.explore.costs import HOSTILE, PAGES, RECORDED
from torch.utils.flop_counter import FlopCounterMode

import equiscope as eq
from equiscope.attention import Causal, MultiHeadAttention, eager_attention, scaled_dot
from equiscope.blocks import FeedForwardNetwork as Inner
from equiscope.explore.pages.cost import KNOWN, STORES, WORK, cost, plain, preset
from equiscope.models import PRESETS, Attention, Block, FeedForward, Spec
from equiscope.positions import NoPosition
from equiscope.record.cost import amount
from equiscope.study import cost as study
from equiscope.study import speed
from equiscope.tokens import Tokens

__all__ = ["equi"]  # the fixture
PARTS = {work.name: work for work in WORK}


def counted(call):
    """Multiply-adds of one call, as torch counts them."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops() // 2


def total(column, sizes, has):
    """Of a whole model."""
    found = [w for w in WORK if w.counted or column == "parameters"]
    return sum(amount(getattr(w, column), sizes, has) * (sizes["L"] if w.per_layer else 1) for w in found)


@st.composite
def blocks(draw):
    """Sizes of a layer: tokens, width, heads, heads of keys, inner width, sequences."""
    groups, repeat, k = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 8))
    heads = groups * repeat
    return {
        "N": draw(st.integers(1, 40)), "D": heads * k, "H": heads, "G": groups, "F": draw(st.integers(1, 90)),
        "B": draw(st.integers(1, 3)),
    }  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(blocks(), st.booleans())
def test_each_part_is_what_torch_counts_while_it_runs_step_by_step(sizes, gated):
    n, d, batch, has = sizes["N"], sizes["D"], sizes["B"], ["gate"] if gated else []
    attention = MultiHeadAttention(d, sizes["H"], kv_heads=sizes["G"], backend="eager")
    forward, tokens = Inner(d, sizes["F"], gated=gated), Tokens.of(torch.randn(batch, n, d))
    q, k, v = attention.project(tokens, tokens, NoPosition())
    k, v = (t.repeat_interleave(sizes["H"] // sizes["G"], -3) for t in (k, v))
    products, both = counted(lambda: scaled_dot(q, k)), counted(lambda: eager_attention(q, k, v))
    whole = counted(lambda: attention(tokens))
    wanted = {
        "projections": whole - both, "QKᵀ": products, "AV": both - products, "feed-forward": counted(lambda: forward(tokens.x)),
    }  # fmt: skip
    assert {name: amount(PARTS[name].full_pass, sizes, has) for name in wanted} == wanted


@settings(max_examples=40, deadline=None)
@given(blocks())
def test_a_token_more_costs_what_torch_counts_with_a_cache(sizes):
    n, d, batch = sizes["N"], sizes["D"], sizes["B"]
    attention = MultiHeadAttention(d, sizes["H"], kv_heads=sizes["G"], mask=Causal(), backend="eager")
    cache, tokens = attention.cache(), Tokens.of(torch.randn(batch, n, d))
    if n > 1:
        attention(_rows(tokens, 0, n - 1), cache=cache)
    step = counted(lambda: attention(_rows(tokens, n - 1, n), cache=cache))
    assert sum(amount(PARTS[name].decoding_step, sizes, []) for name in ("projections", "QKᵀ", "AV")) == step
    assert cache.rows["k"].numel() + cache.rows["v"].numel() == amount(STORES[0].numbers, {**sizes, "L": 1}, [])


def _rows(tokens, start, stop):
    return Tokens(
        x=tokens.x[..., start:stop, :], positions=tokens.positions[..., start:stop, :], order=tokens.order[..., start:stop]
    )


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_model_has_the_multiply_adds_and_parameters_that_its_description_has(name):
    one = next(p for p in cost().presets if p.name == name)
    for tokens in (one.sizes["N"], 1 + one.sizes["E"], 3000):
        sizes = one.sizes | {"N": tokens}
        said = eq.describe(PRESETS[name](), tokens - sizes["E"])
        assert total("full_pass", sizes, one.features) == said.multiply_adds
        assert total("parameters", sizes, one.features) == said.parameters


@pytest.mark.parametrize(("heads", "groups", "gated"), [(4, 4, False), (6, 2, True), (4, 1, True)])
def test_a_model_of_other_sizes_costs_what_torch_counts(heads, groups, gated):
    attention = Attention(heads=heads, kv_heads=groups, causal=True, backend="eager")
    block = Block(attention, feedforward=FeedForward(50, "silu", bias=False, gated=gated))
    spec = Spec(12 * heads, 37, layers=3, block=block, outputs=37, tied=True)
    one, model = preset("own", "own", spec, 11), eq.build(spec)
    sizes = one.sizes | {"B": 2}
    assert total("full_pass", sizes, one.features) == counted(lambda: model(torch.randint(37, (2, 11))))
    assert total("parameters", sizes, one.features) == sum(p.numel() for p in model.parameters())


def test_the_study_of_cost_has_the_same_formulas():
    for n, d in ((1, 8), (64, 16), (1000, 768)):
        sizes = {"B": 1, "N": n, "D": d, "H": 4, "G": 4, "F": 4 * d}
        assert {name: amount(PARTS[name].full_pass, sizes, []) for name in study.FORMULAS} == {
            name: formula(n, d) for name, (_, formula) in study.FORMULAS.items()
        }


@pytest.mark.parametrize("d", [4, 64, 768])
def test_attention_overtakes_at_twice_the_width_and_its_products_alone_at_four_times(d):
    def parts(n):
        sizes = {"B": 1, "N": n, "D": d, "H": 4, "G": 4, "F": 4 * d}
        return {name: amount(work.full_pass, sizes, []) for name, work in PARTS.items() if work.per_layer and work.counted}

    at, alone = parts(2 * d), parts(4 * d)
    assert at["projections"] + at["QKᵀ"] + at["AV"] == at["feed-forward"]
    assert alone["QKᵀ"] + alone["AV"] == alone["feed-forward"]


@pytest.mark.parametrize(("batch", "heads", "n"), [(1, 4, 9), (3, 2, 40)])
def test_a_table_of_weights_grows_with_pairs_and_a_fused_kernel_keeps_a_sum_a_row(batch, heads, n):
    sizes = {"B": batch, "N": n, "D": 8 * heads, "H": heads, "L": 1}
    stores = {store.name: store for store in STORES}
    x = torch.randn(batch, n, 8 * heads)
    _, weights = MultiHeadAttention(8 * heads, heads).attend(Tokens.of(x))
    assert weights.numel() == amount(stores["attention matrix, one layer"].numbers, sizes, [])
    q = torch.randn(batch, heads, n, 8)
    _, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)
    fused = stores["fused kernel, one layer"]
    assert (sums.numel(), sums.element_size()) == (amount(fused.numbers, sizes, []), fused.bytes)


def test_softmax_takes_an_exponential_for_every_pair_and_head_and_torch_counts_none():
    sizes = {"B": 2, "N": 7, "D": 12, "H": 3}
    scores = torch.randn(2, 3, 7, 7)
    assert counted(lambda: scores.softmax(-1)) == 0
    assert amount(PARTS["softmax"].full_pass, sizes, []) == scores.numel()


def test_what_torch_does_not_count_is_said():
    q, said = torch.randn(1, 2, 5, 4), " ".join(cost().notes)
    assert counted(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)) == 0
    assert "0 for torch's fused kernel on a CPU" in said
    assert "Every pair of tokens is counted, masked or not" in said


def test_without_javascript_there_are_tables_whose_texts_are_escaped():
    text = plain(PAGES["hostile"]())
    assert "<td>2BND² + 2BNDGK</td>" in text
    assert "<td>BNPD (patches) − BEPD (patches)</td>" in text
    assert f"<td>{eq.describe(PRESETS['gpt2'](), 1024).multiply_adds:,}</td><td>124,439,808</td>" in text
    assert HOSTILE not in text
    assert escape(HOSTILE) in text
    assert text.count("<tr>") == 4 + len(WORK) + len(STORES) + len(KNOWN) + len(RECORDED)
    assert "Milliseconds" not in plain(cost())


def test_a_slider_begins_at_sizes_that_can_be_chosen():
    page = cost()
    for one in page.presets:
        for size in page.sizes:
            assert size.low <= one.sizes[size.letter] <= size.high
        assert one.sizes["D"] % one.sizes["H"] == one.sizes["H"] % one.sizes["G"] == 0


def test_the_command_measures_and_gives_the_record(equi, monkeypatch):
    monkeypatch.setattr(speed, "speeds", partial(speed.speeds, quick=True))
    code, out, err = equi("explore", "--page", "cost", "--json")
    page = json.loads(out)
    assert (code, err, page["title"]) == (0, "", "cost")
    assert {one["part"] for one in page["speeds"]["timings"]} == {"attention", "step by step", "feed-forward"}
    assert page["speeds"]["threads"] == 1


def test_what_the_page_does_not_take_is_refused(equi):
    refused(equi("explore", "a sentence", "--page", "cost"), "--page cost takes nothing else, found sentence. Leave that out.")
