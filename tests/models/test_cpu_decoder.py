"""A CPU decoder generates what the model generates, faster (M5)."""

import copy
import importlib

import pytest
import torch
from tests.checkpoints.test_parity import CONFIGS, PAIRED, ids, peer
from tests.drawn import LISTED, title
from tests.models.test_generate_pairs import begin, paired
from tests.pairwise import each_value, few

import equiscope as eq
from equiscope.attention import Window
from equiscope.errors import InputError
from equiscope.models import Attention, Block, FeedForward, Norm, Sampling, Spec, build, generate
from equiscope.models.beam import Beams
from equiscope.models.cpu_decoder import CPUDecoder
from equiscope.models.decoding import Decoding
from equiscope.models.packed_linear import PackedLinear
from equiscope.positions import Alibi, Learned, NoPosition, Rope
from equiscope.symmetry import relative_error

TEXTS = [ids()[0], ids()[1, :7]]


def loaded(name, folder, dtype=torch.float64):
    peer(name).save_pretrained(folder)
    return eq.load(folder, dtype)


def model(dtype=torch.float32, **block):
    torch.manual_seed(0)
    attention = {"heads": 4, "position": Rope(), "causal": True} | block.pop("attention", {})
    return build(Spec(192, vocabulary=300, outputs=300, layers=2, block=Block(Attention(**attention), **block))).eval().to(dtype)


@torch.no_grad()
def answers(model, prompts, source=None):
    """Scores after the prompts and after each of some tokens, read one by one and two at a time."""
    decoding = Decoding(model, prompts, 8, source)
    found = [decoding.prefill()[:, None]]
    found += [decoding.step(torch.full((len(decoding.ids), n), 3 + n)) for n in (1, 1, 2, 1)]
    return torch.cat(found, 1)


@pytest.mark.parametrize("name", CONFIGS)
def test_it_answers_as_the_model_for_every_family(name, tmp_path):
    made = loaded(name, tmp_path)
    fast = CPUDecoder(made)
    assert fast.fallback_reason == ""
    assert relative_error(answers(fast, TEXTS), answers(made, TEXTS)) < 1e-12
    assert relative_error(answers(fast, ids()), answers(made, ids())) < 1e-12


@pytest.mark.parametrize("name", few(CONFIGS, 6))
def test_long_prompts_are_read_by_the_model_itself(name, tmp_path):
    made = loaded(name, tmp_path)
    fast = CPUDecoder(made, max_prompt=3)
    assert fast.fallback_reason == ""
    for prompts in (TEXTS, ids()):
        assert relative_error(answers(fast, prompts), answers(made, prompts)) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("texts", [ids()[:1], ids()], ids=["one text", "several"])
def test_a_layer_written_out_gives_what_its_parts_give(texts, dtype):
    made = model(dtype, attention={"position": NoPosition()}, feedforward=FeedForward(activation="gelu-tanh"))
    fast = CPUDecoder(made)
    assert fast.fallback_reason == ""
    assert all(layer.flat_layer for layer in fast.layers)
    written_out = answers(fast, texts)
    for layer in fast.layers:
        layer.flat_layer = None
    assert torch.equal(answers(fast, texts), written_out)
    turned = CPUDecoder(model(dtype))  # turns of queries and keys are not written out
    assert turned.layers
    assert not any(layer.flat_layer for layer in turned.layers)


@pytest.mark.parametrize("name", PAIRED)
def test_it_answers_as_the_model_from_a_source(name, tmp_path):
    theirs, made = paired(name, tmp_path)
    fast = CPUDecoder(made)
    assert fast.fallback_reason == ""
    for source in (TEXTS, ids()):
        assert relative_error(answers(fast, begin(theirs), source), answers(made, begin(theirs), source)) < 1e-12


@pytest.mark.parametrize("scheme", LISTED, ids=title)
def test_with_any_scheme_it_answers_alike_or_says_why_not(scheme):
    if scheme.axes not in (1, None):
        pytest.skip("places of text have one axis")
    made = build(Spec(24, vocabulary=30, outputs=30, layers=2, block=Block(Attention(3, position=scheme, causal=True)))).double()
    fast, text = CPUDecoder(made), [torch.arange(7), torch.arange(4)]
    assert relative_error(answers(fast, text), answers(made, text)) < 1e-12
    assert bool(fast.fallback_reason) == (not fast.layers)


BLOCKS = [{}, {"norm": Norm("rms"), "feedforward": FeedForward(activation="silu", gated=True, bias=False)}, {"parallel": True},
     {"norm": Norm(order="post"), "feedforward": FeedForward(activation="relu")}, {"feedforward": None}, {"residual": False},
     {"attention": {"kv_heads": 2, "qk_norm": "rms", "bias": True}}, {"attention": {"window": 6, "position": Alibi()}},
     {"feedforward": FeedForward(activation="gelu-tanh")}, {"feedforward": FeedForward(activation="tanh")}]  # fmt: skip


@each_value(
    pytest.mark.parametrize("block", BLOCKS, ids=str),
    pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.bfloat16, 0.05)], ids=str),
    pytest.mark.parametrize("onednn", [True, False], ids=["oneDNN's blocks", "torch's product"]),
)
def test_packed_products_keep_the_numbers(block, dtype, near, onednn, monkeypatch):
    if not onednn:
        monkeypatch.setattr("equiscope.kernels.private.packs", lambda weight: False)
    made = model(dtype, **dict(block))
    fast = CPUDecoder(made)
    assert fast.fallback_reason == ""
    exact = answers(model(torch.float64, **dict(block)), TEXTS)
    assert relative_error(answers(fast, TEXTS).double(), exact) < near
    alone, exact = answers(fast, TEXTS[0]), answers(model(torch.float64, **dict(block)), TEXTS[0])
    assert relative_error(alone.double(), exact) < near  # one row goes another way than several


@pytest.mark.parametrize("second", [{"kv_heads": 4}, {"kv_heads": 2}], ids=["alike", "not alike"])
def test_layers_may_hold_keys_of_other_sizes(second):
    torch.manual_seed(0)
    blocks = tuple(Block(Attention(heads=4, position=Rope(), causal=True, **own)) for own in ({"kv_heads": 4}, second))
    made = build(Spec(64, vocabulary=300, outputs=300, layers=2, block=blocks)).eval().double()
    fast = CPUDecoder(made)
    assert fast.fallback_reason == ""
    assert relative_error(answers(fast, TEXTS), answers(made, TEXTS)) < 1e-12
    found, wanted = (generate(m, TEXTS, 12, beams=Beams(3)) for m in (fast, made))
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_the_encoder_may_be_asked_by_other_heads():
    torch.manual_seed(0)
    side = Block(Attention(heads=4))
    block = Block(Attention(heads=4, position=Rope(), causal=True), cross=Attention(heads=2, qk_norm="rms"))
    encoder = Spec(64, vocabulary=300, layers=1, block=side)
    made = build(Spec(64, vocabulary=300, outputs=300, layers=2, block=block, encoder=encoder)).eval().double()
    fast = CPUDecoder(made)
    assert fast.fallback_reason == ""
    begin = torch.zeros(2, 1, dtype=torch.long)
    assert relative_error(answers(fast, begin, TEXTS), answers(made, begin, TEXTS)) < 1e-12


def test_what_is_written_is_the_same_greedy_sampled_and_searched(tmp_path):
    made = loaded("llama 3.1, tied", tmp_path)
    fast = CPUDecoder(made)
    for way in ({"sampling": Sampling(temperature=1.0), "seed": 3}, {}, {"beams": Beams(3)}, {"stop": [7]}):
        found, wanted = generate(fast, TEXTS, 20, **way), generate(made, TEXTS, 20, **way)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_a_read_out_of_the_last_token_alone_and_a_norm_of_the_users_own_go_the_short_way():
    torch.manual_seed(0)
    last = build(
        Spec(48, vocabulary=70, outputs=70, layers=2, readout="last", block=Block(Attention(4, position=Rope(), causal=True)))
    )
    other = model(torch.float64)
    other.norm = torch.nn.LayerNorm(192, dtype=torch.float64)
    for made in (last.eval().double(), other):
        fast = CPUDecoder(made)
        assert fast.fallback_reason == ""
        with torch.no_grad():
            slow, short = Decoding(made, ids()[:, :5] % 70, 4), Decoding(fast, ids()[:, :5] % 70, 4)
            found, wanted = short.prefill(), slow.prefill()
            assert relative_error(found, wanted) < 1e-12
            assert not found.is_inference()
            read = torch.tensor([[3, 4]] * len(found))
            assert relative_error(short.step(read)[:, -1], slow.step(read)[:, -1]) < 1e-12


def test_the_model_itself_is_left_alone():
    made = model()
    before = {name: p.clone() for name, p in made.named_parameters()}
    made.train()
    generate(CPUDecoder(made), TEXTS, 3)
    assert made.training
    assert all(torch.equal(p, before[name]) and p.requires_grad for name, p in made.named_parameters())
    made(ids()).sum().backward()


def test_parameters_that_changed_since_are_noticed():
    made = model()
    fast = CPUDecoder(made)
    torch.optim.SGD(made.parameters(), lr=0.1)
    with torch.no_grad():
        made.output_layer.lm_head.weight.mul_(2)
    with pytest.raises(InputError, match="changed after CPUDecoder"):
        generate(fast, TEXTS, 3)


@pytest.mark.parametrize("change", ["fused optimiser", "data", "mask"])
def test_changes_that_leave_no_mark_are_noticed(change):
    made = model()
    fast = CPUDecoder(made)
    if change == "fused optimiser":  # it raises no version
        made(ids()).sum().backward()
        torch.optim.AdamW(made.parameters(), lr=0.1, fused=True).step()
    elif change == "data":
        made.output_layer.lm_head.weight.data.neg_()
    else:
        made.blocks[0].attention.mask = made.blocks[0].attention.mask & Window(2)
    with pytest.raises(InputError, match="changed after CPUDecoder"):
        generate(fast, TEXTS, 3)


def test_weights_that_are_no_numbers_are_no_change():
    made = model()
    with torch.no_grad():
        table = made.embedding.weight
        table.view(-1)[table.numel() // 32 * 31] = torch.nan  # one that is looked at, of a word that is not read
    fast = CPUDecoder(made)
    assert not fast.verified().fallback_reason
    assert torch.equal(generate(fast, TEXTS, 3)[0], generate(made, TEXTS, 3)[0])


def test_a_copy_is_prepared_of_a_copy():
    fast = CPUDecoder(model())
    again = copy.deepcopy(fast)
    assert again.model is not fast.model
    assert not again.fallback_reason
    assert torch.equal(generate(again, ids(), 5)[0], generate(fast, ids(), 5)[0])


def test_parts_keep_the_mode_that_they_had():
    made = model()
    made.train()
    made.blocks[0].eval()
    CPUDecoder(made)
    assert [block.training for block in made.blocks] == [False] + [True] * (len(made.blocks) - 1)


@pytest.mark.parametrize(
    ("attention", "reason"),
    [
        ({"kind": "sink"}, "another normalizer"),
        ({"kind": "linear"}, "of the kind LinearAttention"),
        ({"value_width": 8}, "another normalizer"),
    ],
    ids=str,
)
def test_what_has_no_short_way_takes_the_long_one(attention, reason):
    made = model(attention={"position": NoPosition()} | attention)
    fast = CPUDecoder(made)
    assert reason in fast.fallback_reason
    assert torch.equal(generate(fast, ids(), 5)[0], generate(made, ids(), 5)[0])


def test_a_table_that_ends_is_still_said():
    fast = CPUDecoder(model(attention={"position": Learned(16)}))
    with pytest.raises(InputError, match=r"knows positions 0\.\.15"):
        generate(fast, TEXTS, 10)


def test_a_wrong_product_is_noticed_and_not_used(monkeypatch):
    product = PackedLinear.__call__
    monkeypatch.setattr(PackedLinear, "__call__", lambda self, x: 1.001 * product(self, x))
    assert "differ from the model's" in CPUDecoder(model()).fallback_reason


@pytest.mark.parametrize("onednn", [True, False], ids=["oneDNN's blocks", "torch's product"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(192, 576), (768, 192), (128, 9001), (16, 8), (191, 600)], ids=str)
def test_a_packed_product_is_the_product(shape, dtype, onednn, monkeypatch):
    if not onednn:
        monkeypatch.setattr("equiscope.kernels.private.packs", lambda weight: False)
    torch.manual_seed(0)
    weight, bias = torch.randn(shape, dtype=dtype) / shape[0] ** 0.5, torch.randn(shape[1], dtype=dtype)
    for rows in (1, 3):
        x, to = torch.randn(rows, shape[0], dtype=dtype), torch.randn(rows, shape[1], dtype=dtype)
        wanted = x.double() @ weight.double() + bias.double()
        made = PackedLinear([weight], [bias])
        assert relative_error(made(x).double(), wanted) < 16 * torch.finfo(dtype).eps
        assert relative_error(made.add_to(x, to).double(), wanted + to.double()) < 16 * torch.finfo(dtype).eps
        both = PackedLinear([weight, weight], [bias, None], "gelu")(x).double()
        gelu = torch.nn.functional.gelu(torch.cat([wanted, wanted - bias.double()], -1))
        assert relative_error(both, gelu) < 16 * torch.finfo(dtype).eps


def test_it_is_prepared_under_autocast_and_with_frozen_switches(monkeypatch):
    made = model(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert CPUDecoder(model()).fallback_reason == ""
    monkeypatch.setattr(torch.backends, "__allow_nonbracketed_mutation_flag", False)  # as disable_global_flags() does
    assert generate(CPUDecoder(made), TEXTS[0], 3)[0].shape == (3,)


def test_weights_that_find_no_room_are_said_and_the_model_writes(monkeypatch):
    def none(*given, **more):
        raise RuntimeError("not enough memory: you tried to allocate 7 bytes")

    monkeypatch.setattr(importlib.import_module("equiscope.models.cpu_decoder"), "PackedLinear", none)
    fast = CPUDecoder(model())
    assert "could not be laid out: not enough memory" in fast.fallback_reason
    assert generate(fast, ids()[:1], 3)[0].shape == generate(model(), ids()[:1], 3)[0].shape
