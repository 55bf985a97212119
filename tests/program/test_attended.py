"""Attention of any model, taken apart and recomputed: the weights equal those of the eager code of other libraries."""

import pytest
import torch
from torch import nn

from equiscope.audit.inputs.tiny_config import config_class_of, tiny
from equiscope.errors import InputError
from equiscope.models import Attention, Block, Spec, build
from equiscope.positions import SCHEMES
from equiscope.program.attended.attended import attended
from tests.judges import transformers
from tests.pictures_of_timm import vit

IDS = torch.tensor([[5, 9, 14, 3, 22, 8, 31]])
WRITERS = (
    "GPT2LMHeadModel", "LlamaForCausalLM", "BertModel", "BloomForCausalLM", "GPTNeoXForCausalLM", "MixtralForCausalLM",
    "GptOssForCausalLM", "MptForCausalLM", "FalconForCausalLM", "Gemma3ForCausalLM", "Qwen2ForCausalLM", "DebertaV2Model",
    "XLNetModel", "OPTForCausalLM", "ModernBertModel",
)  # fmt: skip
EXPERTS = ("MixtralForCausalLM", "GptOssForCausalLM")  # whose grouped product has no kernel for float64


def of(name, **more):
    """A small model of transformers at random weights; the same ones for the same name."""
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    return kind._from_config(tiny(config_class_of(kind)), **more).eval()


def weights_of(found):
    return [torch.stack([one.best_weights(h) for h in range(one.heads)]) for one in found]


@pytest.mark.parametrize("name", WRITERS)
def test_weights_of_a_model_as_it_runs_are_those_of_its_eager_code(name):
    dtype = torch.float32 if name in EXPERTS else torch.float64
    found = attended(of(name).to(dtype), (IDS,))
    told = of(name, attn_implementation="eager").to(dtype)(IDS, output_attentions=True).attentions
    told = [t[0] if isinstance(t, (tuple, list)) else t for t in told]
    assert len(found) == len(told)
    for one, ours, theirs in zip(found, weights_of(found), told, strict=True):
        assert one.trusted
        assert torch.allclose(ours, theirs[0, ..., : IDS.shape[1]].double(), atol=1e-6)  # without a sink's column


def test_all_three_kinds_of_t5_are_found_in_order():
    given = {"input_ids": IDS, "decoder_input_ids": IDS[:, :4]}
    found = attended(of("T5ForConditionalGeneration").double(), kwargs=given)
    said = of("T5ForConditionalGeneration", attn_implementation="eager").double()(**given, output_attentions=True)
    decoder = [w for pair in zip(said.decoder_attentions, said.cross_attentions, strict=True) for w in pair]
    for ours, theirs in zip(weights_of(found), [*said.encoder_attentions, *decoder], strict=True):
        assert torch.allclose(ours, theirs[0].double(), atol=1e-6)
    assert [one.k.shape[-2] for one in found] == [7, 7, 4, 7, 4, 7]


def test_a_picture_model_is_found_too():
    picture = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1)).double()
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=16, patch_size=4
    )
    torch.manual_seed(0)
    fused = transformers.ViTModel(config).eval().double()
    torch.manual_seed(0)
    eager = transformers.ViTModel._from_config(config, attn_implementation="eager").eval().double()
    eager.load_state_dict(fused.state_dict())
    for ours, theirs in zip(
        weights_of(attended(fused, (picture,))), eager(picture, output_attentions=True).attentions, strict=True
    ):
        assert torch.allclose(ours, theirs[0], atol=1e-9)


def test_a_vision_transformer_of_timm_is_seen_fused_and_written_out():
    model, picture = vit()
    fused = attended(model.double(), (picture.double(),))
    for block in model.blocks:
        block.attn.fused_attn = False
    written = attended(model, (picture.double(),))
    assert [one.module for one in fused] == ["blocks.0.attn", "blocks.1.attn"]
    for ours, theirs in zip(weights_of(fused), written, strict=True):
        assert torch.allclose(ours, theirs.weights, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_torchs_own_layers_are_seen_though_they_fuse_all(causal):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).eval().double()
    x = torch.randn(1, 6, 32).double()
    mask = nn.Transformer.generate_square_subsequent_mask(6).double() if causal else None
    first = attended(model, (x, mask), {"is_causal": causal})[0]
    told = model.layers[0].self_attn(x, x, x, attn_mask=mask, average_attn_weights=False)[1]
    assert first.causal == causal
    assert torch.allclose(weights_of([first])[0], told[0], atol=1e-12)


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s().axes in (1, None)], ids=lambda s: s.name)
def test_our_own_models_are_seen_under_every_scheme(scheme):
    torch.manual_seed(0)
    spec = Spec(width=32, layers=1, vocabulary=40, block=Block(attention=Attention(heads=4, position=scheme(), causal=True)))
    model = build(spec).double().eval()
    for ids in (IDS, torch.randint(40, (1, 150))):  # a fast path for longer rows takes them block by block
        (found,) = attended(model, (ids,))
        assert found.module == "blocks.0.attention"
        assert found.reconstruction_error < 1e-12
        assert not found.best_weights(0).triu(1).any(), "the rows are in the order of the tokens"


class ByHand(nn.Module):
    """Attention written out in some way. after: what is done to the weights behind their softmax."""

    def __init__(self, how, after=lambda a: a):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.how, self.after = how, after

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (4, 4)) for f in (self.q, self.k, self.v))
        n = x.shape[1]
        if self.how == "einsum":
            weights = torch.softmax(torch.einsum("bnhk,bmhk->bhnm", q, k) / 2, -1)
        else:
            scores = q.transpose(1, 2) @ k.transpose(1, 2).transpose(-1, -2)
            far = (torch.arange(n)[:, None] - torch.arange(n)).abs()
            scores = {
                "scaled": scores / 2,
                "unscaled": scores,
                "odd scale": scores * 0.37,
                "biased": scores / 2 - 0.3 * far,
                "windowed": (scores / 2).masked_fill(far > 2, float("-inf")),
                "minus 1e9": (scores / 2).masked_fill(far > 2, -1e9),
            }[self.how]
            weights = torch.softmax(scores, -1)
        self.weights = self.after(weights)
        return torch.einsum("bhnm,bmhv->bnhv", self.weights, v).flatten(-2)


@pytest.mark.parametrize("how", ["einsum", "scaled", "unscaled", "odd scale", "biased", "windowed", "minus 1e9"])
def test_attention_by_hand_is_put_together_however_it_is_written(how):
    model = ByHand(how).double()
    (one,) = attended(model, (torch.randn(1, 6, 16).double(),))
    scales = {"unscaled": 1.0, "odd scale": 0.37}
    assert one.reconstruction_error < 1e-9
    assert one.scale == pytest.approx(scales.get(how, 0.5))
    assert (one.bias is not None) == (how == "biased")
    assert (one.mask is not None) == (how in ("windowed", "minus 1e9"))
    assert torch.allclose(weights_of([one])[0], model.weights[0], atol=1e-9)


def test_weights_that_are_changed_behind_the_softmax_are_not_made_up():
    """The numbers that a person sees are then the model's, and it is said that they do not follow."""
    model = ByHand("scaled", after=lambda a: a * 1.005).double()
    (one,) = attended(model, (torch.randn(1, 6, 16).double(),))
    assert not one.trusted
    assert one.reconstruction_error == pytest.approx(0.005, rel=0.1)
    assert torch.equal(weights_of([one])[0], model.weights[0])


def test_watching_changes_no_answer():
    model = of("GPT2LMHeadModel")
    with torch.no_grad():
        before = model(IDS).logits
        attended(model, (IDS,))
        assert torch.equal(model(IDS).logits, before)


@pytest.mark.parametrize("name", ["ResNetModel", "MambaForCausalLM"])
def test_a_model_without_attention_is_refused(name):
    given = torch.randn(1, 3, 32, 32) if name == "ResNetModel" else IDS
    with pytest.raises(InputError, match="No attention was found in"):
        attended(of(name), (given,))


def test_what_a_model_raises_is_said():
    with pytest.raises(InputError, match="GPT2LMHeadModel raised IndexError on this input"):
        attended(of("GPT2LMHeadModel"), (IDS + 10**6,))
