"""Fast paths beside the plain formula: weights in sight, rotations. Numbers and gradients, in float64."""

import pytest
import torch
from tests.drawn import attending, placed, title, words
from tests.kernels.fused import N, gradients, made, rows, same

from equiscope.attention import Causal, scores
from equiscope.attention.blockwise import blockwise_attention, reference, supports
from equiscope.functional import rotate
from equiscope.positions import Alibi, Kerple, SwinBias, T5Bias
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick


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
    ours, theirs = (f(q, k, v, 0.5, hidden(kind), table) for f in (blockwise_attention, reference))
    same(ours, theirs)
    if kind != "everybody":
        same(gradients(ours, inputs), gradients(theirs, inputs))
        same(gradients(ours[:1], inputs), gradients(theirs[:1], inputs))


def test_a_look_on_the_fast_way_is_the_one_step_by_step(monkeypatch):
    q, k, v = rows()
    fast = scores.attend(q, k, v, made(3, N, N, seed=3), hidden("later"))
    monkeypatch.setattr(scores, "supports", lambda *_: False)
    same(fast, scores.attend(q, k, v, made(3, N, N, seed=3), hidden("later")))


@pytest.mark.slow
def test_weights_in_sight_have_second_derivatives():
    q, k, v = (made(1, 2, 5, 3, seed=s) for s in range(3))
    assert torch.autograd.gradgradcheck(lambda *qkv: blockwise_attention(*qkv, 0.5, torch.ones(5, 5).tril().bool()), (q, k, v))


@pytest.mark.parametrize("shape", [(N, 4), (3, N, 4), (2, 3, N, 4), (2, 3, 0, 4)])
def test_weights_in_sight_of_any_number_of_heads(shape):
    q, k, v = (made(*shape, seed=s) for s in range(3))
    same(blockwise_attention(q, k, v, 0.5), reference(q, k, v, 0.5))


def test_the_fast_way_leaves_functional_transforms_to_the_plain_one():
    q, k, v = (t.detach() for t in rows(n=5))
    jacobian = torch.func.jacfwd(lambda q: scores.eager_attention(q, k, v))(q)
    assert (jacobian - torch.func.jacrev(lambda q: scores.eager_attention(q, k, v))(q)).abs().max() < 1e-12
    assert not supports(q[None], k[None], v[None])


def test_faint_weights_in_sight_are_zeros():
    q, k, v = (t.float() for t in rows(n=N, batch=1))
    bias = -30 * torch.ones(N, N).tril(-1).cumsum(0)
    _, weights = blockwise_attention(q, k, v, 0.5, hidden("later"), bias)
    _, exact = reference(q.double(), k.double(), v.double(), 0.5, hidden("later"), bias.double())
    assert bool(((weights == 0) | (weights >= 1e-30)).all())
    torch.testing.assert_close(weights.double(), exact, atol=1e-7, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_rotation_is_its_formula_with_all_derivatives(layout):
    x, angles = made(2, 3, 7, 10), made(7, 4, seed=1)

    def formula(x, angles):
        (a, b) = (x[..., 0:8:2], x[..., 1:8:2]) if layout == "interleaved" else (x[..., :4], x[..., 4:8])
        pairs = [a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()]
        turned = torch.stack(pairs, -1).flatten(-2) if layout == "interleaved" else torch.cat(pairs, -1)
        return torch.cat([turned, x[..., 8:]], -1)

    same([rotate(x, angles, layout)], [formula(x, angles)])
    same(gradients([rotate(x, angles, layout)], [x, angles]), gradients([formula(x, angles)], [x, angles]))
    assert torch.autograd.gradcheck(lambda x: rotate(x, angles.detach(), layout), x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda x: rotate(x, angles.detach(), layout), x)
    same([torch.func.vmap(lambda x: rotate(x, angles, layout))(x)], [formula(x, angles)])


def test_positions_of_each_sequence_rotate_its_rows():
    """As many sequences as heads or as rows: no axis is taken for another."""
    for batch, heads, n in ((2, 3, 7), (3, 3, 3), (1, 4, 4)):
        x, angles = made(batch, heads, n, 8), made(batch, n, 4, seed=1).detach()
        one_by_one = torch.stack([rotate(x[b], angles[b], "interleaved") for b in range(batch)])
        same([rotate(x, angles, "interleaved")], [one_by_one])


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_one_row_is_rotated_by_many_angles(layout):
    one, angles = made(10), made(7, 4, seed=1).detach()
    same([rotate(one, angles, layout)], [rotate(one.expand(7, -1), angles, layout)])
    same(gradients([rotate(one, angles, layout)], [one]), gradients([rotate(one.expand(7, -1), angles, layout)], [one]))


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
    z, weights = blockwise_attention(q, k, v, 0.5)
    (first,) = torch.autograd.grad(z.pow(3).sum() + weights.sum(), v, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), v)
    assert relative_error(second, 6 * weights.mT @ z) < 1e-13  # rows of weights sum to 1
