"""Position schemes: each says where it acts (input, queries and keys, scores) and which actions it preserves.

`SCHEMES` is the one list of them: the laws, the command line, the page and the docs read it. A new scheme is one file, one
line here and one test.
"""

from equiscope.position.alibi import Alibi
from equiscope.position.base import Added, Position
from equiscope.position.concatenated import Concatenated
from equiscope.position.index import Index
from equiscope.position.learned import Learned
from equiscope.position.none import NoPosition
from equiscope.position.registry import from_json, make, to_json
from equiscope.position.rope import Rope
from equiscope.position.sinusoidal import Sinusoidal

SCHEMES: tuple[type[Position], ...] = (NoPosition, Index, Sinusoidal, Learned, Concatenated, Rope, Alibi)

__all__ = [
    "SCHEMES",
    "Added",
    "Alibi",
    "Concatenated",
    "Index",
    "Learned",
    "NoPosition",
    "Position",
    "Rope",
    "Sinusoidal",
    "from_json",
    "make",
    "to_json",
]
