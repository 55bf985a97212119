"""Baselines are what textbooks call so: torch's LSTM, convolutions that slide, one line of numbers; and cost what is said."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import equiscope as eq
from equiscope.errors import InputError, ShapeError, UnknownName
from equiscope.models import Baseline, Beams, ConvNet, Lstm, Mlp, Sampling, generate, spec_of
from equiscope.symmetry import relative_error

LSTM = Baseline("lstm", 12, 2, vocabulary=9, outputs=9)
MLP = Baseline("mlp", 12, 3, shape=(2, 5, 7), outputs=4)
CONVNET = Baseline("convnet", 12, 4, shape=(2, 9, 14), outputs=4)
ALL = {"lstm": LSTM, "mlp": MLP, "convnet": CONVNET}


def inputs(spec, batch=3):
    if spec.baseline == "lstm":
        return torch.randint(9, (batch, 11))
    return torch.randn(batch, *spec.shape, dtype=torch.float64)


@pytest.mark.parametrize("name", ALL)
def test_parameters_and_multiply_adds_are_those_of_the_built_model(name):
    spec = ALL[name]
    model = eq.build(spec).double()
    said = eq.describe(spec, 11)
    assert said.parameters == sum(p.numel() for p in model.parameters())
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(inputs(spec, 1))
    assert said.multiply_adds == counter.get_total_flops() // 2


@pytest.mark.parametrize("name", ALL)
def test_a_description_reads_as_a_table(name):
    text = str(eq.describe(ALL[name], 11))
    assert ("Symmetries that follow" in text) == (name == "lstm")
    assert "pair" not in text
    assert ("11 tokens" in text) == (name == "lstm")


@pytest.mark.parametrize("name", ALL)
def test_it_is_the_same_after_a_way_through_plain_data(name):
    spec = ALL[name]
    assert spec_of(spec.to_dict()) == spec
    assert type(eq.build(spec.to_dict())) is type(eq.build(spec))
    assert isinstance(spec_of({"width": 8}), eq.Spec)


def test_several_layers_are_torchs_own_stack():
    ours = eq.build(LSTM).double()
    theirs = nn.LSTM(12, 12, 2, batch_first=True, dtype=torch.float64)
    layers = {f"{name[:-1]}{i}": p for i, layer in enumerate(ours.blocks) for name, p in layer.named_parameters()}
    theirs.load_state_dict({name: p.detach() for name, p in layers.items()})
    ids = inputs(LSTM)
    assert relative_error(ours(ids), ours.output_layer(theirs(ours.embedding(ids))[0])) < 1e-12


def test_a_step_is_hochreiters_and_schmidhubers():
    model = eq.build(LSTM).double()
    ids = inputs(LSTM, 1)[0]
    states = [(torch.zeros(12, dtype=torch.float64),) * 2] * 2
    for token, answer in zip(ids, model(ids), strict=True):
        x = model.embedding.weight[token]
        for i, layer in enumerate(model.blocks):
            told, kept = states[i]
            gates = layer.weight_ih_l0 @ x + layer.bias_ih_l0 + layer.weight_hh_l0 @ told + layer.bias_hh_l0
            enter, stay, new, tell = gates.chunk(4)
            kept = stay.sigmoid() * kept + enter.sigmoid() * new.tanh()
            x = tell.sigmoid() * kept.tanh()
            states[i] = x, kept
        assert relative_error(model.output_layer(x), answer) < 1e-12


def test_forgetting_begins_late():
    bias = eq.build(LSTM).blocks[0].bias_ih_l0
    assert bias.chunk(4)[1].tolist() == [1.0] * 12
    assert not torch.cat([*bias.chunk(4)[:1], *bias.chunk(4)[2:]]).any()


def test_an_lstm_reads_no_later_token():
    model, ids = eq.build(LSTM).double(), inputs(LSTM)
    other = ids.clone()
    other[:, 6:] = (other[:, 6:] + 1) % 9
    assert torch.equal(model(ids)[:, :6], model(other)[:, :6])
    assert not torch.allclose(model(ids)[:, 6:], model(other)[:, 6:])


def test_texts_go_on_as_each_would_alone_and_as_read_anew():
    model = eq.build(LSTM).double().eval()
    prompts = [torch.tensor([1, 2, 3, 4]), torch.tensor([5])]
    together = generate(model, prompts, 6)
    for prompt, made in zip(prompts, together, strict=True):
        assert torch.equal(generate(model, [prompt], 6)[0], made)
        whole = prompt
        for _ in range(6):  # from the beginning, without a state
            whole = torch.cat([whole, model(whole)[-1:].argmax(-1)])
        assert torch.equal(whole[len(prompt) :], made)
    first = generate(model, prompts, 6, Sampling(temperature=1.0, repetition_penalty=1.5), seed=3)
    assert all(map(torch.equal, first, generate(model, prompts, 6, Sampling(temperature=1.0, repetition_penalty=1.5), seed=3)))
    assert generate(model, prompts[:1], 6, stop=[int(together[0][2])])[0].tolist()[-1] == int(together[0][2])


def test_what_cannot_go_on_is_refused():
    model = eq.build(LSTM)
    with pytest.raises(InputError, match="of the baselines, an LSTM"):
        generate(eq.build(MLP), torch.tensor([1]), 2)
    with pytest.raises(InputError, match="leave source, beams, window and draft out"):
        generate(model, torch.tensor([1]), 2, beams=Beams(2))
    with pytest.raises(InputError, match="A prompt is empty"):
        generate(model, [torch.tensor([], dtype=torch.long)], 2)


def test_a_convnet_does_not_notice_that_a_picture_slides_by_whole_strides():
    model = eq.build(Baseline("convnet", 8, 4, shape=(1, 32, 32), outputs=5)).double()
    picture = torch.zeros(1, 32, 32, dtype=torch.float64)
    picture[:, 12:16, 12:16] = torch.randn(4, 4)  # far from every edge; what is empty stays 0 where norms add nothing
    answer = model(picture)
    assert relative_error(model(picture.roll((4, -4), (1, 2))), answer) < 1e-12  # two layers of stride 2
    assert relative_error(model(picture.roll((1, 0), (1, 2))), answer) > 1e-3


def test_a_convnet_takes_pictures_of_other_sizes_and_an_mlp_does_not():
    assert eq.build(CONVNET)(torch.randn(3, 2, 20, 20)).shape == (3, 4)
    assert eq.build(CONVNET)(torch.randn(2, 20, 20)).shape == (4,)
    with pytest.raises(ShapeError, match=r"takes \(2, 5, 7\) numbers at once, but got the shape \(3, 2, 5, 8\)"):
        eq.build(MLP)(torch.randn(3, 2, 5, 8))
    with pytest.raises(ShapeError, match=r"pictures \[\.\.\., 2, H, W\]"):
        eq.build(CONVNET)(torch.randn(3, 1, 9, 9))
    with pytest.raises(InputError, match="takes ids"):
        eq.build(LSTM)(torch.randn(3, 9))


@pytest.mark.parametrize("name", ALL)
def test_nobody_in_a_batch_is_seen_by_another(name):
    model, x = eq.build(ALL[name]).double(), inputs(ALL[name])
    for row, answer in zip(x, model(x), strict=True):
        assert relative_error(model(row), answer) < 1e-12


def test_a_sound_of_another_length_is_cut_or_followed_by_zeros():
    model = eq.build(Baseline("mlp", 8, 1, shape=(5, 3), outputs=2)).double()
    x = torch.randn(7, 3, dtype=torch.float64)
    at, order = torch.arange(7.0)[:, None], torch.arange(7)
    heard = model(eq.Tokens(x=x, positions=at, order=order, valid=order < 4))
    padded = torch.cat([x[:4], torch.zeros(1, 3)])
    assert relative_error(heard, model(padded)) < 1e-12
    assert relative_error(model(eq.Tokens(x=x, positions=at, order=order)), model(x[:5])) < 1e-12


def test_dropout_is_drawn_only_while_it_is_trained():
    model = eq.build(Baseline("mlp", 64, 2, shape=(4, 4), outputs=2, dropout=0.5))
    x = torch.randn(4, 4)
    assert not torch.equal(model(x), model(x))
    assert torch.equal(model.eval()(x), model(x))


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"baseline": "gru"}, UnknownName, "no baseline called 'gru'. Known: lstm, mlp, convnet"),
        ({"baseline": "mlp"}, InputError, "needs shape and no vocabulary"),
        ({"baseline": "lstm", "vocabulary": 3, "shape": [1]}, InputError, "needs vocabulary and no shape"),
        ({"baseline": "mlp", "shape": [4], "halve": 3}, InputError, 'halve belongs to a baseline "convnet"'),
        ({"baseline": "convnet", "shape": [4, 4]}, InputError, r"a shape \(channels, rows, columns\)"),
        ({"baseline": "mlp", "shape": [4], "block": {}, "tied": True}, InputError, "no block and no tied: of a transformer only"),
        ({"baseline": "mlp", "shape": [4], "widht": 3}, UnknownName, "called 'widht'"),
    ],
)
def test_what_does_not_fit_is_refused(said, error, words):
    with pytest.raises(error, match=words):
        Baseline.of({"width": 8} | said)


def test_the_kinds_are_what_they_are_called():
    assert [type(eq.build(spec)) for spec in ALL.values()] == [Lstm, Mlp, ConvNet]
