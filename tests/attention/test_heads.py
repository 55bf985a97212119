"""Multi-head attention: equal to torch's own, and its two backends equal to each other (A4, A6)."""

from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, LISTED, WIDTH, attending, placed, randomised, title, words
from tests.pairwise import pairwise
from tests.recorded import recorded
from torch import nn

from equiscope.attention import AttentionContext, Causal, Everything, MultiHeadAttention
from equiscope.errors import InputError, ShapeError
from equiscope.positions import Alibi, NoPosition, Shaw
from equiscope.symmetry import relative_error
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

VALID = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [False] * 2 + [True] * 4])


def copied(bias, mask=None, source=None):
    """Ours with random numbers, and torch's with the same."""
    ours = randomised(MultiHeadAttention(WIDTH, HEADS, bias=bias, mask=mask, source_width=source))
    theirs = nn.MultiheadAttention(WIDTH, HEADS, bias=bias, kdim=source, vdim=source, batch_first=True).double()
    parts = [ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight]
    with torch.no_grad():
        if source is None:
            theirs.in_proj_weight.copy_(torch.cat(parts))
        else:
            for name, weight in zip("qkv", parts, strict=True):
                getattr(theirs, f"{name}_proj_weight").copy_(weight)
        theirs.out_proj.weight.copy_(ours.o_proj.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([ours.q_proj.bias, ours.k_proj.bias, ours.v_proj.bias]))
            theirs.out_proj.bias.copy_(ours.o_proj.bias)
    return ours, theirs


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"])
@pytest.mark.parametrize("causal", [False, True], ids=["everything", "causal"])
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
def test_it_equals_torchs_multi_head_attention_on_the_same_weights(bias, causal, padded):
    ours, theirs = copied(bias, Causal() if causal else Everything())
    tokens = words(batch=(3,))
    if padded:
        tokens = replace(tokens, valid=VALID if not causal else VALID[[0, 1, 1]])  # torch gives NaN where a row sees nothing
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1) if causal else None  # torch's boolean means the opposite: True = hidden
    x, empty = tokens.x, ~tokens.valid if padded else None
    wanted = theirs(x, x, x, attn_mask=hidden, key_padding_mask=empty, need_weights=False)[0]
    assert relative_error(ours(tokens), wanted) < 1e-12  # float64: rounding only


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("source_width", [None, 5])
def test_cross_attention_equals_torchs_too(source_width, bias):
    ours, theirs = copied(bias, source=source_width)
    tokens = words(batch=(3,))
    other = Tokens.of(torch.randn(3, 9, source_width or WIDTH, dtype=torch.float64))
    wanted = theirs(tokens.x, other.x, other.x, need_weights=False)[0]
    assert relative_error(ours(tokens, source=other), wanted) < 1e-12


def test_a_cross_attentions_padding_belongs_to_who_answers():
    ours, theirs = copied(bias=True)
    tokens, other = words(batch=(3,)), words(seed=1, batch=(3,))
    wanted = theirs(tokens.x, other.x, other.x, key_padding_mask=~VALID, need_weights=False)[0]
    assert relative_error(ours(tokens, source=replace(other, valid=VALID)), wanted) < 1e-12


backends = pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float64, 1e-12),  # rounding only
        (torch.float32, 1e-5),  # eps 1e-7 times some dozens of operations
        (torch.bfloat16, 3e-2),  # eps 8e-3: eager rounds after every step, the fused kernel once
    ],
    ids=["float64", "float32", "bfloat16"],
)


@pairwise(
    pytest.mark.parametrize("scheme", LISTED, ids=title),
    pytest.mark.parametrize("mask", [Everything(), Causal()], ids=title),
    pytest.mark.parametrize("padded", [False, True], ids=["full", "padded"]),
    pytest.mark.parametrize("value_width", [4, 6]),
    backends,
)
def test_the_fused_kernel_gives_what_the_readable_path_gives(scheme, mask, padded, value_width, dtype, tolerance):
    """Outputs and the gradients of every parameter and of the input."""
    if scheme.acts("value_bias") and value_width != WIDTH // HEADS:
        pytest.skip("what Shaw adds to values is as wide as keys: refused, see below")
    found = {}
    for backend in ("eager", "sdpa", "chunked"):
        model = attending(scheme, mask, backend=backend, value_width=value_width, bias=True).to(dtype)
        tokens = placed(scheme, words(batch=(3,))).to(dtype)
        x = tokens.x.requires_grad_()
        given = replace(tokens, x=x, valid=VALID if padded else None)
        out = model(given)
        runs = model.attention.runs_on(given, model.position)
        assert runs == backend or model.attention.why_not(backend, AttentionContext(model.position, given, given))
        out.double().square().sum().backward()
        found[backend] = [x.grad, *(p.grad for p in model.parameters())], out
    plain, plain_out = found.pop("eager")
    largest = max(g.double().norm() for g in plain)  # the key bias has no influence: its own gradient is rounding alone
    for other, other_out in found.values():
        assert relative_error(other_out, plain_out) < tolerance
        assert all((f - p).double().norm() < tolerance * largest for f, p in zip(other, plain, strict=True))


def test_rows_for_values_of_another_width_are_refused():
    with pytest.raises(ShapeError, match=r"adds rows of 4 numbers to the values, but they have 6. Use a value_width"):
        attending(Shaw(), value_width=6)(words())


def test_auto_takes_the_fused_kernel_unless_somebody_watches():
    attention = MultiHeadAttention(WIDTH, HEADS)
    assert attention.runs_on() == "sdpa"
    assert MultiHeadAttention(WIDTH, HEADS, backend="eager").runs_on() == "eager"
    found = []
    attention.register_forward_hook(lambda module, *_: found.append(module.runs_on()))
    recorded(attention, words().to(torch.float32))
    assert found == ["eager"]
    assert attention.runs_on() == "sdpa"


def test_value_width_and_head_width_are_free():
    attention = MultiHeadAttention(WIDTH, heads=3, head_width=5, value_width=7)
    assert (attention.q_proj.weight.shape, attention.v_proj.weight.shape, attention.o_proj.weight.shape) == (
        (15, 8),
        (21, 8),
        (8, 21),
    )
    assert attention(words().to(torch.float32)).shape == (6, 8)
    assert MultiHeadAttention(WIDTH, heads=2, value_width=7, output=False)(words().to(torch.float32)).shape == (6, 14)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("scheme", LISTED, ids=title)
def test_any_number_of_batch_axes_is_taken_one_list_of_places_for_all(scheme, shape):
    model = attending(scheme, Causal())
    x = torch.randn(*shape, 6, WIDTH, dtype=torch.float64)
    out = model(placed(scheme, Tokens.of(x)))
    assert out.shape == (*x.shape[:-1], model.position.widened(WIDTH))
    alone = model(placed(scheme, Tokens.of(x.flatten(0, -3)[-1] if shape else x)))
    assert relative_error(out.flatten(0, -3)[-1] if shape else out, alone) < 1e-12


@pytest.mark.parametrize("settings", [{"heads": 3}, {"heads": 0}, {"heads": 16}])
def test_heads_that_do_not_divide_the_width_are_refused(settings):
    with pytest.raises(ShapeError, match=r"heads do not divide a width of 8. Give head_width"):
        MultiHeadAttention(8, **settings)


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_backend_names_the_known_ones():
    with pytest.raises(InputError, match='cannot be \'flash\': it should be "auto", "flex", "sdpa", "chunked" or "eager"'):
        MultiHeadAttention(8, backend="flash")


def test_alibi_of_another_size_is_no_silent_broadcast():
    """Slopes belong to heads: a scheme that was sized for fewer heads must not serve more."""
    attention = MultiHeadAttention(8, heads=4)
    with pytest.raises((IndexError, ShapeError)):
        attention(words().to(torch.float32), Alibi().sized(8, 2, 4))
    assert attention(words().to(torch.float32), NoPosition()).shape == (6, 8)
