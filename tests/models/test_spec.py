"""A spec is data: it survives a file, and says what does not fit."""

import json

import pytest
import torch
from tests.drawn import VARIED, title

import equiscope as eq
from equiscope.attention import Documents
from equiscope.errors import EquiscopeError, InputError, ShapeError, UnknownName, WrongValue
from equiscope.models import PRESETS, READOUTS, tiny
from equiscope.positions import T5Bias

pytestmark = pytest.mark.quick

FULL = eq.Spec(
    width=8, vocabulary=20, layers=3, readout="mean", outputs=4,
    block=eq.Block(
        attention=eq.Attention(heads=2, head_width=6, value_width=5, causal=True, bias=True, backend="eager"),
        norm=eq.Norm("rms", "post", 1e-6), feedforward=eq.FeedForward(9, "silu", False), residual=False,
    ),
)  # fmt: skip


@pytest.mark.parametrize("scheme", VARIED, ids=title)
def test_a_spec_survives_json_with_every_scheme(scheme, tmp_path):
    for spec in (FULL.with_position(scheme), eq.Spec(width=8).with_position(scheme)):
        file = tmp_path / "spec.json"
        file.write_text(spec.to_json(), encoding="utf-8")
        assert eq.Spec.of(file) == eq.Spec.of(str(file)) == eq.Spec.of(json.loads(spec.to_json())) == spec
        assert hash(eq.Spec.of(file)) == hash(spec)
        assert eq.Spec.of(file).to_json() == spec.to_json()


@pytest.mark.parametrize("readout", READOUTS)
def test_a_spec_survives_json_with_every_read_out(readout):
    spec = eq.Spec(width=4, readout=readout)
    assert eq.Spec.of(spec.to_dict()) == spec


@pytest.mark.parametrize("block", [eq.Block(norm=None), eq.Block(feedforward=None), eq.Block(norm=None, feedforward=None)])
def test_an_absent_part_stays_absent(block):
    spec = eq.Spec(width=4, block=block)
    again = eq.Spec.of(json.loads(spec.to_json()))
    assert again == spec
    assert (again.block.norm, again.block.feedforward) == (block.norm, block.feedforward)


def test_defaults_are_left_out_of_the_file():
    assert eq.Spec(width=8).to_dict() == {"version": 2, "width": 8}
    assert eq.Spec.of({"width": 8}) == eq.Spec(width=8, block=eq.Block())
    assert eq.Spec(width=8) != FULL


WRONG = [
    ({"width": 8, "heigth": 2}, "field of spec called 'heigth'. .*Known: .*width"),
    ({"width": 8, "block": {"atention": {}}}, "field of spec.block called 'atention'. Did you mean attention. Known: attention"),
    (
        {"width": 8, "block": {"attention": {"head": 2}}},
        "field of spec.block.attention called 'head'. Did you mean heads. Known: .*heads",
    ),
    ({"width": 8, "block": {"attention": {"position": "rop"}}}, "position scheme called 'rop'"),
    (
        {"width": 8, "block": {"attention": {"position": {"scheme": "rope", "bass": 2}}}},
        "setting of rope called 'bass'. Did you mean base",
    ),
    ({"width": 8, "block": {"norm": 3}}, "spec.block.norm cannot be 3: it should be an object"),
    ({"width": 8, "readout": "median"}, "read-out called 'median'. .*Known: each, mean"),
    ({"width": 8, "version": 1}, "version 1, but this equiscope reads version 2"),
    ({"width": 0}, "width cannot be 0: Expected `int` >= 1"),
    ({"width": 8, "layers": 0}, "layers cannot be 0: Expected `int` >= 1"),
    ({"width": 8, "readout": "concatenation", "outputs": 3}, "no linear map can follow"),
    ({}, "spec is incomplete"),
    ({"width": "eight"}, "spec.width cannot be 'eight'"),
    ({"width": 8, "layers": 1.5}, "spec.layers cannot be 1.5"),
    ({"width": 8, "block": {"attention": {"heads": "two"}}}, "spec.block.attention.heads cannot be 'two'"),
    ({"width": 8, "block": {"attention": {"causal": "no"}}}, "spec.block.attention.causal cannot be"),
    ({"width": 8, "block": {"attention": {"backend": "flash"}}}, "spec.block.attention.backend cannot be"),
    ({"width": 8, "block": {"feedforward": {"activation": "swish"}}}, "spec.block.feedforward.activation cannot be"),
    ({"width": 8, "block": {"norm": {"kind": "batch"}}}, "spec.block.norm.kind cannot be"),
    ({"width": 8, "block": {"norm": {"order": "middle"}}}, "spec.block.norm.order cannot be"),
    ({"width": 8, "block": {"attention": {"position": {"scheme": "rope", "pairs": "thirds"}}}}, "thirds"),
    ({"width": 8, "block": {"attention": {"position": 7}}}, "a name or an object with its settings, but got 7"),
    (
        {"width": 8, "block": {"attention": {"position": {"scheme": "rope", "base": "big"}}}},
        "rope.base cannot be 'big'",
    ),
    (
        {"width": 8, "block": {"attention": {"position": {"scheme": "learned", "length": 2.5}}}},
        "learned.length cannot be 2.5",
    ),
    (
        {"width": 8, "block": {"attention": {"position": {"scheme": "sinusoidal", "waves": "saw"}}}},
        "sinusoidal.waves cannot be",
    ),
    (
        {"width": 8, "block": {"attention": {"position": {"scheme": "concatenated", "of": 7}}}},
        "concatenated.of cannot be 7",
    ),
    ({"width": 8, "block": {"attention": None}}, "spec.block.attention"),
    ({"width": 8, "block": None}, "spec.block"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("data", "words"), WRONG, ids=[w for _, w in WRONG])
def test_what_does_not_fit_is_named(data, words):
    with pytest.raises(EquiscopeError, match=words):
        eq.build(data)


@pytest.mark.parametrize(("content", "words"), [("{", "is not JSON"), ("[1]", "should hold an object"), ("\udcff", "is not JSON")])
def test_a_file_that_is_no_spec_is_refused(tmp_path, content, words):
    file = tmp_path / "spec.json"
    file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=words):
        eq.Spec.of(file)


@pytest.mark.parametrize("size", [10**18, 10**400])
def test_sizes_that_no_model_has_are_named(size, unchecked):
    with pytest.raises(InputError, match=r"Spec\.width is \d+…?, but should be 2,147,483,647 or less"):
        eq.Spec(size)
    with pytest.raises(InputError, match="A model of these sizes cannot be made"):
        eq.describe(eq.Spec(2**31 - 1, vocabulary=2**31 - 1))
    assert eq.models.OutputLayer(scale=2**40).scale == 2**40  # no size
    with pytest.raises(InputError, match=r"one token or more, but got tokens=2\.5"):
        eq.describe(eq.Spec(8), 2.5)


@pytest.mark.parametrize("eps", [-1e-5, float("nan"), float("inf")])
def test_an_eps_that_is_none_is_named(eps):
    with pytest.raises(InputError, match=r"Norm\.eps"):
        eq.Norm(eps=eps)


@pytest.mark.parametrize("path", ["x" * 5000, "\0"], ids=["long", "zero byte"])
def test_names_that_are_no_paths_are_said(path):
    with pytest.raises(InputError):
        eq.Spec.of(path)


def test_a_missing_file_is_named():
    with pytest.raises(InputError, match=r"no file nowhere\.json"):
        eq.Spec.of("nowhere.json")


def test_sizes_that_do_not_fit_together_are_refused():
    with pytest.raises(ShapeError, match="3 heads do not divide a width of 8"):
        eq.build({"width": 8, "block": {"attention": {"heads": 3}}})
    with pytest.raises(ShapeError, match="Sinusoidal pairs a sine"):
        eq.build({"width": 7, "block": {"attention": {"position": "sinusoidal"}}})
    with pytest.raises(UnknownName, match="Known"):
        eq.build({"width": 8, "nothing": 1})


class Fading(eq.positions.Position):
    """A scheme of one's own: scores fall with the square of the distance."""

    name, title, summary = "test-fading", "fading", ""

    def __init__(self, rate: float = 0.1) -> None:
        super().__init__()
        self.rate = rate

    @property
    def preserves(self):
        return frozenset({eq.symmetry.Shift, eq.symmetry.Reverse})

    def score_bias(self, head, at_q, at_k):
        return -self.rate * (at_q[0] - at_k[0]) ** 2


class Louder(eq.attention.MultiHeadAttention):
    """A kind of attention of one's own."""

    name = "test-louder"

    def forward(self, *args, **kwargs):
        return 2 * super().forward(*args, **kwargs)


def test_a_scheme_and_a_kind_of_ones_own_plug_in_and_survive_json():
    attention = eq.Attention(heads=2, position=Fading(0.3), kind=Louder, causal=True)
    spec = eq.Spec(8, layers=2, block=eq.Block(attention))
    assert spec.to_dict()["block"]["attention"] == {
        "heads": 2, "position": {"scheme": "test-fading", "rate": 0.3}, "causal": True, "kind": "test-louder",
    }  # fmt: skip
    again = eq.Spec.of(json.loads(spec.to_json()))
    assert again == spec
    model = eq.build(again)
    assert isinstance(model.blocks[0].attention, Louder)
    claims = {c.action: c.holds for c in eq.symmetry.derive(model)}
    assert claims == {"permute": False, "shift": True, "reverse": False}
    x = torch.randn(2, 5, 8)
    assert torch.equal(model(eq.Tokens.of(x, 3)), model(eq.Tokens.of(x)))


def test_an_unknown_kind_is_refused_with_the_list():
    with pytest.raises(UnknownName, match=r"kind of attention called 'flash'\. Known: softmax, sink"):
        eq.Attention(kind="flash")


def test_a_kind_says_which_setting_it_has_not():
    with pytest.raises(InputError, match="'linear' has no kv_heads, but got 1"):
        eq.build(eq.Spec(8, block=eq.Block(eq.Attention(heads=2, kind="linear", kv_heads=1))))


CROSSING = eq.Block(cross=eq.Attention(heads=2))
PAIR = eq.Spec(8, 20, block=CROSSING, encoder=eq.Spec(8, 20), shared=True)
TURNS = eq.Spec(8, layers=4, block=(eq.Block(), eq.Block(eq.Attention(window=3))))
CUT = eq.Spec(
    8, input=eq.InputLayer(features=12, patch=(2, 2), registers=1), readout="class", outputs=3, output=eq.OutputLayer(bias=True)
)


@pytest.mark.parametrize("spec", [PAIR, TURNS, CUT], ids=["encoder", "layers that differ", "patches"])
def test_encoders_layers_that_differ_and_patches_survive_json(spec):
    assert eq.Spec.of(json.loads(spec.to_json())) == spec
    assert eq.Spec.of(json.loads(spec.to_json())).to_json() == spec.to_json()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: eq.Spec(8, layers=3, block=(eq.Block(), eq.Block())), "2 blocks do not repeat evenly in 3 layers"),
        (lambda: eq.Spec(8, block=eq.Block(cross=eq.Attention())), "need an encoder"),
        (lambda: eq.Spec(8, encoder=eq.Spec(8)), r"needs cross=Attention"),
        (lambda: eq.Spec(8, 20, block=CROSSING, encoder=eq.Spec(6, 20), shared=True), "A shared table has one size"),
        (lambda: eq.Spec(8, block=CROSSING, encoder=eq.Spec(8, readout="mean")), "An encoder gives all its rows"),
        (lambda: eq.Block(cross=eq.Attention(causal=True)), "attends to all encoder tokens"),
        (lambda: eq.Block(cross=eq.Attention(), parallel=True), "parallel sublayers do not allow"),
        (lambda: eq.InputLayer(features=10, patch=(4, 4)), "features = channels x 16, but got features=10"),
        (lambda: eq.Spec(8, input=eq.InputLayer(registers=1)), "Registers stand beside a class token"),
        (lambda: eq.Spec(8, output=eq.OutputLayer(bias=True)), "outputs is None"),
        (lambda: eq.Spec(8, 20, input=eq.InputLayer(features=8)), "could not be distinguished"),
        (lambda: eq.Spec(8, input=eq.InputLayer(features=9, map=False)), "9 of them are more than the width, 8"),
        (lambda: eq.InputLayer(map=False), "give features, and no stem"),
        (lambda: eq.InputLayer(features=4, patch=(2,), stem=(1, 4), map=False), "give features, and no stem"),
        (lambda: eq.build(CUT)(torch.randn(3, 5, 4)), "A picture of 5×4 pixels is not a whole number of 2×2 patches"),
        (lambda: eq.build(CUT)(torch.randn(1, 4, 4)), "2×2 samples of 3 channels"),
        (lambda: eq.build(PAIR)(torch.tensor([1, 2])), "give its input as source="),
        (lambda: eq.build(eq.Spec(8, 20)).encode(torch.tensor([1])), "no encoder"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_said(make, words):
    with pytest.raises(EquiscopeError, match=words):
        make()


def test_the_layers_of_a_turn_share_one_scheme_and_its_parameters():
    spec = eq.Spec(8, layers=4, block=(eq.Block(eq.Attention(position=T5Bias())), eq.Block()))
    model = eq.build(spec)
    assert [type(s).__name__ for s in model.schemes] == ["T5Bias", "NoPosition"]
    assert sum("table" in name for name, _ in model.named_parameters()) == 1


def test_patches_are_a_convolution_whose_stride_is_its_size():
    image, model = torch.randn(2, 3, 6, 4, dtype=torch.float64), eq.build(CUT).double()
    kernel = model.input_layer.proj.weight.unflatten(1, (3, 2, 2))
    wanted = torch.nn.functional.conv2d(image, kernel, model.input_layer.proj.bias, stride=2).flatten(2).mT
    assert torch.allclose(model.tokens(image).x, wanted, atol=1e-14)
    assert model.tokens(image).positions.tolist() == [[r, c] for r in range(3) for c in range(2)]


def test_a_patch_as_large_as_the_width_is_mapped_once():
    """ViT-B: 3 x 16 x 16 numbers a patch, 768 features."""
    model = eq.build(eq.Spec(12, input=eq.InputLayer(features=12, patch=(2, 2)), readout="mean")).eval()
    picture = torch.randn(3, 4, 4)
    assert torch.equal(model(model.tokens(picture)), model(picture))
    pair = eq.Spec(8, 10, block=CROSSING, encoder=eq.Spec(12, input=eq.InputLayer(features=12, patch=(2, 2))))
    both = eq.build(pair).eval()
    assert torch.equal(both.encode(picture).tokens.x, both.encoder(picture))


def test_a_cross_of_all_defaults_survives_json():
    spec = eq.Spec(8, 10, block=eq.Block(cross=eq.Attention()), encoder=eq.Spec(8))
    assert eq.Spec.of(json.loads(spec.to_json())) == spec
    assert eq.Spec.of(json.loads(spec.to_json())).encoder is not None


def test_one_block_that_takes_turns_with_itself_is_one_block():
    assert eq.Spec(8, layers=2, block=(eq.Block(),)) == eq.Spec(8, layers=2)


@pytest.mark.parametrize("name", PRESETS)
def test_an_explicit_spec_says_the_sizes_that_are_built_without_it(name):
    """The same parameters under the same names, of a block a layer; nothing is left to say a second time."""
    spec = tiny(PRESETS[name]())
    made = spec.explicit
    assert len(made.cycle) in (1, spec.layers)
    assert made.explicit == made
    sizes = [{key: tuple(p.shape) for key, p in eq.build(one).state_dict().items()} for one in (spec, made)]
    assert sizes[0] == sizes[1]
    a = made.blocks[0].attention
    assert None not in (a.head_width, a.value_width, a.kv_heads, made.blocks[0].feedforward.inner)


def test_a_small_spec_reads_one_document():
    """Its vocabulary has no room for the ids of a separator."""
    block = eq.Block(eq.Attention(heads=2, causal=True, mask=Documents()))
    small = tiny(eq.Spec(64, 300, eq.InputLayer(separator=(299,)), 4, block, outputs=300))
    assert (small.input.separator, small.needs_documents) == (None, False)


def test_a_kind_of_ones_own_is_the_class_that_was_given():
    class Again(eq.attention.MultiHeadAttention):
        name = "test-louder"

    assert isinstance(eq.build(eq.Spec(8, block=eq.Block(eq.Attention(heads=2, kind=Again)))).blocks[0].attention, Again)

    class Nameless(Louder):
        pass

    class Shadow(eq.attention.MultiHeadAttention):
        name = "softmax"

    for kind in (Nameless, Shadow):
        with pytest.raises(InputError, match="needs a `name` of its own"):
            eq.Attention(kind=kind)


class Passing(eq.attention.MultiHeadAttention):
    """A kind that hands everything on."""

    name = "test-passing"

    def __init__(self, width, **settings):
        super().__init__(width, **settings)


def test_a_kind_may_hand_its_settings_on():
    model = eq.build(eq.Spec(8, block=eq.Block(eq.Attention(heads=2, kind=Passing, bias=True, kv_heads=1))))
    assert model.blocks[0].attention.kv_heads == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: eq.Attention(position="roppe"), lambda: eq.Block(norm="rms"), lambda: eq.Block(attention=None),
        lambda: eq.Block(feedforward={"inner": 3}), lambda: eq.Spec(8, block={"residual": False}), lambda: eq.Spec(8, block="x"),
        lambda: eq.Spec(8, encoder={}), lambda: eq.Spec(8, input={}), lambda: eq.Spec.of(3),
        lambda: eq.Spec(8, input=eq.InputLayer(norm=True), block=eq.Block(norm=None)),
        lambda: eq.Block(cross=eq.Attention(kind="linear")),
        lambda: eq.Attention(heads=2, kind="differential", position=eq.positions.Shaw()),
        lambda: eq.build(eq.Spec(8, layers=2, block=(eq.Block(), eq.Block(eq.Attention(position=eq.positions.Concatenated()))))),
        lambda: eq.build(eq.Spec(8, 10))([[1, 2]]),
        lambda: eq.build(eq.Spec(8, 10))(torch.tensor([1, 2]), caches=[]),
        lambda: eq.build(eq.Spec(8, 10))(torch.tensor([1, 2]), rows=0),
        lambda: eq.build(CUT)(torch.zeros(3, 4, 4, dtype=torch.uint8)),
        lambda: eq.build(eq.Spec(8, 10, eq.InputLayer(types=2))).tokens(torch.tensor([1, 2]), types=torch.tensor([0, -1])),
        lambda: eq.build(eq.Spec(8, 10, eq.InputLayer(types=2))).tokens(torch.tensor([1, 2]), types=torch.tensor([0])),
        lambda: eq.describe(eq.Spec(8), 0),
    ],
)  # fmt: skip
def test_parts_and_calls_that_are_none_are_refused_in_a_sentence(make, unchecked):
    with pytest.raises(EquiscopeError, match=r"\.$"):
        make()


def test_names_are_taken_wherever_objects_are():
    by_name = eq.Attention(position="rope", mask={"kind": "blocks", "size": 8}, score="dot", kind={"kind": "linformer", "rank": 4})
    assert isinstance(by_name.position, eq.positions.Rope)
    assert (by_name.mask.name, by_name.mask.settings) == ("blocks", {"size": 8})
    assert by_name.score.name == "dot"
    assert by_name.kind == eq.attention.AttentionKind("linformer", rank=4)
    with pytest.raises(EquiscopeError, match="rope"):
        eq.Attention(position="roppe")


def test_what_moves_along_is_the_target_not_the_source():
    """Claims are about tokens of the decoder: its encoder's places stay, and a scheme between both notices."""

    def claims(cross, encoder, own=None):
        block = eq.Block(
            eq.Attention(heads=2, position=own or eq.positions.Rope(), causal=True), cross=eq.Attention(heads=2, position=cross)
        )
        spec = eq.Spec(8, 10, block=block, encoder=eq.Spec(8, 10, block=eq.Block(eq.Attention(heads=2, position=encoder))))
        return {c.action: c.holds for c in eq.symmetry.derive(eq.build(spec))}

    nowhere = eq.positions.NoPosition()
    assert claims(nowhere, eq.positions.Learned())["shift"]
    assert not claims(eq.positions.Rope(), nowhere)["shift"]
    assert not claims(eq.positions.T5Bias(), nowhere)["shift"]


def test_raw_numbers_are_taken_as_they_are_beside_zeros():
    spec = eq.Spec(8, input=eq.InputLayer(features=5, map=False), readout="mean", outputs=2)
    assert eq.Spec.of(spec.to_dict()) == spec
    model, x = eq.build(spec), torch.randn(2, 3, 5)
    assert torch.equal(model.tokens(x).x, torch.cat([x, torch.zeros(2, 3, 3)], -1))
    assert not any(name.startswith("input_layer") for name, _ in model.named_parameters())
    part = next(part for part in eq.describe(spec, 3).parts if part.name == "input_layer")
    assert (part.parameters, part.multiply_adds, part.what) == (0, 0, "5 numbers a token, as they are")
    wide = eq.build(eq.Spec(5, input=eq.InputLayer(features=5, map=False)))
    assert torch.equal(wide.tokens(x).x, x)
    picture = eq.build(eq.Spec(8, input=eq.InputLayer(features=4, map=False, patch=(2, 2))))
    assert torch.equal(picture.tokens(torch.ones(1, 4, 4)).x[:, :4], torch.ones(4, 4))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block.attention", []),
        ("block.attention.heads", "two"),
        ("block.feedforward", 3),
        ("block", [{"attention": {"heads": 1}}, {"norm": "rms"}]),
        ("input", [4, 4]),
        ("output", "linear"),
        ("encoder.block", 7),
        ("readout", ["\ud800"]),
    ],
)
def test_a_wrong_type_is_named_before_what_is_incomplete(field, value):
    data = {"encoder": {"layers": 1}, "block": {"attention": {"heads": 5}}, "width": 8}  # no width of the encoder; 5 heads
    held, *path = data, *field.split(".")
    for name in path[:-1]:
        held = held[name]
    held[path[-1]] = value
    with pytest.raises(WrongValue):
        eq.Spec.of(data)
