"""The networks of the reach page: what is counted, and that a small run makes a whole record."""

import torch

from equiscope.record import Reach
from equiscope.study import recall
from equiscope.symmetry import relative_error


def test_the_lstm_in_python_is_torchs():
    torch.manual_seed(0)
    model = recall.lstm().double()
    ids = torch.randint(16, (1, 9))
    assert relative_error(recall.step_by_step(model, ids), model(ids)) < 1e-14


def test_an_lstm_waits_for_each_token_and_the_others_do_not():
    counted = {n: [recall.sequential_steps(make(), n) for _, _, _, make, _ in recall.NETWORKS] for n in (5, 12)}
    assert counted == {5: [6, 5, 5], 12: [13, 5, 5]}


def test_a_text_has_one_marked_token():
    marked = torch.tensor([0, 3])
    ids, symbol = recall.texts(2, 6, marked, torch.Generator().manual_seed(0))
    assert [(row >= 8).nonzero().flatten().tolist() for row in ids] == [[0], [3]]
    assert (ids.gather(1, marked[:, None])[:, 0] - 8).tolist() == symbol.tolist()


def test_a_small_run_makes_a_record():
    page = recall.reach(quick=True)
    assert isinstance(page, Reach)
    assert page.timed_lengths == recall.TIMED[:2]
    assert [len(one.times) for one in page.networks] == [2, 2, 2]
    assert {len(one.right["trained"]) for one in page.networks} == {1}
