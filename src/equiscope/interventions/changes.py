"""Changes of a forward pass: what replaces a value at a site. The methods of a `Site` make them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from equiscope.interventions.sites import Site


@dataclass(frozen=True, eq=False)
class Change:
    """A change at one site."""

    site: "Site"

    def __str__(self) -> str:
        return f"change {self.site}"


@dataclass(frozen=True, eq=False)
class Set(Change):
    """Replaced by numbers that broadcast to the value."""

    numbers: Tensor | float

    def __str__(self) -> str:
        number = f"{self.numbers:g}" if isinstance(self.numbers, (int, float)) else f"numbers {list(self.numbers.shape)}"
        return f"set {self.site} to {number}"


@dataclass(frozen=True, eq=False)
class ScaleBy(Change):
    """Multiplied by a factor."""

    factor: float

    def __str__(self) -> str:
        return f"scale {self.site} by {self.factor:g}"


@dataclass(frozen=True, eq=False)
class MeanAblation(Change):
    """Replaced by the mean over sequences and tokens of a run: of these inputs or this cache; None: of the unchanged run."""

    of: Any = None

    def __str__(self) -> str:
        return f"set {self.site} to its mean{'' if self.of is None else ' over other inputs'}"


@dataclass(frozen=True, eq=False)
class Patch(Change):
    """Replaced by the value of another run: of these inputs or this cache; None: of the unchanged run."""

    source: Any

    def __str__(self) -> str:
        return f"freeze {self.site}" if self.source is None else f"patch {self.site} from another run"


@dataclass(frozen=True, eq=False)
class Swap(Change):
    """Exchanged with another head or neuron of the same layer."""

    other: int

    def __str__(self) -> str:
        return f"swap {self.site} with {self.other}"


@dataclass(frozen=True, eq=False)
class Cut(Change):
    """A query token attends to these key tokens no longer. token None: every other token."""

    token: int | None
    keys: tuple[int, ...]

    def __str__(self) -> str:
        who = "every other token" if self.token is None else f"token {self.token}"
        return f"cut {self.site}: {who} does not attend to {', '.join(map(str, self.keys))}"


@dataclass(frozen=True, eq=False)
class MaskChange(Change):
    """Another mask. allowed: bool [N, M] or [B, H, N, M], True = may attend."""

    allowed: Tensor

    def __str__(self) -> str:
        return f"mask {self.site}: {int(self.allowed.sum())} of {self.allowed.numel()} pairs may attend"


@dataclass(frozen=True, eq=False)
class Move:
    """A token at another position: its order, and so the mask, stays. Rotations, tables of positions and biases by distance follow.

    token     number of the token
    position  number of a position; of pictures that this package's models read, (row, column)
    of        a part of the path of the modules that read positions, such as "decoder"; empty: all
    """

    token: int
    position: int | tuple[float, ...]
    of: str = ""

    def __str__(self) -> str:
        return f"move token {self.token} to position {self.position}"
