"""Figures: every turn that is listed leaves its figure, and exchanges points of one kind only."""

import pytest
import torch

from equiscope.symmetry.figures import FIGURES, figure_rotations, line, tilted
from equiscope.symmetry.space import Rotate

ALL = [*FIGURES, line(2), line(5), *map(tilted, FIGURES)]


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_a_turn_of_a_figure_leaves_it(figure):
    points = figure.points()
    for rotation in figure.rotations:
        places = figure.permutation(rotation)
        assert sorted(places) == list(range(len(points)))
        assert (rotation.placed(points) - points[places]).abs().max() < 1e-15 * 4
        assert all(figure.kinds[i] == figure.kinds[j] for i, j in enumerate(places))


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_no_arrow_but_none_is_left_by_all_turns(figure):
    """So a force in the middle has to be 0."""
    changes = torch.cat([rotation.matrix() - torch.eye(3) for rotation in figure.rotations])
    assert torch.linalg.svdvals(changes).min() > 0.1


def test_a_turn_that_does_not_leave_it_is_our_own_mistake():
    with pytest.raises(AssertionError, match="does not leave a square"):
        next(f for f in FIGURES if f.name == "square").permutation(Rotate((0.0, 0.0, 1.0), 45.0))


def test_the_first_turns_come_first_straight_and_tilted():
    names = [figure.name for figure, _ in figure_rotations()]
    assert names[:4] == ["methane", "tilted line of 3", "square", "tilted octahedron"]
    assert names[4:8] == ["tilted methane", "line of 3", "tilted square", "octahedron"]
    assert len(names) == 12
