"""Heads: the page of every attention of a model on one input. What is measured is measured in `trace`; here it becomes a record."""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from equiscope import record
from equiscope.errors import InputError
from equiscope.explore.heads import rolled
from equiscope.explore.heads.again import again, moved, moves, read, relabelled, rounding
from equiscope.explore.heads.beside import beside, lonely, paired
from equiscope.explore.heads.compact import compact as smallest
from equiscope.explore.heads.rolled import stacks
from equiscope.explore.heads.says import Voice, says
from equiscope.program.attended.attended import TRUSTED, Attended, attended, rebuilt
from equiscope.program.attended.places import places
from equiscope.program.attended.survey import survey
from equiscope.record import Head, Layer, Line, Numbers, pack
from equiscope.record.heads import Across

PAIRED = 2**17  # weights that are kept: half a megabyte
WHOLE = 12_000_000  # bytes of queries, keys and values up to which a file keeps them in float32
RUNS = 4  # on moved tokens that are kept
EVERY = "Every number is there without --compact, or, where that is too much for a file, without --export."
MOST = 96_000_000  # bytes up to which it keeps them at all, in float16
CROSS = re.compile(r"cross|encdec|encoder_attn|enc_attn", re.IGNORECASE)
WRITES = re.compile(r"(^|\.)(decoder|cross)|^blocks")  # in a model of two towers, the one that writes
NOUNS = {"words": "tokens"}  # a word may be several
DOES = {
    "previous": "look at the token before", "self": "look at the token itself", "first": "look at the first token",
    "content": "choose by content", "even": "hardly choose", "mixed": "do several things",
}  # fmt: skip


class Looked:
    """A model that was run on one input: its page as one file, or served, when it gives the numbers of a head when asked."""

    def __init__(
        self, model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], lines: Sequence[Line], title: str, target: str,
        notes: Sequence[str] = (), voice: Voice | None = None,
    ) -> None:  # fmt: skip
        """lines: what stands in rows of so many tokens; others are numbered. voice: how to read the answer; None: it is not read.

        raises  InputError where no attention is seen
        """
        heard = list[Any]()
        self.found = attended(model, args, kwargs, compare=False, answered=heard.append)
        self.offered, self.lines, self.notes, self._voice = list(lines), list[Line](), list(notes), voice
        self._lock = Lock()
        layers = [self._layer(one) for one in self.found]
        grids = [(line.before, line.grid) for line in self.lines if line.grid]
        weights = [p for p in model.parameters() if p.is_floating_point()]
        self.content = record.Heads(
            title=title, summary="", target=target, model=type(model).__name__,
            parameters=sum(p.numel() for p in model.parameters()),
            dtype=str(weights[0].dtype).removeprefix("torch.") if weights else "float32",
            lines=self.lines, layers=layers, places=list(places(model, grids)), notes=self.notes, served=True,
            says=says(heard.pop(), voice, self.lines, layers[-1].asks), across=across(layers, self.found, self.lines),
        )  # fmt: skip
        self.content = msgspec.structs.replace(self.content, summary=_summary(self.content, self.found))
        self.other: Looked | None = None
        self.partners = list[int | None]()
        self._called: tuple[nn.Module, tuple[Any, ...], dict[str, Any]] = model, tuple(args), dict(kwargs)
        self._moves = moves(model, args, kwargs, self.lines)
        self.content = msgspec.structs.replace(self.content, live=self._moves.live)
        self._stacks, self._flows = stacks(layers, self.found), dict[int, Attended]()
        self.content = msgspec.structs.replace(self.content, rolled=[self._rolled(i) for i in range(len(self._stacks))])
        self._rounded = list[float]()
        self._runs, self._running = dict[int, Looked](), Lock()  # on moved tokens, by their numbers; one at a time

    def set_beside(self, other: "Looked", names: Sequence[str]) -> None:
        """Put another model that was run on the same input beside this one. Raises InputError where no rows, or no heads, match."""
        self.other, self.partners = other, paired(self.content, other.content)
        made = beside(self.content, other.content, self.partners, self.found, other.found, names)
        self.notes += lonely(self.content, other.content, self.partners)
        self.content = msgspec.structs.replace(self.content, beside=made, notes=self.notes)

    def file(self, compact: bool = False) -> record.Heads:
        """The record for a file of its own, with all numbers that it can hold. compact: few of them, rounded, with a bound."""
        if compact:
            return self._compact()
        size = sum(t.numel() for one in self.found for t in (one.q, one.k, one.v) if t is not None) * 4
        layers, notes = [], list(self.notes)
        if size > MOST:
            notes.append(
                f"Queries, keys and values of all heads would be {size / 2e6:.0f} MB, so this file has the overview only. "
                "For every number leave --export out; --compact rounds them, so that more of them find room."
            )
        for layer, one in zip(self.content.layers, self.found, strict=True):
            kept = one if size <= WHOLE else _half(one)
            numbers = None if size > MOST else _numbers(kept, range(one.heads), narrow=size > WHOLE)
            why = layer.why if size <= MOST else "The file would be too large: see the note above."
            layers.append(msgspec.structs.replace(layer, numbers=numbers, rebuilt=kept.rebuilt, why=why))
        if WHOLE < size <= MOST:
            notes.append("Queries, keys and values stand in this file as float16.")
        return msgspec.structs.replace(
            self.content, layers=layers, notes=notes, served=False, beside=self._file_beside(), rolled=self._file_rolled()
        )

    def _compact(self) -> record.Heads:
        """Small pictures are left out where the page can make them, and figures have four decimals."""
        layers, notes = [], list(self.notes)
        for layer, one in zip(self.content.layers, self.found, strict=True):
            numbers = smallest(one, MOST / len(self.found))
            made = msgspec.structs.replace(
                layer, numbers=numbers, heads=[_short(h) for h in layer.heads],
                small="" if numbers is not None and numbers.letters else layer.small,
                why=layer.why if numbers is not None else "Even rounded the file would be too large: it has the overview only.",
            )  # fmt: skip
            layers.append(made)
        kept = [layer.numbers for layer in layers if layer.numbers is not None]
        if kept:
            what = [
                "weights alone" if any(n.letters for n in kept) else "",
                "queries and keys" if any(n.q is not None for n in kept) else "",
            ]
            notes.append(
                f"This file was made small: it has {' or '.join(filter(None, what))}, rounded, so that weights may be off by "
                f"{100 * max(n.about for n in kept):.2g} % of themselves. {EVERY}"
            )
        return msgspec.structs.replace(
            self.content, layers=layers, notes=notes, served=False, beside=self._file_beside(compact=True), rolled=[]
        )

    def _file_beside(self, compact: bool = False) -> record.Beside | None:
        if self.other is None or self.content.beside is None:
            return None
        theirs = self.other.file(compact).layers
        filled = [
            None if layer is None or n is None else msgspec.structs.replace(theirs[n], asks=layer.asks, answers=layer.answers)
            for n, layer in zip(self.partners, self.content.beside.layers, strict=True)
        ]
        return msgspec.structs.replace(self.content.beside, layers=filled)

    def answer(self, asked: Mapping[str, str]) -> bytes:
        """What /head?layer=L&head=H gets: the numbers of one head; with of=beside, of the other model's head beside it.

        raises  InputError where there is no such head
        """
        words = [asked.get(name, "") for name in ("layer", "head")]
        if not all(re.fullmatch(r"[0-9]{1,6}", word) for word in words):
            raise InputError("Ask for /head?layer=L&head=H, two numbers from 0 on.")
        if asked.get("run", "0") != "0":
            return self._run(asked["run"]).answer({"layer": words[0], "head": words[1]})
        layer, number = (int(word) for word in words)
        if len(self.found) <= layer < len(self.found) + len(self._stacks) and number < 2:
            return msgspec.json.encode(rolled.numbers(self._flow(layer - len(self.found)), [number]))
        if layer >= len(self.found) or number >= self.found[layer].heads:
            raise InputError(f"There are {len(self.found)} layers here, and no head {number} in layer {layer}.")
        if asked.get("of") == "beside":
            partner = self.partners[layer] if self.other is not None else None
            if self.other is None or partner is None:
                raise InputError(f"No other model has a layer beside layer {layer}.")
            return self.other.answer({"layer": str(partner), "head": str(number)})
        with self._lock:
            return msgspec.json.encode(_numbers(self.found[layer], [number]))

    def again(self, asked: Mapping[str, str]) -> bytes:
        """What /again?order=2,0,1&from=100 gets: the heads of another run, on the same tokens moved.

        raises  InputError where it is no question, or where this model cannot be asked it
        """
        order, start = read(asked, self._moves)
        model, args, kwargs = self._called
        with self._running:
            given = moved(model, args, kwargs, self._moves, order, start)
            offered = relabelled(self.offered, self.lines[self._moves.line], order)
            made = Looked(model, *given, offered, self.content.title, self.content.target, self.content.notes, self._voice)
            number = max(self._runs, default=0) + 1
            self._rounded = self._rounded or rounding(*self._called, self.found)
            said = again(number, self.found, made.found, self.content.layers, self._rounded, self._moves, order, start)
            made.content = msgspec.structs.replace(made.content, again=said, live=self._moves.live)
            self._runs[number] = made
            for old in list(self._runs)[:-RUNS]:
                del self._runs[old]
        return msgspec.json.encode(made.content)

    def _flow(self, stack: int) -> Attended:
        """All layers of a stack as one, made when it is first asked for."""
        with self._lock:
            if stack not in self._flows:
                self._flows[stack] = rolled.rolled([self.found[i] for i in self._stacks[stack]])
            return self._flows[stack]

    def _rolled(self, stack: int) -> Layer:
        first, count = self._stacks[stack][0], len(self._stacks[stack])
        short = self.found[first].q.shape[-2] <= rolled.WHOLE
        return rolled.layer(self.content.layers[first].asks, count, self._flow(stack) if short else None)

    def _file_rolled(self) -> list[Layer]:
        return [
            msgspec.structs.replace(layer, numbers=rolled.numbers(self._flows[i], range(2)) if i in self._flows else None)
            for i, layer in enumerate(self.content.rolled)
        ]

    def _run(self, number: str) -> "Looked":
        found = self._runs.get(int(number)) if re.fullmatch(r"[0-9]{1,9}", number) else None
        if found is None:
            raise InputError(f"Run {number} is not kept any more: the last {RUNS} are. Move the tokens again.")
        return found

    def _layer(self, one: Attended) -> Layer:
        n, m = one.q.shape[-2], one.k.shape[-2]
        cross = bool(CROSS.search(one.module)) or n != m
        asks, answers = self._line(one.module, n, "asks"), self._line(one.module, m, "answers" if cross else "asks")
        found = survey(one, not cross)
        return Layer(
            where=one.module, cross=cross, asks=asks, answers=answers, groups=len(one.k),
            heads=found.heads, small=b64encode(found.small).decode("ascii"), side=found.side, rebuilt=one.rebuilt, why=_why(one),
        )  # fmt: skip

    def _line(self, module: str, length: int, role: str) -> int:
        """The number of the line that has so many tokens; of several, the one that the module's name or role tells."""
        fits = [line for line in self.offered if len(line.labels) == length]
        if not fits:
            made = Line(name=f"{length} tokens", kind="tokens", labels=[str(i) for i in range(length)])
            self.offered.append(made)
        elif len(fits) == 1 or role == "answers" or not WRITES.search(module):
            made = fits[0]
        else:
            made = fits[-1]
        if made not in self.lines:
            self.lines.append(made)
        return self.lines.index(made)


def _numbers(one: Attended, heads: Sequence[int], narrow: bool = False) -> Numbers:
    """What weights of these heads are made of. narrow: in float16."""
    groups = len(one.k)
    whole = len(heads) == one.heads
    keys = list(range(groups)) if whole else [h * groups // one.heads for h in heads]
    kept = list(heads)

    def shared(table: Tensor | None) -> record.Array | None:
        return None if table is None else pack((table if len(table) == 1 or whole else table[kept]).numpy())

    def packed(table: Tensor | None, rows: list[int]) -> record.Array | None:
        if table is None:
            return None
        part = table[rows]
        wide = part if part.dtype in (torch.float32, torch.float64) else part.float()
        return pack((wide.half() if narrow else wide).numpy())

    weights = one.weights if not one.trusted else None
    return Numbers(
        scale=one.scale, causal=one.causal, cap=one.cap, q=packed(one.q, kept), k=packed(one.k, keys), v=packed(one.v, keys),
        bias=shared(one.bias), seen=shared(one.seen), sink=None if one.sink is None else pack(one.sink[kept].float().numpy()),
        weights=None if weights is None else pack(weights[kept].float().numpy()),
    )  # fmt: skip


def _short(head: Head) -> Head:
    """With figures of four decimals."""
    figures = {name: getattr(head, name) for name in head.__struct_fields__ if name != "role"}
    return Head(role=head.role, **{name: None if x is None else round(x, 4) for name, x in figures.items()})


def _half(one: Attended) -> Attended:
    """The same in numbers that float16 holds, put together again."""
    narrow = {name: t.half().to(t.dtype) for name in ("q", "k", "v") if (t := getattr(one, name)) is not None}
    return rebuilt(replace(one, **narrow))


def _why(one: Attended) -> str:
    said = []
    if one.apart > 1:
        said.append(f"It runs on {one.apart} windows or sequences apart; this is the first.")
    if one.rebuilt is None:
        said.append("What its values were mixed to was not seen, so the weights could not be compared with it.")
    elif not one.trusted and one.weights is not None:
        said.append("These are the weights as the model had them: they do not follow from what was seen of queries and keys.")
    elif not one.trusted:
        said.append(f"Put together again, the weights miss the model's output by more than {TRUSTED:g} of it: do not trust them.")
    return " ".join(said)


def _summary(content: record.Heads, found: Sequence[Attended]) -> str:
    roles = Counter(h.role for layer in content.layers for h in layer.heads)
    heads, asked = sum(roles.values()), content.lines[content.layers[0].asks]
    counted = [f"{'all' if count == heads else count} {DOES[role]}" for role, count in roles.most_common()]
    told = counted[0] if len(counted) == 1 else f"{', '.join(counted[:-1])} and {counted[-1]}"
    known = [one.rebuilt for one in found if one.rebuilt is not None]
    exact = f" Put together again from queries and keys, they give the model's output to {max(known):.1g} of it." if known else ""
    what = f"{len(asked.labels)} {NOUNS.get(asked.kind, asked.kind)}"
    return f"{heads} heads in {len(content.layers)} attentions, on {what}: {told}.{exact}"


def across(layers: Sequence[Layer], found: Sequence[Attended], lines: Sequence[Line]) -> list[Across]:
    """One for each two lines of words of which one looks at the other. found: the attentions of the layers."""
    pairs = dict.fromkeys((layer.asks, layer.answers) for layer in layers if layer.cross and layer.asks != layer.answers)
    made = []
    for asks, answers in pairs:
        if not all(lines[line].kind in ("words", "tokens") for line in (asks, answers)):
            continue
        own = [i for i, layer in enumerate(layers) if (layer.asks, layer.answers) == (asks, answers) and layer.cross]
        size = len(own) * len(lines[asks].labels) * len(lines[answers].labels)
        weights = None
        if size <= PAIRED and all(found[i].apart == 1 for i in own):
            means = [torch.stack([found[i].shown(head) for head in range(found[i].heads)]).mean(0) for i in own]
            weights = pack(torch.stack(means).float().numpy())
        made.append(Across(asks=asks, answers=answers, layers=own, weights=weights))
    return made
