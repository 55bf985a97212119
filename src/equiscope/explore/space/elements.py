"""Elements as they are drawn: how far their bonds reach, and in which colour.

Radii: Cordero et al. 2008, "Covalent radii revisited", table 2 (carbon: sp3; manganese to cobalt: low spin), in angstrom. Colours
follow the custom since Corey and Pauling's models; those of elements that are close together on the wheel differ in brightness.
"""

from equiscope.tokens.elements import SYMBOLS

RADII = (
    0.31, 0.28, 1.28, 0.96, 0.84, 0.76, 0.71, 0.66, 0.57, 0.58, 1.66, 1.41, 1.21, 1.11, 1.07, 1.05, 1.02, 1.06, 2.03, 1.76, 1.70,
    1.60, 1.53, 1.39, 1.39, 1.32, 1.26, 1.24, 1.32, 1.22, 1.22, 1.20, 1.19, 1.20, 1.20, 1.16, 2.20, 1.95, 1.90, 1.75, 1.64, 1.54,
    1.47, 1.46, 1.42, 1.39, 1.45, 1.44, 1.42, 1.39, 1.39, 1.38, 1.39, 1.40, 2.44, 2.15, 2.07, 2.04, 2.03, 2.01, 1.99, 1.98, 1.98,
    1.96, 1.94, 1.92, 1.92, 1.89, 1.90, 1.87, 1.87, 1.75, 1.70, 1.62, 1.51, 1.44, 1.41, 1.36, 1.36, 1.32, 1.45, 1.46, 1.48, 1.40,
    1.50, 1.50, 2.60, 2.21, 2.15, 2.06, 2.00, 1.96, 1.90, 1.87, 1.80, 1.69,
)  # fmt: skip
HEAVY = 1.69  # of elements beyond the table
KNOWN = """
    H hydrogen #e9e6df; He helium #c7ecec; Li lithium #b57be0; Be beryllium #a9c95f;
    B boron #f0a58f; C carbon #4b4f58; N nitrogen #3b63d6; O oxygen #e0382c;
    F fluorine #74c365; Ne neon #a8d8ea; Na sodium #9158d6; Mg magnesium #6fb53a;
    Al aluminium #b9a7a7; Si silicon #d9b48a; P phosphorus #ef8b1d; S sulfur #e6c72c;
    Cl chlorine #2fae4e; Ar argon #7fcfe0; K potassium #8547c9; Ca calcium #5a9e45;
    Fe iron #c9703a; Co cobalt #d77d93; Ni nickel #57b58f; Cu copper #c27e41;
    Zn zinc #7f86b3; Se selenium #e0a02c; Br bromine #a13b2b; I iodine #7d2c9e
"""  # symbol, name, colour
METAL = "#8f9bb0"  # of others
COLOURS = {symbol: colour for symbol, _, colour in map(str.split, KNOWN.split(";"))}
NAMES = {symbol: name for symbol, name, _ in map(str.split, KNOWN.split(";"))}


def radius(number: int) -> float:
    """Covalent radius in angstrom of an atomic number, 1 and up."""
    return RADII[number - 1] if number <= len(RADII) else HEAVY


def colour(number: int) -> str:
    return COLOURS.get(SYMBOLS[number - 1], METAL)


def name(number: int) -> str:
    """The English name where it is a common element, else the symbol."""
    return NAMES.get(SYMBOLS[number - 1], SYMBOLS[number - 1])
