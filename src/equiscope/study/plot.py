"""Plots of results: the only file of `study` that needs matplotlib, and only when a plot is requested."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equiscope import outputs
from equiscope.errors import InputError
from equiscope.study.base import Curve, Panel, StudyResult
from equiscope.tokens.extra import needed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#1f6f8b", "#d1495b", "#2e8b57", "#8e5ea2", "#e08e0b", "#5f6b76", "#3f51b5", "#a0522d", "#00897b", "#c2185b")
STYLE: Any = {
    "font.size": 9, "axes.titlesize": 9.5, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e6e8eb", "grid.linewidth": 0.6, "axes.edgecolor": "#9aa3ab", "legend.frameon": False, "legend.fontsize": 8,
    "svg.hashsalt": "equiscope", "figure.dpi": 110,
}  # fmt: skip


def draw(result: StudyResult, path: Path) -> Path:
    """All panels of a finding, side by side, as PNG or SVG by the name's ending.

    raises  InputError for another ending, and where matplotlib is not installed
    """
    if path.suffix not in (".png", ".svg"):
        raise InputError(f"Pictures are PNG or SVG, but the name is {path.name!r}. End it with .png or .svg.")
    matplotlib = installed()
    kind, drawn = path.suffix[1:], BytesIO()
    with matplotlib.rc_context(STYLE):
        _figure(result).savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return outputs.write(path, drawn.getvalue())


def installed() -> Any:
    """The package that draws. Raises InputError where it is not installed."""
    return needed("matplotlib", "study", "A picture", "use --json")


def _figure(result: StudyResult) -> "Figure":
    from matplotlib.figure import Figure

    many, matrices = len(result.panels), result.panels[0].matrix is not None
    names = {tuple(line.name for line in panel.lines) for panel in result.panels}
    together = len(names) == 1 and max(map(len, names)) > 1 and (many > 1 or max(map(len, names)) > 6)
    width, height = (2.1, 2.6) if matrices else (3.9, 3.3)
    figure = Figure(figsize=(max(5.0, width * many) + 1.6 * together, height), layout="constrained")
    figure.suptitle(result.title, fontsize=11)
    largest = max((abs(v) for p in result.panels if p.matrix for row in p.matrix for v in row), default=1.0)
    for axes, panel in zip(figure.subplots(1, many, squeeze=False)[0], result.panels, strict=True):
        axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        if panel.matrix:
            axes.imshow(panel.matrix, cmap="RdBu_r", vmin=-largest, vmax=largest)
            axes.grid(False)
        else:
            _lines(axes, panel, not together)
    if together:  # one legend for all panels
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center")
    return figure


def _lines(axes: "Axes", panel: Panel, legend: bool) -> None:
    for number, line in enumerate(panel.lines):
        _line(axes, line, COLOURS[number % len(COLOURS)], ("-", "-.")[number // len(COLOURS) % 2])
    if "x" in panel.log:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    if "y" in panel.log:
        axes.set_yscale("log")
    if legend and len(panel.lines) > 1:
        axes.legend()


def _line(axes: "Axes", line: Curve, colour: str, style: str) -> None:
    y = [float("nan") if v is None else v for v in line.y]
    if line.dashed:
        axes.plot(line.x, y, "--", color="#5f6b76", linewidth=1.1, label=line.name)
    elif line.marked:
        axes.plot(line.x, y, "o", color=colour, markersize=3.5, label=line.name)
    else:
        axes.plot(line.x, y, style, color=colour, linewidth=1.6, label=line.name)
    if line.low and line.high:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
