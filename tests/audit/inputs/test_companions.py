"""Required arguments that hold no tokens get values that hide nothing and shift nothing."""

import pytest
import torch
from torch import Tensor, nn

from equiscope.audit import check
from equiscope.audit.inputs.example_inputs import inputs_for

pytestmark = pytest.mark.quick
N = 13


class Reader(nn.Module):
    """An embedding and an encoder layer that hides what `hidden` says."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layer = nn.Embedding(50, 16), nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

    def read(self, ids: Tensor, hidden: Tensor | None) -> Tensor:
        return self.layer(self.embed(ids), src_key_padding_mask=hidden)


class Lengths(Reader):
    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        return self.read(ids, torch.arange(ids.shape[1])[None] >= lengths[:, None])


class Length(Reader):
    def forward(self, ids: Tensor, seq_len: int) -> Tensor:
        return self.read(ids[:, :seq_len], None)


def test_a_length_that_is_one_number_is_that_of_the_tokens():
    assert inputs_for(Length()).args[1] == N


class AttentionMask(Reader):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.read(input_ids, ~attention_mask.bool())


class BoolAttentionMask(Reader):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.read(input_ids, torch.where(attention_mask, 0.0, -torch.inf))


class TorchMask(Reader):
    def forward(self, src: Tensor, src_key_padding_mask: Tensor) -> Tensor:
        return self.read(src, src_key_padding_mask)


class TrueIsPadding(Reader):
    def forward(self, tokens: Tensor, padding_mask: Tensor) -> Tensor:
        return self.read(tokens, padding_mask.float() * -1e9)


class TrueIsToken(Reader):
    def forward(self, tokens: Tensor, padding_mask: Tensor) -> Tensor:
        return self.read(tokens, (~padding_mask.bool()).float() * -1e9)


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Lengths, torch.tensor([N])),
        (AttentionMask, torch.ones(1, N, dtype=torch.int64)),
        (BoolAttentionMask, torch.ones(1, N, dtype=torch.bool)),
        (TorchMask, torch.zeros(1, N, dtype=torch.bool)),
        (TrueIsPadding, torch.zeros(1, N, dtype=torch.bool)),
        (TrueIsToken, torch.ones(1, N, dtype=torch.bool)),
    ],
)
def test_every_row_is_marked_as_a_token(cls, expected):
    marks = inputs_for(cls()).args[1]
    assert marks.dtype == expected.dtype
    assert torch.equal(marks, expected)


class Positions(Reader):
    def forward(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        return self.read((input_ids + position_ids) % 50, None)


def test_positions_count_from_zero():
    assert torch.equal(inputs_for(Positions()).args[1], torch.arange(N)[None])


class Offset(Reader):
    def forward(self, tokens: Tensor, start_pos: int) -> Tensor:
        return self.read(tokens + range(start_pos, start_pos + 1)[0], None)


class Noisy(Reader):
    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        return self.read(x, None) + t[:, None, None].sin()


class OwnMask(Reader):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        assert mask is not None
        return self.layer(self.embed(x), src_mask=mask)


@pytest.mark.slow
def test_numbers_times_and_masks_of_pairs_are_those_that_change_nothing():
    assert inputs_for(Offset()).args[1] == 0
    times, ids = inputs_for(Noisy()).args
    assert times.shape == (1,)
    assert ids.shape == (1, N)
    mask = inputs_for(OwnMask()).args[1]
    assert mask.shape == (N, N)
    assert not mask.any()  # True, which hides in torch, would hide everything: the output would be NaN


class Hides(nn.Module):
    """Attention whose mask is true at the keys that are hidden. They get a finite score, so hiding all of them gives no NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.q, self.k = nn.Embedding(50, 16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embed(ids)
        scores = self.q(x) @ self.k(x).mT
        return scores.masked_fill(self.hidden(mask), -1e9).softmax(-1) @ x

    def hidden(self, mask: Tensor) -> Tensor:
        return mask


class Keeps(Hides):
    def hidden(self, mask: Tensor) -> Tensor:
        return ~mask


@pytest.mark.parametrize(("cls", "value"), [(Hides, False), (Keeps, True)])
def test_a_mask_of_pairs_hides_nothing_whatever_it_is_true_at(cls, value):
    assert inputs_for(cls()).args[1].eq(value).all()


class Pair(Reader):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.read(x, None) + self.read(y[:, :N], None)


def test_a_second_sequence_named_y_is_no_flag():
    example = inputs_for(Pair())
    assert example.args[1].shape == (1, N)
    assert example.kinds == {"y": "other"}


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.layers = nn.Embedding(50, 16), nn.Transformer(16, 2, 1, 1, 32, batch_first=True)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None, tgt_mask: Tensor | None) -> Tensor:
        return self.layers(self.embed(src), self.embed(tgt), src_mask=src_mask, tgt_mask=tgt_mask)


def test_two_sequences_are_drawn_apart_and_their_masks_left_out():
    source, target, *masks = inputs_for(Translator()).args
    assert not torch.equal(source, target)
    assert masks == [None, None]


class OfEdges(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(6, 6)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index
        return x + torch.zeros_like(x).index_add(0, target, self.map(x)[source])


def test_a_graph_is_a_ring_and_is_permuted_with_its_nodes():
    model, example = OfEdges(), inputs_for(OfEdges())
    audit = check(model, *example.args, kinds=example.kinds, actions=["permute"], properties=[])
    assert audit["permute"].verdict == "holds"
