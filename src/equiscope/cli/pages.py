"""`equiscope explore --page NAME`: pages of one subject, without a model of one's own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from equiscope.errors import InputError, UnknownName
from equiscope.explore.page import Content
from equiscope.record import Cost, Masks, Messages, Tokenised

WORDS = "Love conquers all"


@dataclass(frozen=True)
class Said:
    """What a person gave beside the page's name; None where nothing."""

    sentence: str | None
    image: Path | None
    audio: Path | None
    video: Path | None
    seed: int


def masks(said: Said) -> Masks:
    from equiscope.explore.pages.masks import masks

    return masks(WORDS if said.sentence is None else said.sentence, said.seed)


def graph(said: Said) -> Messages:
    from equiscope.explore.pages.graph import graph

    return graph(WORDS if said.sentence is None else said.sentence, said.seed)


def cost(said: Said) -> Cost:
    from equiscope.cli.study import terminal_progress
    from equiscope.explore.pages.cost import cost
    from equiscope.study.speed import speeds

    return cost(speeds(seed=said.seed, each=terminal_progress))


def tokens(said: Said) -> Tokenised:
    from equiscope.explore.pages.tokens import tokens

    return tokens(said.image, said.audio, said.video)


PAGES: dict[str, Callable[[Said], Content]] = {"masks": masks, "graph": graph, "cost": cost, "tokens": tokens}
TAKES = {"masks": ("sentence",), "graph": ("sentence",), "cost": (), "tokens": ("image", "audio", "video")}


def run(name: str, said: Said, others: list[str], export: Path | None, port: int, open_browser: bool, json: bool) -> None:
    """Raises UnknownName for a page that there is not, InputError for what it does not take."""
    from equiscope.cli.explore import show

    if name not in PAGES:
        raise UnknownName("page", name, list(PAGES))
    wrong = others + [kind for kind in ("sentence", "image", "audio", "video") if getattr(said, kind) and kind not in TAKES[name]]
    if wrong:
        takes = " or ".join(TAKES[name]) or "nothing else"
        raise InputError(f"--page {name} takes {takes}, found {' and '.join(wrong)}. Leave that out.")
    show(PAGES[name](said), export, port, open_browser, json)
