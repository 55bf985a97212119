"""Shapes and classes of points in space: they are invariant to rotations, and mirror images differ where the group allows it."""

import pytest
import torch
import torch.nn.functional as F
from tests.geometry.space import places, randomised, turn
from tests.pairwise import each_value, few

import equiscope as eq
from equiscope.errors import InputError
from equiscope.geometry import PointSpec, SpaceModel
from equiscope.geometry.calculator import calculator
from equiscope.tokens.points import read_points

SPECS = {
    "dense": {}, "dense, SE(3)": {"group": "SE(3)", "products": 4}, "typed": {"pseudo": 4, "products": 4},
    "filtered": {"cutoff": 4.0, "filtered": True},
}  # fmt: skip
READS = {"shape": {"readout": "shape"}, "class": {"readout": "class", "classes": 3}}
CUBE = "".join(f"v {x} {y} {z}\n" for x in (0, 1) for y in (0, 1) for z in (0, 1)) + "f 1 2 4 3\nf 5 6 8 7\n"
CORNERS = torch.tensor([[0, 0, 0], [1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], dtype=torch.float64)
BONDS = 3**-0.5 * torch.tensor([[0, 1.09, 1.36, 1.76, 1.94]], dtype=torch.float64).T  # angstrom: C-H, C-F, C-Cl, C-Br


def model(elements=("point",), **settings):
    torch.manual_seed(0)
    return randomised(SpaceModel(PointSpec(elements, width=16, vectors=8, **settings)), 0.3)


@pytest.mark.quick
@pytest.mark.parametrize("readout", list(READS))
@pytest.mark.parametrize("name", list(SPECS))
def test_a_shape_and_its_class_stay_when_points_turn_and_move_and_are_listed_otherwise(name, readout):
    one, at, many = model(**SPECS[name], **READS[readout]), places(2, 7, spread=1.5), torch.ones(2, 7, dtype=torch.long)
    wanted = one(many, at)
    assert wanted.shape == ((2, 16) if readout == "shape" else (2, 3))
    for moved in (at @ turn(77.0).mT + 5.0, at.flip(1), at @ turn(1e-3).mT - 1e3):
        assert (one(many, moved) - wanted).abs().max() < 1e-9 * wanted.abs().max()  # measured to 1e-12
    mirrored = float(((one(many, -at) - wanted).abs().max() / wanted.abs().max()).detach())
    assert (mirrored > 1e-6) == ("SE(3)" in name)
    assert (one(many, 1.5 * at) - wanted).abs().max() > 1e-4 * wanted.abs().max()  # the scale matters


@each_value(
    pytest.mark.parametrize("readout", list(READS)),
    pytest.mark.parametrize("name", few(["filtered", "dense, SE(3)", "typed", "dense"], 2)),
)
def test_what_is_claimed_is_what_a_check_measures(name, readout):
    one = model(**SPECS[name], **READS[readout])
    asked = {"actions": ["permute", "rotate", "translate", "reflect"], "properties": [], "effort": "quick", "proof": False}
    report = eq.check(one, torch.ones(2, 5, dtype=torch.long), places(2, 5), **asked)
    found = {row.name: row.verdict for row in report.rows}
    assert all(found[action] == "holds" for action in ("permute", "rotate", "translate"))
    assert (found["reflect"] == "holds") == ("SE(3)" not in name)
    unclaimed = {row.name for row in report.rows if row.kind == "action" and row.claimed != "yes"}
    assert unclaimed == ({"reflect"} if "SE(3)" in name else set())


@pytest.mark.quick
@pytest.mark.parametrize("readout", list(READS))
def test_padding_changes_no_shape_and_a_shape_is_a_mean_over_points(readout):
    one, at = model(**READS[readout]), places(2, 6)
    some = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    assert torch.allclose(one(some, at)[1], one(some[1:, :4], at[1:, :4])[0], rtol=1e-12)
    assert one(torch.zeros(1, 3, dtype=torch.long), at[:1, :3]).isfinite().all()  # no point at all
    assert one(torch.ones(1, 1, dtype=torch.long), at[:1, :1]).isfinite().all()


@pytest.mark.quick
def test_a_mesh_is_read_and_has_a_shape(tmp_path):
    (tmp_path / "cube.obj").write_text(CUBE)
    points, one = read_points(tmp_path / "cube.obj"), model(readout="shape")
    every = torch.ones(1, len(points.positions), dtype=torch.long)
    shape = one(every, points.positions[None])
    assert shape.shape == (1, 16)
    assert torch.allclose(one(every, points.positions[None] @ turn(33.0).mT), shape, rtol=1e-9)


def molecules(count, seed):
    """CHFClBr, jiggled and turned at random: which of its two hands each is."""
    g = torch.Generator().manual_seed(seed)
    right = torch.rand(count, generator=g) < 0.5
    at = CORNERS * BONDS * torch.where(right, 1.0, -1.0)[:, None, None]
    at = at + 0.1 * torch.randn(count, 5, 3, generator=g, dtype=torch.float64)
    by = torch.stack([turn(float(seed + 360 * i / count), i) for i in range(count)])
    return torch.tensor([6, 1, 9, 17, 35]).expand(count, 5), at @ by.mT, right.long()


def learned(group, **settings):
    torch.manual_seed(0)
    spec = PointSpec(("H", "C", "F", "Cl", "Br"), group, 16, 8, products=4, radial=8, readout="class", classes=2, **settings)
    one = SpaceModel(spec)
    optimiser = torch.optim.Adam(one.parameters(), 5e-3)
    for step in range(60):
        numbers, at, right = molecules(32, step + 1)
        optimiser.zero_grad()
        F.cross_entropy(one(numbers, at.float()), right).backward()
        optimiser.step()
    return one.double()


HANDS = [("SE(3)", {"cutoff": 4.0, "filtered": True}), ("SE(3)", {}), ("E(3)", {"pseudo": 4})]


@pytest.mark.parametrize(("group", "settings"), few(HANDS, 1))
def test_hands_of_a_molecule_are_learned_by_a_group_without_mirrors_and_cannot_be_by_one_with_them(group, settings):
    one = learned(group, **settings)
    numbers, at, right = molecules(200, 1000)
    with torch.no_grad():
        told, mirrored = one(numbers, at), one(numbers, -at)
    if group == "SE(3)":
        assert float((told.argmax(-1) == right).double().mean()) > 0.99  # measured 1.0, with four seeds
        assert float((mirrored.argmax(-1) == 1 - right).double().mean()) > 0.99
    else:
        assert torch.allclose(told, mirrored, rtol=1e-9)  # so of a molecule and its mirror image it always names one wrongly


@pytest.mark.quick
def test_a_spec_of_classes_reads_what_it_wrote_and_describes_itself():
    spec = PointSpec(("point",), readout="class", classes=5)
    assert PointSpec.of(spec.to_dict()) == spec
    said = eq.describe(spec, 9)
    assert said.parameters == sum(p.numel() for p in eq.build(spec).parameters())
    assert "scores of classes" in str(said)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: PointSpec(("H",), readout="class"), 'need readout="class" and classes=2 or so, but readout is "class"'),
        (lambda: PointSpec(("H",), classes=2), 'but readout is "energy"'),
        (lambda: PointSpec(("H",), readout="class", classes=0), "classes"),
        (lambda: PointSpec(("point", "H")), "symbols"),
        (lambda: model()(torch.tensor([[2]]), places(1, 1)), "knows point, but there is an atom of He"),
        (lambda: model(readout="shape").energy_and_forces(torch.tensor([[1]]), places(1, 1)), "Forces are gradients of an energy"),
        (lambda: calculator(model(("H",), readout="class", classes=2)), "reads an energy"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, said):
    with pytest.raises(InputError, match=said):
        wrong()
