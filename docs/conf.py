"""Sphinx: `cd docs && sphinx-build -W -b html . _build` after `pip install -c constraints.txt -e '.[docs]'`."""

import ast
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for api.py and book.py

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

extensions = ["myst_parser", "sphinx.ext.autodoc", "api", "book"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
maximum_signature_line_length = 100
autodoc_inherit_docstrings = False  # else torch's text on nn.Module stands at every forward
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "howto/hosts"]

html_theme = "furo"
html_title = f"equiscope {release}"
html_show_sphinx = False
