"""The page of tokens in a real browser: its numbers are those of `equiscope.tokens`; playback, by mouse, keyboard and touch."""

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from equiscope import tokens as eq
from equiscope.explore.page import write
from equiscope.explore.pages import sample_media
from equiscope.explore.pages.tokens import tokens
from equiscope.record import pack, unpack
from tests.journeys.barriers import barriers

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
DIGIT = ROOT / "recipes" / "samples" / "fsdd" / "7_theo_11.wav"
HOSTILE = "</script><script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"


def hostile():
    made = tokens(None, None, None)
    return msgspec.structs.replace(
        made, title=HOSTILE, notes=[HOSTILE],
        **{kind: msgspec.structs.replace(getattr(made, kind), name=HOSTILE, note=HOSTILE) for kind in ("sound", "picture", "film")},
    )  # fmt: skip


def silent():
    made = tokens(None, None, None)
    floor = torch.full((98, 48), float(np.log(1e-10)))
    cuts = [msgspec.structs.replace(made.sound.cuts[0], mel=pack(floor.numpy()))]
    nothing = pack(np.zeros(8000, dtype=np.int64))
    return msgspec.structs.replace(
        made, picture=None, film=None, sound=msgspec.structs.replace(made.sound, silent=True, samples=nothing, cuts=cuts)
    )


RECORDS = {
    "made": lambda: tokens(None, None, None), "spoken": lambda: tokens(None, DIGIT, None), "hostile": hostile, "silent": silent,
}  # fmt: skip


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("tokens"), {}

    def page(name):
        if name not in made:
            content = RECORDS[name]()
            made[name] = write(content, folder / f"{name}.html"), content
        return made[name]

    return page


@pytest.fixture
def read(watched, opened):
    """Opens a page of tokens."""

    def open_page(name="made", fragment="", wide=1280, dark=False, bypass_csp=False):
        tab = watched(wide, dark, bypass_csp=bypass_csp, has_touch=wide < 500)
        tab.goto(f"{opened(name)[0].as_uri()}#{fragment}")
        tab.wait_for_selector("main h2")
        return tab

    return open_page


def number(text):
    return float(text.replace("−", "-").replace(",", ""))


def value(tab):
    """The chosen number, as a person reads it."""
    return number(tab.locator(".formula-line:visible .value").inner_text())


def chosen(tab):
    return tab.evaluate("equiscope.tokens.state[equiscope.tokens.state.see]")


def until(tab, script):
    """Wait until a script says yes. (Playwright's own way evaluates a text in the page, which the page's policy refuses.)"""
    for _ in range(200):
        if tab.evaluate(script):
            return
        tab.wait_for_timeout(25)
    raise AssertionError(f"not within five seconds: {script}")


# --- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["made", "spoken"])
def test_numbers_of_a_sound_are_those_of_training(read, opened, name):
    tab = read(name)
    sound = opened(name)[1].sound
    wave = torch.from_numpy(unpack(sound.samples) * sound.unit).float()
    for c, cut in enumerate(sound.cuts):
        mel = eq.log_mel(wave, sound.rate, cut.window_ms, cut.hop_ms, mels=cut.mel.shape[1])
        wanted = {
            "frames": eq.frames(wave, sound.rate, cut.window_ms), "mel": mel,
            "patches": eq.spectrogram_patches(mel, tuple(cut.patch)),
        }  # fmt: skip
        for way, found in wanted.items():
            many, width = found.x.shape
            for token, place in [(0, 0), (many // 2, width - 1), (many - 1, width // 3)]:
                tab.evaluate("(change) => equiscope.tokens.set(change)", {"cut": c, "way": way, "token": token, "number": place})
                assert value(tab) == pytest.approx(float(found.x[token, place]), rel=1e-6, abs=1e-12)
                seconds = tab.locator(".seconds").inner_text().split(" s")[0]
                assert number(seconds) == pytest.approx(float(found.positions[token, 0]), rel=1e-6)
                if way != "frames":
                    again = number(tab.locator(".again").inner_text())
                    assert again == pytest.approx(float(found.x[token, place]), rel=1e-4), "from samples, in float64"
            row = tab.locator(".counts tr[data-open='true'] td").all_inner_texts()
            assert [number(row[0]), number(row[2]), number(row[3])] == [many, width, many * width]


def test_the_products_of_a_band_add_up_to_its_energy(read, opened):
    tab = read("spoken", "token=19&number=5")
    rows = [[number(cell) for cell in row.locator("td").all_inner_texts()] for row in tab.locator(".operands tbody tr").all()]
    assert all(product == pytest.approx(energy * weight, rel=1e-5) for energy, weight, product in rows)
    wanted = unpack(opened("spoken")[1].sound.cuts[0].mel)[19, 5]
    assert np.log(sum(row[2] for row in rows)) == pytest.approx(wanted, rel=1e-4)


def test_numbers_of_a_patch_are_those_of_training(read, opened):
    tab = read("made", "see=picture")
    picture, image = opened("made")[1].picture, torch.from_numpy(sample_media.meadow()).float() / 255
    for c, cut in enumerate(picture.cuts[:4]):
        found = eq.patches(image, (cut.side, cut.side))
        many, width = found.x.shape
        for token, place in [(0, 0), (many // 2 + 3, width // 2), (many - 1, width - 1)]:
            tab.evaluate("(change) => equiscope.tokens.set(change)", {"cut": c, "token": token, "number": place})
            assert value(tab) == pytest.approx(float(found.x[token, place]), rel=1e-6)
            row, column = (int(n) for n in found.positions[token])
            assert f"position is ({row}, {column})" in tab.locator(".one .where:visible").inner_text()
            outputs = [number(text) for text in tab.locator(".output .value").all_inner_texts()]
            assert outputs == pytest.approx(unpack(cut.projection.output)[token].tolist(), rel=1e-6, abs=1e-9)
            said = tab.locator(".output .quiet").all_inner_texts()
            again = [number(re.search(r"recomputed here: (\S+);", text)[1]) for text in said]
            assert again == pytest.approx(outputs, abs=1e-6)
        assert "computed both ways in float64, the largest difference is" in tab.locator(".measured").inner_text()


def test_numbers_of_a_tubelet_are_those_of_training(read, opened):
    tab = read("made", "see=film")
    film, video = opened("made")[1].film, torch.from_numpy(sample_media.bounce()).float() / 255
    for c, cut in enumerate(film.cuts):
        found = eq.tubelets(video, tuple(cut.size), film.fps)
        many, width = found.x.shape
        for token, place in [(0, 0), (many // 2 + 3, width // 2 + 5), (many - 1, width - 1)]:
            tab.evaluate("(change) => equiscope.tokens.set(change)", {"cut": c, "token": token, "number": place, "frame": None})
            assert value(tab) == pytest.approx(float(found.x[token, place]), rel=1e-6)
            seconds, row, column = found.positions[token].tolist()
            said = re.search(r"\((\S+) s, row (\d+), column (\d+)\)", tab.locator(".one .where").inner_text())
            assert [number(n) for n in said.groups()] == pytest.approx([seconds, row, column])
            outputs = [number(text) for text in tab.locator(".output .value").all_inner_texts()]
            assert outputs == pytest.approx(unpack(cut.projection.output)[token].tolist(), rel=1e-6, abs=1e-9)


def test_a_stem_overlaps_and_pixels_do_not(read):
    tab = read("made", "see=picture")
    tab.get_by_role("button", name="stem", exact=True).click()
    assert "Its receptive field has 31×31 = 961 pixels" in tab.locator(".field-of").inner_text()
    large, small = (tab.locator(f".photo {which}").bounding_box()["width"] for which in (".frame:not(.own)", ".frame.own"))
    assert large / small == pytest.approx(31 / 16, rel=0.1)
    tab.get_by_role("button", name="pixels", exact=True).first.click()
    assert "224 × 224 = 50,176 tokens of 3 numbers" in tab.locator(".summary").inner_text()


# --- hands -------------------------------------------------------------------------------------------------------------


def test_a_click_chooses_a_patch_and_a_pixel(read):
    tab = read("made", "see=picture")
    photo = tab.locator(".photo").bounding_box()
    tab.mouse.click(photo["x"] + photo["width"] * 4.5 / 14, photo["y"] + photo["height"] * 2.5 / 14)
    assert chosen(tab)["token"] == 2 * 14 + 4
    sheet = tab.locator(".one .sheet").bounding_box()
    tab.mouse.click(sheet["x"] + sheet["width"] * 3.5 / 16, sheet["y"] + sheet["height"] * 5.5 / 16)
    assert chosen(tab)["number"] == 5 * 16 + 3
    tab.get_by_role("button", name="blue").click()
    assert chosen(tab)["number"] == 512 + 5 * 16 + 3
    byte = sample_media.meadow()[2, 2 * 16 + 5, 4 * 16 + 3]
    assert value(tab) == pytest.approx(byte / 255, rel=1e-6)
    assert f"{byte} / 255" in tab.locator(".formula-line:visible").inner_text()
    tab.mouse.move(sheet["x"] + sheet["width"] * 0.5 / 16, sheet["y"] + sheet["height"] * 0.5 / 16)
    assert "row 0, column 0" in tab.locator(".formula-line:visible").inner_text(), "pointing reads"
    assert chosen(tab)["number"] == 512 + 5 * 16 + 3, "and leaves what is chosen"


def test_another_size_keeps_the_place(read):
    tab = read("made", "see=picture&token=32")  # row 2, column 4
    tab.get_by_role("button", name="8×8", exact=True).click()
    assert chosen(tab)["token"] == 5 * 28 + 9
    tab.get_by_role("button", name="16×16", exact=True).first.click()
    assert chosen(tab)["token"] == 2 * 14 + 4


def test_keys_go_through_a_sound(read):
    tab = read("made", "token=10")
    tab.locator("[data-way='mel']").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        tab.keyboard.press(key)
    assert chosen(tab)["token"] == 11
    tab.locator("[data-way='patches']").focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    assert (chosen(tab)["way"], chosen(tab)["token"]) == ("patches", 3 + 1), "second in time, second band from above"
    tab.locator(".sheet").focus()
    before = chosen(tab)["number"]
    tab.keyboard.press("ArrowUp")
    assert chosen(tab)["number"] == before + 1, "one band higher"
    tab.locator("[data-way='frames']").focus()
    tab.keyboard.press("End")
    assert (chosen(tab)["way"], chosen(tab)["token"]) == ("frames", 39)
    tab.locator(".values").focus()
    tab.keyboard.press("ArrowRight")
    assert chosen(tab)["number"] == 1


def test_a_click_on_a_lane_chooses_what_is_there(read):
    tab = read("made")
    box = tab.locator("[data-way='frames']").bounding_box()
    tab.mouse.click(box["x"] + box["width"] * 0.5125, box["y"] + 20)
    assert (chosen(tab)["way"], chosen(tab)["token"]) == ("frames", 20)
    tab.get_by_label("in view").select_option("0.1")
    tab.get_by_label("window").select_option("1")
    assert chosen(tab)["token"] == 51, "the frame of 10 ms at the same time"
    box = tab.locator("[data-way='frames']").bounding_box()
    tab.mouse.click(box["x"] + box["width"] * 0.95, box["y"] + 20)
    assert 54 <= chosen(tab)["token"] <= 56


def test_a_slider_goes_through_time(read):
    tab = read("made", "see=film")
    slider = tab.get_by_role("slider", name="time")
    slider.focus()
    tab.keyboard.press("Home")
    assert (chosen(tab)["frame"], chosen(tab)["token"] // 16) == (0, 0)
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
    assert (chosen(tab)["frame"], chosen(tab)["token"] // 16) == (3, 1)
    assert slider.get_attribute("aria-valuetext") == "frame 3, 0.375 s"
    assert tab.locator(".still .frame:visible").count() == 2, "the tubelet's own frames"
    tab.locator(".photo").focus()
    before = chosen(tab)["token"]
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("PageDown")
    assert chosen(tab)["token"] == before + 1 + 16
    tab.get_by_role("button", name="frame 8", exact=True).click()
    assert chosen(tab)["frame"] == 8
    tab.get_by_role("button", name="Play", exact=True).click()
    until(tab, "equiscope.tokens.state.film.frame !== 8")
    tab.get_by_role("button", name="Stop", exact=True).click()


def test_touch_chooses_on_a_phone(read):
    tab = read("made", "see=picture", wide=360)
    photo = tab.locator(".photo")
    photo.scroll_into_view_if_needed()
    box = photo.bounding_box()
    tab.touchscreen.tap(box["x"] + box["width"] * 3.5 / 14, box["y"] + box["height"] * 6.5 / 14)
    assert chosen(tab)["token"] == 6 * 14 + 3
    tab.get_by_role("link", name="Sound").tap()
    lane = tab.locator("[data-way='patches']")
    lane.scroll_into_view_if_needed()
    box = lane.bounding_box()
    tab.touchscreen.tap(box["x"] + box["width"] * 0.5, box["y"] + 5)
    assert (chosen(tab)["way"], chosen(tab)["token"] % 3) == ("patches", 2), "the highest band"


def test_back_and_forward_and_a_link_work(read):
    tab = read("made")
    tab.get_by_role("link", name="Picture").click()
    tab.get_by_role("button", name="8×8", exact=True).click()
    hash = tab.evaluate("location.hash")
    tab.go_back()
    assert tab.evaluate("equiscope.tokens.state.picture.cut") == 0
    tab.go_back()
    assert tab.locator(".tabs [aria-current]").inner_text() == "Sound"
    tab.go_forward()
    tab.go_forward()
    assert tab.evaluate("location.hash") == hash
    assert tab.get_by_role("button", name="8×8", exact=True).get_attribute("aria-pressed") == "true"


def test_a_link_that_makes_no_sense_is_read_as_far_as_it_does(read):
    tab = read("made", "see=x&way=y&span=z")
    for fragment in ("see=x&way=y&span=z", "token=9999999&number=9999999&cut=99", "see=film&frame=900&token=5000"):
        tab.evaluate("hash => { location.hash = hash }", fragment)
        tab.wait_for_timeout(100)
        assert tab.locator(".formula-line:visible .value").count() == 1
        assert re.findall(r"NaN|undefined|\[object", tab.locator("body").inner_text()) == []


# --- playback ----------------------------------------------------------------------------------------------------------


def test_a_token_is_played_by_its_own_samples(read):
    tab = read("made", "way=frames&token=12")
    tab.get_by_role("button", name="Play the token").click()
    until(tab, "equiscope.tokens.player.last")
    last = tab.evaluate("equiscope.tokens.player.last")
    assert last == {"begin": 12 * 200, "samples": 200, "rate": 8000, "loop": False, "state": "running"}
    tab.evaluate("equiscope.tokens.set({ way: 'patches', token: 4 })")
    tab.get_by_role("button", name="Loop the token").click()
    until(tab, "equiscope.tokens.player.last.loop")
    last = tab.evaluate("equiscope.tokens.player.last")
    assert (last["begin"], last["samples"]) == (16 * 80, 15 * 80 + 200)
    tab.locator("[data-way='patches']").focus()
    tab.keyboard.press("ArrowRight")
    until(tab, "equiscope.tokens.player.last.begin === 32 * 80")
    assert tab.evaluate("equiscope.tokens.player.last.loop"), "the loop follows the selection"
    tab.keyboard.press("Escape")
    assert tab.evaluate("equiscope.tokens.player.playing") is False
    tab.keyboard.press("Enter")
    until(tab, "!equiscope.tokens.player.last.loop")
    assert tab.evaluate("equiscope.tokens.player.last.begin") == 32 * 80
    tab.get_by_role("button", name="Loop the token").click()  # what is played once may have ended by now
    tab.get_by_role("button", name="Stop").click()
    assert tab.evaluate("equiscope.tokens.player.playing") is False


def test_the_token_that_is_played_is_highlighted(read):
    tab = read("made")
    tab.get_by_role("button", name="Play all").click()
    until(tab, "Number(document.querySelector('[data-way=mel] .lit').dataset.token) >= 20")
    seen = tab.evaluate(
        "() => { const x = (e) => e.getBoundingClientRect(), lit = x(document.querySelector('[data-way=mel] .lit')),"
        "head = x(document.querySelector('.playhead')); return [lit.left, head.left + head.width / 2, lit.right]; }"
    )
    assert seen[0] - 2 <= seen[1] <= seen[2] + 2, "the playhead is in the window that is lit"
    until(tab, "!equiscope.tokens.player.playing")
    assert tab.evaluate("equiscope.tokens.player.last.samples") == 8000
    assert tab.locator(".playhead").is_hidden()
    assert tab.get_by_role("button", name="Stop").is_disabled()


def test_a_close_view_follows_the_playback(read):
    tab = read("made", "span=0.1&token=10")
    before = tab.locator("[data-way='frames'] canvas").evaluate("c => c.toDataURL()")
    tab.get_by_role("button", name="Play all").click()
    until(tab, "Number(document.querySelector('[data-way=mel] .lit').dataset.token) >= 30")
    assert tab.locator(".playhead").is_visible()
    tab.get_by_role("button", name="Stop").evaluate("button => button.click()")  # which may have nothing left to stop
    assert tab.locator("[data-way='frames'] canvas").evaluate("c => c.toDataURL()") == before, "back to what is chosen"


def test_silence_is_stated(read):
    tab = read("silent")
    assert "This sound is silent" in tab.locator(".notice").inner_text()
    assert value(tab) == pytest.approx(np.log(1e-10), rel=1e-6)
    assert re.findall(r"NaN|undefined|Infinity", tab.locator("body").inner_text()) == []
    assert tab.locator(".tabs").count() == 0, "there is one thing"


# --- other eyes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["made", "hostile"])
def test_nothing_is_wider_than_the_window(read, name):
    tab = read(name)
    for see in ("sound", "picture", "film"):
        tab.evaluate("(see) => equiscope.tokens.see(see)", see)
        for wide in (1280, 768, 360):
            tab.set_viewport_size({"width": wide, "height": 900})
            assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    assert re.findall(r"NaN|undefined|\[object|\bnull\b|Infinity", tab.locator("body").inner_text()) == []


def test_hostile_names_are_text_and_nothing_else(read):
    tab = read("hostile")
    assert tab.locator("h1").inner_text() == HOSTILE
    for see in ("sound", "picture", "film"):
        tab.evaluate("(see) => equiscope.tokens.see(see)", see)
        assert tab.locator("main h2").first.inner_text() == HOSTILE
    assert tab.evaluate("window.stolen") is None
    assert tab.locator("#app script, #app img").count() == 0


def test_the_dark_has_its_own_colours(read):
    light, dark = (read("made", dark=dark) for dark in (False, True))
    pictures = [tab.locator("[data-way='mel'] canvas").evaluate("c => c.toDataURL()") for tab in (light, dark)]
    assert pictures[0] != pictures[1]
    light.emulate_media(color_scheme="dark")
    light.wait_for_timeout(100)
    assert light.locator("[data-way='mel'] canvas").evaluate("c => c.toDataURL()") == pictures[1]


def test_pictures_are_saved(read):
    tab = read("made", "see=picture")
    for kind, begins in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with tab.expect_download() as waiting:
            tab.get_by_role("button", name=f"Save the picture as {kind}").click()
        assert waiting.value.suggested_filename == f"equiscope-picture.{kind.lower()}"
        assert waiting.value.path().read_bytes().startswith(begins)


@pytest.mark.parametrize(("wide", "dark"), [(1280, False), (360, True)])
def test_the_page_has_no_barriers(read, wide, dark):
    tab = read("made", dark=dark, wide=wide, bypass_csp=True)
    for see, change in [
        ("sound", {"way": "patches"}),
        ("sound", {"way": "mel"}),
        ("picture", {}),
        ("picture", {"cut": 5}),
        ("film", {}),
    ]:
        tab.evaluate("([see, change]) => { equiscope.tokens.see(see); equiscope.tokens.set(change); }", [see, change])
        assert barriers(tab, "moderate") == []
