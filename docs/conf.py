"""Sphinx: `cd docs && sphinx-build -W -b html . _build` after `pip install -c constraints.txt -e '.[docs]'`."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "equiscope" / "__init__.py"

project = "equiscope"
author = "The equiscope authors"
copyright = author
release = next(
    ast.literal_eval(line.partition("=")[2].strip())
    for line in PACKAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("__version__")
)
version = release

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"equiscope {release}"
html_show_sphinx = False
