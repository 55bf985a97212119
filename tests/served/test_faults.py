"""The check of a served model finds every planted fault, by the row that should name it, and nothing on a healthy server."""

import threading

import pytest
import torch

from equiscope.audit.served.checking import check_served
from equiscope.audit.served.connection import Connection
from tests.pairwise import each_value, few
from tests.served.faults import FAULTS, ROWS
from tests.served.server import tiny

MANY = [  # one of each kind; the others run under --thorough
    "cache-no-parent", "padding-attended", "chunk-border", "dropout", "stop-early", "wrong-token", "limit-off-by-one",
]  # fmt: skip


def failed(url, **options):
    return [row.name for row in check_served(url, run="a test", **options)[0].failed]


@pytest.mark.parametrize("fault", [pytest.param(name, marks=() if name in MANY else pytest.mark.thorough) for name in FAULTS])
def test_a_planted_fault_fails_the_row_that_names_it(fault):
    with tiny(fault) as (url, _):
        assert ROWS[fault] in failed(url, properties=[ROWS[fault]])


@pytest.mark.parametrize("fault", few(FAULTS, 1))
def test_among_all_rows_it_fails_too(fault):
    with tiny(fault) as (url, _):
        assert ROWS[fault] in failed(url, effort="quick")


def test_the_list_names_a_row_for_each_fault():
    assert list(FAULTS) == list(ROWS)
    assert len(FAULTS) >= 20


@pytest.mark.parametrize("dtype", few([torch.float32, torch.bfloat16], 1), ids=["float32", "bfloat16"])
@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2)]])
def test_nothing_fails_on_a_healthy_server_that_others_load(dtype, seed):
    with tiny(dtype=dtype) as (url, _), load(url):
        audit, script = check_served(url, seed=seed)
    assert [repr(row) for row in audit.failed] == []
    assert {row.verdict for row in audit.rows} == {"holds"}
    assert script == ""


@each_value(
    pytest.mark.parametrize("features", [("chat",), ("completions",), ("completions", "list")], ids=" ".join),
    pytest.mark.parametrize("caching", [True, False], ids=["cache", "no cache"]),
)
def test_nothing_fails_on_a_healthy_server_that_offers_less(features, caching):
    with tiny(caching=caching, features=features) as (url, _):
        audit, _ = check_served(url, run="a test", effort="quick")
    assert [repr(row) for row in audit.failed] == []
    assert audit.decided


class load:
    """Three clients that ask all the time."""

    def __init__(self, url):
        self.connection, self.ended = Connection(url), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(3)]

    def run(self, number):
        count = 0
        while not self.ended.is_set():
            count += 1
            prompt = f"The other people of number {number} and {count} came to the house"
            body = {"model": "tiny", "prompt": prompt, "max_tokens": 5 + count % 7, "temperature": count % 2}
            self.connection.post("/completions", body)

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()
