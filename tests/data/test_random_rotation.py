"""Rotated frames: uniformly random rotations; a function of seed, epoch and example; forces and cells rotate with them."""

from pathlib import Path

import pytest
import torch

from equiscope.data.frame import MoleculeFrame
from equiscope.data.frame_files import Keys
from equiscope.data.molecules import Frames, Molecules
from equiscope.data.random_rotation import random_rotation, rotated

ETHANOL = Path(__file__).parents[2] / "recipes" / "samples" / "ethanol.npz"


def ethanol(seed=0, **changes):
    said = {"train": str(ETHANOL), "keys": Keys(energy="energies"), "unit": "kcal/mol", "held_out": 8}
    return Frames(Molecules(**said | changes), seed)


def test_a_turn_keeps_lengths_and_hands():
    some = torch.stack([random_rotation(0, i) for i in range(50)])
    assert torch.allclose(some @ some.mT, torch.eye(3, dtype=torch.float64).expand(50, 3, 3), atol=1e-14)
    assert torch.allclose(some.det(), torch.ones(50, dtype=torch.float64))


def test_every_turn_is_as_likely():
    """Of uniform turns the mean of a matrix is 0, that of its squares 1/3, and the trace has the mean 0 and the square 1."""
    some = torch.stack([random_rotation(1, i) for i in range(4000)])
    assert some.mean(0).abs().max() < 0.04  # sqrt(1/3 / 4000) is 0.009
    assert (some.square().mean(0) - 1 / 3).abs().max() < 0.03
    trace = some.diagonal(dim1=-2, dim2=-1).sum(-1)
    assert abs(float(trace.mean())) < 0.06
    assert float(trace.square().mean()) == pytest.approx(1, abs=0.08)


def test_a_frame_turns_with_its_forces_and_cell():
    places, by = torch.randn(4, 3, dtype=torch.float64), random_rotation(3)
    one = MoleculeFrame("a", 0, torch.ones(4, dtype=torch.long), places, -1.0, 2 * places, torch.eye(3, dtype=torch.float64))
    found = rotated(one, by)
    assert torch.allclose(found.positions, places @ by.T)
    assert torch.allclose(found.forces, 2 * found.positions)
    assert torch.allclose(found.cell, by.T)
    assert found.energy == one.energy
    assert rotated(MoleculeFrame("a", 0, one.numbers, places, -1.0), by).forces is None


def test_what_is_learned_from_is_turned_anew_each_epoch_by_the_seed_alone():
    plain, one, same = ethanol(), ethanol(random_rotation=True), ethanol(random_rotation=True)
    other = ethanol(1, random_rotation=True, split="first")
    first = [frames.batch(0, 8)["positions"] for frames in (one, same)]
    assert torch.equal(first[0], first[1])
    assert not torch.allclose(first[0], plain.batch(0, 8)["positions"])
    assert torch.equal(one.batch(0, 8)["energy"], plain.batch(0, 8)["energy"])
    lengths = [frames.batch(0, 8)["forces"].norm(dim=-1) for frames in (one, plain)]
    assert torch.allclose(lengths[0], lengths[1], rtol=1e-12)
    halves = [one.batch(1, 8, share, 2)["positions"] for share in (0, 1)]
    assert torch.equal(torch.stack(halves, 1).flatten(0, 1), one.batch(1, 8)["positions"])  # whatever the shares
    seen = {
        float(e): at for step in range(4) for e, at in zip(*(one.batch(step, 8)[n] for n in ("energy", "positions")), strict=True)
    }
    again = {
        float(e): at
        for step in range(4, 8)
        for e, at in zip(*(one.batch(step, 8)[n] for n in ("energy", "positions")), strict=True)
    }
    assert seen.keys() == again.keys()
    assert not any(torch.allclose(seen[e], again[e], atol=1e-3) for e in seen)
    assert not torch.equal(other.batch(0, 8)["positions"], first[0])


def test_what_is_measured_on_is_not_turned():
    plain, one = ethanol(), ethanol(random_rotation=True)
    for part in ("train", "validation"):
        a, b = (next(iter(frames.groups(part, 8)))["positions"] for frames in (plain, one))
        assert torch.equal(a, b)
