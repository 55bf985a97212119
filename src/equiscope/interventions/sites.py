"""Sites: the values of a forward pass that can be changed, and the changes, which are methods of a site.

    head(2, 3).zero()              head 3 of layer 2 adds nothing
    head(2, 3).cut(7, 0)           its token 7 no longer attends to token 0
    stream(4).on(5).patch(other)   the residual stream of token 5 as it enters layer 4, from another input

Layers are attentions in the order in which they run, from 0. Heads, neurons and tokens are counted from 0; negative numbers count
from the end.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from torch import Tensor

from equiscope.errors import InputError, UnknownName
from equiscope.interventions.changes import Change, Cut, MaskChange, MeanAblation, Move, Patch, ScaleBy, Set, Swap

Quantity = Literal["q", "k", "v", "scores", "weights", "output", "stream", "neurons", "embeddings", "module", "input"]
OF_HEADS: tuple[Quantity, ...] = ("q", "k", "v", "scores", "weights", "output")
TRANSFORMER_LENS: dict[str, Quantity] = {  # blocks.L.NAME of TransformerLens -> quantity
    "attn.hook_q": "q", "attn.hook_k": "k", "attn.hook_v": "v", "attn.hook_attn_scores": "scores", "attn.hook_pattern": "weights",
    "attn.hook_z": "output", "mlp.hook_post": "neurons", "hook_resid_pre": "stream", "hook_resid_post": "stream",
}  # fmt: skip


@dataclass(frozen=True)
class Site:
    """A value of the forward pass, or a part of it. `head`, `stream`, `neuron`, `embeddings`, `module` and `site` make one.

    quantity  q, k, v, scores, weights, output: of attention heads, [B, H, N, K], [B, G, M, K], [B, H, N, M]; output is A·V before
              the output projection. Under grouped queries k and v have G heads
              stream: the residual stream [B, N, D] that enters a layer; embeddings: the one that enters the first layer
              neurons: [B, N, F], what the down-projection of a feed-forward reads
              module, input: what the module at `path` returns, or its first argument
    layer     number of the layer; None: every layer
    index     one head or neuron; None: all
    tokens    rows that change; None: all. Of k and v they are key tokens, of scores and weights query tokens
    entry     one number of each row: a feature, of scores and weights a key token; None: all
    of        a part of the module's path, such as "decoder": layers are counted among those
    """

    quantity: Quantity
    layer: int | None = None
    index: int | None = None
    tokens: tuple[int, ...] | None = None
    path: str = ""
    of: str = ""
    entry: int | None = None

    def on(self, *tokens: int, entry: int | None = None) -> Self:
        """The same site, for these tokens alone. entry: for one number of each: a feature, or of scores and weights a key token."""
        return replace(self, tokens=tokens or self.tokens, entry=entry)

    # --- quantities of a head
    def _quantity(self, quantity: Quantity) -> Self:
        if self.quantity not in OF_HEADS:
            raise InputError(f"{self} has no {quantity}: heads do. Use head(layer, index).{quantity}.")
        return replace(self, quantity=quantity)

    @property
    def q(self) -> Self:
        """Queries, after rotation by positions. [B, H, N, K]."""
        return self._quantity("q")

    @property
    def k(self) -> Self:
        """Keys, after rotation by positions; under grouped queries `index` counts key heads. [B, G, M, K]."""
        return self._quantity("k")

    @property
    def v(self) -> Self:
        """Values; under grouped queries `index` counts value heads. [B, G, M, V]."""
        return self._quantity("v")

    @property
    def scores(self) -> Self:
        """Scores before the softmax, masked pairs at minus infinity. [B, H, N, M]."""
        return self._quantity("scores")

    @property
    def weights(self) -> Self:
        """Attention weights (the pattern). [B, H, N, M]."""
        return self._quantity("weights")

    @property
    def output(self) -> Self:
        """Weights times values, before the output projection. [B, H, N, V]."""
        return self._quantity("output")

    # --- changes
    def set(self, numbers: Tensor | float) -> Change:
        """Replace the value by these numbers, which broadcast to it."""
        return Set(self, numbers)

    def zero(self) -> Change:
        """Replace the value by 0."""
        return Set(self, 0.0)

    def scale(self, factor: float) -> Change:
        """Multiply the value by a factor."""
        return ScaleBy(self, factor)

    def mean(self, of: Any = None) -> Change:
        """Replace the value by its mean over sequences and tokens (scores and weights: over sequences), in the unchanged run.

        of  inputs or a ActivationCache to take the mean over; by default the inputs of the experiment
        """
        return MeanAblation(self, of)

    def patch(self, source: Any) -> Change:
        """Replace the value by the same value of another run. source: inputs, an ActivationCache, or a dict of tensors by name."""
        return Patch(self, source)

    def freeze(self) -> Change:
        """Keep the value of the unchanged run, whatever other changes do before it."""
        return Patch(self, None)

    def swap(self, other: int) -> Change:
        """Exchange the value of this head or neuron with that of another one in the same layer."""
        if self.index is None:
            raise InputError(
                f"{self} is no single head or neuron, so it has none to swap with. Use head(layer, index).swap(other)."
            )
        return Swap(self, other)

    def cut(self, token: int | None, attends_to: int | Sequence[int]) -> Change:
        """Remove edges: this query token no longer attends to these key tokens. The other weights of the row grow to sum to 1.

        token  None: every token but the key token itself; in cross-attention every token
        """
        keys = (attends_to,) if isinstance(attends_to, int) else tuple(attends_to)
        return Cut(self._quantity("weights"), token, keys)

    def mask(self, allowed: Tensor) -> Change:
        """Replace the mask. allowed: bool, True = may attend, broadcast to [N, M] or [B, H, N, M]."""
        return MaskChange(self._quantity("weights"), allowed)

    def __str__(self) -> str:
        index = "" if self.index is None else f"H{self.index}" if self.quantity in OF_HEADS else f" {self.index}"
        of = f"{self.of} " if self.of else ""
        layer = "every layer" if self.layer is None else f"L{self.layer}"
        tokens = "" if self.tokens is None else f" on token {', '.join(map(str, self.tokens))}"
        if self.entry is not None:
            tokens += f" at {'key' if self.quantity in ('scores', 'weights') else 'feature'} {self.entry}"
        match self.quantity:
            case "module":
                name = self.path
            case "input":
                name = f"{self.path}.input"
            case "embeddings":
                name = f"{of}embeddings"
            case "stream":
                name = f"{of}stream entering {layer}"
            case "neurons":
                name = f"{of}{layer} neuron{index}" if index else f"{of}{layer} neurons"
            case _:
                name = f"{of}{layer}{index} {self.quantity}"
        return name + tokens


def head(layer: int | None = None, index: int | None = None, of: str = "") -> Site:
    """The output of an attention head; its properties are its q, k, v, scores and weights. index None: all heads."""
    return Site("output", layer, index, of=of)


def stream(layer: int, of: str = "") -> Site:
    """The residual stream that enters a layer; with the number of layers, the one that leaves the last."""
    return Site("stream", layer, of=of)


def neuron(layer: int | None = None, index: int | None = None, of: str = "") -> Site:
    """A neuron of a feed-forward, after its activation. index None: all of them."""
    return Site("neurons", layer, index, of=of)


def embeddings(of: str = "") -> Site:
    """What enters the first layer: the tokens with their positions."""
    return Site("embeddings", of=of)


def module(path: str) -> Site:
    """What a module returns: its first tensor."""
    return Site("module", path=path)


def move(token: int, position: int | tuple[float, ...], of: str = "") -> Move:
    """A token at another position; its order, and so the mask, stays.

    position  number of a position; of pictures that this package's models read also (row, column)
    of        a part of the path of the modules that read positions, such as "decoder"; empty: all
    """
    return Move(token, position, of)


OURS = re.compile(r"layers\.(\d+)\.(?:attention\.(q|k|v|scores|weights|output)|(stream)|feedforward\.(neurons))")
LENS = re.compile(r"blocks\.(\d+)\.(.+)")
INDEXED = re.compile(r"(.*?)\[(-?\d+)\]")


def site(name: str) -> Site:
    """A site by its name: ours ("layers.2.attention.weights[3]", "layers.2.stream", "embeddings"), that of TransformerLens
    ("blocks.2.attn.hook_z"), or a module's path, with the quantity of an attention behind it ("transformer.h.2.attn.weights[3]").

    raises  UnknownName for a hook of TransformerLens that is no site
    """
    found = INDEXED.fullmatch(name)
    plain, index = (found[1], int(found[2])) if found else (name, None)
    if plain in ("embeddings", "hook_embed_and_positions"):
        return embeddings()
    if ours := OURS.fullmatch(plain):
        quantity: Any = ours[2] or ours[3] or ours[4]
        return Site(quantity, int(ours[1]), index)
    lens = LENS.fullmatch(plain)
    if lens and "hook_" in lens[2]:
        if lens[2] not in TRANSFORMER_LENS:
            raise UnknownName("hook of TransformerLens among the sites", lens[2], list(TRANSFORMER_LENS))
        after = lens[2] == "hook_resid_post"
        return Site(TRANSFORMER_LENS[lens[2]], int(lens[1]) + after, index)
    path, _, last = plain.rpartition(".")
    if last in OF_HEADS and path:
        return Site(last, None, index, path=path)
    if last == "input" and path:
        return Site("input", None, index, path=path)
    return Site("module", None, index, path=plain)
