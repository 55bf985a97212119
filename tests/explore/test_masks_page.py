"""The page of masks: its weights, losses, influence and decoding equal those of a reference computation in this file."""

import math
from dataclasses import replace

import msgspec
import pytest
import torch
from tests.cli.test_cli import equi, refused

from equiscope.errors import InputError
from equiscope.explore import page
from equiscope.explore.pages.masks import BEGIN, HEADS, LAYERS, LIMIT, WIDTH, masks, model, plain
from equiscope.models import windowed
from equiscope.program.replay import replay
from equiscope.record import Masks, unpack
from equiscope.tokens import vocabulary

pytestmark = pytest.mark.xdist_group("masks-page")

__all__ = ["equi"]  # the fixture
SENTENCE = "the dog is on the lawn"
ODD = ["</script><script>window.stolen=1</script>", "👩\u200d👩\u200d👧", "é", "שלום", "日本語", "a" * 300, "&amp;"]


@pytest.fixture(scope="module")
def made() -> Masks:
    return masks(SENTENCE, 0)


def ran(rule, found):
    """Every value of a rule's program by id, and a look-up by the end of its name."""
    leaves = {leaf.id: torch.from_numpy(unpack(found.pool[leaf.pool])) for leaf in rule.program.leaves}
    return replay(rule.program, leaves)


def sees(name, n):
    """Who may attend to whom, rule by rule, in plain Python."""
    return {
        "full": lambda i, j: True,
        "causal": lambda i, j: j <= i,
        "window": lambda i, j: abs(i - j) < n,
        "dilated": lambda i, j: (i - j) % n == 0,
        "blocks": lambda i, j: i // n == j // n,
        "prefix": lambda i, j: j < n,
        "texts": lambda i, j: (i >= n) == (j >= n),
        "padded": lambda i, j: True,
    }[name]


def weights(found, name, n):
    """Softmax over q.k / sqrt(K) with RoPE, [H, N, N], from the model's numbers alone."""
    pool = {key.removesuffix(".weight.mT").rsplit(".", 1)[-1]: torch.from_numpy(unpack(array)) for key, array in found.pool.items()}
    x, count, k = pool["X"], len(found.words), WIDTH // HEADS

    def turned(rows):
        pairs = torch.view_as_complex(rows.reshape(count, HEADS, k // 2, 2).transpose(0, 1).contiguous())
        speed = 10000.0 ** -(torch.arange(k // 2, dtype=torch.float64) * 2 / k)
        return torch.view_as_real(pairs * torch.polar(torch.ones(()).double(), torch.arange(count)[:, None] * speed)).flatten(-2)

    scores = turned(x @ pool["q_proj"]) @ turned(x @ pool["k_proj"]).transpose(-1, -2) / math.sqrt(k)
    seen = torch.tensor([[sees(name, n)(i, j) for j in range(count)] for i in range(count)])
    powers = torch.where(seen, scores.exp(), 0.0)
    return powers / powers.sum(-1, keepdim=True)


@pytest.mark.parametrize("name", ["full", "causal", "window", "dilated", "blocks", "prefix", "texts", "padded"])
def test_weights_under_a_rule_are_those_of_its_definition(made, name):
    rule = next(r for r in made.rules if r.name == name)
    found = ran(rule, made)[rule.weights]
    wanted = weights(made, name, rule.knob.start if rule.knob else 0)
    assert (found - wanted).abs().max() < 1e-12  # float64: another order of sums


def test_a_number_of_a_rule_is_a_parameter_of_the_program(made):
    for name, n in (("window", 4), ("dilated", 3), ("blocks", 3), ("prefix", 5)):
        rule = next(r for r in made.rules if r.name == name)
        steps = [
            msgspec.structs.replace(s, params=s.params | {rule.knob.parameter: n}) if s.op == rule.knob.op else s
            for s in rule.program.steps
        ]
        program = msgspec.structs.replace(rule.program, steps=steps)
        found = ran(msgspec.structs.replace(rule, program=program), made)[rule.weights]
        assert (found - weights(made, name, n)).abs().max() < 1e-12


def test_sentences_name_the_query_and_the_key(made):
    for rule in made.rules:
        for text in (rule.allowed_reason, rule.masked_reason):
            text.format(query="a", key="b", n="c")
        assert bool(rule.mask) == (rule.name != "full")
    assert {n for pattern in made.patterns for n in pattern.rules} <= {r.name for r in made.rules}


def test_one_pass_learns_what_each_prefix_teaches_alone(made):
    assert [(one.prefix_length, one.next) for one in made.examples] == [(t + 1, word) for t, word in enumerate(made.words)]
    known = vocabulary([BEGIN, *made.words])
    small = model(list(known), 0)
    for one in made.examples:
        ids = torch.tensor([known[token] for token in [BEGIN, *made.words][: one.prefix_length]])
        with torch.no_grad():
            chances = small(ids)[-1].softmax(-1)
        assert one.own_pass_loss == pytest.approx(-math.log(chances[known[one.next]]), rel=1e-12)
        assert abs(one.full_pass_loss - one.own_pass_loss) < 1e-13  # float64: rounding only


def test_influence_ends_where_layers_times_window_ends(made):
    found, count = unpack(made.influence), len(made.words)
    assert found.shape == (LAYERS, count, LAYERS + 1, count)
    for layers in range(1, LAYERS + 1):
        for size in range(1, count + 1):
            for after in range(LAYERS + 1):
                for word in range(count):
                    far = count - 1 - word
                    reached = after <= layers and far <= (layers - after) * (size - 1)
                    assert (found[layers - 1, size - 1, after, word] > 0) == reached


def test_influence_is_the_size_of_the_jacobian(made):
    known = vocabulary([BEGIN, *made.words])
    ids = torch.tensor([known[word] for word in made.words])
    small = windowed(model(list(known), 0, layers=2), 3)
    tokens = small.tokens(ids)

    def last(x):
        for block in small.blocks:
            x = block(replace(tokens, x=x), small.position)
        return x[-1]

    wanted = torch.autograd.functional.jacobian(last, tokens.x.detach()).square().sum((0, 2)).sqrt()
    assert torch.from_numpy(unpack(made.influence)[1, 2, 0].copy()) == pytest.approx(wanted, rel=1e-12)


def test_a_cached_step_is_the_row_of_the_full_pass_and_a_window_lets_go(made):
    count = len(made.words)
    for size, turns in enumerate(made.decoding, 1):
        assert [turn.cached_positions for turn in turns] == [list(range(max(0, t - size + 1), t)) for t in range(count)]
        assert [turn.evicted_positions for turn in turns] == [
            [t - size + 1] if size - 1 <= t and size < count else [] for t in range(count)
        ]
        assert max(turn.difference for turn in turns) < 1e-13  # float64: rounding only


def test_multiply_adds_are_those_that_torch_counted(made):
    count = len(made.words)
    assert made.cached_multiply_adds == [made.token_multiply_adds + keys * made.pair_multiply_adds for keys in range(1, count + 1)]
    assert made.full_multiply_adds == [
        tokens * made.token_multiply_adds + tokens**2 * made.pair_multiply_adds for tokens in range(1, count + 1)
    ]


def test_the_seed_and_the_letters_decide_all_numbers(made):
    assert masks(SENTENCE, 0) == made
    assert masks(SENTENCE, 1).examples != made.examples


def test_one_word_is_a_sentence():
    found = masks("Love", 0)
    assert "packed" not in [pattern.name for pattern in found.patterns]
    assert [turn.cached_positions for turn in found.decoding[0]] == [[]]
    assert unpack(found.influence).shape == (LAYERS, 1, LAYERS + 1, 1)


def test_any_script_is_words():
    found = masks(" ".join(ODD), 0)
    assert found.words == ODD
    assert [one.next for one in found.examples] == ODD


def test_words_are_escaped_in_the_tables_without_a_script():
    assert "<script" not in plain(masks(" ".join(ODD[:2]), 0))


def test_a_long_sentence_is_refused_with_its_length():
    with pytest.raises(InputError, match=f"takes {LIMIT} words, but the sentence has 25"):
        masks("word " * 25, 0)
    with pytest.raises(InputError, match="no words"):
        masks("  ", 0)


@pytest.mark.thorough
def test_the_longest_sentence_is_whole():
    assert len(masks("word " * LIMIT, 0).words) == LIMIT


@pytest.mark.skipif(not (page.BUNDLES / "masks.js").exists(), reason="the page was not built: python3 run.py setup")
def test_a_file_of_three_words_is_small(tmp_path):
    assert page.write(masks("Love conquers all", 0), tmp_path / "masks.html").stat().st_size < 400_000


def test_the_command_prints_the_record(equi):
    code, out, err = equi("explore", "--page", "masks", "Love conquers all", "--json")
    assert (code, err) == (0, "")
    assert msgspec.json.decode(out, type=Masks) == masks("Love conquers all", 0)


def test_the_command_refuses_a_long_sentence(equi):
    refused(equi("explore", "--page", "masks", "word " * 30), "takes 24 words")
