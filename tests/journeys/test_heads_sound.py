"""A sound on the page of all heads: its wave above the slices, played whole and slice by slice, with no request."""

from base64 import b64decode

import msgspec
import numpy as np
import pytest
import torch

from equiscope.explore.heads.model_inputs import sound_clip
from equiscope.explore.page import write
from tests.journeys.heads import sound
from tests.pairwise import few

pytestmark = pytest.mark.browser
RATE, HOP, LASTS = 8000, 0.01, 0.025
PLAYED = """
window.played = [];
const start = AudioBufferSourceNode.prototype.start;
AudioBufferSourceNode.prototype.start = function (when, from, length) {
  const { sampleRate, duration } = this.buffer;
  played.push({ from, length, sampleRate, duration, samples: [...this.buffer.getChannelData(0).slice(0, 40)] });
  return start.call(this, when, from, length);
};
"""


def wave():
    at = torch.arange(round((119 * HOP + LASTS) * RATE)) / RATE
    return 0.8 * torch.sin(2 * torch.pi * 300 * at) * (at > 0.6)


def content(prefix_tokens=0):
    made = sound()
    line = made.sequences[0]
    labels = ["class"][:prefix_tokens] + line.labels[: 120 - prefix_tokens]
    told = {
        "sound": sound_clip(wave(), RATE),
        "duration": LASTS,
        "labels": labels,
        "prefix_tokens": prefix_tokens,
        "seconds": line.seconds[: 120 - prefix_tokens],
    }
    return msgspec.structs.replace(made, sequences=[msgspec.structs.replace(line, **told)])


@pytest.fixture
def read(watched, tmp_path):
    def open_page(fragment="head=0.0", wide=1280, dark=False, prefix_tokens=0):
        tab = watched(wide, dark, has_touch=wide < 500)
        tab.add_init_script(PLAYED)
        tab.goto(f"{write(content(prefix_tokens), tmp_path / 'sound.html').as_uri()}#{fragment}")
        tab.wait_for_selector(".time canvas")
        return tab

    return open_page


def ink(tab, share):
    """How many pixels of the wave are dark in the column at this share of the width."""
    return tab.locator(".time canvas").evaluate(
        "(c, share) => { const f = c.width / c.getBoundingClientRect().width;"
        "const d = c.getContext('2d').getImageData(Math.floor(c.width * share), 0, 1, Math.floor(76 * f)).data;"
        "let n = 0; for (let i = 0; i < d.length; i += 4) n += d[i] + d[i + 1] + d[i + 2] < 500; return n / f; }",
        share,
    )


def test_the_wave_is_quiet_where_the_sound_is(read):
    tab = read()
    assert ink(tab, 0.2) <= 2
    assert ink(tab, 0.8) > 30


def test_it_is_played_whole_and_slice_by_slice(read):
    tab = read("head=0.0&query=80&key=39")
    tab.get_by_role("button", name="Play", exact=True).click()
    tab.get_by_role("button", name="Play the slice at 0.80 s (25 ms)").click()
    tab.get_by_role("button", name="Play the slice at 0.39 s (25 ms)").click()
    whole, mine, other = tab.evaluate("played")
    samples = np.frombuffer(b64decode(content().sequences[0].sound.samples), "<i2") / 32767
    assert (whole["from"], whole["sampleRate"]) == (0, RATE)
    assert whole["length"] == pytest.approx(len(samples) / RATE)
    assert whole["samples"] == pytest.approx(samples[:40].tolist(), abs=1e-6)
    assert (mine["from"], mine["length"]) == (pytest.approx(0.8), pytest.approx(LASTS))
    assert other["from"] == pytest.approx(0.39)
    stop = tab.get_by_role("button", name="Stop")
    tab.wait_for_timeout(200)
    if stop.is_enabled():
        stop.click()
    assert stop.is_disabled()


def test_a_class_token_stands_in_front_and_is_no_slice(read):
    tab = read("head=0.0&query=0", prefix_tokens=1)
    assert tab.locator(".before button").all_inner_texts() == ["class"]
    assert tab.locator(".before button").get_attribute("aria-pressed") == "true"
    assert tab.locator(".play button:visible").count() == 3, "whole, the other end, stop"
    box = tab.locator(".time").bounding_box()
    tab.locator(".time").click(position={"x": box["width"] * 0.5, "y": 120})
    row = tab.evaluate("equiscope.heads.state.row")
    assert tab.evaluate("equiscope.heads.record.sequences[0].seconds")[row - 1] == pytest.approx(
        0.5 * len(wave()) / RATE, abs=0.011
    )


@pytest.mark.parametrize("dark", few([True, False], 1))
def test_it_fits_a_phone_and_is_touched(read, dark):
    tab = read(wide=360, dark=dark)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    place = tab.locator(".time")
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    tab.touchscreen.tap(box["x"] + box["width"] * 0.25, box["y"] + 130)
    assert tab.evaluate("equiscope.heads.state.row") == pytest.approx(30, abs=2)
    tab.get_by_role("button", name="Play", exact=True).tap()
    assert len(tab.evaluate("played")) == 1


def test_keys_move_along_the_time(read):
    tab = read("head=0.0&query=9")
    tab.locator(".time").focus()
    for key in ("ArrowRight", "ArrowRight", "End", "ArrowLeft"):
        tab.keyboard.press(key)
    assert tab.evaluate("equiscope.heads.state.row") == 118
