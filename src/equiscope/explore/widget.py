"""Widget: a page in a cell that is tied to Python by anywidget, which Jupyter, VS Code, Colab and marimo all know.

What is chosen on the page is its link, one text, which both sides set; `selection` is what it says. The page asks the model through
the notebook's own channel what a served page asks by an address, so nothing listens on any port.
"""

from typing import Any

import anywidget
import traitlets

from equiscope.explore import page
from equiscope.explore.notebook import Shown, _named, linked, selected
from equiscope.explore.pages.heads import Looked


class Widget(Shown, anywidget.AnyWidget):
    """A page in a notebook. Both it and Python set `selection`: `observe(function, "selection")` calls at each choice."""

    _esm = page._bundled("widget.js") + "\n"  # a text of one line would be taken for a path
    _page = traitlets.Unicode().tag(sync=True)
    _title = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    link = traitlets.Unicode().tag(sync=True)
    selection = traitlets.Dict()  # type: ignore[override]

    def __init__(self, content: page.Content, looked: Looked | None, link: str, height: int) -> None:
        self.content, self.looked = content, looked
        chosen = selected(content, link)
        anywidget.AnyWidget.__init__(
            self, _page=self.document(), _title=_named(content), link=link, height=height, selection=chosen
        )
        self.on_msg(self._asked)

    @traitlets.validate("selection")
    def _checked(self, proposal: Any) -> dict[str, Any]:
        """All of it, as the page will show it. Raises InputError where there is nothing like that to choose."""
        return selected(self.content, linked(self.content, proposal["value"], self.link))

    @traitlets.observe("selection")
    def _move(self, change: Any) -> None:
        self.link = linked(self.content, change["new"], self.link)

    @traitlets.observe("link")
    def _moved(self, change: Any) -> None:
        self.selection = selected(self.content, change["new"])

    def _asked(self, _: Any, message: Any, buffers: Any) -> None:
        """A question of the page: answered where it was asked."""
        status, found = self.answer(str(message.get("ask", "")))
        self.send({"view": message.get("view"), "number": message.get("number"), "status": status}, [found])

    def _repr_mimebundle_(self, **options: Any) -> Any:
        found = anywidget.AnyWidget._repr_mimebundle_(self, **options)
        data, metadata = found if isinstance(found, tuple) else (found, {})
        return {**(data or {}), **Shown._repr_mimebundle_(self)}, metadata
