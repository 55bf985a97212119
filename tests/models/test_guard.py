"""The guard raises for every planted leak, with a small counterexample, and for no healthy model."""

import pytest
import torch
from tests.models import zoo_guard as zoo

import equiscope as eq
from equiscope.errors import GuardFailed, InputError

LEAKS = [
    (zoo.LeakInBlocks, "future"), (zoo.LeakInWholeBlocks, "future"), (zoo.LeakInPairs, "future"), (zoo.SuffixStatistics, "future"),
    (zoo.TinySuffixStatistics, "future"), (zoo.ReversedScan, "future"), (zoo.OneAhead, "future"), (zoo.Bidirectional, "future"),
    (lambda: zoo.Convolution(3), "future"), (zoo.ScanOverTheBatch, "batch"), (zoo.Remembers, "state"), (zoo.Drops, "random"),
]  # fmt: skip
HEALTHY = [zoo.Base, zoo.ScanOverTokens, zoo.ShortTable, zoo.Recurrent, zoo.Convolution, lambda: zoo.Drops().eval()]


@pytest.mark.parametrize(("make", "kind"), LEAKS)
def test_a_planted_leak_is_found(make, kind):
    calls = []
    model = make()
    model.register_forward_pre_hook(lambda _, given: calls.append(given[0].numel()))
    with pytest.raises(GuardFailed) as failed:
        eq.guard(model)
    assert failed.value.kind == kind
    assert len(calls) <= 40
    assert max(calls) <= 520


@pytest.mark.parametrize("make", HEALTHY)
def test_a_healthy_model_passes(make):
    passed = eq.guard(make())
    assert passed.calls <= 40
    assert not passed.scorer


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


def test_as_a_context_it_sees_that_the_evaluation_changed_the_model():
    model = zoo.Base()
    with eq.guard(model):
        model(torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(GuardFailed, match="after the evaluation"), eq.guard(model), torch.no_grad():
        model.head.bias += 1


def test_what_cannot_be_called_is_said():
    with pytest.raises(InputError, match="Give vocab="):
        eq.guard(lambda tokens: tokens)
    with pytest.raises(InputError, match="returned 1 numbers"):
        eq.guard(lambda tokens: tokens.sum(), vocab=9)
    with pytest.raises(InputError, match="could not be called"):
        eq.guard(torch.nn.Linear(3, 3), vocab=9)


FEW = ["GPT2LMHeadModel", "LlamaForCausalLM", "MistralForCausalLM", "MambaForCausalLM", "BloomForCausalLM", "GPTNeoXForCausalLM"]
MORE = [
    "OPTForCausalLM", "Qwen3ForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM", "PhiForCausalLM", "FalconForCausalLM",
    "MptForCausalLM", "GPTJForCausalLM", "CodeGenForCausalLM", "CTRLLMHeadModel", "RwkvForCausalLM", "Mamba2ForCausalLM",
    "JambaForCausalLM", "MixtralForCausalLM", "Qwen2MoeForCausalLM", "OlmoForCausalLM", "Olmo2ForCausalLM",
    "CohereForCausalLM", "StableLmForCausalLM", "GraniteForCausalLM", "NemotronForCausalLM", "Glm4ForCausalLM",
    "SmolLM3ForCausalLM", "ModernBertDecoderForCausalLM", "RecurrentGemmaForCausalLM", "BartForCausalLM",
    "MarianForCausalLM", "PegasusForCausalLM", "BlenderbotForCausalLM", "XGLMForCausalLM", "TrOCRForCausalLM",
    "BertLMHeadModel", "RobertaForCausalLM", "ElectraForCausalLM", "MegatronBertForCausalLM", "BioGptForCausalLM",
    "GitForCausalLM",
]  # fmt: skip


@pytest.mark.parametrize("name", [*FEW, *(pytest.param(name, marks=pytest.mark.thorough) for name in MORE)])
def test_a_causal_model_of_transformers_passes(name):
    pytest.importorskip("transformers")
    from equiscope.audit.inputs.targets import target

    assert eq.guard(target(f"transformers:{name}").model).calls <= 40


def test_a_model_of_transformers_that_reads_both_ways_is_found():
    pytest.importorskip("transformers")
    from equiscope.audit.inputs.targets import target

    with pytest.raises(GuardFailed, match="reads later tokens"):
        eq.guard(target("transformers:BertForMaskedLM").model)
