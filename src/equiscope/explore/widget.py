"""Widget: a page in a cell that anywidget connects to Python, in Jupyter, VS Code, Colab and marimo.

The selection on the page is its link, one string that both sides set; `selection` is its content. The page sends its requests over
the notebook's own channel, so nothing listens on a port.
"""

from typing import Any

import anywidget
import traitlets

from equiscope.explore import page
from equiscope.explore.notebook import PageCell, _named, linked, selected
from equiscope.explore.pages.heads import HeadsPage


class Widget(PageCell, anywidget.AnyWidget):
    """A page in a notebook. Page and Python set `selection`; `observe(function, "selection")` calls a function on each change."""

    _esm = page.bundled("widget.js") + "\n"  # a text of one line would be taken for a path
    _page = traitlets.Unicode().tag(sync=True)
    _title = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    link = traitlets.Unicode().tag(sync=True)
    selection = traitlets.Dict()  # type: ignore[override]

    def __init__(self, content: page.Content, heads_page: HeadsPage | None, link: str, height: int) -> None:
        self.content, self.heads_page = content, heads_page
        chosen = selected(content, link)
        anywidget.AnyWidget.__init__(
            self, _page=self.document(), _title=_named(content), link=link, height=height, selection=chosen
        )
        self.on_msg(self._respond)

    @traitlets.validate("selection")
    def _checked(self, proposal: Any) -> dict[str, Any]:
        """The complete selection. Raises InputError for a selection that does not exist."""
        return selected(self.content, linked(self.content, proposal["value"], self.link))

    @traitlets.observe("selection")
    def _move(self, change: Any) -> None:
        self.link = linked(self.content, change["new"], self.link)

    @traitlets.observe("link")
    def _moved(self, change: Any) -> None:
        self.selection = selected(self.content, change["new"])

    def _respond(self, _: Any, message: Any, buffers: Any) -> None:
        """Respond to a request of the page."""
        status, content = self.answer(str(message.get("ask", "")))
        self.send({"view": message.get("view"), "number": message.get("number"), "status": status}, [content])

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = anywidget.AnyWidget._repr_mimebundle_(self, **options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), **PageCell._repr_mimebundle_(self)}, metadata
