"""Models of torch, of transformers and of ours: their claims are proved on their graphs."""

import pytest
import torch
from torch import Tensor, nn

import equiscope as eq
from tests.audit.proof.summaries import N, proofs, said, words
from tests.pairwise import each_value, few

YES, NO, DUNNO = "proved", "refuted", "unknown"
IDS = torch.randint(40, (2, 9), generator=torch.Generator().manual_seed(0))
WIDE = words(width=8)
MASK = nn.Transformer.generate_square_subsequent_mask(N)


class Attending(nn.Module):
    """torch's attention; mask: what is given to it."""

    def __init__(self, mask: Tensor | None = None, weights: bool = False, kind: str = "attention") -> None:
        super().__init__()
        self.mask, self.weights = mask, weights
        self.inner: nn.Module = nn.MultiheadAttention(8, 2, batch_first=True)
        if kind != "attention":
            self.inner = nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True, norm_first=kind == "first")

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.inner, nn.TransformerEncoderLayer):
            return self.inner(x, src_mask=self.mask)
        return self.inner(x, x, x, attn_mask=self.mask, need_weights=self.weights)[0]


@each_value(
    pytest.mark.parametrize("weights", [True, False]),
    pytest.mark.parametrize("kind", ["attention", "last", "first"]),
    pytest.mark.parametrize(
        ("mask", "wanted"),
        [(None, (YES, NO, YES)), (MASK, (NO, YES, YES)), (MASK.mT.contiguous(), (NO, NO, YES))],
        ids=["no mask", "causal", "anticausal"],
    ),
)
def test_attention_of_torch_is_a_set_function_without_a_mask_and_causal_with_one(
    mask: Tensor | None, wanted: tuple[str, str, str], kind: str, weights: bool
):
    assert said(Attending(mask, weights, kind), WIDE) == wanted


@pytest.mark.thorough
def test_without_gradients_the_fused_layer_is_proved_by_its_definition():
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False).eval()
    with torch.no_grad():
        assert said(layer, WIDE) == (YES, NO, YES)
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.thorough
def test_a_layer_that_takes_the_batch_second_is_read_so():
    layer = nn.TransformerEncoderLayer(8, 2, 16)  # [N, B, D]
    assert said(layer, words(batch=5, length=4, width=8)) == (YES, NO, YES)


def test_a_model_of_ones_own_that_holds_such_a_layer_mixes_the_batch():
    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.TransformerEncoderLayer(8, 2, 16)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    found = proofs(Wrong(), WIDE)
    assert [found[n].answer for n in ("permute", "causal", "batch")] == [YES, YES, NO]
    assert found["batch"].where == "inner.self_attn"


def test_flags_for_padding_move_with_the_tokens():
    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
            return self.inner(x, x, x, key_padding_mask=key_padding_mask, need_weights=False)[0]

    hidden = torch.zeros(3, N, dtype=torch.bool)
    hidden[:, -2:] = True
    assert said(Padded(), x=WIDE, key_padding_mask=hidden, kinds={"x": "features"}) == (YES, NO, YES)


@pytest.mark.parametrize(
    ("position", "causal", "wanted"),
    few(
        [
            (eq.positions.Rope(), True, (NO, YES, YES)),
            (eq.positions.NoPosition(), False, (YES, NO, YES)),
            (eq.positions.NoPosition(), True, (NO, YES, YES)),
            (eq.positions.Rope(), False, (NO, NO, YES)),
            (eq.positions.Alibi(), True, (NO, YES, YES)),
        ],
        1,
    ),
    ids=lambda v: type(v).__name__ if not isinstance(v, (bool, tuple)) else None,
)
def test_our_own_model_is_what_its_spec_says(position: object, causal: bool, wanted: tuple[str, str, str]):
    spec = eq.models.PRESETS["gpt2" if causal else "bert-base"](32, 1, 4, 50, 64).with_position(position)
    assert said(eq.build(spec), IDS) == wanted


@pytest.mark.thorough
def test_our_gpt2_adds_its_table_where_it_is_refuted():
    found = proofs(eq.build(eq.models.PRESETS["gpt2"](32, 1, 4, 50, 64)), IDS)
    assert [found[n].answer for n in ("permute", "causal", "batch")] == [NO, YES, YES]
    assert found["permute"].operation == "aten.add"


def hugging(name: str, **settings: object) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(**settings)
    heads = {"GPT2": "GPT2LMHeadModel", "Llama": "LlamaForCausalLM", "Bert": "BertModel", "ViT": "ViTModel"}
    return getattr(transformers, heads[name])(config).eval()


SMALL = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}


def test_gpt2_of_transformers_is_causal_and_adds_positions():
    found = proofs(
        hugging("GPT2", vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=1, eos_token_id=1),
        input_ids=IDS,
    )
    assert [found[n].answer for n in ("permute", "causal", "batch")] == [NO, YES, YES]
    assert (found["permute"].operation, found["permute"].where) == ("aten.add", "transformer")


def test_its_mask_of_large_negative_numbers_holds_by_underflow_only():
    model = hugging(
        "GPT2",
        vocab_size=50,
        n_embd=16,
        n_layer=1,
        n_head=2,
        n_positions=32,
        bos_token_id=1,
        eos_token_id=1,
        attn_implementation="eager",
    )
    found = proofs(model, input_ids=IDS)["causal"]
    assert found.answer == DUNNO
    assert "underflow" in found.reason
    assert found.where == "transformer.h.0.attn"


@pytest.mark.thorough
def test_llama_is_causal_and_rotates_by_position():
    found = proofs(hugging("Llama", **SMALL, num_key_value_heads=1), input_ids=IDS)
    assert [found[n].answer for n in ("permute", "causal", "batch")] == [NO, YES, YES]
    assert found["permute"].where == "model.layers.0.self_attn"


@pytest.mark.thorough
def test_bert_is_bidirectional_and_adds_positions():
    found = proofs(hugging("Bert", **SMALL), input_ids=IDS)
    assert [found[n].answer for n in ("permute", "causal", "batch")] == [NO, NO, YES]
    assert found["permute"].where == "embeddings"


def test_a_picture_has_a_batch_and_no_order():
    model = hugging(
        "ViT", hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=20, image_size=8, patch_size=4
    )
    assert said(model, pixel_values=torch.randn(2, 3, 8, 8)) == (DUNNO, DUNNO, YES)
