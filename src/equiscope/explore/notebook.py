"""Notebook: `eq.show` displays a page in a cell, and its selection can be read and set in Python.

A cell holds the page that `equiscope explore --export` writes, in a frame whose document is part of the notebook (`srcdoc`). The
styles of page and notebook stay apart, the page keeps its own policy (it makes no requests), and one way works in Jupyter, VS Code,
Colab and marimo: VS Code blocks frames with an address of their own (blob:), Colab has no server that a frame could request, and an
exported notebook has neither. The frame is sandboxed without an origin: text on the page cannot reach the notebook.

With the extra `notebook` (anywidget) the page is connected to this object: `explore/widget.py`. Without it, and in an exported
notebook, the cell has a copy of bounded size that needs no kernel and no network, and a table where no frame is displayed.
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
from equiscope.explore.heads.model_inputs import fast_tokenizer, model_inputs
from equiscope.explore.heads.predictions import model_reader
from equiscope.explore.pages.attribution import of_experiment
from equiscope.explore.pages.drawing import drawing
from equiscope.explore.pages.heads import HeadsPage
from equiscope.explore.pages.sentence import Choice, explorable
from equiscope.interventions import Experiment
from equiscope.models import Model, ModelSpec
from equiscope.program import Program
from equiscope.program.lower import lowered
from equiscope.record import AttentionLayer, Audit, Comparison, EvaluationRecord, Heads, Run, read_run, report, run_report
from equiscope.record.run import RUN

HEIGHT = 760  # pixels up to which a cell grows with its page
ROWS = 64  # heads in the table
TILE = 24  # pixels of a head in the picture of all heads
CHOSEN = ("layer", "head", "row", "column")
LINK = {"head": ("layer", "head"), "query": ("row",), "key": ("column",)}  # the keys of the page's link
TABLE = ["layer", "head", "what it does", "token before", "itself", "first token", "evenness"]


def show(
    what: Any, *inputs: Any, kwargs: Mapping[str, Any] | None = None, tokenizer: Any = None, labels: Sequence[str] | None = None,
    title: str = "", selection: Mapping[str, Any] | None = None, height: int = HEIGHT,
) -> "PageCell":  # fmt: skip
    """Display a page in a cell: all heads of a model on inputs, a drawing, an audit, a run, or any record of a page.

        eq.show(model, ids)                        all heads, as `equiscope explore --model` shows them
        eq.show(model, "the dog", tokenizer=t)     on a text; eq.show(model, processor(images=photo)) on a mapping of inputs
        eq.show(model)                             the drawing of a model of this package, or of its spec
        eq.show(audit), eq.show("runs/mine")       the report of a check; the page of a run
        eq.show(eq.watch(module, x))               every number of any module, and the step that made it
        eq.show(eq.Experiment(model, ids, metric)) which tokens, layers and parts decide the metric

    kwargs, tokenizer, labels  as in `model_inputs`: keyword inputs; the tokenizer of a text; labels of the tokens
    selection                  what is chosen at first: as `Shown.selection`
    height                     pixels up to which the cell grows with its page, then it scrolls; 0: no limit
    returns                    the cell; `save(path)` writes the page as a file
    raises                     InputError where this package has no page for it
    """
    has_inputs = bool(inputs or kwargs)
    if has_inputs and not isinstance(what, nn.Module):
        raise InputError(f"Inputs are the arguments of a model, but {type(what).__name__} is no model. Leave them out.")
    heads_page = _heads_page(what, inputs, kwargs, tokenizer, labels, title) if has_inputs else None
    if isinstance(what, Experiment):
        inputs_of = model_inputs(what.model, what.inputs.args, what.inputs.kwargs, tokenizer, labels)
        content: page.Content = of_experiment(what, inputs_of.sequences, title)
    else:
        content = _content(what, title) if heads_page is None else heads_page.content
    link = linked(content, selection or {}, "")
    if find_spec("anywidget") is None:
        return PageCell(content, heads_page, link, height)
    from equiscope.explore.widget import Widget

    return Widget(content, heads_page, link, height)


def export(what: Any, path: str | Path, title: str = "") -> Path:
    """Write the page of an audit, a run, a drawing, a program or any other record as one file that works offline.

        eq.export(eq.watch(model, x), "model.html")    every number of a module, and the step that made it

    raises  InputError where this package has no page for it; Unwritable
    """
    content = _content(what, title)
    return page.write(content, Path(path))


class PageCell:
    """A page in a notebook.

    content     the record of the page; heads_page: the model and its attentions, where a model was run
    live_bytes  bytes of queries, keys and values up to which a cell contains them; beyond, it requests those of single heads
    copy_bytes  bytes of the copy in the notebook's file
    link        the selection, as in the page's own link
    """

    live_bytes, copy_bytes = 2_000_000, 4_000_000

    def __init__(self, content: page.Content, heads_page: HeadsPage | None, link: str, height: int) -> None:
        self.content, self.heads_page, self.link, self.height = content, heads_page, link, height

    @property
    def selection(self) -> dict[str, Any]:
        """The selection: layer, head, row (query) and column (key) on the page of all heads, counted from 0; None for nothing.

        On other pages it holds the fields of their link. Setting it moves the page: fields that are not named stay, None deselects.
        """
        return selected(self.content, self.link)

    @selection.setter
    def selection(self, chosen: Mapping[str, Any]) -> None:
        self.link = linked(self.content, chosen, self.link)

    def weights(self) -> Tensor:
        """All weights of the selected head, [rows, columns], float64, as the page computes them.

        raises  InputError where no head is selected, or the page shows no model that was run
        """
        chosen = self.selection
        if self.heads_page is None or chosen.get("layer") is None:
            raise InputError("No head of a model is selected. Select one on the page, or set selection = {'layer': 0, 'head': 0}.")
        layer, attentions = chosen["layer"], self.heads_page.attentions
        if layer >= len(attentions):
            raise InputError("The rollout of all layers is no head of the model. Select a head of a layer.")
        return attentions[layer].best_weights(chosen["head"])

    def save(self, path: str | Path, compact: bool = False) -> Path:
        """Write the page as one file that works offline, whole or not at all. compact: small, with rounded numbers.

        raises  InputError where it cannot be written
        """
        content = self.heads_page.file(compact) if self.heads_page is not None else self.content
        return page.write(content, Path(path), small=compact)

    def answer(self, question: str) -> tuple[int, bytes]:
        """The response to a request of the page, such as "/head?layer=0&head=1": 200 and JSON, or 400 and a sentence."""
        path, _, query = question.partition("?")
        answers = (
            {"/head": self.heads_page.answer_head, "/rerun": self.heads_page.answer_rerun} if self.heads_page is not None else {}
        )
        try:
            if path not in answers or self.heads_page is None:
                raise InputError(f"This page has no response to {path}.")
            with _deterministic(self.heads_page):
                return 200, answers[path](dict(parse_qsl(query, max_num_fields=8)))
        except ValueError as error:  # errors of this package, and a request of too many fields
            return 400, str(error).encode()

    def document(self) -> str:
        """The page in a frame with a kernel: large tensors are requested."""
        if self.heads_page is None:
            return page.html(self.content)
        sizes = (t.numel() for one in self.heads_page.attentions for t in (one.q, one.k, one.v) if t is not None)
        content = self.heads_page.content
        if 4 * sum(sizes) <= self.live_bytes:
            content = msgspec.structs.replace(self.heads_page.file(), served=True)
        return page.html(content)

    def static(self) -> str:
        """Markup for the notebook's file: the page in a frame, at most a few megabytes, and a table where no frame is displayed."""
        content, note = self._bounded_copy()
        text = page.html(content, page.PLAIN, small=True, link=self.link)
        size = f"This copy has {len(text.encode()) / 1000:,.0f} kB. {note}".strip()
        return (
            f'<iframe title="{escape(_named(content))}" sandbox="allow-scripts allow-downloads" srcdoc="{escape(text)}" '
            f'style="width:100%;height:{self.height or HEIGHT}px;border:1px solid #8884;border-radius:8px"></iframe>\n'
            f"<details><summary>{escape(content.title)}, without the page</summary>\n"
            f"<p>{escape(_summary_of(content))}</p>\n{self._table()}</details>\n<p><small>{escape(size)}</small></p>\n"
        )

    def _bounded_copy(self) -> tuple[page.Content, str]:
        """The record of the bounded copy, and what was left out of it."""
        if self.heads_page is None:
            return self.content, ""
        attentions, more = self.heads_page.attentions, "save(path) writes a file with every number."
        exact = sum(t.numel() for one in attentions for t in (one.q, one.k, one.v) if t is not None) * 4
        if exact <= self.copy_bytes:
            return self.heads_page.file(), ""
        rough = sum(one.heads * one.q.shape[-2] * one.k.shape[-2] // (1 + one.causal) for one in attentions)
        if rough <= 4 * self.copy_bytes:
            content = self.heads_page.file(compact=True)
            if len(page.pack(content)) <= self.copy_bytes:
                return content, f"Its numbers are rounded as with --compact; {more}"
        layers = [
            msgspec.structs.replace(layer, reason="This copy has the overview only.") for layer in self.heads_page.content.layers
        ]
        content = msgspec.structs.replace(self.heads_page.content, layers=layers, served=False, rollout=[])
        return content, f"It has the overview only; {more}"

    def _table(self) -> str:
        if not isinstance(self.content, Heads):
            return page.plain(self.content)
        rows = [
            [str(i), str(h), head.role, *map(page.number, (head.previous, head.own, head.first, head.entropy))]
            for i, layer in enumerate(self.content.layers)
            for h, head in enumerate(layer.heads)
        ]
        left = f"<p>The first {ROWS} of {len(rows)} heads.</p>\n" if len(rows) > ROWS else ""
        notes = "".join(f"<p>{escape(note)}</p>\n" for note in self.content.notes)
        alt = f"All heads: {len(self.content.layers)} rows are layers, each square is a head, and dark is a large weight."
        image = f'<p><img alt="{alt}" src="{picture(self.content.layers)}"></p>\n' if self.content.layers else ""
        return image + page.table("What each head does", TABLE, rows[:ROWS]) + left + notes

    def __repr__(self) -> str:
        return " ".join(filter(None, (f"{_named(self.content)}.", _summary_of(self.content), "save(path) writes it as one file.")))

    def _repr_mimebundle_(self, **_: Any) -> Any:
        return {"text/plain": repr(self), "text/html": self.static()}


# ------------------------------------------------------------------------------------------------------------ the record


def _content(what: Any, title: str) -> page.Content:
    if isinstance(what, EvaluationRecord):
        return what.short
    if isinstance(what, get_args(page.Content)):
        content: page.Content = what
        if isinstance(content, Heads) and content.served:
            raise InputError("This record needs a server that responds with single heads. Give the record of a file.")
        return content
    if isinstance(what, Audit):
        return report(what)
    if isinstance(what, Run):
        return run_report(what)
    if isinstance(what, Choice):
        return explorable(what)
    if isinstance(what, Program):
        return lowered(what, arrays=False, title=title)
    if isinstance(what, (Model, ModelSpec)):
        return drawing(what, title)
    if isinstance(what, (str, Path)) and (Path(what) / RUN).is_file():
        return run_report(read_run(Path(what)))
    if isinstance(what, nn.Module):
        raise InputError(f"{type(what).__name__} needs inputs. Add them: eq.show(model, ids).")
    name = (
        f"{str(what)!r}, which is no run's folder" if isinstance(what, (str, Path)) else f"an object of type {type(what).__name__}"
    )
    raise InputError(f"A model with its inputs, an audit, a run or its folder, or a page's record can be shown, but got {name}.")


def _heads_page(
    model: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any] | None, tokenizer: Any, labels: Sequence[str] | None, title: str
) -> HeadsPage:  # fmt: skip
    with _deterministic(model):
        prepared = model_inputs(model, inputs, kwargs, tokenizer, labels)
        name = type(model).__name__
        title = title or (f"{name}: {prepared.title}" if prepared.title else name)
        reader = model_reader(model, fast_tokenizer(tokenizer))
        return HeadsPage(model, prepared.args, prepared.kwargs, prepared.sequences, title, name, prepared.notes, reader)


@contextmanager
def _deterministic(model: nn.Module | HeadsPage) -> Iterator[None]:
    """Inside, modules are in eval mode and the random generator is seeded; afterwards both are restored."""
    modules = list((model._called[0] if isinstance(model, HeadsPage) else model).modules())
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


# ----------------------------------------------------------------------------------------------------------- selection


def selected(content: page.Content, link: str) -> dict[str, Any]:
    """The selection in a page's link: four numbers from 0 on, or None, on the page of all heads; else the fields of the link."""
    parts = dict(parse_qsl(link))
    if not isinstance(content, Heads):
        return parts
    selection: dict[str, Any] = dict.fromkeys(CHOSEN)
    for name, fields in LINK.items():
        numbers = parts.get(name, "").split(".")
        if len(numbers) == len(fields) and all(re.fullmatch(r"0|[1-9][0-9]{0,6}", n) for n in numbers):
            selection |= {field: int(n) for field, n in zip(fields, numbers, strict=True)}
    return selection


def linked(content: page.Content, chosen: Mapping[str, Any], link: str) -> str:
    """The link with this selection; its other fields stay.

    raises  UnknownName, InputError for a selection that does not exist on the page of all heads
    """
    if isinstance(content, Heads):
        for name in chosen:
            if name not in CHOSEN:
                raise UnknownName("part of a selection", name, list(CHOSEN))
        wanted = selected(content, link) | dict(chosen)
        _check_selection(content, wanted)
        numbers = {name: [wanted[field] for field in fields] for name, fields in LINK.items()}
        chosen = {
            name: None if None in chosen_numbers else ".".join(str(n) for n in chosen_numbers)
            for name, chosen_numbers in numbers.items()
        }
    kept = [(name, value) for name, value in parse_qsl(link, keep_blank_values=True) if name not in chosen]
    return urlencode([(name, value) for name, value in chosen.items() if value is not None] + kept)


def _check_selection(content: Heads, wanted: Mapping[str, Any]) -> None:
    layers = [*content.layers, *content.rollout]
    layer, head = wanted["layer"], wanted["head"]
    if (layer is None) != (head is None):
        raise InputError("A layer and a head are selected together: {'layer': 0, 'head': 0}. None for both deselects them.")
    chosen = layers[layer] if layer is not None and _within("layer", layer, len(layers)) else None
    if chosen is not None:
        _within("head", head, len(chosen.heads))
    lengths = [len(one.labels) for one in content.sequences]
    rows, columns = (None, None) if chosen is None else (chosen.query_sequence, chosen.key_sequence)
    for name, sequence in (("row", rows), ("column", columns)):
        if wanted[name] is not None:
            _within(name, wanted[name], max(lengths) if sequence is None else lengths[sequence])


def _within(name: str, number: Any, count: int) -> bool:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < count:
        raise InputError(f"There is no {name} {number!r} here: they are numbered 0 to {count - 1}.")
    return True


# ------------------------------------------------------------------------------------------------------------- the markup


def picture(layers: Sequence[AttentionLayer]) -> str:
    """A data: address of the thumbnails of all heads: one row per layer, dark is a large weight."""
    wide = max(len(layer.heads) for layer in layers)
    step = TILE + 2
    pixels = np.full((1, len(layers) * step, wide * step), 255, np.uint8)
    for i, layer in enumerate(layers):
        tiles = (
            np.frombuffer(b64decode(layer.thumbnail), np.uint8).reshape(-1, layer.thumbnail_side, layer.thumbnail_side)
            if layer.thumbnail
            else ()
        )
        at = np.arange(TILE) * layer.thumbnail_side // TILE
        for h, tile in enumerate(tiles):
            pixels[0, i * step : i * step + TILE, h * step : h * step + TILE] = 255 - tile[np.ix_(at, at)]
    return address(pixels)


def _named(content: page.Content) -> str:
    return f"equiscope: {content.title}"


def _summary_of(content: page.Content) -> str:
    """The first sentence of a page."""
    return content.answer if isinstance(content, Comparison) else str(getattr(content, "summary", ""))
