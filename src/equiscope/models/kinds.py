"""The kinds of models: how the spec of each is read, built and described, so that no other code depends on the kind."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from equiscope import spec_base
from equiscope.errors import InputError, did_you_mean, sentences
from equiscope.geometry import describe as points
from equiscope.geometry.model import PointSpec, SpaceModel
from equiscope.models import describe as sequences
from equiscope.models import networks
from equiscope.models.baselines import Baseline
from equiscope.models.build import Model, possible_sizes
from equiscope.models.memory import check_memory
from equiscope.models.networks import NETWORKS, Network
from equiscope.models.presets import PRESETS
from equiscope.models.spec import Spec
from equiscope.record.description import Description
from equiscope.spec_base import ModelSpec, read_object

Built = Model | Network | SpaceModel
Source = ModelSpec | dict[str, Any] | str | Path


@dataclass(frozen=True)
class ModelKind:
    """marker: a field that only specs of this kind have, by which a file is recognised; "" for the default kind."""

    spec: type[ModelSpec]
    marker: str
    build: Callable[[Any], Built]
    describe: Callable[[Any, int | None, int], Description]


KINDS: tuple[ModelKind, ...] = (
    ModelKind(PointSpec, "elements", SpaceModel, points.described),
    ModelKind(Baseline, "baseline", lambda spec: NETWORKS[spec.baseline](spec), networks.described),
    ModelKind(Spec, "", Model, sequences.described),
)


def spec_of(source: Source) -> ModelSpec:
    """The spec that a spec, a dict, the name of a preset, or a JSON file says: of points where it has elements, and so on.

    raises  InputError naming the field that does not fit
    """
    if isinstance(source, ModelSpec):
        return source
    if isinstance(source, str) and source in PRESETS:
        return PRESETS[source]()
    if not isinstance(source, (str, Path, dict)) or (not isinstance(source, dict) and spec_base.folder(source)):
        raise InputError(
            f"A spec is a Spec, dict, preset or JSON file, but got {spec_base.short_repr(source)}. A checkpoint is read by load."
        )
    near = did_you_mean(source, PRESETS) if isinstance(source, str) else ""
    hint = f" {sentences(near, 'Give')} a spec as a dict, a Spec, a JSON file, or a preset: {', '.join(PRESETS)}."
    data = source if isinstance(source, dict) else read_object(Path(source), hint, "an object with the fields of Spec")
    return next(kind for kind in KINDS if kind.marker in data or not kind.marker).spec.of(data)


@overload
def build(source: Spec | str | Path) -> Model: ...
@overload
def build(source: Baseline) -> Network: ...
@overload
def build(source: PointSpec) -> SpaceModel: ...
@overload
def build(source: dict[str, Any] | ModelSpec) -> Built: ...


def build(source: Source) -> Built:
    """A model with random parameters (torch's global seed). Raises InputError where the spec is inconsistent, naming the field."""
    spec = spec_of(source)
    check_memory(spec, lambda: count(spec))
    with possible_sizes():
        return _kind(spec).build(spec)


def describe(source: Source, tokens: int | None = None, source_tokens: int = 128) -> Description:
    """Shapes, parameters, multiply-adds and symmetries of a model; print it.

    tokens  of the sequence, or atoms, for which multiply-adds are counted; source_tokens: of the encoder's
    """
    spec = spec_of(source)
    return _kind(spec).describe(spec, tokens, source_tokens)


def count(source: Source) -> int:
    """Parameters."""
    return describe(source, 1, 1).parameters


def folder_of(source: str | Path) -> Path | None:
    """The folder that a source names. None where it is no folder, or a preset's name: a folder of that name is ./NAME.

    raises  InputError for what cannot be a path
    """
    return None if isinstance(source, str) and source in PRESETS else spec_base.folder(source)


def _kind(spec: ModelSpec) -> ModelKind:
    return next(kind for kind in KINDS if isinstance(spec, kind.spec))
