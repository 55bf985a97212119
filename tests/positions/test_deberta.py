"""DeBERTa: three terms that weigh alike, against the paper's equation one pair at a time (P9)."""

import math

import msgspec
import pytest
import torch
from tests.drawn import randomised

from equiscope.errors import InputError
from equiscope.positions import Deberta, from_json, to_json
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick

PLACES = [0.0, 1.0, 2.0, 6.0, 7.0, 3.0]


def of(at):
    at = torch.as_tensor(at, dtype=torch.float64)[:, None]
    return (at,), (at.T,)


def scores(scheme, q, k, at=PLACES):
    """The whole score, as attention makes it: the turned product over sqrt(K), and the scheme's terms."""
    column = torch.as_tensor(at, dtype=torch.float64)[:, None]
    q, k = scheme.rotate(q, column, "query"), scheme.rotate(k, column, "key")
    return q @ k.mT / math.sqrt(q.shape[-1]) + scheme.content_bias(q, k, *of(at), None)


def row(steps, far):
    """Section 3.1: 0 from -far on, 2 far - 1 from far on, else far + steps."""
    return 0 if steps <= -far else 2 * far - 1 if steps >= far else steps + far


@pytest.mark.parametrize("far", [1, 2, 5, 128])
def test_the_score_is_the_papers(far):
    scheme, (q, k) = randomised(Deberta(far).sized(8, 2, 4)), torch.randn(2, 2, 6, 4, dtype=torch.float64)
    wanted = torch.zeros(2, 6, 6, dtype=torch.float64)
    for h in range(2):
        keys, queries = (table[:, 4 * h : 4 * h + 4] for table in (scheme.key_table, scheme.query_table))
        for a, i in enumerate(PLACES):
            for b, j in enumerate(PLACES):
                there, back = row(round(i - j), far), row(round(j - i), far)
                wanted[h, a, b] = (q[h, a] @ k[h, b] + q[h, a] @ keys[there] + k[h, b] @ queries[back]) / math.sqrt(3 * 4)
    assert relative_error(scores(scheme, q, k), wanted.detach()) < 1e-14


def test_a_batch_is_each_of_its_sequences_and_one_head_needs_no_axis():
    scheme, (q, k) = randomised(Deberta(3).sized(8, 2, 4)), torch.randn(2, 3, 2, 6, 4, dtype=torch.float64)
    at = 4 * torch.randn(3, 6, dtype=torch.float64)
    term = scheme.content_bias(q, k, (at[:, None, :, None],), (at[:, None, None, :],), None)
    for b in range(3):
        assert relative_error(term[b], scheme.content_bias(q[b], k[b], *of(at[b]), None)) < 1e-14
    one = randomised(Deberta(3).sized(4, 1, 4))
    alone = one.content_bias(q[0, 0], k[0, 0], *of(PLACES), None)
    assert relative_error(alone, one.content_bias(q[0, :1], k[0, :1], *of(PLACES), None)[0]) < 1e-14


def test_queries_may_be_fewer_than_keys():
    scheme, (q, k) = randomised(Deberta(3).sized(8, 2, 4)), torch.randn(2, 2, 6, 4, dtype=torch.float64)
    (at,), keys = of(PLACES)
    few = scheme.content_bias(q[:, 4:], k, (at[4:],), keys, None)
    assert relative_error(few, scheme.content_bias(q, k, *of(PLACES), None)[:, 4:]) < 1e-14


def test_a_place_that_is_no_number_is_refused():
    scheme, q = Deberta().sized(8, 2, 4), torch.zeros(2, 2, 4)
    with pytest.raises(InputError, match="NaN or infinite"):
        scheme.content_bias(q, q, *of([0.0, math.inf]), None)


def test_a_table_without_distances_is_refused():
    with pytest.raises(InputError, match="1 or more, but got 0"):
        Deberta(max_distance=0)


def test_without_a_size_it_says_what_is_missing():
    with pytest.raises(InputError, match=r"Deberta\(\) has no parameters yet"):
        Deberta().content_bias(torch.zeros(2, 6, 4), torch.zeros(2, 6, 4), *of(PLACES), None)


def test_settings_survive_a_file():
    scheme = Deberta(max_distance=7)
    assert from_json(msgspec.json.decode(msgspec.json.encode(to_json(scheme)))).settings == scheme.settings
