"""Kinds of attention: scores, weights, masks and grouped heads against independent loops; every backend the same (A2, A4, A5)."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.attention.flex_attention as flex_attention
from tests.drawn import HEADS, LISTED, WIDTH, Attending, attending, placed, randomised, title, words
from tests.judges import transformers
from tests.pairwise import each_value, few, pairwise
from tests.recorded import recorded

from equiscope.attention import (
    Additive,
    AttentionContext,
    Blocks,
    Causal,
    Concat,
    Dilated,
    Dot,
    Edges,
    Everything,
    General,
    MultiHeadAttention,
    Prefix,
    ScaledDot,
    Sigmoid,
    Softmax,
    Window,
    eager_attention,
)  # fmt: skip
from equiscope.attention.multihead import kv_major, kv_minor
from equiscope.errors import InputError, ShapeError
from equiscope.positions import Alibi, Cope, NoPosition, Pope, Rope, Shaw, T5Bias
from equiscope.program.replay import replay
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

ROUNDING = 1e-12  # float64; measured below 1e-15
VALID = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [False] * 2 + [True] * 4])


@pytest.fixture
def plain_flex(monkeypatch):
    """FlexAttention as plain Python: in float64, without a compiler."""
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


def made(heads=HEADS, **settings):
    settings.setdefault("head_width", 4)
    return randomised(MultiHeadAttention(WIDTH, heads, **settings))


def parts(attention, tokens, position=None):
    """Queries, keys and values of every head, [..., H, N, K]."""
    return attention.project(tokens, tokens, position or NoPosition())


def closed(attention, z):
    """The heads side by side, through the output projection."""
    return z.transpose(-3, -2).flatten(-2) @ attention.o_proj.weight.mT


# --- grouped queries ----------------------------------------------------------------------------------------------------
@pytest.mark.quick
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_queries_are_full_attention_with_repeated_key_heads(kv_heads):
    grouped, full = made(4, kv_heads=kv_heads, bias=True), made(4, bias=True)
    state = grouped.state_dict()
    for part in ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"):
        heads = state[part].unflatten(0, (kv_heads, 4))
        state[part] = heads.repeat_interleave(4 // kv_heads, 0).flatten(0, 1)  # key head g serves the query heads g*r .. g*r+r-1
    full.load_state_dict(state)
    for position in (None, Rope()):
        tokens = words(batch=(2,))
        assert relative_error(grouped(tokens, position), full(tokens, position)) < ROUNDING


@pytest.mark.quick
def test_key_heads_lie_as_in_hugging_face():
    attention, tokens = made(4, kv_heads=2), words(batch=(2,))
    q, k, v = parts(attention, tokens)
    wanted = closed(
        attention,
        (q @ transformers.models.llama.modeling_llama.repeat_kv(k, 2).mT / 2).softmax(-1)
        @ transformers.models.llama.modeling_llama.repeat_kv(v, 2),
    )
    assert relative_error(attention(tokens), wanted) < ROUNDING
    other = closed(attention, (q @ k.repeat(1, 2, 1, 1).mT / 2).softmax(-1) @ v.repeat(1, 2, 1, 1))  # (r kv), as in x-transformers
    assert relative_error(attention(tokens), other) > 0.01


# --- scores -------------------------------------------------------------------------------------------------------------
def scored(q, k, pair):
    """[H, N, M] from a function of (head, query, key), pair by pair."""
    return torch.stack([torch.stack([torch.stack([pair(h, a, b) for b in k[h]]) for a in q[h]]) for h in range(len(q))])


PAIRS = {
    "scaled dot": (ScaledDot(), lambda s, h, q, k: (q * k).sum() / 4**0.5),
    "another scale": (ScaledDot(scale=0.3), lambda s, h, q, k: (q * k).sum() * 0.3),
    "capped": (ScaledDot(cap=0.5), lambda s, h, q, k: 0.5 * torch.tanh((q * k).sum() / 2 / 0.5)),
    "dot": (Dot(), lambda s, h, q, k: (q * k).sum()),
    "general": (General(), lambda s, h, q, k: q @ s.weight[h] @ k),
    "additive": (Additive(5), lambda s, h, q, k: torch.tanh(q @ s.query_weight + k @ s.key_weight) @ s.out[:, 0]),
    "concat": (Concat(5), lambda s, h, q, k: torch.tanh(torch.cat([q, k]) @ s.weight) @ s.out[:, 0]),
}


@pytest.mark.quick
@pytest.mark.parametrize("causal", [False, True], ids=["everything", "causal"])
@pytest.mark.parametrize(("score", "pair"), list(PAIRS.values()), ids=list(PAIRS))
def test_a_score_is_what_its_paper_says_pair_by_pair(score, pair, causal):
    attention, tokens = made(score=score, mask=Causal() if causal else None), words()
    q, k, v = parts(attention, tokens)
    scores = scored(q, k, lambda h, a, b: pair(attention.score, h, a, b))
    if causal:
        scores = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), -torch.inf)
    weights = torch.stack([torch.stack([row.exp() / row.exp().sum() for row in head]) for head in scores])
    out, seen = attention.attend(tokens)
    assert relative_error(seen, weights) < ROUNDING
    assert relative_error(out, closed(attention, weights @ v)) < ROUNDING
    assert relative_error(attention(tokens), out) < ROUNDING


@pytest.mark.quick
def test_concat_with_one_matrix_over_the_other_is_additive():
    additive, concat = made(score=Additive(5)), made(score=Concat(5))
    state = {name: p for name, p in additive.state_dict().items() if not name.startswith("score.")}
    own = additive.score
    concat.load_state_dict({**state, "score.weight": torch.cat([own.query_weight, own.key_weight]), "score.out": own.out})
    tokens = words(batch=(2,))
    assert relative_error(concat(tokens), additive(tokens)) < ROUNDING


@pytest.mark.quick
def test_general_with_the_unit_matrix_is_dot():
    general, dot = made(score=General()), made(score=Dot())
    general.load_state_dict({**dot.state_dict(), "score.weight": torch.eye(4).double().expand(HEADS, 4, 4)})
    assert relative_error(general(words()), dot(words())) < ROUNDING


@pytest.mark.quick
def test_a_cap_is_gemma_2s():
    attention, tokens = made(4, score=ScaledDot(scale=0.7, cap=0.5), kv_heads=2, mask=Causal()), words(batch=(2,))
    q, k, v = parts(attention, tokens)
    hidden = torch.full((6, 6), -torch.inf).double().triu(1)
    theirs = transformers.models.gemma2.modeling_gemma2.eager_attention_forward(
        SimpleNamespace(num_key_value_groups=2, training=False), q, k, v, hidden, scaling=0.7, softcap=0.5
    )[0]
    assert relative_error(attention(tokens), theirs.flatten(-2) @ attention.o_proj.weight.mT) < 1e-6  # their softmax is float32


@pytest.mark.quick
def test_a_cap_of_nothing_is_refused():
    with pytest.raises(InputError, match="larger than 0, but got 0"):
        ScaledDot(cap=0.0)


# --- weights ------------------------------------------------------------------------------------------------------------
@pytest.mark.quick
@pytest.mark.parametrize("causal", [False, True], ids=["everything", "causal"])
def test_sinks_are_gpt_oss_and_a_plain_loop(causal):
    attention = made(4, kv_heads=2, normalizer=Softmax(sink=True), mask=Causal() if causal else None)
    tokens = words(batch=(2,))
    q, k, v = parts(attention, tokens)
    hidden = torch.full((6, 6), -torch.inf).double().triu(1) if causal else None
    sinks = attention.normalizer.sinks.flatten()
    theirs, weights = transformers.models.gpt_oss.modeling_gpt_oss.eager_attention_forward(
        SimpleNamespace(num_key_value_groups=2, training=False, sinks=sinks), q, k, v, hidden, 0.5
    )
    assert relative_error(attention(tokens), theirs.flatten(-2) @ attention.o_proj.weight.mT) < ROUNDING
    seen = attention.attend(tokens)[1]
    assert relative_error(seen, weights) < ROUNDING
    for h in range(4):
        for i in range(6):
            last = i + 1 if causal else 6
            share = torch.stack([torch.exp(q[0, h, i] @ k[0, h // 2, j] / 2) for j in range(last)])
            assert relative_error(seen[0, h, i, :last], share / (share.sum() + sinks[h].exp())) < ROUNDING


@pytest.mark.quick
def test_a_sink_of_zero_is_softmax_off_by_one():
    attention = made(normalizer=Softmax(sink=True))
    attention.normalizer.sinks.data.zero_()
    q, k, _ = parts(attention, words())
    grown = (q @ k.mT / 2).exp()
    assert relative_error(attention.attend(words())[1], grown / (1 + grown.sum(-1, keepdim=True))) < ROUNDING


@pytest.mark.quick
@pytest.mark.parametrize("bias", [None, -1.5])
@pytest.mark.parametrize("causal", [False, True], ids=["everything", "causal"])
def test_sigmoid_weighs_every_key_by_itself(causal, bias):
    attention, tokens = made(normalizer=Sigmoid(bias), mask=Causal() if causal else None), words()
    q, k, v = parts(attention, tokens)
    weights = torch.zeros(HEADS, 6, 6, dtype=torch.float64)
    for h in range(HEADS):
        for i in range(6):
            count = i + 1 if causal else 6
            for j in range(count):
                shift = -torch.log(torch.tensor(count).double()) if bias is None else bias
                weights[h, i, j] = 1 / (1 + torch.exp(-(q[h, i] @ k[h, j] / 2 + shift)))
    out, seen = attention.attend(tokens)
    assert relative_error(seen, weights) < ROUNDING
    assert relative_error(out, closed(attention, weights @ v)) < ROUNDING


@pytest.mark.quick
def test_a_sigmoid_counts_only_the_keys_that_may_be_seen():
    attention, tokens = made(normalizer=Sigmoid()), words(batch=(3,))
    found = attention(replace(tokens, valid=VALID))
    alone = attention(Tokens(x=tokens.x[1, :4], positions=tokens.positions[1, :4], order=tokens.order[1, :4]))
    assert relative_error(found[1, :4], alone) < ROUNDING


# --- the norm of queries and keys ---------------------------------------------------------------------------------------
@pytest.mark.quick
def test_queries_and_keys_are_normed_per_head_before_they_turn_as_in_qwen_3():
    attention, tokens, rope = made(norm="rms", kv_heads=1), words(), Rope(pairs="half")
    norm_q, norm_k = (transformers.models.qwen3.modeling_qwen3.Qwen3RMSNorm(4, eps=1e-6).double() for _ in range(2))
    norm_q.weight.data.copy_(attention.q_norm.weight)
    norm_k.weight.data.copy_(attention.k_norm.weight)
    # their norm passes through float32
    q = rope.rotate(
        norm_q((tokens.x @ attention.q_proj.weight.mT).unflatten(-1, (2, 4))).transpose(0, 1).double(), tokens.positions, "query"
    )
    k = rope.rotate(
        norm_k((tokens.x @ attention.k_proj.weight.mT).unflatten(-1, (1, 4))).transpose(0, 1).double(), tokens.positions, "key"
    )
    v = (tokens.x @ attention.v_proj.weight.mT)[None]
    wanted = closed(attention, (q @ k.mT / 2).softmax(-1) @ v)
    assert relative_error(attention(tokens, rope), wanted) < 1e-6


@pytest.mark.quick
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_a_norm_before_the_turn_keeps_the_law_of_shift_and_bounds_scores(norm):
    attention, tokens = made(norm=norm), words()
    assert relative_error(attention(words(start=1000), Rope()), attention(tokens, Rope())) < 1e-10
    assert relative_error(attention(replace(tokens, x=tokens.x * 1e3)), attention(tokens) * 1e3) < 1e-3  # eps alone is left


@pytest.mark.quick
def test_heads_that_count_the_other_way_round_are_reordered():
    """x-transformers repeats key heads as a list: query head h asks key head h mod G."""
    heads, kv_heads, width = 6, 2, 4
    q, k = torch.randn(heads, 5, width), torch.randn(kv_heads, 5, width)
    minor = q @ k.repeat(heads // kv_heads, 1, 1).mT
    joined = q.mT.flatten(0, 1)  # rows of a projection
    ours = kv_major(joined, heads, kv_heads).unflatten(0, (heads, width)).mT
    major = ours @ transformers.models.llama.modeling_llama.repeat_kv(k[None], heads // kv_heads)[0].mT  # Hugging Face's order
    assert torch.equal(major.unflatten(0, (kv_heads, -1)).transpose(0, 1).flatten(0, 1), minor)
    assert torch.equal(kv_minor(kv_major(joined, heads, kv_heads), heads, kv_heads), joined)
    with pytest.raises(ShapeError, match="24 rows do not make 6 query heads for 4 key heads"):
        kv_major(joined, 6, 4)


# --- masks --------------------------------------------------------------------------------------------------------------
GRAPH = [(0, 1), (1, 1), (2, 5), (3, 0), (5, 4)]  # rank 4 is fully masked
MASKED = {
    "everything": (Everything(), lambda i, j: True),
    "causal": (Causal(), lambda i, j: j <= i),
    "window": (Window(2), lambda i, j: abs(i - j) < 2),
    "sliding window": (Causal() & Window(3), lambda i, j: 0 <= i - j < 3),
    "dilated": (Dilated(2), lambda i, j: abs(i - j) % 2 == 0),
    "dilated and near": (Dilated(3) & Window(4), lambda i, j: abs(i - j) in (0, 3)),
    "blocks": (Blocks(4), lambda i, j: i // 4 == j // 4),
    "prefix": (Prefix(2), lambda i, j: j < 2),
    "prefix model": (Causal() | Prefix(3), lambda i, j: j <= i or j < 3),
    "edges": (Edges(GRAPH, 6), lambda i, j: (i, j) in GRAPH),
    "no edges": (Edges([], 6), lambda i, j: False),
    "opposite": (~Causal(), lambda i, j: j > i),
    "nobody": (Causal() & ~Causal(), lambda i, j: False),
    "several": ((Causal() & Window(2)) | ~Blocks(3), lambda i, j: 0 <= i - j < 2 or i // 3 != j // 3),
}
masks = pytest.mark.parametrize(("mask", "may"), list(MASKED.values()), ids=list(MASKED))
BACKENDS = ("eager", "sdpa", "chunked", "flex")


def looped(attention, tokens, may, row):
    """One sequence of a batch, head by head, query by query, over the keys that may be seen."""
    q, k, v = (t[row] for t in parts(attention, tokens))
    order, valid = tokens.order[row].tolist(), (VALID & True if tokens.valid is None else tokens.valid)[row].tolist()
    document = [0] * 6 if tokens.document is None else tokens.document[row].tolist()
    z = torch.zeros_like(v)
    for h in range(len(q)):
        for i in range(6):
            seen = [
                j for j in range(6)
                if may(order[i], order[j]) and document[i] == document[j] and (tokens.valid is None or valid[j])
            ]  # fmt: skip
            if seen:
                share = torch.stack([torch.exp(q[h, i] @ k[h, j] / 2) for j in seen])
                z[h, i] = sum(s / share.sum() * v[h, j] for s, j in zip(share, seen, strict=True))
    return closed(attention, z)


@pytest.mark.quick
@pytest.mark.parametrize("flags", ["plain", "padded", "packed", "shuffled ranks"])
@pytest.mark.usefixtures("plain_flex")
@masks
def test_a_mask_is_a_plain_loop_on_every_backend(mask, may, flags):
    tokens = words(batch=(3,))
    ranks = torch.tensor([3, 1, 5, 0, 4, 2])
    given = {
        "plain": tokens,
        "padded": replace(tokens, valid=VALID),
        "packed": replace(tokens, document=torch.tensor([0, 0, 0, 1, 1, 1]).expand(3, 6), valid=VALID),
        "shuffled ranks": replace(tokens, order=ranks.expand(3, 6)),
    }[flags]
    with torch.no_grad():
        wanted = torch.stack([looped(made(mask=mask), given, may, row) for row in range(3)])
        for backend in BACKENDS:
            found = made(mask=mask, backend=backend)(given)
            assert relative_error(found, wanted) < ROUNDING, backend
            assert torch.equal(found == 0, wanted == 0), backend  # a row that is fully masked gives 0


@pytest.mark.quick
@pytest.mark.parametrize("backend", ["eager", "sdpa", "chunked"])
@masks
def test_a_hidden_key_has_no_influence_at_all(mask, may, backend):
    attention, tokens = made(mask=mask, backend=backend), replace(words(batch=(3,)), valid=VALID)
    x = tokens.x.clone().requires_grad_()
    source = replace(tokens, x=x)
    for i in range(6):
        gradient = torch.autograd.grad(attention(tokens, source=source)[..., i, :].sum(), x, allow_unused=True)[0]
        for j in range(6):
            seen = VALID[:, j] & may(i, j)
            assert (gradient[~seen, j] == 0).all()
            assert gradient.isfinite().all()


# --- backends -----------------------------------------------------------------------------------------------------------
KINDS = {
    "plain": {},
    "grouped": {"heads": 4, "kv_heads": 2},
    "one key head": {"heads": 4, "kv_heads": 1},
    "normed": {"norm": "rms", "bias": True},
    "dot": {"score": Dot()},
    "general": {"score": General()},
    "additive": {"score": Additive()},
    "concat": {"score": Concat()},
    "capped": {"score": ScaledDot(cap=1.0)},
    "sink": {"normalizer": Softmax(sink=True)},
    "sigmoid": {"normalizer": Sigmoid()},
}
kinds = pytest.mark.parametrize("kind", list(KINDS))
MORE = ("transformer-xl", "shaw", "cope", "swin", "fire", "pope")
PLACED = [NoPosition(), Rope(), Alibi(), T5Bias(), *(s for s in LISTED if s.name in MORE)]
assert len(PLACED) == 4 + len(MORE)
OWN_SIZE = ("general", "additive", "concat")  # their weights are as wide as a head: not for PoPE, which widens it


def attend(kind, scheme, mask, backend, padded=True):
    settings = dict(KINDS[kind])
    if scheme.name == "pope" and kind in OWN_SIZE:
        pytest.skip("PoPE widens queries beyond this score's weights; test_a_score_of_another_width_is_refused")
    model = attending(scheme, mask, heads=settings.pop("heads", HEADS), backend=backend, **settings)
    tokens = placed(scheme, words(batch=(3,)))
    return model, replace(tokens, valid=VALID) if padded else tokens


@pytest.mark.quick
@pytest.mark.usefixtures("plain_flex")
@pairwise(
    kinds,
    pytest.mark.parametrize("scheme", PLACED, ids=title),
    pytest.mark.parametrize("mask", [Everything(), Causal(), Causal() & Window(3), Edges(GRAPH, 6)], ids=title),
    pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"]),
)
def test_all_backends_compute_the_same(kind, scheme, mask, padded):
    """Outputs of all four; gradients of the three that have some. A backend that cannot gives way to one that can."""
    found = {}
    for backend in BACKENDS:
        model, tokens = attend(kind, scheme, mask, backend, padded)
        if backend == "flex":
            with torch.no_grad():
                runs, out = model.attention.runs_on(tokens, model.position), model(tokens)
            assert relative_error(out, found["eager"][0]) < ROUNDING
        else:
            x = tokens.x.clone().requires_grad_()
            runs, out = model.attention.runs_on(tokens, model.position), model(replace(tokens, x=x))
            grads = torch.autograd.grad(out.square().sum(), [x, *model.parameters()], allow_unused=True, materialize_grads=True)
            found[backend] = out, grads
        assert runs == backend or model.attention.why_not(backend, AttentionContext(model.position, tokens, tokens))
    plain, grads = found.pop("eager")
    largest = max(g.norm() for g in grads)
    for out, others in found.values():
        assert relative_error(out, plain) < ROUNDING
        assert all((a - b).norm() < 1e-11 * largest for a, b in zip(others, grads, strict=True))


@pytest.mark.quick
@kinds
def test_whoever_watches_sees_the_same_numbers(kind):
    model, tokens = attend(kind, NoPosition(), Causal(), "auto")
    program = recorded(model, tokens)
    assert relative_error(replay(program)[program.outputs[0]], model(tokens)) < ROUNDING


@pytest.mark.parametrize("scheme", [NoPosition(), Rope(), T5Bias()], ids=title)
@kinds
def test_the_readable_path_can_be_differentiated_twice(kind, scheme):
    settings = dict(KINDS[kind])
    heads = settings.pop("heads", HEADS)
    model = randomised(Attending(scheme, Causal(), heads, head_width=4, backend="eager", **settings))
    tokens = words(length=3)

    def run(x, *values):
        named = dict(zip(names, values, strict=True))
        return torch.func.functional_call(model, named, (replace(tokens, x=x),))

    names = [
        n for n, _ in model.named_parameters() if n.endswith(("q_proj.weight", "table", "sinks", "query_weight", "q_norm.weight"))
    ]
    given = [
        tokens.x.clone().requires_grad_(),
        *(p.detach().clone().requires_grad_() for n, p in model.named_parameters() if n in names),
    ]
    assert torch.autograd.gradgradcheck(run, given, fast_mode=True)


@pytest.mark.quick
def test_a_look_up_can_be_differentiated_twice_with_a_bias_and_hidden_rows():
    q, k, v = (torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    bias = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    seen = torch.ones(4, 4, dtype=torch.bool).tril(-1)  # the first row is fully masked
    assert torch.autograd.gradcheck(lambda *t: eager_attention(*t, seen), (q, k, v, bias))
    assert torch.autograd.gradgradcheck(lambda *t: eager_attention(*t, seen), (q, k, v, bias))


@each_value(
    pytest.mark.parametrize(
        "scheme", few([s for s in LISTED if s.acts("score_bias") and not s.acts("content_bias")], 4), ids=title
    ),
    pytest.mark.parametrize("causal", [False, True], ids=["everything", "causal"]),
    pytest.mark.parametrize("how", ["even places", "uneven places", "padded", "packed"]),
)
def test_the_gradient_of_a_learned_bias_is_the_same_block_by_block(scheme, causal, how):
    """200 rows: more than a block of the CPU kernel holds, and no multiple of it."""
    n = 200
    x = torch.randn(2, n, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    tokens = Tokens.of(x)
    places = torch.arange(n).double() * (1.5 if how == "uneven places" and scheme.name != "swin" else 1)
    if scheme.axes == 2:  # within a window of 8 x 8 cells
        grid = torch.stack([torch.arange(n) // 8 % 8, torch.arange(n) % 8], -1).double()
        tokens = replace(tokens, positions=grid)
    else:
        tokens = replace(tokens, positions=places[:, None]) if how == "uneven places" else tokens
    if how == "padded":
        tokens = replace(tokens, valid=torch.rand(2, n, generator=torch.Generator().manual_seed(2)) < 0.8)
    if how == "packed":
        tokens = replace(tokens, document=torch.stack([torch.arange(n) // 70, torch.arange(n) // 128]))
    found = []
    for backend in ("eager", "sdpa"):
        model = attending(scheme, Causal() if causal else None, backend=backend)
        assert model.attention.runs_on(tokens, model.position) == backend
        out = model(tokens)
        found.append(
            (out, torch.autograd.grad(out.square().sum(), list(model.parameters()), allow_unused=True, materialize_grads=True))
        )
    (plain, grads), (out, others) = found
    assert relative_error(out, plain) < ROUNDING
    largest = max(g.norm() for g in grads)
    assert all((a - b).norm() < 1e-11 * largest for a, b in zip(others, grads, strict=True))


@pytest.mark.quick
def test_a_width_that_heads_do_not_share_is_refused():
    with pytest.raises(ShapeError, match="Use a divisor of 4"):
        MultiHeadAttention(8, 4, kv_heads=3)


# --- caches -------------------------------------------------------------------------------------------------------------
@pytest.mark.quick
@pairwise(
    kinds,
    pytest.mark.parametrize("scheme", PLACED, ids=title),
    pytest.mark.parametrize("mask", [Causal(), Causal() & Window(3), Causal() & Dilated(2), Causal() & Blocks(4)], ids=repr),
    pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"]),
)
def test_every_causal_kind_decodes_as_the_full_pass(kind, scheme, mask, padded):
    settings = dict(KINDS[kind])
    if scheme.name == "pope" and kind in OWN_SIZE:
        pytest.skip("PoPE widens queries beyond this score's weights")
    model = attending(scheme, mask, heads=settings.pop("heads", HEADS), **settings)
    tokens = placed(scheme, words(batch=(3,)))
    tokens = replace(tokens, valid=VALID[[0, 2, 2]]) if padded else tokens  # padding on the left
    cache, found = model.attention.cache(), []
    for i in range(6):
        part = slice(i, i + 1)
        valid = None if tokens.valid is None else tokens.valid[:, part]
        token = Tokens(x=tokens.x[:, part], positions=tokens.positions[:, part], order=tokens.order[:, part], valid=valid)
        token = replace(token, x=model.position.embed(token.x, token.positions))
        found.append(model.attention(token, model.position, cache=cache))
    assert relative_error(torch.cat(found, 1), model(tokens)) < ROUNDING


@pytest.mark.quick
@pytest.mark.parametrize("kind", OWN_SIZE)
def test_a_score_of_another_width_is_refused(kind):
    with pytest.raises(ShapeError, match=r"has weights for queries of 4 channels, but they have 8.*goes with ScaledDot"):
        attending(Pope(), **KINDS[kind])(words())


# --- some rows at a time --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["plain", "grouped", "additive", "sink"])
@pytest.mark.parametrize("scheme", [Rope(), T5Bias(), Shaw(), Cope()], ids=title)
def test_three_chunks_are_what_one_is(scheme, kind):
    settings, tokens, found = dict(KINDS[kind]), words(length=600), []
    heads = settings.pop("heads", HEADS)
    for backend in ("eager", "chunked"):
        model = attending(scheme, Causal(), heads=heads, backend=backend, **settings)
        z = model(tokens)
        gradients = torch.autograd.grad(z.square().sum(), list(model.parameters()), allow_unused=True, materialize_grads=True)
        found.append([z, *gradients])
    largest = max(g.norm() for g in found[0])
    assert all((a - b).norm() < ROUNDING * largest for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("scheme", [NoPosition(), Alibi(), T5Bias(), Cope()], ids=title)
@pytest.mark.parametrize("backend", ["chunked", "sdpa"])
def test_what_is_kept_for_the_gradient_grows_with_n(scheme, backend):
    if scheme.name == "cope" and backend == "sdpa":
        pytest.skip("CoPE reads scores: a table of them is its definition")
    kept = {}
    for n in (512, 1024):
        model, sizes = attending(scheme, Causal(), backend=backend), set()

        def keep(x, sizes=sizes):
            sizes.add((x.untyped_storage().data_ptr(), x.untyped_storage().nbytes()))
            return x

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            model(words(length=n))
        kept[n] = sum(size for _, size in sizes)
    assert kept[1024] < 2.2 * kept[512]
