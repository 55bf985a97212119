"""Figures: every listed rotation preserves its figure and permutes points of one kind only."""

import pytest
import torch

from equiscope.symmetry.figures import FIGURES, figure_rotations, line, tilted
from equiscope.symmetry.space import Rotate

ALL = [*FIGURES, line(2), line(5), *map(tilted, FIGURES)]


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_a_listed_rotation_preserves_its_figure(figure):
    points = figure.points()
    for rotation in figure.rotations:
        permutation = figure.permutation(rotation)
        assert sorted(permutation) == list(range(len(points)))
        assert (rotation.transformed(points) - points[permutation]).abs().max() < 1e-15 * 4
        assert all(figure.kinds[i] == figure.kinds[j] for i, j in enumerate(permutation))


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_only_the_zero_vector_is_invariant_under_all_rotations(figure):
    """So a force in the middle has to be 0."""
    changes = torch.cat([rotation.matrix() - torch.eye(3) for rotation in figure.rotations])
    assert torch.linalg.svdvals(changes).min() > 0.1


def test_a_rotation_that_does_not_preserve_the_figure_fails_an_assertion():
    with pytest.raises(AssertionError, match="does not preserve a square"):
        next(f for f in FIGURES if f.name == "square").permutation(Rotate((0.0, 0.0, 1.0), 45.0))


def test_the_first_rotations_come_first_straight_and_tilted():
    names = [figure.name for figure, _ in figure_rotations()]
    assert names[:4] == ["methane", "tilted line of 3", "square", "tilted octahedron"]
    assert names[4:8] == ["tilted methane", "line of 3", "tilted square", "octahedron"]
    assert len(names) == 12
