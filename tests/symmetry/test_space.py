"""Space: motions form groups, are exact in float64, move what has to move, and leave everything else."""

import msgspec
import pytest
import torch

from equiscope.audit import check, replay
from equiscope.errors import UnknownName
from equiscope.symmetry import Inputs, inputs_of, named
from equiscope.symmetry.atoms import PermuteLike, Scale
from equiscope.symmetry.motions import Space
from equiscope.symmetry.space import MOTIONS, Euclidean, Orthogonal, Reflect, Rigid, Rotate, Translate
from equiscope.tokens import Tokens

Z = (0.0, 0.0, 1.0)
SOLID = [m for m in MOTIONS if issubclass(m, Space)]
FINE = 1e-12  # float64


def cloud(**more):
    values = {"pos": torch.randn(2, 6, 3, dtype=torch.float64), **more}
    return inputs_of((), values)


def some(action, count=6):
    return action.samples(cloud(), torch.Generator().manual_seed(1), count)


def apart(a, b):
    return (a - b).abs().max().item()


@pytest.mark.parametrize("action", SOLID)
def test_distances_and_the_handedness_that_the_group_keeps_stay(action):
    before = cloud().values["pos"]
    for one in some(action):
        after = one.on_input(before)
        gaps, moved = (p[:, :, None] - p[:, None] for p in (before, after))
        assert apart(gaps.norm(dim=-1), moved.norm(dim=-1)) < FINE
        det = torch.linalg.det(one.matrix()).item()
        assert det == pytest.approx(1) or action.mirrored


@pytest.mark.parametrize("action", [Reflect, Orthogonal, Euclidean])
def test_a_group_with_mirrors_has_some(action):
    assert any(torch.linalg.det(one.matrix()) < 0 for one in some(action))


def test_there_and_back_is_nothing():
    points = cloud().values["pos"]
    for turn in some(Rotate):
        assert apart(Rotate(turn.axis, -turn.angle).on_input(turn.on_input(points)), points) < FINE
    for mirror in some(Reflect):
        assert apart(mirror.on_input(mirror.on_input(points)), points) < FINE
    for way in some(Translate):
        back = Translate(tuple(-b for b in way.by))
        assert apart(back.on_input(way.on_input(points)), points) < FINE


def test_two_turns_about_one_axis_add_their_angles():
    points = cloud().values["pos"]
    both = Rotate(Z, 20.0).on_input(Rotate(Z, 13.0).on_input(points))
    assert apart(both, Rotate(Z, 33.0).on_input(points)) < FINE


def test_a_quarter_turn_is_exact_and_right_handed():
    x, y = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0])
    assert torch.equal(Rotate(Z, 90.0).on_input(x), y)
    assert torch.equal(Rotate(Z, 360.0).on_input(x), x)


def test_tiny_turns_as_well_as_large_ones_are_tried():
    angles = [turn.angle for turn in some(Rotate, 20)]
    assert min(angles) < 0.1
    assert sum(90 < a < 270 for a in angles) > 5


def test_turns_are_spread_evenly():
    """The mean matrix of all rotations is 0."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.stack([Rotate.sample(None, generator).matrix() for _ in range(4000)]).mean(0)
    assert mean.abs().max() < 0.05  # 1/sqrt(4000 * 3) = 0.009


def test_a_small_dtype_is_rounded_once():
    turn, points = Rotate((0.6, 0.0, 0.8), 33.0), torch.randn(4, 3)
    assert torch.equal(turn.on_input(points), turn.on_input(points.double()).float())


def test_vectors_turn_but_do_not_move_and_other_things_stay():
    inputs = cloud(velocities=torch.randn(2, 6, 3), z=torch.ones(2, 6, dtype=torch.long))
    moved = Rigid(Z, 90.0, (5.0, 0.0, 0.0)).on_input(inputs)
    assert apart(moved.values["velocities"], Rotate(Z, 90.0).on_input(inputs.values["velocities"])) == 0
    assert apart(moved.values["pos"], Rotate(Z, 90.0).on_input(inputs.values["pos"]) + torch.tensor([5.0, 0, 0])) < FINE
    assert moved.values["z"] is inputs.values["z"]


def test_tokens_in_space_move_and_tokens_of_a_text_do_not():
    solid = Tokens(x=torch.randn(4, 8), positions=torch.randn(4, 3, dtype=torch.float64), order=torch.arange(4))
    text = Tokens.of(torch.randn(4, 8))
    assert apart(Rotate(Z, 180.0).on_input(inputs_of((solid,))).values["input0"].positions[:, :2], -solid.positions[:, :2]) < FINE
    for action in SOLID:
        assert action.missing(inputs_of((solid,))) == ""
        assert action.missing(inputs_of((text,))) == "the model is given no points in space"


@pytest.mark.parametrize("action", MOTIONS)
def test_every_element_is_plain_data_and_says_itself_in_words(action):
    inputs = cloud(z=torch.tensor([1, 1, 1, 6, 6, 8]).expand(2, -1))
    elements = [*action.samples(inputs, torch.Generator().manual_seed(1), 4), *action.simpler(inputs)]
    for one in elements:
        stored = msgspec.json.decode(msgspec.json.encode(one.element()))
        again = action(**{n: tuple(v) if isinstance(v, list) else v for n, v in stored.items()})
        assert apart(again.on_input(inputs).values["pos"], one.on_input(inputs).values["pos"]) == 0
        assert one.describe()
    assert len({one.describe() for one in elements}) > 1


def test_a_motion_is_said_in_words():
    assert Rotate(Z, 90.0).describe() == "rotate by 90 degrees about z"
    assert Rotate((0.6, 0.0, 0.8), 1.0).describe() == "rotate by 1 degree about (0.6, 0, 0.8)"
    assert Translate((1.0, 0.0, 0.0)).describe() == "translate all points by (1, 0, 0)"
    assert Reflect(Z).describe() == "reflect in the plane with normal z"
    assert Rigid(Z, 90.0, (1.0, 0.0, 0.0)).describe() == "rotate by 90 degrees about z, then translate all points by (1, 0, 0)"
    assert Euclidean(Z, 0.0, (0.0, 0.0, 0.0), True).describe() == "invert at the origin"
    assert Scale(2.0).describe() == "multiply the points by a factor: times 2"


def test_like_atoms_are_those_of_one_kind_in_every_molecule_of_a_batch():
    inputs = cloud(z=torch.tensor([[1, 1, 1, 6, 6, 8], [1, 1, 6, 6, 6, 8]]))
    for one in PermuteLike.samples(inputs, torch.Generator().manual_seed(0), 8):
        assert torch.equal(one.on_input(inputs).values["z"], inputs.values["z"])
        assert one.order[2] == 2
        assert sorted(one.order) == list(range(6))
    assert PermuteLike.missing(cloud(z=torch.arange(6).expand(2, -1))) == "no two atoms are of the same element"
    assert PermuteLike.missing(cloud()) == "the model is given no atoms"


def test_a_way_of_moving_that_there_is_not_is_refused_with_the_list():
    model = torch.nn.Linear(3, 3)
    with pytest.raises(UnknownName, match=r"vectr.*pseudo-vector"):
        check(model, torch.randn(5, 3), actions=["rotate"], output="vectr")
    with pytest.raises(UnknownName, match="power 2"):
        Scale(2.0).moved(torch.zeros(3), "powerful", ())


def test_what_is_said_for_turns_leaves_units_and_order_to_be_found_out():
    class Force(torch.nn.Module):
        def forward(self, pos):
            gaps = pos[:, :, None] - pos[:, None]
            return (gaps * gaps.square().sum(-1, keepdim=True)).sum(2)

    rows = check(Force(), torch.randn(2, 5, 3), actions=["permute", "rotate", "translate", "scale"], output="vector")
    assert {r.verdict for r in rows} <= {"holds"}
    assert {r.name: r.output for r in rows if r.kind == "action"} == {
        "permute": "vector",
        "rotate": "vector",
        "translate": "vector",
        "scale": "power 3",
    }


def test_every_motion_is_listed():
    assert [named(m.name) for m in MOTIONS] == list(MOTIONS)
    assert isinstance(cloud(), Inputs)


def test_a_counterexample_is_measured_again_as_the_outputs_were_said_to_move():
    class Spin(torch.nn.Module):
        def forward(self, pos):
            gaps = (pos[:, :, None] - pos[:, None]).sum(2)
            return torch.linalg.cross(gaps, pos), gaps

    given = torch.randn(2, 5, 3)
    row = check(Spin(), given, actions=["reflect"], output={"0": "vector"})["reflect"]
    assert (row.verdict, row.output) == ("broken", "vector")
    assert row.error is not None
    assert replay(Spin(), row, given) == pytest.approx(row.counterexample.error)
