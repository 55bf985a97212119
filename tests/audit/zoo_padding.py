"""Zoo: models with padding masks, with positions that they count, and with caches."""

import math
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from tests.audit.case import Case
from tests.audit.zoo import Attend, D, Turned, V, later, turn, words

MASK = -math.inf


class Padded(nn.Module):
    """Words, places, attention that does not look at padding. One thing may be wrong.

    how  "" is right; "ignores" the mask; "rows" counts rows instead of words; "faint" hides with -10; "billion" with -1e9;
         "inverted" takes 1 for padding; "values" hides scores but adds the mean of all rows; "first" reads row 0 beside
    """

    def __init__(self, how: str = "", causal: bool = False) -> None:
        super().__init__()
        self.embed, self.table, self.how, self.causal = nn.Embedding(V, D), nn.Embedding(64, D), how, causal
        self.query, self.key, self.value = (nn.Linear(D, D) for _ in range(3))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        places = (real.cumsum(-1) - 1).clamp(min=0)
        if self.how == "rows":
            places = torch.arange(input_ids.shape[-1]).expand_as(input_ids)
        x = self.embed(input_ids) + self.table(places)
        scores = self.query(x) @ self.key(x).mT
        hidden = (real == (1 if self.how == "inverted" else 0))[:, None, :].expand_as(scores)
        if self.how == "faint":
            scores = scores - 10.0 * hidden
        elif self.how != "ignores":
            scores = scores.masked_fill(hidden, -1e9 if self.how == "billion" else MASK)
        if self.causal:
            scores = scores.masked_fill(later(scores), MASK)
        out = scores.softmax(-1).nan_to_num(0.0) @ self.value(x)
        if self.how == "values":
            out = out + x.mean(-2, keepdim=True)
        return out + x[:, :1] if self.how == "first" else out


class PaddingMask(Padded):
    """The same with a mask of the name `padding_mask`, which is true at words or at padding, and may be needed."""

    def __init__(self, how: str = "", true: str = "words") -> None:
        super().__init__(how)
        self.true = true

    def forward(self, input_ids: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        if padding_mask is None:
            return super().forward(input_ids)
        return super().forward(input_ids, (padding_mask if self.true == "words" else ~padding_mask).long())


class BoolMask(Padded):
    """The same, which takes no mask but a boolean one."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        mask = None if attention_mask is None else torch.where(attention_mask, 1, 0)
        return super().forward(input_ids, mask)


class Summary(nn.Module):
    """The mean of the words, or of all rows."""

    def __init__(self, right: bool) -> None:
        super().__init__()
        self.embed, self.right = nn.Embedding(V, D), right

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embed(input_ids)
        if attention_mask is None or not self.right:
            return x.mean(-2)
        real = attention_mask[..., None].to(x.dtype)
        return (x * real).sum(-2) / real.sum(-2)


class TorchEncoder(nn.Module):
    """torch's encoder, where True is padding."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 16, batch_first=True), 2, enable_nested_tensor=False)

    def forward(self, x: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        return self.inner(x, src_key_padding_mask=src_key_padding_mask)


class Keeps(nn.Module):
    """Rotary attention with a cache. how: "" is right; what else it does wrong.

    "forgets" keeps the last four only; "length" has frequencies that follow the length (dynamic NTK); "overwrites" writes into the
    cache that it was given; "clock" counts every piece from 0; "stale" gives the first cache back for ever; "blind" makes no mask
    between the words of a piece. "unrotated" rotates keys when they are read, not when they are cached, and is right
    """

    def __init__(self, how: str = "") -> None:
        super().__init__()
        self.embed, self.how = nn.Embedding(V, D), how
        self.query, self.key, self.value = (nn.Linear(D, D) for _ in range(3))

    def forward(self, input_ids: Tensor, past_key_values: Any = None, use_cache: bool = False) -> Any:
        x, n = self.embed(input_ids), input_ids.shape[-1]
        seen = 0 if past_key_values is None else past_key_values[2]
        at = torch.arange(seen, seen + n).to(x.dtype)
        if self.how == "clock":
            x = x + torch.arange(n).to(x.dtype)[:, None]
        base = 100.0 * max((seen + n) / 4, 1.0) if self.how == "length" else 100.0
        rates = base ** -(torch.arange(D // 2).to(x.dtype) / (D // 2))
        k, v = self.key(x), self.value(x)
        if self.how != "unrotated":
            k = turn(k, at, rates)
        if past_key_values is not None:
            old, values = past_key_values[:2]
            if self.how == "overwrites":
                old.mul_(0.9)
            k, v = torch.cat([old, k], -2), torch.cat([values, v], -2)
        kept = (k, v, seen + n)
        if self.how == "forgets":
            kept = (k[:, -4:], v[:, -4:], seen + n)
        if self.how == "stale" and past_key_values is not None:
            kept = past_key_values
        keys = turn(k, torch.arange(k.shape[-2]).to(x.dtype), rates) if self.how == "unrotated" else k
        scores = turn(self.query(x), at, rates) @ keys.mT
        if not (self.how == "blind" and past_key_values is not None):
            scores = scores.masked_fill(later(scores, 1 + k.shape[-2] - n), MASK)
        return SimpleNamespace(logits=scores.softmax(-1) @ v, past_key_values=kept if use_cache else None)


class KeepsWithLengths(Keeps):
    """The lengths are those of the words so far: each is at most the number of words that were read."""

    def forward(self, input_ids: Tensor, lengths: Tensor, past_key_values: Any = None, use_cache: bool = False) -> Any:
        read = input_ids.shape[-1] + (0 if past_key_values is None else past_key_values[2])
        assert lengths.max() <= read
        return super().forward(input_ids, past_key_values, use_cache)


def padded(name: str, how: str, statement: str, truth: str, causal: bool = False, **more: Any) -> Case:
    return Case(f"padding-{name}-{statement}", lambda: Padded(how, causal), words, statement, truth, **more)


SIDES = ("left-padding", "right-padding")

PADDING = [
    *(padded("right", "", side, "holds", causal=causal) for side in SIDES for causal in [False]),
    *(padded("right-causal", "", side, "holds", causal=True) for side in SIDES),
    *(padded("mask-ignored", "ignores", side, "broken") for side in SIDES),
    *(padded("mask-of-minus-ten", "faint", side, "broken") for side in SIDES),
    *(padded("mask-of-minus-a-billion", "billion", side, "holds") for side in SIDES),
    *(padded("mask-inverted", "inverted", side, "broken") for side in SIDES),
    *(padded("mean-of-all-rows", "values", side, "broken") for side in SIDES),
    *(
        Case(
            f"padding-mask-true-at-{true}-{how or 'right'}-{side}",
            lambda how=how, true=true: PaddingMask(how, true),
            words,
            side,
            truth,
        )
        for true in ("words", "padding")
        for how, truth in (("", "holds"), ("faint", "broken"), ("values", "broken"))
        for side in SIDES
    ),
    *(Case(f"padding-boolean-mask-{side}", BoolMask, words, side, "holds") for side in SIDES),
    padded("rows-counted", "rows", "left-padding", "broken", proof="a word gets the place of its row"),
    padded("rows-counted", "rows", "right-padding", "holds", proof="no word gets another row"),
    padded("first-row-read", "first", "left-padding", "broken"),
    padded("first-row-read", "first", "right-padding", "holds"),
    padded("mask-ignored-causal", "ignores", "right-padding", "holds", causal=True, proof="nothing looks to the right"),
    padded("mask-ignored-causal", "ignores", "left-padding", "broken", causal=True),
    Case("padding-torch-left", TorchEncoder, lambda: (torch.randn(2, 7, D),), "left-padding", "holds"),
    Case("padding-torch-right", TorchEncoder, lambda: (torch.randn(2, 7, D),), "right-padding", "holds"),
    *(Case(f"padding-summary-of-words-{side}", lambda: Summary(True), words, side, "holds") for side in SIDES),
    *(Case(f"padding-summary-of-rows-{side}", lambda: Summary(False), words, side, "broken") for side in SIDES),
    Case("padding-no-mask", Attend, lambda: (torch.randn(2, 7, D),), "left-padding", "not applicable", says="no padding mask"),
]


def counted() -> tuple[Tensor, Tensor]:
    (ids,) = words()
    return ids, torch.full((len(ids),), ids.shape[-1])


def keeping(how: str, truth: str, **more: Any) -> Case:
    return Case(f"cache-{how or 'right'}", lambda: Keeps(how), words, "cache", truth, **more)


CACHE = [
    keeping("", "holds"),
    keeping("forgets", "broken"),
    keeping("length", "broken", proof="the keys that were kept were turned by other frequencies"),
    keeping("unrotated", "holds", proof="keys rotated late are rotated by the same angles"),
    keeping("overwrites", "broken"),
    keeping("clock", "broken"),
    keeping("stale", "broken"),
    keeping("blind", "broken", proof="pieces of one word need no mask, longer ones do"),
    Case("cache-none", lambda: Turned(), lambda: (torch.randn(2, 7, D),), "cache", "not applicable", says="keeps no cache"),
    *(
        Case(f"cache-with-lengths-{how or 'right'}", lambda how=how: KeepsWithLengths(how), counted, "cache", truth)
        for how, truth in (("", "holds"), ("clock", "broken"))
    ),
    Case("cache-two-words", Keeps, lambda: words(2), "cache", "not applicable", says="too few"),
]

CASES = [*PADDING, *CACHE]
