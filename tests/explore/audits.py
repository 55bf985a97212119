"""Audits for tests of what shows them: of a small GPT with two planted faults, of a model that promises, and a hostile one."""

from functools import cache

import torch
from torch import Tensor, nn

import equiscope as eq
from equiscope.audit import check
from equiscope.record import Audit, Counterexample, Mark, Proof, Row

HOSTILE = "</script><script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"
CONTROL = "\x1b[31mred\x1b[0m\x00\x07 [bold]markup[/bold]"


class Looks(nn.Module):
    """One head; a `leak` of 1 lets every token see the next."""

    def __init__(self, width: int, leak: int) -> None:
        super().__init__()
        self.asks, self.answers, self.leak = nn.Linear(width, 3 * width), nn.Linear(width, width), leak

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[-2]
        q, k, v = self.asks(x).chunk(3, -1)
        scores = (q @ k.transpose(-1, -2)).masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(self.leak), float("-inf"))
        return self.answers(scores.softmax(-1) @ v)


class Layer(nn.Module):
    def __init__(self, width: int, leak: int) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Looks(width, leak)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm(x))


class Mixes(nn.Module):
    """A batch's rows meet, a little."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1e-3 * x.mean(0, keepdim=True)


class Small(nn.Module):
    """Layer 1 attends to later tokens, and the batch is mixed at the end."""

    def __init__(self, layers: int = 3, width: int = 16, leaky: int = 1) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(20, width), nn.Embedding(32, width)
        self.layers = nn.ModuleList(Layer(width, int(i == leaky)) for i in range(layers))
        self.mix, self.head = Mixes(), nn.Linear(width, 20)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids) + self.place(torch.arange(input_ids.shape[-1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.mix(x))


@cache
def planted() -> Audit:
    """Of Small: causal and batch fail."""
    torch.manual_seed(0)
    return check(
        Small(), torch.randint(20, (2, 7)), properties=["deterministic", "batch", "causal", "left-padding"], actions=["permute"],
        effort="quick", target="models:small", proof=False,
    )  # fmt: skip


@cache
def promised() -> Audit:
    """Of our own GPT-2: nothing fails, symmetries that it does not promise do not hold."""
    torch.manual_seed(0)
    return check(eq.build(eq.models.PRESETS["gpt2"](16, 1, 2, 20, 32)), torch.randint(20, (1, 5)), effort="quick", proof=False)


def audit(*rows: Row, **more: object) -> Audit:
    """A record with these rows."""
    said = {"target": "toy", "model": "Toy", "parameters": 7, "dtype": "float32", "device": "cpu", "inputs": "x: ids [1, 3]"}
    return Audit(rows=list(rows), **(said | more))  # type: ignore[arg-type]


def row(name: str = "causal", **more: object) -> Row:
    """A row that fails, unless something else is said."""
    said = {"kind": "property", "verdict": "broken", "fails": True, "error": 0.5, "errors": [0.5], "floor": 1e-16, "samples": 4}
    return Row(name=name, **(said | more))  # type: ignore[arg-type]


def hostile(text: str = HOSTILE) -> Audit:
    """Every text that may come from somebody's model is this one."""
    found = Counterexample(text=text, error=0.5, element={text: text}, inputs={})
    proof = Proof(answer="refuted", operation=text, where=text, reason=text)
    trail = [Mark(module=text, error=0.5), Mark(module="Toy", error=0.5)]
    words = dict.fromkeys(("summary", "output", "reason", "where", "cause", "subgroup", "note"), text)
    bad = row(text, claimed="yes", counterexample=found, trail=trail, proof=proof, **words)
    return audit(bad, target=text, model=text, inputs=text, notes=[text], versions={text: text})


def deep(modules: int = 400) -> Audit:
    """A model of this many layers, of which number 150 is at fault."""
    trail = [Mark(module=f"layers.{i}", error=0.0 if i < 150 else 0.3, depth=1) for i in range(modules)]
    return audit(row(where="layers.150", trail=[*trail, Mark(module="Toy", error=0.3)]))
