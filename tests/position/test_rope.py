"""RoPE: products of turned queries and keys know only the distance; both pair layouts; its precision (P7)."""

import copy

import pytest
import torch
from tests.drawn import HEADS, WIDTH, attending, words
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import equiscope as eq
from equiscope.errors import InputError, ShapeError
from equiscope.position import Rope
from equiscope.position.frequencies import ladder
from equiscope.position.rope import half_from_interleaved, interleaved_from_half
from equiscope.position.scaling import Linear
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens
from equiscope.trace import replay, watch

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
    assert half_from_interleaved(weight, 2, turning=4).tolist() == [0, 2, 1, 3, 4, 5, 6, 7, 8, 10, 9, 11, 12, 13, 14, 15]
    assert torch.equal(interleaved_from_half(half_from_interleaved(weight, 2, turning=6), 2, turning=6), weight)
    with pytest.raises(ShapeError, match="do not make 2 heads of a width in which 10 rows turn in pairs"):
        half_from_interleaved(weight, 2, turning=10)


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


def right(scheme, q, at):
    """What is turned together is what is turned alone, by whom nothing is kept."""
    for one, role in zip(scheme.turn_both(q, q, at, at), ("query", "key"), strict=True):
        assert torch.equal(one, scheme.turn(q, at, role))


def known(scheme):
    return [found for _, _, found in scheme._kept.held]


def test_a_table_of_turns_is_made_once_for_the_same_places():
    scheme, q, at = Rope(), torch.randn(2, 3, 7, 8), torch.arange(7.0)[:, None]
    right(scheme, q, at)
    (first,) = known(scheme)
    right(scheme, torch.randn(2, 3, 7, 8), at.clone())  # other tensors, the same numbers
    assert known(scheme) == [first]


OTHERS = {
    "places": lambda s, q, at: (s, q, at + 3), "dtype": lambda s, q, at: (s, q.double(), at),
    "whole numbers": lambda s, q, at: (s, q, at.long()), "width": lambda s, q, at: (s, q[..., :4], at),
    "a list a sequence": lambda s, q, at: (s, q, at.expand(1, 5, 1)), "in place": lambda s, q, at: (s, q, at.copy_(at.flip(0))),
    "base": lambda s, q, at: (changed(s, base=100.0), q, at), "pairs": lambda s, q, at: (changed(s, pairs="half"), q, at),
    "fraction": lambda s, q, at: (changed(s, fraction=0.5), q, at),
    "scaling": lambda s, q, at: (changed(s, scaling=Linear(factor=3.0)), q, at),
}  # fmt: skip


@pytest.mark.parametrize("other", OTHERS.values(), ids=list(OTHERS))
def test_a_kept_table_serves_nobody_who_asks_for_another(other):
    scheme, q, at = Rope(), torch.randn(1, 2, 5, 8), torch.arange(5.0)[:, None]
    right(scheme, q, at)
    right(*other(scheme, q, at))
    assert len(known(scheme)) == 2
    right(*other(scheme, q, at))
    assert len(known(scheme)) == 2


def changed(scheme, **settings):
    for name, value in settings.items():
        setattr(scheme, name, value)
    return scheme


def test_a_table_made_where_nothing_is_learned_does_not_hinder_learning():
    scheme, q, at = Rope(), torch.randn(1, 2, 5, 8, requires_grad=True), torch.arange(5.0)[:, None]
    with torch.inference_mode():
        scheme.turn_both(q, q, at, at)
    sum(x.sum() for x in scheme.turn_both(q, q, at, at)).backward()
    assert q.grad.abs().sum() > 0


class Few(Rope):
    """Turns four columns, whatever the head."""

    def turning(self, head_width):
        return 4


@pytest.mark.parametrize("why", ["a class of one's own", "one token", "many places", "learned places", "a transform"])
def test_nothing_is_kept_of(why):
    scheme = Few() if why == "a class of one's own" else Rope()
    rows = {"one token": 1, "many places": 2**16 + 1}.get(why, 5)
    q, at = torch.randn(1, 1, rows, 8), torch.arange(float(rows))[:, None].requires_grad_(why == "learned places")
    if why == "a transform":
        both = torch.func.vmap(lambda at: scheme.turn_both(q, q, at, at)[0])(at[None])
        assert relative_error(both[0], scheme.turn(q, at, "query")) < 1e-6
    else:
        right(scheme, q, at)
    assert known(scheme) == []


@pytest.mark.parametrize("before", [False, True], ids=["nothing kept", "something kept"])
def test_modes_that_watch_operators_see_the_same_ones_each_time(before):
    scheme, q, at = Rope(), torch.randn(1, 2, 5, 8), torch.arange(5.0)[:, None]
    if before:
        right(scheme, q, at)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert scheme.turn_both(q, q, at, at)[0].shape == q.shape
    assert len(known(scheme)) == before
    ways = []
    for _ in range(2):
        with OpCounter() as counted:
            scheme.turn_both(q, q, at, at)
        ways.append(counted.names)
    assert ways[0] == ways[1]
    assert "aten.cos.default" in ways[0]


class OpCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_copy_of_a_scheme_begins_with_nothing_kept():
    scheme, q, at = Rope(), torch.randn(1, 2, 5, 8), torch.arange(5.0)[:, None]
    right(scheme, q, at)
    assert known(copy.deepcopy(scheme)) == []
    assert scheme.state_dict() == {}


def test_gradients_of_queries_and_keys_lie_as_those_that_come_from_above():
    """As attention gives them and a projection wants them, heads of a row side by side: dense ones would be copied once more."""
    q, k = (torch.randn(2, 6, 3, 8).transpose(1, 2).requires_grad_() for _ in range(2))
    at = torch.arange(6.0)[:, None]
    turned = Rope().turn_both(q, k, at, at)
    asked = [torch.randn(2, 6, 3, 8).transpose(1, 2) for _ in range(2)]
    found = torch.autograd.grad(turned, (q, k), asked)
    assert [g.stride() for g in found] == [q.stride(), k.stride()]
    assert turned[1].is_contiguous()  # which every query reads
