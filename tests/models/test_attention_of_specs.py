"""Everything that attention can do can be said in a spec: scores, caps and masks, in all pairs with what was there before."""

import itertools
import json
from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, LENGTH, WIDTH, randomised, words
from tests.pairwise import few
from torch.utils.flop_counter import FlopCounterMode

import equiscope as eq
from equiscope.attention import (
    MASKS,
    SCORES,
    Additive,
    AttentionKind,
    Blocks,
    Causal,
    Concat,
    Dilated,
    Documents,
    Dot,
    Edges,
    Everything,
    General,
    Prefix,
    ScaledDot,
    ScoreFunction,
    Window,
    mask_from_json,
    score_from_json,
)
from equiscope.attention.static_cache import StaticCache
from equiscope.errors import EquiscopeError, InputError
from equiscope.explore.pages.drawing import drawing
from equiscope.models import CPUDecoder, generate, tiny, windowed
from equiscope.models.spec import MASK, POSITION, SCORE
from equiscope.positions import Alibi, NoPosition, Rope, Sinusoidal, T5Bias
from equiscope.symmetry import CLAIMED, Shift, derive, measure, relative_error
from equiscope.tokens import Tokens

ROUNDING = 1e-10  # float64; measured below 1e-14
EDGES = [(i, j) for i in range(LENGTH) for j in range(LENGTH) if (i * j + i) % 3 != 1]
FACTORS = {
    "score": [ScaledDot(), Dot(), General(), Additive(), Additive(hidden=3), Concat(), Concat(hidden=5)],
    "cap": [None, 0.5],
    "mask": [
        Everything(), Prefix(2), Dilated(2), Blocks(4), Edges(EDGES, 2000), Documents(), Causal() | Prefix(2),
        Window(2) | Dilated(3), ~Blocks(4), Dilated(2) & (Window(2) | ~Prefix(3)),
    ],
    "causal": [False, True],
    "window": [None, 3],
    "position": [NoPosition(), Rope(), Alibi(), Sinusoidal(), T5Bias()],
    "kv_heads": [None, 1],
    "kind": ["softmax", "sink", "sigmoid", "differential"],
    "qk_norm": [None, "rms"],
}  # fmt: skip


def pairs(factors):
    """Cases in which every two values of two factors meet once at least, each made to meet as many new ones as it can."""
    names, sizes = list(factors), [len(values) for values in factors.values()]
    missing = {
        (a, i, b, j) for a, b in itertools.combinations(range(len(names)), 2) for i in range(sizes[a]) for j in range(sizes[b])
    }
    while missing:
        a, i, b, j = min(missing)
        case = {a: i, b: j}
        for c in range(len(names)):
            if c not in case:
                case[c] = max(range(sizes[c]), key=lambda v: sum(_pair(c, v, d, w) in missing for d, w in case.items()))
        missing -= {(a, case[a], b, case[b]) for a, b in itertools.combinations(range(len(names)), 2)}
        yield {name: factors[name][case[c]] for c, name in enumerate(names)}


def _pair(c, v, d, w):
    return (c, v, d, w) if c < d else (d, w, c, v)


CASES = list(pairs(FACTORS))


def named(case):
    parts = [case["score"].name, case["mask"].title, case["position"].name, case["kind"]]
    return " ".join([*parts, *(f"{k}={case[k]}" for k in ("cap", "causal", "window", "kv_heads", "qk_norm") if case[k])])


def cases(first):
    """Every third case, from this one on; the others are thorough. Tests that begin at 0, 1 and 2 have every case together."""
    some = [case if i % 3 == first else pytest.param(case, marks=pytest.mark.thorough) for i, case in enumerate(CASES)]
    return pytest.mark.parametrize("case", some, ids=named)


def spec(case, **more):
    attention = eq.Attention(heads=HEADS, **case, **more)
    return eq.Spec(WIDTH, layers=2, block=eq.Block(attention, norm=eq.Norm("rms", order="post")))


def tokens(case, texts=(0, 0, 0, 0, 1, 1)):
    """Six words; for a mask by documents in two texts, whose ranks go on."""
    document = torch.tensor(texts) if isinstance(case["mask"], Documents) else None
    return replace(words(length=LENGTH), document=document)


def test_all_pairs_meet():
    for a, b in itertools.combinations(FACTORS, 2):
        assert {(id(c[a]), id(c[b])) for c in CASES} >= {(id(x), id(y)) for x in FACTORS[a] for y in FACTORS[b]}
        assert all(
            {id(case[name]) for case in CASES[first::3]} == set(map(id, FACTORS[name])) for first in (0, 1) for name in (a, b)
        )
    assert {type(score) for score in FACTORS["score"]} == set(SCORES)
    said = {type(part) for mask in FACTORS["mask"] for part in mask.modules()}
    assert set(MASKS) <= said


@cases(2)
def test_a_spec_survives_json(case):
    made = spec(case)
    again = eq.Spec.of(json.loads(made.to_json()))
    assert again == made
    assert again.to_json() == made.to_json()
    assert str(eq.build(again)) == str(eq.build(made))


@cases(0)
def test_a_cache_gives_what_the_full_pass_gives_or_is_refused(case):
    model, text = randomised(eq.build(spec(case))), tokens(case)
    if not spec(case).blocks[0].attention.joint_mask.is_causal:
        with pytest.raises(InputError, match="needs a causal mask"):
            model.caches()
        return
    caches, found = model.caches(), []
    for i in range(LENGTH):
        row = slice(i, i + 1)
        document = None if text.document is None else text.document[row]
        part = Tokens(x=text.x[row], positions=text.positions[row], order=text.order[row], document=document)
        found.append(model(part, caches))
    assert relative_error(torch.cat(found), model(text)) < ROUNDING


def writer(mask, score):
    attention = eq.Attention(heads=2, mask=mask, score=score, cap=3.0, causal=True, position=Rope())
    spec = eq.Spec(16, 30, layers=2, outputs=30, block=eq.Block(attention, norm=eq.Norm("rms")))
    return randomised(eq.build(spec)).eval()


WRITERS = [
    (mask, score) for mask, score in zip(FACTORS["mask"], itertools.cycle(FACTORS["score"])) if not isinstance(mask, Documents)
]


@pytest.mark.parametrize(("mask", "score"), WRITERS, ids=lambda part: getattr(part, "title", part.name))
def test_what_is_written_is_what_the_full_pass_would_write(mask, score):
    """Ranks start at 0 in each prompt of a padded batch, so a mask that counts them gives what it gives for the prompt alone."""
    model, prompts = writer(mask, score), [torch.tensor([3, 1, 4]), torch.tensor([1, 5, 9, 2, 6])]
    written = []
    for prompt in prompts:
        ids = prompt
        for _ in range(6):
            ids = torch.cat([ids, model(ids)[-1].argmax()[None]])
        written.append(ids[len(prompt) :])
    for way in (model, CPUDecoder(model)):
        assert [row.tolist() for row in generate(way, prompts, 6)] == [row.tolist() for row in written]
    narrow = windowed(model, 3)
    assert eq.Spec.of(narrow.spec.to_dict()) == narrow.spec
    other = eq.build(narrow.spec).double().eval()
    other.load_state_dict(model.state_dict())
    assert relative_error(narrow(prompts[1]), other(prompts[1])) < ROUNDING


@pytest.mark.parametrize(("mask", "score"), WRITERS, ids=lambda part: getattr(part, "title", part.name))
def test_a_static_cache_gives_the_same(mask, score):
    model, ids = writer(mask, score), torch.randint(30, (2, 9), generator=torch.Generator().manual_seed(1))
    caches = [StaticCache(cache.mask, 12) for cache in model.caches()]
    found = [model(model.tokens(ids[:, i : i + 1], i), caches) for i in range(9)]
    assert relative_error(torch.cat(found, 1), model(ids)) < ROUNDING


@cases(1)
def test_what_is_derived_is_what_is_measured(case):
    text, made = tokens(case, (0,) * LENGTH), randomised(eq.build(spec(case)))
    attention, ranks = made.spec.blocks[0].attention, torch.arange(LENGTH)
    tables = [one.joint_mask.allowed(ranks[:, None], ranks[None]) for one in (attention, replace(attention, mask=Everything()))]
    idle = None not in tables and torch.equal(*tables)  # as Causal() & (Causal() | Prefix(2)) is
    generator = torch.Generator().manual_seed(5)
    for claim, action in zip(derive(made), CLAIMED, strict=True):
        element = Shift(17) if action is Shift else action.sample(text, generator)
        verdict = measure(made, text, element).verdict
        assert claim.action == action.name
        assert verdict == "holds" if claim.holds else idle or verdict in ("broken", "approximate"), f"{claim}, {verdict}"


@cases(0)
def test_parameters_and_multiply_adds_are_those_of_the_built_model(case):
    made = spec(case, backend="eager")
    said, model = eq.describe(made, LENGTH), eq.build(made)
    assert said.parameters == sum(p.numel() for p in model.parameters())
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(replace(tokens(case), x=tokens(case).x.float()))
    counts = 2 * LENGTH * LENGTH if case["kind"] == "sigmoid" else 0  # it counts the keys that are seen, by a product
    assert 0 <= counter.get_total_flops() // 2 - said.multiply_adds <= counts


@cases(1)
def test_every_way_to_compute_gives_the_same(case):
    one = randomised(eq.build(spec(case, backend="eager")))
    for backend in ("auto", "chunked"):
        other = eq.build(spec(case, backend=backend)).double()
        other.load_state_dict(one.state_dict())
        assert relative_error(other(tokens(case)), one(tokens(case))) < ROUNDING


@pytest.mark.parametrize("mask", few(FACTORS["mask"], 1), ids=lambda mask: mask.title)
def test_an_audit_confirms_what_a_mask_claims(mask):
    case = {"mask": mask, "score": Additive(hidden=3), "cap": 2.0}
    text, made = tokens(case, (0,) * LENGTH), randomised(eq.build(spec(case)))
    audit = eq.check(made, text, actions=["permute", "shift", "reverse"], proof=False)
    claims = {claim.action: claim.holds for claim in derive(made)}
    rows = {row.name: row for row in audit.rows if row.name in claims}
    assert rows.keys() == claims.keys()
    for name, row in rows.items():
        assert (row.verdict == "holds") == claims[name], f"{name}: {row}"


@pytest.mark.parametrize(("size", "step", "kept"), [(4, 4, True), (4, 8, True), (4, 2, False), (3, 6, True), (3, 1, False)])
def test_blocks_keep_shifts_by_their_multiples(size, step, kept):
    made = randomised(eq.build(spec({"mask": Blocks(size), "position": Rope()})))
    assert (measure(made, words(), Shift(step)).verdict == "holds") == kept


@pytest.mark.parametrize("position", [NoPosition(), Rope()], ids=lambda scheme: scheme.name)
def test_a_score_may_be_said_with_its_scale_and_cap_or_beside_them(position):
    inside = eq.Attention(score=ScaledDot(scale=0.3, cap=2.0), position=position)
    beside = eq.Attention(scale=0.3, cap=2.0, position=position)
    assert eq.Spec(8, block=eq.Block(inside)) == eq.Spec(8, block=eq.Block(beside))
    assert eq.Spec(8, block=eq.Block(inside)).to_dict()["block"]["attention"].keys() - {"position"} == {"scale", "cap"}
    model = eq.build(eq.Spec(8, block=eq.Block(inside)))
    assert model.blocks[0].attention.score.settings == {"scale": 0.3, "cap": 2.0}


def test_layers_of_one_spec_share_no_part():
    made = spec({"mask": Edges(EDGES, 10), "score": General()})
    first, second = eq.build(made), eq.build(made)
    masks = [block.attention.mask for model in (first, second) for block in model.blocks]
    scores = [block.attention.score for model in (first, second) for block in model.blocks]
    assert len({id(m) for m in masks}) == len({id(s.weight) for s in scores}) == 4


def test_a_small_model_keeps_its_score_and_the_kind_of_its_mask():
    large = eq.Spec(768, 1000, layers=4, outputs=1000, block=eq.Block(eq.Attention(
        heads=12, score=Additive(), cap=30.0, causal=True, mask=Blocks(512) | Dilated(64))))  # fmt: skip
    small = tiny(large).blocks[0].attention
    assert (small.mask.title, small.score.name, small.cap) == ("blocks 4 or dilated 4", "additive", 30.0)


@pytest.mark.parametrize("mask", FACTORS["mask"], ids=lambda mask: mask.title)
def test_a_drawing_shows_the_score_and_the_mask(mask):
    score = FACTORS["score"][FACTORS["mask"].index(mask) % len(FACTORS["score"])]
    made = drawing(eq.Spec(16, 40, outputs=40, block=eq.Block(eq.Attention(heads=2, mask=mask, score=score, cap=3.0))))
    box = next(box for box in made.boxes if box.kind == "attention")
    assert "scores up to 3" in box.lines
    assert (f"{score.name} scores" in box.lines) == (not isinstance(score, ScaledDot))
    shown = [box for box in made.boxes if box.kind == "mask"]
    assert [one.lines for one in shown] == ([] if isinstance(mask, Everything) else [[mask.title]])
    assert all(len(row) == len(one.mask) for one in shown for row in one.mask)


def test_a_drawing_names_the_score_that_a_rotary_scheme_cannot_cancel():
    made = drawing(eq.Spec(16, 40, outputs=40, block=eq.Block(eq.Attention(heads=2, score=General(), position=Rope()))))
    shift = next(stand for stand in made.claims if stand.action == "shift")
    assert (shift.holds, shift.boxes) == (False, ["blocks.0.attention"]), shift
    assert "general scores of rotated queries and keys" in shift.reason


def test_the_description_says_them():
    attention = eq.Attention(score=Concat(), cap=5.0, causal=True, mask=Blocks(4) | ~Prefix(2))
    assert "causal, blocks 4 or not prefix 2, concat, scores up to 5, " in str(eq.describe(eq.Spec(8, block=eq.Block(attention))))


KINDS = [
    AttentionKind("sigmoid", bias=-2.0), AttentionKind("linear", feature="relu"), AttentionKind("linformer", max_length=16, rank=4),
    AttentionKind("nystrom", landmarks=3, iterations=2),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_kind_of_attention_may_be_said_with_its_own_settings(kind):
    made = eq.Spec(8, block=eq.Block(eq.Attention(kind=kind)))
    again = eq.Spec.of(json.loads(made.to_json()))
    assert again == made
    assert again.block.attention.kind == kind
    part = eq.build(again).blocks[0].attention
    for name, value in kind.settings.items():
        assert getattr(part.normalizer if name == "bias" else part, name) == value
    assert str(kind) in str(eq.describe(made))


def test_a_setting_that_is_the_default_is_left_out_of_a_kind():
    assert AttentionKind("linformer", rank=64) == AttentionKind("linformer")
    assert eq.Spec(8, block=eq.Block(eq.Attention(kind=AttentionKind("linformer", rank=64)))).to_dict()["block"]["attention"] == {
        "kind": "linformer"
    }


REFUSED = [
    ({"score": ScaledDot(scale=2.0), "scale": 3.0}, "scale is 3.0, but its score has 2.0"),
    ({"score": Dot(), "scale": 2.0}, "score dot has no scale"),
    ({"cap": 0.0}, "larger than 0, but got 0.0"),
    ({"cap": 5.0, "backend": "sdpa"}, "'sdpa' cannot compute capped scores"),
    ({"score": Additive(), "backend": "flex"}, "'flex' cannot compute additive scores"),
    ({"score": General(), "position": eq.positions.Pope()}, "PoPE widens queries and keys, which general scores cannot read"),
    ({"score": 3}, r"a score, such as Dot\(\), but got 3"),
    ({"mask": Causal}, r"a mask, such as Blocks\(8\)"),
    ({"mask": Blocks(4), "kind": "linear"}, "masks are Everything.* and Causal.*, but got 'blocks'"),
    ({"score": Dot(), "kind": "linformer"}, "kind 'linformer' has no score"),
    ({"cap": 3.0, "kind": "nystrom"}, "kind 'nystrom' has no score"),
]  # fmt: skip


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("said", "words"), REFUSED, ids=[w for _, w in REFUSED])
def test_what_cannot_work_together_is_refused_in_one_sentence(said, words):
    with pytest.raises(EquiscopeError, match=words):
        eq.build(eq.Spec(8, block=eq.Block(eq.Attention(**said))))


def test_attention_to_an_encoder_takes_no_mask_but_any_score():
    with pytest.raises(InputError, match="without causal, window and mask"):
        eq.Block(cross=eq.Attention(mask=Blocks(2)))
    block = eq.Block(eq.Attention(causal=True), cross=eq.Attention(score=Additive(), cap=3.0))
    model = randomised(eq.build(eq.Spec(8, block=block, encoder=eq.Spec(8))))
    y, source = words(1, length=4), words(2, length=5)
    caches, encoder_output = model.caches(), model.encode(source)
    parts = [Tokens(x=y.x[i : i + 1], positions=y.positions[i : i + 1], order=y.order[i : i + 1]) for i in range(4)]
    found = torch.cat([model(part, caches, encoder_output) for part in parts])
    assert relative_error(found, model(y, source=source)) < ROUNDING


WRONG = [
    ({"kind": "linea"}, "no kind of attention called 'linea'. Did you mean linear. Known: softmax"),
    ({"kind": {"kind": "linformer", "rnk": 2}}, "no setting of linformer attention called 'rnk'. Did you mean rank"),
    ({"kind": {"kind": "linformer", "rank": "x"}}, "linformer.rank cannot be 'x'"),
    ({"kind": {"kind": "softmax", "sink": True}}, "no setting of softmax attention called 'sink'. It has none"),
    ({"score": "bilinear"}, "no score called 'bilinear'. Known: scaled-dot, dot, general, additive, concat"),
    ({"mask": "graph"}, "no mask called 'graph'. Known: everything, causal, window, dilated, blocks, prefix, edges, documents"),
    ({"mask": "dilated"}, "dilated cannot be made from {}: missing a required argument: 'step'. Its settings are step"),
    ({"mask": {"kind": "blocks", "size": "x"}}, "blocks.size cannot be 'x'"),
    ({"mask": {"kind": "blocks", "size": 0}}, "size is at least 1, but got 0"),
    ({"mask": {"or": ["causal"]}}, '"or" joins a list of two masks or more'),
    ({"mask": {"not": "everything"}}, "lets no token attend"),
    ({"mask": {"or": ["documents", "causal"]}}, "Documents are always separated"),
    ({"mask": 7}, 'joined by "and", "or" or "not", but got 7'),
    ({"score": {"hidden": 3}}, "an object with its kind and settings, but got"),
    ({"score": {"kind": "concat", "hidden": 2.5}}, r"concat\.hidden cannot be 2\.5"),
    ({"score": {"kind": "dot", "hidden": 2}}, "no setting of dot called 'hidden'. Known: cap"),
    ({"mask": {"kind": "edges", "edges": [[0, 9]], "nodes": 4}}, r"nodes 0\.\.3, but got the edge"),
]  # fmt: skip


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("said", "words"), WRONG, ids=[w for _, w in WRONG])
def test_what_a_file_says_wrong_is_named(said, words):
    with pytest.raises(EquiscopeError, match=words):
        eq.Spec.of({"width": 8, "block": {"attention": said}})


class Cosine(ScoreFunction):
    """A score of one's own."""

    name = "cosine-of-the-test"


def test_a_score_of_ones_own_is_known_by_its_name():
    made = eq.Spec(8, block=eq.Block(eq.Attention(score=Cosine())))
    assert eq.Spec.of(made.to_dict()) == made
    assert type(eq.build(made).blocks[0].attention.score) is Cosine


def test_names_are_read_as_they_are_written():
    for named, usual in ((MASK, "everything"), (SCORE, "scaled-dot"), (POSITION, {"scheme": "none"})):
        assert named.to_json(named.from_json(usual)) == usual
    nested = {"and": ["causal", {"and": [{"kind": "window", "size": 3}, {"kind": "dilated", "step": 2}]}]}
    flat = {"and": ["causal", {"kind": "window", "size": 3}, {"kind": "dilated", "step": 2}]}
    assert MASK.to_json(mask_from_json(nested)) == flat
    assert score_from_json({"kind": "dot"}).name == "dot"
