"""Another resolution: a model of pictures with a learned grid, made to read pictures of another size.

Source: Dosovitskiy et al. 2021, section 3.2: the table of places is interpolated in the plane.
"""

import copy
from collections.abc import Iterable
from dataclasses import replace

from equiscope.errors import InputError
from equiscope.models.build import Model
from equiscope.models.spec import Block
from equiscope.positions import LearnedNd, to_json
from equiscope.positions.learned_nd import resized as resized_table


def resized(model: Model, size: int | tuple[int, ...], smooth: bool = False) -> Model:
    """A copy for pictures of `size` samples (rows, columns; one number for all axes). Only the table of positions changes.

    smooth  as of `position.learned_nd.resized`: timm's way, else transformers'
    raises  InputError where the model cuts no cells, its scheme is no learned grid (others need no change), or the size does
            not divide
    """
    patch, scheme = model.spec.input.patch, model.position
    if patch is None or not isinstance(scheme, LearnedNd):
        raise InputError(
            f"Only a model with patches and a learned grid has a size, but this one has patch={patch} and {type(scheme).__name__}."
        )
    size = (size,) * len(patch) if isinstance(size, int) else tuple(size) if isinstance(size, Iterable) else (size,)
    if not all(hasattr(n, "__index__") for n in size):
        raise InputError(f"A size is a whole number of samples along each axis, but got {size}.")
    if len(size) != len(patch) or any(n < p or n % p for n, p in zip(size, patch, strict=False)):
        raise InputError(f"Cells of {patch} samples do not fill {tuple(size)}. Give a multiple of the cell along each axis.")
    grid = tuple(n // p for n, p in zip(size, patch, strict=True))
    fresh = copy.deepcopy(model)
    fresh.position = resized_table(scheme, grid, smooth)
    fresh.position.sized_for = scheme.sized_for
    old = to_json(scheme)

    def changed(block: Block) -> Block:
        same = to_json(block.attention.position) == old
        return replace(block, attention=replace(block.attention, position=LearnedNd(grid, scheme.between))) if same else block

    fresh.spec = replace(model.spec, block=tuple(map(changed, model.spec.cycle)))
    return fresh
