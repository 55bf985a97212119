"""Fast paths beside the plain formula: weights in sight, rotations. Numbers and gradients, in float64."""

import pytest
import torch
from tests.drawn import attending, placed, title, words

from equiscope.attention import Causal, scores
from equiscope.attention.shown import in_steps, shown, takes
from equiscope.position import Alibi, Kerple, Rope, SwinBias, T5Bias
from equiscope.symmetry import relative_error
from equiscope.trace import ops

N = 300  # more than two blocks, and a rest


def made(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def rows(heads=3, n=N, batch=2, width=4):
    return [made(batch, n, heads, width, seed=s).transpose(1, 2) for s in range(3)]


def gradients(outputs, inputs):
    return torch.autograd.grad(
        sum((out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum() for out in outputs), inputs, retain_graph=True
    )


def same(ours, theirs, tolerance=1e-12):  # float64: rounding, measured 2e-15
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).norm() <= tolerance * b.norm()


def hidden(kind):
    causal, last = torch.ones(N, N, dtype=torch.bool).tril(), torch.arange(N) < 250
    return {
        "nobody": None,
        "later": causal,
        "far": causal & causal.mT.roll(20, 0),
        "padding": (causal & last).expand(2, 1, N, N),
        "a key among others": (torch.arange(N) != 140)[None],
        "a whole row": causal & (torch.arange(N) != 140)[:, None],
        "everybody": torch.zeros(N, N, dtype=torch.bool),
    }[kind]


@pytest.mark.parametrize("kind", ["nobody", "later", "far", "padding", "a key among others", "a whole row", "everybody"])
@pytest.mark.parametrize("bias", ["no bias", "one a head", "one a pair", "one a key"])
def test_weights_in_sight_are_those_of_the_plain_formula(kind, bias):
    q, k, v = rows()
    shape = {"no bias": None, "one a head": (3, N, N), "one a pair": (2, 3, N, N), "one a key": (1, N)}[bias]
    table = None if shape is None else made(*shape, seed=3)
    inputs = [q, k, v] if table is None else [q, k, v, table]
    ours, theirs = (f(q, k, v, 0.5, hidden(kind), table) for f in (shown, in_steps))
    same(ours, theirs)
    if kind != "everybody":
        same(gradients(ours, inputs), gradients(theirs, inputs))
        same(gradients(ours[:1], inputs), gradients(theirs[:1], inputs))


def test_a_look_on_the_fast_way_is_the_one_step_by_step(monkeypatch):
    q, k, v = rows()
    fast = scores.look(q, k, v, made(3, N, N, seed=3), hidden("later"))
    monkeypatch.setattr(scores, "takes", lambda *_: False)
    same(fast, scores.look(q, k, v, made(3, N, N, seed=3), hidden("later")))


def test_weights_in_sight_have_second_derivatives():
    q, k, v = (made(1, 2, 5, 3, seed=s) for s in range(3))
    assert torch.autograd.gradgradcheck(lambda *qkv: shown(*qkv, 0.5, torch.ones(5, 5).tril().bool()), (q, k, v))


@pytest.mark.parametrize("shape", [(N, 4), (3, N, 4), (2, 3, N, 4), (2, 3, 0, 4)])
def test_weights_in_sight_of_any_number_of_heads(shape):
    q, k, v = (made(*shape, seed=s) for s in range(3))
    same(shown(q, k, v, 0.5), in_steps(q, k, v, 0.5))


def test_the_fast_way_leaves_functional_transforms_to_the_plain_one():
    q, k, v = (t.detach() for t in rows(n=5))
    jacobian = torch.func.jacfwd(lambda q: scores.look_up(q, k, v))(q)
    assert (jacobian - torch.func.jacrev(lambda q: scores.look_up(q, k, v))(q)).abs().max() < 1e-12
    assert not takes(q[None], k[None], v[None])


def test_faint_weights_in_sight_are_zeros():
    q, k, v = (t.float() for t in rows(n=N, batch=1))
    bias = -30 * torch.ones(N, N).tril(-1).cumsum(0)
    _, weights = shown(q, k, v, 0.5, hidden("later"), bias)
    _, exact = in_steps(q.double(), k.double(), v.double(), 0.5, hidden("later"), bias.double())
    assert bool(((weights == 0) | (weights >= 1e-30)).all())
    torch.testing.assert_close(weights.double(), exact, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_rotation_on_the_fast_way_is_the_readable_one(layout):
    x, angles = made(2, 3, 7, 10), made(7, 4, seed=1).detach()

    def plain(x):
        return torch.cat([ops._as_pairs(x[..., :8], angles.cos(), angles.sin(), layout), x[..., 8:]], -1)

    same([ops.rotate(x, angles, layout)], [plain(x)])
    same(gradients([ops.rotate(x, angles, layout)], [x]), gradients([plain(x)], [x]))
    assert torch.autograd.gradcheck(lambda x: ops.rotate(x, angles, layout), x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: ops.rotate(x, angles, layout), x)
    turned = torch.func.vmap(lambda x: ops.rotate(x, angles, layout))(x)
    same([turned], [plain(x)])


@pytest.mark.parametrize("lead", [(), (2,)], ids=["one list", "a list a sequence"])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_queries_and_keys_turned_together_are_those_turned_alone(layout, lead):
    q, k, at = made(2, 3, 7, 8), made(2, 1, 7, 8, seed=1), made(*lead, 7, 1, seed=2).detach()
    for scheme in (Rope(pairs=layout), Rope(pairs=layout, fraction=0.5), Rope(pairs=layout, key_speed=2.0), Once(pairs=layout)):
        alone = [scheme.turn(q, at, "query"), scheme.turn(k, at, "key")]
        both = scheme.turn_both(q, k, at, at)
        same(both, alone)
        same(gradients(both, [q, k]), gradients(alone, [q, k]))
        same(scheme.turn_both(q, k, at, at + 1), [alone[0], scheme.turn(k, at + 1, "key")])


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_gradients_of_queries_and_keys_turned_together(layout):
    q, k, angles = made(2, 3, 5, 4), made(2, 1, 5, 4, seed=1), made(5, 2, seed=2).detach()

    def both(q, k):
        return ops.rotate_both(q, k, angles, layout)

    assert "TurnedBoth" in type(both(q, k)[0].grad_fn).__name__
    assert torch.autograd.gradcheck(both, (q, k))
    assert torch.autograd.gradgradcheck(both, (q, k))
    assert torch.autograd.gradgradcheck(lambda q, k: both(q, k)[1] * k, (q, k))  # nothing asks the queries
    for x, place in ((q, 0), (k, 1)):  # one of them alone is learned, or alone is used
        few = both(q if x is q else q.detach(), k if x is k else k.detach())
        same(gradients([few[place]], [x]), gradients([ops.rotate(x, angles, layout)], [x]))
        same(gradients([both(q, k)[place]], [x]), gradients([ops.rotate(x, angles, layout)], [x]))


class Once(Rope):
    """A scheme of one's own, which turns otherwise."""

    def turn(self, x, at, role):
        return super().turn(x, at, role) * 2


def test_places_of_each_sequence_are_turned_the_fast_way():
    """As many sequences as heads or as rows: no axis is taken for another."""
    for batch, heads, rows in ((2, 3, 7), (3, 3, 3), (1, 4, 4)):
        x, angles = made(batch, heads, rows, 8), made(batch, rows, 4, seed=1).detach()
        one_by_one = torch.stack([ops.rotate(x[b], angles[b], "interleaved") for b in range(batch)])
        turned = ops.rotate(x, angles, "interleaved")
        same([turned], [one_by_one])
        assert "Turned" in type(turned.grad_fn).__name__ or "Alias" in type(turned.grad_fn).__name__


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("columns", [8, 10], ids=["all turn", "some turn"])
def test_turned_rows_lie_as_they_came_or_one_after_another(layout, columns):
    x, angles = made(2, 7, 3, columns).transpose(1, 2), made(7, 4, seed=1).detach()
    whole = ops.rotate(x.contiguous(), angles, layout)
    for dense in (False, True):
        turned = ops.rotate(x, angles, layout, dense=dense)
        same([turned], [whole])
        if columns == 8:
            assert turned.stride() == (whole if dense else x).stride()
    odd = made(2, 3, columns, 7).transpose(-1, -2)  # no two columns side by side
    same([ops.rotate(odd, angles, layout)], [ops.rotate(odd.contiguous(), angles, layout)])
    one = made(columns)  # one row at many places
    same([ops.rotate(one, angles, layout)], [ops.rotate(one.expand(7, -1), angles, layout)])
    same(gradients([ops.rotate(one, angles, layout)], [one]), gradients([ops.rotate(one.expand(7, -1), angles, layout)], [one]))


@pytest.mark.parametrize("batch", [(), (1,)], ids=["alone", "batch"])
def test_a_large_bias_keeps_its_digits_beside_half_precision(batch):
    """0.5 a place, up to 512: rounded to bfloat16 before the sum, the last hundred places would look alike."""
    tokens, scheme = words(length=1024, batch=batch), Alibi(slopes=(0.5,), kind="key")
    wanted = attending(scheme, Causal(), heads=1, backend="eager")(tokens)
    model = attending(scheme, Causal(), heads=1, backend="sdpa").bfloat16()
    assert relative_error(model(tokens.to(torch.bfloat16)).double(), wanted) < 0.02  # bfloat16: 0.004 a step


@pytest.mark.parametrize("scheme", [T5Bias(), Kerple(), SwinBias((8, 8))], ids=title)
def test_a_learned_bias_has_its_gradient_inside_autocast(scheme):
    model, tokens = attending(scheme, Causal()).float(), placed(scheme, words(batch=(2,))).to(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        model(tokens).float().square().sum().backward()
    found = [p.grad.clone() for p in model.position.parameters()]
    model.zero_grad()
    model(tokens).square().sum().backward()
    assert all(relative_error(a, p.grad) < 0.05 for a, p in zip(found, model.position.parameters(), strict=True))


def test_weights_in_sight_whose_values_alone_learn_have_second_derivatives():
    q, k = torch.randn(2, 1, 2, 5, 4, dtype=torch.float64)
    v = torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True)
    z, weights = shown(q, k, v, 0.5)
    (first,) = torch.autograd.grad(z.pow(3).sum() + weights.sum(), v, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), v)
    assert relative_error(second, 6 * weights.mT @ z) < 1e-13  # rows of weights sum to 1
