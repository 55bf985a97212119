"""The guard raises for every planted leak, with a small counterexample, and for no healthy model."""

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from tests.audit.zoo import D
from tests.audit.zoo_unusual import Border
from tests.models import zoo_guard as zoo
from tests.models.healthy_causal import FAIL, HEALTHY, OF_TRANSFORMERS, of_transformers
from torch import Tensor, nn

import equiscope as eq
from equiscope.errors import GuardFailed, InputError
from equiscope.models.guard import LONGEST, MOST

LEAKS = [
    (zoo.LeakInBlocks, "future"), (zoo.LeakInWholeBlocks, "future"), (zoo.LeakInPairs, "future"), (zoo.SuffixStatistics, "future"),
    (zoo.TinySuffixStatistics, "future"), (zoo.ReversedScan, "future"), (zoo.OneAhead, "future"), (zoo.Bidirectional, "future"),
    (zoo.ExpertsChoose, "future"), (zoo.CircularConvolution, "future"),
    (lambda: zoo.Convolution(3), "future"), (zoo.ScanOverTheBatch, "batch"), (zoo.Remembers, "state"), (zoo.Drops, "random"),
]  # fmt: skip
FEW = {
    "GPT2LMHeadModel", "BloomForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "MambaForCausalLM", "RwkvForCausalLM",
    "position rope", "linear", "LSTM", "LongConvolution", "SortedExperts", "RunningSoftmax",
}  # fmt: skip


@pytest.mark.parametrize(("make", "kind"), LEAKS)
def test_a_planted_leak_is_found(make, kind):
    calls = []
    model = make()
    model.register_forward_pre_hook(lambda _, given: calls.append(given[0].numel()))
    with pytest.raises(GuardFailed) as failed:
        eq.guard(model)
    assert failed.value.kind == kind
    assert len(calls) <= MOST
    assert max(calls) <= LONGEST


@pytest.mark.parametrize(
    "healthy", [pytest.param(h, id=h.name, marks=() if h.name in FEW else pytest.mark.thorough) for h in HEALTHY]
)
def test_a_healthy_model_passes(healthy):
    if healthy.group in OF_TRANSFORMERS:
        pytest.importorskip("transformers")
    model, calls = healthy.make(), []
    model.register_forward_pre_hook(lambda _, given, kwargs: calls.append(next(iter((*given, *kwargs.values()))).shape[-1]),
                                    with_kwargs=True)  # fmt: skip
    passed = eq.guard(model)
    assert not passed.scorer
    assert passed.positions > 0
    assert len(calls) <= MOST
    assert max(calls) <= LONGEST
    if healthy.group == "experts":
        assert any(word in type(m).__name__.lower() for m in model.modules() for word in ("moe", "expert", "ffn"))


@pytest.mark.parametrize("how", ["buffer", "table", "weight", "environment"])
@pytest.mark.parametrize("opens", [True, False])
def test_a_leak_at_a_border_that_only_the_model_names_is_found(how, opens):
    """Borders at 83, 281, 89 and 97: in a buffer, in a mask, in the shape of a weight, and in the environment."""
    model, calls = torch.nn.Sequential(torch.nn.Embedding(zoo.V, D), Border(how, opens), torch.nn.Linear(D, zoo.V)), []
    model.register_forward_pre_hook(lambda _, given: calls.append(given[0].numel()))
    with pytest.raises(GuardFailed, match="reads later tokens") if opens else nullcontext():
        eq.guard(model.eval(), longest=300)  # rows of the mask
    assert len(calls) <= MOST
    assert max(calls) <= LONGEST


def test_dropout_that_is_off_passes():
    assert not eq.guard(zoo.Drops().eval()).scorer


def test_a_short_table_of_positions_passes():
    assert max(eq.guard(zoo.ShortTable()).lengths) == 32


def test_the_page_lists_every_healthy_model():
    page = Path(__file__).parents[2] / "docs" / "reference" / "guarded.md"
    rows = re.findall(r"^\| `([^`]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [h.name for h in HEALTHY] + list(FAIL)
    assert len(HEALTHY) >= 60


SCORERS = [
    (zoo.scorer(zoo.LeakInBlocks()), "future"), (zoo.scorer(zoo.SuffixStatistics()), "future"), (zoo.tilted(zoo.V, True), "sum"),
    (zoo.tilted(50_000, True), "sum"), (zoo.adapts(True), "sum"), (zoo.adapts_to_the_text, "future"),
    (zoo.KeepsAdapting(), "state"), (zoo.tilted(5, True), "sum"),
]  # fmt: skip


@pytest.mark.parametrize(("nll", "kind"), SCORERS)
def test_a_scorer_that_reads_what_it_scores_is_found(nll, kind):
    with pytest.raises(GuardFailed) as failed:
        eq.guard(nll, vocab=50_000 if nll is SCORERS[3][0] else 5 if nll is SCORERS[-1][0] else zoo.V)
    assert failed.value.kind == kind
    assert failed.value.calls <= 40


@pytest.mark.parametrize(
    "nll", [zoo.scorer(zoo.Base()), zoo.tilted(zoo.V, False), zoo.tilted(50_000, False), zoo.adapts(False), zoo.tilted(5, False)]
)
def test_a_proper_scorer_passes(nll):
    vocab = 5 if nll(torch.zeros(3, dtype=torch.long))[0].allclose(torch.tensor(5.0).log()) else zoo.V
    passed = eq.guard(nll, vocab=vocab)
    assert passed.calls <= 40
    assert passed.scorer


def test_the_counterexample_is_small_and_holds():
    model = zoo.LeakInWholeBlocks()
    with pytest.raises(GuardFailed, match=r"the output at position \d+ changes by .* when token \d+ is replaced") as failed:
        eq.guard(model)
    found = failed.value
    assert len(found.changed) == 1
    assert len(found.tokens) == 64
    with torch.no_grad():
        one, other = (model(torch.tensor([ids]))[0, found.position] for ids in (found.tokens, found.other))
    assert found.position < found.changed[0]
    assert not torch.equal(one, other)


def test_lengths_are_those_of_each_call():
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(9, 4), nn.Linear(4, 9)

        def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
            x = self.table(ids) * (torch.arange(ids.shape[1]) < lengths[:, None])[..., None]
            return self.out(x.flip(1))  # reads no later token where lengths stay as they are

    with pytest.raises(GuardFailed, match="it reads later tokens"):
        eq.guard(Counted(), kwargs={"lengths": torch.tensor([2])}, longest=16)


def test_as_a_context_it_sees_that_the_evaluation_changed_the_model():
    model = zoo.Base()
    with eq.guard(model):
        model(torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(GuardFailed, match="after the evaluation"), eq.guard(model), torch.no_grad():
        model.head.bias += 1


def test_what_cannot_be_called_is_said():
    with pytest.raises(InputError, match="Give vocab="):
        eq.guard(lambda tokens: tokens)
    with pytest.raises(InputError, match="returned 1 number\\."):
        eq.guard(lambda tokens: tokens.sum(), vocab=9)
    with pytest.raises(InputError, match="could not be called"):
        eq.guard(torch.nn.Linear(3, 3), vocab=9)
    with pytest.raises(InputError, match="took some ids from 0 to 29 and raised on others: IndexError"):
        eq.guard(lambda tokens: torch.ones(len(tokens)) * [3.0][len(tokens) == 5], vocab=30, longest=16)


def test_outputs_that_are_no_numbers_are_not_passed():
    with pytest.raises(InputError, match="Every output is NaN or infinite"):
        eq.guard(lambda tokens: torch.full((len(tokens),), torch.nan), vocab=9)
    scores = torch.tensor([torch.nan, *[3.0] * 15])
    assert eq.guard(lambda tokens: scores[: len(tokens)], vocab=9, longest=16).notes == [
        "At 1 of 16 positions every output is NaN or infinite: there a leak is not seen."
    ]


@pytest.mark.parametrize("name", [n if n == "XLNetLMHeadModel" else pytest.param(n, marks=pytest.mark.thorough) for n in FAIL])
def test_a_class_of_transformers_that_is_not_causal_is_found(name):
    pytest.importorskip("transformers")
    with pytest.raises(GuardFailed) as failed:
        eq.guard(of_transformers(name))
    assert failed.value.kind == FAIL[name].kind
    assert failed.value.calls <= MOST
