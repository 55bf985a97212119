"""The name of a difference of two masks: causal or not, its window, its alignment, the padding side."""

from dataclasses import dataclass

import torch
from torch import Tensor

from equiscope.errors import counted


@dataclass(frozen=True)
class Band:
    """Visible are the keys j with low <= j - i <= high; None: no bound on that side."""

    low: int | None
    high: int | None

    def __str__(self) -> str:
        if self.low is None and self.high is None:
            return "every key"
        if self.low is not None and self.high == -self.low and self.high:
            return f"a window of {counted(self.high, 'token')} on each side"
        sign = "-" if self.high is not None and self.high < 0 else "+"
        high = {None: "all later keys", 0: "no later key"}.get(self.high, f"keys up to i {sign} {abs(self.high or 0)}")
        if self.low is None:
            return high if self.high else "full causal"
        if self.high == 0:
            return f"a window of {1 - self.low} tokens"
        return f"keys from i {'+' if self.low > 0 else '-'} {abs(self.low)}, {high}"

    def moved(self, by: int) -> "Band":
        """The band so many keys later."""
        return Band(None if self.low is None else self.low + by, None if self.high is None else self.high + by)

    def mask(self, gap: Tensor) -> Tensor:
        """Where these gaps j - i are visible."""
        low, high = (-torch.inf if self.low is None else self.low), (torch.inf if self.high is None else self.high)
        return (gap >= low) & (gap <= high)


def named(a: Tensor, b: Tensor) -> tuple[str, str, str]:
    """The kind of the difference and what each side does; masks [G, N, M], True for visible."""
    hidden = [~mask.any(-2) for mask in (a, b)]  # keys that no query attends to
    bands = [_band(mask) for mask in (a, b)]
    same_keys = torch.equal(*hidden) or all(bool((mask == mask[:1]).all()) for mask in (a, b))
    if bands[0] is not None and bands[1] is not None and bands[0] != bands[1] and same_keys:
        return _of_bands(bands[0], bands[1], a.shape[-2], a.shape[-1])
    if not torch.equal(*hidden) and _padding(hidden[0]) != _padding(hidden[1]):
        sides = _padding(hidden[0]), _padding(hidden[1])
        if all(sides):
            return "padding side", f"padding on the {sides[0]}", f"padding on the {sides[1]}"
        ours, theirs = (f"{int(keys.sum())} padding keys hidden" for keys in hidden)
        return "mask", ours, theirs
    nested = torch.equal(a & b, b) or torch.equal(a & b, a)
    if nested and (reaches := _reaches(a | b, a & b)) is not None:
        return "window", *(reaches if torch.equal(a & b, b) else reaches[::-1])
    ours, theirs = (f"{int((x & ~y).sum())} further pairs hidden" for x, y in ((b, a), (a, b)))
    return "mask", ours, theirs


def _reaches(wide: Tensor, inner: Tensor) -> tuple[str, str] | None:
    """How far each of two nested masks reaches, where beyond some distance the inner one hides most of what the wide one shows.

    So it is a window although another rule shows or hides some pairs too, such as those of an image or of padding.
    """
    n, m = wide.shape[-2:]
    gap, hidden, words = torch.arange(m) - torch.arange(n).unsqueeze(-1), wide & ~inner, list[tuple[str, str]]()
    for which, distance in (("before", -gap), ("after", gap)):
        found = distance[(hidden & (distance > 0)).any(0)] if hidden.ndim > 2 else distance[:0]
        if found.numel():
            near, far = int(found.min()), int(found.max())
            lines = [distance == i for i in range(near, far + 1)]
            if near == 1 or any(2 * int(hidden[:, line].sum()) <= int(wide[:, line].sum()) for line in lines):
                return None
            words.append((f"up to {far} {which}", f"up to {near - 1} {which}"))
    if not words or bool(hidden.diagonal(0, -2, -1).any()):
        return None
    says = [" and ".join(dict.fromkeys(one[i] for one in words)) for i in range(2)]
    return f"tokens {says[0]}", f"tokens {says[1]}"


def _of_bands(a: Band, b: Band, queries: int, keys: int) -> tuple[str, str, str]:
    longer = keys - queries
    causal = {0, longer}  # the highest visible gap of a causal mask
    if a.high is not None and b.high is not None and a.high != b.high and {a.high, b.high} == causal:
        gap, by = torch.arange(keys) - torch.arange(queries).unsqueeze(-1), b.high - a.high
        moved = ((a.moved(by), b), (b.moved(-by), a))  # a bound beyond the ends is not seen
        if a.low == b.low or any(torch.equal(x.mask(gap), y.mask(gap)) for x, y in moved):
            says = {0: "the first query attends to the first key", longer: "the last query attends to the last key"}
            return "mask alignment", says[a.high], says[b.high]
    two_sided = a.low is not None or b.low is not None
    if a.high == b.high or (two_sided and not {a.high, b.high} & causal):
        return "window", str(a), str(b)
    return ("causal" if a.low == b.low else "mask"), str(a), str(b)


def _padding(hidden: Tensor) -> str:
    """Whether the hidden keys are the last or the first ones: "right", "left" or nothing."""
    for side, order in (("right", hidden), ("left", hidden.flip(-1))):
        if bool(hidden.any()) and bool((order.long().diff(dim=-1) >= 0).all()):
            return side
    return ""


def _band(mask: Tensor) -> Band | None:
    """The band that masks [G, N, M] are, apart from keys and queries that are hidden altogether; None where they are none."""
    n, m = mask.shape[-2:]
    gap = (torch.arange(m) - torch.arange(n).unsqueeze(-1)).expand(mask.shape)
    shown = mask.any(-2, keepdim=True) & mask.any(-1, keepdim=True)
    if not bool(mask.any()):
        return None
    low, high = int(gap[mask].min()), int(gap[mask].max())
    if not torch.equal(mask, (gap >= low) & (gap <= high) & shown):
        return None
    return Band(low if low > int(gap[shown].min()) else None, high if high < int(gap[shown].max()) else None)
