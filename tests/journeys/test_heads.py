"""The page of all heads in a real browser: its numbers are numpy's; by mouse, keyboard, touch; on a phone, in the dark, hostile."""

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    BloomConfig,
    BloomModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5Model,
    ViTConfig,
    ViTModel,
)  # fmt: skip

from equiscope.explore.page import html, write
from equiscope.explore.pages.heads import HeadsPage
from equiscope.explore.pages.run import POLICY
from equiscope.explore.server import server
from equiscope.record import AttentionTensors, TokenSequence, pack, unpack
from equiscope.record.token_sequence import patch_sequence
from tests.journeys.barriers import barriers
from tests.journeys.heads import HOSTILE, RECORDS, SENTENCE, attended, large, photo, words
from tests.pairwise import few

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
IDS = torch.tensor([[5, 9, 14, 3, 5, 31, 7, 2]])


def eager(kind, config, **asked):
    """A tiny model with random weights, opened by us, and its own weights as its eager code gives them."""
    torch.manual_seed(0)
    model = kind._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        theirs = model(**asked, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    return model, [one[0].double().numpy() for one in theirs]


def gpt2(page=HeadsPage):
    made = GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=32, bos_token_id=0, eos_token_id=0)
    model, theirs = eager(GPT2LMHeadModel, made, input_ids=IDS)
    line = TokenSequence(name="text", kind="words", labels=["the", *(f" {word}" for word in SENTENCE[1:8])])
    return page(model, (IDS,), {}, [line], "a tiny GPT-2", "gpt2"), theirs


def llama():
    model, theirs = eager(LlamaForCausalLM, LlamaConfig(**TINY, vocab_size=50, num_key_value_heads=2), input_ids=IDS)
    line = TokenSequence(name="text", kind="words", labels=SENTENCE[:8])
    return HeadsPage(model, (IDS,), {}, [line], "a tiny Llama", "llama"), theirs


def vit():
    pixels = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    model, theirs = eager(ViTModel, ViTConfig(image_size=32, patch_size=8, **TINY), pixel_values=pixels)
    return HeadsPage(model, (), {"pixel_values": pixels}, [patch_sequence([4, 4], 1, photo(32))], "a tiny ViT", "vit"), theirs


def bert():
    asked = {"input_ids": IDS, "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 1, 0, 0]])}
    model, theirs = eager(BertModel, BertConfig(**TINY, vocab_size=50), **asked)
    return HeadsPage(
        model, (), asked, [TokenSequence(name="text", kind="words", labels=SENTENCE[:8])], "a tiny BERT", "bert"
    ), theirs


def bloom():
    model, theirs = eager(BloomModel, BloomConfig(vocab_size=50, hidden_size=32, n_layer=2, n_head=4), input_ids=IDS)
    return HeadsPage(
        model, (IDS,), {}, [TokenSequence(name="text", kind="words", labels=SENTENCE[:8])], "a tiny BLOOM", "bloom"
    ), theirs


def t5():
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
    model = T5Model._from_config(T5Config(vocab_size=50, **sizes), attn_implementation="eager").eval()
    asked = {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]}
    with torch.no_grad():
        out = model(**asked, output_attentions=True)
    decoder = [one for pair in zip(out.decoder_attentions, out.cross_attentions, strict=True) for one in pair]
    theirs = [one[0].double().numpy() for one in (*out.encoder_attentions, *decoder)]
    lines = [TokenSequence(name=name, kind="words", labels=SENTENCE[:n]) for name, n in (("source", 8), ("answer", 5))]
    return HeadsPage(model, (), asked, lines, "a tiny T5", "t5"), theirs


def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x, theirs = torch.randn(1, 8, 16), []
    with torch.no_grad():
        state = x
        for one in model.layers:
            theirs.append(one.self_attn(state, state, state, average_attn_weights=False)[1][0].double().numpy())
            state = one(state)
    return HeadsPage(model, (x,), {}, [], "an encoder of torch", "encoder"), theirs


REAL = {"gpt2": gpt2, "bert": bert, "t5": t5, "llama": llama, "vit": vit, "bloom": bloom, "encoder": encoder}


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    """opened("words") -> the page's file and its record; for a real model its own weights too."""
    folder, made = tmp_path_factory.mktemp("heads"), {}

    def page(name):
        if name not in made:
            looked, theirs = REAL[name]() if name in REAL else (None, None)
            content = looked.file() if looked else RECORDS[name]()
            made[name] = write(content, folder / f"{name}.html"), content, theirs
        return made[name]

    return page


@pytest.fixture
def read(watched, opened):
    """Opens a page of heads."""

    def open_page(name="words", fragment="", wide=1280, dark=False, bypass_csp=False):
        tab = watched(wide, dark, bypass_csp=bypass_csp, has_touch=wide < 500)
        tab.goto(f"{opened(name)[0].as_uri()}#{fragment}")
        tab.wait_for_selector("main h2")
        return tab

    return open_page


def number(text):
    return float(text.replace("−", "-"))


def printed(tab):
    """The weight of the chosen cell, as a person reads it."""
    return number(tab.locator("[data-step='weight'] b").inner_text())


def computed(tab, layer, head, row):
    return tab.evaluate("([l, h, n]) => equiscope.heads.weights(l, h, n)", [layer, head, row])


def hash_of(tab):
    return tab.evaluate("location.hash.slice(1)")


def at(tab, layer, head):
    """The middle of a head's square in the overview."""
    box = tab.locator(".mosaic canvas").bounding_box()
    size = tab.evaluate("[equiscope.heads.record.layers[0].heads.length, equiscope.heads.record.layers.length]")
    step = (box["width"] - 34) / size[0]
    return box["x"] + 34 + (head + 0.45) * step, box["y"] + 18 + (layer + 0.45) * (box["height"] - 18) / size[1]


# --- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", few(["words", "translated", "picture", "sound"], 2))
def test_weights_are_those_of_the_definition(read, name):
    tab, content = read(name), RECORDS[name]()
    for i, layer in enumerate(content.layers):
        for h in range(len(layer.heads)):
            wanted = attended(layer.tensors, h, len(layer.heads))
            for row in (0, len(wanted) // 2, len(wanted) - 1):
                assert np.allclose(computed(tab, i, h, row), wanted[row], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("layer", "head", "row", "column"), few([(0, 0, 5, 4), (3, 4, 2, 10), (0, 3, 12, 7), (1, 2, 9, 3), (2, 5, 8, 8)], 1)
)
def test_the_number_on_the_page_is_numpys(read, layer, head, row, column):
    tab = read("words", f"head={layer}.{head}&query={row}&key={column}")
    wanted = attended(words().layers[layer].tensors, head, 6)[row, column]
    assert printed(tab) == pytest.approx(wanted, rel=1e-6)
    assert number(tab.locator(".seeing > .summary .value").inner_text()) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("name", few(REAL, 3))
def test_the_number_on_the_page_is_that_of_the_model(read, opened, name):
    tab, theirs = read(name), opened(name)[2]
    assert len(opened(name)[1].layers) == len(theirs)
    last = len(theirs) - 1
    for layer, head, row, column in [(0, 0, 5, 1), (1, 3, 7, 2), (1, 2, 4, 4), (last, 3, 3, 2), (last, 0, 1, 0)]:
        tab.evaluate("([l, h, n, m]) => equiscope.heads.set({ open: [l, h], row: n, column: m })", [layer, head, row, column])
        assert printed(tab) == pytest.approx(theirs[layer][head][row, column], rel=2e-5)
    assert "of the largest output" in tab.locator(".rebuilt").inner_text()
    assert "ran in float32, recomputed here in float64" in tab.locator(".where").inner_text()


def test_a_number_is_followed_down_to_its_operands(read):
    tab = read("words", "head=1.1&query=6&key=2")
    numbers = words().layers[1].tensors
    q, k = (np.asarray(unpack(a), dtype=float) for a in (numbers.q, numbers.k))
    assert tab.locator(".products tbody tr").count() == 7, "six products and the rest"
    tab.get_by_role("button", name="All 16").click()
    rows = tab.locator(".products tbody tr")
    assert rows.count() == 16
    for j, row in enumerate(rows.all()):
        fields = [float(one.input_value()) for one in row.locator("input").all()]
        assert np.allclose(fields, [q[1, 6, j], k[1, 2, j]], rtol=1e-6)
        assert number(row.locator(".product").inner_text()) == pytest.approx(q[1, 6, j] * k[1, 2, j], rel=1e-6)
    steps = {s.get_attribute("data-step"): number(s.locator("b").inner_text()) for s in tab.locator(".rung").all()}
    assert steps["sum"] == pytest.approx(q[1, 6] @ k[1, 2], rel=1e-6)
    assert steps["scaled"] == pytest.approx(steps["sum"] * 0.25, rel=1e-6)
    assert steps["bias"] == pytest.approx(steps["scaled"] - 4 * 2**-2, rel=1e-6)
    assert steps["weight"] == pytest.approx(steps["power"] / steps["total"], rel=1e-6)
    tab.locator(".contribution summary").click()
    tab.locator(".contribution tbody tr").first.wait_for()
    v = np.asarray(unpack(numbers.v), dtype=float)[1, 2]
    feature, value, brought, _ = (
        number(c.inner_text()) for c in tab.locator(".contribution tbody tr").first.locator("th, td").all()
    )
    assert value == pytest.approx(v[int(feature)], rel=1e-6)
    assert brought == pytest.approx(steps["weight"] * value, rel=1e-5)


def test_who_may_not_be_seen_says_why(read):
    tab = read("words", "head=0.0&query=2&key=8")
    assert "Masked: causal mask" in tab.locator(".number").inner_text()
    assert "cannot attend to “lawn” 9" not in tab.locator(".seeing > .summary").inner_text()
    assert printed(tab) == 0
    assert "the model's mask" in read("words", "head=3.0&query=2&key=11").locator(".number .notice").inner_text()


def test_kept_weights_are_shown_with_the_reason(read):
    tab = read("words", "head=4.1")
    assert "These are the weights as the model had them." in tab.locator(".counted").inner_text()
    assert tab.locator(".products").count() == 0


# --- overview ----------------------------------------------------------------------------------------------------------


def test_the_overview_comes_first_and_a_click_opens_a_head(read):
    tab = read()
    assert not tab.locator(".detail").is_visible()
    tab.mouse.move(*at(tab, 1, 3))
    assert tab.locator(".mosaic .summary").inner_text().startswith("L1H3 uniform previous")
    tab.mouse.click(*at(tab, 1, 3))
    assert tab.locator(".detail h2").inner_text() == "L1H3"
    assert hash_of(tab) == "head=1.3"
    tab.get_by_role("button", name="Next head").click()
    assert tab.locator(".detail h2").inner_text() == "L1H4"
    assert tab.get_by_role("button", name="Next head").evaluate("b => b === document.activeElement")
    tab.get_by_role("button", name="Close").click()
    assert not tab.locator(".detail").is_visible()


def test_the_keyboard_walks_the_overview_and_is_heard(read):
    tab = read()
    field = tab.locator(".mosaic .field")
    field.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "End", "ArrowLeft"):
        tab.keyboard.press(key)
    live = tab.locator(".mosaic .summary")
    assert live.get_attribute("aria-live") == "polite"
    assert re.match(r"L1H4 mixed previous 0\.\d\d, same 0\.\d\d", live.inner_text())
    tab.keyboard.press("Enter")
    assert tab.evaluate("equiscope.heads.state.open") == [1, 4]


def test_roles_are_lit_and_the_table_follows(read):
    tab = read()
    before = tab.locator(".mosaic canvas").evaluate("c => c.toDataURL()")
    tab.locator(".legend").get_by_role("button", name="previous token").click()
    assert tab.locator(".mosaic canvas").evaluate("c => c.toDataURL()") != before
    assert set(tab.locator(".statistics tbody .role").all_inner_texts()) == {"previous token"}
    assert hash_of(tab) == "roles=previous"


def test_figures_are_sorted_and_open_their_head(read):
    tab = read()
    table = tab.locator(".statistics table")
    table.get_by_role("button", name="previous").first.click()
    column = [number(t) for t in table.locator("tbody tr td:nth-child(3)").all_inner_texts()]
    assert column == sorted(column, reverse=True)
    assert "Mean weight on the token before the query" in tab.locator(".meaning").inner_text()
    first = table.locator("tbody tr").first
    assert first.locator(".role").inner_text() == "previous token"
    first.get_by_role("button").click()
    assert tab.evaluate("equiscope.heads.state.open.length") == 2
    assert table.locator("tr[data-open='true']").count() == 1


def test_layers_of_two_lines_stand_under_headings(read):
    tab = read("translated")
    wanted = ["source self-attention", "answer self-attention", "answer → source cross-attention"]
    assert tab.locator(".mosaic h3").all_inner_texts() == wanted
    tab.evaluate("equiscope.heads.open(2, 0)")
    assert tab.locator(".detail h2").inner_text() == "Answer → source cross-attention L0H0"
    tab.locator(".lines [role=option]", has_text="▁dog").click()
    row = attended(RECORDS["translated"]().layers[2].tensors, 0, 4)[2]
    assert tab.evaluate("equiscope.heads.state.row") == 2
    assert printed(tab) == pytest.approx(row.max(), rel=1e-6)
    tab.locator(".lines [role=option]", has_text="▁Rasen").click()
    assert printed(tab) == pytest.approx(row[5], rel=1e-6)


# --- one head ----------------------------------------------------------------------------------------------------------


def test_pointing_at_a_word_tints_what_it_looks_at(read):
    tab = read("words", "head=0.0")
    token = tab.locator(".text .token").nth(7)
    token.hover()
    assert "“across” 7 attends to “walked” 6" in tab.locator(".seeing > .summary").inner_text()
    tints = [int(t.evaluate("t => t.style.getPropertyValue('--tint') || 0")) for t in tab.locator(".text .token").all()]
    wanted = np.sqrt(attended(words().layers[0].tensors, 0, 6)[7])
    assert np.allclose(tints, 60 * wanted / wanted.max(), atol=1)
    tab.mouse.move(5, 5)
    assert "“ball” 12 attends to" in tab.locator(".seeing > .summary").inner_text(), "what is chosen stays"
    token.click()
    assert hash_of(tab) == "head=0.0&query=7"


def test_the_other_way_round_columns_are_shown(read):
    tab = read("words", "head=0.3&query=4")
    tab.get_by_role("button", name="attended by").click()
    column = attended(words().layers[0].tensors, 3, 6)[:, 4]
    assert tab.evaluate("equiscope.heads.state.column") == 4
    assert printed(tab) == pytest.approx(column.max(), rel=1e-6)
    listed = [number(t) for t in tab.locator(".most b").all_inner_texts()]
    assert listed == pytest.approx(sorted(column, reverse=True)[:7], abs=6e-5)


def test_the_map_is_read_by_mouse_and_keys(read):
    tab = read("words", "head=1.1&query=0&key=0")
    tab.locator(".map figcaption", has_text="Rows are queries").wait_for()
    tab.locator(".map .field").focus()
    for key in ("PageDown", "ArrowUp", "ArrowRight", "ArrowRight"):
        tab.keyboard.press(key)
    assert tab.evaluate("[equiscope.heads.state.row, equiscope.heads.state.column]") == [11, 2]
    weights = attended(words().layers[1].tensors, 1, 6)
    assert printed(tab) == pytest.approx(weights[11, 2], rel=1e-6)
    across, down = (tab.locator(f".map .{kind}").bounding_box() for kind in ("across", "down"))
    tab.mouse.click(down["x"] + down["width"] / 2, across["y"] - across["height"] / 2)
    assert tab.evaluate("[equiscope.heads.state.row, equiscope.heads.state.column]") == [10, 2]


def test_the_map_is_as_strong_as_the_weights(read):
    tab = read("words", "head=1.1")
    tab.locator(".map figcaption", has_text="Rows are queries").wait_for()
    weights = attended(words().layers[1].tensors, 1, 6)
    seen = tab.evaluate(
        """() => { const c = document.querySelector('.map canvas'), x = c.getContext('2d'),
        down = document.querySelector('.map .down'),
        across = document.querySelector('.map .across'), wide = down.offsetWidth, high = across.offsetHeight;
        const [left, top] = [across.offsetLeft, down.offsetTop], fine = c.width / c.offsetWidth;
        return [[5, 0], [5, 3], [9, 8], [2, 7]].map(([n, m]) =>
          [...x.getImageData((left + (m + .5) * wide) * fine, (top + (n + .5) * high) * fine, 1, 1).data]); }"""
    )
    paper, role = np.array([0xF1, 0xEF, 0xE8]), np.array([0xB8, 0x43, 0x0C])
    for (n, m), colour in zip([(5, 0), (5, 3), (9, 8), (2, 7)], seen, strict=True):
        share = np.sqrt(weights[n, m] / weights.max())
        assert np.allclose(colour[:3], paper + share * (role - paper), atol=4)


def test_a_patch_is_chosen_on_the_picture(read):
    tab = read("picture", "head=0.0")
    assert tab.locator(".photo img").evaluate("i => i.complete && i.naturalWidth") == 56
    assert "“class token” 0 attends to" in tab.locator(".seeing > .summary").inner_text()
    box = tab.locator(".photo").bounding_box()
    tab.mouse.click(box["x"] + box["width"] * 3.5 / 7, box["y"] + box["height"] * 2.5 / 7)
    assert tab.evaluate("equiscope.heads.state.row") == 1 + 2 * 7 + 3
    row = attended(RECORDS["picture"]().layers[0].tensors, 0, 4)[18]
    assert printed(tab) == pytest.approx(row.max(), rel=1e-6)
    tab.locator(".photo").focus()
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate("equiscope.heads.state.row") == 25
    tab.get_by_role("button", name="class token").first.click()
    assert tab.evaluate("equiscope.heads.state.row") == 0


def test_slices_stand_along_time(read):
    tab = read("sound", "head=0.0")
    tab.locator(".time").focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("equiscope.heads.state.row") == 1
    box = tab.locator(".time canvas").bounding_box()
    tab.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + 20)
    assert abs(tab.evaluate("equiscope.heads.state.row") - 60) <= 1


# --- changes -----------------------------------------------------------------------------------------------------------


def changed(numbers, head, causal=True, hidden=(), temperature=1.0, bias=True):
    """What a change makes of the weights, by numpy."""
    wanted = msgspec.structs.replace(numbers, causal=causal, scale=numbers.scale / temperature, bias=numbers.bias if bias else None)
    n = numbers.q.shape[1]
    mask = np.ones((1, 1, n), dtype=bool)
    mask[..., list(hidden)] = False
    return attended(AttentionTensors(**{f: getattr(wanted, f) for f in wanted.__struct_fields__} | {"mask": pack(mask)}), head, 6)


def test_the_causal_mask_is_lifted_and_comes_back(read):
    tab = read("words", "head=0.3&query=3&key=8")
    numbers = words().layers[0].tensors
    assert printed(tab) == 0
    tab.get_by_label("causal mask").uncheck()
    assert printed(tab) == pytest.approx(changed(numbers, 3, causal=False)[3, 8], rel=1e-6)
    assert "causal mask off" in tab.locator(".changed").inner_text()
    assert "Statistics and thumbnails are those of the original" in tab.locator(".changed").inner_text()
    assert "causal=off" in hash_of(tab)
    tab.get_by_role("button", name="Reset").click()
    assert printed(tab) == 0
    assert tab.locator(".changed").is_hidden()


def test_a_hidden_token_leaves_its_weight_to_the_others(read):
    tab = read("words", "head=0.3&query=12&key=2")
    numbers = words().layers[0].tensors
    before = attended(numbers, 3, 6)[12]
    tab.get_by_role("button", name="Mask “dog” 2").click()
    row = computed(tab, 0, 3, 12)
    assert row[2] == 0
    assert sum(row) == pytest.approx(1)
    assert np.allclose(row, changed(numbers, 3, hidden=[2])[12], rtol=1e-6)
    assert "Masked: masked by you" in tab.locator(".number").inner_text()
    share = number(re.search(r"([\d.]+) % of the weight", tab.locator(".changed").inner_text())[1])
    assert share == pytest.approx(100 * before[2], rel=5e-3)
    assert tab.locator(".text .token").nth(2).get_attribute("data-mark") == "other out closed"
    tab.get_by_role("button", name="Unmask “dog” 2").click()
    assert printed(tab) == pytest.approx(before[2], rel=1e-6)


def test_bias_and_temperature_change_the_weights(read):
    tab = read("words", "head=1.0&query=12&key=11")
    numbers = words().layers[1].tensors
    tab.get_by_label("bias").uncheck()
    assert printed(tab) == pytest.approx(changed(numbers, 0, bias=False)[12, 11], rel=1e-6)
    tab.get_by_label("temperature").focus()
    for _ in range(6):
        tab.keyboard.press("ArrowRight")
    assert tab.evaluate("equiscope.heads.state.temperature") == 2
    assert tab.get_by_label("temperature").evaluate("s => s === document.activeElement")
    assert printed(tab) == pytest.approx(changed(numbers, 0, bias=False, temperature=2)[12, 11], rel=1e-6)
    tab.get_by_role("button", name="difference").click()
    tab.locator(".map figcaption", has_text="Blue: more weight").wait_for()


def test_one_number_is_written_over_and_taken_back(read):
    tab = read("words", "head=0.3&query=8&key=1")
    numbers = words().layers[0].tensors
    before = printed(tab)
    tab.get_by_role("button", name="All 16").click()
    field = tab.get_by_label("k of feature 4")
    field.fill("3")
    field.press("Enter")
    q, k = (np.asarray(unpack(a), dtype=float)[3] for a in (numbers.q, numbers.k))
    k[1, 4] = 3
    powers = np.exp(0.25 * q[8] @ k[:9].T)
    assert printed(tab) == pytest.approx(powers[1] / powers.sum(), rel=1e-6)
    assert f"was {before:.7g}"[:8] in tab.locator(".was").inner_text()
    assert tab.get_by_label("k of feature 4").get_attribute("data-changed") == "true"
    assert "k=0.3.1.4_3" in hash_of(tab)
    tab.get_by_label("k of feature 4").fill("")
    tab.get_by_label("k of feature 4").press("Enter")
    assert printed(tab) == before


# --- the link ----------------------------------------------------------------------------------------------------------


def test_the_link_brings_everything_back(read):
    cell = "head=1.2&query=8&key=3&by=key&show=change"
    hash = f"{cell}&roles=content.even&causal=off&bias=off&temperature=2&hide=0_1.4&q=1.2.8.0_1.5"
    tab = read("words", hash)
    assert hash_of(tab) == hash
    assert tab.evaluate("equiscope.heads.state.hidden") == {"0": [1, 4]}
    assert printed(tab) > 0
    tab.evaluate("equiscope.heads.set({ digits: 0 })")
    assert hash_of(tab) == hash, "written as it was read"


def test_back_and_forward_work(read):
    tab = read()
    tab.evaluate("equiscope.heads.open(0, 0)")
    tab.evaluate("equiscope.heads.open(1, 1)")
    tab.get_by_label("causal mask").uncheck()
    tab.go_back()
    assert tab.get_by_label("causal mask").is_checked()
    tab.go_back()
    assert tab.locator(".detail h2").inner_text() == "L0H0"
    tab.go_back()
    assert not tab.locator(".detail").is_visible()
    tab.go_forward()
    assert tab.locator(".detail h2").inner_text() == "L0H0"


def test_a_link_that_makes_no_sense_is_read_as_far_as_it_does(read):
    tab = read("words", "nonsense")
    for hash in ("nonsense", "head=99.0", "head=0.0&query=999&key=999", "head=0.0&hide=0_499&k=0.0.899.899_1"):
        tab.evaluate("hash => { location.hash = hash }", hash)
        tab.wait_for_timeout(100)
        assert tab.locator(".mosaic canvas").is_visible()
        assert re.findall(r"NaN|undefined|\[object", tab.locator("body").inner_text()) == []


# --- other hands, other eyes -------------------------------------------------------------------------------------------


def test_touch_opens_a_head_and_picks_a_cell(read):
    tab = read("words", wide=390)
    tab.touchscreen.tap(*at(tab, 0, 3))
    assert tab.locator(".detail h2").inner_text() == "L0H3"
    assert tab.locator(".detail").bounding_box()["y"] < 500, "it is rolled to"
    token = tab.locator(".text .token").nth(4)
    token.scroll_into_view_if_needed()
    token.tap()
    assert tab.evaluate("equiscope.heads.state.row") == 4
    tab.locator(".map figcaption", has_text="Rows are queries").wait_for()
    tab.locator(".map .field").scroll_into_view_if_needed()
    box = tab.locator(".map .down").bounding_box()
    row = tab.locator(".map .across").bounding_box()
    tab.touchscreen.tap(box["x"] + box["width"] / 2, row["y"] + row["height"] * 1.5)
    assert tab.evaluate("equiscope.heads.state.row") == 5


@pytest.mark.parametrize("name", few(["hostile", "picture", "translated", "sound", "words", "gpt2", "vit"], 2))
def test_nothing_is_wider_than_the_window(read, name):
    tab = read(name, "head=0.0&causal=off")
    tab.locator(".contribution summary").click()
    for wide in (1280, 768, 390, 360):
        tab.set_viewport_size({"width": wide, "height": 900})
        assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    assert re.findall(r"NaN|undefined|\[object|\bnull\b|Infinity", tab.locator("body").inner_text()) == []


def test_the_dark_has_its_own_colours(read):
    light, dark = (read("words", "head=0.0", dark=dark) for dark in (False, True))
    pictures = [tab.locator(".mosaic canvas").evaluate("c => c.toDataURL()") for tab in (light, dark)]
    assert pictures[0] != pictures[1]
    light.emulate_media(color_scheme="dark")
    light.wait_for_timeout(100)
    assert light.locator(".mosaic canvas").evaluate("c => c.toDataURL()") == pictures[1]


@pytest.mark.parametrize("tokens", few([4096, 1024], 1))
def test_many_tokens_stay_light(watched, tmp_path, tokens):
    path = write(large(tokens, width=2), tmp_path / "large.html")
    tab = watched(1280)
    tab.goto(f"{path.as_uri()}#head=2.3")
    tab.locator(".map figcaption", has_text="Rows are queries").wait_for(timeout=60_000)
    assert tab.evaluate("document.querySelectorAll('*').length") < 2000
    tab.locator(".text .token").nth(5).click()
    row = tab.evaluate("equiscope.heads.state.row")
    numbers = large(tokens, width=2).layers[2].tensors
    q, k = (np.asarray(unpack(a), dtype=float)[3] for a in (numbers.q, numbers.k))
    powers = np.exp(0.125 * q[row] @ k[: row + 1].T)
    assert np.allclose(computed(tab, 2, 3, row)[: row + 1], powers / powers.sum(), rtol=1e-6)


def test_a_hostile_record_is_text_and_nothing_else(read):
    tab = read("hostile", "head=0.0")
    tab.wait_for_timeout(100)
    assert tab.evaluate("window.stolen") is None
    assert tab.locator("h1").inner_text() == f"Attention heads of {HOSTILE[0]}"
    assert tab.locator("#app script, #app img").count() == 0
    shown = tab.locator(".text .token").all_inner_texts()
    assert {"⟨202E⟩right", "zero⟨200B⟩width", "◌\u0301", "∅", "↵"} <= {text.strip() for text in shown}
    assert "👩\u200d👩\u200d👧" in shown


def test_pictures_are_saved(read):
    tab = read("words", "head=0.1")
    for kind, begins in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with tab.expect_download() as waiting:
            tab.get_by_role("button", name=f"Save the overview as {kind}").click()
        assert waiting.value.path().read_bytes().startswith(begins)
        with tab.expect_download() as waiting:
            tab.get_by_role("button", name=f"Save the map as {kind}").click()
        assert waiting.value.suggested_filename == f"equiscope-L0H1.{kind.lower()}"
        assert waiting.value.path().read_bytes().startswith(begins)


def test_words_that_run_to_the_left_do(watched, tmp_path):
    labels = ["הכלב", " הזקן", " של", " the", " שכן", "."]
    numbers = AttentionTensors(
        scale=0.5, causal=True, **{name: pack(np.eye(6, dtype=np.float32)[None]) for name in ("q", "k", "v")}
    )
    first = words().layers[0]
    layer = msgspec.structs.replace(first, heads=first.heads[:1], tensors=numbers, kv_heads=1)
    content = msgspec.structs.replace(words(), layers=[layer], sequences=[TokenSequence(name="text", kind="words", labels=labels)])
    tab = watched(800)
    tab.goto(write(content, tmp_path / "left.html").as_uri() + "#head=0.0")
    first, second, english = (tab.locator(".text .token").nth(i).bounding_box()["x"] for i in (0, 1, 3))
    assert first > second > english
    tab.locator(".text").focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate("equiscope.heads.state.row") == 1, "left leads on"


def test_a_learned_table_is_read(read):
    tab = read()
    tab.locator(".learned .field").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    table = words().position_tables[0]
    assert tab.locator(".learned output").inner_text().startswith("position 2 with position 1: ")
    told = number(tab.locator(".learned output").inner_text().split(": ")[1])
    assert told == pytest.approx(unpack(table.cosines)[2, 1], rel=1e-6)
    assert "explains 93 % of the variance of the cosines" in tab.locator(".learned").inner_text()


@pytest.mark.parametrize(
    ("name", "wide", "dark"),
    few(
        [
            ("words", 390, True),
            ("picture", 1280, False),
            ("words", 1280, False),
            ("translated", 390, False),
            ("hostile", 1280, False),
        ],
        2,
    ),
)
def test_the_page_has_no_barriers(read, name, wide, dark):
    tab = read(name, "head=0.0&causal=on", dark=dark, wide=wide, bypass_csp=True)
    for summary in tab.locator("summary").all():
        summary.click()
    assert barriers(tab) == []


# --- small files -------------------------------------------------------------------------------------------------------


class Drawn(nn.Module):
    """Attention over queries, keys and values drawn by chance."""

    def __init__(self, tokens):
        super().__init__()
        self.layers = torch.randn(2, 3, 1, 4, tokens, 16, generator=torch.Generator().manual_seed(0))

    def forward(self, _):
        for q, k, v in self.layers:
            out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """small(tokens) -> a small file, and the model's own weights [layer][head, N, M]."""
    folder = tmp_path_factory.mktemp("small")

    def page(tokens):
        line = TokenSequence(name="text", kind="words", labels=[f" {SENTENCE[i % 13]}" for i in range(tokens)])
        looked = HeadsPage(Drawn(tokens), (torch.zeros(1),), {}, [line], "drawn by chance", "drawn")
        theirs = [torch.stack([one.recomputed_weights(h) for h in range(4)]).numpy() for one in looked.attentions]
        path = folder / f"{tokens}.html"
        return (path if path.exists() else write(looked.file(compact=True), path, small=True)), theirs

    return page


@pytest.mark.parametrize(("tokens", "kept"), [(40, "keeps the weights only"), (200, "q and k are quantized to 255 steps a row")])
def test_numbers_of_a_small_file_are_within_what_it_says(watched, small, tokens, kept):
    path, theirs = small(tokens)
    tab = watched(1280)
    tab.goto(path.as_uri())
    tab.wait_for_selector("main h2")
    for layer, head, row, column in [(0, 0, 30, 4), (1, 3, 39, 39), (1, 2, 21, 0)]:
        tab.evaluate("([l, h, n, m]) => equiscope.heads.set({ open: [l, h], row: n, column: m })", [layer, head, row, column])
        said = float(re.search(r"relative error up to ([\d.]+) %", tab.locator(".where").inner_text())[1]) / 100
        assert 0 < said <= 0.13
        wanted = theirs[layer][head][row]
        for text in (tab.locator("[data-step='weight'] b").inner_text(), tab.locator(".seeing > .summary .value").inner_text()):
            assert text.startswith("≈ ")
            assert number(text[2:]) == pytest.approx(wanted[column], rel=said)
        listed = tab.locator(".most b").all_inner_texts()
        assert all(text.startswith("≈ ") for text in listed)
        assert number(listed[0][2:]) == pytest.approx(wanted.max(), rel=said)
        assert np.allclose(computed(tab, layer, head, row), wanted, rtol=said, atol=2e-9)
        assert kept in tab.locator(".left-out").inner_text()
        assert "check against the model before rounding: max |A V − output| =" in tab.locator(".rebuilt").inner_text()
    assert tab.locator(".contribution").count() == 0
    assert tab.locator(".products").count() == (tokens == 200)
    assert "this is a compact file" in tab.locator("footer").inner_text()


def test_a_small_file_draws_its_own_overview(watched, small):
    path, _ = small(40)
    tab = watched(1280)
    tab.goto(path.as_uri())
    tab.wait_for_selector("main h2")
    assert tab.evaluate("equiscope.heads.record.layers.every((layer) => layer.thumbnail === '')")
    x, y = at(tab, 1, 2)
    tab.mouse.move(5, 5)
    seen = tab.locator(".mosaic canvas").evaluate(
        "(c, at) => { const b = c.getBoundingClientRect(), f = c.width / b.width;"
        "return [[-30, 30], [30, -30]].map(([dx, dy]) => [...c.getContext('2d')"
        ".getImageData((at[0] + dx - b.left) * f, (at[1] + dy - b.top) * f, 1, 1).data]); }",
        [x, y],
    )
    assert seen[0] != seen[1], "below the diagonal there are weights, above it none"
    assert seen[1][:3] == [0xF1, 0xEF, 0xE8]


def test_changes_of_a_small_file_follow_from_what_it_has(watched, small):
    path, theirs = small(40)
    tab = watched(1280)
    tab.goto(f"{path.as_uri()}#head=0.1&query=30&key=4&hide=0_0")
    tab.wait_for_selector("main h2")
    wanted = theirs[0][1][30].copy()
    wanted[0] = 0
    assert np.allclose(computed(tab, 0, 1, 30), wanted / wanted.sum(), rtol=0.26, atol=2e-9), "its own bound, and the sum's"
    assert tab.get_by_label("causal mask").count() == 0, "what was hidden is not in the file"


def test_a_small_file_that_cannot_be_unpacked_says_so(watched, small, tmp_path):
    text = small(40)[0].read_text(encoding="utf-8")
    begin = text.index('id="bundle">') + 12
    broken = tmp_path / "broken.html"
    broken.write_text(text[: begin + 400] + "AAAA" + text[begin + 404 :], encoding="utf-8")
    tab = watched(1280)
    tab.goto(broken.as_uri())
    tab.locator("#app", has_text="This page could not be unpacked").wait_for()


# --- served ------------------------------------------------------------------------------------------------------------


def test_a_served_page_asks_for_one_head_at_a_time(browser):
    looked, theirs = llama()
    asked, troubles = [], []

    def answer(question):
        asked.append((question["layer"], question["head"]))
        return looked.answer_head(question)

    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab = context.new_page()
    tab.on("pageerror", lambda error: troubles.append(str(error)))
    with server(html(looked.content, policy=POLICY), 18995, {"/head": answer}) as made:
        tab.goto(f"{made.url}#head=1.3&query=5&key=1")
        tab.locator("[data-step='weight'] b").wait_for()
        assert printed(tab) == pytest.approx(theirs[1][3][5, 1], rel=2e-5)
        tab.get_by_role("button", name="Previous head").click()
        tab.locator(".detail h2", has_text="L1H2").wait_for()
        tab.locator("[data-step='weight'] b").wait_for()
        tab.get_by_role("button", name="Next head").click()
        assert asked == [("1", "3"), ("1", "2")], "what was heard is kept"
    tab.evaluate("equiscope.heads.open(0, 0)")
    tab.locator(".detail > .notice", has_text="check whether the command still runs, then try again").wait_for()
    context.close()
    assert troubles == []
