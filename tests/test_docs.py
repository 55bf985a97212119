"""What the how-to pages say in Python runs, and prints what they say it prints."""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[1] / "docs" / "howto"


RUN = ["attention.md", "check.md", "drawing.md", "generate.md", "model.md", "position.md", "report.md", "tokens.md"]


@pytest.mark.parametrize("page", RUN)
def test_the_page_prints_what_it_says(page, capsys):
    text = (PAGES / page).read_text(encoding="utf-8")
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), {"__name__": page})
    wanted = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
    assert capsys.readouterr().out == wanted
