"""The default check raises no false alarm on classes that are taken to be sound; six of them here, all sixty with --thorough."""

import importlib.util
from pathlib import Path

import pytest

from equiscope.audit import check
from equiscope.audit.given import inputs_for
from equiscope.audit.targets import module_of

from .healthy import FIXED, FOUND, HEALTHY, SHORT

pytest.importorskip("transformers")
