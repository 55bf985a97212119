"""Learned tables of places: what shifts with the words, and what does not."""

import pytest
import torch
from torch import nn

from equiscope.models import Attention, Block, Spec, build
from equiscope.positions import Learned, Sinusoidal
from equiscope.program.attended.position_tables import position_table, position_tables
from equiscope.record import unpack
from tests.judges import transformers


def test_waves_shift_with_the_words_and_chance_does_not():
    waves = Sinusoidal().encode(torch.arange(64.0)[:, None], 32).double()
    chance = torch.randn(64, 32, generator=torch.Generator().manual_seed(0)).double()
    assert position_table("waves", waves).shift_invariance > 0.95
    assert position_table("chance", chance).shift_invariance < 0.2


def test_figures_are_cosines_of_rows_without_their_mean():
    rows = torch.randn(20, 8, generator=torch.Generator().manual_seed(0)).double()
    found = position_table("x", rows)
    centred = rows - rows.mean(0)
    cosines = torch.nn.functional.cosine_similarity(centred[:, None], centred[None], dim=-1)
    assert torch.allclose(torch.tensor(unpack(found.cosines)).double(), cosines, atol=1e-6)
    assert found.distance[3] == pytest.approx(cosines.diagonal(3).mean().item())
    assert found.spread[3] == pytest.approx(cosines.diagonal(3).std(correction=0).item())
    assert len(found.distance) == 20


def test_one_frequency_is_found_where_it_is():
    rows = torch.sin(2 * torch.pi * 5 * torch.arange(40.0) / 40)[:, None] * torch.ones(1, 4)
    spectrum = position_table("x", rows.double()).spectrum
    assert spectrum[4] > 0.99
    assert sum(spectrum) == pytest.approx(1, abs=1e-9)


def test_on_a_grid_distance_is_that_of_patches():
    y, x = torch.meshgrid(torch.arange(5.0), torch.arange(6.0), indexing="ij")
    spots = torch.stack([y.flatten(), x.flatten()], -1).double()
    bumps = torch.exp(-(torch.cdist(spots, spots) ** 2) / 2)
    found = position_table("x", bumps, [5, 6])
    assert (found.grid, found.spectrum) == ([5, 6], [])
    assert found.shift_invariance > 0.8
    assert found.distance[1] > found.distance[3]


TINY = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}


def test_tables_of_known_models_are_found_by_name():
    def of(model, grids=()):
        return [(p.where, p.rows, p.grid) for p in position_tables(model, grids)]

    gpt = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=50, n_positions=24, n_embd=32, n_layer=1, n_head=4))
    assert of(gpt) == [("transformer.wpe", 24, [])]
    bert = transformers.BertModel(transformers.BertConfig(vocab_size=50, max_position_embeddings=30, **TINY))
    assert of(bert) == [("embeddings.position_embeddings", 30, [])]
    vit = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **TINY))
    assert of(vit, [(0, [4, 4]), (1, [4, 4])]) == [("embeddings.position_embeddings", 16, [4, 4])]
    ours = build(Spec(width=32, vocabulary=9, block=Block(attention=Attention(heads=4, position=Learned(length=12)))))
    assert [(rows, grid) for _, rows, grid in of(ours)] == [(12, [])]
    assert of(nn.Linear(8, 8)) == []


def test_a_table_of_equal_rows_is_no_division_by_zero():
    found = position_table("x", torch.ones(6, 4).double())
    assert (found.shift_invariance, sum(found.spectrum)) == (1.0, 0.0)
