"""Planted bugs: a small correct GPT, and copies of it with one typical bug each.

Rotary or learned positions, a causal mask, a cache of keys and values, nothing else. Every bug is one method or one module that is
replaced; `BUGS` gives the statement that shows it and the faulty module.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

WIDTH, HEADS, WORDS = 32, 2, 17
HEAD = WIDTH // HEADS
Kept = tuple[Tensor, Tensor]  # keys and values so far, [B, H, M, K]


@dataclass
class Written:
    """Scores of the next word, and what is kept for it."""

    logits: Tensor
    past_key_values: list[Kept] | None


def angles(at: Tensor, like: Tensor) -> Tensor:
    """[..., N, K/2]"""
    rates = 100.0 ** -(torch.arange(HEAD // 2) / (HEAD // 2))
    return at[..., None].to(like.dtype) * rates.to(like.dtype)


def half_split(x: Tensor, angle: Tensor) -> Tensor:
    """Features i and i + K/2 are turned together."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def interleaved(x: Tensor, angle: Tensor) -> Tensor:
    """Features 2i and 2i + 1 are turned together."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten(-2)


class Attention(nn.Module):
    """Causal attention; queries and keys are rotated by their positions."""

    def __init__(self, rotary: bool = True) -> None:
        super().__init__()
        self.queries, self.keys, self.values, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.rotary = rotary

    def turned(self, q: Tensor, k: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        angle = angles(at, q)[:, None]
        return half_split(q, angle), half_split(k, angle)

    def hidden(self, queries: int, keys: int) -> Tensor:
        """True where a query may not look."""
        return torch.ones(queries, keys, dtype=torch.bool).triu(1 + keys - queries)

    def forward(self, x: Tensor, at: Tensor, past: Kept | None = None) -> tuple[Tensor, Kept]:
        q, k, v = (part(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in (self.queries, self.keys, self.values))
        if self.rotary:
            q, k = self.turned(q, k, at)
        if past is not None:
            k, v = torch.cat([past[0], k], -2), torch.cat([past[1], v], -2)
        scores = (q @ k.mT / HEAD**0.5).masked_fill(self.hidden(q.shape[-2], k.shape[-2]), float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)), (k, v)


class Block(nn.Module):
    """Attention, then a feed-forward part, each after a norm and beside what came in."""

    def __init__(self, rotary: bool) -> None:
        super().__init__()
        self.first, self.attend = nn.LayerNorm(WIDTH), Attention(rotary)
        self.second, self.feed = nn.LayerNorm(WIDTH), nn.Sequential(nn.Linear(WIDTH, 48), nn.GELU(), nn.Linear(48, WIDTH))

    def forward(self, x: Tensor, at: Tensor, past: Kept | None = None) -> tuple[Tensor, Kept]:
        mixed, kept = self.attend(self.first(x), at, past)
        x = x + mixed
        return x + self.feed(self.second(x)), kept


class Count(nn.Module):
    """The places of words: how many were read before."""

    def forward(self, input_ids: Tensor, seen: int) -> Tensor:
        return (torch.arange(input_ids.shape[-1]) + seen).expand_as(input_ids)


class GPT(nn.Module):
    """Three blocks over words."""

    def __init__(self, rotary: bool = True) -> None:
        super().__init__()
        self.embed, self.count = nn.Embedding(WORDS, WIDTH), Count()
        self.table = None if rotary else nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList(Block(rotary) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor | None = None,
        past_key_values: list[Kept] | None = None,
        use_cache: bool = False,
    ) -> Written:
        seen = past_key_values[0][0].shape[-2] if past_key_values else 0
        at = self.count(input_ids, seen) if position_ids is None else position_ids
        x = self.embed(input_ids)
        if self.table is not None:
            x = x + self.table(at)
        kept = []
        for i, block in enumerate(self.blocks):
            x, now = block(x, at, past_key_values[i] if past_key_values else None)
            kept.append(now)
        return Written(self.head(self.norm(x)), kept if use_cache else None)


# ---------------------------------------------------------------------------------------------------------------- bugs


class OneAhead(Attention):
    """The mask begins one too late."""

    def hidden(self, queries: int, keys: int) -> Tensor:
        return torch.ones(queries, keys, dtype=torch.bool).triu(2 + keys - queries)


class MixedLayout(Attention):
    """Queries of one convention, keys of the other."""

    def turned(self, q: Tensor, k: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        angle = angles(at, q)[:, None]
        return half_split(q, angle), interleaved(k, angle)


class Clipped(Attention):
    """Places beyond 4 are 4."""

    def turned(self, q: Tensor, k: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
        return super().turned(q, k, at.clamp(max=4))


class Late(Count):
    """After the first step, one too few."""

    def forward(self, input_ids: Tensor, seen: int) -> Tensor:
        return super().forward(input_ids, seen - 1 if seen else 0)


class OldKeys(Attention):
    """What was read last is forgotten."""

    def forward(self, x: Tensor, at: Tensor, past: Kept | None = None) -> tuple[Tensor, Kept]:
        cut = None if past is None else (past[0].roll(1, -2), past[1])
        return super().forward(x, at, cut)


class NormTokens(nn.Module):
    """A layer norm over the tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x.mT, x.shape[1:2]).mT


class NormByHand(nn.Module):
    """The same by hand, over the wrong axis."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(1, keepdim=True)) * (x.var(1, keepdim=True) + 1e-5).rsqrt()


class NormBatch(nn.Module):
    """Over the sequences of a batch."""

    def forward(self, x: Tensor) -> Tensor:
        return x / (x.abs().amax(0, keepdim=True) + 1e-5)


@dataclass(frozen=True)
class Bug:
    """statement: which shows it; where: the module; says: words that the cause has to hold."""

    name: str
    place: str
    made: Callable[[bool], nn.Module]
    statement: str
    says: str
    rotary: tuple[bool, ...] = (True, False)


BUGS = [
    Bug("mask-off-by-one", "blocks.1.attend", OneAhead, "causal", "token i attends to token i + 1: the mask is off by one"),
    Bug(
        "rotary-layout-mixed",
        "blocks.1.attend",
        MixedLayout,
        "shift",
        "queries in pairs (i, i + 8), keys in pairs (2i, 2i + 1)",
        (True,),
    ),
    Bug("positions-clipped", "blocks.1.attend", Clipped, "shift", "positions beyond 4 are not distinguished", (True,)),
    Bug("cache-position", "count", lambda rotary: Late(), "cache", "positions"),
    Bug("cache-of-wrong-keys", "blocks.1.attend", OldKeys, "cache", "keys"),
    Bug("norm-over-tokens", "blocks.1.first", lambda rotary: NormTokens(), "causal", "layer_norm over the axis of tokens"),
    Bug("norm-over-tokens-by-hand", "blocks.1.second", lambda rotary: NormByHand(), "causal", "mean over the axis of tokens"),
    Bug("norm-over-the-batch", "blocks.1.first", lambda rotary: NormBatch(), "batch", "amax over the batch axis"),
]


def planted(bug: Bug, rotary: bool) -> GPT:
    """A right GPT in which one module is exchanged; its parameters stay."""
    model = GPT(rotary)
    path, _, name = bug.place.rpartition(".")
    made, right = bug.made(rotary), model.get_submodule(bug.place)
    if isinstance(made, Attention):
        made.load_state_dict(right.state_dict())
    setattr(model.get_submodule(path), name, made)
    return model


def given() -> Tensor:
    return torch.randint(WORDS, (2, 9))
