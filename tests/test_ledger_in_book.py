"""What the book says with a link to the ledger of claims is what the ledger says: its verdict, and its numbers, rounded."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEARN, LEDGER = ROOT / "docs" / "learn", ROOT / "docs" / "reference" / "claims.md"
if not LEDGER.exists():
    pytest.skip("docs/ is not in the source archive", allow_module_level=True)
pytestmark = pytest.mark.quick
LINK = re.compile(r"\[([^\]]*)\]\(\.\./reference/claims\.md#([a-z0-9-]+)\)")
NUMBER = re.compile(r"(?<![\w/])(\d+\.\d+(?:e[-+]?\d+)?|\d+e-\d+|\d{1,3}(?:,\d{3})+)( %)?")
VERDICT = re.compile(r"\*\*(True|True within limits|False)\.\*\*")
CHAPTERS = sorted(path.name for path in LEARN.glob("[01][0-9]-*.md"))


def rows():
    """The text of each row of the ledger, by its name."""
    text = LEDGER.read_text(encoding="utf-8")
    return dict(re.findall(r"\n### ([a-z0-9-]+)\n(.*?)(?=\n### |\n## |\Z)", text, re.DOTALL))


def statements(chapter):
    """[name of a row, the words of the link, the text before it]: from the last link of the paragraph, or from its beginning."""
    text = (LEARN / chapter).read_text(encoding="utf-8")
    for paragraph in re.split(r"\n\n|\n- ", text):
        begin = 0
        for link in LINK.finditer(paragraph):
            yield link[2], " ".join(link[1].split()), paragraph[begin : link.start()]
            begin = link.end()


def rounds_to(number, percent, known):
    """Whether a number of the ledger, rounded to as many digits, is this one."""
    text = number.replace(",", "")
    digits = len(text.partition("e")[0].replace(".", "").lstrip("0"))
    scales = (1.0, 100.0) if percent else (1.0,)
    return any(
        float(f"{float(one) * scale:.{max(digits - 1, 0)}e}") == pytest.approx(float(text)) for one in known for scale in scales
    )


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_numbers_and_verdicts_are_those_of_the_ledger(chapter):
    wrong, ledger = [], rows()
    for name, words, text in statements(chapter):
        assert name in ledger, f"the ledger has no row {name}"
        verdict = VERDICT.search(ledger[name])
        said = words.removeprefix("claim: ")
        if words.startswith("claim: ") and (verdict is None or verdict[1].lower() != said):
            wrong.append(f"{name}: {words}")
        known = re.findall(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", ledger[name].replace(",", ""))
        wrong += [f"{name}: {number}" for number, percent in NUMBER.findall(text) if not rounds_to(number, percent, known)]
    assert wrong == []


CARD = re.compile(r"`src/equiscope/trained/([a-z]+)/card\.md`")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_numbers_beside_the_card_of_a_trained_model_are_those_of_the_card(chapter):
    wrong = []
    for paragraph in (LEARN / chapter).read_text(encoding="utf-8").split("\n\n"):
        if card := CARD.search(paragraph):
            known = re.findall(r"\d+(?:\.\d+)?", (ROOT / card[0].strip("`")).read_text(encoding="utf-8").replace(",", ""))
            wrong += [number for number, percent in NUMBER.findall(paragraph) if not rounds_to(number, percent, known)]
    assert wrong == []
