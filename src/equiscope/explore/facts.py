"""Numbers that the page quotes and cannot replay (a best linear map is no step of a transformer), measured when it is made."""

import torch
from torch import Tensor

from equiscope.position.frequencies import ladder
from equiscope.record import Fact
from equiscope.symmetry import relative_error


def best_map_error(encoding: Tensor, steps: int = 5) -> float:
    """Relative error of the best linear map from p[i] to p[i + steps], fitted to all rows of an encoding [N, D]."""
    before, after = encoding[:-steps], encoding[steps:]
    return relative_error(before @ torch.linalg.lstsq(before, after, driver="gelsd").solution, after)


def facts() -> list[Fact]:
    """Why sines come with cosines: the best linear step with and without them, width 8, 105 places."""
    turned = torch.arange(105, dtype=torch.float64)[:, None] * ladder(4, 10000.0)
    sines, both = best_map_error(turned.sin()), best_map_error(torch.cat([turned.sin(), turned.cos()], 1))
    source = "equiscope.explore.facts.best_map_error"
    return [
        Fact(
            name="sines-only",
            value=sines,
            text="the best linear map from p_i to p_i+5 with sines only leaves",
            source=source,
        ),
        Fact(name="sine-cosine", value=both, text="with sine and cosine it leaves", source=source),
    ]
