"""Built models are ordinary modules: they take what they should, refuse the rest, train, compile and can be saved."""

import copy
import io
from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, LISTED, WIDTH, placed, randomised, title, words
from tests.pairwise import each_value
from tests.recorded import recorded

import equiscope as eq
from equiscope.errors import InputError, ShapeError
from equiscope.models import READOUTS, Attention, Block, FeedForward, Norm, Spec, build
from equiscope.positions import Fire, Kerple, Learned, Rope, T5Bias
from equiscope.program.replay import replay
from equiscope.symmetry import relative_error

VALID = torch.tensor([True, True, True, True, False, False])


def spec(position=None, readout="each", **settings):
    attention = eq.Attention(heads=HEADS, position=position or Learned(9))
    return eq.Spec(width=WIDTH, layers=2, block=eq.Block(attention=attention), readout=readout, **settings)


def at_home(scheme, x):
    """The features at places that the scheme reads."""
    return placed(scheme, eq.Tokens.of(x))


@pytest.mark.quick
@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("scheme", LISTED, ids=title)
def test_every_scheme_with_every_read_out_has_the_shape_that_it_says(scheme, readout):
    made = eq.build(spec(scheme, readout))
    width = made.position.widened(WIDTH)
    shape = {"each": (3, 6, width), "concatenation": (3, 6 * width)}.get(readout, (3, width))
    assert made(at_home(scheme, torch.randn(3, 6, WIDTH))).shape == shape


@each_value(
    pytest.mark.parametrize("readout", ["mean", "class", "first"]),
    pytest.mark.parametrize("scheme", LISTED, ids=title),
)
def test_padding_does_not_reach_a_read_out(scheme, readout):
    made, tokens = randomised(eq.build(spec(scheme, readout))), placed(scheme, words())
    padded = replace(tokens, valid=VALID)
    shorter = type(tokens)(x=tokens.x[:4], positions=tokens.positions[:4], order=tokens.order[:4])
    if readout == "class":  # it stands behind the last place, padding or not: give the padding the places of words
        first = tokens.positions[:4].amax(0) if tokens.positions.shape[-1] > 1 else 3
        padded = replace(
            padded,
            positions=torch.minimum(tokens.positions, torch.as_tensor(first).to(tokens.positions)),
            order=tokens.order.clamp(max=3),
        )
    assert relative_error(made(padded), made(shorter)) < 1e-12  # float64: rounding only


def test_padding_on_the_left_keeps_the_last_row():
    made, tokens = randomised(eq.build(spec(readout="last"))), words()
    shorter = type(tokens)(x=tokens.x[2:], positions=tokens.positions[2:], order=tokens.order[2:])
    assert relative_error(made(replace(tokens, valid=VALID.flip(0))), made(shorter)) < 1e-12


def test_a_mean_over_nothing_is_nothing():
    out = eq.build(spec(readout="mean")).double()(replace(words(), valid=torch.zeros(6, dtype=torch.bool)))
    assert (out == 0).all()


@pytest.mark.parametrize("scheme", [eq.positions.Sinusoidal(), Learned(9), eq.positions.Concatenated()], ids=title)
def test_places_are_added_once_however_layers_split_their_heads(scheme):
    several = tuple(Block(Attention(heads=heads, position=scheme)) for heads in (4, 2, 1))
    made = eq.build(Spec(WIDTH, layers=3, block=several))
    one = eq.build(Spec(WIDTH, layers=3, block=several[0]))
    one.position.load_state_dict(made.position.state_dict())
    x = eq.Tokens.of(torch.randn(6, WIDTH))
    assert len(made.schemes) == 1
    assert torch.equal(made.embed(x).x, one.embed(x).x)


class Adding(Learned):
    """Adds positions to the tokens, and also rotates queries and keys."""

    def rotate(self, x, at, role):
        return x


def test_what_is_added_and_acts_in_the_layers_too_is_not_added_twice():
    def layered(*schemes):
        return Spec(WIDTH, layers=len(schemes), block=tuple(Block(Attention(heads=h, position=s)) for h, s in schemes))

    assert len(eq.build(layered((2, Adding(9)), (2, Adding(9)))).schemes) == 1
    assert len(eq.build(layered((2, Adding(9)), (4, Adding(8)))).schemes) == 2
    with pytest.raises(InputError, match="Adding adds to the tokens and acts in the layers, so with different heads"):
        eq.build(layered((2, Adding(9)), (4, Adding(9))))


def test_ids_are_looked_up_and_the_head_answers():
    made = eq.build(spec(vocabulary=20, outputs=5))
    ids = torch.randint(20, (3, 6))
    assert made(ids).shape == (3, 6, 5)
    assert relative_error(made(ids), made(eq.Tokens.of(made.embedding(ids)))) == 0


@pytest.mark.parametrize(
    ("settings", "given", "error", "words_"),
    [
        ({"vocabulary": 20}, torch.randn(6, WIDTH), InputError, r"takes ids \(integers\), but got torch.float32"),
        ({"vocabulary": 20}, torch.tensor([True, False]), InputError, r"Ids are whole numbers, but got torch.bool"),
        ({"vocabulary": 20}, torch.tensor([3, 20]), InputError, r"ids 0..19, but got 3..20"),
        ({"vocabulary": 20}, torch.tensor([-1, 2]), InputError, r"ids 0..19, but got -1..2"),
        ({}, torch.randn(6, WIDTH + 1), ShapeError, "8 wide, but the tokens have 9 features"),
        ({}, torch.randn(WIDTH), ShapeError, "one row a token"),
        ({}, torch.randn(10, WIDTH), InputError, r"Learned knows positions 0..8, but got 9"),
    ],
)
def test_what_a_model_cannot_take_is_said(settings, given, error, words_):
    with pytest.raises(error, match=words_):
        eq.build(spec(**settings))(given)


@each_value(pytest.mark.parametrize("readout", READOUTS), pytest.mark.parametrize("scheme", LISTED, ids=title))
def test_every_parameter_learns(scheme, readout):
    made = eq.build(spec(scheme, readout))
    made(at_home(scheme, torch.randn(2, 6, WIDTH))).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in made.parameters())


@pytest.mark.parametrize("scheme", LISTED, ids=title)
def test_a_model_can_be_copied_saved_and_loaded(scheme):
    one, other, x = eq.build(spec(scheme)), eq.build(spec(scheme)), at_home(scheme, torch.randn(6, WIDTH))
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    assert len(list(one.parameters())) == 0 or not torch.equal(one(x), other(x))
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(one(x), other(x))
    assert torch.equal(copy.deepcopy(one)(x), one(x))


@each_value(
    pytest.mark.parametrize("scheme", LISTED, ids=title),
    pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str),
)
def test_a_model_answers_in_its_own_precision(scheme, dtype):
    made = randomised(eq.build(spec(scheme)))
    x = at_home(scheme, torch.randn(6, WIDTH, dtype=torch.float64))
    wanted, out = made(x), copy.deepcopy(made).to(dtype)(x.to(dtype))
    assert out.dtype == dtype
    # two layers with norms; bfloat16 has 8 bits
    assert relative_error(out, wanted) < {torch.float64: 1e-15, torch.float32: 1e-5, torch.bfloat16: 0.1}[dtype]


def test_two_builds_of_one_seed_are_equal():
    torch.manual_seed(4)
    one = eq.build(spec())
    torch.manual_seed(4)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), eq.build(spec()).parameters(), strict=True))


def thorough(value):
    return pytest.param(value, marks=pytest.mark.thorough)


@pytest.fixture
def compiler():
    """A compiler that has seen nothing: torch stops after eight variants of one forward, and these tests have more."""
    torch.compiler.reset()


@pytest.mark.compile
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("scheme", [s if i % 20 == 0 else thorough(s) for i, s in enumerate(LISTED)], ids=title)
def test_a_model_is_captured_as_one_graph_and_gives_the_same(scheme):
    """The "eager" backend runs the captured graph as it is: what may fail is the capture, and that is quick."""
    made, x = eq.build(spec(scheme)), at_home(scheme, torch.randn(2, 6, WIDTH))
    before = made(x)
    compiled = torch.compile(made, fullgraph=True, backend="eager")(x)
    assert relative_error(compiled, before) < 1e-5  # float32: a compiler is given plain formulas, fast paths do without it
    eq.watch(made, x)
    assert torch.equal(torch.compile(made, fullgraph=True, backend="eager")(x), compiled)


@pytest.mark.compile
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("readout", [r if r in ("each", "class") else thorough(r) for r in READOUTS])
def test_every_read_out_is_captured_with_padding(readout):
    made, tokens = eq.build(spec(readout=readout)), words(batch=(2,)).to(torch.float32)
    if readout != "concatenation":  # which refuses padding
        tokens = replace(tokens, valid=VALID.expand(2, 6))
    assert relative_error(torch.compile(made, fullgraph=True, backend="eager")(tokens), made(tokens)) < 1e-5


@pytest.mark.compile
@pytest.mark.thorough  # tests/training/test_engine.py compiles a step
@pytest.mark.usefixtures("compiler")
def test_the_default_compiler_gives_the_same_with_and_without_watching_afterwards():
    made, x = eq.build(replace(spec(Rope()), layers=1)), torch.randn(2, 6, WIDTH)  # C++ is compiled for each layer
    compiled = torch.compile(made, fullgraph=True)
    assert relative_error(compiled(x), made(x)) < 1e-5  # float32: the operations are fused
    before = recorded(made, x)
    assert relative_error(compiled(x), made(x)) < 1e-5
    assert recorded(made, x) == before


@pytest.mark.parametrize("scheme", [T5Bias(), Fire(length=2.0), Kerple()], ids=title)
def test_a_bias_is_made_once_for_all_layers(scheme, monkeypatch):
    model = build(Spec(8, layers=3, block=Block(Attention(heads=2, position=scheme, causal=True))))
    calls, bias = [], type(scheme).score_bias
    monkeypatch.setattr(type(scheme), "score_bias", lambda self, *places: calls.append(1) or bias(self, *places))
    model(torch.randn(2, 6, 8)).sum().backward()
    assert len(calls) == 1


DECODERS = {
    "tied": Spec(8, vocabulary=11, outputs=11, tied=True, block=Block(Attention(heads=2, position=Rope(), causal=True))),
    "grouped, gated, normed, near": Spec(
        8, layers=2, block=Block(
            Attention(heads=4, kv_heads=2, position=Rope(), causal=True, window=3, bias="qkv", qk_norm="rms"), Norm("rms"),
            FeedForward(activation="silu", gated=True),
        ),
    ),
    "parallel": Spec(8, layers=2, block=Block(Attention(heads=2, position=Rope(), causal=True), parallel=True)),
}  # fmt: skip
decoders = pytest.mark.parametrize("name", DECODERS)


def given(spec, length=6):
    generator = torch.Generator().manual_seed(5)
    if spec.vocabulary:
        return torch.randint(spec.vocabulary, (length,), generator=generator)
    return torch.randn(length, spec.width, generator=generator, dtype=torch.float64)


@decoders
def test_a_decoder_does_not_read_the_future_and_decodes_with_caches(name):
    model = randomised(build(DECODERS[name]))
    x = given(DECODERS[name])
    with torch.no_grad():
        whole = model(x)
        assert relative_error(model(x[:4]), whole[:4]) < 1e-12
        caches = model.caches()
        parts = [model(part, caches) for part in (x[:3], x[3:4], x[4:])]
        assert relative_error(torch.cat(parts), whole) < 1e-12


@decoders
def test_whoever_watches_a_decoder_sees_the_same_numbers(name):
    model = randomised(build(DECODERS[name]))
    x = given(DECODERS[name])
    tokens = model.tokens(x) if DECODERS[name].vocabulary else eq.Tokens.of(x)
    program = recorded(model, tokens)
    assert relative_error(replay(program)[program.outputs[0]], model(x)) < 1e-12


@decoders
def test_a_spec_of_a_decoder_survives_a_file(name):
    assert Spec.of(DECODERS[name].to_dict()) == DECODERS[name]


def test_a_gate_multiplies_what_it_lets_through():
    model = randomised(build(Spec(8, block=Block(norm=None, feedforward=FeedForward(activation="silu", bias=False, gated=True)))))
    part, x = model.blocks[0].feedforward, torch.randn(3, 8, dtype=torch.float64)
    wanted = part.down_proj(torch.nn.functional.silu(part.gate_proj(x)) * part.up_proj(x))
    assert relative_error(part(x), wanted) < 1e-14


def test_parts_that_cannot_stand_together_are_refused():
    with pytest.raises(InputError, match="as many outputs as the vocabulary, 11, but got outputs=5"):
        Spec(8, vocabulary=11, outputs=5, tied=True)
    with pytest.raises(InputError, match="no norm can stand between them"):
        Spec(8, block=Block(norm=Norm(order="post"), parallel=True))
    with pytest.raises(ShapeError, match="3 key heads cannot serve 4 query heads"):
        build(Spec(8, block=Block(Attention(heads=4, kv_heads=3))))


def test_the_last_rows_alone_are_answered_as_among_all():
    model = build(Spec(8, vocabulary=10, outputs=10, block=Block(Attention(causal=True))))
    assert torch.equal(model(torch.arange(6), rows=2), model(torch.arange(6))[-2:])


def test_words_and_a_picture_are_one_sequence():
    torch.manual_seed(0)
    attention = eq.Attention(heads=2, position=eq.positions.AxialRope(axes=2), causal=True)
    input_layer = eq.InputLayer(features=3 * 4, patch=(2, 2))
    spec = eq.Spec(16, vocabulary=20, input=input_layer, layers=2, block=eq.Block(attention), outputs=20)
    model = eq.build(spec).double()
    words, picture = torch.randint(20, (5,)), torch.rand(3, 4, 6, dtype=torch.float64)
    seen = eq.tokens.share_rank(model.tokens(picture))  # a picture sees all of itself
    parts = [model.tokens(words[:2]), seen, model.tokens(words[2:])]
    joined = eq.tokens.join(parts, eq.tokens.consecutive_positions)
    answer = model(joined)
    assert answer.shape == (5 + 6, 20)
    changed = picture.clone()
    changed[:, 3, 5] += 1  # in the last patch
    parts[1] = eq.tokens.share_rank(model.tokens(changed))
    moved = (model(eq.tokens.join(parts, eq.tokens.consecutive_positions)) - answer).abs().amax(-1) > 1e-9
    assert moved.tolist() == [False, False] + [True] * 9  # not the words before it, but all of the picture, and what follows


@pytest.mark.parametrize("block", [{}, {"parallel": True}, {"norm": Norm("rms", "post")}])
def test_every_weight_of_a_model_without_feedforward_is_used(block):
    made = eq.build(Spec(WIDTH, layers=2, vocabulary=9, outputs=9, block=Block(Attention(heads=2), feedforward=None, **block)))
    made(torch.arange(4)).square().sum().backward()
    assert [name for name, p in made.named_parameters() if p.grad is None] == []


def test_cells_numbered_in_one_line_are_read_by_schemes_of_one_axis():
    torch.manual_seed(0)
    attention = eq.Attention(heads=2, position=eq.positions.Rope())
    cells = {"features": 4, "patch": (2, 2)}
    spec = eq.Spec(16, input=eq.InputLayer(**cells, positions="index"), block=eq.Block(attention), readout="mean")
    model, picture = eq.build(spec).double(), torch.rand(1, 4, 6, dtype=torch.float64)
    tokens = model.tokens(picture)
    assert tokens.positions.tolist() == [[0], [1], [2], [3], [4], [5]]
    line = eq.Tokens(x=tokens.x, positions=torch.arange(6).double()[:, None], order=torch.arange(6), mapped=True)
    assert torch.equal(model(picture), model(line))
    with pytest.raises(ShapeError, match="Rope reads 1 coordinate a token, but got 2"):
        eq.build(eq.Spec(16, input=eq.InputLayer(**cells), block=eq.Block(attention), readout="mean")).double()(picture)
    with pytest.raises(InputError, match='positions="index" numbers the cells'):
        eq.InputLayer(features=4, positions="index")


def test_each_norm_multiplies_the_gradient_of_a_causal_model_whose_first_token_is_zero():
    """Biases begin at 0, so a first token of zeros stays a zero vector, whose layer norms multiply gradients by 1 / sqrt(eps)."""

    def largest_gradient(causal: bool, readout: str, first: float) -> float:
        torch.manual_seed(0)
        block = Block(Attention(heads=4, bias=True, causal=causal))
        spec = Spec(96, layers=4, input=eq.InputLayer(features=40), readout=readout, outputs=10, block=block)
        model, x = build(spec).double(), torch.randn(1, 12, 40, dtype=torch.float64)
        x[:, 0] *= first
        torch.nn.functional.cross_entropy(model(x), torch.tensor([3])).backward()
        return max(float(p.grad.abs().max()) for p in model.parameters() if p.grad is not None)

    assert largest_gradient(True, "first", 0) > 1e19  # the sum of squares overflows float32
    assert largest_gradient(True, "mean", 0) > 1e18
    assert largest_gradient(False, "first", 0) < 1e3  # the other tokens reach it in the first layer
    assert largest_gradient(True, "first", 1) < 1e3
