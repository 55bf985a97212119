"""The image page in a real browser: patches selected, numbers as Python's, weights edited; phone, dark."""

import pytest
import torch

from equiscope.explore.page import write
from equiscope.explore.pages.image import filled, image
from equiscope.program.replay import replay
from tests.journeys.barriers import barriers

pytestmark = pytest.mark.browser
LAWN, DOG, TROUSERS = 74, 66, 92
TOLERANCE = 1e-12  # two orders of adding in float64


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    record = image()
    return write(record, tmp_path_factory.mktemp("image") / "image.html"), record


@pytest.fixture
def see(watched, page):
    def open_page(fragment="", wide=1280, dark=False, **options):
        tab = watched(wide, dark, has_touch=wide < 500, **options)
        tab.goto(f"{page[0].as_uri()}#{fragment}")
        tab.wait_for_selector(".patch.chosen")
        return tab

    return open_page


def settled(tab):
    """After the numbers were drawn: changes wait for a frame."""
    tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def veil(tab, patch):
    """0 where nothing is attended to, 1 where most is."""
    return float(tab.locator(f'.patch[data-patch="{patch}"]').evaluate("one => one.style.getPropertyValue('--share')"))


def test_every_number_is_pythons(see, page):
    for one in page[1].programs:
        tab = see(f"scheme={one.scheme}")
        wanted = replay(filled(one.program, page[1].pool))
        for role, ident in one.roles.items():
            found = torch.tensor(tab.evaluate("role => [...equiscope.desk.value(role).data]", role), dtype=torch.float64)
            assert torch.allclose(found, wanted[ident].flatten().double(), rtol=0, atol=TOLERANCE), role


def test_a_patch_is_selected_by_mouse_and_by_arrow_keys(see):
    tab = see()
    assert veil(tab, LAWN) > 0.9
    assert veil(tab, DOG) < 0.1
    tab.locator(f'.patch[data-patch="{DOG}"]').click()
    settled(tab)
    assert veil(tab, LAWN) < 0.1
    assert "patch 6·6, dog" in tab.locator(".reading").inner_text()
    tab.keyboard.press("ArrowDown")
    settled(tab)
    assert tab.evaluate("document.activeElement.dataset.patch") == str(DOG + 10)
    assert tab.locator(".attended tbody tr >> nth=0").inner_text().count("dog") == 1


def test_numbers_are_explained_down_to_the_pixels(see):
    tab = see()
    tab.locator('[data-part="features"] .cell >> nth=1').hover()
    assert tab.locator(".arithmetic").inner_text().startswith("E[7·4, green] = ")
    assert "more operands are highlighted" in tab.locator(".note").inner_text()
    tab.locator(".attended .cell >> nth=4").hover()
    assert tab.locator(".arithmetic").inner_text().startswith("S[7·4, ")
    tab.locator('[data-part="added"] .cell >> nth=4').hover()
    assert tab.locator(".arithmetic").inner_text().startswith("ΔE[7·4, red] = ")


def test_shares_are_printed_beside_the_area_and_follow_the_scheme(see):
    tab = see()
    row = tab.locator(".shares > div >> nth=1").locator('[data-region="lawn"]')
    assert row.inner_text().split() == ["lawn", "47", "%", "90", "%", "1.90", "×", "✓", "yes"]
    tab.get_by_label("positions", exact=True).select_option("sinusoidal-nd")
    settled(tab)
    assert row.get_attribute("data-on") == "false"
    tab.get_by_role("button", name="Undo").click()
    settled(tab)
    assert row.get_attribute("data-on") == "true"


def test_a_weight_is_edited_and_everything_after_it_follows(see):
    tab = see()
    tab.locator("details.program summary").click()
    cell = tab.locator('figure[data-symbol="W_Q"] .cell >> nth=0')
    cell.click()
    tab.keyboard.press("Enter")
    tab.keyboard.type("9")
    tab.keyboard.press("Enter")
    settled(tab)
    assert tab.evaluate("equiscope.desk.value('queries').data[4 * 74]") == pytest.approx(
        tab.evaluate("[...equiscope.desk.row('features')].reduce((sum, x, i) => sum + x * [9, 8, -4, 0][i], 0)")
    )
    tab.wait_for_timeout(250)  # the link follows when nothing has changed for a moment
    assert "edits=" in tab.url


def test_a_scale_of_zero_makes_attention_uniform(see):
    tab = see("scale=0")
    weights = tab.evaluate("[...equiscope.desk.row('weights')]")
    assert max(weights) - min(weights) < TOLERANCE
    assert "0.67 %" in tab.locator(".reading").inner_text()


@pytest.mark.parametrize(("wide", "dark"), [(390, False), (1280, True)])
def test_it_fits_a_phone_and_keeps_nobody_out(see, wide, dark):
    tab = see(f"patch={TROUSERS}", wide, dark)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert barriers(tab) == []
