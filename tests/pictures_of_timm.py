"""timm without torchvision, which has no build for CPUs here: timm asks it for transforms of pictures, its models never.

`equiscope explore --model tests/pictures_of_timm.py:vit` opens one of timm's models with it.
"""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import ClassVar
from unittest.mock import MagicMock

import torch


class _Made(ModuleType):
    """A module in which every name is something."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torchvision":
            return importlib.util.spec_from_loader(name, self)
        return None

    def create_module(self, spec):
        return _Made(spec.name)

    def exec_module(self, module):
        pass


def timm():
    """The library; torchvision is there only while it is read, so that nobody else finds it."""
    if "timm" in sys.modules and hasattr(sys.modules["timm"], "create_model"):
        return sys.modules["timm"]
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module("timm")
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
            del sys.modules[name]


def vit():
    """A vision transformer of timm with a class token and registers, small, at random weights; and a picture."""
    torch.manual_seed(0)
    model = timm().models.vision_transformer.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, reg_tokens=2, num_classes=5
    )
    return model.eval(), torch.randn(1, 3, 32, 32)
