"""Neighbour lists: ASE finds the same, in every cell."""

import pytest
import torch
from ase import Atoms
from ase.neighborlist import neighbor_list

from equiscope.errors import InputError, ShapeError
from equiscope.geometry import neighbours, pairs

SLANTED = torch.tensor([[6.0, 0.0, 0.0], [3.0, 5.0, 0.0], [1.0, -2.0, 4.0]], dtype=torch.float64)
CASES = {
    "free, few": (30, None, (False,) * 3, 3.0),
    "free, many": (300, None, (False,) * 3, 3.0),
    "a box": (20, torch.diag(torch.tensor([9.0, 8.0, 10.0], dtype=torch.float64)), (True,) * 3, 3.0),
    "a slanted cell, smaller than the cutoff": (10, SLANTED, (True,) * 3, 9.1),
    "left-handed": (10, SLANTED[[1, 0, 2]], (True,) * 3, 4.0),
    "a slab": (25, SLANTED, (True, True, False), 4.0),
    "a wire": (25, SLANTED, (False, True, False), 4.0),
    "one atom": (1, 2 * torch.eye(3, dtype=torch.float64), (True,) * 3, 5.0),
}


def points(count, seed=0):
    return (
        torch.randn(count, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 8
    )  # some lie outside the cell


@pytest.mark.parametrize("name", list(CASES))
def test_ase_finds_the_same_pairs(name):
    count, cell, periodic, cutoff = CASES[name]
    x = points(count)
    i, j, cells = pairs(x, cutoff, cell, periodic)
    atoms = Atoms("H" * count, positions=x.numpy(), cell=None if cell is None else cell.numpy(), pbc=periodic)
    theirs = neighbor_list("ijS", atoms, cutoff)
    ours = sorted(zip(i.tolist(), j.tolist(), map(tuple, cells.tolist()), strict=True))
    assert ours == sorted(zip(*(part.tolist() for part in theirs[:2]), map(tuple, theirs[2].tolist()), strict=True))
    assert len(set(ours)) == len(ours)


@pytest.mark.parametrize("name", list(CASES))
def test_lists_hold_the_ways_of_these_pairs_and_the_point_itself(name):
    count, cell, periodic, cutoff = CASES[name]
    x = points(count)
    near = neighbours(x[None], cutoff, None if cell is None else cell[None], periodic)
    i, j, cells = pairs(x, cutoff, cell, periodic)
    ways = x[j] - x[i] + (0 if cell is None else cells.double() @ cell)
    assert int(near.mask.sum()) == len(i) + count
    assert (near.index[0, :, 0] == torch.arange(count)).all()
    assert near.displacement[0, :, 0].abs().max() == 0
    for row in range(count):
        found = near.displacement[0, row][near.mask[0, row]][1:]
        wanted = ways[i == row]
        assert torch.allclose(found.sort(0).values, wanted.sort(0).values)


def test_sets_of_different_sizes_are_listed_each_by_itself():
    x, valid = points(12).view(2, 6, 3), torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    both, alone = neighbours(x, 9.0, valid=valid), neighbours(x[1:, :4], 9.0)
    assert not both.mask[1, 4:].any()
    assert int(both.mask[1].sum()) == int(alone.mask.sum())


def test_a_gradient_flows_to_places_and_to_the_cell():
    x, cell = points(4)[None].requires_grad_(), SLANTED.clone()[None].requires_grad_()
    near = neighbours(x, 4.0, cell)
    slopes = torch.autograd.grad((near.squared_distance * near.mask).sum(), [x, cell])
    assert all(slope.abs().max() > 0 for slope in slopes)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda: neighbours(torch.zeros(1, 2, 3), 0.0), InputError, "cutoff"),
        (lambda: neighbours(torch.zeros(1, 2, 3), float("nan")), InputError, "cutoff"),
        (lambda: neighbours(torch.full((1, 2, 3), float("nan")), 1.0), InputError, "NaN or infinite"),
        (lambda: neighbours(torch.zeros(1, 2, 3), 1.0, torch.ones(1, 3, 3)), InputError, "has no volume"),
        (lambda: neighbours(torch.zeros(1, 2, 3), 1.0, torch.eye(3)), ShapeError, "cell"),
        (lambda: neighbours(torch.zeros(2, 3), 1.0), ShapeError, r"\[B, N, 3\]"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, error, said):
    with pytest.raises(error, match=said):
        wrong()


@pytest.mark.parametrize("count", [0, 1])
def test_no_point_and_one_point_are_fine(count):
    near = neighbours(torch.zeros(1, count, 3), 1.0)
    assert near.mask.shape[:2] == (1, count)
    assert near.mask.sum() == count
