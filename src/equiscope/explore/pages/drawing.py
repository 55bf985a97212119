"""From a spec to a drawing: every part a box, once for all layers that are alike, with its sizes, its claims and its numbers.

Boxes are made by walking through the spec beside the model that was built from it, so that parameters are counted on real
modules and claims come from `derive`; on the device "meta" that costs no memory, whatever the size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import torch
from torch import nn

from equiscope import attention, blocks, record
from equiscope.errors import InputError, counted
from equiscope.explore.model.owners import owners
from equiscope.explore.model.toy_model import ToyRun, runs, toy_run
from equiscope.models import Block, Built, Model, ModelSpec, Spec, build
from equiscope.models.readout import ClassToken
from equiscope.positions import Position, to_json
from equiscope.symmetry import CLAIMED, Action, derive

RANKS = 6  # tokens in the picture of a mask
ABOUT: dict[record.drawing.BoxKind, str] = {
    "table": "Every word has a row of numbers in a table.",
    "map": "The raw numbers of every token are mapped to the width of the model.",
    "norm": "Every token is normalised by itself.",
    "attention": "Every token attends to all tokens that the mask allows, and gets a weighted sum of their values.",
    "cross": "Every token attends to the encoder's rows, and gets a weighted sum of their values.",
    "mask": "Which pairs may attend: a row is the query, a column the key.",
    "feedforward": "The same small network for every token, alone.",
    "token": "Learned rows stand in front of the tokens; the first is read out at the end.",
    "readout": "What is taken from the rows of the last layer.",
    "output_layer": "A linear map from rows to answers.",
}
ACTS = {  # place where a scheme acts: slot of the attention that it stands in, and what it does there
    "rotate": ("rotate", "rotates queries and keys by their position"),
    "score_bias": ("scores", "adds to the scores, by position"),
    "content_bias": ("scores", "adds to the scores, by position and content"),
    "value_bias": ("values", "adds to the values, by position"),
}


def drawing(source: ModelSpec | Built, title: str = "", seed: int = 0) -> record.Drawing:
    """The page's data for a model. A spec is built without memory; of a model with weights, a small one is traced itself.

    raises  InputError where no small model of this make could be run
    """
    if source.spec.kind != "sequence":
        raise InputError(f"A drawing shows models of sequences, but this one is of the kind {source.spec.kind}.")
    own = None if source is source.spec else cast(Model, source)
    with torch.device("meta"):
        model = cast(Model, build(source.spec)) if own is None else own
    spec, small = model.spec, toy_run(model.spec, own, seed)
    sketch = _Sketch(model, small)
    towers = [] if model.encoder is None else [_Tower(sketch, model.encoder, "encoder.", 0)]
    towers.append(_Tower(sketch, model, "", len(towers)))
    for tower in towers:
        tower.draw()
    sketch.connect(towers)
    program, pool = _pooled(small.program)
    total = sum(p.numel() for p in model.parameters())
    note = " ".join([small.note, *(model.origin if small.own else [])])
    return record.Drawing(
        title=title or "a model", summary=_summary(spec), parameters=total, towers=_headings(spec), boxes=sketch.numbered(program),
        frames=sketch.frames, links=sketch.links, claims=_model_claims(model, sketch.boxes), program_note=note, program=program,
        pool=pool,
        axis_names=small.axis_names, heads=max(b.attention.heads for s in _specs(small.model.spec) for b in s.blocks),
    )  # fmt: skip


@dataclass
class _Sketch:
    """Boxes, frames and links so far, and which parameters were counted."""

    model: Model
    small: ToyRun
    boxes: list[record.Box] = field(default_factory=list)
    frames: list[record.Frame] = field(default_factory=list)
    links: list[record.Link] = field(default_factory=list)
    counted: set[int] = field(default_factory=set)
    paths: dict[str, str] = field(default_factory=dict)  # the box of each module path of the toy model

    def add(self, box: record.Box, modules: Sequence[nn.Module | nn.Parameter | None] = (), claims: nn.Module | None = None) -> str:
        """A box for modules that are alike, one a layer; `claims` asks more parts than are counted here."""
        present = [m for m in modules if m is not None]
        sizes = [_parameters(m) for m in present]
        fresh = {id(p): p.numel() for ps in sizes for p in ps if id(p) not in self.counted}
        self.counted |= fresh.keys()
        owner = claims or next((m for m in present if isinstance(m, nn.Module)), None)
        self.boxes.append(
            msgspec.structs.replace(
                box, about=box.about or ABOUT.get(box.kind, ""), parameters=sum(p.numel() for p in sizes[0]) if sizes else 0,
                total=sum(fresh.values()), claims=derive(owner) if owner is not None else [],
            )
        )  # fmt: skip
        return box.id

    def link(self, source: str, target: str, kind: record.drawing.Wire = "stream") -> None:
        self.links.append(record.Link(source=source, target=target, kind=kind))

    def connect(self, towers: "list[_Tower]") -> None:
        """What leads from one tower to another, and from the table to a head that shares it."""
        if len(towers) == 2:
            for box in self.boxes:
                if box.kind == "cross":
                    self.link(towers[0].last, box.id, "source")
        spec = self.model.spec
        if spec.tied:
            self.link("embedding", "output_layer", "tied")
        if spec.shared:
            self.link("encoder.embedding", "embedding", "tied")

    def numbered(self, program: record.ProgramRecord) -> list[record.Box]:
        """The boxes with the ids of their steps."""
        steps = owners(program, self.paths, {box.id: box.inside for box in self.boxes})
        return [msgspec.structs.replace(box, steps=steps.get(box.id, [])) for box in self.boxes]


class _Tower:
    """One column: an encoder, or a model that may ask one. It keeps the end of the stream as it grows."""

    def __init__(self, sketch: _Sketch, model: Model, prefix: str, number: int) -> None:
        self.sketch, self.model, self.spec, self.prefix, self.number = sketch, model, model.spec, prefix, number
        self.letter = "M" if prefix else "N"
        self.width = model.position.widened(self.spec.width)
        self.rows, self.last, self.small = self.letter, "", sketch.small.model
        if prefix:
            assert self.small.encoder is not None
            self.small = self.small.encoder

    @property
    def shape(self) -> list[str]:
        return [self.rows, _count(self.width)]

    def draw(self) -> None:
        self._input()
        self._layers()
        if self.model.norm is not None:
            self._up(self._norm("norm", [self.model.norm]))
        if not self.prefix:
            self._exit()

    # --- before the layers ----------------------------------------------------------------------------------------------
    def _input(self) -> None:
        spec, e, narrow = self.spec, self.spec.input, [self.letter, _count(self.spec.width)]
        if e.patch:
            channels = e.channels
            note = counted(channels, "channel")
            sizes = {1: ["T"], 2: ["H", "W"], 3: ["T", "H", "W"]}[len(e.patch)]
            shape = [*sizes[:-2], *([str(channels)] if channels > 1 or len(sizes) > 1 else []), *sizes[-2:]]
        elif e.features and not spec.vocabulary:
            note, shape = f"{_count(e.features)} raw numbers a token", [self.letter, _count(e.features)]
        else:
            note, shape = (f"{_count(spec.vocabulary)} known words", [self.letter]) if spec.vocabulary else ("features", narrow)
        title = {0: "Words" if spec.vocabulary else "Tokens", 1: "Sound", 2: "Picture", 3: "Video"}[len(e.patch or ())]
        about = "What the encoder reads." if self.prefix else "What the model reads."
        self._up(self._box("input", "input", title, lines=[note], shape=shape, about=about))
        if spec.vocabulary:
            lines = [f"{_count(spec.vocabulary)} × {_count(spec.width)}"]
            lines += [f"times {e.scale:.5g}"] if e.scale is not None else []
            lines += ["one table for both"] if self.sketch.model.spec.shared else []
            self._up(self._box("embedding", "table", "Embedding", [self.model.embedding], lines=lines, shape=narrow))
        if e.features:
            layer = self.model.input_layer
            lines = [f"cells of {' × '.join(map(str, e.patch))}"] if e.patch else []
            lines += [f"convolutions {' → '.join(map(str, e.stem))}"] if e.stem else []
            lines += ["numbered row by row"] if e.positions == "index" else []
            lines += [f"{_count(e.features)} → {_count(spec.width)}"]
            own = _Bag(
                *(layer.proj.parameters() if layer.proj is not None else ()),
                *(layer.stem.parameters() if layer.stem is not None else ()),
            )
            title = "Convolutional stem" if e.stem else "Patches" if e.patch else "Linear map" if e.map else "Raw numbers"
            lines += [] if e.map else ["as they are, with zeros beside them"]
            box = self._box("input_layer", "map", title, [own], lines=lines, shape=narrow, paths=["input_layer"])
            self._joined(box, "input_layer.sum") if spec.vocabulary else self._up(box)
        if e.types:
            kinds = self._box(
                "types", "table", "Kinds", [self.model.input_layer.types], lines=[f"{e.types} kinds of tokens"], shape=narrow,
                about="A row for the kind of token is added, such as sentence A or B.", paths=["input_layer.types"],
            )  # fmt: skip
            self._joined(kinds, "types.sum")
        for i, scheme in enumerate(self.model.schemes):
            if scheme.acts("embed"):
                wider = scheme.widened(self.spec.width) != self.spec.width
                does = "is written beside every token" if wider else "is added to every token"
                name = "position" if i == 0 else f"others.{i - 1}"
                self._joined(self._scheme(scheme, name, f"{name}.embed", f"Its place {does}."), f"{name}.sum", join=wider)
        if self.model.input_layer.norm is not None:
            self._up(self._norm("input_layer.norm", [self.model.input_layer.norm]))
        if isinstance(self.model.readout, ClassToken):
            extra = len(self.model.readout.row)
            title = "Class token" if extra == 1 else f"Class token + {extra - 1}"
            shape = [str(extra), _count(self.width)]
            token = self._box("token", "token", title, [self.model.readout], shape=shape, paths=["readout.row"])
            self.rows = f"{extra} + {self.letter}"
            self._joined(token, "token.join", join=True)

    # --- the layers -----------------------------------------------------------------------------------------------------
    def _layers(self) -> None:
        layer_runs = runs(self.spec)
        period, outer, at = sum(count for _, count in layer_runs), "", 0
        if len(layer_runs) > 1:
            outer = f"{self.prefix}turns"
            self.sketch.frames.append(
                record.Frame(id=outer, title="alternating layers", repeat=self.spec.layers // period, tower=self.number)
            )
        for i, (block, count) in enumerate(layer_runs):
            frame = f"{self.prefix}layers.{i}"
            numbers = [n for start in range(0, self.spec.layers, period) for n in range(start + at, start + at + count)]
            self.sketch.frames.append(record.Frame(id=frame, title=_layers(numbers), repeat=count, tower=self.number, outer=outer))
            _Layer(self, block, i, numbers, frame).draw()
            at += count

    # --- after the layers -----------------------------------------------------------------------------------------------
    def _exit(self) -> None:
        spec, readout = self.spec, self.model.readout
        alone = {"each": self.shape, "concatenation": [f"{self.rows} × {_count(self.width)}"]}
        shape = alone.get(spec.readout, [_count(self.width)])
        title = readout.title[0].upper() + readout.title[1:]
        counted = [] if isinstance(readout, ClassToken) else [readout]
        self._up(self._box("readout", "readout", title, counted, claims=readout, shape=shape, paths=["readout"]))
        if spec.outputs and self.model.output_layer is not None:
            lines = [f"{_count(self.width)} → {_count(spec.outputs)}"]
            lines += ["the embedding table, transposed"] if spec.tied else []
            lines += [f"after {_count(self.width)} → {_count(self.width)}, {spec.output.hidden}"] if spec.output.hidden else []
            lines += [f"times {spec.output.scale:.4g}"] if spec.output.scale is not None else []
            shape = [*shape[:-1], _count(spec.outputs)]
            table = self.model.embedding.weight if spec.tied and self.model.embedding is not None else None
            own = _Bag(*(p for p in self.model.output_layer.parameters() if p is not table))
            title = "Output layer, tied" if spec.tied else "Output layer"
            self._up(self._box("output_layer", "output_layer", title, [own], lines=lines, shape=shape))
        words = spec.outputs is not None and spec.outputs == spec.vocabulary
        follows = spec.blocks[-1].attention.joint_mask.is_causal
        title = "Output" if not words else "Scores of the next word" if follows else "Scores of words"
        self._up(self._box("output", "output", title, shape=shape, about="What the model returns."))

    # --- boxes ----------------------------------------------------------------------------------------------------------
    def _box(
        self, name: str, kind: record.drawing.BoxKind, title: str, modules: Sequence[nn.Module | None] = (), *,
        paths: Sequence[str] | None = None, claims: nn.Module | None = None, where: Sequence[str] = (), **note: Any,
    ) -> str:  # fmt: skip
        """A box of this tower; said: further fields of it. paths: modules of the toy model that it shows, by default its name."""
        ident = f"{self.prefix}{name}"
        for path in (name,) if paths is None else paths:
            self.sketch.paths[f"model.{self.prefix}{path}"] = ident
        where_paths = list(where) or ([f"{self.prefix}{path}" for path in paths or (name,)] if modules else [])
        box = record.Box(id=ident, kind=kind, title=title, tower=self.number, where=where_paths, **note)
        return self.sketch.add(box, modules, claims)

    def _norm(self, name: str, modules: Sequence[blocks.NormLayer], **note: Any) -> str:
        title = type(modules[0]).__name__
        return self._box(name, "norm", title, modules, shape=self.shape, **note)

    def _scheme(self, scheme: Position, path: str, name: str, about: str, inside: str = "", **note: Any) -> str:
        settings = {k: v for k, v in to_json(scheme).items() if k != "scheme"}
        lines = [f"{k}: {v.get('kind', k) if isinstance(v, dict) else _setting_text(v)}" for k, v in settings.items()]
        title = scheme.title[0].upper() + scheme.title[1:]
        return self._box(
            name, "position", title, [scheme], lines=lines, about=f"{scheme.summary} {about}", inside=inside,
            paths=[] if inside else [path], where=[f"{self.prefix}{path}"], **note,
        )  # fmt: skip

    # --- the stream -----------------------------------------------------------------------------------------------------
    def _up(self, ident: str) -> str:
        """The stream goes on through this box."""
        if self.last:
            self.sketch.link(self.last, ident)
        self.last = ident
        return ident

    def _joined(self, ident: str, name: str, join: bool = False) -> None:
        """A box beside the stream joins it: added, or written beside."""
        self._up(self._box(name, "join" if join else "sum", "with" if join else "plus", shape=self.shape, paths=[]))
        self.sketch.link(ident, self.last, "side")


class _Layer:
    """The boxes of one kind of layer, in the order in which its norm stands; `numbers` are the layers that it stands for."""

    def __init__(self, tower: _Tower, block: Block, index: int, numbers: Sequence[int], frame: str) -> None:
        self.tower, self.spec, self.numbers, self.frame = tower, block, numbers, frame
        self.made = [cast(blocks.TransformerBlock, tower.model.blocks[n]) for n in numbers]
        self.small = numbers[0] if tower.sketch.small.own else index
        self.order = block.norm.order if block.norm is not None else ""

    def draw(self) -> None:
        if self.spec.parallel and self.spec.feedforward is not None:
            self._parallel()
            return
        self._part("attention", lambda: self._attention("attention"))
        if self.spec.cross is not None:
            self._part("cross", lambda: self._attention("cross"))
        if self.spec.feedforward is not None:
            self._part("feedforward", self._feedforward)

    def _part(self, name: str, make: Callable[[], str]) -> None:
        """Norm, part and sum, as the order says."""
        tower, start = self.tower, self.tower.last
        if self.order == "pre":
            tower._up(self._norm(f"{name}_norm"))
        tower._up(make())
        if self.spec.residual:
            tower._up(self._sum(name, "plus what came before"))
            tower.sketch.link(start, tower.last, "residual")
        if self.order == "post":
            tower._up(self._norm(f"{name}_norm"))

    def _parallel(self) -> None:
        tower, start = self.tower, self.tower.last
        ends = []
        for name, make in (("attention", lambda: self._attention("attention")), ("feedforward", self._feedforward)):
            tower.last = start
            if self.order == "pre":
                tower._up(self._norm(f"{name}_norm"))
            ends.append(tower._up(make()))
        joined = self._sum("feedforward", "both, plus what came before" if self.spec.residual else "both parts added")
        for end in ends:
            tower.sketch.link(end, joined)
        if self.spec.residual:
            tower.sketch.link(start, joined, "residual")
        tower.last = joined

    # --- boxes ----------------------------------------------------------------------------------------------------------
    def _name(self, part: str) -> str:
        """The name of a box: the path of its module in the first of its layers."""
        return f"blocks.{self.numbers[0]}.{part}"

    def _paths(self, part: str) -> dict[str, Any]:
        return {
            "paths": [f"blocks.{self.small}.{part}"],
            "where": [f"{self.tower.prefix}blocks.{n}.{part}" for n in self.numbers],
        }

    def _norm(self, part: str) -> str:
        return self.tower._norm(self._name(part), [getattr(b, part) for b in self.made], frame=self.frame, **self._paths(part))

    def _sum(self, part: str, about: str) -> str:
        return self.tower._box(
            self._name(f"{part}.sum"), "sum", "plus", frame=self.frame, shape=self.tower.shape, about=about, paths=[]
        )

    def _feedforward(self) -> str:
        f = self.spec.feedforward
        assert f is not None
        module = cast(blocks.FeedForwardNetwork, self.made[0].feedforward)
        width, inner = module.up_proj.in_features, module.up_proj.out_features
        title = "Gated feed-forward" if f.gated else "Feed-forward"
        lines = [f"{_count(width)} → {'2 × ' if f.gated else ''}{_count(inner)} → {_count(width)}, {f.activation}"]
        return self.tower._box(
            self._name("feedforward"), "feedforward", title, [b.feedforward for b in self.made], lines=lines,
            shape=self.tower.shape, frame=self.frame, **self._paths("feedforward"),
        )  # fmt: skip

    def _attention(self, part: str) -> str:
        tower, a = self.tower, self.spec.attention if part == "attention" else self.spec.cross
        assert a is not None
        modules = [cast(attention.MultiHeadAttention, getattr(b, part)) for b in self.made]
        one, number = modules[0], (tower.model._own if part == "attention" else tower.model._crossing)[self.numbers[0]]
        scheme = tower.model.schemes[number]
        places = [place for place in ACTS if scheme.acts(place)]
        lines = [] if a.kind.name == "softmax" else [f"kind: {a.kind}"]
        lines += [f"{counted(one.heads, 'head')} of {_count(one.head_width)}"]
        lines += [f"{counted(one.kv_heads, 'key head')}, shared"] if one.kv_heads != one.heads else []
        lines += [f"{'RMS' if a.qk_norm == 'rms' else 'layer'} norm of queries and keys"] if a.qk_norm else []
        lines += [] if isinstance(a.score, attention.ScaledDot) else [f"{a.score.name} scores"]
        lines += [f"scores times {a.scale:.4g}"] if a.scale is not None else []
        lines += [f"scores up to {a.cap:.4g}"] if a.cap is not None else []
        claims = nn.ModuleDict({"attention": one, "position": scheme} if places else {"attention": one})
        if not one.score.preserves_claims(scheme):
            claims["score"] = _Noticing(one.score.because)
        box = tower._box(
            self._name(part), "attention" if part == "attention" else "cross",
            "Self-attention" if part == "attention" else "Cross-attention", modules, lines=lines, shape=tower.shape,
            frame=self.frame, claims=claims, **self._paths(part),
        )  # fmt: skip
        path = "position" if number == 0 else f"others.{number - 1}"
        for place in places:
            slot, does = ACTS[place]
            name = f"{self._name(part)}.{path}.{place}"
            tower._scheme(scheme, path, name, f"It {does}.", inside=box, frame=self.frame, slot=slot)
        if not isinstance(one.mask, attention.Everything):
            self._mask(box, part, one.mask)
        return box

    def _mask(self, box: str, part: str, mask: attention.Mask) -> None:
        a = self.spec.attention
        title = "Causal window" if a.causal and a.window else "Causal mask" if a.causal else "Window" if a.window else "Mask"
        lines = [f"{_count(a.window)} tokens"] if a.window else []
        lines += [] if isinstance(a.mask, attention.Everything) else [a.mask.title]
        small = cast(blocks.TransformerBlock, self.tower.small.blocks[self.small]).attention.mask
        ranks = torch.arange(RANKS)
        allowed = small.allowed(ranks.unsqueeze(-1), ranks.unsqueeze(-2))
        allowed = None if allowed is None else allowed.expand(RANKS, RANKS)
        self.tower._box(
            self._name(f"{part}.mask"), "mask", title, [mask], lines=lines,
            frame=self.frame, inside=box, slot="scores", paths=[],
            mask=[] if allowed is None else allowed.tolist(),
            where=[f"{self.tower.prefix}blocks.{n}.{part}.mask" for n in self.numbers],
        )  # fmt: skip


class _Noticing(nn.Module):
    """Something that keeps no action."""

    preserves: frozenset[type[Action]] = frozenset()

    def __init__(self, because: str) -> None:
        super().__init__()
        self.because = because


class _Bag(nn.Module):
    """Parameters of one module that are counted at a box of their own; it treats every token alone."""

    def __init__(self, *parameters: nn.Parameter | None) -> None:
        super().__init__()
        self.held = nn.ParameterList([p for p in parameters if p is not None])


# --- the whole -------------------------------------------------------------------------------------------------------
def _model_claims(model: Model, boxes: Sequence[record.Box]) -> list[record.ModelClaim]:
    summaries = {action.name: action.summary for action in CLAIMED}
    claims = derive(model)
    noticing = {c.action: _noticing(boxes, c.action) for c in claims}
    for c in claims:  # a scheme between a decoder and its source notices what it would keep among the decoder's own tokens
        if not c.holds and not noticing[c.action]:
            noticing[c.action] = [box.id for box in boxes if c.decided_by in box.where]
    return [
        record.ModelClaim(action=c.action, summary=summaries[c.action], holds=c.holds, reason=c.reason, boxes=noticing[c.action])
        for c in claims
    ]


def _noticing(boxes: Sequence[record.Box], action: str) -> list[str]:
    """Boxes that do not keep an action; of a box with others in it, those in it that decide."""
    broken = {box.id: box for box in boxes for c in box.claims if c.action == action and not c.holds}
    around = {box.inside for box in broken.values()}
    return [ident for ident in broken if ident not in around]


def _pooled(program: record.ProgramRecord) -> tuple[record.ProgramRecord, dict[str, record.Array]]:
    """Leaves name their numbers, so that a page can keep edits of them apart."""
    pool = {leaf.id: leaf.array for leaf in program.leaves if leaf.array is not None}
    leaves = [msgspec.structs.replace(leaf, array=None, pool=leaf.id) for leaf in program.leaves]
    return msgspec.structs.replace(program, leaves=leaves), pool


def _headings(spec: Spec) -> list[str]:
    if spec.encoder is not None:
        return ["Encoder", "Decoder"]
    return ["Decoder" if all(b.attention.joint_mask.is_causal for b in spec.blocks) else "Encoder"]


def _summary(spec: Spec) -> str:
    if spec.encoder is not None:
        layers = counted(spec.encoder.layers, "layer")
        return f"An encoder of {layers} and a decoder of {spec.layers}, {_count(spec.width)} wide."
    kind = "A decoder" if all(b.attention.joint_mask.is_causal for b in spec.blocks) else "An encoder"
    return f"{kind} of {counted(spec.layers, 'layer')}, {_count(spec.width)} wide."


def _specs(spec: Spec) -> list[Spec]:
    return [spec] if spec.encoder is None else [spec, spec.encoder]


def _parameters(part: nn.Module | nn.Parameter) -> list[nn.Parameter]:
    return [part] if isinstance(part, nn.Parameter) else list(part.parameters())


def _layers(numbers: Sequence[int]) -> str:
    """Which layers, counted from 0: "layers 0 to 2, 4 to 6, ..."."""
    starts = [n for n in numbers if n - 1 not in numbers]
    spans = [(start, next(n for n in range(start, numbers[-1] + 1) if n + 1 not in numbers)) for start in starts]
    note = [str(a) if a == b else f"{a} to {b}" for a, b in spans]
    return f"layer{'s'[: len(numbers) > 1]} {', '.join(note[:3])}{', …' if len(note) > 3 else ''}"


def _count(number: int | None) -> str:
    return f"{number:,}" if number is not None else ""


def _setting_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " × ".join(map(str, value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e12:
        return _count(int(value))
    return f"{value:g}" if isinstance(value, float) else _count(value) if isinstance(value, int) else str(value)
