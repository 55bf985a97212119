"""RoPE: products of turned queries and keys know only the distance; both pair layouts; its precision (P7)."""

import pytest
import torch
from tests.drawn import HEADS, WIDTH, attending, words
from torch._subclasses import FakeTensorMode

import equiscope as eq
from equiscope.errors import InputError, ShapeError
from equiscope.position import Rope, rope
from equiscope.position.frequencies import ladder
from equiscope.position.rope import half_from_interleaved, interleaved_from_half
from equiscope.position.scaling import Linear
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens
from equiscope.trace import ops, replay, watch

layouts = pytest.mark.parametrize("pairs", ["interleaved", "half"])


def turned(scheme, x, at, role):
    return scheme.turn(x, torch.tensor(at, dtype=torch.float64).reshape(-1, 1), role)


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
    assert (Rope().turn(x, at[:, None], "query") - theirs).abs().max() < 1e-14


def test_halves_are_what_hugging_face_calls_rotate_half():
    x, at = torch.randn(2, 6, 8, dtype=torch.float64), torch.arange(6, dtype=torch.float64)
    angle = at[:, None] * (1.0 / 10000.0 ** (torch.arange(0, 8, 2).double() / 8))
    angle = torch.cat([angle, angle], -1)
    rotated = torch.cat([-x[..., 4:], x[..., :4]], -1)
    theirs = x * angle.cos() + rotated * angle.sin()
    assert (Rope(pairs="half").turn(x, at[:, None], "key") - theirs).abs().max() < 1e-14


def test_weights_convert_exactly_from_one_layout_to_the_other():
    one, other = attending(Rope()), attending(Rope(pairs="half"))
    a, b = one.attention, other.attention
    for name in ("query", "key"):
        getattr(b, name).data = half_from_interleaved(getattr(a, name).data, HEADS)
        assert torch.equal(interleaved_from_half(getattr(b, name), HEADS), getattr(a, name))
    b.value.data, b.output.data = a.value.data, a.output.data
    assert relative_error(other(words()), one(words())) < 1e-14  # the same products, summed in another order
    assert relative_error(attending(Rope(pairs="half"))(words()), one(words())) > 1e-3  # unconverted weights are another model


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_the_two_conversions_undo_each_other(heads):
    """Eight columns a head: with four, the reordering is its own inverse and would hide a wrong one."""
    weight = torch.arange(8 * heads)[None]
    converted = half_from_interleaved(weight, heads)
    assert converted[0, :8].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert torch.equal(interleaved_from_half(converted, heads), weight)


def test_shared_keys_and_still_columns_are_reordered_head_by_head():
    weight = torch.arange(16)[None]
    assert half_from_interleaved(weight, 2, turning=4)[0].tolist() == [0, 2, 1, 3, 4, 5, 6, 7, 8, 10, 9, 11, 12, 13, 14, 15]
    assert torch.equal(interleaved_from_half(half_from_interleaved(weight, 2, turning=6), 2, turning=6), weight)
    with pytest.raises(ShapeError, match="do not make 2 heads of a width in which 10 columns turn in pairs"):
        half_from_interleaved(weight, 2, turning=10)


def test_a_projection_that_does_not_fit_the_heads_is_refused():
    with pytest.raises(ShapeError, match="6 columns do not make 2 heads of an even width"):
        half_from_interleaved(torch.zeros(8, 6), 2)


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
    with pytest.raises(InputError, match='"interleaved" or "half", but got \'quarter\''):
        Rope(pairs="quarter")


@layouts
def test_places_may_be_times_in_seconds(pairs):
    """Irregular times: the score knows the seconds between, whatever the clock said when the recording began."""
    times = torch.tensor([0.0, 0.013, 0.7, 1.5, 1.5001, 42.25]).double()[:, None]
    q, k = torch.randn(2, 2, 6, 8).double()
    begun = [Rope(pairs=pairs).turn(q, times + s, "query") @ Rope(pairs=pairs).turn(k, times + s, "key").mT for s in (0, 977.123)]
    assert (begun[0] - begun[1]).abs().max() < 1e-11  # float64: angles up to 1000 keep 13 digits
    between = times - times.T
    two = Rope(pairs=pairs).turn(q[..., :2], times, "query") @ Rope(pairs=pairs).turn(k[..., :2], times, "key").mT
    (a, b), (c, d) = (t[..., :2].unbind(-1) for t in (q, k))  # one clock of one radian a second
    alike, across = a[..., None] * c[:, None] + b[..., None] * d[:, None], a[..., None] * d[:, None] - b[..., None] * c[:, None]
    assert (two - (alike * between.cos() + across * between.sin())).abs().max() < 1e-13


@layouts
def test_half_precision_does_not_spoil_far_places(pairs):
    """The ladder is nobody's buffer, so `.bfloat16()` leaves it alone; in bfloat16 the angles would be off by far."""
    model = eq.build(eq.Spec(width=WIDTH, block=eq.Block(attention=eq.Attention(heads=HEADS, position=Rope(pairs=pairs)))))
    tokens = Tokens.of(torch.randn(4, WIDTH), start=100_000).to(torch.bfloat16)
    trace = watch(model.bfloat16(), tokens)
    found = next(value for name, value in replay(trace).items() if name.endswith("Φ"))
    wanted = torch.arange(100_000, 100_004).double()[:, None] * ladder(2, 10000.0)
    assert (found.double() - wanted).abs().max() < 1e-2  # float32 at 100 000: steps of 0.0078
    assert (wanted - (wanted.bfloat16()).double()).abs().max() > 10


def test_a_text_far_away_is_read_the_same_in_float64():
    model = attending(Rope())
    assert relative_error(model(words(start=100_000)), model(words())) < 1e-9  # 1e5 radians cost five of sixteen digits


def kept(monkeypatch):
    """Nothing is kept yet, and every making of tables is counted."""
    monkeypatch.setattr(rope, "KEPT", rope._Kept())
    made, make = [], ops.turns
    monkeypatch.setattr(rope.ops, "turns", lambda *args: made.append(args) or make(*args))
    return made


def test_tables_of_turns_are_made_once_for_the_same_places(monkeypatch):
    made, scheme = kept(monkeypatch), Rope()
    q, k, at = torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8), torch.arange(7.0)[:, None]
    first = scheme.turn_both(q, k, at, at)
    again = Rope().turn_both(q, k, (same := at.clone()), same)  # other tensors and another scheme: the same numbers
    assert len(made) == 1
    for a, b, role, x in (*zip(first, again, ("query", "key"), (q, k), strict=True),):
        assert torch.equal(a, b)
        assert torch.equal(a, scheme.turn(x, at, role))


def test_a_kept_table_serves_nobody_who_asks_for_another(monkeypatch):
    made, scheme = kept(monkeypatch), Rope()
    q, at = torch.randn(1, 2, 5, 8), torch.arange(5.0)[:, None]

    def right(scheme, q, at):
        turned = scheme.turn_both(q, q, at, at)
        for one, role in zip(turned, ("query", "key"), strict=True):
            assert torch.equal(one, scheme.turn(q, at, role))

    right(scheme, q, at)
    at += 3.0  # the same tensor, other places
    right(scheme, q, at)
    scheme.base = 100.0
    right(scheme, q, at)
    right(Rope(pairs="half"), q, at)
    right(Rope(fraction=0.5), q, at)
    right(Rope(scaling=Linear(factor=3.0)), q, at)
    right(Rope(scaling=Linear(factor=2.0)), q, at)
    right(scheme, q.double(), at)
    right(scheme, q, at.long())
    right(scheme, q[..., :4], at)
    right(scheme, q, at.expand(1, 5, 1))
    assert len(made) == 11
    assert len(rope.KEPT.held) == 4


def test_a_table_made_where_nothing_is_learned_does_not_hinder_learning(monkeypatch):
    kept(monkeypatch)
    scheme, q, at = Rope(), torch.randn(1, 2, 5, 8, requires_grad=True), torch.arange(5.0)[:, None]
    with torch.inference_mode():
        scheme.turn_both(q, q, at, at)
    sum(x.sum() for x in scheme.turn_both(q, q, at, at)).backward()
    assert q.grad.abs().sum() > 0


def test_stand_ins_for_numbers_are_not_kept(monkeypatch):
    kept(monkeypatch)
    with FakeTensorMode():
        q, at = torch.randn(1, 2, 5, 8), torch.arange(5.0)[:, None]
        assert Rope().turn_both(q, q, at, at)[0].shape == q.shape
    assert rope.KEPT.held == ()
    at = torch.arange(5.0)[:, None].requires_grad_()
    Rope().turn_both(torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8), at, at)[0].sum().backward()
    assert at.grad is not None
    assert rope.KEPT.held == ()


def test_gradients_of_queries_and_keys_lie_as_these_came():
    """As a projection wants them: heads of a row side by side; a dense one would have to be copied once more."""
    q, k = (torch.randn(2, 6, 3, 8).transpose(1, 2).requires_grad_() for _ in range(2))
    at = torch.arange(6.0)[:, None]
    turned = Rope().turn_both(q, k, at, at)
    asked = [torch.randn(2, 6, 3, 8).transpose(1, 2) for _ in range(2)]
    found = torch.autograd.grad(turned, (q, k), asked)
    assert [g.stride() for g in found] == [q.stride(), k.stride()]
    assert turned[1].is_contiguous()  # which every query reads
