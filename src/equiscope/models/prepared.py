"""Prepared: a copy of a model's weights, laid out for writing token by token, and the same numbers by a shorter way.

A step of decoding does little arithmetic, so what is around it decides: reading the weights, and the calls of Python. Here
weights are packed (`packed.py`), queries, keys and values are one product, what a scheme does is computed once a step for all
layers, and rows are written into room made before. A turn of queries and keys is linear, so one small matrix a step holds it.

`Model.forward` stays the reference: `prepared` compares one step of both, and gives way where they differ or the model has
parts that are not here. The model itself is not touched.
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
from equiscope.models.build import Memory, Model
from equiscope.models.packed import Packed
from equiscope.positions import Position
from equiscope.positions.base import Role
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

FAR = {torch.float64: 1e-10, torch.float32: 1e-4}  # how far one step may be from the reference; other dtypes: 0.1


class Prepared:
    """A model made ready to write: give it to `generate` or `stream` in the model's place.

    why     the reason that `Model.forward` is used instead; empty where the prepared weights are used
    prompt  tokens of all prompts up to which the prepared weights read them; that writes the table of all scores down
    raises  InputError (from `fresh`) where the model's parameters changed since
    """

    def __init__(self, model: Model, prompt: int = 512) -> None:
        if not isinstance(model, Model):
            raise InputError(f"Prepared is made of a model of build or load with attention, but got {type(model).__name__}.")
        self.model, self.prompt, self._made_of = model, prompt, _marks(model)
        self._seen = _some(model)
        self._held = [torch.cat(few) for few in self._seen]
        self.layers: list[_Layer] = []
        self.why = _why_not(model)
        if not self.why:
            self.why = self._pack() or self._differs()
        if self.why:
            self.layers = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "Prepared":
        return type(self)(copy.deepcopy(self.model, memo), self.prompt)

    def __reduce__(self) -> Any:
        return type(self), (self.model, self.prompt)

    def fresh(self) -> "Prepared":
        """Itself. Raises InputError where parameters changed after they were copied."""
        moved = _marks(self.model) != self._made_of
        if moved or not all(_same_bits(torch.cat(few), held) for few, held in zip(self._seen, self._held, strict=True)):
            raise InputError("The model's parameters changed after prepared(model) copied them. Call it again.")
        return self

    @torch.inference_mode()  # a fifteenth of a small model's step
    def step(
        self, ids: Tensor, rows: "Rows", at: Tensor, order: Tensor, valid: Tensor | None, answers: int | None = None
    ) -> Tensor:  # fmt: skip
        """Read ids [B, N] at places at [B, N, 1] with ranks order [B, N]: scores of what follows each, [B, N, V].

        answers  of the last so many only
        """
        model, s = self.model, self.model.spec
        x = torch.embedding(self.table, ids)
        x = x if s.input.scale is None else x * s.input.scale
        x = rows.placed(x, at, model.schemes)
        x = (x if model.input_layer.norm is None else model.input_layer.norm(x)).flatten(0, 1)
        shared = _Shared(model, rows, at, order, valid)
        return self._read(x, shared, answers)

    def _read(self, x: Tensor, shared: "_Shared", answers: int | None) -> Tensor:
        model, s, (batch, new) = self.model, self.model.spec, (shared.batch, shared.new)
        bare = new == 1 and shared.rows.valid is None
        for i, layer in enumerate(self.layers):
            x = layer.flat(x, shared.here[i], *shared.all[i]) if bare and layer.flat is not None else layer(x, i, shared)
        answers = 1 if model.readout.name == "last" else answers
        if answers is not None and answers < new:
            x = x.view(batch, new, -1)[:, -answers:].flatten(0, 1)
        y = x if self.norm is None else self.norm(x)
        y = y if s.output.scale is None else y * s.output.scale
        return self.lm_head(y).view(batch, -1, self.lm_head.outputs)

    def _pack(self) -> str:
        """Copy the weights; in words, why that could not be done."""
        try:
            self._lay_out()
        except RuntimeError as error:  # no memory
            return f"its weights could not be laid out: {error}"
        return ""

    def _lay_out(self) -> None:
        model = self.model
        numbers = zip(cast(list[blocks.TransformerBlock], list(model.blocks)), model._own, strict=True)
        with torch.no_grad():
            self.layers = [_Layer(block, model.schemes[i]) for block, i in numbers]
            output, norm = cast(Any, model.output_layer), cast(Any, model.norm)
            self.table = cast(Any, model.embedding).weight
            self.norm = _Brought.of(norm)
            self.lm_head = _packed(output.lm_head)

    @torch.no_grad()
    def _differs(self) -> str:
        """Read some tokens both ways; in words, how far the answers are from one another if too far."""
        model, table = self.model, cast(Any, self.model.embedding).weight
        ids = torch.arange(5, device=table.device).remainder(len(table)).view(1, 5)
        slow, fast = list[Tensor](), list[Tensor]()
        training = [part for part in model.modules() if part.training]
        try:
            model.eval()
            with torch.autocast(table.device.type, enabled=False):  # which would be another precision for one of them alone
                tokens, memory = model.tokens(ids), None if model.encoder is None else model.read(ids)
                at, order, caches = tokens.positions[None], tokens.order[None], model.caches()
                rows = Rows.empty(model, at[:, :2], ids.shape[1], memory, False)
                for new in (slice(0, 2), slice(2, 3), slice(3, 5)):
                    some = Tokens(x=tokens.x[:, new], positions=at[:, new], order=order[:, new])
                    fast.append(self.step(ids[:, new], rows, some.positions, some.order, None))
                    slow.append(model(some, caches, memory).view_as(fast[-1]))
        except (RuntimeError, InputError) as error:
            return f"one step could not be made: {error}"
        finally:
            for part in training:
                part.training = True
        far, allowed = relative_error(torch.cat(fast, 1).double(), torch.cat(slow, 1).double()), FAR.get(table.dtype, 0.1)
        return "" if far < allowed else f"its answers are {far:.1e} away from the model's, more than {allowed:g}"


def prepared(model: Model) -> Prepared:
    """Copy a model's weights for fast writing. Where that is not possible, `why` says so, and the model itself is used."""
    return Prepared(model)


@dataclass
class Rows:
    """Keys and values of all layers, and what all layers share: places, ranks, padding.

    kv  of each layer its key heads, then its value heads, [B, 2G, room, K]; one tensor [layers, B, 2G, room, K] where all are alike

    Keys and values are float32 at least: attention among few rows is several times faster so on a CPU, and no less exact.
    """

    kv: Tensor | list[Tensor]
    positions: Tensor
    order: Tensor
    valid: Tensor | None
    memory: Memory | None
    count: int
    ahead: int = 0  # rows whose place, rank and padding are written down: after a prompt all, since texts go on by one
    added: Tensor | None = None  # what schemes add for the places to come [B, n, D]: computed and checked once
    began: int = -1  # rows there were then

    def placed(self, x: Tensor, at: Tensor, schemes: list[Position]) -> Tensor:
        """Tokens x [B, N, D] with what schemes say of their places at [B, N, 1], which go on by one."""
        if self.began < 0 and self.count:  # a prompt's places need not go on by one
            self.began = self.count
            self.added = self._added(x, at, schemes)
        if self.added is None:
            for scheme in schemes:
                x = scheme.embed(x, at)
            return x
        return x + self.added.narrow(1, self.count - self.began, x.shape[1])

    def _added(self, x: Tensor, at: Tensor, schemes: list[Position]) -> Tensor | None:
        """None where some scheme does something else than adding, or has not that many places."""
        ahead = torch.arange(self.positions.shape[1] - self.count, device=at.device, dtype=at.dtype)[:, None]
        places, here = at[:, :1] + ahead, at
        made, one = x.new_zeros(len(x), len(ahead), x.shape[-1]), x
        try:
            for scheme in schemes:
                made, one = scheme.embed(made, places), scheme.embed(one, here)
        except InputError:
            return None
        return made if made.shape[-1] == x.shape[-1] and torch.equal(one, x + made[:, : x.shape[1]]) else None

    @classmethod
    def empty(cls, model: Model, at: Tensor, room: int, memory: Memory | None, padded: bool) -> "Rows":
        """Room for so many rows of sequences whose places are like `at` [B, N, 1]."""
        batch, table = len(at), cast(Any, model.embedding).weight
        asked = [block.attention for block in cast(list[blocks.TransformerBlock], list(model.blocks))]
        sizes = [(batch, 2 * a.kv_heads, room, a.head_width) for a in asked]
        wide, alike = _wide(table), all(size == sizes[0] for size in sizes)
        kv = table.new_zeros(len(sizes), *sizes[0], dtype=wide) if alike else [table.new_zeros(size, dtype=wide) for size in sizes]
        ranks = torch.zeros(batch, room, dtype=torch.long, device=at.device)
        valid = torch.zeros(batch, room, dtype=torch.bool, device=at.device) if padded else None
        return cls(kv, at.new_zeros(batch, room, at.shape[-1]), ranks, valid, memory, 0)

    @classmethod
    def of(cls, caches: list[attention.Cache], memory: Memory | None, room: int) -> "Rows":
        """What ordinary caches hold, with room for so many rows in all."""
        first, count = caches[0].rows, caches[0].length

        def roomy(part: Tensor, axis: int) -> Tensor:
            shape = list(part.shape)
            shape[axis] = room
            made = part.new_zeros(shape)
            made.narrow(axis, 0, count).copy_(part)
            return made

        wide = _wide(first["k"])
        sizes = [(len(c.rows["k"]), 2 * c.rows["k"].shape[1], room, c.rows["k"].shape[-1]) for c in caches]
        alike = all(size == sizes[0] for size in sizes)
        whole = first["k"].new_zeros(len(caches), *sizes[0], dtype=wide) if alike else None
        kv = whole if whole is not None else [first["k"].new_zeros(size, dtype=wide) for size in sizes]
        with torch.no_grad():  # the prompt may have been read where gradients are
            for i, cache in enumerate(caches):
                heads = cache.rows["k"].shape[1]
                for name, start in (("k", 0), ("v", heads)):
                    kv[i].narrow(1, start, heads).narrow(-2, 0, count).copy_(cache.rows[name])
        valid = roomy(first["valid"], -1) if "valid" in first else None
        return cls(kv, roomy(first["positions"], -2), roomy(first["order"], -1), valid, memory, count)

    def since(self, start: int) -> Sequence[Tensor]:
        """Of each layer, the room of the rows from there to the last: keys, then values, [B, 2G, N, K], views."""
        if isinstance(self.kv, Tensor):
            return self.kv.narrow(-2, start, self.count - start).unbind()
        return [layer.narrow(-2, start, self.count - start) for layer in self.kv]

    def read(self) -> list[tuple[Tensor, Tensor]]:
        """Of each layer, keys and values of all rows so far, [B, G, M, K] each, views."""
        if isinstance(self.kv, Tensor):
            keys, values = self.kv.narrow(-2, 0, self.count).chunk(2, 2)
            return list(zip(keys.unbind(), values.unbind(), strict=True))
        return [cast(tuple[Tensor, Tensor], layer.narrow(-2, 0, self.count).chunk(2, 1)) for layer in self.kv]

    def take(self, at: Tensor, order: Tensor, valid: Tensor | None) -> None:
        """Places of the rows that come now: a prompt's, or those after what was read."""
        first, self.count = self.count, self.count + order.shape[-1]
        if self.count <= self.ahead:
            return
        if first:
            steps = torch.arange(self.positions.shape[1] - first, device=order.device)
            at, order, valid = at[:, :1] + steps.to(at.dtype)[:, None], order[:, :1] + steps, None
        here = slice(first, first + order.shape[-1])
        self.positions[:, here], self.order[:, here], self.ahead = at, order, here.stop
        if self.valid is not None:
            self.valid[:, here] = True if valid is None else valid

    def pick(self, rows: Tensor) -> None:
        """Of a batch, keep the sequences with these numbers, in this order."""
        kv = self.kv
        self.kv = kv.index_select(1, rows) if isinstance(kv, Tensor) else [layer.index_select(0, rows) for layer in kv]
        self.positions, self.order = self.positions[rows], self.order[rows]
        self.added = None if self.added is None else self.added[rows]
        self.valid = None if self.valid is None else self.valid[rows]


def _wide(like: Tensor) -> torch.dtype:
    return torch.promote_types(like.dtype, torch.float32) if like.device.type == "cpu" else like.dtype


class _Shared:
    """What all layers of one step share, made when first asked for."""

    def __init__(self, model: Model, rows: Rows, at: Tensor, order: Tensor, valid: Tensor | None) -> None:
        rows.take(at, order, valid)
        self.rows, self.positions, self.order, self.start = rows, at, order, rows.count - order.shape[-1]
        self.batch, self.new = order.shape
        self.here, self.all = rows.since(self.start), rows.read()
        self._made: dict[Any, Any] = {}

    def rotate(self, x: Tensor, scheme: Position, role: Role) -> Tensor:
        """Queries or keys [B, H, N, K], turned. For one row, by a matrix: whatever a place does to rows is linear in them."""
        if not scheme.acts("rotate"):
            return x
        if self.new > 1:
            return scheme.rotate(x, self.positions, role)
        key = ("rotate", id(scheme), x.shape[-1], role)
        if key not in self._made:
            wide, wanted = x.shape[-1], torch.promote_types(x.dtype, torch.float32)
            alike = self.batch == 1 or self.rows.valid is None
            at = self.positions[:1] if alike else self.positions
            eye = torch.eye(wide, dtype=wanted, device=x.device).expand(len(at), 1, wide, wide)
            self._made[key] = scheme.rotate(eye, at.expand(-1, wide, -1), role)
        rotation: Tensor = self._made[key]
        if rotation.shape[:2] == (1, 1):
            return (x.reshape(-1, x.shape[-1]).to(rotation.dtype) @ rotation[0, 0]).to(x.dtype).view(*x.shape[:-1], -1)
        return (x.to(rotation.dtype) @ rotation).to(x.dtype)

    def mask(self, scheme: Position, heads: int, window: int | None, dtype: torch.dtype) -> Tensor | None:
        """What is added to scores, or bool: who may look; [B or 1, H or 1, N, M], None where nothing is hidden."""
        key = ("mask", id(scheme), heads, window)
        if key not in self._made:
            seen, bias = self._seen(window), self._bias(scheme, heads)
            if bias is not None:
                bias = bias.to(torch.promote_types(dtype, torch.float32))
                seen = bias if seen is None else bias.masked_fill(~seen, -torch.inf)
            self._made[key] = seen
        made: Tensor | None = self._made[key]
        return made

    def _seen(self, window: int | None) -> Tensor | None:
        rows = self.rows
        if self.new == 1 and rows.valid is None and (window is None or rows.count <= window):
            return None
        theirs, mine = rows.order[:, None, None, : rows.count], self.order[:, None, :, None]
        seen = theirs <= mine
        if window is not None:
            seen = seen & (mine - theirs < window)
        return seen if rows.valid is None else seen & rows.valid[:, None, None, : rows.count]

    def _bias(self, scheme: Position, heads: int) -> Tensor | None:
        if not scheme.acts("score_bias"):
            return None
        head = torch.arange(heads, device=self.positions.device)[:, None, None]
        here, there = self.positions[:, None, :, :], self.rows.positions[:, None, : self.rows.count, :].mT
        return scheme.score_bias(head, (here,), (there,))


Normed = Callable[[Tensor], Tensor]
Flat = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # x [B, D]; of this row keys and values, keys so far, values so far


class _Layer:
    """One block, row by row: x [B*N, D] to the same. What a module holds is looked up once, not in every step."""

    def __init__(self, block: blocks.TransformerBlock, scheme: Position) -> None:
        own, f, cross = block.attention, block.feedforward, block.cross
        self.scheme, self.parallel, self.residual, self.pre = scheme, block.parallel, block.residual, block.order == "pre"
        self.heads, self.groups, self.width = own.heads, own.kv_heads, own.head_width
        self.parts, self.turns = (own.heads, 2 * own.kv_heads), scheme.acts("rotate")
        self.scale, self.window = own.score.factor(own.head_width), own.mask.window
        self.asking = _packed(own.q_proj, own.k_proj, own.v_proj)
        self.output = _packed(cast(nn.Linear, own.o_proj))
        self.normed = _of_heads(own)
        self.attention_norm, self.cross_norm, self.feedforward_norm = (
            _Brought.of(norm) for norm in (block.attention_norm, block.cross_norm, block.feedforward_norm)
        )
        self.cross = cross
        self.crossing = None if cross is None else _packed(cross.q_proj)
        self.crossed = None if cross is None else _packed(cast(nn.Linear, cross.o_proj))
        self.cross_normed = None if cross is None else _of_heads(cross)
        self.inward = self.outward = self.gate = None
        if f is not None:
            self.outward = _packed(f.down_proj)
            if f.gate_proj is None:
                self.inward = _packed(f.up_proj, activation=f.activation)
            else:
                self.inward, self.gate = _packed(f.gate_proj, f.up_proj), f.activation
        self.flat = self._flat()

    def __call__(self, x: Tensor, number: int, shared: _Shared) -> Tensor:
        z = self._look(self._before(x, self.attention_norm), number, shared)
        if self.parallel and self.outward is not None:
            more = self.outward.added(self._hidden(self._before(x, self.feedforward_norm)), self.output(z))
            return x + more if self.residual else more
        x = self._after(x, z, self.output, self.attention_norm)
        if self.crossed is not None:
            z = self._look_across(self._before(x, self.cross_norm), number, shared)
            x = self._after(x, z, self.crossed, self.cross_norm)
        if self.outward is None:
            return x
        return self._after(x, self._hidden(self._before(x, self.feedforward_norm)), self.outward, self.feedforward_norm)

    def _flat(self) -> Flat | None:
        """`__call__` for one row of one text or several, written out, where a layer has the usual parts; else None.

        A step reads more weights than a cache holds, so each function between costs microseconds: here are few.
        """
        n1, n2, inward, outward = self.attention_norm, self.feedforward_norm, self.inward, self.outward
        whole = self.pre and self.residual and not self.parallel and self.crossed is None and self.gate is None
        if not whole or n1 is None or n2 is None or inward is None or outward is None or {n1.kind, n2.kind} != {"layer"}:
            return None
        if self.normed or self.turns or self.window or self.scheme.acts("score_bias") or self.heads != self.groups:
            return None
        asking, output, inner, outer = self.asking.__call__, self.output.added, inward.__call__, outward.added
        gain1, shift1, eps1, gain2, shift2, eps2 = n1.gain, n1.shift, n1.eps, n2.gain, n2.shift, n2.eps
        size, heads, scale, look, width = n1.gain.shape, self.heads, self.scale, F.scaled_dot_product_attention, self.width

        def flat(x: Tensor, here: Tensor, k: Tensor, v: Tensor) -> Tensor:
            made = asking(torch.layer_norm(x, size, gain1, shift1, eps1)).view(len(x), -1, 1, width)
            here.copy_(made.narrow(1, heads, 2 * heads))
            z = look(made.narrow(1, 0, heads).to(k.dtype), k, v, scale=scale).reshape(len(x), -1).to(x.dtype)
            x = output(z, x)
            return outer(inner(torch.layer_norm(x, size, gain2, shift2, eps2)), x)

        return flat

    def _look(self, x: Tensor, number: int, shared: _Shared) -> Tensor:
        heads, groups, here = self.heads, self.groups, shared.here[number]
        q, kv = _in_heads(self.asking(x), self.width, shared).split(self.parts, 1)
        here.copy_(kv)
        if self.normed is not None or self.turns:
            k = here.narrow(1, 0, groups) if self.normed is None else self.normed[1](kv.narrow(1, 0, groups))
            here.narrow(1, 0, groups).copy_(shared.rotate(k, self.scheme, "key"))
            q = q.to(here.dtype) if self.normed is None else self.normed[0](q)
            q = shared.rotate(q, self.scheme, "query")
        k, v = shared.all[number]
        return _looked_up(q.to(k.dtype), k, v, shared.mask(self.scheme, heads, self.window, k.dtype), self.scale).to(x.dtype)

    def _look_across(self, x: Tensor, number: int, shared: _Shared) -> Tensor:
        a, memory = cast(attention.MultiHeadAttention, self.cross), cast(Memory, shared.rows.memory)
        assert self.crossing is not None
        q = _in_heads(self.crossing(x), a.head_width, shared)
        q = q if self.cross_normed is None else self.cross_normed[0](q)
        held, valid = memory.key_values[number], memory.tokens.valid
        seen = None if valid is None else valid[..., None, None, :].expand(shared.batch, 1, shared.new, -1)
        return _looked_up(q, held.k, held.v, seen, a.score.factor(a.head_width))

    def _hidden(self, x: Tensor) -> Tensor:
        assert self.inward is not None
        hidden = self.inward(x)
        if self.gate is None:
            return hidden
        gate, inner = hidden.chunk(2, -1)
        return functional.activation(gate, self.gate) * inner

    def _before(self, x: Tensor, norm: Normed | None) -> Tensor:
        return norm(x) if norm is not None and self.pre else x

    def _after(self, x: Tensor, change: Tensor, through: Packed, norm: Normed | None) -> Tensor:
        x = through.added(change, x) if self.residual else through(change)
        return norm(x) if norm is not None and not self.pre else x


def _in_heads(x: Tensor, width: int, shared: _Shared) -> Tensor:
    """[B*N, H*K] to [B, H, N, K], width K."""
    if shared.new == 1:
        return x.view(shared.batch, -1, 1, width)
    return x.view(shared.batch, shared.new, -1, width).transpose(1, 2)


def _looked_up(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """q [B, H, N, K] among k, v [B, G, M, K]: the heads side by side [B*N, H*K]."""
    batch, heads, new, _ = q.shape
    groups = k.shape[1]
    if new > 1 or groups == heads:
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, enable_gqa=groups != heads)
        return z.reshape(batch, -1) if new == 1 else z.transpose(1, 2).reshape(batch * new, -1)
    if mask is not None and mask.shape[1] > 1:
        mask = mask.reshape(-1, groups, heads // groups, mask.shape[-1])
    q = q.reshape(batch, groups, heads // groups, -1)  # of one row, the queries of a group are rows that ask the same keys
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).reshape(batch, -1)


def _of_heads(a: attention.MultiHeadAttention) -> tuple[Normed, Normed] | None:
    """What brings queries and keys to one size; None where nothing does."""
    q_norm, k_norm = _Brought.of(a.q_norm), _Brought.of(a.k_norm)
    return None if q_norm is None or k_norm is None else (q_norm, k_norm)


@dataclass(frozen=True)
class _Brought:
    """To one size, as `Norm` and heads do, without a look-up of what they hold."""

    kind: str
    gain: Tensor
    shift: Tensor | None
    eps: float

    @classmethod
    def of(cls, norm: blocks.NormLayer | None) -> "_Brought | None":
        if isinstance(norm, nn.LayerNorm):
            return cls("layer", norm.weight, norm.bias, norm.eps)
        return None if norm is None else cls("rms", norm.weight, None, norm.eps or 0.0)

    def __call__(self, x: Tensor) -> Tensor:
        if self.kind == "layer":
            return torch.layer_norm(x, self.gain.shape, self.gain, self.shift, self.eps)
        return torch.rms_norm(x, self.gain.shape, self.gain, self.eps)


def _packed(*layers: nn.Linear, activation: Activation | None = None) -> Packed:
    """Linear maps of the same rows as one product."""
    return Packed([layer.weight.mT for layer in layers], [layer.bias for layer in layers], activation)


# --- what can be prepared ---------------------------------------------------------------------------------------------
def _why_not(model: Model) -> str:
    """What of a model has no short way, in words; empty where all has."""
    s, output = model.spec, cast(Any, model.output_layer)
    if s.vocabulary is None or s.outputs != s.vocabulary or model.readout.name not in ("each", "last"):
        return "it does not answer with its vocabulary"
    if output.dense is not None or output.norm is not None:
        return "a map stands before the last one"
    if s.input.types is not None or s.input.features is not None:
        return "tokens are more than ids"
    if s.input.separator is not None:
        return "it keeps documents apart"
    if any(
        scheme.widened(s.width) != s.width or scheme.acts("content_bias") or scheme.acts("value_bias") for scheme in model.schemes
    ):
        return "its scheme reads what tokens hold, or widens them"
    for i, block in enumerate(cast(list[blocks.TransformerBlock], list(model.blocks))):
        if type(block) is not blocks.TransformerBlock:
            return f"layer {i} is a {type(block).__name__}"
        for a in (block.attention, block.cross):
            if a is not None and (reason := _unusual(a)):
                return f"attention in layer {i} {reason}"
        if not block.attention.mask.is_causal or not _slides(block.attention.mask):
            return f"layer {i} has the mask {block.attention.mask.name}"
        if block.cross is not None and type(model.schemes[model._crossing[i]]).__name__ != "NoPosition":
            return f"attention to the encoder in layer {i} knows places"
    return ""


def _unusual(a: attention.MultiHeadAttention) -> str:
    if type(a) is not attention.MultiHeadAttention:
        return f"is of the kind {type(a).__name__}"
    if not isinstance(a.score, attention.ScaledDot) or a.score.cap is not None:
        return f"has the score {a.score.name}"
    if not a.normalizer.fused or a.o_proj is None or a.value_width != a.head_width:
        return "has other weights or values"
    return ""


def _slides(mask: attention.Mask) -> bool:
    """Whether it is Causal() & Window(n), or several of them."""
    if isinstance(mask, Both):
        return _slides(cast(Any, mask.first)) and _slides(cast(Any, mask.second))
    return isinstance(mask, attention.Causal | attention.Window)


def _marks(model: Model) -> list[Any]:
    """Where each parameter lies, and how often it was written; and the masks."""
    masks = [block.attention.mask for block in cast(list[blocks.TransformerBlock], list(model.blocks))]
    return [*((p.data_ptr(), p._version) for p in model.parameters()), *masks]


def _some(model: Model) -> list[list[Tensor]]:
    """Views of a few numbers of every parameter, by kind and device: a fused optimiser writes without a mark."""
    found: dict[Any, list[Tensor]] = {}
    for p in model.parameters():
        row = p.detach().view(-1) if p.is_contiguous() else p.detach()[(0,) * (p.ndim - 1)]
        found.setdefault((p.dtype, p.device), []).append(row[:: max(1, row.numel() // 32)])
    return list(found.values())


def _same_bits(a: Tensor, b: Tensor) -> bool:
    """Also where numbers are NaN."""
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))
