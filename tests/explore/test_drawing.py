"""A drawing shows the model that would be built: every part once, every parameter once, every claim as `derive` gives it."""

import msgspec
import pytest
import torch
from tests.pairwise import few

import equiscope as eq
from equiscope import attention
from equiscope.errors import InputError
from equiscope.explore import drawing, html
from equiscope.explore.model.toy_model import runs
from equiscope.models import PRESETS, Attention, Baseline, Block, FeedForward, InputLayer, Model, Norm, OutputLayer, Spec
from equiscope.positions import SCHEMES, Alibi, Concatenated, Fire, Learned, LearnedNd, NoPosition, Rope, Shaw, Sinusoidal, T5Bias
from equiscope.program.replay import replay
from equiscope.record import Drawing, unpack
from equiscope.symmetry import derive, relative_error

ODD = {
    "bare": Spec(4),
    "no norm, no residual": Spec(8, block=Block(Attention(heads=2), norm=None, feedforward=None, residual=False)),
    "wider by its positions": Spec(8, block=Block(Attention(heads=2, position=Concatenated(width=8)))),
    "NeoX": Spec(
        64, 100, layers=4, outputs=100, block=Block(Attention(heads=2, position=Rope(fraction=0.25), causal=True), parallel=True)
    ),
    "takes turns": Spec(
        32, 100, layers=8, outputs=100,
        block=(*[Block(Attention(heads=8, kv_heads=2, position=Rope(), causal=True))] * 3, Block(Attention(heads=8, causal=True))),
    ),
    "window": Spec(32, 100, layers=2, block=Block(Attention(heads=4, position=Alibi(), causal=True, window=16))),
    "documents": Spec(
        16, 50, InputLayer(separator=(3,)), 2, Block(Attention(heads=2, causal=True, mask=attention.Documents())), outputs=50
    ),
    "sees both ways, near": Spec(32, layers=2, block=Block(Attention(heads=4, window=9, qk_norm="rms"))),
    "cross-attention with positions": Spec(
        16, 50,
        block=Block(
            Attention(heads=4, position=T5Bias(bidirectional=False), causal=True), cross=Attention(heads=4, position=Rope())
        ),
        encoder=Spec(24, 60, layers=2, block=Block(Attention(heads=2, position=Shaw()))),
    ),
    "network of places": Spec(16, 50, layers=2, block=Block(Attention(heads=4, position=Fire(), causal=True))),
    "DeiT": Spec(
        32, None, InputLayer(features=48, patch=(4, 4), registers=1), 3, Block(Attention(heads=4, position=LearnedNd((7, 7)))),
        readout="class", outputs=10, output=OutputLayer(bias=True, hidden="tanh", norm=True),
    ),
    "early convolutions": Spec(24, None, InputLayer(features=16, patch=(4, 4), stem=(3, 8, 16)), 3, readout="mean", outputs=10),
    "pixels as they are": Spec(24, None, InputLayer(features=12, map=False, patch=(2, 2)), 2, readout="mean", outputs=10),
    "words and numbers": Spec(16, 30, InputLayer(features=5, types=2, norm=True, scale=4.0), 2, readout="last", outputs=3),
    "all in a line": Spec(8, layers=2, readout="concatenation"),
    "gated": Spec(16, 20, block=Block(Attention(heads=2), Norm("rms", "post"), FeedForward(24, "silu", False, True)), outputs=20),
}  # fmt: skip
SPECS = {**{name: make() for name, make in PRESETS.items()}, **ODD}
NAMES = [*ODD, *few(PRESETS, 4)]


@pytest.fixture(scope="module")
def drawn():
    kept = {}

    def draw(name) -> Drawing:
        if name not in kept:
            kept[name] = drawing(SPECS[name], name)
        return kept[name]

    return draw


def meta(spec) -> Model:
    with torch.device("meta"):
        return Model(spec)


def broken(box):
    return {c.action for c in box.claims if not c.holds}


def of(content, kind):
    return [box for box in content.boxes if box.kind == kind]


# --- laws over every spec ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_counted_once(drawn, name):
    model = meta(SPECS[name])
    total = sum(p.numel() for p in model.parameters())
    assert drawn(name).parameters == total
    assert sum(box.total for box in drawn(name).boxes) == total


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_keeps_what_derive_says(drawn, name):
    found = [(s.action, s.holds, s.reason) for s in drawn(name).claims]
    assert found == [(c.action, c.holds, c.reason) for c in derive(meta(SPECS[name]))]
    for stand in drawn(name).claims:
        assert stand.holds or stand.boxes, "somebody notices it"


@pytest.mark.parametrize("name", NAMES)
def test_every_box_keeps_what_its_module_keeps(drawn, name):
    model = meta(SPECS[name])
    for box in drawn(name).boxes:
        parts = [box for box in drawn(name).boxes if box.inside == box.id]
        paths = [p for p in box.where[:1] if not p.endswith(("readout.row", "input_layer.types")) and p != "input_layer"]
        for path in paths:
            claims = derive(model.get_submodule(path))
            own = {c.action for c in claims if not c.holds}
            assert broken(box) >= own or not own
            assert broken(box) <= own.union(*(broken(b) for b in drawn(name).boxes if b.inside == box.id)), (box.id, parts)


@pytest.mark.parametrize("name", NAMES)
def test_every_step_belongs_to_a_box_and_runs_on_the_pool(drawn, name):
    content = drawn(name)
    owned = {step for box in content.boxes for step in box.steps}
    assert owned == {step.id for step in content.program.steps}
    idle = {box.kind for box in content.boxes if not box.steps}
    assert idle <= {
        "input",
        "output",
        "sum",
        "join",
        "readout",
        *(["map"] if SPECS[name].vocabulary or not SPECS[name].input.map else []),
    }
    leaves = {leaf.id: torch.from_numpy(unpack(content.pool[leaf.pool])) for leaf in content.program.leaves}
    assert replay(content.program, leaves)[content.program.outputs[0]].isfinite().all()
    assert not [leaf.id for leaf in content.program.leaves if leaf.kind == "opaque"]


@pytest.mark.parametrize("name", NAMES)
def test_boxes_links_and_frames_fit_together(drawn, name):
    content = drawn(name)
    boxes = {box.id: box for box in content.boxes}
    assert len(boxes) == len(content.boxes)
    assert {f.id for f in content.frames} >= {box.frame for box in content.boxes if box.frame}
    assert all({link.source, link.target} <= boxes.keys() for link in content.links)
    assert {box.tower for box in content.boxes} == set(range(len(content.towers)))
    reached = {link.target for link in content.links if link.kind == "stream"}
    side = {link.source for link in content.links if link.kind == "side"}
    for box in content.boxes:
        assert box.id in reached or box.kind == "input" or box.id in side or box.inside in boxes, box.id
    assert msgspec.json.decode(msgspec.json.encode(content), type=Drawing) == content


@pytest.mark.parametrize("name", NAMES)
def test_frames_repeat_as_often_as_there_are_layers(drawn, name):
    content = drawn(name)
    outer = {f.id: f.repeat for f in content.frames}
    for tower, spec in enumerate([s for s in (SPECS[name].encoder, SPECS[name]) if s is not None]):
        inner = [f for f in content.frames if f.tower == tower and not any(g.outer == f.id for g in content.frames)]
        assert sum(f.repeat * outer.get(f.outer, 1) for f in inner) == spec.layers
        assert len(inner) == len(runs(spec))


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s is not NoPosition], ids=lambda s: s.name)
def test_a_scheme_stands_where_it_acts(scheme):
    content = drawing(Spec(48, layers=2, block=Block(Attention(heads=2, position=scheme()))))
    places = {"rotate": "rotate", "score_bias": "scores", "content_bias": "scores", "value_bias": "values"}
    wanted = [slot for place, slot in places.items() if scheme().acts(place)] + [""] * scheme().acts("embed")
    assert [box.slot for box in of(content, "position") if box.inside] == [slot for slot in wanted if slot]
    assert len([box for box in of(content, "position") if not box.inside]) == wanted.count("")
    assert all(box.steps for box in of(content, "position"))
    assert sum(box.total for box in content.boxes) == content.parameters


# --- the figures that people know ---------------------------------------------------------------------------------------
def stream(content, tower):
    return [box.title for box in content.boxes if box.tower == tower and not box.inside]


def test_the_transformer_is_the_well_known_figure(drawn):
    content = drawn("transformer-base")
    assert content.towers == ["Encoder", "Decoder"]
    layer = ["Self-attention", "plus", "LayerNorm", "Feed-forward", "plus", "LayerNorm"]
    start = ["Words", "Embedding", "plus", "Sinusoidal"]
    assert sorted(stream(content, 0)) == sorted(start + layer)
    asks = ["Cross-attention", "plus", "LayerNorm"]
    end = ["Every row", "Output layer, tied", "Scores of the next word"]
    assert sorted(stream(content, 1)) == sorted(start + layer + asks + end)
    [source] = [link for link in content.links if link.kind == "source"]
    assert (source.source, source.target) == ("encoder.blocks.0.feedforward_norm", "blocks.0.cross")
    assert {(link.source, link.target) for link in content.links if link.kind == "tied"} == {
        ("embedding", "output_layer"), ("encoder.embedding", "embedding"),
    }  # fmt: skip


def test_norms_stand_before_or_after_as_the_spec_says(drawn):
    def leads(name):
        return {link.target: link.source for link in drawn(name).links if link.kind == "stream"}

    assert leads("llama-1b")["blocks.0.attention"] == "blocks.0.attention_norm"
    assert leads("bert-base")["blocks.0.attention_norm"] == "blocks.0.attention.sum"


def test_parallel_parts_leave_one_place_and_meet_in_one_sum(drawn):
    links = [(link.source, link.target) for link in drawn("NeoX").links if link.kind == "stream"]
    ahead = {target for source, target in links if source == "embedding"}
    assert ahead == {"blocks.0.attention_norm", "blocks.0.feedforward_norm"}
    meet = {source for source, target in links if target == "blocks.0.feedforward.sum"}
    assert meet == {"blocks.0.attention", "blocks.0.feedforward"}


def test_layers_that_take_turns_have_a_frame_each_and_one_around(drawn):
    frames = drawn("takes turns").frames
    assert [(f.repeat, f.title, f.outer) for f in frames] == [
        (2, "alternating layers", ""), (3, "layers 0 to 2, 4 to 6", "turns"), (1, "layers 3, 7", "turns"),
    ]  # fmt: skip
    grouped = of(drawn("takes turns"), "attention")
    assert [len([b for b in of(drawn("takes turns"), "position") if b.inside == a.id]) for a in grouped] == [1, 0]
    assert "2 key heads, shared" in grouped[0].lines


def test_a_class_token_joins_after_the_places(drawn):
    content = drawn("vit-b")
    names = [box.id for box in content.boxes if not box.inside]
    assert names.index("position.embed") < names.index("token")
    [attention] = of(content, "attention")
    assert attention.shape == ["1 + N", "768"]
    assert of(content, "output_layer")[0].shape == ["1,000"]


def test_a_mask_is_a_picture_of_who_may_look(drawn):
    [mask] = of(drawn("llama-1b"), "mask")
    assert mask.mask == [[column <= row for column in range(6)] for row in range(6)]
    assert broken(mask) == {"permute", "reverse"}
    [window] = of(drawn("window"), "mask")
    assert (window.title, window.lines) == ("Causal window", ["16 tokens"])
    assert not of(drawn("bert-base"), "mask")


def test_who_notices_is_the_part_that_decides_and_not_the_box_around_it(drawn):
    stands = {stand.action: stand for stand in drawn("llama-1b").claims}
    assert stands["permute"].boxes == ["blocks.0.attention.position.rotate", "blocks.0.attention.mask"]
    assert (stands["shift"].holds, stands["shift"].boxes) == (True, [])


def test_a_shared_scheme_is_counted_where_it_first_stands():
    turns = (Block(Attention(heads=2, position=T5Bias())), Block(Attention(heads=2, position=T5Bias(), causal=True)))
    first, second = of(drawing(Spec(8, layers=2, block=turns)), "position")
    assert (first.parameters, first.total) == (64, 64)
    assert (second.parameters, second.total) == (64, 0)


# --- the numbers --------------------------------------------------------------------------------------------------------
def test_a_small_model_is_traced_itself():
    torch.manual_seed(0)
    model = eq.build(Spec(8, 12, layers=2, block=Block(Attention(heads=2, position=Learned(8), causal=True)), outputs=12))
    content = drawing(model)
    assert content.program_note == "The numbers are those of this model itself."
    assert content.axis_names["token"] == ["id 0", "id 1", "id 2"]
    leaves = {leaf.id: torch.from_numpy(unpack(content.pool[leaf.pool])) for leaf in content.program.leaves}
    found = replay(content.program, leaves)[content.program.outputs[0]]
    assert relative_error(found, model.double()(torch.tensor([0, 1, 2]))) < 1e-13  # float64: rounding only


def test_of_a_small_model_with_many_layers_a_box_shows_the_first_of_its_kind():
    turns = tuple(
        Block(Attention(heads=2, position=p, causal=True), cross=Attention(heads=2, position=Rope())) for p in (Rope(), Alibi())
    )
    reads = Block(Attention(heads=2, position=T5Bias()))
    model = eq.build(Spec(8, 12, layers=4, block=turns, outputs=12, encoder=Spec(8, 12, layers=3, block=reads)))
    content = drawing(model)
    assert content.program_note == "The numbers are those of this model itself."
    where = {step.id: step.where for step in content.program.steps}
    layers = {"encoder.blocks.0": "model.encoder.blocks.0", "blocks.0": "model.blocks.0", "blocks.1": "model.blocks.1"}
    for box in content.boxes:
        for name, path in layers.items():
            if box.id.startswith(f"{name}."):
                assert {where[s] for s in box.steps} <= {path, *(w for w in where.values() if w.startswith(f"{path}.")), "model"}, (
                    box.id
                )
    shown = {where[s] for box in content.boxes for s in box.steps}
    assert not {w for w in shown if w.startswith(("model.blocks.2", "model.blocks.3", "model.encoder.blocks.1"))}
    assert len([s for s in where.values() if s.startswith("model.blocks.3")]) > 20


@pytest.mark.parametrize("kind", ["sink", "sigmoid", "differential", "linear", "linformer", "nystrom"])
def test_kinds_of_attention_are_drawn_too(kind):
    content = drawing(Spec(32, 20, layers=2, block=Block(Attention(heads=4, kind=kind)), outputs=20))
    assert f"kind: {kind}" in of(content, "attention")[0].lines
    assert {step for box in content.boxes for step in box.steps} == {step.id for step in content.program.steps}


def test_a_drawing_leaves_the_model_as_it_is():
    model = eq.build(Spec(8, 12, outputs=12)).train()
    drawing(model)
    assert model.training
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_a_large_model_is_shown_by_a_small_one_of_the_same_make(drawn):
    content = drawn("takes turns")
    assert content.program_note.startswith(
        "The numbers are those of a toy model of the same architecture: 16 wide, 4 heads of 4, 2 layers"
    )
    assert content.axis_names["token"] == ["Love", "conquers", "all"]
    assert content.heads == 4


def test_what_a_scheme_does_is_its_own_and_the_attention_has_all(drawn):
    content = drawn("llama-1b")
    [attention], [scheme], [mask] = (of(content, kind) for kind in ("attention", "position", "mask"))
    symbols = {step.id: step.symbol for step in content.program.steps}
    assert [symbols[s] for s in scheme.steps] == ["θ", "Q′", "K′"]
    assert [symbols[s] for s in mask.steps][-2:] == ["M", "S∘M"]
    assert set(scheme.steps) | set(mask.steps) < set(attention.steps)
    assert symbols[attention.steps[-1]] == "x"


def test_equal_requests_give_equal_drawings():
    assert drawing(SPECS["window"]) == drawing(SPECS["window"])
    assert drawing(SPECS["window"], seed=1).pool != drawing(SPECS["window"]).pool


def test_the_page_holds_the_drawing_as_data(drawn):
    text = html(drawn("vit-b"))
    assert 'id="drawing">' in text
    assert "<title>vit-b - equiscope</title>" in text
    assert 'id="explorable"' not in text


def test_places_of_an_embedding_are_drawn_beside_the_stream():
    content = drawing(Spec(8, 20, block=Block(Attention(heads=2, position=Sinusoidal()))))
    [scheme] = of(content, "position")
    assert (scheme.inside, broken(scheme)) == ("", {"permute", "shift", "reverse"})
    assert [(link.source, link.target) for link in content.links if link.kind == "side"] == [("position.embed", "position.sum")]


def test_a_model_with_a_short_table_of_places_is_drawn():
    attention = Attention(heads=2, position=Learned(2), causal=True)
    spec = Spec(16, vocabulary=9, outputs=9, block=Block(attention=attention))
    assert drawing(spec).parameters == eq.describe(spec, 2).parameters


def test_a_model_of_another_kind_is_refused_as_its_spec_is():
    spec = Baseline("lstm", 8, vocabulary=20, outputs=20)
    for source in (spec, eq.build(spec)):
        with pytest.raises(InputError, match="A drawing shows models of sequences, but this one is of the kind baseline"):
            drawing(source)
