"""Our attention on given queries, keys and values, one contestant for each scheme that acts on them."""

import dataclasses
from collections.abc import Callable

import torch

from equiscope import positions
from equiscope.attention import Causal, MultiHeadAttention
from equiscope.tokens import Tokens


@dataclasses.dataclass(frozen=True)
class Case:
    """One causal attention: its sizes, device and dtype."""

    length: int
    batch: int = 4
    heads: int = 8
    width: int = 64
    dtype: torch.dtype = torch.float32
    device: str = "cpu"


Function = Callable[..., torch.Tensor]  # q, k, v [B, H, T, K] to [B, T, H*K]


@dataclasses.dataclass(frozen=True)
class Contestant:
    """make(case) returns the function of q, k, v and its parameters; same: the contestant whose function it has to equal."""

    name: str
    who: str
    make: Callable[[Case], tuple[Function, list[torch.Tensor]]]
    same: str
    note: str = ""


class Ready(MultiHeadAttention):
    """Attention without projections: its queries, keys and values are given."""

    def project(self, tokens, source, scheme):
        q, k, v = self.given
        return scheme.rotate(q, tokens.positions, "query"), scheme.rotate(k, source.positions, "key"), v


def sized(scheme, case):
    """The scheme at the sizes of a case, with the same random table every time."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = scheme.sized(case.heads * case.width, case.heads, case.width)
    return made.to(case.device, torch.promote_types(case.dtype, torch.float32))  # tables stay in float32 beside bfloat16


def attention(scheme, backend="auto", weights=False):
    """`make` of a Contestant: the context is computed in every forward pass, as in a model."""

    def make(case):
        made = sized(scheme, case)
        module = Ready(1, case.heads, case.width, output=False, mask=Causal(), backend=backend).to(case.device, case.dtype)
        x = torch.zeros(case.batch, case.length, 1, dtype=case.dtype, device=case.device)

        def run(q, k, v):
            module.given = q, k, v
            tokens = Tokens.of(x)
            return module.attend(tokens, made)[0] if weights else module(tokens, made)

        return run, list(made.parameters())

    return make


def schemes():
    """Every listed scheme of one axis that acts on queries, keys or scores, and the variants that peers have."""
    listed = {s.name: s() for s in positions.SCHEMES}
    acting = {
        n: s
        for n, s in listed.items()
        if s.axes in (1, None) and any(s.acts(p) for p in ("rotate", "score_bias", "content_bias", "value_bias"))
    }
    variants = {"rope, half-split": positions.Rope(pairs="half")}
    if "t5" in acting:
        variants["t5, one side"] = changed(acting["t5"], bidirectional=False)
    return {"none": positions.NoPosition()} | acting | variants


def changed(scheme, **changes):
    """The scheme with other settings."""
    return type(scheme)(**(scheme.settings | changes))


def contestants():
    found = [Contestant(name, "ours", attention(scheme), name) for name, scheme in schemes().items()]
    for name in ("none", "rope", "alibi"):
        found.append(
            Contestant(
                f"{name}, weights returned",
                "ours",
                attention(schemes()[name], weights=True),
                name,
                "look: the output and the weights",
            )
        )
    return found


def exact(name, case):
    """The function of a scheme in float64, with the eager backend."""
    scheme = schemes()[name]
    return attention(scheme, backend="eager")(dataclasses.replace(case, dtype=torch.float64, device="cpu"))
