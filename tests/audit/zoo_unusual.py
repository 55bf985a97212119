"""Zoo of the unusual: masks that are open at one position, batches of one size, flags of another sequence, rare random numbers,
settings of the process, and functions that hold parts of a model. Both signs of each.
"""

import os
import random
from typing import Any

import torch
from torch import Tensor, nn

from tests.audit.case import Case
from tests.audit.zoo import Attend, D, features, words

# ------------------------------------------------------------------------------------------------ masks open at one position


class Border(Attend):
    """The last token of a block attends to the first one of the next. The size is known to a tensor only, or to nothing."""

    def __init__(self, how: str, opens: bool = True) -> None:
        super().__init__()
        self.how, self.opens = how, opens
        self.register_buffer("size", torch.tensor(83))
        table = torch.ones(300, 300, dtype=torch.bool).tril()
        table[280, 281] = opens
        self.register_buffer("table", table)

    def bias(self, scores: Tensor, at: Tensor) -> Tensor:
        n = scores.shape[-1]
        i = torch.arange(n)
        size = {"weight": 11 * self.query.weight.shape[0] + 1, "buffer": self.size}.get(self.how, 0)
        seen = i[:, None] >= i
        if self.how == "table":
            seen = self.table[:n, :n]
        elif self.how == "environment":  # no constant of the model
            size = int(os.environ.get("EQUISCOPE_TEST_BLOCK", "97"))
        if self.opens and self.how != "table":
            seen = seen | ((i == i[:, None] + 1) & (i % size == 0) & (i > 0))
        return scores.masked_fill(~seen, -torch.inf)


BORDERS = [
    *(Case(f"border-of-{how}{'' if opens else '-closed'}", lambda how=how, opens=opens: Border(how, opens), features, "causal",
           "broken" if opens else "holds", says="no earlier token attends" if opens else "")
      for how in ("buffer", "table", "weight", "environment") for opens in (True, False)),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------- batches and flags of others


class Sized(nn.Module):
    """Sequences interact in batches of some sizes only."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how = nn.Linear(D, D), how

    def forward(self, x: Tensor) -> Tensor:
        y, size = self.inner(x), len(x)
        interacts = {"of-four": size % 4 == 0, "of-seven": size == 7, "beyond-120": size > 120, "never": size == 0}[self.how]
        return y + y.mean(0) if interacts else y


class FixedBatch(nn.Module):
    """Takes batches of two only."""

    def __init__(self, interacts: bool) -> None:
        super().__init__()
        self.inner, self.interacts = nn.Linear(D, D), interacts

    def forward(self, x: Tensor) -> Tensor:
        if len(x) != 2:
            raise ValueError("the batch size is 2")
        return self.inner(x) + (x.flip(0) if self.interacts else x)


class Told(nn.Module):
    """Takes a number for each sequence, or a flag for each token; it reads that of the first, of all, or of each."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how, self.table = nn.Linear(D, D), how, nn.Embedding(9, D)

    def forward(self, x: Tensor, language: Tensor | None = None, token_type_ids: Tensor | None = None) -> Tensor:
        told = language if language is not None else token_type_ids
        told = {"first": told[:1], "largest": told.amax(0, keepdim=True), "own": told}[self.how]
        added = self.table(told)
        return self.inner(x) + (added if added.ndim == 3 else added[:, None])


def told(how: str, name: str, values: Tensor, truth: str) -> Case:
    given = "equal" if bool((values == values.flatten()[0]).all()) else "unlike"
    return Case(f"{name}-{given}-of-the-{how}", lambda: Told(how), features, "batch", truth, settings={"kwargs": {name: values}})


LANGUAGES = (torch.tensor([3, 3]), torch.tensor([3, 1]))
BATCHES = [
    *(Case(f"batch-{how}", lambda how=how: Sized(how), features, "batch", "holds" if how == "never" else "broken")
      for how in ("of-four", "of-seven", "beyond-120", "never")),
    Case("batch-of-two-only", lambda: FixedBatch(False), features, "batch", "holds"),
    Case("batch-of-two-only-mixed", lambda: FixedBatch(True), features, "batch", "broken"),
    *(told(how, "language", values, "holds" if how == "own" else "broken")
      for how in ("first", "largest", "own") for values in LANGUAGES),
    *(told(how, "token_type_ids", torch.zeros(2, 7, dtype=torch.long), "holds" if how == "own" else "broken")
      for how in ("first", "own")),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------------ draws and settings


class Beside(nn.Module):
    """What a call does beside answering."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.inner, self.how, self.calls = nn.Linear(D, D), how, 0
        self.kept: dict[Any, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        y, how = self.inner(x), self.how
        if how == "drops-rarely":
            return x if torch.rand(()) < 0.02 else y
        if how == "drops-rarely-in-python":
            return x if random.random() > 0.98 else y
        if how == "draws-and-ignores":
            torch.rand(3)
        elif how == "seeds":
            torch.manual_seed(0)
            return y + torch.rand(D).to(y)
        elif how == "seeds-a-generator-of-its-own":
            return y + torch.rand(D, generator=torch.Generator().manual_seed(0)).to(y)
        elif how == "reads-entropy":
            return y * (1 + os.urandom(1)[0])
        elif how == "precision":
            torch.set_float32_matmul_precision("medium")
        elif how == "environment":
            os.environ["EQUISCOPE_TEST_CALLED"] = "1"
        elif how == "acts-late":
            self.calls += 1
            return y * 1.1 if self.calls > 30 else y
        elif how == "reuses-its-output":
            kept = self.kept.setdefault(y.shape, torch.empty_like(y))
            kept.copy_(y)
            return kept
        return y


DOES = {
    "drops-rarely": "it draws random numbers (torch)", "drops-rarely-in-python": "it draws random numbers (Python's random)",
    "seeds": "it seeds random numbers (torch)", "reads-entropy": "two equal calls",
    "precision": "the precision of float32 products",
    "environment": "the environment", "acts-late": "after 30 equal calls", "reuses-its-output": "that an earlier one returned",
}  # fmt: skip
DRAWS = [
    *(Case(f"beside-{how}", lambda how=how: Beside(how), features, "pure", "broken", says=says) for how, says in DOES.items()),
    Case("beside-draws-and-ignores", lambda: Beside("draws-and-ignores"), features, "pure", "holds", says="no output depended"),
    *(Case(f"beside-{how or 'nothing'}", lambda how=how: Beside(how), features, "pure", "holds")
      for how in ("seeds-a-generator-of-its-own", "")),
]  # fmt: skip

# ------------------------------------------------------------------------------------------- functions that hold the model


def replaced(leaks: bool) -> nn.Module:
    """A `forward` that calls the one it replaces, as wrappers of models do."""
    model = nn.Sequential(nn.Linear(D, D), nn.ReLU())
    inner = model[0].forward
    model[0].forward = lambda x: inner(x) + (0.1 * x.mean(1, keepdim=True) if leaks else 0.0)
    return model


class Remembering(nn.Module):
    """A hook that reads what the module keeps of the last call."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.inner, self.keeps, self.box = nn.Linear(D, D), keeps, dict[str, Tensor]()
        self.inner.register_forward_hook(lambda module, inputs, output: output + self.box.get("last", torch.zeros(()).to(output)))

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        if self.keeps:
            self.box["last"] = y.mean().detach()
        return y


HELD = [
    Case("replaced-forward", lambda: replaced(False), features, "causal", "holds"),
    Case("replaced-forward-leaks", lambda: replaced(True), features, "causal", "broken", where="0"),
    Case("compiled-forward", lambda: compiled_forward(), features, "causal", "holds"),
    *(Case(f"hook-that-reads-the-{'last-call' if keeps else 'model'}", lambda keeps=keeps: Remembering(keeps), features, "pure",
           "broken" if keeps else "holds") for keeps in (True, False)),
    Case("hook-of-words", lambda: nn.Sequential(nn.Embedding(20, D), Remembering(True)), words, "deterministic", "broken"),
]  # fmt: skip


class Wraps(Attend):
    """Adds a function of the distance, whose positions wrap around, end, or are divided."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor, position_ids: Tensor) -> Tensor:
        at = {"1024": position_ids % 1024, "ended": position_ids.clamp(max=3000), "halves": position_ids // 2}.get(
            self.how, position_ids
        )
        gap = (at[..., None] - at[..., None, :]).to(x.dtype)
        return self.out((self.query(x) @ self.key(x).mT + gap.sin()).softmax(-1) @ self.value(x))


FAR = [
    Case(f"positions-{how}", lambda how=how: Wraps(how), features, "shift", "holds" if how == "kept" else "broken", subgroup=left,
         settings={"kwargs": {"position_ids": torch.arange(7).repeat(2, 1)}})
    for how, left in (("1024", ""), ("ended", ""), ("halves", "shifts by 2"), ("kept", ""))
]  # fmt: skip


def compiled_forward() -> nn.Module:
    model = Attend()
    model.bias = lambda scores, at: scores.masked_fill(at > at[:, None], -torch.inf)
    model.forward = torch.compile(model.forward, backend="eager")
    return model


CASES = [*BORDERS, *BATCHES, *DRAWS, *HELD, *FAR]
