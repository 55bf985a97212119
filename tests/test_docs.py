"""What the how-to pages say in Python runs, and prints what they say it prints."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer

from equiscope.cli.app import app
from equiscope.data import Images, Language, Molecules, Sounds, Translation
from equiscope.errors import InputError
from equiscope.training.reading import read_recipe, recipe
from equiscope.training.recipe import TASKS

PAGES = Path(__file__).parents[1] / "docs" / "howto"


RUN = [
    "attention.md", "check.md", "cost.md", "drawing.md", "generate.md", "graph.md", "heads.md", "masks.md", "model.md",
    "notebook.md", "position.md", "program.md", "report.md", "space.md", "tokens.md", "train.md",
]  # fmt: skip


@pytest.mark.parametrize("page", RUN)
def test_the_page_prints_what_it_says(page, capsys, monkeypatch, tmp_path):
    (tmp_path / "recipes").symlink_to(PAGES.parents[1] / "recipes")
    monkeypatch.chdir(tmp_path)  # some pages write files
    text = (PAGES / page).read_text(encoding="utf-8")
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), {"__name__": page})
    wanted = "".join(re.findall(r"```text\n(?!equiscope: )(.*?)```", text, re.DOTALL))  # an error is shown beside, not printed
    assert alike(capsys.readouterr().out) == alike(wanted)


def alike(text):
    """Whether a sum is off by a rounding or not at all, processors decide."""
    return re.sub(r": (exact|rounding)$", ": holds", text, flags=re.MULTILINE)


COMMANDS = [
    line.strip().removeprefix("$ ").partition("#")[0]
    for page in [PAGES.parents[1] / "README.md", PAGES.parents[1] / "recipes" / "README.md", *sorted(PAGES.parent.rglob("*.md"))]
    for line in page.read_text(encoding="utf-8").splitlines()
    if line.strip().startswith("$ equiscope ")
]


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_a_command_of_the_pages_is_one_that_there_is(command):
    _, verb, *words = shlex.split(command)
    if verb.startswith("--"):
        return
    found = typer.main.get_command(app).commands[verb]
    found.make_context(verb, words)  # refuses what it does not know
    for word in words:
        if word.startswith("recipes/"):
            assert (PAGES.parents[1] / word).exists()


def tables(page):
    """The recipes that a page shows, whole or in part."""
    return [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)]


def test_recipes_on_the_pages_are_recipes():
    whole = [shown for page in ("train.md", "finetune.md") for shown in tables(page)]
    assert [recipe(shown).title for shown in whole] == ["My text", "GPT-2 on my notes"]
    rest = {"title": "", "model": {"width": 8}, "budget": {"steps": 1, "batch": 1}}
    parts = [recipe(rest | shown).data for shown in tables("data.md")]
    assert [type(part) for part in parts] == [Language, Translation, Images, Sounds, Molecules] == list(TASKS.values())


def test_mistakes_that_a_page_shows_are_said_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (PAGES / "train.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    said = []
    for old, new, changes in (("steps =", "stepz =", []), ("warmup = 100", "warmup = 2000", []), ("", "", ["budget.batch=many"])):
        Path("my.toml").write_text(shown.replace(old, new))
        with pytest.raises(InputError) as error:
            read_recipe(Path("my.toml"), changes)
        said.append(f"equiscope: {error.value}\n")
    assert "".join(said) in text
