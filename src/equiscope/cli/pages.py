"""`equiscope explore --page NAME`: pages about one subject that need no model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from equiscope.errors import InputError, UnknownName
from equiscope.explore.page import Content
from equiscope.record import Cost, Masks, Messages, Molecule, Patches, Reach, Tokenised

if TYPE_CHECKING:
    from equiscope.cli.explore import PageOutput

WORDS = "Love conquers all"


@dataclass(frozen=True)
class PageInputs:
    """Inputs of a page; None where not given."""

    sentence: str | None
    image: Path | None
    audio: Path | None
    video: Path | None
    seed: int


def masks(inputs: PageInputs) -> Masks:
    from equiscope.explore.pages.masks import masks

    return masks(WORDS if inputs.sentence is None else inputs.sentence, inputs.seed)


def graph(inputs: PageInputs) -> Messages:
    from equiscope.explore.pages.graph import graph

    return graph(WORDS if inputs.sentence is None else inputs.sentence, inputs.seed)


def cost(inputs: PageInputs) -> Cost:
    from equiscope.cli.study import terminal_progress
    from equiscope.explore.pages.cost import cost
    from equiscope.study.speed import speeds

    return cost(speeds(seed=inputs.seed, each=terminal_progress))


def tokens(inputs: PageInputs) -> Tokenised:
    from equiscope.explore.pages.tokens import tokens

    return tokens(inputs.image, inputs.audio, inputs.video)


def image(inputs: PageInputs) -> Patches:
    from equiscope.explore.pages.image import image

    return image(inputs.image)


def molecule(inputs: PageInputs) -> Molecule:
    """Ethanol, which comes with the package and has a trained model."""
    from equiscope import trained
    from equiscope.explore.pages.molecule import molecule

    return molecule(trained.HOME / "ethanol" / "examples" / "ethanol.xyz", seed=inputs.seed)


def reach(inputs: PageInputs) -> Reach:
    from equiscope.explore.pages.reach import reach

    return reach()


PAGES: dict[str, Callable[[PageInputs], Content]] = {
    "masks": masks, "graph": graph, "cost": cost, "tokens": tokens, "image": image, "molecule": molecule,
    "reach": reach,
}  # fmt: skip
TAKES = {
    "masks": ("sentence",), "graph": ("sentence",), "cost": (), "tokens": ("image", "audio", "video"), "image": ("image",),
    "molecule": (), "reach": (),
}  # fmt: skip


def run(name: str, inputs: PageInputs, others: list[str], output: "PageOutput") -> None:
    """Raises UnknownName for an unknown page, InputError for inputs that it does not take."""
    if name not in PAGES:
        raise UnknownName("page", name, list(PAGES))
    wrong = others + [kind for kind in ("sentence", "image", "audio", "video") if getattr(inputs, kind) and kind not in TAKES[name]]
    if wrong:
        takes = " or ".join(TAKES[name]) or "nothing else"
        raise InputError(f"--page {name} takes {takes}, found {' and '.join(wrong)}. Leave that out.")
    output.show(PAGES[name](inputs))
