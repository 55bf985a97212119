"""`equiscope book`: the book of prose and live figures, served, as one offline file, or as a folder to host."""

import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from threading import Lock, Thread

import msgspec

from equiscope import outputs
from equiscope.cli.explore import serve, wrote
from equiscope.cli.pages import PAGES, PageInputs
from equiscope.errors import InputError
from equiscope.explore import book, page
from equiscope.explore.page import Content
from equiscope.record import Explorable
from equiscope.tokens import words as split

HINT = "Choose another file or folder with --out."
KINDS = (".html", ".htm")
DOCUMENTS = (".pdf", ".md", ".txt", ".ipynb", ".epub", ".zip")  # that somebody may expect
BOOK = "/book"  # its address where another page is served
NAMES = {"report": "check"}  # of pages, where their bundles are called otherwise


def sentence(words: str) -> Content:
    """With the words of the reader."""
    from equiscope.explore import Choice, explorable

    return explorable(Choice(words))


def cost(words: str) -> Content:
    """Formulas alone: times would be of the machine that makes the book."""
    from equiscope.explore.pages.cost import cost

    return cost()


def drawing(words: str) -> Content:
    """The encoder and decoder that everybody knows."""
    from equiscope.explore.pages.drawing import drawing
    from equiscope.models import spec_of

    return drawing(spec_of("transformer-base"), "the transformer of 2017")


def heads(words: str) -> Content:
    """The trained character model on the words of the text, which speaks of its heads."""
    from equiscope.cli.heads import ModelInput, page_of

    return page_of("characters", ModelInput(text=" ".join(book.WORDS))).file()


def clothes(words: str) -> Content:
    """The trained classifier of clothes on a picture that it has not learned from."""
    from equiscope import trained
    from equiscope.cli.heads import ModelInput, page_of

    return page_of("clothes", ModelInput(image=trained.examples("clothes")[0])).file()


def check(words: str) -> Content:
    """The report of a decoder whose mask is off by one in one layer."""
    import torch

    from equiscope.audit import check
    from equiscope.cli.off_by_one import Decoder
    from equiscope.record import report

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        properties = ["deterministic", "batch", "causal", "gradient"]
        return report(check(Decoder(), torch.randint(50, (2, 9)), properties=properties, effort="quick"))


def watched(words: str) -> Content:
    """Every number of an encoder layer of PyTorch."""
    import torch

    from equiscope.program import watch
    from equiscope.program.lower import lowered

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).double().eval()
        program = watch(layer, torch.randn(1, 3, 8, dtype=torch.float64))
    return lowered(program, arrays=False, title="an encoder layer")


def compare(words: str) -> Content:
    """A recorded answer, which the build of the page takes from recipes/questions/results."""
    from equiscope.record import Comparison

    return msgspec.json.decode(page.bundled("answer.json"), type=Comparison)


def about(name: str) -> Callable[[str], Content]:
    """A page about one subject, as `equiscope explore --page` shows it without inputs."""
    return lambda words: PAGES[name](PageInputs(None, None, None, None, 0))


FIGURES: dict[str, Callable[[str], Content]] = {name: about(name) for name in PAGES} | {
    "sentence": sentence, "cost": cost, "drawing": drawing, "heads": heads, "clothes": clothes,
    "check": check, "watched": watched, "compare": compare,
}  # fmt: skip


def pages(words: str, home: str = "") -> book.Pages:
    """The pages of all figures; each is made once, when it is asked for.

    home  address of the book on these pages, which then link to one another; empty: they stand alone
    """
    links = {"book": home, **{name: f"{name}.html" for name in book.figure_names()}} if home else {}
    return {name: _once(partial(_page, make, words, links)) for name, make in FIGURES.items()}


def _once(make: Callable[[], str]) -> Callable[[], str]:
    """Made by the first thread that asks; others wait for it."""
    lock, made = Lock(), cache(make)

    def get() -> str:
        with lock:
            return made()

    return get


def _page(make: Callable[[str], Content], words: str, links: dict[str, str]) -> str:
    return page.html(make(words), links=links)


def other_pages(content: Content) -> tuple[dict[str, str], dict[str, Callable[[], str]]]:
    """Of a page that is served the addresses of all others, and these pages by path, each made when it is asked for.

    The way back leads to the served page itself. A sentence is that of the page.
    """
    bundle = page.NAMES[type(content)]
    own = NAMES.get(bundle, bundle)
    words = " ".join(content.words) if isinstance(content, Explorable) else " ".join(book.WORDS)
    links = {"book": BOOK, **{name: f"/{book.FOLDER}/{name}.html" for name in FIGURES}, own: "/"}
    frames: dict[str, Callable[[], str]] = {BOOK: _once(partial(book.html, split(words)))}
    for name, make in FIGURES.items():
        frames[f"/{book.FOLDER}/{name}.html"] = _once(partial(_page, make, words, links))
    return links, frames


def run(out: Path | None, words: str, port: int, open_browser: bool) -> None:
    """Raises InputError where there are no words, or for a kind of file that is not written; Unwritable."""
    names = split(words)
    if out is None:
        made = pages(words, "../")
        frames = {f"/{book.FOLDER}/{name}.html": made[name] for name in book.figure_names()}
        Thread(target=next(iter(frames.values())), daemon=True).start()  # the first figure, while the browser opens
        serve(book.html(names), port, open_browser, frames=frames)
    elif out.suffix.lower() in KINDS:
        outputs.check(out, HINT)
        wrote(book.write_file(out, _announced(pages(words)), names))
    elif out.suffix.lower() in DOCUMENTS:
        raise InputError(f"The book is one .html file or a folder, but got {out}. Give --out {out.with_suffix('.html')}.")
    else:
        outputs.check_folder(out, HINT)
        made = _announced(pages(words, "../index.html"))
        print(f"wrote {book.write_folder(out, made, names)} (open index.html, or host the folder anywhere)")


def _announced(pages: book.Pages) -> book.Pages:
    """The same pages; what is computed is said in the terminal, because some take seconds."""

    def announced(name: str, make: Callable[[], str]) -> str:
        print(f"figure {name}", file=sys.stderr)
        return make()

    return {name: partial(announced, name, make) for name, make in pages.items()}
