"""`equiscope figure`: put a page into another document."""

from pathlib import Path

from equiscope import outputs
from equiscope.explore import figure


def run(file: Path, state: str, part: str, title: str, embed: Path | None) -> None:
    """Write the script beside the page and print the tag, or write both and the page as one piece of HTML."""
    _, found = figure.read(file)
    if embed is not None:
        wrote(outputs.write(embed, figure.embedded(file, title, state, part), "Choose another file with --embed."))
        return
    wrote(outputs.write(file.parent / figure.SCRIPT, figure.script()))
    print(f'\n<script src="{figure.SCRIPT}" defer></script>')
    print(figure.tag(file.name, title or found, state, part, figure.name_of(file)), end="")


def wrote(path: Path) -> None:
    print(f"wrote {path} ({path.stat().st_size / 1000:.0f} kB)")
