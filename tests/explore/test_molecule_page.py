"""The record of the page of a molecule: what it says of models is what the models say, and what stays is what groups promise."""

import math

import msgspec
import pytest
import torch
import torch.nn.functional as F
from tests.explore.molecules import ball, ethanol, handed, turned, xyz

from equiscope.errors import InputError
from equiscope.explore import page
from equiscope.explore.page import html, write
from equiscope.explore.pages.molecule import ANGLES, ATOMS, molecule
from equiscope.explore.space import elements
from equiscope.explore.space.solvers import formula, plain, untrained
from equiscope.program.loops.interpret import run
from equiscope.record import Molecule, unpack
from equiscope.symmetry import relative_error
from equiscope.symmetry.motions import rotation
from equiscope.tokens.elements import SYMBOLS
from equiscope.tokens.points import read_frames

pytestmark = pytest.mark.xdist_group("molecule-page")
ROUNDING = 1e-12  # float64: rounding only, measured 1e-15
AXIS = (0.3, -1.0, 0.5)
LARGEST = 1_000_000  # bytes of the page of a small molecule, three.js inlined


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return molecule(handed(tmp_path_factory.mktemp("handed") / "handed.xyz"))


def quick(numbers):
    return [plain(numbers, 0)]


def places(record, frame=0):
    return torch.tensor(unpack(record.frames)[frame])


def computed(record, name, at):
    """What the page's steps give, run by the tests' own machine."""
    solver = next(one for one in record.solvers if one.name == name)
    found = run(solver.computation, positions=at)
    return {key: torch.as_tensor(value) for key, value in found.items()}


def test_the_steps_of_the_page_are_the_running_models(record):
    numbers, at = torch.tensor(record.atoms), places(record) @ turned(40, AXIS).mT + 0.1
    for model in untrained(numbers, 0):
        wanted, found = model.function()(at), computed(record, model.name, at)
        for name in wanted:
            assert relative_error(found[name].reshape(wanted[name].shape), wanted[name]) < ROUNDING, (model.name, name)
        assert float(wanted["each"].sum() - wanted["energy"]) == pytest.approx(0, abs=1e-12)
        if model.group != "none":
            answer = model.model.energy_and_forces(numbers[None], at[None])
            assert relative_error(wanted["forces"], answer.forces[0]) < ROUNDING
            assert float(wanted["energy"]) == pytest.approx(float(answer.energy), rel=1e-13)


def test_forces_are_slopes(record):
    at, step = places(record), 1e-5
    for name in ("e3", "plain"):
        found = computed(record, name, at)
        moved = []
        for side in (step, -step):
            there = at.clone()
            there[2, 1] += side
            moved.append(float(computed(record, name, there)["energy"]))
        assert -(moved[0] - moved[1]) / (2 * step) == pytest.approx(float(found["forces"][2, 1]), rel=1e-7)


def test_turning_and_mirroring_do_what_the_groups_promise(record):
    at, by = places(record), turned(70, AXIS)
    mirror = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64))
    for solver in record.solvers:
        start, after, image = (computed(record, solver.name, at @ way.mT) for way in (torch.eye(3).double(), by, mirror))
        moves = float((after["energy"] - start["energy"]).abs().max())
        strays = relative_error(after["forces"], start["forces"] @ by.mT)
        seen = float((image["energy"] - start["energy"]).abs().max())
        if solver.group == "none":
            assert min(moves, strays, seen) > 1e-3
            continue
        assert moves < 100 * solver.floors["energy"]
        assert strays < 1e-12
        assert relative_error(after["arrows"], torch.einsum("ij,njc->nic", by, start["arrows"])) < 1e-12
        assert relative_error(after["weights"], start["weights"]) < 1e-12
        assert (seen < 100 * solver.floors["energy"]) is (solver.group == "E(3)")


def test_recorded_curves_are_measured(record):
    at = places(record)
    for solver in record.solvers:
        assert len(solver.energies) == len(solver.forces) == len(record.angles) == len(ANGLES)
        k = ANGLES.index(90.0)
        by = turned(90, record.axis)
        found = computed(record, solver.name, at @ by.mT)
        assert solver.energies[k] == pytest.approx(abs(float(found["energy"]) - solver.start.energy), abs=1e-12)
        start = torch.tensor(unpack(solver.start.forces))
        assert solver.forces[k] == pytest.approx(relative_error(found["forces"], start @ by.mT), abs=1e-12)
        assert (max(solver.forces) < 1e-12) is (solver.group != "none")


def test_a_turn_is_that_of_a_quaternion():
    assert relative_error(rotation(AXIS, 123.0), turned(123.0, AXIS)) < 1e-15


def test_weights_are_those_of_the_definition(record):
    """softmax of q·k scaled - g d² + bias, of the first layer, a reference computation."""
    numbers, at = torch.tensor(record.atoms), places(record)
    model = untrained(numbers, 0)[0].model
    block = model.blocks[0]
    row = model.elements(numbers[None])
    begin = model._features(numbers[None], at[None], None, None)[0]
    x = type(begin)({kind: torch.zeros_like(part) for kind, part in begin.items()})
    x[model.plain] = model.table[row]
    q, k, *_ = block.attention._project(block.attention_norm(x))
    square = torch.cdist(at, at).square()
    scores = block.attention.scale * q[0] @ k[0].mT - F.softplus(block.attention.decay)[:, None, None] * square
    scores = scores + block.attention.radial_bias(block.attention.radial(square)).movedim(-1, 0)
    assert relative_error(computed(record, "e3", at)["weights"][0], scores.softmax(-1)) < 1e-12


def test_one_atom_alone_has_an_energy_and_no_force(tmp_path):
    record = molecule(xyz(tmp_path / "neon.xyz", ["Ne"], [[[3.0, 4.0, 5.0]]]), lambda numbers: untrained(numbers, 0)[:1])
    for solver in record.solvers:
        assert math.isfinite(solver.start.energy)
        assert max(solver.energies) < 1e-14
    found = computed(record, "e3", torch.zeros(1, 3, dtype=torch.float64))
    assert found["weights"].tolist() == [[[[1.0]]] * 4] * 2
    assert unpack(record.solvers[0].start.forces).tolist() == [[0.0, 0.0, 0.0]]


def test_frames_of_the_same_atoms_are_kept_and_others_are_told(tmp_path):
    path = ethanol(tmp_path / "ethanol.xyz", 4)
    record = molecule(path, quick, frame=2)
    assert (record.frames.shape, record.frame) == ([4, 9, 3], 2)
    assert record.captions == [f"frame {i}" for i in range(1, 5)]
    read = read_frames(path)[2].positions
    assert relative_error(places(record, 2), read - read.mean(0)) < 1e-15
    both = tmp_path / "both.xyz"
    both.write_text(path.read_text() + xyz(tmp_path / "neon.xyz", ["Ne"], [[[0.0, 0.0, 0.0]]]).read_text())
    record = molecule(both, quick)
    assert record.frames.shape[0] == 4
    assert "1 of 5 frames hold other atoms and are left out." in record.notes


def test_untrained_weights_are_said_to_be_such_and_follow_the_seed(record):
    assert record.notes[0].startswith("All models have untrained weights, drawn with seed 0:")
    assert {solver.seed for solver in record.solvers} == {0}
    assert not any(solver.trained for solver in record.solvers)
    numbers, at = torch.tensor(record.atoms), places(record)
    for solver, same, other in zip(record.solvers, untrained(numbers, 0), untrained(numbers, 1), strict=True):
        assert float(same.function()(at)["energy"]) == solver.start.energy
        assert float(other.function()(at)["energy"]) != solver.start.energy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\n\nQq 0 0 0\n", "Qq"),
        ("1\n\nH nan 0 0\n", "coordinates that are no numbers"),
        ("0\n\n", "a molecule has one or more"),
        ("", "holds no points"),
        (f"{ATOMS + 1}\n\n" + "".join(f"H {i} 0 0\n" for i in range(ATOMS + 1)), f"the page draws {ATOMS} at most"),
    ],
)  # fmt: skip
def test_what_is_no_molecule_is_refused_in_one_sentence(tmp_path, text, words):
    path = tmp_path / "bad.xyz"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        molecule(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_frame_that_there_is_not_is_refused(tmp_path):
    path = ethanol(tmp_path / "ethanol.xyz", 2)
    for frame in (-1, 2):
        with pytest.raises(InputError, match=f"has 2 frames, but frame {frame} was requested. .*: request 0 to 1."):
            molecule(path, frame=frame)


def test_radii_and_names_are_those_of_ase():
    data = pytest.importorskip("ase.data")
    for number in range(1, 97):
        assert elements.radius(number) == pytest.approx(float(data.covalent_radii[number]), abs=0.005), SYMBOLS[number - 1]
    named = {
        symbol: data.atomic_names[data.atomic_numbers[symbol]].lower().replace("sulphur", "sulfur") for symbol in elements.NAMES
    }
    assert named == elements.NAMES
    assert (elements.colour(118), elements.radius(118)) == (elements.METAL, elements.HEAVY)


def test_a_formula_is_written_as_hill_does(tmp_path):
    assert formula(torch.tensor([8, 6, 1, 1, 6, 1])) == "C2 H3 O"
    assert formula(torch.tensor([8, 1, 1])) == "H2 O"
    assert formula(read_frames(ball(tmp_path / "ball.xyz"))[0].numbers) == "C60"


def test_the_page_is_small_and_asks_nothing(record, tmp_path):
    path = write(record, tmp_path / "page.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < LARGEST
    assert "worker-src blob:" in text
    assert "connect-src" not in text
    assert "Copyright © 2010-2026 three.js authors" in text, "its licence asks for that"
    assert msgspec.json.decode(msgspec.json.encode(record), type=Molecule) == record


def test_without_a_script_there_are_tables(record):
    text = page.plain(record)
    assert text.count("<tr>") == 2 + 3 + 5
    assert "untrained weights" in text
    assert "Br1" in text
    assert "<noscript>" in html(record)


def test_the_plain_transformer_is_an_ordinary_model(record):
    """Its energies are those of the model itself, asked with tokens."""
    from equiscope.tokens import Tokens

    numbers, at = torch.tensor(record.atoms), places(record)
    solving = plain(numbers, 0)
    which = F.one_hot(torch.searchsorted(numbers.unique(), numbers)).double()
    each = solving.model(Tokens(x=torch.cat([which, at], -1), positions=at, order=torch.arange(5)))
    assert relative_error(solving.function()(at)["each"], each.squeeze(-1).detach()) < ROUNDING
