"""Several parts in one sequence: one order, places as Qwen2-VL counts them, and documents only where they are asked for (T6)."""

from types import SimpleNamespace

import pytest
import torch
from tests.drawn import randomised

import equiscope as eq
from equiscope.errors import InputError, ShapeError
from equiscope.positions import AxialRope
from equiscope.symmetry import relative_error
from equiscope.tokens import consecutive_positions, join, keep_positions, pack, patches, share_rank

WIDTH = 12


def text(length, start=0):
    return eq.Tokens.of(torch.randn(length, WIDTH), start=start)


def picture(rows, columns):
    return patches(torch.randn(3, 2 * rows, 2 * columns), (2, 2))


def still(rows, columns):
    """A picture as the first frame of a video: at (0, row, column)."""
    return eq.Tokens.on_grid(torch.randn(1, rows, columns, WIDTH), axes=3)


def test_a_join_is_one_document_in_one_order():
    parts = [text(3, start=7), picture(2, 2), text(2)]
    tokens = join(parts)
    assert torch.equal(tokens.x, torch.cat([part.x for part in parts]))
    assert tokens.order.tolist() == list(range(9))
    assert tokens.document is None
    assert tokens.valid is None


def test_own_places_are_those_of_the_parts_and_axes_that_are_missing_stand_in_front():
    at = join([text(2), picture(1, 2), still(1, 2)], positions=keep_positions).positions
    assert at.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1]]
    assert join([text(2, start=5), text(1)]).positions.tolist() == [[5], [6], [0]]


def test_text_moves_on_along_all_axes_as_in_qwen2_vl():
    """What follows a picture begins one step beyond the largest coordinate so far."""
    at = join([text(2), picture(2, 3), text(2)], positions=consecutive_positions).positions
    assert at.tolist() == [[0, 0], [1, 1], [2, 2], [2, 3], [2, 4], [3, 2], [3, 3], [3, 4], [5, 5], [6, 6]]


@pytest.mark.parametrize("grids", [[(2, 3)], [(3, 1), (1, 4)], [(2, 2), (5, 2), (1, 1)]], ids=str)
def test_places_one_after_another_are_those_of_transformers(grids):
    model = pytest.importorskip("transformers.models.qwen2_vl.modeling_qwen2_vl").Qwen2VLModel
    parts, kinds = [text(3)], [0] * 3
    for i, (rows, columns) in enumerate(grids):
        parts += [still(rows, columns), text(i + 1)]
        kinds += [1] * (rows * columns) + [0] * (i + 1)
    vision = SimpleNamespace(spatial_merge_size=1)
    itself = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    itself.get_vision_position_ids = lambda *a, **k: model.get_vision_position_ids(itself, *a, **k)
    theirs, _ = model.get_rope_index(
        itself, torch.zeros(1, len(kinds), dtype=torch.long), torch.tensor([kinds]), torch.tensor([(1, r, c) for r, c in grids])
    )
    assert torch.equal(join(parts, positions=consecutive_positions).positions.long(), theirs[:, 0].T)


def test_places_one_after_another_leave_padding_out():
    padded = eq.Tokens(
        x=torch.zeros(2, 3, WIDTH), positions=torch.tensor([[[0.0], [1], [2]], [[90], [0], [1]]]), order=torch.arange(3),
        valid=torch.tensor([[True, True, True], [False, True, True]]),
    )  # fmt: skip
    after = eq.Tokens.of(torch.zeros(2, 2, WIDTH))
    tokens = join([padded, after], positions=consecutive_positions)
    assert tokens.positions[:, 3:, 0].tolist() == [[3, 4], [2, 3]]
    assert tokens.valid[:, 3:].all()
    nothing = eq.Tokens(
        x=torch.zeros(1, WIDTH), positions=torch.zeros(1, 1), order=torch.zeros(1).long(), valid=torch.zeros(1).bool()
    )
    assert join([nothing, text(2)], positions=consecutive_positions).positions[1:, 0].tolist() == [0, 1]


def test_whole_numbers_are_places_too():
    part = eq.Tokens(x=torch.zeros(2, WIDTH), positions=torch.tensor([[3], [4]]), order=torch.arange(2))
    assert join([part, text(1)], positions=consecutive_positions).positions.tolist() == [[0], [1], [2]]


def seen(tokens):
    """Which rows change when one row's features do, under a causal mask: [changed, answers] bool."""
    block = eq.Block(attention=eq.Attention(heads=2, causal=True))
    model, tokens = randomised(eq.build(eq.Spec(width=WIDTH, block=block))), tokens.to(torch.float64)
    before, rows = model(tokens), []
    for i in range(len(tokens.x)):
        x = tokens.x.clone()
        x[i] += torch.randn(WIDTH).double()
        rows.append((model(eq.Tokens(x, tokens.positions, tokens.order, tokens.document)) != before).any(-1))
    return torch.stack(rows)


def test_a_picture_together_sees_all_of_itself_and_nothing_that_follows():
    found = seen(join([text(2), share_rank(picture(1, 3)), text(2)]))
    wanted = torch.ones(7, 7).triu().bool()
    wanted[2:5, 2:5] = True
    assert torch.equal(found, wanted)


def test_packed_parts_do_not_see_one_another_and_keep_documents_that_they_have():
    row = pack([text(2), picture(1, 2), pack([text(1), text(2)])])
    assert row.document.tolist() == [0, 0, 1, 1, 2, 3, 3]
    same = row.document[:, None] == row.document
    assert torch.equal(seen(row), same & torch.ones(7, 7).triu().bool())


def test_packed_texts_are_read_as_each_alone():
    block = eq.Block(attention=eq.Attention(heads=2, causal=True, position=AxialRope(axes=1)))
    model, parts = randomised(eq.build(eq.Spec(width=WIDTH, block=block))), [text(n).to(torch.float64) for n in (3, 1, 4)]
    assert relative_error(model(pack(parts)), torch.cat([model(part) for part in parts])) < 1e-12  # sums in another order


@pytest.mark.usefixtures("unchecked")
def test_parts_that_do_not_fit_are_refused_with_a_next_step():
    with pytest.raises(
        ShapeError, match=r"Part 0 has 12 features a token, part 1 has 9. Bring all parts to the model's width first: nn.Linear"
    ):
        join([text(2), eq.Tokens.of(torch.zeros(2, 9))])
    with pytest.raises(ShapeError, match=r"Part 0 is a batch of \(\), part 1 of \(5,\). Use one batch"):
        join([text(2), eq.Tokens.of(torch.zeros(5, 2, WIDTH))])
    with pytest.raises(InputError, match=r"Part 1 has documents already, but join makes one. Use pack"):
        join([text(2), pack([text(1), text(1)])])
    with pytest.raises(InputError, match="no parts"):
        join([])
    with pytest.raises(ShapeError, match="A part has no tokens"):
        pack([text(1), text(0)])
