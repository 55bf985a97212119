"""What the pages claim is so: code runs and prints what stands below it, commands and messages are those of the package.

A block of code that cannot run here stands behind `<!-- not run: REASON -->`.
"""

import ast
import dataclasses
import re
import shlex
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from typer.testing import CliRunner

import equiscope as eq
from equiscope.cli.app import app
from equiscope.errors import InputError
from equiscope.models import PRESETS
from equiscope.trained import NAMES
from equiscope.training.reading import read_recipe, recipe
from equiscope.training.recipe import TASKS

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "howto"
if not PAGES.exists():
    pytest.skip("docs/ is not in the source archive", allow_module_level=True)
ALL = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "recipes").rglob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
ALL = [page for page in ALL if not {"_build", "api"} & set(page.relative_to(ROOT).parts)]  # these are generated


class Block(NamedTuple):
    """A fenced block. below: the language of the block that stands before it on the page."""

    language: str
    text: str
    not_run: str
    below: str


def blocks(page):
    found = re.findall(
        r"^(?:<!-- not run: (.+) -->\n\n?)?```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    before = ["", *(language for _, language, _ in found)]
    return [Block(language, text, reason, below) for (reason, language, text), below in zip(found, before, strict=False)]


def code(page):
    return "".join(block.text for block in blocks(page) if block.language == "python" and not block.not_run)


def output(page):
    return "".join(block.text for block in blocks(page) if block.language in {"text", "json"} and block.below == "python")


def named(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in ALL if code(page)], ids=named)
def test_the_page_prints_what_it_shows(page, capsys, monkeypatch, tmp_path):
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    monkeypatch.chdir(tmp_path)  # some pages write files
    exec(code(page), {"__name__": page.stem})
    assert alike(capsys.readouterr().out.rstrip()) == alike(output(page).rstrip())


def alike(text):
    """Whether a sum is off by a rounding or not at all, and by how much, processors decide."""
    text = re.sub(r" +$", "", text, flags=re.MULTILINE)
    text = re.sub(r": (exact|rounding)$", ": holds", text, flags=re.MULTILINE)
    return re.sub(r"\b\d\.\de-1[4-9]\b|[-+]\d\.\d+e-0[67]\b", "rounding", text)  # in float64, of a sum of several in float32


# --------------------------------------------------------------------------------------------------------- on the command line


def shown_commands(page):
    """Command lines with the output that the page shows for each, which may stand in a block of its own below."""
    shown = []
    for block in blocks(page):
        if block.language == "console" and not block.not_run:
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                line, _, out = part.partition("\n")
                shown.append([line.partition(" #")[0].strip(), out])
        elif block.language == "text" and block.below == "console" and not block.not_run and not is_message(block):
            shown[-1][1] = block.text
    return [(line, out) for line, out in shown if out.strip()]


def is_message(block):
    return block.text.startswith("equiscope: ")


@pytest.mark.parametrize(("command", "text"), [pair for page in ALL for pair in shown_commands(page)])
def test_a_command_prints_what_the_page_shows(command, text):
    program, *arguments = shlex.split(command)
    assert program == "equiscope"
    if "transformers:" in command:
        pytest.importorskip("transformers")
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    lines = {words(line) for line in done.output.splitlines()}
    assert [line for line in text.splitlines() if line.strip() != "..." and words(line) not in lines] == []


def words(line):
    """A line without the sizes of its errors, which processors decide."""
    return tuple(word for word in line.split() if not re.fullmatch(r"\d(\.\d)?e-\d+|[\d.]+%", word))


def test_every_output_on_a_page_has_a_block_that_prints_it():
    loose = [
        f"{named(page)}: {block.text.splitlines()[0]}" for page in ALL for block in blocks(page)
        if block.language == "text" and not block.not_run and not is_message(block) and block.below not in {"python", "console"}
    ]  # fmt: skip
    assert loose == []


def messages(page):
    return [line.removeprefix("equiscope: ") for block in blocks(page) if is_message(block) for line in block.text.splitlines()]


@pytest.mark.parametrize("message", [message for page in ALL for message in messages(page)])
def test_a_message_on_a_page_is_one_of_the_package(message):
    parts = re.split(r"(?<=[.?]) (?=[A-Z])", re.sub(r"^Candidate '\w+': ", "", message))
    assert [part for part in parts if not any(fits(part, pieces) for pieces in sentences())] == []


def fits(text, pieces):
    """Whether a text begins with the first piece, and the others follow, each behind something that is filled in."""
    first, *others = pieces
    if not text.startswith(first):
        return False
    end = len(first)
    for piece in others:
        start = text.find(piece, end + 1)
        if start < 0:
            return False
        end = start + len(piece)
    return True


@cache
def sentences():
    """The sentences in the package's strings, each as the pieces between which something is filled in."""
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                text = "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            found |= {one.strip() for one in re.split(r"(?<=[.?]) (?=[A-Z\0])", text) if len(one.replace("\0", "")) > 7}
    return [one.split("\0") for one in found]


COMMANDS = [
    line.strip().removeprefix("$ ").partition("#")[0]
    for page in ALL
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
            assert (ROOT / word).exists()


BAR = re.findall(
    r"""["'](equiscope .+?)["']\],?$""", (ROOT / "web" / "src" / "widgets" / "navigation.ts").read_text("utf-8"), re.MULTILINE
)


@pytest.mark.parametrize("command", BAR)
def test_a_command_in_the_bar_of_the_pages_is_one_that_there_is(command):
    _, verb, *words = shlex.split(command)
    context = typer.main.get_command(app).commands[verb].make_context(verb, words)
    model = context.params.get("model")
    assert model is None or model in {*PRESETS, *NAMES}, "neither a preset nor a trained model that comes along"


def test_nothing_is_installed_from_an_index_that_does_not_have_it():
    files = [*ALL, *(ROOT / "src").rglob("*.py")]
    published = [named(file) for file in files if re.search(r"pip install '?equiscope\b", file.read_text(encoding="utf-8"))]
    assert published == []


def test_what_the_contributors_guide_names_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = [path for path in re.findall(r"`(?:python )?([\w./]+/[\w./]+)`", text) if "NAME" not in path]
    names = re.findall(r"`((?:tests|data)\.[\w.]+)", text)
    homes = [ROOT, ROOT / "src" / "equiscope"]
    assert [path for path in paths if not any((home / path).exists() for home in homes)] == []
    for name in names:
        if (ROOT / name.replace(".", "/")).with_suffix(".py").exists():  # a module
            continue
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module if name.startswith("tests.") else f"equiscope.{module}"), attribute)


@pytest.mark.parametrize("page", [*ALL, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=named)
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```|`[^`\n]+`(?!\])", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)  # without code
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
    generated = ROOT / "docs" / "reference" / "api"  # Sphinx reports a dead link into it
    targets = {link: (page.parent / link).resolve() for link in links}
    assert [link for link, target in targets.items() if not target.exists() and generated not in target.parents] == []


def test_the_reference_of_the_spec_has_every_field():
    shown, part = {}, ""
    for line in (ROOT / "docs" / "reference" / "spec.md").read_text(encoding="utf-8").splitlines():
        if row := re.match(r"\| (?:`(\w+)`)? ?\| ((?:`\w+`(?:, )?)+) \|", line):
            part = row[1] or part
            shown.setdefault(part, set()).update(re.findall(r"\w+", row[2]))
    parts = [eq.Spec, eq.InputLayer, eq.Block, eq.Attention, eq.FeedForward, eq.Norm, eq.OutputLayer]
    assert {part.__name__: shown.get(part.__name__) for part in parts} == {
        part.__name__: {field.name for field in dataclasses.fields(part)} for part in parts
    }


def tables(page):
    """The recipes that a page shows, whole or in part."""
    return [tomllib.loads(text) for text in re.findall(r"```toml\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.DOTALL)]


def test_recipes_on_the_pages_are_recipes():
    whole = [shown for page in ("train.md", "finetune.md") for shown in tables(page)]
    assert [recipe(shown).title for shown in whole] == ["My text", "GPT-2 on my notes"]
    rest = {"title": "T", "model": {"width": 8}, "budget": {"steps": 1, "batch": 1}}
    parts = [recipe(rest | shown).data for page in ("data.md", "synthetic.md") for shown in tables(page)]
    assert set(map(type, parts)) == set(TASKS.values())


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


def test_the_page_of_the_command_line_has_every_command_and_option():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    for name, command in typer.main.get_command(app).commands.items():
        section = "".join(text for title, text in sections.items() if re.search(rf"`equiscope {name}\b", title))
        options = {o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("--")} - {"--help"}
        assert options == set(re.findall(r"--[a-z][a-z-]*", section)), name
