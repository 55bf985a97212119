"""Laws of every preset at a small size: no future leak, caches, padding, the batch, and symmetries as derived."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.models import PRESETS, tiny
from equiscope.symmetry import CLAIMED, Permute, Shift, derive, measure, relative_error
from equiscope.tokens import Tokens

EXACT = 1e-12  # float64; measured below 1e-15
presets = pytest.mark.parametrize("name", PRESETS)
KINDS = ("softmax", "sink", "sigmoid", "differential", "linear")


def made(name, **changed):
    return made_of(replace(tiny(PRESETS[name]()), **changed))


def made_of(spec):
    torch.manual_seed(0)
    model = eq.build(spec).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.4)
    return model


def inputs(model, batch=2, seed=1):
    """Real inputs of each kind: ids, pictures, sounds, clips, points; as tokens."""
    generator, spec = torch.Generator().manual_seed(seed), model.spec
    if spec.vocabulary:
        given = model.tokens(torch.randint(spec.vocabulary, (batch, 7), generator=generator))
    elif spec.input.patch:
        shape = {1: (5 * 2,), 2: (3, 4, 4), 3: (4, 3, 4, 4)}[len(spec.input.patch)]
        grid = torch.randn(batch, *shape, generator=generator, dtype=torch.float64)
        given = model.tokens(grid)
    else:
        features = torch.randn(batch, 5, spec.input.features, generator=generator, dtype=torch.float64)
        at = torch.randn(5, 3, generator=generator, dtype=torch.float64)
        given = model.tokens(Tokens(x=features, positions=at, order=torch.arange(5)))
    n = given.x.shape[-2]
    return Tokens(x=given.x, positions=given.positions.double().expand(batch, n, -1), order=given.order.expand(batch, n))


class Answering(nn.Module):
    """A model, and what its encoder read, of one that has one."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, caches=None):
        spec, dtype = self.model.spec, tokens.x.dtype
        if spec.encoder is None:
            return self.model(tokens, caches)
        ids = torch.arange(6).expand(*tokens.x.shape[:-2], 6)
        source = self.model.encoder.tokens(ids)
        return self.model(tokens, caches, replace(source, x=source.x.to(dtype)))


def rows(tokens, *part, batch=slice(None)):
    part = slice(*part)
    valid = None if tokens.valid is None else tokens.valid[batch, part]
    return Tokens(x=tokens.x[batch, part], positions=tokens.positions[batch, part], order=tokens.order[batch, part], valid=valid)


CAUSAL = [name for name, preset in PRESETS.items() if preset().blocks[0].attention.causal]


@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_what_comes_later_is_not_seen(name):
    model = Answering(made(name))
    tokens = inputs(model.model)
    changed = tokens.x.clone()
    changed[:, 4:] = torch.randn(changed[:, 4:].shape, dtype=changed.dtype)
    before, after = model(tokens), model(replace(tokens, x=changed))
    assert torch.equal(before[:, :4], after[:, :4])
    assert relative_error(before[:, 4:], after[:, 4:]) > 1e-3


@pytest.mark.parametrize("name", CAUSAL)
@torch.no_grad()
def test_decoding_with_caches_is_the_full_pass(name):
    model = Answering(made(name))
    tokens, caches = inputs(model.model), model.model.caches()
    parts = [model(rows(tokens, i, i + 1), caches) for i in range(7)]
    assert relative_error(torch.cat(parts, 1), model(tokens)) < EXACT


@presets
@torch.no_grad()
def test_the_rest_of_the_batch_does_not_matter(name):
    model = Answering(made(name))
    tokens = inputs(model.model)
    assert relative_error(model(tokens)[1], model(rows(tokens, None, batch=slice(1, 2)))[0]) < EXACT


@presets
@pytest.mark.parametrize("side", ["left", "right"])
@torch.no_grad()
def test_padding_on_either_side_changes_nothing(name, side):
    model = Answering(made(name))
    tokens = inputs(model.model)
    n = tokens.x.shape[1]
    own = slice(2, None) if side == "left" else slice(None, n - 2)
    valid = torch.zeros(2, n, dtype=torch.bool)
    valid[:, own] = True
    padded, alone = model(replace(tokens, valid=valid)), model(rows(tokens, own.start, own.stop))
    assert relative_error(padded[:, own] if padded.ndim == 3 else padded, alone) < EXACT


def verdicts(model, tokens):
    generator = torch.Generator().manual_seed(5)
    step = Shift(1) if tokens.positions.shape[-1] == 1 else Shift((1,) * tokens.positions.shape[-1])  # inside a small grid
    for claim, action in zip(derive(model), CLAIMED, strict=True):
        element = step if action is Shift else action.sample(tokens, generator)
        yield claim, measure(model, tokens, element).verdict


@presets
def test_what_is_derived_is_what_is_measured(name):
    model = Answering(made(name))
    for claim, verdict in verdicts(model, rows(inputs(model.model), None, batch=slice(0, 1))):
        kept = verdict == "holds"
        assert kept == claim.holds, f"{claim.action}: derived {claim.holds}, measured {verdict}"


@pytest.mark.parametrize("readout", ["class", "mean", "first", "last", "concatenation"])
def test_a_picture_without_places_may_be_shuffled_under_a_mean_and_a_class_token_only(readout):
    """M3: patches of a ViT without positions, the class token held out of the shuffle."""
    spec = tiny(PRESETS["vit-ti"]()).with_position(eq.positions.NoPosition())
    plain = readout == "concatenation"
    changed = {"outputs": None, "output": eq.OutputLayer()} if plain else {}
    model = made_of(replace(spec, readout=readout, **changed))
    tokens = rows(inputs(model), None, batch=slice(0, 1))
    found = measure(model, tokens, Permute.sample(tokens, torch.Generator().manual_seed(3))).verdict
    assert (found == "holds") is (readout in ("class", "mean"))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_every_kind_of_attention_works_in_a_preset(kind):
    spec = tiny(PRESETS["nanogpt-char"]())
    block = replace(spec.uniform_block, attention=replace(spec.uniform_block.attention, kind=kind))
    model = made("nanogpt-char", block=block)
    tokens, caches = inputs(model), model.caches()
    parts = [model(rows(tokens, i, i + 1), caches) for i in range(7)]
    assert relative_error(torch.cat(parts, 1), model(tokens)) < 1e-10


def test_a_preset_is_built_by_its_name_and_survives_json():
    for name, preset in PRESETS.items():
        spec = eq.models.spec_of(name)
        assert spec == preset()
        assert eq.Spec.of(spec.to_dict()) == spec
        assert eq.Spec.of(tiny(spec).to_dict()) == tiny(spec)
