"""A fast decoder for CPUs: a copy of a model's weights in a layout for generation token by token.

A decoding step does little arithmetic, so its time goes into reading the weights and into Python calls. Here the weights are
packed (`packed_linear.py`), queries, keys and values are one product, position schemes are evaluated once a step for all
layers, and keys and values are written into a preallocated buffer. Rotating queries and keys is linear, so one small matrix
a step does it.

`Model.forward` stays the reference: `CPUDecoder` compares a few steps with it, and falls back to it where they differ or where the
model has a part that is not supported here. The model itself is not changed.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiscope import attention, blocks, functional
from equiscope.attention.mask import Both
from equiscope.errors import InputError
from equiscope.functional import Activation
from equiscope.models.build import EncoderOutput, Model
from equiscope.models.packed_linear import PackedLinear
from equiscope.positions import Position
from equiscope.positions.base import Role
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}  # how far one step may be from the reference; other dtypes: 0.1


class CPUDecoder:
    """A model's weights, copied for fast generation: pass it to `generate` or `stream` in place of the model.

    max_prompt       tokens of prompts, of the whole batch, up to which it reads them; it materialises all attention scores
    fallback_reason  why `Model.forward` is used instead; empty where the copied weights are used
    raises           InputError (from `verified`) where the model's parameters have changed since they were copied
    """

    def __init__(self, model: Model, max_prompt: int = 512) -> None:
        if not isinstance(model, Model):
            raise InputError(f"CPUDecoder takes a model of build or load with attention, but got {type(model).__name__}.")
        self.model, self.max_prompt, self._versions = model, max_prompt, _parameter_versions(model)
        self._samples = _parameter_samples(model)
        self._sample_values = [torch.cat(few) for few in self._samples]
        self.layers: list[_DecoderLayer] = []
        self.fallback_reason = _unsupported(model)
        if not self.fallback_reason:
            self.fallback_reason = self._copy_weights() or self._mismatch()
        if self.fallback_reason:
            self.layers = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "CPUDecoder":
        return type(self)(copy.deepcopy(self.model, memo), self.max_prompt)

    def __reduce__(self) -> Any:
        return type(self), (self.model, self.max_prompt)

    def verified(self) -> "CPUDecoder":
        """Itself. Raises InputError where parameters changed after they were copied."""
        changed = _parameter_versions(self.model) != self._versions
        samples = zip(self._samples, self._sample_values, strict=True)
        if changed or not all(_same_bits(torch.cat(views), values) for views, values in samples):
            raise InputError("The model's parameters changed after CPUDecoder(model) copied them. Make a new one.")
        return self

    @torch.inference_mode()  # a fifteenth of a small model's step
    def step(
        self, ids: Tensor, buffer: "KVBuffer", positions: Tensor, order: Tensor, valid: Tensor | None, last: int | None = None
    ) -> Tensor:  # fmt: skip
        """Logits of the next token after each of ids [B, N], [B, N, V]; keys and values go into the buffer.

        positions  [B, N, 1]; order [B, N]: ranks
        last       how many of the last tokens to compute logits for; None for all
        """
        model, s = self.model, self.model.spec
        x = torch.embedding(self.table, ids)
        x = x if s.input.scale is None else x * s.input.scale
        x = buffer.with_positions(x, positions, model.schemes)
        x = (x if model.input_layer.norm is None else model.input_layer.norm(x)).flatten(0, 1)
        context = _StepContext(model, buffer, positions, order, valid)
        return self._run_layers(x, context, last)

    def _run_layers(self, x: Tensor, context: "_StepContext", last: int | None) -> Tensor:
        model, s, (batch, new) = self.model, self.model.spec, (context.batch, context.new)
        one_unpadded = new == 1 and context.buffer.valid is None
        for i, layer in enumerate(self.layers):
            if one_unpadded and layer.flat_layer is not None:
                x = layer.flat_layer(x, context.new_kv[i], *context.all_kv[i])
            else:
                x = layer(x, i, context)
        last = 1 if model.readout.name == "last" else last
        if last is not None and last < new:
            x = x.view(batch, new, -1)[:, -last:].flatten(0, 1)
        y = x if self.norm is None else self.norm(x)
        y = y if s.output.scale is None else y * s.output.scale
        return self.lm_head(y).view(batch, -1, self.lm_head.outputs)

    def _copy_weights(self) -> str:
        """Copy the weights. Returns why that failed, as a sentence; empty where it did not."""
        try:
            self._build_layers()
        except RuntimeError as error:  # no memory
            return f"its weights could not be laid out: {error}"
        return ""

    def _build_layers(self) -> None:
        model = self.model
        numbers = zip(cast(list[blocks.TransformerBlock], list(model.blocks)), model._own, strict=True)
        with torch.no_grad():
            self.layers = [_DecoderLayer(block, model.schemes[i]) for block, i in numbers]
            output, norm = cast(Any, model.output_layer), cast(Any, model.norm)
            self.table = cast(Any, model.embedding).weight
            self.norm = _InlineNorm.of(norm)
            self.lm_head = _packed_linear(output.lm_head)

    @torch.no_grad()
    def _mismatch(self) -> str:
        """Compute a few tokens both ways. Returns by how much the logits differ, as a sentence; empty where they agree."""
        model, table = self.model, cast(Any, self.model.embedding).weight
        ids = torch.arange(5, device=table.device).remainder(len(table)).view(1, 5)
        slow, fast = list[Tensor](), list[Tensor]()
        training = [part for part in model.modules() if part.training]
        try:
            model.eval()
            with torch.autocast(table.device.type, enabled=False):  # which would be another precision for one of them alone
                tokens, encoder_output = model.tokens(ids), None if model.encoder is None else model.encode(ids)
                positions, order, caches = tokens.positions[None], tokens.order[None], model.caches()
                buffer = KVBuffer.empty(model, positions[:, :2], ids.shape[1], encoder_output, False)
                for new in (slice(0, 2), slice(2, 3), slice(3, 5)):
                    few = Tokens(x=tokens.x[:, new], positions=positions[:, new], order=order[:, new])
                    fast.append(self.step(ids[:, new], buffer, few.positions, few.order, None))
                    slow.append(model(few, caches, encoder_output).view_as(fast[-1]))
        except (RuntimeError, InputError) as error:
            return f"one step failed: {error}"
        finally:
            for part in training:
                part.training = True
        difference, allowed = (
            relative_error(torch.cat(fast, 1).double(), torch.cat(slow, 1).double()),
            TOLERANCE.get(table.dtype, 0.1),
        )
        return "" if difference < allowed else f"its logits differ from the model's by {difference:.1e}, more than {allowed:g}"


@dataclass
class KVBuffer:
    """A preallocated buffer of the keys and values of all layers, with the positions, ranks and padding that all layers share.

    kv  of each layer its key heads, then its value heads, [B, 2G, capacity, K]; one tensor [layers, B, 2G, capacity, K] where all
        layers have the same sizes

    Keys and values are float32 at least: attention over few rows is several times faster so on a CPU, and no less exact.
    """

    kv: Tensor | list[Tensor]
    positions: Tensor
    order: Tensor
    valid: Tensor | None
    encoder_output: EncoderOutput | None
    count: int
    filled: int = 0  # rows whose position, rank and padding are set: all of them after the prompt, as positions go on by one
    embeddings: Tensor | None = None  # what schemes add at the positions to come [B, n, D]: computed and checked once
    embeddings_start: int = -1  # how many rows there were then

    def with_positions(self, x: Tensor, positions: Tensor, schemes: list[Position]) -> Tensor:
        """Tokens x [B, N, D] with position embeddings added; positions [B, N, 1] go on by one."""
        if self.embeddings_start < 0 and self.count:  # positions of a prompt need not go on by one
            self.embeddings_start = self.count
            self.embeddings = self._future_embeddings(x, positions, schemes)
        if self.embeddings is None:
            for scheme in schemes:
                x = scheme.embed(x, positions)
            return x
        return x + self.embeddings.narrow(1, self.count - self.embeddings_start, x.shape[1])

    def _future_embeddings(self, x: Tensor, positions: Tensor, schemes: list[Position]) -> Tensor | None:
        """Position embeddings of all rows to come. None where a scheme does not just add, or does not have that many positions."""
        steps = torch.arange(self.positions.shape[1] - self.count, device=positions.device, dtype=positions.dtype)[:, None]
        future = positions[:, :1] + steps
        added, embedded = x.new_zeros(len(x), len(steps), x.shape[-1]), x
        try:
            for scheme in schemes:
                added, embedded = scheme.embed(added, future), scheme.embed(embedded, positions)
        except InputError:
            return None
        return added if added.shape[-1] == x.shape[-1] and torch.equal(embedded, x + added[:, : x.shape[1]]) else None

    @classmethod
    def empty(
        cls, model: Model, positions: Tensor, capacity: int, encoder_output: EncoderOutput | None, padded: bool
    ) -> "KVBuffer":  # fmt: skip
        """A buffer for `capacity` rows of sequences whose positions are like [B, N, 1]."""
        batch, table = len(positions), cast(Any, model.embedding).weight
        attentions = [block.attention for block in cast(list[blocks.TransformerBlock], list(model.blocks))]
        sizes = [(batch, 2 * a.kv_heads, capacity, a.head_width) for a in attentions]
        dtype, alike = _kv_dtype(table), all(size == sizes[0] for size in sizes)
        kv = table.new_zeros(len(sizes), *sizes[0], dtype=dtype) if alike else [table.new_zeros(s, dtype=dtype) for s in sizes]
        ranks = torch.zeros(batch, capacity, dtype=torch.long, device=positions.device)
        valid = torch.zeros(batch, capacity, dtype=torch.bool, device=positions.device) if padded else None
        return cls(kv, positions.new_zeros(batch, capacity, positions.shape[-1]), ranks, valid, encoder_output, 0)

    @classmethod
    def of(cls, caches: list[attention.Cache], encoder_output: EncoderOutput | None, capacity: int) -> "KVBuffer":
        """The contents of ordinary caches, in a buffer for `capacity` rows in all."""
        first, count = caches[0].rows, caches[0].length

        def padded_copy(part: Tensor, axis: int) -> Tensor:
            shape = list(part.shape)
            shape[axis] = capacity
            padded = part.new_zeros(shape)
            padded.narrow(axis, 0, count).copy_(part)
            return padded

        dtype = _kv_dtype(first["k"])
        sizes = [(len(c.rows["k"]), 2 * c.rows["k"].shape[1], capacity, c.rows["k"].shape[-1]) for c in caches]
        alike = all(size == sizes[0] for size in sizes)
        stacked = first["k"].new_zeros(len(caches), *sizes[0], dtype=dtype) if alike else None
        kv = stacked if stacked is not None else [first["k"].new_zeros(size, dtype=dtype) for size in sizes]
        with torch.no_grad():  # the prompt may have been read with gradients enabled
            for i, cache in enumerate(caches):
                heads = cache.rows["k"].shape[1]
                for name, start in (("k", 0), ("v", heads)):
                    kv[i].narrow(1, start, heads).narrow(-2, 0, count).copy_(cache.rows[name])
        valid = padded_copy(first["valid"], -1) if "valid" in first else None
        return cls(kv, padded_copy(first["positions"], -2), padded_copy(first["order"], -1), valid, encoder_output, count)

    def since(self, start: int) -> Sequence[Tensor]:
        """Of each layer, the rows from `start` to the last: keys, then values, [B, 2G, N, K], views."""
        if isinstance(self.kv, Tensor):
            return self.kv.narrow(-2, start, self.count - start).unbind()
        return [layer.narrow(-2, start, self.count - start) for layer in self.kv]

    def read(self) -> list[tuple[Tensor, Tensor]]:
        """Of each layer, the keys and values of all rows so far, [B, G, M, K] each, views."""
        if isinstance(self.kv, Tensor):
            keys, values = self.kv.narrow(-2, 0, self.count).chunk(2, 2)
            return list(zip(keys.unbind(), values.unbind(), strict=True))
        return [cast(tuple[Tensor, Tensor], layer.narrow(-2, 0, self.count).chunk(2, 1)) for layer in self.kv]

    def append(self, positions: Tensor, order: Tensor, valid: Tensor | None) -> None:
        """Count the new rows and set their positions, ranks and padding."""
        first, self.count = self.count, self.count + order.shape[-1]
        if self.count <= self.filled:
            return
        if first:
            steps = torch.arange(self.positions.shape[1] - first, device=order.device)
            positions, order, valid = positions[:, :1] + steps.to(positions.dtype)[:, None], order[:, :1] + steps, None
        new = slice(first, first + order.shape[-1])
        self.positions[:, new], self.order[:, new], self.filled = positions, order, new.stop
        if self.valid is not None:
            self.valid[:, new] = True if valid is None else valid

    def select(self, rows: Tensor) -> None:
        """Keep the sequences of the batch with these numbers, in this order."""
        kv = self.kv
        self.kv = kv.index_select(1, rows) if isinstance(kv, Tensor) else [layer.index_select(0, rows) for layer in kv]
        self.positions, self.order = self.positions[rows], self.order[rows]
        self.embeddings = None if self.embeddings is None else self.embeddings[rows]
        self.valid = None if self.valid is None else self.valid[rows]


def _kv_dtype(like: Tensor) -> torch.dtype:
    return torch.promote_types(like.dtype, torch.float32) if like.device.type == "cpu" else like.dtype


class _StepContext:
    """What all layers of one step share, computed at first use."""

    def __init__(self, model: Model, buffer: KVBuffer, positions: Tensor, order: Tensor, valid: Tensor | None) -> None:
        buffer.append(positions, order, valid)
        self.buffer, self.positions, self.order, self.start = buffer, positions, order, buffer.count - order.shape[-1]
        self.batch, self.new = order.shape
        self.new_kv, self.all_kv = buffer.since(self.start), buffer.read()
        self._computed: dict[Any, Any] = {}

    def rotate(self, x: Tensor, scheme: Position, role: Role) -> Tensor:
        """Queries or keys [B, H, N, K], rotated; of one token by a matrix, as the rotation at a position is linear."""
        if not scheme.acts("rotate"):
            return x
        if self.new > 1:
            return scheme.rotate(x, self.positions, role)
        key = ("rotate", id(scheme), x.shape[-1], role)
        if key not in self._computed:
            width, dtype = x.shape[-1], torch.promote_types(x.dtype, torch.float32)
            alike = self.batch == 1 or self.buffer.valid is None
            positions = self.positions[:1] if alike else self.positions
            eye = torch.eye(width, dtype=dtype, device=x.device).expand(len(positions), 1, width, width)
            self._computed[key] = scheme.rotate(eye, positions.expand(-1, width, -1), role)
        rotation: Tensor = self._computed[key]
        if rotation.shape[:2] == (1, 1):
            return (x.reshape(-1, x.shape[-1]).to(rotation.dtype) @ rotation[0, 0]).to(x.dtype).view(*x.shape[:-1], -1)
        return (x.to(rotation.dtype) @ rotation).to(x.dtype)

    def mask(self, scheme: Position, heads: int, window: int | None, dtype: torch.dtype) -> Tensor | None:
        """The bias of the scores, or a bool mask (True = may attend); [B or 1, H or 1, N, M], None where nothing is masked."""
        key = ("mask", id(scheme), heads, window)
        if key not in self._computed:
            mask, bias = self._allowed(window), self._bias(scheme, heads)
            if bias is not None:
                bias = bias.to(torch.promote_types(dtype, torch.float32))
                mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
            self._computed[key] = mask
        result: Tensor | None = self._computed[key]
        return result

    def _allowed(self, window: int | None) -> Tensor | None:
        buffer = self.buffer
        if self.new == 1 and buffer.valid is None and (window is None or buffer.count <= window):
            return None
        key_rank, query_rank = buffer.order[:, None, None, : buffer.count], self.order[:, None, :, None]
        mask = key_rank <= query_rank
        if window is not None:
            mask = mask & (query_rank - key_rank < window)
        return mask if buffer.valid is None else mask & buffer.valid[:, None, None, : buffer.count]

    def _bias(self, scheme: Position, heads: int) -> Tensor | None:
        if not scheme.acts("score_bias"):
            return None
        head = torch.arange(heads, device=self.positions.device)[:, None, None]
        at_q, at_k = self.positions[:, None, :, :], self.buffer.positions[:, None, : self.buffer.count, :].mT
        return scheme.score_bias(head, (at_q,), (at_k,))


NormFunction = Callable[[Tensor], Tensor]
FlatLayer = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # x [B, D]; of this row keys and values, keys so far, values so far


class _DecoderLayer:
    """One block on rows x [B*N, D]. The parameters are looked up once, not in every step."""

    def __init__(self, block: blocks.TransformerBlock, scheme: Position) -> None:
        own, f, cross = block.attention, block.feedforward, block.cross
        self.scheme, self.parallel, self.residual, self.pre = scheme, block.parallel, block.residual, block.order == "pre"
        self.heads, self.groups, self.width = own.heads, own.kv_heads, own.head_width
        self.head_counts, self.rotates = (own.heads, 2 * own.kv_heads), scheme.acts("rotate")
        self.scale, self.window = own.score.factor(own.head_width), own.mask.window
        self.qkv_proj = _packed_linear(own.q_proj, own.k_proj, own.v_proj)
        self.o_proj = _packed_linear(cast(nn.Linear, own.o_proj))
        self.qk_norms = _qk_norms(own)
        self.attention_norm, self.cross_norm, self.feedforward_norm = (
            _InlineNorm.of(norm) for norm in (block.attention_norm, block.cross_norm, block.feedforward_norm)
        )
        self.cross = cross
        self.cross_q_proj = None if cross is None else _packed_linear(cross.q_proj)
        self.cross_o_proj = None if cross is None else _packed_linear(cast(nn.Linear, cross.o_proj))
        self.cross_qk_norms = None if cross is None else _qk_norms(cross)
        self.up_proj = self.down_proj = self.gate = None
        if f is not None:
            self.down_proj = _packed_linear(f.down_proj)
            if f.gate_proj is None:
                self.up_proj = _packed_linear(f.up_proj, activation=f.activation)
            else:
                self.up_proj, self.gate = _packed_linear(f.gate_proj, f.up_proj), f.activation
        self.flat_layer = self._flat_layer()

    def __call__(self, x: Tensor, number: int, context: _StepContext) -> Tensor:
        z = self._attend(self._before(x, self.attention_norm), number, context)
        if self.parallel and self.down_proj is not None:
            update = self.down_proj.add_to(self._hidden(self._before(x, self.feedforward_norm)), self.o_proj(z))
            return x + update if self.residual else update
        x = self._after(x, z, self.o_proj, self.attention_norm)
        if self.cross_o_proj is not None:
            z = self._cross_attend(self._before(x, self.cross_norm), number, context)
            x = self._after(x, z, self.cross_o_proj, self.cross_norm)
        if self.down_proj is None:
            return x
        return self._after(x, self._hidden(self._before(x, self.feedforward_norm)), self.down_proj, self.feedforward_norm)

    def _flat_layer(self) -> FlatLayer | None:
        """`__call__` for one token a sequence, written out, where a layer has the usual parts; else None.

        A step reads more weights than the processor's cache holds, so every function call in between costs microseconds.
        """
        n1, n2, up_proj, down_proj = self.attention_norm, self.feedforward_norm, self.up_proj, self.down_proj
        is_plain = self.pre and self.residual and not self.parallel and self.cross_o_proj is None and self.gate is None
        if not is_plain or n1 is None or n2 is None or up_proj is None or down_proj is None or {n1.kind, n2.kind} != {"layer"}:
            return None
        if self.qk_norms or self.rotates or self.window or self.scheme.acts("score_bias") or self.heads != self.groups:
            return None
        qkv_proj, o_proj, up, down = self.qkv_proj.__call__, self.o_proj.add_to, up_proj.__call__, down_proj.add_to
        weight1, bias1, eps1, weight2, bias2, eps2 = n1.weight, n1.bias, n1.eps, n2.weight, n2.bias, n2.eps
        size, heads, scale, attend, width = n1.weight.shape, self.heads, self.scale, F.scaled_dot_product_attention, self.width

        def flat_layer(x: Tensor, new_kv: Tensor, k: Tensor, v: Tensor) -> Tensor:
            qkv = qkv_proj(torch.layer_norm(x, size, weight1, bias1, eps1)).view(len(x), -1, 1, width)
            new_kv.copy_(qkv.narrow(1, heads, 2 * heads))
            z = attend(qkv.narrow(1, 0, heads).to(k.dtype), k, v, scale=scale).reshape(len(x), -1).to(x.dtype)
            x = o_proj(z, x)
            return down(up(torch.layer_norm(x, size, weight2, bias2, eps2)), x)

        return flat_layer

    def _attend(self, x: Tensor, number: int, context: _StepContext) -> Tensor:
        heads, groups, new_kv = self.heads, self.groups, context.new_kv[number]
        q, kv = _split_heads(self.qkv_proj(x), self.width, context).split(self.head_counts, 1)
        new_kv.copy_(kv)
        if self.qk_norms is not None or self.rotates:
            k = new_kv.narrow(1, 0, groups) if self.qk_norms is None else self.qk_norms[1](kv.narrow(1, 0, groups))
            new_kv.narrow(1, 0, groups).copy_(context.rotate(k, self.scheme, "key"))
            q = q.to(new_kv.dtype) if self.qk_norms is None else self.qk_norms[0](q)
            q = context.rotate(q, self.scheme, "query")
        k, v = context.all_kv[number]
        mask = context.mask(self.scheme, heads, self.window, k.dtype)
        return _scaled_dot_product(q.to(k.dtype), k, v, mask, self.scale).to(x.dtype)

    def _cross_attend(self, x: Tensor, number: int, context: _StepContext) -> Tensor:
        a, encoder_output = cast(attention.MultiHeadAttention, self.cross), cast(EncoderOutput, context.buffer.encoder_output)
        assert self.cross_q_proj is not None
        q = _split_heads(self.cross_q_proj(x), a.head_width, context)
        q = q if self.cross_qk_norms is None else self.cross_qk_norms[0](q)
        kv, valid = encoder_output.key_values[number], encoder_output.tokens.valid
        mask = None if valid is None else valid[..., None, None, :].expand(context.batch, 1, context.new, -1)
        return _scaled_dot_product(q, kv.k, kv.v, mask, a.score.factor(a.head_width))

    def _hidden(self, x: Tensor) -> Tensor:
        assert self.up_proj is not None
        hidden = self.up_proj(x)
        if self.gate is None:
            return hidden
        gate, inner = hidden.chunk(2, -1)
        return functional.activation(gate, self.gate) * inner

    def _before(self, x: Tensor, norm: NormFunction | None) -> Tensor:
        return norm(x) if norm is not None and self.pre else x

    def _after(self, x: Tensor, change: Tensor, through: PackedLinear, norm: NormFunction | None) -> Tensor:
        x = through.add_to(change, x) if self.residual else through(change)
        return norm(x) if norm is not None and not self.pre else x


def _split_heads(x: Tensor, width: int, context: _StepContext) -> Tensor:
    """[B*N, H*K] to [B, H, N, K], width K."""
    if context.new == 1:
        return x.view(context.batch, -1, 1, width)
    return x.view(context.batch, context.new, -1, width).transpose(1, 2)


def _scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Attention of q [B, H, N, K] to k, v [B, G, M, K]; the heads are concatenated, [B*N, H*K]."""
    batch, heads, new, _ = q.shape
    groups = k.shape[1]
    if new > 1 or groups == heads:
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=groups != heads)
        return z.reshape(batch, -1) if new == 1 else z.transpose(1, 2).reshape(batch * new, -1)
    if mask is not None and mask.shape[1] > 1:
        mask = mask.reshape(-1, groups, heads // groups, mask.shape[-1])
    q = q.reshape(batch, groups, heads // groups, -1)  # of one token: the queries of a group are rows with the same keys
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).reshape(batch, -1)


def _qk_norms(a: attention.MultiHeadAttention) -> tuple[NormFunction, NormFunction] | None:
    """The norms of queries and keys; None where there are none."""
    q_norm, k_norm = _InlineNorm.of(a.q_norm), _InlineNorm.of(a.k_norm)
    return None if q_norm is None or k_norm is None else (q_norm, k_norm)


@dataclass(frozen=True)
class _InlineNorm:
    """`nn.LayerNorm` or `nn.RMSNorm` without the look-ups of a module call."""

    kind: str
    weight: Tensor
    bias: Tensor | None
    eps: float

    @classmethod
    def of(cls, norm: blocks.NormLayer | None) -> "_InlineNorm | None":
        if isinstance(norm, nn.LayerNorm):
            return cls("layer", norm.weight, norm.bias, norm.eps)
        return None if norm is None else cls("rms", norm.weight, None, norm.eps or 0.0)

    def __call__(self, x: Tensor) -> Tensor:
        if self.kind == "layer":
            return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        return torch.rms_norm(x, self.weight.shape, self.weight, self.eps)


def _packed_linear(*layers: nn.Linear, activation: Activation | None = None) -> PackedLinear:
    """Linear maps of the same rows as one product."""
    return PackedLinear([layer.weight.mT for layer in layers], [layer.bias for layer in layers], activation)


# --- which models are supported ----------------------------------------------------------------------------------------
def _unsupported(model: Model) -> str:
    """The first part of a model that `CPUDecoder` does not support, as a sentence; empty where it supports all."""
    s, output = model.spec, cast(Any, model.output_layer)
    if s.vocabulary is None or s.outputs != s.vocabulary or model.readout.name not in ("each", "last"):
        return "its outputs are not its vocabulary"
    if output.dense is not None or output.norm is not None:
        return "its output layer has more than one linear map"
    if s.input.types is not None or s.input.features is not None:
        return "tokens are more than ids"
    if s.input.separator is not None:
        return "it separates documents"
    if any(
        scheme.widened(s.width) != s.width or scheme.acts("content_bias") or scheme.acts("value_bias") for scheme in model.schemes
    ):
        return "its position scheme depends on the content of tokens, or widens them"
    for i, block in enumerate(cast(list[blocks.TransformerBlock], list(model.blocks))):
        if type(block) is not blocks.TransformerBlock:
            return f"layer {i} is a {type(block).__name__}"
        for a in (block.attention, block.cross):
            if a is not None and (reason := _unsupported_attention(a)):
                return f"attention in layer {i} {reason}"
        if not block.attention.mask.is_causal or not _is_causal_window(block.attention.mask):
            return f"layer {i} has the mask {block.attention.mask.name}"
        if block.cross is not None and type(model.schemes[model._crossing[i]]).__name__ != "NoPosition":
            return f"attention to the encoder in layer {i} has a position scheme"
    return ""


def _unsupported_attention(a: attention.MultiHeadAttention) -> str:
    if type(a) is not attention.MultiHeadAttention:
        return f"is of the kind {type(a).__name__}"
    if not isinstance(a.score, attention.ScaledDot) or a.score.cap is not None:
        return f"has the score {a.score.name}"
    if not a.normalizer.fused or a.o_proj is None or a.value_width != a.head_width:
        return "has another normalizer or other values"
    return ""


def _is_causal_window(mask: attention.Mask) -> bool:
    """Whether it is Causal() & Window(n), or several of them."""
    if isinstance(mask, Both):
        return _is_causal_window(cast(Any, mask.first)) and _is_causal_window(cast(Any, mask.second))
    return isinstance(mask, attention.Causal | attention.Window)


def _parameter_versions(model: Model) -> list[Any]:
    """The address and version counter of each parameter, and the masks."""
    masks = [block.attention.mask for block in cast(list[blocks.TransformerBlock], list(model.blocks))]
    return [*((p.data_ptr(), p._version) for p in model.parameters()), *masks]


def _parameter_samples(model: Model) -> list[list[Tensor]]:
    """Views of a few numbers of every parameter, by dtype and device: a fused optimiser leaves version counters unchanged."""
    samples: dict[Any, list[Tensor]] = {}
    for p in model.parameters():
        row = p.detach().view(-1) if p.is_contiguous() else p.detach()[(0,) * (p.ndim - 1)]
        samples.setdefault((p.dtype, p.device), []).append(row[:: max(1, row.numel() // 32)])
    return list(samples.values())


def _same_bits(a: Tensor, b: Tensor) -> bool:
    """Equality that holds for NaN too."""
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))
