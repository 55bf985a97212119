"""Golden programs: programs with every number, and what they give after shuffling, sliding and editing.

`contract/cases` is read by the Python tests and by the web tests, so the two runtimes are held to the same numbers.
`contract/computations` holds functions as steps (`computed.py`); `contract/drawings.json` holds boxes, frames and links of
well-known models, which the web tests lay out; `contract/photograph.json` holds the image page without its pixels, and
`contract/sentence.json` the page of three words under a few schemes.
`python -m contract.golden` writes it; `--check` says whether it still holds (to 1e-12, as the last bits of an
exponential differ between processors).
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import torch
from contract import computed, photograph
from torch import Tensor, nn

from equiscope import record
from equiscope.attention import (
    Additive,
    Blocks,
    Causal,
    Concat,
    Dilated,
    Edges,
    General,
    LinearAttention,
    MultiHeadAttention,
    Prefix,
    ScaledDot,
    Sigmoid,
    Softmax,
    Window,
)
from equiscope.explore.pages.drawing import drawing
from equiscope.explore.pages.sentence import Choice, explorable, offers, rows
from equiscope.explore.sentence.clocks import tour
from equiscope.explore.sentence.exhibit import exhibit, numbers
from equiscope.models import PRESETS, Attention, Block, FeedForward, InputLayer, Model, Norm, Spec, build
from equiscope.positions import Position, Rope, T5Bias
from equiscope.program import watch
from equiscope.program.lower import lowered
from equiscope.program.operations import OPERATIONS
from equiscope.program.replay import replay
from equiscope.tokens import Tokens, spelled, words

FOLDER = Path(__file__).parent
TOLERANCE = 1e-12
SENTENCE = ("none", "index", "sinusoidal", "sine-cosine", "learned", "rope", "rope-query-only", "alibi")


class Edit(msgspec.Struct, frozen=True):
    leaf: str
    index: list[int]
    value: float


class Act(msgspec.Struct, frozen=True, omit_defaults=True):
    permute: list[int] | None = None
    shift: float | None = None
    reverse: bool = False


class Move(msgspec.Struct, frozen=True):
    """Something a person does on the page, and every number afterwards."""

    name: str
    action: Act
    edits: list[Edit]
    values: dict[str, record.Array]


class Case(msgspec.Struct, frozen=True):
    program: record.ProgramRecord
    moves: list[Move]


@dataclass(frozen=True)
class Setting:
    scheme: str
    choice: Choice
    setting: str = "plain"


SMALL = Choice()
WIDE = Choice(sentence="only who can prevent forest fires", width=8, heads=2, seed=1)
SETTINGS = [
    *(Setting(o.variant.name, SMALL) for o in offers(1)),
    *(Setting(name, WIDE) for name in ("none", "sinusoidal", "learned", "concatenated", "rope", "rope-half", "alibi")),
    *(Setting(name, WIDE, "causal") for name in ("pope", "t5", "shaw", "deberta", "cope")),  # numbers of each head's own
    Setting("none", SMALL, "causal"), Setting("alibi", WIDE, "causal"), Setting("rope", SMALL, "padded"),
    Setting("sinusoidal", WIDE, "padded"), Setting("alibi", SMALL, "padded-causal"),
    Setting("rope", WIDE, "class"), Setting("learned", SMALL, "class"),
]  # fmt: skip


def attentions() -> dict[str, tuple[MultiHeadAttention, Position | None]]:
    """Masks, scores, weights and heads that no exhibit has, on the six words of `WIDE`: one layer each, with its scheme."""
    path = [(i, j) for i in range(12) for j in (i, i + 1) if j < 12]  # twelve nodes: six words slid by five have theirs too
    full: dict[str, MultiHeadAttention] = {
        "window": MultiHeadAttention(8, heads=2, mask=(Causal() & Window(3)) | Prefix(1)),
        "sink": MultiHeadAttention(8, heads=4, kv_heads=2, mask=~Dilated(2), normalizer=Softmax(sink=True)),
        "sigmoid": MultiHeadAttention(8, heads=2, mask=Blocks(2), normalizer=Sigmoid(), norm="rms"),
        "cap": MultiHeadAttention(8, heads=2, score=ScaledDot(cap=5.0), norm="layer", bias=True),
        "edges": MultiHeadAttention(8, heads=2, kv_heads=1, mask=Edges(path, nodes=12), score=General(), output=False),
        "additive": MultiHeadAttention(8, heads=2, score=Additive(hidden=3)),
        "concat": MultiHeadAttention(8, heads=2, score=Concat(hidden=3), mask=Causal()),
        "linear": LinearAttention(8, heads=2, mask=Causal()),
        "linear-turned": LinearAttention(8, heads=2, feature="softplus"),
    }
    return {name: (made, Rope() if name in ("sink", "linear-turned") else None) for name, made in full.items()}


def blocks() -> dict[str, Model]:
    """Blocks as checkpoints have them, on the same words."""
    gated = Block(
        Attention(heads=4, kv_heads=2, position=Rope(pairs="half"), causal=True, window=3, qk_norm="rms"), Norm("rms"),
        FeedForward(inner=6, activation="silu", bias=False, gated=True),
    )  # fmt: skip
    parallel = Block(Attention(heads=2, bias="qkv"), Norm(), FeedForward(inner=6, activation="gelu-tanh"), parallel=True)
    return {"gated": build(Spec(8, block=gated)), "parallel": build(Spec(8, block=parallel))}


def stem() -> record.ProgramRecord:
    """Two convolutions before a layer, of a sound of eight channels whose samples are the words of `WIDE`."""
    input_layer = InputLayer(features=3, patch=(4,), stem=(8, 4, 3))
    made = build(Spec(8, None, input_layer, 1, Block(Attention(heads=2), None, None))).double()
    _numbered(made)
    return lowered(watch(made, rows(words(WIDE.sentence), WIDE).T), arrays=False, title="a convolutional stem")


class Plain(nn.Module):
    """Attention as a person writes it in torch."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (p(x).unflatten(-1, (2, 4)).transpose(-3, -2) for p in (self.q_proj, self.k_proj, self.v_proj))
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2, -1)
        return self.o_proj((weights @ v).transpose(-3, -2).flatten(-2))


class Vectors(nn.Module):
    """An equivariant layer: differences of rows, weighed by a function of their distance; much of it has no operation of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(1, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        apart = x[:, None, :] - x[None, :, :]
        distance = (apart.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        weights = torch.softmax(self.down(nn.functional.silu(self.up(distance))), 1)
        return x + (weights * apart).sum(1)


def foreign() -> dict[str, tuple[nn.Module, Tensor]]:
    """Modules that are not ours, as torch's users write them, on the words of `WIDE`."""
    x = rows(words(WIDE.sentence), WIDE)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    made: dict[str, tuple[nn.Module, Tensor]] = {"plain": (Plain(), x), "layer": (layer, x), "vectors": (Vectors(), x)}
    for module, _ in made.values():
        _numbered(module.double())
    return made


def drawn() -> dict[str, Spec]:
    """Models whose drawings the page's layout is tested with: a T5, parallel parts, layers that take turns, and presets."""
    own = Attention(heads=8, head_width=64, scale=1.0, causal=True, position=T5Bias(bidirectional=False))
    asks = Block(own, Norm("rms"), FeedForward(2048, "relu", False), cross=Attention(heads=8, head_width=64, scale=1.0))
    reads = Block(Attention(heads=8, head_width=64, scale=1.0, position=T5Bias()), Norm("rms"), FeedForward(2048, "relu", False))
    near = Attention(heads=16, kv_heads=4, position=Rope(5e4), causal=True, window=512)
    far = Attention(heads=16, kv_heads=4, causal=True)
    gated = FeedForward(8192, "silu", False, True)
    turns = (*[Block(near, Norm("rms"), gated)] * 3, Block(far, Norm("rms"), gated))
    neox = Block(Attention(heads=8, position=Rope(fraction=0.25, pairs="half"), causal=True, bias=True), parallel=True)
    return {
        "t5": Spec(
            512, 32128, layers=6, block=asks, outputs=32128, tied=True, shared=True,
            encoder=Spec(512, 32128, layers=6, block=reads),
        ),
        "turns": Spec(2048, 128256, layers=36, block=turns, outputs=128256),
        "parallel": Spec(512, 50432, layers=6, block=neox, outputs=50432),
        **{name: PRESETS[name]() for name in ("transformer-base", "vit-b", "bert-base")},
    }  # fmt: skip


def plans() -> dict[str, dict[str, object]]:
    """What the page lays out of each of them: all of the record but the numbers."""
    kept = ("title", "summary", "parameters", "towers", "boxes", "frames", "links", "claims", "program_note", "heads")
    made = {name: msgspec.to_builtins(drawing(spec, name)) for name, spec in drawn().items()}
    return {name: {key: content[key] for key in kept} for name, content in made.items()}


def sentence() -> record.Explorable:
    """The page of “Love conquers all” under a few schemes, without masks of padding."""
    page = explorable(Choice())
    programs = [p for p in page.programs if p.scheme in SENTENCE and "padded" not in p.setting]
    pooled = {leaf.pool for p in programs for leaf in p.program.leaves} | {
        leaf.pool for program in page.tour.values() for leaf in program.leaves
    }
    return msgspec.structs.replace(
        page, programs=programs, schemes=[s for s in page.schemes if s.name in SENTENCE],
        pool={key: array for key, array in page.pool.items() if key in pooled},
    )  # fmt: skip


def cases() -> dict[str, Case]:
    made = {f"{s.scheme}-{s.setting}-{s.choice.width}x{s.choice.heads}": case(_trace(s)) for s in SETTINGS}
    made |= {f"attention-{name}": case(_layer(name, *one)) for name, one in attentions().items()}
    made |= {f"block-{name}": case(_layer(name, one)) for name, one in blocks().items()}
    made["stem"] = case(stem())
    made |= {
        f"foreign-{name}": case(lowered(watch(module, x), arrays=False, title=name)) for name, (module, x) in foreign().items()
    }
    return made | {f"tour-{name}": case(program) for name, program in tour().items()}


def case(program: record.ProgramRecord) -> Case:
    """The program with its numbers, and four moves."""
    length = next((leaf.array.shape[0] for leaf in program.leaves if leaf.kind == "content" and leaf.array), 2)
    edited = next(
        (leaf for leaf in program.leaves if leaf.kind in ("weight", "constant") and leaf.array and len(leaf.array.shape) == 2),
        None,
    )
    edit = [Edit(edited.id, [0, 0], -1.25)] if edited else []
    moves = {
        "as it is": (Act(), []),
        "shuffled": (Act(permute=[*range(1, length), 0]), []),
        "slid": (Act(shift=5), []),
        "reversed and edited": (Act(reverse=True), edit),
    }
    return Case(
        program=program, moves=[Move(name, act, edits, _values(program, act, edits)) for name, (act, edits) in moves.items()]
    )


def _trace(s: Setting) -> record.ProgramRecord:
    offer = next(o for o in offers(s.choice.heads) if o.variant.name == s.scheme)
    made = exhibit(
        offer.make(), s.choice.width, s.choice.heads, s.choice.seed, causal="causal" in s.setting, class_token="class" in s.setting
    )  # fmt: skip
    tokens = Tokens.of(rows(words(s.choice.sentence), s.choice))
    if "padded" in s.setting:
        valid = torch.ones(len(tokens.x), dtype=torch.bool)
        valid[-1] = False
        tokens = Tokens.of(tokens.x, valid=valid)
    return lowered(watch(made, *made.inputs(tokens)), arrays=False, title=f"{s.scheme}, {s.setting}")


def _layer(name: str, layer: MultiHeadAttention | Model, position: Position | None = None) -> record.ProgramRecord:
    layer = layer.double()
    _numbered(layer)
    tokens = Tokens.of(rows(words(WIDE.sentence), WIDE))
    kwargs = {"position": position} if isinstance(layer, MultiHeadAttention) else {}
    return lowered(watch(layer, tokens, kwargs=kwargs), arrays=False, title=f"{'attention' if kwargs else 'block'}, {name}")


@torch.no_grad()
def _numbered(module: nn.Module) -> None:
    for path, parameter in module.named_parameters():
        parameter.copy_(numbers(path, tuple(parameter.shape), WIDE.width, WIDE.seed))


def _values(program: record.ProgramRecord, act: Act, edits: list[Edit]) -> dict[str, record.Array]:
    given = {leaf.id: torch.from_numpy(record.unpack(leaf.array)) for leaf in program.leaves if leaf.array is not None}
    moved = {leaf.id: _moved(leaf, given[leaf.id], act) for leaf in program.leaves}
    for edit in edits:
        moved[edit.leaf] = moved[edit.leaf].clone()
        moved[edit.leaf][tuple(edit.index)] = edit.value
    steps = {step.id for step in program.steps}
    return {name: record.pack(value.numpy()) for name, value in replay(program, moved).items() if name in steps}


def _moved(leaf: record.LeafRecord, value: Tensor, act: Act) -> Tensor:
    if act.permute is not None and leaf.kind in ("content", "document", "valid"):
        return value[act.permute]
    if leaf.kind in ("coordinate", "order"):
        if act.shift is not None:
            return value + int(act.shift)
        if act.reverse:
            return value.amin(0) + value.amax(0) - value
    return value


def write() -> None:
    folder = FOLDER / "cases"
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in cases().items():
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(made) + b"\n")
    (folder / "words.json").write_text(json.dumps(_spellings(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (FOLDER / "sentence.json").write_bytes(msgspec.json.encode(sentence()) + b"\n")
    (FOLDER / "drawings.json").write_text(json.dumps(plans(), ensure_ascii=False) + "\n", encoding="utf-8")
    computed.write(FOLDER / "computations")
    photograph.write(FOLDER / "photograph.json")
    (FOLDER / "operations.json").write_text(json.dumps([*OPERATIONS, "loops"]) + "\n", encoding="utf-8")


def stale() -> list[str]:
    """Names of cases that are missing or no longer agree."""
    found = [name for name, made in cases().items() if not _agrees(FOLDER / "cases" / f"{name}.json", made)]
    if json.loads((FOLDER / "operations.json").read_text(encoding="utf-8")) != [*OPERATIONS, "loops"]:
        found.append("operations")
    if json.loads((FOLDER / "drawings.json").read_text(encoding="utf-8")) != plans():
        found.append("drawings")
    kept, page = msgspec.json.decode((FOLDER / "sentence.json").read_bytes(), type=record.Explorable), sentence()
    if (kept.schemes, kept.programs, kept.pool.keys()) != (page.schemes, page.programs, page.pool.keys()):
        found.append("sentence")
    if json.loads((FOLDER / "cases" / "words.json").read_text(encoding="utf-8")) != _spellings():
        found.append("words")
    return found + computed.stale(FOLDER / "computations") + photograph.stale(FOLDER / "photograph.json")


def _agrees(path: Path, made: Case) -> bool:
    if not path.exists():
        return False
    kept = msgspec.json.decode(path.read_bytes(), type=Case)
    if [(s.id, s.op, s.inputs, s.params, s.axes) for s in kept.program.steps] != [
        (s.id, s.op, s.inputs, s.params, s.axes) for s in made.program.steps
    ]:
        return False
    return all(_close(k, m) for k, m in zip(kept.moves, made.moves, strict=True))


def _close(kept: Move, made: Move) -> bool:
    pairs = [(record.unpack(kept.values[i]), record.unpack(made.values[i])) for i in made.values if i in kept.values]
    return len(pairs) == len(made.values) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE) for a, b in pairs
    )


def _spellings() -> list[dict[str, object]]:
    asked = [("Love", 2, 0), ("conquers", 3, 1), ("naïve", 4, 0), ("愛", 2, 7), ("🙂", 2, 0), ("<script>", 8, 3)]
    return [{"word": w, "width": n, "seed": s, "values": spelled([w], n, s)[0].tolist()} for w, n, s in asked]


if __name__ == "__main__":
    if "--check" in sys.argv:
        left = stale()
        print("contract/cases agree" if not left else f"contract/cases are stale: {', '.join(left)}. Run python -m contract.golden")
        sys.exit(bool(left))
    write()
