"""Encoder and decoder of Vaswani et al. 2017 against torch's own layers, on the same weights, in float64."""

import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick

D, H, LAYERS = 12, 3, 2


def theirs(order):
    torch.manual_seed(0)
    settings = {"d_model": D, "nhead": H, "dim_feedforward": 20, "dropout": 0.0, "batch_first": True, "norm_first": order == "pre"}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**settings), LAYERS, enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**settings), LAYERS)
    for model in (encoder, decoder):
        model.double().eval()
        for p in model.parameters():
            nn.init.normal_(p, std=0.4)
    return encoder, decoder


def ours(order):
    def block(decoder):
        cross = eq.Attention(heads=H, bias=True) if decoder else None
        return eq.Block(
            eq.Attention(heads=H, causal=decoder, bias=True), eq.Norm(order=order), eq.FeedForward(20, "relu"), cross=cross
        )

    return eq.build(eq.Spec(D, layers=LAYERS, block=block(True), encoder=eq.Spec(D, layers=LAYERS, block=block(False)))).double()


def attention(mine, yours):
    layers = mine.q_proj, mine.k_proj, mine.v_proj
    for layer, weight, bias in zip(layers, yours.in_proj_weight.chunk(3), yours.in_proj_bias.chunk(3), strict=True):
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    mine.o_proj.weight.copy_(yours.out_proj.weight)
    mine.o_proj.bias.copy_(yours.out_proj.bias)


def layer(mine, yours):
    attention(mine.attention, yours.self_attn)
    norms = [mine.attention_norm, mine.feedforward_norm]
    if mine.cross is not None:
        attention(mine.cross, yours.multihead_attn)
        norms = [mine.attention_norm, mine.cross_norm, mine.feedforward_norm]
    for i, norm in enumerate(norms):
        norm.weight.copy_(getattr(yours, f"norm{i + 1}").weight)
        norm.bias.copy_(getattr(yours, f"norm{i + 1}").bias)
    f = mine.feedforward
    f.up_proj.weight.copy_(yours.linear1.weight)
    f.up_proj.bias.copy_(yours.linear1.bias)
    f.down_proj.weight.copy_(yours.linear2.weight)
    f.down_proj.bias.copy_(yours.linear2.bias)


@pytest.mark.parametrize("order", ["post", "pre"])
@torch.no_grad()
def test_an_encoder_and_a_decoder_are_torchs(order):
    (encoder, decoder), model = theirs(order), ours(order)
    for mine, yours in ((model.encoder, encoder), (model, decoder)):
        for a, b in zip(mine.blocks, yours.layers, strict=True):
            layer(a, b)
    x, source = torch.randn(2, 5, D).double(), torch.randn(2, 7, D).double()
    memory = encoder(source)
    wanted = decoder(x, memory, tgt_mask=nn.Transformer.generate_square_subsequent_mask(5).double(), tgt_is_causal=True)
    if order == "pre":  # ours ends with a norm, at gain 1; torch's as it was asked for has none
        norm = nn.functional.layer_norm
        wanted = decoder(x, norm(memory, (D,)), tgt_mask=nn.Transformer.generate_square_subsequent_mask(5).double())
        wanted = norm(wanted, (D,))
    assert relative_error(model(x, source=source), wanted) < 1e-12
