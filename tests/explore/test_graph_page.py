"""The record of the page of a graph: its numbers are those of plain torch, and what it says about graph networks is measured."""

import math
import re
from functools import cache
from importlib import import_module

import msgspec
import pytest
import torch
import torch.nn.functional as F
from tests.pairwise import each_value
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from equiscope.cli.app import app
from equiscope.errors import InputError, UnknownName
from equiscope.explore.page import write
from equiscope.explore.pages import graph as page
from equiscope.explore.pages.graph import CHAIN, HEAD, LAYERS, LIMIT, READY, pairs, reach, table
from equiscope.program.replay import replay
from equiscope.record import Messages, unpack
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.xdist_group("graph-page")
ROUNDING = 1e-12  # float64: rounding only, measured 1e-15 and less
SENTENCE = "only who can prevent forest fires"


graph = cache(page.graph)


def numbers(record, edges=None):
    """All values by role, with other edges where they are given."""
    found = replay(record.program, {} if edges is None else {record.roles["edges"]: edges})
    return {role: found[ident] for role, ident in record.roles.items()}


def plain(record, edges):
    """Masked attention computed with torch alone, from the record's leaves."""
    given = {leaf.symbol: torch.from_numpy(unpack(leaf.array)) for leaf in record.program.leaves}
    q, k, v = (given["X"] @ given[f"W_{letter}"] for letter in "QKV")
    scores = (q @ k.T / math.sqrt(record.width)).masked_fill(~edges, -math.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return weights, weights @ v, weights[..., None] * v


@each_value(
    pytest.mark.parametrize("name", READY),
    pytest.mark.parametrize("sentence", ["Love conquers all", SENTENCE, "one", "the dog and the cat", "愛 は 👩‍👩‍👧 é עולם"]),
)
def test_the_program_is_attention_under_a_mask_of_edges(sentence, name):
    record = graph(sentence, 0)
    edges = table(name, len(record.words))
    found = numbers(record, edges)
    weights, output, messages = plain(record, edges)
    for role, wanted in (("weights", weights), ("output", output), ("messages", messages)):
        assert relative_error(found[role], wanted) < ROUNDING
    assert relative_error(found["messages"].sum(1), found["output"]) < ROUNDING


def test_it_agrees_with_torchs_own_attention():
    record = graph(SENTENCE, 3)
    edges = table("causal", len(record.words))
    found = numbers(record, edges)
    wanted = F.scaled_dot_product_attention(found["queries"], found["keys"], found["values"], attn_mask=edges)
    assert relative_error(found["output"], wanted) < ROUNDING


def test_a_node_without_incoming_edges_has_output_zero():
    record = graph(SENTENCE, 0)
    edges = table("complete", 6)
    edges[2] = False
    found = numbers(record, edges)
    assert (found["output"][2] == 0).all()
    assert (found["weights"][2] == 0).all()
    assert (found["output"][1] != 0).any()


def test_the_page_begins_with_the_numbers_of_the_docs():
    found = numbers(graph("Love conquers all", 0))
    assert found["words"].tolist() == [[1, 2], [0, 2], [1, 1]]
    assert found["values"].tolist() == [[3, 2], [2, 2], [2, 1]]
    assert found["edges"].all()


@pytest.mark.parametrize("count", [1, 2, 3, 7, LIMIT])
def test_example_graphs_match_their_names(count):
    made = {one.name: one for one in graph(" ".join(f"w{i}" for i in range(count)), 0).graphs}
    assert list(made) == list(READY)
    for name, one in made.items():
        edges = table(name, count)
        assert sorted(map(tuple, one.edges)) == sorted(map(tuple, pairs(edges).T.tolist()))
        assert edges.diagonal().all()
        assert name == "causal" or (edges == edges.T).all()
    assert len(made["complete"].edges) == count**2
    assert len(made["causal"].edges) == count * (count + 1) // 2
    assert len(made["chain"].edges) == 3 * count - 2
    assert len(made["ring"].edges) == min(3 * count, count**2)
    assert len(made["star"].edges) == 3 * count - 2
    tree = table("tree", count)
    assert int(tree.sum()) == 3 * count - 2, "one bond fewer than nodes, both ways, and self-loops"
    assert int(tree.sum(-1).max()) <= 4, "at most three others"
    assert (torch.linalg.matrix_power(tree.double(), count) > 0).all(), "it is connected"


def test_an_unknown_graph_is_refused_with_the_known_ones():
    with pytest.raises(UnknownName, match="complete"):
        table("star-shaped", 3)


# --- what is said about graph networks ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record():
    return graph("Love conquers all", 0)


def test_each_fact_is_measured_again_by_the_function_that_it_names(record):
    facts = [fact for reason in record.reasons for fact in reason.measurements]
    assert len(facts) == 7
    for fact in facts:
        module, _, name = fact.source.rpartition(".")
        again = getattr(import_module(module), name)()
        assert getattr(again, {"renamed": "error", "floor": "floor"}.get(fact.name, ""), again) == fact.value


def test_what_is_equal_differs_by_rounding_and_what_is_not_differs(record):
    found = {fact.name: fact.value for reason in record.reasons for fact in reason.measurements}
    for same in ("against_full", "against_sum", "against_mask", "renamed"):
        assert found[same] < ROUNDING
    assert 0 < found["floor"] < ROUNDING
    assert found["without_half"] > 0.1
    assert found["stay"] > 0.1


def test_what_to_type_gives_the_numbers(record, capsys):
    typed = [reason.command for reason in record.reasons]
    assert all(typed)
    for line in typed:
        if found := re.fullmatch(r'python -c "(.*)"', line):
            exec(found[1], {})  # what a reader would run
            assert capsys.readouterr().out.strip()
        else:
            assert line.startswith("pytest tests/attention/test_graph.py")


def test_the_receptive_field_is_as_many_hops_as_layers(record):
    figures = next(reason.figures for reason in record.reasons if "over one edge" in reason.claim)
    assert len(figures.rows) == LAYERS + 1
    for layers, row in enumerate(figures.numbers[:LAYERS], 1):
        assert row == reach(layers)
        assert [size > 0 for size in row] == [hop <= layers for hop in range(CHAIN)], "beyond, exactly 0"
    assert all(size > 0 for size in figures.numbers[LAYERS])


def test_multiply_adds_are_those_that_torch_counts_on_the_complete_graph(record):
    figures = next(reason.figures for reason in record.reasons if "number of edges" in reason.claim)
    q, k, v = (torch.zeros(1024, HEAD) for _ in range(3))
    with FlopCounterMode(display=False) as counted:
        (q @ k.T).softmax(-1) @ v
    by_name = dict(zip(figures.rows, figures.numbers, strict=True))
    assert 2 * by_name["complete"][2] == counted.get_total_flops(), "torch counts two operations for each multiply-add"
    assert by_name["chain"][1] == 3 * 1024 - 2
    assert by_name["chain"][3] == pytest.approx((3 * 1024 - 2) / 1024**2)


# --- the command ---------------------------------------------------------------------------------------------------------


def test_a_sentence_that_is_too_long_is_refused_with_what_to_do():
    with pytest.raises(InputError, match=rf"up to {LIMIT} words, .* has 17\. Give at most {LIMIT}"):
        graph("word " * 17, 0)
    told = CliRunner().invoke(app, ["explore", "--page", "graph", "word " * 17, "--no-browser"])
    assert isinstance(told.exception, InputError), "one sentence, and exit code 2"
    assert isinstance(CliRunner().invoke(app, ["explore", "--page", "graph", " "]).exception, InputError)


def test_json_is_the_record():
    told = CliRunner().invoke(app, ["explore", "--page", "graph", "to be or not to be", "--json"])
    assert told.exit_code == 0
    record = msgspec.json.decode(told.stdout, type=Messages)
    assert record.words == ["to", "be", "or", "not", "to", "be"]
    found = numbers(record)
    assert torch.equal(found["output"][0], found["output"][4]), "the same word has the same output"


def test_without_a_script_there_are_tables_and_words_are_text():
    made = graph("<b>one</b> 愛", 0)
    text = page.plain(made)
    assert "&lt;b&gt;one&lt;/b&gt;" in text
    assert "<b>" not in text
    found = numbers(made)
    assert f"<td>{float(found['weights'][0, 1]):.6g}</td>" in text
    assert f"<td>{float(found['output'][1, 0]):.6g}</td>" in text
    for reason in made.reasons:
        for fact in reason.measurements:
            assert f"{fact.value:.6g}" in text


def test_the_file_is_small(tmp_path):
    assert write(graph("Love conquers all", 0), tmp_path / "love.html").stat().st_size < 300_000
