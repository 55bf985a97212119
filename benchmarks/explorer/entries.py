"""The measured pages: one entry per page, ours and the peers', with the command that writes it.

All peers take the same random causal attention, 12 layers x 12 heads, and its first layer alone. There are two pages of ours.
`equiscope explore --model` takes the model with this attention: its file has the tensors that the weights are computed from,
or, with --compact, rounded weights or rounded queries and keys. The page of a sentence, `equiscope explore SENTENCE`, shows one
layer of 12 heads of width 8; its file has the words and the parameters, and the page computes the attention, so its size hardly
grows. The notes of the entries say this.
"""

import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys

import numpy

from . import drawn

HERE = pathlib.Path(__file__).parent
HEADS, WIDTH = 12, 96
TEXT = """the quick brown fox jumps over a lazy dog while seven grey geese fly slowly south
and nobody by the old river mill looks up to count them or hear what they say"""
WORDS = TEXT.split()


@dataclasses.dataclass
class Entry:
    """One page to measure.

    export  the command that writes the page
    browse  what `browser.py` is told beside the path: what to hover, click first, drag
    note    what a reader must know before comparing
    """

    name: str
    layers: int
    tokens: int
    page: pathlib.Path
    export: list
    browse: dict
    note: str = ""

    @property
    def label(self):
        return f"{self.name}, {self.layers} layers, {self.tokens} tokens"


PEERS = {
    "bertviz head_view": ({"hover": "svg text"}, "all heads of one layer drawn"),
    "bertviz model_view": (
        {"click": "svg rect:not([class])", "hover": ".detail text[style*=end]"},
        "all heads drawn; hovered in the one opened by a click",
    ),
    "circuitsvis": ({"hover": "canvas"}, "all heads drawn; script inside (its other form: 1.3 MB less, 1 request)"),
    "inspectus": ({"hover": "rect.cell"}, "mean of all heads drawn; a hover shows a native tooltip, nothing is redrawn"),
}


def sentence(tokens):
    return list(itertools.islice(itertools.cycle(WORDS), tokens))


MOST = 256  # tokens up to which peers are tried: their pages grow with the square, to 806 MB and more at 1024


def peer_entries(folder, sizes, python, depths=(12, 1)):
    """Every peer at every size up to MOST, with 12 layers and with one; writes the files of weights that they read."""
    entries = []
    for tokens, layers in itertools.product((n for n in sizes if n <= MOST), depths):
        stem = folder / f"{layers}x{HEADS}x{tokens}"
        weights, words = stem.with_suffix(".npy"), stem.with_suffix(".json")
        numpy.save(weights, drawn.weights(tokens, layers))
        words.write_text(json.dumps(sentence(tokens)))
        for name, (browse, note) in PEERS.items():
            page = folder / f"{name.replace(' ', '-')}-{stem.name}.html"
            export = [python, HERE / "export_peer.py", name, weights, words, page]
            entries.append(Entry(name, layers, tokens, page, export, browse, note))
    return entries


def equiscope_command():
    """The `equiscope` that belongs to the running interpreter."""
    command = pathlib.Path(sys.executable).with_name("equiscope")
    if not command.exists():
        raise FileNotFoundError(
            f"No `equiscope` beside {pathlib.Path(sys.executable).name}. "
            "Install the project into this environment, or measure the peers alone with --only peers."
        )
    return command


# Hovered like the peers: the attention matrix, cells or canvas. `hover_first` is whatever comes first on the page.
BROWSE = {
    "hover": "[aria-label^='A, attention'] [role=gridcell], canvas[aria-label^='A, attention']",
    "hover_first": "[role=gridcell], canvas",
    "drag": "input[type=range]",
    "drag_at": "#story=slide",
}
OURS = (
    "one head drawn, with every other matrix of the layer; holds parameters, not recorded attention; "
    "the slider's page shows 8 words at most"
)


# The head in the middle is opened by a click; then its map is hovered, and its tokens.
BROWSE_HEADS = {
    "click": ".mosaic canvas",
    "ready": ".map figcaption:has-text('Rows are queries')",
    "hover": ".map .field",
    "hover_first": ".text .token",
}
ALL_HEADS = "all heads drawn small, one in full when it is opened; what is first: its tokens; "
EXACT = "every query, key and value, so that the page computes any change"


def heads_entries(folder, sizes, whole=256):
    """The page of all heads at every size, compact, and up to `whole` tokens with every number."""
    entries = []
    for tokens in sizes:
        factory = folder / f"drawn_{tokens}.py"
        path = repr(str(HERE.parents[1]))
        factory.write_text(
            f"import sys\n\nsys.path.insert(0, {path})\nfrom benchmarks.explorer.drawn import model\n\n\n"
            f"def make():\n    return model({tokens})\n"
        )
        for name, options in (("all heads", []), ("all heads, --compact", ["--compact"])):
            if not options and tokens > whole:
                continue
            page = folder / f"equiscope-heads-{len(options)}-{tokens}.html"
            export = [equiscope_command(), "explore", "--model", f"{factory}:make", "--export", page, *options]
            note = ALL_HEADS + ("weights, or queries and keys, rounded" if options else EXACT)
            entries.append(Entry(f"equiscope {name}", drawn.LAYERS, tokens, page, export, BROWSE_HEADS, note))
    return entries


def words_shown(explore):
    """The number of words that the page shows: a long sentence is truncated with a note, which a timing would not reveal."""
    done = subprocess.run([*map(str, explore), "--json"], capture_output=True, text=True, check=True)
    return len(json.loads(done.stdout)["words"])


def our_entries(folder, sizes):
    """The default page of three words, then one layer of 12 heads at every size."""
    cases = [(["Love", "conquers", "all"], []), *((sentence(n), ["--heads", str(HEADS), "--width", str(WIDTH)]) for n in sizes)]
    entries = []
    for words, options in cases:
        explore = [equiscope_command(), "explore", " ".join(words), *options]
        page, shown = folder / f"equiscope-{len(words)}.html", words_shown(explore)
        note = OURS if options else "default heads and width"
        if shown != len(words):
            note = f"asked for {len(words)} words, the page takes {shown}; {note}"
        entries.append(Entry("equiscope", 1, shown, page, [*explore, "--export", page], BROWSE, note))
    return entries


def empty_entry(folder):
    """An empty page: the cost of opening any page."""
    page = folder / "empty.html"
    write = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('<!doctype html><title>empty</title>')"
    return Entry("empty page", 0, 0, page, [sys.executable, "-c", write, page], {})
