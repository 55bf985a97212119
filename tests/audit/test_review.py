"""Common models for which an earlier version of the check gave a wrong verdict."""

import pytest
import torch
from torch import Tensor, nn

from equiscope.audit import check
from equiscope.errors import InputError


class Summed(nn.Module):
    """A sum over those that a mask lets through."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.read = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.read((self.each(x).relu() * mask[..., None]).sum(1))


class Ahead(nn.Module):
    """Attention that looks one token ahead, at the last token of every chunk only."""

    def __init__(self, chunk: int) -> None:
        super().__init__()
        self.read, self.mix, self.chunk = nn.Embedding(50, 8), nn.Linear(8, 24), chunk

    def forward(self, ids: Tensor) -> Tensor:
        query, key, value = self.mix(self.read(ids)).chunk(3, -1)
        i = torch.arange(ids.shape[1])
        seen = (i[None] <= i[:, None]) | ((i[None] == i[:, None] + 1) & (i[:, None] % self.chunk == self.chunk - 1))
        return (query @ key.mT).masked_fill(~seen, -torch.inf).softmax(-1) @ value


class Learned(nn.Module):
    """A table of places: its sum with the words is what knows the order."""

    def __init__(self, size: int = 8) -> None:
        super().__init__()
        self.words, self.places, self.read = nn.Embedding(50, size), nn.Embedding(64, size), nn.Linear(size, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.read(self.words(ids) + self.places.weight[: ids.shape[1]])


class TwoTexts(nn.Module):
    """Each of the one text's words, and the mean of the other's."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 8)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.words(tgt) + self.words(src).mean(1, keepdim=True)


class Hides(nn.Module):
    """Causal attention that a mask narrows by a large number: a row of padding alone still says something."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.mix = nn.Embedding(50, 8), nn.Linear(8, 24)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        query, key, value = self.mix(self.read(input_ids)).chunk(3, -1)
        later = torch.ones(key.shape[1], key.shape[1], dtype=torch.bool).triu(1)
        scores = (query @ key.mT).masked_fill(later, -torch.inf) + (1 - attention_mask[:, None].to(key)) * -1e4
        return scores.softmax(-1) @ value


class Crowded(nn.Module):
    """Alike for one and two sequences; of three and more, the last sees the first."""

    def forward(self, x: Tensor) -> Tensor:
        return x if len(x) < 3 else torch.cat([x[:-1], x[-1:] + x[:1]])


class Graph(nn.Module):
    """Points that are drawn along edges. Named rows: the first node is unlike the others."""

    def __init__(self, named: bool) -> None:
        super().__init__()
        self.message, self.named = nn.Linear(5, 1), named

    def forward(self, h: Tensor, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        i, j = edge_index
        moved = x.index_add(0, i, (x[i] - x[j]) * self.message(h[i] * h[j]))
        return h, moved * (1 + self.named * (torch.arange(len(x)) == 0)[:, None])


class Compares(nn.Module):
    """Every picture with every text, as contrastive models do."""

    def __init__(self) -> None:
        super().__init__()
        self.see, self.read = nn.Conv2d(3, 8, 4, 4), nn.Embedding(50, 8)

    def forward(self, pixel_values: Tensor, input_ids: Tensor) -> dict[str, Tensor]:
        seen, read = self.see(pixel_values).mean((2, 3)), self.read(input_ids).mean(1)
        return {"pairs": seen @ read.mT, "seen": seen, "read": read}


class Energy(nn.Module):
    """One number for a molecule, without an axis; with a handed part where it is asked for."""

    def __init__(self, handed: float = 0.0) -> None:
        super().__init__()
        self.kinds, self.handed = nn.Embedding(9, 8), handed

    def forward(self, z: Tensor, positions: Tensor) -> Tensor:
        away = positions[:, None] - positions[None]
        volume = torch.linalg.det(away[1:4, 0])
        return (self.kinds(z).mean(-1) * (-away.square().sum(-1)).exp()).sum() + self.handed * volume


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_a_mask_of_any_dtype_moves_with_its_tokens(dtype: torch.dtype):
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0]]).to(dtype)
    assert check(Summed(), torch.randn(2, 6, 4), mask, actions=["permute"])["permute"].verdict == "holds"


@pytest.mark.parametrize(("chunk", "length"), [(8, 24), (4, 16), (16, 64)])
def test_attention_across_the_border_of_a_chunk_is_found(chunk: int, length: int):
    audit = check(Ahead(chunk), torch.randint(0, 50, (2, length)), properties=["causal"], proof=False)
    assert audit["causal"].verdict in ("broken", "approximate")


@pytest.mark.parametrize("shape", [(7, 7), (2, 2), (2, 8)])
def test_equal_numbers_of_sequences_columns_and_tokens_hide_no_fault(shape: tuple[int, int]):
    row = check(Learned(), torch.randint(0, 50, shape), actions=["permute"], proof=False)["permute"]
    assert (row.verdict, row.where) == ("broken", "places")


def test_a_decoder_reads_what_the_mask_of_its_source_lets_through():
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True).eval()
    audit = check(model, torch.randn(2, 7, 16), torch.randn(2, 5, 16), properties=["left-padding", "right-padding"], proof=False)
    assert [row.verdict for row in audit] == ["holds"] * 3


def test_a_mask_of_another_text_stays_where_it_is():
    query, key = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    given = {"key_padding_mask": torch.zeros(2, 5, dtype=torch.bool)}
    model = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    audit = check(model, query, key, key, kwargs=given, actions=["permute"], output={"0": "permuted"}, proof=False)
    assert audit["permute"].verdict == "holds"


def test_two_texts_of_different_length_do_not_move_together():
    given = torch.randint(0, 50, (2, 7)), torch.randint(0, 50, (2, 6))
    with pytest.raises(InputError, match="'tgt' is declared as ids"):
        check(TwoTexts(), *given, kinds={"src": "ids", "tgt": "ids"}, proof=False)


@pytest.mark.parametrize(("handed", "held"), [(0.0, True), (1.0, False)])
def test_an_energy_without_an_axis_is_rotated_and_reflected(handed: float, held: bool):
    given = torch.randint(1, 9, (6,)), torch.randn(6, 3)
    audit = check(Energy(handed), *given, actions=["rotate", "translate", "reflect"], proof=False)
    assert [row.verdict == "holds" for row in audit] == [True, True, held, True]


@pytest.mark.parametrize("side", ["left-padding", "right-padding"])
def test_padding_that_was_given_may_say_anything(side: str):
    mask = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1]])
    row = check(Hides(), torch.randint(0, 50, (2, 7)), mask, properties=[side], proof=False)[side]
    assert row.verdict == "holds"


def test_a_fault_in_large_batches_only_is_found():
    row = check(Crowded(), torch.randn(4, 7, 8), properties=["batch"], proof=False)["batch"]
    assert (row.verdict, row.where) == ("broken", "Crowded")


def test_one_number_for_the_whole_batch_leaves_independence_undecided():
    class Loss(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.square().mean()

    row = check(Loss(), torch.randn(2, 7, 8), properties=["batch"], proof=False)["batch"]
    assert (row.verdict, "each sequence" in row.note) == ("undecided", True)


@pytest.mark.parametrize("named", [False, True])
def test_edges_stay_with_all_their_nodes(named: bool):
    given = torch.randn(7, 5), torch.randn(7, 3), torch.randint(0, 7, (2, 20))
    audit = check(Graph(named), *given, actions=["permute", "rotate"], proof=False)
    assert [row.verdict == "holds" for row in audit] == [not named, True, True]


@pytest.mark.parametrize("pictures", [2, 3])
def test_pairs_of_sequences_are_no_mixing_of_the_batch(pictures: int):
    given = torch.randn(pictures, 3, 16, 16), torch.randint(0, 50, (2, 7))
    assert check(Compares(), *given, properties=["batch"], proof=False)["batch"].verdict == "holds"


def test_what_is_handed_through_has_its_gradient():
    assert check(nn.Identity(), torch.randn(2, 7, 8), properties=["gradient"])["gradient"].verdict == "holds"


def test_a_state_of_several_tensors_has_the_precision_of_the_rest():
    state = torch.zeros(1, 2, 8), torch.zeros(1, 2, 8)
    audit = check(nn.LSTM(16, 8, batch_first=True), torch.randn(2, 7, 16), state, properties=["causal"], proof=False)
    assert (audit["causal"].verdict == "holds", audit.notes) == (True, [])


def test_an_encoder_and_its_decoder_may_read_unlike_lengths():
    from transformers import T5Config, T5ForConditionalGeneration

    made = T5ForConditionalGeneration(T5Config(num_layers=2, d_model=32, num_heads=2, d_kv=16, d_ff=64, vocab_size=99)).eval()
    read, written = torch.randint(3, 99, (2, 13)), torch.randint(3, 99, (2, 11))
    given = {"input_ids": read, "attention_mask": torch.ones_like(read), "decoder_input_ids": written}
    audit = check(made, kwargs=given, properties=["causal", "cache", "left-padding"], effort="quick", proof=False)
    assert [row.verdict for row in audit] == ["holds"] * 4
