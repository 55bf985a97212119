"""The gallery lists each finding of the pages, each of its models, and what the guard and `parity` have recorded of it."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "docs").exists():
    pytest.skip("docs/ is not in the source archive", allow_module_level=True)
sys.path.insert(0, str(ROOT / "docs"))

import gallery  # noqa: E402

TEXT = gallery.PAGE.read_text(encoding="utf-8")
TITLES = {title: name for group in gallery.MODELS.values() for title, name in group.items()}


def card(title):
    """What the page shows of a model."""
    (found,) = re.findall(rf"<summary><strong>{re.escape(title)}</strong> .*?</details>", TEXT, re.DOTALL)
    return found


def test_every_finding_of_the_pages_on_libraries_is_linked():
    lines = list(gallery.findings())
    assert sum(line.startswith("- ") for line in lines) >= 22
    assert "".join(lines) in TEXT


@pytest.mark.parametrize("title", TITLES)
def test_a_card_has_its_command_and_what_other_pages_record(title):
    shown = card(title)
    assert f"`equiscope check {TITLES[title]}`" in shown
    for line in gallery.recorded(title):
        assert line in shown


def test_what_is_recorded_names_the_guard_and_the_forms():
    guard, forms = gallery.recorded("GPT2LMHeadModel")
    assert guard == "guard: passes (`equiscope guard transformers:GPT2LMHeadModel`)"
    assert forms.startswith("same as: SDPA, export (float32), ONNX (float32), equiscope (")
    assert next(gallery.recorded("XLNetLMHeadModel")).startswith("guard: fails: Of 4 tokens")
    assert list(gallery.recorded("no such model")) == []


@pytest.mark.parametrize("title", ["nn.TransformerEncoder, causal", *(pytest.param(t, marks=pytest.mark.thorough) for t in TITLES)])
def test_a_card_shows_what_a_check_finds(title):
    if TITLES[title].partition(":")[0] in ("transformers", "timm"):
        pytest.importorskip(TITLES[title].partition(":")[0])
    fresh = gallery.card(title, gallery.audited(str(ROOT / TITLES[title]) if "/" in TITLES[title] else TITLES[title], proof=False))
    assert rounded(card(title)).splitlines()[3:] == [*rounded(fresh).splitlines()[4:-1], "</details>"]


def rounded(text):
    """Without the sizes of errors, which processors decide."""
    return re.sub(r", error [^,)]+", "", text.replace(f"{ROOT}/", ""))


@pytest.mark.parametrize("colour", gallery.COLOURS.values())
def test_the_text_of_a_badge_is_readable(colour):
    def light(channel):
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue = (light(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 4.5  # WCAG 2, level AA
