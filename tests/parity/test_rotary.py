"""RoPE against Hugging Face's own functions: Llama (half), GPT-J and GLM (interleaved, part of the head), grouped queries (P7)."""

import pytest
import torch

from equiscope.positions import Rope
from equiscope.positions.rope import half_from_interleaved, interleaved_from_half
from equiscope.positions.scaling import Linear, Llama3, Yarn
from equiscope.symmetry import relative_error
from tests.judges import transformers

pytestmark = pytest.mark.quick

WIDTH, HEADS, SHARED, HEAD, LENGTH = 32, 4, 2, 16, 9  # four query heads, two key heads
PLACES = torch.arange(5, 5 + LENGTH).double()


def clocks(columns, dtype=torch.float64):
    angle = PLACES[:, None] * 10000.0 ** (-torch.arange(0, columns, 2).double() / columns)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def weights():
    """Of queries and keys, as Hugging Face keeps them: [out, in]."""
    return torch.randn(HEADS * HEAD, WIDTH).double(), torch.randn(SHARED * HEAD, WIDTH).double()


def heads(x, weight, count):
    """x [B, N, D] times weight [D, H*K] to [B, H, N, K]."""
    return (x @ weight).unflatten(-1, (count, HEAD)).transpose(1, 2)


def scores(q, k):
    return q @ k.repeat_interleave(HEADS // SHARED, 1).mT


def ours(x, query, key, scheme):
    """Scores of a scheme, from weights [D, H*K]."""
    q, k = heads(x, query, HEADS), heads(x, key, SHARED)
    return scores(scheme.rotate(q, PLACES[:, None], "query"), scheme.rotate(k, PLACES[:, None], "key"))


def llamas(x, query, key):
    cosine, sine = (torch.cat([t, t], -1)[None] for t in clocks(HEAD))
    return scores(
        *transformers.models.llama.modeling_llama.apply_rotary_pos_emb(
            heads(x, query.T, HEADS), heads(x, key.T, SHARED), cosine, sine
        )
    )


def glms(x, query, key, columns):
    cosine, sine = (torch.cat([t, t], -1)[None] for t in clocks(columns))
    return scores(
        *transformers.models.glm.modeling_glm.apply_rotary_pos_emb(heads(x, query.T, HEADS), heads(x, key.T, SHARED), cosine, sine)
    )


def test_halves_are_llamas():
    x, (query, key) = torch.randn(2, LENGTH, WIDTH).double(), weights()
    assert relative_error(ours(x, query.T, key.T, Rope(pairs="half")), llamas(x, query, key)) < 1e-14


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_interleaved_is_glms(fraction):
    x, (query, key) = torch.randn(2, LENGTH, WIDTH).double(), weights()
    theirs = glms(x, query, key, round(HEAD * fraction))
    assert relative_error(ours(x, query.T, key.T, Rope(fraction=fraction)), theirs) < 1e-14


def test_interleaved_is_gptjs():
    x = torch.randn(2, LENGTH, HEADS, HEAD).double()
    cosine, sine = clocks(HEAD)
    theirs = transformers.models.gptj.modeling_gptj.apply_rotary_pos_emb(x, sine[None], cosine[None]).transpose(1, 2)
    assert relative_error(Rope().rotate(x.transpose(1, 2), PLACES[:, None], "key"), theirs) < 1e-15


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_glms_weights_run_in_halves_after_conversion(fraction):
    """Grouped queries: each projection is reordered by its own number of heads."""
    x, (query, key), turning = torch.randn(2, LENGTH, WIDTH).double(), weights(), round(HEAD * fraction)
    converted = half_from_interleaved(query, HEADS, turning).T, half_from_interleaved(key, SHARED, turning).T
    scheme, theirs = Rope(pairs="half", fraction=fraction), glms(x, query, key, turning)
    assert relative_error(ours(x, *converted, scheme), theirs) < 1e-14
    assert relative_error(ours(x, query.T, key.T, scheme), theirs) > 0.1  # unconverted weights are another model


def test_llamas_weights_run_interleaved_after_conversion():
    x, (query, key) = torch.randn(2, LENGTH, WIDTH).double(), weights()
    converted = interleaved_from_half(query, HEADS).T, interleaved_from_half(key, SHARED).T
    assert relative_error(ours(x, *converted, Rope()), llamas(x, query, key)) < 1e-14


@pytest.mark.parametrize(
    ("scaling", "parameters"),
    [
        (None, {"rope_type": "default"}),
        (Linear(4.0), {"rope_type": "linear", "factor": 4.0}),
        (Yarn(4.0, trained=64), {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}),
        (
            Llama3(8.0, 1.0, 4.0, trained=64),
            {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        ),
    ],
    ids=["default", "linear", "yarn", "llama3"],
)  # fmt: skip
def test_a_whole_rotary_module_of_llama_gives_the_same(scaling, parameters):
    """Their module as it ships, in float32: frequencies, temperature, rotation."""
    config = transformers.LlamaConfig(
        hidden_size=HEADS * HEAD, num_attention_heads=HEADS, max_position_embeddings=64,
        rope_parameters={"rope_theta": 500.0, **parameters},
    )  # fmt: skip
    q, k = torch.randn(1, HEADS, LENGTH, HEAD), torch.randn(1, SHARED, LENGTH, HEAD)
    theirs = transformers.models.llama.modeling_llama.apply_rotary_pos_emb(
        q, k, *transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)(q, PLACES[None])
    )
    scheme = Rope(base=500.0, pairs="half", scaling=scaling)
    for found, wanted in zip(
        (scheme.rotate(q, PLACES[:, None].float(), "query"), scheme.rotate(k, PLACES[:, None].float(), "key")), theirs, strict=True
    ):
        assert relative_error(found, wanted) < 2e-6  # float32: frequencies to 1e-7, angles up to 13


def test_after_bfloat16_their_far_angles_are_wrong_and_ours_are_not():
    """Their frequencies are a buffer and are rounded with the weights; ours are nobody's."""
    module = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(
        transformers.LlamaConfig(hidden_size=128, num_attention_heads=2, head_dim=64)
    ).bfloat16()
    wanted = 4096 * 10000.0 ** (-torch.arange(0, 64, 2).double() / 64)
    theirs = 4096 * module.inv_freq.double()
    assert (theirs - wanted).abs().max() > 1
    assert (Rope().sized(128, 2, 64).bfloat16().frequencies(64) * 4096 - wanted).abs().max() < 1e-10
