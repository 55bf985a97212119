"""Spec: a model as data. Parts are objects in Python and names in files; every valid spec can be built.

A spec converts to and from JSON without loss; defaults are left out of the file.
"""

import copy
import math
import operator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import ClassVar, Literal, Self

from equiscope.attention import (
    AttentionKind,
    Causal,
    Dot,
    Everything,
    Mask,
    MultiHeadAttention,
    ScaledDot,
    ScoreFunction,
    Window,
    kind_from_json,
    kind_to_json,
    mask_from_json,
    mask_to_json,
    score_from_json,
    score_to_json,
)
from equiscope.errors import InputError, UnknownName
from equiscope.models.readout import READOUTS
from equiscope.positions import NoPosition, Position, from_json, to_json
from equiscope.spec_base import ByName, Count, ModelSpec, Named, Share, Size, SpecPart

POSITION = Named(Position, "a scheme, such as Rope()", to_json(NoPosition()), to_json, from_json)
MASK = Named(Mask, "a mask, such as Blocks(8)", "everything", mask_to_json, mask_from_json)
KIND = Named(
    AttentionKind, 'a kind of attention, such as AttentionKind("linformer", rank=8)', "softmax", kind_to_json, kind_from_json
)
SCORE = Named(ScoreFunction, "a score, such as Dot()", "scaled-dot", score_to_json, score_from_json)


@dataclass(frozen=True)
class Attention(SpecPart):
    """Multi-head attention. head_width: D / heads by default; value_width: head_width by default.

    kv_heads  number of key and value heads, shared by groups of query heads; as many as heads by default
    window    a token attends to tokens less than this many ranks away; None for all
    mask      a further mask, joined to causal and window by `and`: Blocks(8), Causal() | Prefix(4), ...
    bias      whether the projections have a bias; "qkv" or "output": only those
    qk_norm   a norm of queries and keys in each head; None for none
    score     the score function of query and key: ScaledDot(), Dot(), General(), Additive(), Concat()
    scale     factor of ScaledDot(); 1 / sqrt(K) by default
    cap       soft cap of the scores, cap * tanh(score / cap); None for none
    kind      Kind("linformer", rank=8); a name of `attention.KINDS`; or your subclass of MultiHeadAttention
    """

    heads: Size = 1
    kv_heads: Size | None = None
    head_width: Size | None = None
    value_width: Size | None = None
    position: ByName[Position] = POSITION.field(NoPosition)
    causal: bool = False
    window: Size | None = None
    mask: ByName[Mask] = MASK.field(Everything)
    bias: bool | Literal["qkv", "output"] = False
    qk_norm: Literal["rms", "layer"] | None = None
    score: ByName[ScoreFunction] = SCORE.field(ScaledDot)
    scale: float | None = None
    cap: float | None = None
    kind: ByName[AttentionKind] = KIND.field(lambda: AttentionKind("softmax"))  # a class becomes an AttentionKind too
    backend: Literal["auto", "eager", "sdpa", "flex", "chunked"] = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.kind, type) and issubclass(self.kind, MultiHeadAttention):
            object.__setattr__(self, "kind", AttentionKind(self.kind))
        super().__post_init__()
        if self.kind.name == "differential" and (
            self.position.acts("content_bias") or self.position.acts("value_bias") or self.position.name == "pope"
        ):
            raise InputError(f"Differential attention halves its heads, which {type(self.position).__name__} cannot read.")
        self._check_score()

    def _check_score(self) -> None:
        for name in ("scale", "cap"):  # given to the score or to the attention
            own = self.score.settings.get(name)
            if own is not None and getattr(self, name) not in (None, own):
                raise InputError(f"Attention.{name} is {getattr(self, name)}, but its score has {own}. Set it once.")
            if own is not None:
                object.__setattr__(self, name, own)
                object.__setattr__(self, "score", type(self.score)(**self.score.settings | {name: None}))
            if getattr(self, name) is not None and name not in self.score.settings:
                raise InputError(f"The score {self.score.name} has no {name}. Leave it out, or use ScaledDot().")
        if self.cap is not None and not self.cap > 0:
            raise InputError(f"A cap is larger than 0, but got {self.cap}. Use cap=None for none.")
        if self.backend in ("sdpa", "flex") and (not self.score.fused or (self.backend == "sdpa" and self.cap is not None)):
            what = f"{self.score.name} scores" if not self.score.fused else "capped scores"
            raise InputError(f"The backend {self.backend!r} cannot compute {what}. Use auto, eager or chunked.")
        if self.position.name == "pope" and not isinstance(self.score, (ScaledDot, Dot)):
            raise InputError(f"PoPE widens queries and keys, which {self.score.name} scores cannot read. Use scaled-dot or dot.")

    def explicit(self, width: int) -> Self:
        """The same attention with every size set, for a model of this width; a default scale is left out."""
        wide = self.head_width or width // self.heads
        scale = None if self.scale is not None and math.isclose(self.scale, wide**-0.5) else self.scale
        kv_heads, value_width = self.kv_heads or self.heads, self.value_width or wide
        return replace(self, scale=scale, kv_heads=kv_heads, head_width=wide, value_width=value_width)

    @property
    def joint_score(self) -> ScoreFunction:
        """The score with its scale and cap, before its size is set."""
        settings = {name: getattr(self, name) for name in ("scale", "cap") if name in self.score.settings}
        return type(self.score)(**self.score.settings | settings)

    @property
    def joint_mask(self) -> Mask:
        """Causal, window and mask, joined into one mask; a copy, as each model has its own mask."""
        masks: list[Mask] = [Causal()] if self.causal else []
        masks += [Window(self.window)] if self.window else []
        masks += [] if isinstance(self.mask, Everything) else [copy.deepcopy(self.mask)]
        return reduce(operator.and_, masks) if masks else Everything()


@dataclass(frozen=True)
class Norm(SpecPart):
    """kind "layer" or "rms"; order "pre" (before each sublayer) or "post" (after its residual); bias: for "layer" only."""

    kind: Literal["layer", "rms"] = "layer"
    order: Literal["pre", "post"] = "pre"
    eps: float = 1e-5
    bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.eps < math.inf:
            raise InputError(f"Norm.eps is {self.eps}, but should be a small number, such as 1e-5.")


@dataclass(frozen=True)
class FeedForward(SpecPart):
    """inner: hidden features, 4 times the width by default. gated: multiplied by an activated second map (SwiGLU)."""

    inner: Size | None = None
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "tanh"] = "gelu"
    bias: bool = True
    gated: bool = False


@dataclass(frozen=True)
class Block(SpecPart):
    """One layer; norm and feed-forward may be None.

    cross     cross-attention to the output of an encoder, between the two; None for none
    parallel  attention and feed-forward read the same input (GPT-NeoX)
    """

    attention: Attention = field(default_factory=Attention)
    norm: Norm | None = field(default_factory=Norm)
    feedforward: FeedForward | None = field(default_factory=FeedForward)
    residual: bool = True
    parallel: bool = False
    cross: Attention | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parallel and self.norm is not None and self.norm.order == "post":
            raise InputError('Parallel sublayers read one input, so no norm can stand between them. Use order="pre".')
        if self.cross is not None and self.cross.kind.name in ("linear", "linformer", "nystrom"):
            raise InputError(
                f"Attention of the kind {self.cross.kind.name!r} cannot be used for cross-attention. Use another kind for cross."
            )
        if self.cross is not None and self.parallel:
            raise InputError("Cross-attention stands between two sublayers, which parallel sublayers do not allow.")
        if self.cross is not None and (self.cross.position.acts("embed") or type(self.cross.joint_mask) is not Everything):
            raise InputError(
                "Cross-attention attends to all encoder tokens, without causal, window and mask; its scheme rotates queries and "
                "keys or adds to scores; a scheme that adds to tokens belongs to the block's self-attention."
            )

    def explicit(self, width: int) -> Self:
        """The same block with every size set, for a model of this width."""
        f, cross = self.feedforward, self.cross
        return replace(
            self, attention=self.attention.explicit(width), cross=None if cross is None else cross.explicit(width),
            feedforward=None if f is None else replace(f, inner=f.inner or 4 * width),
        )  # fmt: skip


@dataclass(frozen=True)
class InputLayer(SpecPart):
    """How inputs become tokens, before the first layer.

    features   number of raw features of a token, [..., N, features], mapped linearly to the width; None for none
    patch      whole inputs are cut into cells, one token each: (samples,) of a sound [..., T], (rows, columns) of an
               image [..., C, H, W], (frames, rows, columns) of a video [..., T, C, H, W]
    positions  of the cells: "grid", one number for each axis; or "index", the one number of the cell in row-major order, which
               schemes with one axis read
    stem       channels of the samples, then of convolutions before the map: kernel 3, stride 2, ReLU; so cells
               overlap (Xiao et al. 2021). n of them make cells of 2^n along each axis; features: channels of the last one.
               Of a sound, tokens that hold cells are taken too: their positions and padding are kept
    types      number of token types, whose embeddings are added (BERT's sentence A or B)
    scale      factor of the embedding (sqrt(D) in Vaswani et al. 2017)
    norm       whether a norm of the blocks' kind follows, after positions are added (BERT, BLOOM)
    registers  number of learned register tokens beside the class token (DeiT's distillation token, DINOv2)
    map        whether raw features are mapped to the width; if not, they are padded with zeros
    separator  ids that end a document: attention stays within a document, whatever the mask; positions count on
    columns    number of values of each column beside the input, such as a price range: its value, which has an embedding, is one
               token in front
    """

    features: Size | None = None
    patch: tuple[Size, ...] | None = None
    positions: Literal["grid", "index"] = "grid"
    stem: tuple[Size, ...] | None = None
    types: Size | None = None
    scale: float | None = None
    norm: bool = False
    registers: Size | None = None
    map: bool = True
    separator: tuple[Count, ...] | None = None
    columns: tuple[Size, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.map and (self.features is None or self.stem is not None):
            raise InputError("map=False takes raw features unmapped: give features, and no stem, which maps them.")
        if self.separator is not None:
            object.__setattr__(self, "separator", tuple(self.separator))
            if not self.separator or self.features is not None:
                what = "none" if not self.separator else f"features={self.features}, raw numbers"
                raise InputError(f"A separator is one id or more of a vocabulary, but got {what}. Leave it out.")
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))
            if not self.columns:
                raise InputError("columns has the number of values of each column, but is empty. Leave it out.")
        if self.positions == "index" and self.patch is None:
            raise InputError(
                'positions="index" numbers the cells that whole inputs are cut into, but there is no patch. '
                "Give patch=(rows, columns), or leave positions out."
            )
        if self.patch is not None:
            object.__setattr__(self, "patch", tuple(self.patch))
            if not 1 <= len(self.patch) <= 3:
                raise InputError(f"A patch has one axis (sound), two (pictures) or three (video), but got {self.patch}.")
        if self.stem is not None:
            object.__setattr__(self, "stem", tuple(self.stem))
            self._check_stem(self.stem)
        elif self.patch is not None and (self.features is None or self.features % math.prod(self.patch)):
            raise InputError(
                f"A patch {self.patch} has features = channels x {math.prod(self.patch)}, but got features={self.features}."
            )

    def _check_stem(self, stem: tuple[int, ...]) -> None:
        if len(stem) < 2:
            raise InputError(
                f"A stem has the samples' channels and those of one convolution or more, e.g. (3, 64), but got {stem}."
            )
        if self.patch is None or set(self.patch) != {2 ** (len(stem) - 1)}:
            side = 2 ** (len(stem) - 1)
            raise InputError(
                f"{len(stem) - 1} convolutions with stride 2 make cells of {side} along each axis, but patch is {self.patch}. "
                f"Say patch={(side,) * len(self.patch or (0, 0))}, or another stem."
            )
        if self.features != stem[-1]:
            raise InputError(
                f"The stem gives {stem[-1]} features a token, but features is {self.features}. Say features={stem[-1]}."
            )

    @property
    def channels(self) -> int:
        """Channels of the samples that are cut into cells."""
        return self.stem[0] if self.stem else (self.features or 0) // math.prod(self.patch or (1,))


@dataclass(frozen=True)
class OutputLayer(SpecPart):
    """The final linear map, to the `outputs` of the spec.

    bias    whether it has a bias
    scale   factor of its input (T5's tied map: 1 / sqrt(D))
    hidden  activation of a map [D, D] before it (BERT's transform and pooler); None for no such map
    norm    whether a norm of the blocks' kind stands between the two
    """

    bias: bool = False
    scale: float | None = None
    hidden: Literal["relu", "gelu", "gelu-tanh", "silu", "tanh"] | None = None
    norm: bool = False


@dataclass(frozen=True)
class Spec(ModelSpec):
    """A model of sequences.

    width       D
    vocabulary  size of the learned embedding table; None takes features [..., N, D]
    input       the input layer: raw features, patches, token types
    layers      number of blocks
    block       the block of every layer; or several, which repeat in order
    readout     pooling: "each" (one output a token), "mean", "first", "last", "concatenation", "class"
    outputs     number of outputs of the final linear map; None for no map
    tied        the final map is the embedding table, transposed
    output      the output layer: bias, scale, hidden map, norm
    encoder     a model to whose output the blocks' `cross` attends
    shared      the encoder uses this model's embedding table
    dropout     rate in training, for the input of the first layer and the output of every sublayer
    drop_path   stochastic depth in training: rate of the last layer; it grows linearly with depth
    """

    kind: ClassVar[str] = "sequence"

    width: Size
    vocabulary: Size | None = None
    input: InputLayer = field(default_factory=InputLayer)
    layers: Size = 1
    block: Block | tuple[Block, ...] = field(default_factory=Block)
    readout: str = "each"
    outputs: Size | None = None
    tied: bool = False
    output: OutputLayer = field(default_factory=OutputLayer)
    encoder: "Spec | None" = None
    shared: bool = False
    dropout: Share = 0.0
    drop_path: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.block, Block):
            object.__setattr__(self, "block", tuple(self.block))
            if not self.block or self.layers % len(self.block):
                raise InputError(f"{len(self.block)} blocks do not repeat evenly in {self.layers} layers. Give a divisor of them.")
            if len(self.block) == 1:
                object.__setattr__(self, "block", self.block[0])
        if self.readout not in READOUTS:
            raise UnknownName("read-out", self.readout, list(READOUTS))
        if self.readout == "concatenation" and self.outputs is not None:
            raise InputError("The width of a concatenation depends on the length, so no linear map can follow. Use outputs=None.")
        if self.tied and (self.vocabulary is None or self.outputs != self.vocabulary):
            raise InputError(
                f"A tied map has as many outputs as the vocabulary, {self.vocabulary}, but got outputs={self.outputs}."
            )
        if self.outputs is None and self.output != OutputLayer():
            raise InputError("The output layer has settings, but outputs is None. Say how many outputs there are.")
        if any(b.norm is None for b in self.blocks) and (self.input.norm or self.output.norm):
            raise InputError("A norm of the input or output layer is of the blocks' kind, but the blocks have norm=None.")
        if self.input.registers is not None and self.readout != "class":
            raise InputError(f'Registers stand beside a class token, but the read-out is {self.readout!r}. Use readout="class".')
        if self.input.columns is not None and self.readout in ("each", "concatenation"):
            raise InputError(
                f"Columns beside an input are tokens in front of it, but the read-out {self.readout!r} gives an output of every "
                "token. Use another read-out, or leave input.columns out."
            )
        self._check_separator()
        if not self.input.map and (self.input.features or 0) > self.width:
            raise InputError(
                f"Raw numbers are taken as they are (input.map is false), but {self.input.features} of them are more than the "
                f"width, {self.width}. Make the model wider, or the tokens smaller."
            )
        if self.vocabulary is not None and self.input.features == self.width:
            raise InputError(
                f"Raw features as wide as the model, {self.width}, could not be distinguished from embedded tokens. "
                "Use another width."
            )
        self._with_encoder()

    def _check_separator(self) -> None:
        separator, known = self.input.separator, self.vocabulary or 0
        if separator is None:
            return
        if max(separator) >= known:
            raise InputError(f"A separator is made of ids 0..{known - 1} of the vocabulary, but got {list(separator)}.")
        if self.readout != "each":
            raise InputError(
                f"A separator puts several documents in one row, but the read-out {self.readout!r} gives one answer a row. "
                'Use readout="each", or leave the separator out.'
            )

    def _with_encoder(self) -> None:
        crossing = {block.cross is not None for block in self.blocks}
        if self.encoder is None:
            if crossing == {True} or len(crossing) > 1 or self.shared:
                raise InputError("A block's cross and `shared` need an encoder. Give encoder=Spec(...), or leave them out.")
            return
        if crossing != {True}:
            raise InputError("Every block of a model with an encoder needs cross=Attention(...).")
        e = self.encoder
        if self.input.separator or e.input.separator:
            raise InputError("A model with an encoder reads one source and writes one answer a row. Leave input.separator out.")
        if e.readout != "each" or e.outputs is not None or e.encoder is not None:
            raise InputError('An encoder gives all its rows: readout="each", no outputs, and no encoder of its own.')
        if self.shared and (e.width, e.vocabulary) != (self.width, self.vocabulary):
            raise InputError(
                f"A shared table has one size, but the encoder has {e.vocabulary} x {e.width} and the model "
                f"{self.vocabulary} x {self.width}."
            )

    @property
    def cycle(self) -> tuple[Block, ...]:
        """The repeating sequence of blocks; one where all layers are equal."""
        return (self.block,) if isinstance(self.block, Block) else self.block

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The block of every layer."""
        return self.cycle * (self.layers // len(self.cycle))

    @property
    def explicit(self) -> Self:
        """The same model with a block for every layer and every size set."""
        encoder = None if self.encoder is None else self.encoder.explicit
        return replace(self, block=tuple(block.explicit(self.width) for block in self.blocks), encoder=encoder)

    @property
    def without_dropout(self) -> Self:
        """The same model without dropout and stochastic depth."""
        encoder = None if self.encoder is None else self.encoder.without_dropout
        return replace(self, dropout=0.0, drop_path=0.0, encoder=encoder)

    @property
    def uniform_block(self) -> Block:
        """The block of all layers. Raises InputError where layers differ."""
        if isinstance(self.block, Block):
            return self.block
        raise InputError("The layers of this spec differ, so there is no one block. Use spec.blocks.")

    def with_position(self, position: Position) -> Self:
        """The same model with another position scheme in every layer; an encoder keeps its own."""
        return replace(self, block=tuple(replace(b, attention=replace(b.attention, position=position)) for b in self.cycle))

    @property
    def prefix_tokens(self) -> int:
        return len(self.prefix_names)

    @property
    def prefix_names(self) -> list[str]:
        """Names of the tokens that the model prepends, in order."""
        registers = [f"register {i + 1}" for i in range(self.input.registers or 0)]
        columns = [f"column {i + 1}" for i in range(len(self.input.columns or ()))]
        return [*(["class", *registers] if self.readout == "class" else []), *columns]

    @property
    def needs_documents(self) -> bool:
        towers = [self] if self.encoder is None else [self, self.encoder]
        return any(block.attention.mask.needs_documents for tower in towers for block in tower.blocks)

    @property
    def patch_size(self) -> tuple[int, ...] | None:
        return self.input.patch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())
