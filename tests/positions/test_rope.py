"""RoPE: products of turned queries and keys know only the distance; both pair layouts; its precision (P7)."""

import pytest
import torch
from tests.drawn import HEADS, WIDTH, attending, words
from tests.recorded import angles_of, recorded

import equiscope as eq
from equiscope.errors import InputError, ShapeError
from equiscope.positions import Rope
from equiscope.positions.frequencies import geometric_frequencies
from equiscope.positions.rope import half_from_interleaved, interleaved_from_half
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

layouts = pytest.mark.parametrize("pairs", ["interleaved", "half"])


def turned(scheme, x, at, role):
    return scheme.rotate(x, torch.tensor(at, dtype=torch.float64).reshape(-1, 1), role)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@layouts
def test_a_query_and_a_key_know_only_how_far_apart_they_are(pairs, fraction):
    q, k = torch.randn(2, 1, 8, dtype=torch.float64)
    scheme = Rope(pairs=pairs, fraction=fraction)
    for distance in (-7, 0, 2.5, 40):
        products = torch.stack(
            [(turned(scheme, q, [m + distance], "query") * turned(scheme, k, [m], "key")).sum() for m in (0, 1, 17.25, 999)]
        )
        assert products.std(unbiased=False) < 1e-11  # float64: angles up to 1000 keep 13 digits


@layouts
def test_turning_keeps_every_length_and_begins_at_nothing(pairs):
    x = torch.randn(5, 8, dtype=torch.float64)
    assert torch.equal(turned(Rope(pairs=pairs), x, [0.0] * 5, "key"), x)
    out = turned(Rope(pairs=pairs), x, [1, 2, 3, 4, 500], "query")
    assert (out.norm(dim=1) - x.norm(dim=1)).abs().max() < 1e-14


def test_interleaved_pairs_are_complex_numbers_that_turn():
    x, at = torch.randn(2, 6, 8, dtype=torch.float64), torch.arange(6, dtype=torch.float64)
    turn = torch.polar(torch.ones(6, 4).double(), at[:, None] * 10000.0 ** (-torch.arange(4).double() / 4))
    theirs = torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (4, 2))) * turn).flatten(-2)
    assert (Rope().rotate(x, at[:, None], "query") - theirs).abs().max() < 1e-14


def test_halves_are_what_hugging_face_calls_rotate_half():
    x, at = torch.randn(2, 6, 8, dtype=torch.float64), torch.arange(6, dtype=torch.float64)
    angle = at[:, None] * (1.0 / 10000.0 ** (torch.arange(0, 8, 2).double() / 8))
    angle = torch.cat([angle, angle], -1)
    rotated = torch.cat([-x[..., 4:], x[..., :4]], -1)
    theirs = x * angle.cos() + rotated * angle.sin()
    assert (Rope(pairs="half").rotate(x, at[:, None], "key") - theirs).abs().max() < 1e-14


def test_weights_convert_exactly_from_one_layout_to_the_other():
    one, other = attending(Rope()), attending(Rope(pairs="half"))
    a, b = one.attention, other.attention
    b.load_state_dict(a.state_dict())
    for name in ("q_proj", "k_proj"):
        weight = getattr(a, name).weight
        getattr(b, name).weight.data = half_from_interleaved(weight.data, HEADS)
        assert torch.equal(interleaved_from_half(getattr(b, name).weight, HEADS), weight)
    assert relative_error(other(words()), one(words())) < 1e-14  # the same products, summed in another order
    assert relative_error(attending(Rope(pairs="half"))(words()), one(words())) > 1e-3  # unconverted weights are another model


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_the_two_conversions_undo_each_other(heads):
    """Eight columns a head: with four, the reordering is its own inverse and would hide a wrong one."""
    weight = torch.arange(8 * heads)
    converted = half_from_interleaved(weight, heads)
    assert converted[:8].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert torch.equal(interleaved_from_half(converted, heads), weight)


def test_shared_keys_and_still_columns_are_reordered_head_by_head():
    weight = torch.arange(16)
    assert half_from_interleaved(weight, 2, rotated=4).tolist() == [0, 2, 1, 3, 4, 5, 6, 7, 8, 10, 9, 11, 12, 13, 14, 15]
    assert torch.equal(interleaved_from_half(half_from_interleaved(weight, 2, rotated=6), 2, rotated=6), weight)
    with pytest.raises(ShapeError, match="do not make 2 heads of a width in which 10 rows form pairs"):
        half_from_interleaved(weight, 2, rotated=10)


def test_a_projection_that_does_not_fit_the_heads_is_refused():
    with pytest.raises(ShapeError, match="6 rows do not make 2 heads of an even width"):
        half_from_interleaved(torch.zeros(6, 8), 2)


@layouts
def test_a_fraction_leaves_the_other_columns_as_they_are(pairs):
    x = torch.randn(3, 8, dtype=torch.float64)
    out = turned(Rope(fraction=0.5, pairs=pairs), x, [1, 2, 3], "query")
    assert torch.equal(out[:, 4:], x[:, 4:])
    assert torch.equal(out[:, :4], turned(Rope(pairs=pairs), x[:, :4], [1, 2, 3], "query"))


@pytest.mark.parametrize(("head_width", "fraction"), [(7, 1.0), (8, 0.4), (8, 0.0), (8, 1.5)])
def test_columns_without_a_partner_are_refused(head_width, fraction):
    with pytest.raises(ShapeError, match=r"pairs of columns.*even head width"):
        Rope(fraction=fraction).sized(2 * head_width, 2, head_width)


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_layout_names_the_two():
    with pytest.raises(InputError, match=r'pairs cannot be .quarter.: it should be "interleaved" or "half"'):
        Rope(pairs="quarter")


@layouts
def test_places_may_be_times_in_seconds(pairs):
    """Irregular times: the score knows the seconds between, whatever the clock said when the recording began."""
    times = torch.tensor([0.0, 0.013, 0.7, 1.5, 1.5001, 42.25]).double()[:, None]
    q, k = torch.randn(2, 2, 6, 8).double()
    begun = [
        Rope(pairs=pairs).rotate(q, times + s, "query") @ Rope(pairs=pairs).rotate(k, times + s, "key").mT for s in (0, 977.123)
    ]
    assert (begun[0] - begun[1]).abs().max() < 1e-11  # float64: angles up to 1000 keep 13 digits
    between = times - times.T
    two = Rope(pairs=pairs).rotate(q[..., :2], times, "query") @ Rope(pairs=pairs).rotate(k[..., :2], times, "key").mT
    (a, b), (c, d) = (t[..., :2].unbind(-1) for t in (q, k))  # one clock of one radian a second
    alike, across = a[..., None] * c[:, None] + b[..., None] * d[:, None], a[..., None] * d[:, None] - b[..., None] * c[:, None]
    assert (two - (alike * between.cos() + across * between.sin())).abs().max() < 1e-13


@layouts
def test_half_precision_does_not_spoil_far_places(pairs):
    """The ladder is nobody's buffer, so `.bfloat16()` leaves it alone; in bfloat16 the angles would be off by far."""
    model = eq.build(eq.Spec(width=WIDTH, block=eq.Block(attention=eq.Attention(heads=HEADS, position=Rope(pairs=pairs)))))
    tokens = Tokens.of(torch.randn(4, WIDTH), start=100_000).to(torch.bfloat16)
    program = recorded(model.bfloat16(), tokens)
    found = angles_of(program)
    wanted = torch.arange(100_000, 100_004).double()[:, None] * geometric_frequencies(2, 10000.0)
    assert (found.double() - wanted).abs().max() < 1e-2  # float32 at 100 000: steps of 0.0078
    assert (wanted - (wanted.bfloat16()).double()).abs().max() > 10


def test_a_text_far_away_is_read_the_same_in_float64():
    model = attending(Rope())
    assert relative_error(model(words(start=100_000)), model(words())) < 1e-9  # 1e5 radians cost five of sixteen digits
