"""The name of a difference of two masks: causal or not, its window, its alignment, the padding side."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Band:
    """Visible are the keys j with low <= j - i <= high; None: no bound on that side."""

    low: int | None
    high: int | None

    def __str__(self) -> str:
        sign = "-" if self.high is not None and self.high < 0 else "+"
        high = {None: "all later keys", 0: "no later key"}.get(self.high, f"keys up to i {sign} {abs(self.high or 0)}")
        if self.low is None:
            return high if self.high else "full causal" if self.high == 0 else high
        if self.high == 0:
            return f"a window of {1 - self.low} tokens"
        return f"keys from i {'+' if self.low > 0 else '-'} {abs(self.low)}, {high}"


def named(a: Tensor, b: Tensor) -> tuple[str, str, str]:
    """The kind of the difference and what each side does; masks [G, N, M], True for visible."""
    if all(bool((mask == mask[:1]).all()) for mask in (a, b)):
        bands = [_band(mask[0]) for mask in (a, b)]
        if bands[0] is not None and bands[1] is not None:
            return _of_bands(bands[0], bands[1], a.shape[-1] - a.shape[-2])
    hidden = [~mask.any(-2) for mask in (a, b)]  # keys that no query attends to
    if not torch.equal(*hidden) and _padding(hidden[0]) != _padding(hidden[1]):
        sides = _padding(hidden[0]), _padding(hidden[1])
        if all(sides):
            return "padding side", f"padding on the {sides[0]}", f"padding on the {sides[1]}"
        ours, theirs = (f"{int(keys.sum())} padding keys hidden" for keys in hidden)
        return "mask", ours, theirs
    return "mask", f"{int((b & ~a).sum())} pairs hidden that B shows", f"{int((a & ~b).sum())} pairs hidden that A shows"


def _of_bands(a: Band, b: Band, longer: int) -> tuple[str, str, str]:
    if a.high != b.high and a.low == b.low and longer and {a.high, b.high} == {0, longer}:
        says = {0: "the first query attends to the first key", longer: "the last query attends to the last key"}
        return "mask alignment", says[a.high or 0], says[b.high or 0]
    if a.high != b.high and a.low == b.low:
        return "causal", str(a), str(b)
    return ("window" if a.high == b.high else "mask"), str(a), str(b)


def _padding(hidden: Tensor) -> str:
    """Whether the hidden keys are the last or the first ones: "right", "left" or nothing."""
    for side, order in (("right", hidden), ("left", hidden.flip(-1))):
        if bool(hidden.any()) and bool((order.long().diff(dim=-1) >= 0).all()):
            return side
    return ""


def _band(mask: Tensor) -> Band | None:
    """The band that a mask [N, M] is; None where it is none."""
    n, m = mask.shape
    gap = torch.arange(m) - torch.arange(n).unsqueeze(-1)
    if not bool(mask.any()):
        return None
    low, high = int(gap[mask].min()), int(gap[mask].max())
    if not torch.equal(mask, (gap >= low) & (gap <= high)):
        return None
    return Band(low if low > int(gap.min()) else None, high if high < int(gap.max()) else None)
