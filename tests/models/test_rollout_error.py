"""The attention weights of a layer and their rollout, as others compute them."""

import pytest
import torch
from tests.checkpoints.test_parity import ENCODERS, asked, ids, peer
from tests.judges import transformers

import equiscope as eq
from equiscope.errors import InputError
from equiscope.interventions.attribution.rollout import rollout
from equiscope.models import PRESETS, resized, tiny
from equiscope.program.attended import attended
from equiscope.symmetry import relative_error


@pytest.mark.parametrize("name", ["vit, classes", "bert, masked words", "gpt2", "t5"])
@torch.no_grad()
def test_the_weights_of_every_layer_are_theirs(name, tmp_path):
    theirs = peer(name)
    theirs.save_pretrained(tmp_path)
    ours = eq.load(tmp_path)
    given = {"input_ids": ids()} if name == "gpt2" else asked(name)
    output = theirs(**given, output_attentions=True)
    wanted = output.decoder_attentions if name == "t5" else output.attentions
    source = given["input_ids"] if name == "t5" else None
    inputs = given.get("decoder_input_ids", given.get("pixel_values", given.get("input_ids")))
    layers = attended(ours, (inputs,), {"source": source})
    layers = [layer for layer in layers if not layer.module.startswith("encoder") and "cross" not in layer.module]
    assert len(layers) == len(wanted) > 1
    for layer, weights in zip(layers, wanted, strict=True):
        found = torch.stack([layer.best_weights(head) for head in range(layer.heads)])
        assert relative_error(found, weights[0]) < 1e-5


def test_a_rollout_is_the_product_of_the_layers_with_their_residual_paths():
    layers = [torch.rand(2, 3, 5, 5).softmax(-1) for _ in range(3)]
    wanted = torch.eye(5).expand(2, 5, 5)
    for layer in layers:
        mixed = layer.mean(1) + torch.eye(5)
        wanted = (mixed / mixed.sum(-1, keepdim=True)) @ wanted
    found = rollout(layers)
    assert torch.allclose(found, wanted, atol=1e-6)
    assert torch.allclose(found.sum(-1), torch.ones(2, 5), atol=1e-6)


def test_without_attention_nothing_flows():
    assert torch.equal(rollout([torch.eye(4).expand(2, 4, 4)] * 3), torch.eye(4))


def test_what_cannot_be_asked_is_said():
    with pytest.raises(InputError, match="one layer or more"):
        rollout([])


@pytest.mark.parametrize("name", ["vit, classes", "deit, classes"])
@torch.no_grad()
def test_a_vit_reads_pictures_of_another_size_as_theirs_does(name, tmp_path):
    theirs = peer(name)
    theirs.save_pretrained(tmp_path)
    model = resized(eq.load(tmp_path), (48, 40))
    pictures = torch.randn(2, 3, 48, 40)
    wanted = theirs(pictures, interpolate_pos_encoding=True).logits
    assert relative_error(model(pictures), wanted) < 1e-5
    assert model.spec.uniform_block.attention.position.shape == (6, 5)
    written = eq.save(model, tmp_path / "larger")
    again = getattr(transformers, ENCODERS[name][0]).from_pretrained(written).eval()
    assert relative_error(again(pictures).logits, wanted) < 1e-5


def test_a_model_without_a_grid_has_no_size():
    with pytest.raises(InputError, match="learned grid"):
        resized(eq.build(tiny(PRESETS["gpt2"]())), (8, 8))
    with pytest.raises(InputError, match="multiple of the cell"):
        resized(eq.build(tiny(PRESETS["vit-ti"]())), (7, 8))


@pytest.mark.parametrize(
    "layers", [[torch.rand(2, 3, 4)], [torch.rand(2, 3, 3), torch.rand(2, 4, 4)], [torch.ones(2, 3, 3).long()]]
)
def test_what_are_no_weights_is_refused(layers):
    with pytest.raises(InputError, match=r"Weights are \[\.\.\., H, N, N\], with one N for all layers"):
        rollout(layers)
