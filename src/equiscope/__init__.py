"""Check, show, build, train and compare transformers by the symmetries that their parts declare.

Every name is loaded on first use: `import equiscope` takes no time and does not import torch.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_ROOMS = (
    "attention",
    "audit",
    "blocks",
    "checkpoints",
    "comparison",
    "data",
    "errors",
    "explore",
    "functional",
    "geometry",
    "interventions",
    "kernels",
    "models",
    "positions",
    "program",
    "record",
    "study",
    "symmetry",
    "tokens",
    "trained",
    "training",
    "units",
)
_NAMES = {
    "Attention": "models",
    "Audit": "record",
    "Block": "models",
    "InputLayer": "models",
    "Experiment": "interventions",
    "FeedForward": "models",
    "OutputLayer": "models",
    "Norm": "models",
    "Run": "record",
    "Parity": "record",
    "PointSpec": "geometry",
    "Program": "program",
    "Spec": "models",
    "Tokens": "tokens",
    "build": "models",
    "check": "audit",
    "compare": "comparison",
    "describe": "models",
    "evaluate": "training",
    "export": "explore.notebook",
    "generate": "models",
    "guard": "models.guard",
    "intervene": "interventions",
    "load": "checkpoints",
    "parity": "audit.parity.comparing",
    "predict": "training",
    "save": "checkpoints",
    "show": "explore.notebook",
    "train": "training",
    "watch": "program",
}
__all__ = [*_ROOMS, *_NAMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    from equiscope.errors import suggestion

    raise AttributeError(f"equiscope has no {name!r}. {suggestion(name, __all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
