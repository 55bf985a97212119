"""Fast paths beside the plain formula: blocks of rows, biases by distance, weights in sight. Numbers and gradients, in float64."""

import itertools
import math

import pytest
import torch
from tests.drawn import attending, placed, title, words

from equiscope.attention import Causal, kernels, scores
from equiscope.attention.plan import Distances
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


@pytest.mark.parametrize(("causal", "learned", "n"), list(itertools.product([True, False], [True, False], [N, 1100])))
def test_a_bias_by_distance_is_its_table_added_to_the_scores(causal, learned, n):
    q, k, v = rows(n=n, batch=1)
    values = made(3, 2 * n - 1, seed=3)
    values = values if learned else values.detach()
    inputs = [q, k, v, values] if learned else [q, k, v]
    distances = Distances(values, n)
    seen = torch.ones(n, n, dtype=torch.bool).tril() if causal else None
    ours = kernels.fused(q, k, v, 0.5, None, causal, distances)
    theirs, _ = in_steps(q, k, v, 0.5, seen, distances.table())
    same([ours], [theirs])
    same(gradients([ours], inputs), gradients([theirs], inputs))


@pytest.mark.parametrize("learned", [True, False])
@pytest.mark.parametrize("seen", ["nobody", "padding", "a whole row"])
def test_a_table_beside_a_causal_mask_is_added_to_the_scores(learned, seen):
    q, k, v = rows()
    table = made(1, 3, N, N, seed=3) if learned else made(1, 3, N, N, seed=3).detach()
    inputs = [q, k, v, table] if learned else [q, k, v]
    causal = hidden("later")
    ours = kernels.fused(q, k, v, 0.5, hidden(seen), True, table)
    theirs, _ = in_steps(q, k, v, 0.5, causal if seen == "nobody" else causal & hidden(seen), table)
    same([ours], [theirs])
    same(gradients([ours], inputs), gradients([theirs], inputs))


@pytest.mark.parametrize(
    ("loud", "dtype", "close"), [(1, torch.float32, 1e-6), (30, torch.float32, 1e-5), (30, torch.float64, 1e-12)]
)
def test_what_a_fixed_bias_makes_faint_is_left_out_only_where_no_score_can_lift_it(loud, dtype, close):
    n = 600
    q, k, v = (t.detach().to(dtype).requires_grad_() for t in rows(n=n, batch=1))
    values = -torch.tensor([2.0, 0.5, 0.03])[:, None] * torch.arange(n - 1, -n, -1).abs()
    distances = Distances(values.to(dtype), n)
    asked = loud * q  # at 30 the scores of a row are hundreds apart: what is far may win against the bias
    ours = kernels.fused(asked, k, v, 0.5, None, True, distances)
    theirs, weights = in_steps(asked, k, v, 0.5, torch.ones(n, n, dtype=torch.bool).tril(), distances.table())
    assert loud == 1 or float(weights[..., 100:, :].diagonal(-100, -2, -1).max()) > 0.5
    same([ours], [theirs], close)
    same(gradients([ours], [q, k, v]), gradients([theirs], [q, k, v]), close)


def test_faint_weights_in_sight_are_zeros():
    q, k, v = (t.float() for t in rows(n=N, batch=1))
    bias = -30 * torch.ones(N, N).tril(-1).cumsum(0)
    _, weights = shown(q, k, v, 0.5, hidden("later"), bias)
    _, exact = in_steps(q.double(), k.double(), v.double(), 0.5, hidden("later"), bias.double())
    assert bool(((weights == 0) | (weights >= 1e-30)).all())
    torch.testing.assert_close(weights.double(), exact, atol=1e-7, rtol=1e-5)


def test_weights_too_small_to_count_are_left_out_without_a_trace():
    q, k, v = (t.float() for t in rows(n=N, batch=1))
    values = -30 * torch.arange(N - 1, -N, -1).abs().expand(3, -1)  # e^-9000: nothing, in float64 too
    ours = kernels.fused(q, k, v, 0.5, None, True, Distances(values.float().requires_grad_(), N))
    theirs, _ = in_steps(q, k, v, 0.5, hidden("later"), Distances(values.float(), N).table())
    same([ours], [theirs], 1e-6)  # float32: measured 1e-7
    same(gradients([ours], [v]), gradients([theirs], [v]), 1e-6)


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


def test_few_digits_keep_what_weighs():
    table = torch.tensor([[-1e5, 1024.0, 1026.5, -math.inf], [-math.inf] * 4], dtype=torch.float64)
    narrow = kernels._narrowed(table, torch.float16)
    assert narrow.tolist() == [[-math.inf, -2.5, 0.0, -math.inf], [-math.inf] * 4]


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


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (1, 1, 1, 4), (2, 2, 2, 5, 6)])
def test_weights_in_a_table_are_what_torchs_kernel_makes(shape, causal, padded):
    torch.manual_seed(0)
    q, k, v = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(3))
    seen = torch.rand(*shape[:-3], 1, 1, shape[-2]) < 0.6 if padded else None
    if seen is not None:
        seen[0] = False  # a sequence of nothing else: its rows are 0, and so are its gradients
    ours, theirs = kernels.in_a_table(q, k, v, 0.3, seen, causal), kernels.fused(q, k, v, 0.3, seen, causal)
    assert relative_error(ours, theirs) < 1e-14
    assert seen is None or not ours[0].any()
    g = torch.randn_like(ours)
    for a, b in zip(torch.autograd.grad(ours, (q, k, v), g), torch.autograd.grad(theirs, (q, k, v), g), strict=True):
        assert relative_error(a, b) < 1e-14


def test_short_rows_in_bfloat16_are_learned_from_in_a_table_as_exactly_as_such_rows_are():
    torch.manual_seed(0)
    exact = [torch.randn(2, 3, 64, 32, dtype=torch.float64) for _ in range(3)]
    rows = [x.bfloat16().requires_grad_() for x in exact]
    assert kernels.learned_shortly(*rows)
    assert not kernels.learned_shortly(*(x.detach() for x in rows))  # nothing is learned: torch's kernel is faster
    assert not kernels.learned_shortly(*(x.detach().float().requires_grad_() for x in rows))
    for seen in (None, (torch.arange(64) < torch.tensor([[40], [64]]))[:, None, None]):
        found = kernels.fused(*rows, 32**-0.5, seen, causal=True)
        wanted = kernels.fused(*exact, 32**-0.5, seen, causal=True)
        assert relative_error(found.double(), wanted) < 2**-7  # 8 digits of a weight and a value


def test_compiled_code_learns_from_short_rows_in_a_table_too():
    torch.manual_seed(0)
    called: list[str] = []

    def noticed(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        called.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    rows = [torch.randn(2, 3, 64, 32, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    compiled = torch.compile(lambda q, k, v: kernels.fused(q, k, v, 0.2, causal=True), backend=noticed, fullgraph=True)
    assert torch.equal(compiled(*rows), kernels.fused(*rows, 0.2, causal=True))
    assert not [name for name in called if "scaled_dot_product" in name]
    called.clear()
    with torch.no_grad():
        compiled(*rows)
    assert [name for name in called if "scaled_dot_product" in name]  # nothing is learned: torch's kernel


def test_what_is_exported_in_bfloat16_takes_any_length():
    class Attends(torch.nn.Module):
        def forward(self, q, k, v):
            return kernels.fused(q, k, v, 0.2, causal=True)

    rows = [torch.randn(2, 3, 64, 32, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    length = torch.export.Dim("length", min=2, max=4096)
    exported = torch.export.export(Attends(), tuple(rows), dynamic_shapes=[{2: length}] * 3, strict=False).module()
    longer = [torch.randn(2, 3, 900, 32, dtype=torch.bfloat16) for _ in range(3)]
    torch.testing.assert_close(exported(*longer), kernels.fused(*longer, 0.2, causal=True), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("learned", [False, True])
def test_rows_with_a_bias_may_lie_in_any_way(learned):
    torch.manual_seed(0)
    plain = [torch.randn(2, 3, 9, 8, dtype=torch.float64) for _ in range(3)]
    bias, g = torch.randn(9, 9, dtype=torch.float64, requires_grad=learned), torch.randn(2, 3, 9, 1, dtype=torch.float64)
    kinds = [plain, [x.mT.clone().mT for x in plain], [x[..., :1].expand_as(x) for x in plain]]
    for rows in kinds:
        lying, dense = [x.detach().requires_grad_() for x in rows], [x.clone().requires_grad_() for x in rows]
        got, wanted = kernels.fused(*lying, 0.3, bias=bias), kernels.fused(*dense, 0.3, bias=bias)
        assert relative_error(got, wanted) < 1e-14
        slopes = torch.autograd.grad(got, lying, g.expand_as(got))
        for mine, theirs in zip(slopes, torch.autograd.grad(wanted, dense, g.expand_as(got).clone()), strict=True):
            assert relative_error(mine, theirs) < 1e-14


@pytest.mark.parametrize("learned", [False, True])
def test_a_bias_must_not_be_changed_before_the_backward_pass(learned):
    q, k, v = (torch.randn(2, 3, 40, 16, requires_grad=True) for _ in range(3))
    bias = torch.randn(40, 40, requires_grad=learned)
    made = kernels.fused(q, k, v, 0.25, bias=bias)
    with torch.no_grad():
        bias.mul_(5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()
