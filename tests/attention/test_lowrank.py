"""Linformer and Nystromformer: what they compute, what they break, and how far they are from exact attention (A7)."""

from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, WIDTH, randomised, title, words
from tests.judges import transformers
from tests.recorded import recorded

from equiscope.attention import Causal, Linformer, MultiHeadAttention, Nystrom
from equiscope.errors import InputError, ShapeError
from equiscope.positions import Alibi, NoPosition, Rope, Shaw, Sinusoidal
from equiscope.program.replay import replay
from equiscope.symmetry import Permute, Reverse, Shift, derive, measure, relative_error
from equiscope.tokens import Tokens

pytestmark = pytest.mark.quick

ROUNDING = 1e-12
VALID = torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [False] * 2 + [True] * 4])


def linformer(max_length=9, rank=4, **settings):
    return randomised(Linformer(WIDTH, HEADS, max_length=max_length, rank=rank, **settings))


def nystrom(landmarks=3, **settings):
    return randomised(Nystrom(WIDTH, HEADS, landmarks=landmarks, **settings))


BOTH = [linformer, nystrom]


def alone(tokens, row, start, stop):
    part = slice(start, stop)
    return Tokens(x=tokens.x[row, part], positions=tokens.positions[row, part], order=tokens.order[row, part])


# --- what they compute --------------------------------------------------------------------------------------------------
def test_linformer_is_attention_to_rows_of_mixed_keys():
    attention, tokens = linformer(), words()
    q, k, v = (
        (tokens.x @ w).unflatten(-1, (HEADS, -1)).transpose(0, 1)
        for w in (attention.q_proj.weight.mT, attention.k_proj.weight.mT, attention.v_proj.weight.mT)
    )
    mixed_k, mixed_v = attention.key_map[:, :6] @ k, attention.value_map[:, :6] @ v
    z = (q @ mixed_k.mT / 2).softmax(-1) @ mixed_v
    assert relative_error(attention(tokens), z.transpose(0, 1).flatten(1) @ attention.o_proj.weight.mT) < ROUNDING


@pytest.mark.parametrize("heads", [1, HEADS])
def test_nystrom_equals_hugging_faces_on_the_same_weights(heads):
    config = transformers.NystromformerConfig(
        hidden_size=WIDTH, num_attention_heads=heads, num_landmarks=3, segment_means_seq_len=12,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    theirs = transformers.models.nystromformer.modeling_nystromformer.NystromformerSelfAttention(config).double()
    theirs.conv_kernel_size = None
    theirs.init_option = "exact"  # a norm for each table; the default takes the largest of the whole batch
    ours = randomised(Nystrom(WIDTH, heads, landmarks=3, bias=True, output=False))
    with torch.no_grad():
        for name in ("query", "key", "value"):
            getattr(theirs, name).load_state_dict(getattr(ours, f"{name[0]}_proj").state_dict())
    tokens = words(length=12, batch=(3,))
    assert relative_error(ours(tokens), theirs(tokens.x)[0]) < 1e-6  # their identity matrix is float32
    assert relative_error(ours.float()(tokens.to(torch.float32)), theirs.float()(tokens.x.float())[0]) < 1e-4


def test_the_iteration_finds_the_pseudo_inverse():
    a = torch.randn(3, 5, 5, dtype=torch.float64).softmax(-1)
    a[2, 3:] = 0  # a table with empty rows has a pseudo-inverse too
    a[2, :, 3:] = 0
    found = nystrom(iterations=30).pseudo_inverse(a)
    assert relative_error(found, torch.linalg.pinv(a)) < 1e-9


def test_as_many_landmarks_as_words_make_nystrom_exact():
    attention, tokens = nystrom(landmarks=6, iterations=40), words()
    assert attention.approximation_error(tokens, Rope()) < 1e-8  # the pseudo-inverse of a table of weights, badly conditioned
    exact = MultiHeadAttention(WIDTH, HEADS).double()
    exact.load_state_dict(attention.state_dict())
    assert relative_error(attention(tokens, Rope()), exact(tokens, Rope())) < 1e-8


def test_more_landmarks_make_a_smaller_error():
    tokens = words(length=32)
    errors = [nystrom(landmarks=r).approximation_error(tokens) for r in (2, 8, 31)]
    assert errors == sorted(errors, reverse=True)
    assert 0.01 < errors[-1] < errors[0] < 1
    assert nystrom(landmarks=8, iterations=40).approximation_error(tokens) > errors[1]  # small singular values, magnified
    assert 0.1 < linformer(max_length=32, rank=8).approximation_error(tokens) < 10  # random maps, which nobody trained


@pytest.mark.parametrize("make", BOTH)
def test_whoever_watches_sees_the_same_numbers(make):
    for tokens in (words(), words(batch=(3,)), replace(words(batch=(3,)), valid=VALID)):
        program = recorded(make(), tokens)
        assert relative_error(replay(program)[program.outputs[0]], make()(tokens)) < ROUNDING


# --- padding and other sequences ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", BOTH)
def test_padding_has_no_influence(make):
    attention, tokens = make(), replace(words(batch=(3,)), valid=VALID)
    other = replace(tokens, x=torch.where(VALID[..., None], tokens.x, tokens.x + 5))
    assert torch.equal(attention(tokens)[VALID], attention(other)[VALID])
    for row, start, stop in ((0, 0, 6), (1, 0, 4), (2, 2, 6)):
        wanted = attention(alone(tokens, row, start, stop))
        assert relative_error(attention(tokens)[row, start:stop], wanted) < 1e-10


def test_landmarks_without_a_word_are_none():
    attention, tokens = nystrom(landmarks=5, iterations=30), replace(words(batch=(3,)), valid=VALID)
    assert relative_error(attention(tokens)[2, 2:], attention(alone(tokens, 2, 2, 6))) < 1e-8  # four words, five landmarks
    assert (nystrom()(replace(tokens, valid=VALID & False)) == 0).all()


@pytest.mark.parametrize("make", BOTH)
def test_another_sequence_may_answer(make):
    tokens, other = words(batch=(2,)), words(seed=1, length=9, batch=(2,))
    assert make()(tokens, source=other).shape == (2, 6, WIDTH)


@pytest.mark.parametrize("length", [0, 1])
@pytest.mark.parametrize("make", BOTH)
def test_no_token_and_one_get_an_answer(make, length):
    for batch in ((), (2,), (0,)):
        out = make()(words(length=length, batch=batch))
        assert out.shape == (*batch, length, WIDTH)
        assert out.isfinite().all()


# --- what they break ----------------------------------------------------------------------------------------------------
def test_linformer_breaks_permutation_and_shift_and_says_so():
    attention, tokens = linformer(max_length=1100), words()
    assert attention.preserves == frozenset()
    assert not any(claim.holds for claim in derive(attention))
    for action in (Permute((1, 0, 2, 3, 4, 5)), Shift(3), Reverse()):
        assert measure(attention, tokens, action).error > 0.01


def test_nystrom_breaks_permutation_and_says_so():
    attention, tokens = nystrom(), words()
    assert attention.preserves == {Shift, Reverse}
    assert measure(attention, tokens, Permute((5, 1, 2, 3, 4, 0))).error > 0.01
    for action in (Shift(3), Reverse()):
        assert measure(attention, tokens, action).error < ROUNDING


# --- what they refuse ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", BOTH)
def test_what_cannot_be_is_refused_with_a_reason(make):
    with pytest.raises(InputError, match=r"combines all keys before a query is known.*the mask is 'causal'"):
        make(mask=Causal())
    with pytest.raises(InputError, match="needs a causal mask"):
        make().cache()
    with pytest.raises(InputError, match="computes no weights"):
        make().attend(words())
    with pytest.raises(InputError, match="would combine texts of one row"):
        make()(replace(words(), document=torch.tensor([0, 0, 0, 1, 1, 1])))


@pytest.mark.parametrize("scheme", [Alibi(), Shaw()], ids=title)
@pytest.mark.parametrize("make", BOTH)
def test_a_scheme_that_speaks_of_pairs_is_refused(make, scheme):
    with pytest.raises(InputError, match=r"combines the keys before they meet a query. Use a scheme that embeds"):
        make()(words(), scheme.sized(WIDTH, HEADS, 4))


def test_linformer_refuses_a_rotation_and_longer_texts():
    with pytest.raises(InputError, match=r"rope acts on one query and one key.*such as Sinusoidal"):
        linformer()(words(), Rope())
    with pytest.raises(InputError, match=r"ranks 0..3, but got 0..5. Use max_length=6 or more"):
        linformer(max_length=4)(words())
    assert linformer()(words(), Sinusoidal()).shape == (6, WIDTH)
    assert linformer()(words(), NoPosition()).shape == (6, WIDTH)


@pytest.mark.parametrize(
    "make", [lambda: Linformer(8, rank=0), lambda: Linformer(8, max_length=0), lambda: Nystrom(8, landmarks=0)]
)
def test_sizes_of_nothing_are_refused(make):
    with pytest.raises(ShapeError, match="but got"):
        make()


@pytest.mark.parametrize(("n", "m"), [(3, 5), (5, 3), (9, 4), (0, 4)])
@pytest.mark.parametrize("padded", [False, True])
def test_landmarks_of_queries_and_keys_may_be_of_another_number(n, m, padded):
    """As many landmarks as rows on both sides: A_1 A_2^+ A_3 = A A^+ A = A."""
    attention = randomised(Nystrom(WIDTH, HEADS, landmarks=9, iterations=60))
    exact = randomised(MultiHeadAttention(WIDTH, HEADS))
    source = words(1, length=m)
    if padded:
        source = replace(source, valid=torch.arange(m) < m - 1)
    assert torch.allclose(attention(words(length=n), source=source), exact(words(length=n), source=source), atol=1e-6)
