"""Builds an ordinary module from a spec. Positions act on the tokens once, and on queries, keys and scores in every layer."""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from equiscope import attention, blocks
from equiscope.errors import InputError, ShapeError, counted
from equiscope.models import spec as specs
from equiscope.models.input_output import ColumnEmbedding, InputEmbedding, OutputProjection
from equiscope.models.readout import READOUTS, ClassToken
from equiscope.positions import Position, to_json
from equiscope.symmetry import CLAIMED, Action
from equiscope.tokens import Embedding, Tokens

SMALLER = "Make it narrower, with fewer layers or a smaller vocabulary."


@contextlib.contextmanager
def possible_sizes() -> Iterator[None]:
    """Raise InputError where a tensor would be larger than torch supports, or than the memory."""
    try:
        yield
    except RuntimeError as error:
        asked = re.search(r"allocate (\d+) bytes", str(error))
        if asked is None and not any(word in str(error) for word in ("overflow", "memory")):
            raise
        why = f"one tensor needs {int(asked[1]) / 2**30:,.0f} GiB" if asked else "one tensor is larger than torch supports"
        raise InputError(f"A model of these sizes cannot be made: {why}. {SMALLER}") from error


@dataclass(frozen=True)
class EncoderOutput:
    """The output of an encoder, and the keys and values of each decoder layer: computed once for many steps."""

    tokens: Tokens
    key_values: tuple[attention.KeyValues, ...]


class Model(nn.Module):
    """From Tokens, features [..., N, D], ids [..., N], or samples of a sound, image or video, to the outputs of the readout."""

    legend: ClassVar[dict[str, tuple[str, str, str]]] = {"embedding": ("X", "", "features of the tokens")}

    def __init__(self, spec: "specs.Spec", table: Embedding | None = None) -> None:
        """table: an embedding to share (of an encoder and its decoder)."""
        super().__init__()
        self.spec = spec
        self.facts: dict[str, Any] = {}  # fields of the config that change no number: special ids, names of classes
        self.family = ""  # model_type of the checkpoint that it came from
        self.origin: list[str] = []  # where the weights came from, in sentences
        self.unused_tensors: dict[str, Tensor] = {}  # tensors of the checkpoint that no part of the model uses, by their names
        self.embedding = table or (Embedding(spec.vocabulary, spec.width) if spec.vocabulary else None)
        self.encoder = Model(spec.encoder, self.embedding if spec.shared else None) if spec.encoder is not None else None
        schemes = _Schemes(spec.width)
        self.position = schemes.of(spec.blocks[0].attention)
        width = self.position.widened(spec.width)
        own = [schemes.of(block.attention) for block in spec.blocks]
        if wider := next((s for s in own if s.widened(spec.width) != width), None):
            raise InputError(
                f"{type(wider).__name__} widens tokens in some layers only. Use it in all layers, or a scheme that adds."
            )
        if spec.tied and width != spec.width:
            raise InputError(f"{type(self.position).__name__} makes tokens {width} wide, but a tied table is {spec.width} wide.")
        crossing = [schemes.of(block.cross) for block in spec.blocks if block.cross is not None]
        self.others = nn.ModuleList(schemes.made[1:])  # schemes besides `position`, where layers have several
        self._own, self._crossing = [schemes.made.index(s) for s in own], [schemes.made.index(s) for s in crossing]
        self.input_layer = InputEmbedding(spec, width)
        self.columns = ColumnEmbedding(spec.input.columns, width) if spec.input.columns else None
        self.readout = READOUTS[spec.readout](width)
        if spec.input.registers is not None:
            self.readout = ClassToken(width, 1 + spec.input.registers)
        source = spec.encoder.width if spec.encoder is not None else None
        self.blocks = nn.ModuleList(_block(block, width, source, i + 1) for i, block in enumerate(spec.blocks))
        self.drop = blocks.drop(spec.dropout)
        for i, block in enumerate(self.blocks):
            cast(blocks.TransformerBlock, block).drop = blocks.drop(spec.dropout, spec.drop_path * (i + 1) / spec.layers)
        norm = spec.blocks[-1].norm
        pre = norm is not None and norm.order == "pre"
        self.norm = blocks.norm(width, norm.kind, norm.eps, norm.bias) if norm is not None and pre else None
        self.output_layer = OutputProjection(spec, width) if spec.outputs else None
        self.tie()

    def tie(self) -> None:
        """Set the weight of a tied output layer to the embedding table: one parameter under two names."""
        if self.spec.tied and self.output_layer is not None and self.embedding is not None:
            self.output_layer.lm_head.weight = self.embedding.weight

    def forward(
        self, inputs: Tokens | Tensor, caches: list[Any] | None = None, source: Tokens | Tensor | EncoderOutput | None = None,
        rows: int | None = None, source_valid: Tensor | None = None, valid: Tensor | None = None, columns: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """caches: one for each layer, from `caches()`; inputs are then the next tokens, at positions that continue.

        source  input of the encoder, of a model that has one; or the result of `encode`
        rows    outputs of this many last tokens only, with the readout "each"
        source_valid  for a source of ids: bool [..., M], False for padding
        valid   for inputs of ids: bool [..., N], False for padding; Tokens have their own
        columns values of the columns beside the input, int [..., columns], of a model that has some; the first of each by default
        """
        if rows is not None and rows < 1:
            raise InputError(f"rows is 1 or more, but got {rows}.")
        if caches is not None and len(caches) != len(self.blocks):
            raise InputError(
                f"This model has {counted(len(self.blocks), 'layer')}, but got {counted(len(caches), 'cache')}. Use model.caches()."
            )
        start = caches[0].length if caches and not isinstance(inputs, Tokens) else 0
        if start and self.input_layer.separator is not None:
            raise InputError(
                f"Which document a token belongs to depends on the ids before it, but the caches hold {start} tokens and no ids. "
                "Give Tokens with their document, as `generate` does."
            )
        entered = self.tokens(inputs, start)
        tokens = self.embed(entered if valid is None else replace(entered, valid=valid), columns)
        encoder_output = self._encoder_output(source, source_valid)
        schemes = self.schemes
        plans = {i: attention.AttentionContext(schemes[i], tokens, tokens) for i in set(self._own)}
        across = {}
        if encoder_output is not None:
            across = {i: attention.AttentionContext(schemes[i], tokens, encoder_output.tokens) for i in set(self._crossing)}
        for layer, block in enumerate(self.blocks):
            i = self._own[layer]
            cross_arguments: tuple[Any, ...] = ()
            if encoder_output is not None:
                j = self._crossing[layer]
                cross_arguments = (encoder_output.key_values[layer], schemes[j], across[j])
            x = block(tokens, schemes[i], plans[i], caches[layer] if caches else None, *cross_arguments)
            tokens = replace(tokens, x=x)
        y = tokens.x if rows is None or self.readout.name != "each" else tokens.x[..., -rows:, :]
        y = y if self.norm is None else self.norm(y)
        y = self.readout(y, tokens)
        return y if self.output_layer is None else self.output_layer(y)

    @property
    def schemes(self) -> list[Position]:
        """Every position scheme of the layers, each once."""
        return [self.position, *cast(list[Position], list(self.others))]

    def caches(self) -> list[Any]:
        """An empty cache for every layer. Raises InputError where the model is not causal, or its readout needs all tokens."""
        if self.readout.name not in ("each", "last"):
            raise InputError(f"The read-out {self.readout.name!r} needs all tokens, which a cache does not keep. Use each or last.")
        return [cast(blocks.TransformerBlock, block).attention.cache() for block in self.blocks]

    def tokens(self, inputs: Tokens | Tensor, start: int = 0, types: Tensor | None = None) -> Tokens:
        """Embed ids, cut samples into patches, map raw features; positions are start, start + 1, ... unless given.

        types  token types [..., N], of a model that has a table of types; 0 by default. Tokens that are as wide as the model
               are already embedded: they get types only where types are given
        """
        if not isinstance(inputs, (Tokens, Tensor)):
            raise InputError(f"A model takes Tokens or a tensor of ids, features or samples, but got {type(inputs).__name__}.")
        tokens, raw = self._embedded(inputs, start), self.spec.input.features
        ready = isinstance(inputs, Tokens)
        tokens = self.input_layer.convolved(tokens) if ready else tokens
        if tokens.x.shape[-1] == raw and not tokens.mapped:
            if not tokens.x.is_floating_point():
                raise InputError(
                    f"This model takes numbers such as pictures in 0..1, but got {tokens.x.dtype}. Use .float() / 255."
                )
            tokens, ready = replace(tokens, x=self.input_layer.mapped(tokens.x), mapped=True), False
        if tokens.x.shape[-1] != self.spec.width:
            takes = f" and takes {raw} raw numbers a token" if raw is not None else ""
            raise ShapeError(f"The model is {self.spec.width} wide{takes}, but the tokens have {tokens.x.shape[-1]} features.")
        if raw is not None and not ready:
            tokens = replace(tokens, mapped=True)
        if ready and types is None:  # already embedded, types included
            return tokens
        if self.input_layer.types is None and types is None:
            return tokens
        return replace(tokens, x=self.input_layer.typed(tokens.x, types))

    def _embedded(self, inputs: Tokens | Tensor, start: int) -> Tokens:
        if isinstance(inputs, Tokens):
            return inputs
        if self.embedding is not None and not inputs.is_floating_point():
            x = self.embedding(inputs)
            if self.spec.input.scale is not None:
                x = x * self.spec.input.scale
            tokens, separator = Tokens.of(x, start), self.input_layer.separator
            return tokens if separator is None else replace(tokens, document=separator(inputs))
        if self.spec.input.patch is not None:
            return self.input_layer.cut(inputs)
        if self.embedding is not None and self.spec.input.features is None:
            raise InputError(f"This model has a vocabulary and takes ids (integers), but got {inputs.dtype}.")
        return Tokens.of(inputs, start)

    def embed(self, tokens: Tokens, columns: Tensor | None = None) -> Tokens:
        """The input of the first layer: position embeddings, norm, dropout, columns, and the tokens that the readout prepends."""
        x = tokens.x
        for scheme in self.schemes:
            scheme.check(tokens.positions)
            x = scheme.embed(x, tokens.positions)
        x = self.input_layer(x)
        if self.drop is not None and self.training:
            x = self.drop(x)
        tokens = replace(tokens, x=x)
        if self.columns is not None:
            tokens = self.columns(tokens, columns)
        elif columns is not None:
            raise InputError("This model has no columns beside its input. Use input=InputLayer(columns=...), or leave columns out.")
        return self.readout.prepend(tokens)

    def encode(self, source: Tokens | Tensor, valid: Tensor | None = None) -> EncoderOutput:
        """Run the encoder: pass the result as `source` of many calls. Raises InputError where there is no encoder.

        valid  False for padding, bool [..., M]; Tokens have their own
        """
        if self.encoder is None:
            raise InputError("This model has no encoder, so there is no source to encode.")
        entered = self.encoder.tokens(source)
        entered = entered if valid is None else replace(entered, valid=valid)
        y = self.encoder(entered)
        tokens = replace(entered, x=y)
        layers = zip(self.blocks, self._crossing, strict=True)
        schemes = self.schemes
        key_values = [
            cast(attention.MultiHeadAttention, cast(blocks.TransformerBlock, b).cross).key_values(tokens, schemes[j])
            for b, j in layers
        ]
        return EncoderOutput(tokens, tuple(key_values))

    def _encoder_output(self, source: Tokens | Tensor | EncoderOutput | None, valid: Tensor | None = None) -> EncoderOutput | None:
        if self.encoder is None and source is None:
            return None
        if source is None:
            raise InputError("This model has an encoder: give its input as source=.")
        encoder_output = source if isinstance(source, EncoderOutput) else self.encode(source, valid)
        if len(encoder_output.key_values) != len(self.blocks):
            raise InputError(
                f"This Memory was read for {len(encoder_output.key_values)} layers, but the model has {len(self.blocks)}."
            )
        return encoder_output

    def moving_parts(self) -> Iterator[tuple[str, nn.Module, frozenset[type[Action]]]]:
        """Parts that see the transformed tokens, with the actions that each respects; the source of an encoder is not transformed.

        A scheme in cross-attention sees transformed queries and fixed keys, so it respects no action. A shift of all features by
        one number is removed by norms that subtract the mean, where every sublayer reads the tokens through such a norm.
        """
        yield from self._position_sensitive_scores()
        across = {id(self.schemes[i]) for i in self._crossing}
        for path, part in self.named_modules():
            preserves = getattr(part, "preserves", None)
            if preserves is None or path == "encoder" or path.startswith("encoder.") or part is self:
                continue
            between = id(part) in across and any(
                cast(Position, part).acts(place) for place in ("rotate", "score_bias", "content_bias", "value_bias")
            )
            removed = isinstance(part, Position) and part.uniform and self._centred
            yield path, part, frozenset(CLAIMED) if removed else frozenset() if between else preserves

    def _position_sensitive_scores(self) -> Iterator[tuple[str, nn.Module, frozenset[type[Action]]]]:
        """Scores with which a scheme respects less than it claims: the rotations of its positions no longer cancel."""
        for layer, block in enumerate(self.blocks):
            score, scheme = cast(blocks.TransformerBlock, block).attention.score, self.schemes[self._own[layer]]
            if not score.preserves_claims(scheme):
                yield f"blocks.{layer}.attention.score", score, frozenset()

    @property
    def because(self) -> str:
        """Why the parts together respect more than each alone; empty where they do not."""
        removed = [type(s).__name__ for s in self.schemes if s.uniform] if self._centred else []
        return (
            f"every norm subtracts the mean over the features, and with it what {removed[0]} adds to all of them" if removed else ""
        )

    @property
    def _centred(self) -> bool:
        """Whether every sublayer reads the tokens through a norm that subtracts the mean over features."""
        norms = [block.norm for block in self.spec.blocks]
        if any(norm is None or norm.kind != "layer" for norm in norms):
            return False
        return self.spec.input.norm or all(norm is not None and norm.order == "pre" for norm in norms)


class _Schemes:
    """One module for each distinct scheme, so that layers with the same scheme share its parameters (T5)."""

    def __init__(self, width: int) -> None:
        self.width, self.made, self._known = width, [], {}  # type: tuple[int, list[Position], dict[str, Position]]

    def of(self, a: "specs.Attention") -> Position:
        head_width = a.head_width or self.width // a.heads
        enters = a.position.acts("embed") and not any(map(a.position.acts, ("rotate", "score_bias", "content_bias", "value_bias")))
        heads = None if enters else [a.heads, head_width]  # what is only added to tokens is added once, however they are split
        key = json.dumps([to_json(a.position), heads], sort_keys=True)
        alike = [one for one in self._known if json.loads(one)[0] == json.loads(key)[0]]
        if a.position.acts("embed") and not enters and alike and key not in alike:
            raise InputError(
                f"{type(a.position).__name__} adds to the tokens and acts in the layers, so with different heads it would be added "
                "again. Give all layers the same heads, or two schemes."
            )
        if key not in self._known:
            self._known[key] = a.position.sized(self.width, a.heads, head_width)
            self.made.append(self._known[key])
        return self._known[key]


def _block(spec: "specs.Block", width: int, source: int | None, layer: int) -> blocks.TransformerBlock:
    f, n = spec.feedforward, spec.norm
    eps = n.eps if n is not None else 1e-6
    forward = blocks.FeedForwardNetwork(width, f.inner or 4 * width, f.activation, f.bias, f.gated) if f is not None else None
    norms = [blocks.norm(width, n.kind, n.eps, n.bias) for _ in range(3 if spec.cross else 2)] if n is not None else None
    return blocks.TransformerBlock(
        _heads(spec.attention, width, None, eps, layer), forward, norms, order=n.order if n is not None else "pre",
        residual=spec.residual, parallel=spec.parallel, cross=_heads(spec.cross, width, source, eps, layer) if spec.cross else None,
    )  # fmt: skip


def _heads(a: "specs.Attention", width: int, source: int | None, eps: float, layer: int) -> attention.MultiHeadAttention:
    return attention.make_attention(
        a.kind, width, heads=a.heads, head_width=a.head_width, value_width=a.value_width, source_width=source, bias=a.bias,
        backend=a.backend, mask=a.joint_mask, kv_heads=a.kv_heads, norm=a.qk_norm, eps=eps, layer=layer,
        score=None if a.joint_score.is_plain else a.joint_score,
    )  # fmt: skip
