"""A molecule as a small picture: its atoms in the plane in which they spread most, in the colours of chemistry, with bonds.

Source of the radii: Cordero et al. 2008, "Covalent Radii Revisited". Colours as in Jmol, of the elements that are frequent.
"""

import base64
import io

import torch
from jaxtyping import Float
from torch import Tensor

from equiscope.data.frame import MoleculeFrame
from equiscope.tokens.elements import SYMBOLS

SIZE, FINE, MARGIN = 200, 3, 0.9  # pixels; times as fine while it is drawn; Å around the atoms
RADII = {"H": 0.31, "B": 0.84, "C": 0.76, "N": 0.71, "O": 0.66, "F": 0.57, "Si": 1.11, "P": 1.07, "S": 1.05, "Cl": 1.02, "Br": 1.2}
COLOURS = {
    "H": "#f4f4f4", "B": "#ffb5b5", "C": "#6b6b6b", "N": "#4a68f0", "O": "#f0382b", "F": "#7fd44f", "P": "#ff8c1a", "S": "#e6c72e",
    "Cl": "#37c837", "Br": "#a83232",
}  # fmt: skip
OTHER, OTHER_RADIUS, BOND = "#b08fd0", 1.3, 1.25  # and how much longer than both radii a bond is at most
MOST, FAR = 400, 1e6  # atoms that are drawn, and Å from the origin, at most


def drawn(frame: MoleculeFrame) -> str:
    """The data: URL of a PNG with a transparent ground; empty for very many atoms, and for atoms that are far away."""
    from PIL import Image, ImageDraw

    if len(frame.numbers) > MOST or not float(frame.positions.abs().max()) < FAR:
        return ""
    places, symbols = in_plane(frame.positions), [SYMBOLS[n - 1] for n in frame.numbers.tolist()]
    low, high = places[:, :2].amin(0) - MARGIN, places[:, :2].amax(0) + MARGIN
    scale = SIZE * FINE / float((high - low).max())
    at = ((places[:, :2] - low) * scale).tolist()
    wide, tall = (max(1, round(x)) for x in ((high - low) * scale).tolist())
    image = Image.new("RGBA", (wide, tall))
    pen = ImageDraw.Draw(image)
    radii = torch.tensor([RADII.get(symbol, OTHER_RADIUS) for symbol in symbols], dtype=torch.float64)
    near = torch.cdist(places, places) < BOND * (radii[:, None] + radii)
    for i, j in near.triu(1).nonzero().tolist():
        pen.line([*at[i], *at[j]], fill="#8a8a8a", width=round(0.16 * scale))
    for i in places[:, 2].argsort().tolist():  # what is nearer covers what is farther
        r, (x, y) = float(0.32 + 0.25 * radii[i]) * scale, at[i]
        pen.ellipse([x - r, y - r, x + r, y + r], COLOURS.get(symbols[i], OTHER), "#4d4d4d", max(1, round(0.05 * scale)))
    image = image.resize((max(1, wide // FINE), max(1, tall // FINE)), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def in_plane(positions: Float[Tensor, "N 3"]) -> Float[Tensor, "N 3"]:
    """Positions in their principal axes: the widest first, the depth last."""
    centred = positions.double() - positions.double().mean(0)
    _, axes = torch.linalg.eigh(centred.T @ centred)
    return centred @ axes.flip(-1)
