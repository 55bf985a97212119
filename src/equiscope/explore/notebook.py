"""Notebook: `eq.show` puts a page into a cell, and what is chosen there can be read, and set, in Python.

A cell holds the page that `equiscope explore --export` writes, in a frame whose document is part of the notebook (`srcdoc`). So
neither style reaches the other, the page keeps its own policy (it asks for nothing), and one way serves Jupyter, VS Code, Colab and
marimo: VS Code blocks frames with an address of their own (blob:), Colab has no server that a frame could ask, and an exported
notebook has neither. The frame is sandboxed without an origin: words of a stranger's text on the page cannot reach the notebook.

With the extra `notebook` (anywidget) the page is tied to this object: `explore/widget.py`. Without it, and in an exported notebook,
it stands alone, in a copy of bounded size that needs no kernel and no network; where no frame is drawn, a table stands instead.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qsl, urlencode

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from equiscope.data.picture_files import address
from equiscope.errors import InputError, UnknownName
from equiscope.explore import page
from equiscope.explore.heads.given import given, inner
from equiscope.explore.heads.says import of_target
from equiscope.explore.pages.drawing import drawing
from equiscope.explore.pages.heads import Looked
from equiscope.explore.pages.words import Choice, explorable
from equiscope.models import Model, ModelSpec
from equiscope.program import Program
from equiscope.program.lower import lowered
from equiscope.record import Audit, Comparison, Heads, Layer, Run, course, read_run, report
from equiscope.record.run import RUN

HEIGHT = 760  # pixels up to which a cell grows with its page
ROWS = 64  # heads in a table
TILE = 24  # pixels of a head in a picture of all
CHOSEN = ("layer", "head", "row", "column")
LINK = {"head": ("layer", "head"), "query": ("row",), "key": ("column",)}  # the keys of the page's link
TABLE = ["layer", "head", "what it does", "token before", "itself", "first token", "evenness"]


def show(
    what: Any, *inputs: Any, kwargs: Mapping[str, Any] | None = None, tokenizer: Any = None, labels: Sequence[str] | None = None,
    title: str = "", selection: Mapping[str, Any] | None = None, height: int = HEIGHT,
) -> "Shown":  # fmt: skip
    """A page in a cell: all heads of a model on inputs, a drawing, an audit, a run, or any record that a page is made of.

        eq.show(model, ids)                        all heads, as `equiscope explore --model` shows them
        eq.show(model, "the dog", tokenizer=its)   of a text; eq.show(model, processor(images=photo)) of whatever a mapping says
        eq.show(model)                             the drawing of one of ours, or of its spec
        eq.show(audit), eq.show("runs/mine")       the report of a check; the page of a run
        eq.show(eq.watch(module, x))               every number of any module, and the step that made it

    kwargs, tokenizer, labels  as in `given.given`: named inputs; who turns a text into ids; what the tokens are called
    selection                  what is chosen at first: as `Shown.selection`
    height                     pixels up to which the cell grows with its page, which scrolls beyond; 0: it grows to the end
    returns                    what a notebook shows; elsewhere its `save(path)` writes the page
    raises                     InputError where there is no page of such a thing
    """
    asked = bool(inputs or kwargs)
    if asked and not isinstance(what, nn.Module):
        raise InputError(f"Inputs are what a model is called with, but {type(what).__name__} is none. Leave them out.")
    looked = _looked(what, inputs, kwargs, tokenizer, labels, title) if asked else None
    found = _content(what, title) if looked is None else looked.content
    link = linked(found, selection or {}, "")
    if find_spec("anywidget") is None:
        return Shown(found, looked, link, height)
    from equiscope.explore.widget import Widget

    return Widget(found, looked, link, height)


def export(what: Any, path: str | Path, title: str = "") -> Path:
    """Write the page of an audit, a run, a drawing, a program or any other record as one file that works offline.

        eq.export(eq.watch(model, x), "model.html")    every number of a module, and the step that made it

    raises  InputError where there is no page of such a thing; Unwritable
    """
    content = _content(what, title)
    return page.write(content, Path(path))


class Shown:
    """A page in a notebook.

    content     the record that it shows; looked: the model that was run, where it was
    live_bytes  of queries, keys and values up to which a cell brings them along; beyond, it asks for those of one head
    copy_bytes  of a copy that stays in the notebook's file
    link        what is chosen, as in the page's own link
    """

    live_bytes, copy_bytes = 2_000_000, 4_000_000

    def __init__(self, content: page.Content, looked: Looked | None, link: str, height: int) -> None:
        self.content, self.looked, self.link, self.height = content, looked, link, height

    @property
    def selection(self) -> dict[str, Any]:
        """What is chosen: of all heads layer, head, row (the query) and column (the key), from 0 on, None where nothing is.

        Of other pages what their link says. Setting it moves the page; what is not named stays as it is, None takes it back.
        """
        return selected(self.content, self.link)

    @selection.setter
    def selection(self, chosen: Mapping[str, Any]) -> None:
        self.link = linked(self.content, chosen, self.link)

    def weights(self) -> Tensor:
        """All weights of the chosen head, [rows, columns], float64, as the page computes them.

        raises  InputError where no head is chosen, or the page is none of a model that was run
        """
        chosen = self.selection
        if self.looked is None or chosen.get("layer") is None:
            raise InputError("No head of a model is chosen. Choose one on the page, or set selection = {'layer': 0, 'head': 0}.")
        layer, found = chosen["layer"], self.looked.found
        if layer >= len(found):
            raise InputError("All layers rolled out are no head of the model. Choose one of a layer.")
        return found[layer].shown(chosen["head"])

    def save(self, path: str | Path, compact: bool = False) -> Path:
        """Write the page as one file that works offline, whole or not at all. compact: small, with rounded numbers.

        raises  InputError where it cannot be written
        """
        content = self.looked.file(compact) if self.looked is not None else self.content
        return page.write(content, Path(path), small=compact)

    def answer(self, question: str) -> tuple[int, bytes]:
        """What the page asks the model, "/head?layer=0&head=1": 200 and JSON, or 400 and a sentence."""
        path, _, rest = question.partition("?")
        answers = {"/head": self.looked.answer, "/again": self.looked.again} if self.looked is not None else {}
        try:
            if path not in answers or self.looked is None:
                raise InputError(f"This page has no answer to {path}.")
            with _steady(self.looked):
                return 200, answers[path](dict(parse_qsl(rest, max_num_fields=8)))
        except ValueError as error:  # ours are, and so is a question of too many fields
            return 400, str(error).encode()

    def document(self) -> str:
        """The page in a frame beside a kernel: what is much is asked for."""
        if self.looked is None:
            return framed(page.html(self.content))
        light = sum(t.numel() for one in self.looked.found for t in (one.q, one.k, one.v) if t is not None) * 4 <= self.live_bytes
        content = msgspec.structs.replace(self.looked.file(), served=True) if light else self.looked.content
        return framed(page.html(content))

    def static(self) -> str:
        """Markup for a notebook's file: the page in a frame, of at most some megabytes, and a table for who draws no frame."""
        content, said = self._kept()
        text = framed(page.html(content, page.PLAIN, small=True), self.link)
        size = f"This copy has {len(text.encode()) / 1000:,.0f} kB. {said}".strip()
        return (
            f'<iframe title="{escape(_named(content))}" sandbox="allow-scripts allow-downloads" srcdoc="{escape(text)}" '
            f'style="width:100%;height:{self.height or HEIGHT}px;border:1px solid #8884;border-radius:8px"></iframe>\n'
            f"<details><summary>{escape(content.title)}, without the page</summary>\n"
            f"<p>{escape(_told(content))}</p>\n{self._bare()}</details>\n<p><small>{escape(size)}</small></p>\n"
        )

    def _kept(self) -> tuple[page.Content, str]:
        """The record of such a copy, and what was left out of it."""
        if self.looked is None:
            return self.content, ""
        found, more = self.looked.found, "save(path) writes a file with every number."
        exact = sum(t.numel() for one in found for t in (one.q, one.k, one.v) if t is not None) * 4
        if exact <= self.copy_bytes:
            return self.looked.file(), ""
        rough = sum(one.heads * one.q.shape[-2] * one.k.shape[-2] // (1 + one.causal) for one in found)
        if rough <= 4 * self.copy_bytes:
            content = self.looked.file(compact=True)
            if len(page.pack(content)) <= self.copy_bytes:
                return content, f"Its numbers are rounded, as --compact rounds them; {more}"
        layers = [msgspec.structs.replace(layer, why="This copy has the overview only.") for layer in self.looked.content.layers]
        content = msgspec.structs.replace(self.looked.content, layers=layers, served=False, rolled=[])
        return content, f"It has the overview only; {more}"

    def _bare(self) -> str:
        if not isinstance(self.content, Heads):
            return page.plain(self.content)
        rows = [
            [str(i + 1), str(h + 1), head.role, *map(page.number, (head.previous, head.own, head.first, head.entropy))]
            for i, layer in enumerate(self.content.layers)
            for h, head in enumerate(layer.heads)
        ]
        left = f"<p>The first {ROWS} of {len(rows)} heads.</p>\n" if len(rows) > ROWS else ""
        notes = "".join(f"<p>{escape(note)}</p>\n" for note in self.content.notes)
        alt = f"All heads: {len(self.content.layers)} rows are layers, each square is a head, and dark is a large weight."
        image = f'<p><img alt="{alt}" src="{picture(self.content.layers)}"></p>\n' if self.content.layers else ""
        return image + page.table("What each head does", TABLE, rows[:ROWS]) + left + notes

    def __repr__(self) -> str:
        return " ".join(filter(None, (f"{_named(self.content)}.", _told(self.content), "save(path) writes it as one file.")))

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return {"text/plain": repr(self), "text/html": self.static()}


# ------------------------------------------------------------------------------------------------------- what can be shown


def _content(what: Any, title: str) -> page.Content:
    if isinstance(what, get_args(page.Content)):
        found: page.Content = what
        if isinstance(found, Heads) and found.served:
            raise InputError("These heads are asked for one by one, and nobody is here to ask. Give the record of a file.")
        return found
    if isinstance(what, Audit):
        return report(what)
    if isinstance(what, Run):
        return course(what)
    if isinstance(what, Choice):
        return explorable(what)
    if isinstance(what, Program):
        return lowered(what, arrays=False, title=title)
    if isinstance(what, (Model, ModelSpec)):
        return drawing(what, title)
    if isinstance(what, (str, Path)) and (Path(what) / RUN).is_file():
        return course(read_run(Path(what)))
    if isinstance(what, nn.Module):
        raise InputError(f"{type(what).__name__} needs something to look at. Add its inputs: eq.show(model, ids).")
    told = f"{str(what)!r}, which is no run's folder" if isinstance(what, (str, Path)) else f"a thing of type {type(what).__name__}"
    raise InputError(f"A model with its inputs, an audit, a run or its folder, or a page's record can be shown, but got {told}.")


def _looked(
    model: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None, tokenizer: Any, labels: Sequence[str] | None, title: str
) -> Looked:  # fmt: skip
    with _steady(model):
        made = given(model, inputs, kwargs, tokenizer, labels)
        name = type(model).__name__
        told = title or (f"{name}: {made.told}" if made.told else name)
        return Looked(model, made.args, made.kwargs, made.lines, told, name, made.notes, of_target(model, inner(tokenizer)))


@contextmanager
def _steady(model: nn.Module | Looked) -> Iterator[None]:
    """Runs nothing by chance: modules are as in use, and what is drawn is drawn alike; afterwards all is as it was."""
    modules = list((model._called[0] if isinstance(model, Looked) else model).modules())
    training = [module for module in modules if module.training]
    for module in training:
        module.training = False
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            yield
    finally:
        for module in training:
            module.training = True


# --------------------------------------------------------------------------------------------------------- what is chosen


def selected(content: page.Content, link: str) -> dict[str, Any]:
    """What a page's link says is chosen: of all heads four numbers from 0 on, or None; of others its own words."""
    parts = dict(parse_qsl(link))
    if not isinstance(content, Heads):
        return parts
    found: dict[str, Any] = dict.fromkeys(CHOSEN)
    for name, fields in LINK.items():
        numbers = parts.get(name, "").split(".")
        if len(numbers) == len(fields) and all(re.fullmatch(r"0|[1-9][0-9]{0,6}", n) for n in numbers):
            found |= {field: int(n) for field, n in zip(fields, numbers, strict=True)}
    return found


def linked(content: page.Content, chosen: Mapping[str, Any], link: str) -> str:
    """The link with this chosen in it, and otherwise as it was.

    raises  UnknownName, InputError where there is no such thing to choose on a page of all heads
    """
    if isinstance(content, Heads):
        for name in chosen:
            if name not in CHOSEN:
                raise UnknownName("part of a selection", name, list(CHOSEN))
        wanted = selected(content, link) | dict(chosen)
        _known(content, wanted)
        numbers = {name: [wanted[field] for field in fields] for name, fields in LINK.items()}
        chosen = {name: None if None in found else ".".join(str(n) for n in found) for name, found in numbers.items()}
    kept = [(name, value) for name, value in parse_qsl(link, keep_blank_values=True) if name not in chosen]
    return urlencode([(name, value) for name, value in chosen.items() if value is not None] + kept)


def _known(content: Heads, wanted: Mapping[str, Any]) -> None:
    layers = [*content.layers, *content.rolled]
    layer, head = wanted["layer"], wanted["head"]
    if (layer is None) != (head is None):
        raise InputError("A layer and a head are chosen together: {'layer': 0, 'head': 0}. None for both closes it.")
    found = layers[layer] if layer is not None and _within("layer", layer, len(layers)) else None
    if found is not None:
        _within("head", head, len(found.heads))
    lengths = [len(line.labels) for line in content.lines]
    for name, line in (("row", found and found.asks), ("column", found and found.answers)):
        if wanted[name] is not None:
            _within(name, wanted[name], max(lengths) if line is None else lengths[line])


def _within(name: str, number: Any, count: int) -> bool:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < count:
        raise InputError(f"There is no {name} {number!r} here: they are numbered 0 to {count - 1}.")
    return True


# ------------------------------------------------------------------------------------------------------------- the markup


def framed(text: str, link: str = "") -> str:
    """A page that stands in a frame. link: what is chosen at first."""
    script = page._bundled("frame.js").replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return text.replace("<head>\n", f'<head>\n<script data-link="{escape(link)}">{script}</script>\n', 1)


def picture(layers: Sequence[Layer]) -> str:
    """A data: address of the small pictures of all heads: a row a layer, dark is a large weight."""
    wide = max(len(layer.heads) for layer in layers)
    step = TILE + 2
    made = np.full((1, len(layers) * step, wide * step), 255, np.uint8)
    for i, layer in enumerate(layers):
        tiles = np.frombuffer(b64decode(layer.small), np.uint8).reshape(-1, layer.side, layer.side) if layer.small else ()
        at = np.arange(TILE) * layer.side // TILE
        for h, tile in enumerate(tiles):
            made[0, i * step : i * step + TILE, h * step : h * step + TILE] = 255 - tile[np.ix_(at, at)]
    return address(made)


def _named(content: page.Content) -> str:
    return f"equiscope: {content.title}"


def _told(content: page.Content) -> str:
    """What a page says first."""
    return content.answer if isinstance(content, Comparison) else str(getattr(content, "summary", ""))
