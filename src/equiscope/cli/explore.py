"""`equiscope explore`: trace a sentence under every position scheme, draw a model, or look at a run, and show the page."""

import os
import signal
import sys
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from equiscope import explore, outputs, trained
from equiscope.errors import InputError
from equiscope.explore.page import Content
from equiscope.models import PRESETS, Built, ModelSpec, folder_of, spec_of
from equiscope.record import read_run, run_report
from equiscope.record.run import RUN

if TYPE_CHECKING:
    from equiscope.explore.server import Answer

CONFIG = "config.json"
IMAGES = "clothes"  # the trained model that takes an image where a person names no model
HEAVY = 50_000_000  # bytes of weights that are not read for a drawing: a small model stands for them


@dataclass(frozen=True)
class PageOutput:
    """Where a page goes: printed as JSON, written into one offline file, or served.

    export  the file; port: the first one to try
    """

    export: Path | None
    port: int
    open_browser: bool
    json: bool

    @property
    def is_served(self) -> bool:
        return self.export is None and not self.json

    def show(self, content: Content) -> None:
        """Print a page's data, write its file, or serve it."""
        if self.json:
            sys.stdout.write(msgspec.json.encode(content).decode() + "\n")
        elif self.export is not None:
            wrote(explore.write(content, self.export))
        else:
            from equiscope.cli.book import other_pages

            links, frames = other_pages(content)
            serve(explore.html(content, links=links), self.port, self.open_browser, frames=frames)


def run(sentence: str, position: str, width: int, heads: int, causal: bool, seed: int, output: PageOutput) -> None:
    _no_file(sentence)
    content = explore.explorable(explore.Choice(sentence, position, width, heads, causal, seed))
    preset = [f"These words are also a preset's name. To draw that model: equiscope explore --model {sentence}"]
    if not output.json:
        for note in content.notes + preset * (sentence in PRESETS):
            print(f"note: {note}", file=sys.stderr)
    output.show(content)


def _no_file(words: str) -> None:
    """Refuse the name of a file as a sentence: who gives one wants to see what is in it."""
    path = Path(words)
    try:
        if not path.is_file():
            return
    except (OSError, ValueError):  # too long for a name, or a letter that no name has
        return
    if path.suffix == ".toml":
        raise InputError(f"{path} is a recipe at most. Give the folder of a run that `equiscope train {path}` has made.")
    run = f" {path.parent} is a run: give that." if is_run(str(path.parent)) else ""
    raise InputError(
        f"{path} is a file, but no spec (.json).{run or ' Give a spec, the folder of a checkpoint or of a run, or a sentence.'}"
    )


def draw(source: str, options: list[str], seed: int, output: PageOutput) -> None:
    """Draw a preset, a spec file or a checkpoint folder. Raises InputError for options that only a sentence has."""
    if options:
        raise InputError(f"Only a sentence takes {' and '.join(options)}; a drawing has all that from the model. Leave that out.")
    path = Path(source)
    title = path.resolve().name if folder_of(source) else path.stem if path.suffix == ".json" else source
    output.show(explore.drawing(_model(source), title, seed))


def is_run(words: str) -> bool:
    """Whether what looks like a sentence is the folder of a run, or the name of a trained model."""
    try:
        return words not in PRESETS and ((trained.find(words) or Path(words)) / RUN).is_file()
    except (OSError, ValueError):
        return False


def show_run(folder: Path, options: list[str], output: PageOutput) -> None:
    """The page of a run; while it trains elsewhere, one that asks for what is new."""
    if options:
        raise InputError(f"Only a sentence takes {' and '.join(options)}; {folder} is a run. Leave that out.")
    run = read_run(folder)
    if run.state == "running" and output.is_served:
        live = explore.following(folder)
        serve(live.page, output.port, output.open_browser, {"/entries": live.answer})
    else:
        output.show(run_report(run))


def example(model: str) -> tuple[str | None, Path | None]:
    """An input of a trained model, where a person gave none: a text or the file of a molecule, and an image."""
    first = trained.examples(model)[0]
    if first.suffix == ".png":
        return None, first
    return (first.read_text(encoding="utf-8").strip() if first.suffix == ".txt" else str(first)), None


def is_model(words: str) -> bool:
    """Whether what looks like a sentence is the name of a spec file or of a checkpoint folder."""
    path = Path(words)
    if words in PRESETS:
        return False
    try:
        named = path.suffix.lower() == ".json" or (words.startswith(("./", "../", "/", "~/")) and len(words.split()) == 1)
        return named or (path / CONFIG).is_file() or (len(path.parts) > 1 and path.is_dir())
    except (OSError, ValueError):  # too long for a name, or a letter that no name has
        return False


def _model(source: str) -> Built | ModelSpec:
    """Of a folder the model where its weights are few, else its spec: a drawing needs no weights."""
    path = folder_of(source)
    if path is None:
        return spec_of(source)
    from equiscope.checkpoints import load, read_spec

    if not (path / CONFIG).is_file():
        if is_run(source):
            raise InputError(
                f"{path} is a run, which has a page of its own: leave --model out. "
                "Or give it something to look at: a text, --image or --audio."
            )
        raise InputError(
            f"{path} is a folder without {CONFIG}, so it is no checkpoint to draw. Give one, a spec (.json), a preset, or a run."
        )
    weights = [file.stat().st_size for file in path.glob("*.safetensors")]
    return load(path) if weights and sum(weights) < HEAVY else read_spec(path)


def wrote(path: Path) -> None:
    if path.is_file() and outputs.handle_of(path) is None:  # and no device, which keeps nothing
        print(f"wrote {path} ({path.stat().st_size / 1000:.0f} kB, one file, works offline)")


def serve(
    page: str | Callable[[], str], port: int, open_browser: bool, answers: "Mapping[str, Answer] | None" = None,
    runs: "Mapping[str, Answer] | None" = None, frames: Mapping[str, Callable[[], str]] | None = None,
) -> None:  # fmt: skip
    """Serve until Ctrl-C. runs: answers that run a model, one at a time. frames: other pages, by path."""
    from equiscope.explore.server import server  # here alone: who serves nothing loads no server

    with server(page, port, answers, runs, frames=frames) as running:
        try:
            print(f"equiscope shows the page at {running.url}  (Ctrl-C ends)", flush=True)
            if open_browser and not opened(running.url):
                print("No browser could be opened here: open the address above yourself.", flush=True)
            running.wait()
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # once was enough
            print("\nThe page has ended.", flush=True)
    if running.busy:  # nothing can stop a model in the middle, and Python would end around it with an abort
        sys.stderr.flush()
        os._exit(0)


def opened(url: str) -> bool:
    """Whether a browser took it."""
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
