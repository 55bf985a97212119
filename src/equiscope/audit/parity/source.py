"""Source: what was named as one of the two sides, ready to run on inputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from equiscope.audit.inputs.targets import target
from equiscope.audit.parity.files import DUMPS, inputs_of_dump, of_dump, of_onnx, read_dump, read_onnx
from equiscope.audit.parity.sides import Side, of_module
from equiscope.audit.subject import arguments
from equiscope.errors import InputError


@dataclass
class Source:
    """A module, recorded activations or an ONNX file.

    args, kwargs  the inputs that it comes with
    generated       whether these were made here
    refusal       why none could be made
    """

    kind: Literal["module", "dump", "onnx"]
    title: str
    model: nn.Module | None = None
    arrays: Mapping[str, Tensor] = field(default_factory=dict)
    path: Path = Path()
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    generated: bool = False
    refusal: InputError | None = None

    @classmethod
    def of(cls, x: Any, side: str, seed: int) -> "Source":
        """What this argument stands for. Raises InputError for anything else."""
        if isinstance(x, nn.Module):
            return cls("module", type(x).__name__, x)
        if isinstance(x, Mapping):
            return cls._dump({str(name): torch.as_tensor(t) for name, t in x.items()}, f"the arrays of {side}")
        if not isinstance(x, str | Path):
            raise InputError(
                f"{side} should be a torch.nn.Module, a name, a file or arrays by name, but got {type(x).__name__}. "
                "A name is module:factory, a checkpoint folder or transformers:CLASS."
            )
        path = Path(x)
        if path.suffix in DUMPS:
            return cls._dump(read_dump(path), path.name)
        if path.suffix == ".onnx":
            return cls("onnx", path.name, path=path)
        found = target(str(x), seed=seed, needs_inputs=False)
        return cls(
            "module",
            found.title,
            found.model,
            args=found.args,
            kwargs=found.kwargs,
            generated=found.generated,
            refusal=found.refusal,
        )

    @classmethod
    def _dump(cls, arrays: dict[str, Tensor], title: str) -> "Source":
        args, kwargs = inputs_of_dump(arrays)
        return cls("dump", title, arrays=arrays, args=args, kwargs=kwargs)

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], title: str, seed: int) -> Side:
        """Its values on these inputs."""
        if self.kind == "dump":
            return of_dump(self.arrays, title)
        if self.kind == "onnx":
            return of_onnx(read_onnx(self.path), self.path, args, kwargs)
        assert self.model is not None
        names = arguments(self.model)
        if names and not set(kwargs) <= set(names):  # the other side calls them otherwise
            args, kwargs = (
                (*args, *(x for name, x in kwargs.items() if name not in names)),
                {n: kwargs[n] for n in kwargs if n in names},
            )
        return of_module(self.model, args, kwargs, title, seed)
