"""Two more pairs for each kind of pair that was answered wrongly, in other models, written before `equiscope.parity` ran on them.

The author had read the code. `first_run.json` keeps each wrong answer before the mending. One plant was mended after it: an expert
without a bias had computed it and taken it away again.
"""

from functools import partial

import torch
from torch import nn

from ..planted_third.cases import SCORES, CaseByOperation
from ..planted_third.start import trained
from .attentions import DIM as WIDE
from .attentions import HEADS, Apart, Chunked, Fused, Kernels, OneRow, Packed, PortedStack, Stack
from .others import (
    DIM,
    Bank,
    Banked,
    Crew,
    Frames,
    FramesPort,
    Gated,
    GatedApart,
    Loop,
    Residuals,
    Spectrogram,
    SpectrogramPort,
    Translator,
    TranslatorPort,
)

LENGTH, SPLIT, WINDOW = 9, 5, 3


def stacks(ours, theirs, masks=None, at=1):
    """A stack of layers and its port; masks(fault): what the models make of their inputs, of A without a fault."""
    free = lambda x, *more: ()  # noqa: E731
    of = (lambda name: free) if masks is None else masks

    def port(a, fault):
        inner = PortedStack(a, theirs, fault, of(fault or "none"))
        if at == 0:
            first, second = (PortedStack(a, theirs, f, of("none")) for f in (fault, ""))
            wrong = type(first.layers[1])(a.blocks[0], theirs, fault)
            inner.layers = nn.ModuleList([wrong, second.layers[1]])
        return inner

    return lambda: Stack(ours, of("")), port


def chunks(ours, theirs, hidden):
    """Numbers in two chunks, with a causal mask and a window."""

    def keep(first, size):
        i, j = torch.arange(first, first + size)[:, None], torch.arange(first + size)[None]
        return (j <= i) & (i - j < WINDOW)

    def port(a, fault):
        return Chunked(PortedStack(a.inner, theirs, ""), SPLIT, partial(hidden, fault))

    return lambda: Chunked(Stack(ours), SPLIT, keep), port


def hidden_by_triangles(fault, first, size):
    shift = 0 if fault else first
    ones = torch.ones(size, first + size, dtype=torch.bool)
    return ones.triu(1 + shift) | ones.tril(shift - WINDOW)


def hidden_by_positions(fault, first, size):
    at = torch.arange(first + size)
    rows = at[:size] if fault else at[first:]
    return (at[None] > rows[:, None]) | (at[None] + WINDOW <= rows[:, None])


def around(reach):
    """Masks of two-sided windows, and the padding of each sequence."""

    def masks(fault):
        def made(x, keep):
            gap = torch.arange(x.shape[1]) - torch.arange(x.shape[1])[:, None]
            near = gap.abs() <= reach
            if fault == "window":
                near = gap.abs() <= reach - 1
            if fault == "one later too few":
                near = (gap >= -reach) & (gap < reach)
            visible = near & keep[:, None, None]
            return (~visible if fault else visible, None)

        return made

    return masks


def added(lowest, causal):
    """Slopes by distance, and a mask as a number that is added: A and its port hide with other numbers."""

    def masks(fault):
        def made(x, *keep):
            gap = (torch.arange(x.shape[1]) - torch.arange(x.shape[1])[:, None]).to(x.dtype)
            bias = -gap.abs() * torch.tensor([0.5, 0.25, 0.125, 0.0625], dtype=x.dtype)[:HEADS, None, None]
            low = lowest if fault else float("-inf") if causal else torch.finfo(x.dtype).min
            hidden = gap > 0 if causal else ~keep[0][:, None, None, :]
            return None, bias + torch.zeros(hidden.shape, dtype=x.dtype).masked_fill(hidden, low)

        return made

    return masks


def one_row(ours, theirs, row, how):
    make, port = stacks(ours, theirs)
    return make, lambda a, fault: OneRow(port(a, ""), port(a, fault), row, how) if fault else port(a, "")


def residuals(ours, theirs):
    def port(a, fault):
        parts = [theirs(old, fault if i == 1 else "") for i, old in enumerate(a.parts)]
        return Residuals(parts, list(a.norms))

    return lambda: Residuals([ours(), ours()]), port


FAMILIES = {
    "crew": residuals(Crew, Banked),
    "bank": residuals(Bank, Loop),
    "fused chunks": chunks(Fused, Kernels, hidden_by_triangles),
    "apart chunks": chunks(Apart, Packed, hidden_by_positions),
    "near": stacks(Fused, Kernels, around(2)),
    "nearer": stacks(Apart, Packed, around(3)),
    "fused": stacks(Fused, Kernels),
    "apart": stacks(Apart, Packed),
    "gated": residuals(Gated, GatedApart),
    "translator": (Translator, TranslatorPort),
    "padded": stacks(Fused, Kernels, added(-1e9, causal=False), at=0),
    "slopes": stacks(Apart, Packed, added(-3e4, causal=True), at=0),
    "row by where": one_row(Fused, Kernels, 0, "where"),
    "row by copy": one_row(Apart, Packed, 2, "index_copy"),
    "spectrogram": (Spectrogram, SpectrogramPort),
    "frames": (Frames, FramesPort),
}


def inputs_of(family):
    numbers = torch.randn(3, LENGTH, WIDE)
    keep = torch.ones(3, LENGTH, dtype=torch.bool)
    keep[1, 8:] = False
    return {
        "crew": lambda: (torch.randn(2, 11, DIM),),
        "bank": lambda: (torch.randn(2, 11, DIM),),
        "near": lambda: (numbers, keep),
        "nearer": lambda: (numbers, keep),
        "padded": lambda: (numbers, keep),
        "gated": lambda: (torch.randn(2, 7, DIM),),
        "translator": lambda: (torch.randint(31, (2, 8)), torch.randint(31, (2, 6))),
        "spectrogram": lambda: (torch.randn(2, 1, 9, 8),),
        "frames": lambda: (torch.randn(2, 10, 7),),
    }.get(family, lambda: (numbers,))()


def pair(family, fault=""):
    """The model, its port with the fault, arguments and keyword arguments."""
    torch.manual_seed(37)
    make, port = FAMILIES[family]
    a, inputs = trained(make()), inputs_of(family)
    return a, port(a, fault).eval(), inputs, {}


# family, fault, acceptable causes, module of the first differing step in A and in B, operations that are wrong there
ROWS = [
    ("crew", "activation", "activation", r"parts\.1\.experts\.\d\.1", r"parts\.1", ""),
    ("crew", "bias of the experts", "bias", r"parts\.1\.experts\.\d\.2", r"parts\.1", ""),
    ("bank", "activation", "activation", r"parts\.1", r"parts\.1", ""),
    ("bank", "bias of the experts", "bias", r"parts\.1", r"parts\.1(\.ups\.\d)?", ""),
    ("fused chunks", "mask alignment", "mask alignment", r"(inner\.blocks\.0\.attn)?", r"(inner\.layers\.0\.mix)?", SCORES),
    ("apart chunks", "mask alignment", "mask alignment", r"(inner\.blocks\.0\.attn)?", r"(inner\.layers\.0\.mix)?", SCORES),
    ("near", "window", "window", r"(blocks\.0\.attn)?", r"(layers\.0\.mix)?", SCORES),
    ("nearer", "window", "window", r"(blocks\.0\.attn)?", r"(layers\.0\.mix)?", SCORES),
    ("near", "one later too few", "window", r"(blocks\.0\.attn)?", r"(layers\.0\.mix)?", SCORES),
    ("fused", "bias of queries", "bias", r"blocks\.1\.attn(\.qkv)?", r"layers\.1\.mix", "softmax"),
    ("fused", "bias of values", "bias", r"blocks\.1\.attn(\.qkv)?", r"layers\.1\.mix", "softmax"),
    ("apart", "bias of queries", "bias", r"blocks\.1\.attn(\.q_proj)?", r"layers\.1\.mix", "softmax"),
    ("gated", "bias", "bias", r"parts\.1(\.w12)?", r"parts\.1(\.up_proj)?", ""),
    ("translator", "embedding scale", "embedding scale", r"(table)?", r"", ""),
    ("translator", "embedding scale of the target", "embedding scale", r"(table)?", r"", ""),
    ("fused", "scale of both", "softmax scale", r"blocks\.1\.attn", r"layers\.1\.mix", SCORES),
    ("fused", "scale of the stream", "softmax scale", r"blocks\.1\.attn", r"layers\.1\.mix", SCORES),
    ("apart", "scale of both", "softmax scale", r"blocks\.1\.attn", r"layers\.1\.mix", SCORES),
    ("padded", "scale", "softmax scale", r"blocks\.0\.attn", r"layers\.0\.mix", SCORES),
    ("slopes", "scale", "softmax scale", r"blocks\.0\.attn", r"layers\.0\.mix", SCORES),
    ("padded", "soft-cap", "soft-cap", r"blocks\.0\.attn", r"layers\.0\.mix", SCORES),
    ("fused", "scaled weights", "softmax scale|scale", r"blocks\.1\.attn", r"layers\.1\.mix", SCORES),
    ("apart", "scaled weights", "softmax scale|scale", r"blocks\.1\.attn", r"layers\.1\.mix", SCORES),
    ("row by where", "activation", "activation", r"blocks\.1\.act", r"wrong\.layers\.1", ""),
    ("row by copy", "scale", "softmax scale", r"blocks\.1\.attn", r"wrong\.layers\.1\.mix", SCORES),
    ("spectrogram", "order of patches", "exchanged|weights", r"patches", r"", "add"),
    ("frames", "order in a token", "exchanged|weights", r"(stem)?", r"", "gelu"),
    ("fused", "heads merged", "exchanged|head order", r"blocks\.1\.attn(\.proj)?", r"layers\.1\.mix(\.out)?", "softmax"),
]


def planted(family, fault, kinds, a, b, never):
    cause = "embedding scale" if fault.startswith("embedding scale") else fault
    name = f"kinds-{family.replace(' ', '_')}-{fault.replace(' ', '_')}-torch"
    make = partial(pair, family, fault)
    return CaseByOperation(name, cause, frozenset(kinds.split("|")), family.split()[0], "torch", a, b, make, never)


CASES = [planted(*row) for row in ROWS]
HEALTHY = {f"healthy-kinds-{family.replace(' ', '_')}-torch": partial(pair, family) for family in FAMILIES}
