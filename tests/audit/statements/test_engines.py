"""Engines: a healthy model is the same compiled, exported and with each kernel; a branch that only one of them takes is found."""

import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.audit.statements.numerics.engines import Engines
from tests.audit.parity.parallel import IDS, decoder
from tests.judges import transformers


class Branch(nn.Module):
    """Another factor where one engine runs it."""

    def __init__(self, engine):
        super().__init__()
        self.linear, self.engine = nn.Linear(16, 16), engine

    def forward(self, x):
        taken = {
            "compiled": torch.compiler.is_dynamo_compiling(),
            "exported": torch.compiler.is_exporting(),
            "flash kernel": not torch.backends.cuda.math_sdp_enabled(),
        }
        return self.linear(x) * 1.01 if taken[self.engine] else self.linear(x)


def row(model, backend="aot_eager"):
    return eq.check(model, IDS, properties=Engines(backend), actions=[])["engines"]


def test_a_decoder_is_the_same_on_every_engine():
    found = row(decoder())
    assert found.holds
    assert {o.name: o.verdict for o in found.outputs}.items() >= dict.fromkeys(
        ["compiled", "math kernel", "exported"], "holds"
    ).items()
    assert found.error < 1e-14


@pytest.mark.thorough
def test_the_default_backend_of_compile_is_the_same_too():
    assert row(decoder(), "inductor").holds


SLOWER = [pytest.param(engine, marks=pytest.mark.thorough) for engine in ("compiled", "exported")]


@pytest.mark.parametrize("engine", ["flash kernel", *SLOWER])
def test_a_branch_of_one_engine_is_named(engine):
    model = decoder()
    model.blocks[1].norm2 = nn.Sequential(nn.Identity(), Branch(engine))
    found = row(model)
    assert not found.holds
    assert found.fails
    assert [o.name for o in found.outputs if o.verdict != "holds"] == [engine]
    assert found.cause == f"another computation: {engine}"
    assert found.where == ("" if engine == "exported" else "blocks.1.norm2.1")


def test_it_is_measured_by_name_only():
    audit = eq.check(nn.Linear(4, 4), torch.randn(2, 3, 4), actions=[], effort="quick")
    assert "engines" not in [r.name for r in audit.rows]


class OnePositionLate(nn.Module):
    """A decoder that counts positions from 1 where the cache holds tokens."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.config = inner, inner.config

    def first(self, past):
        """Position of the first new token."""
        held = past.get_seq_length()
        return held + 1 if held else 0

    def forward(self, input_ids, past_key_values=None, use_cache=None):
        n, past = input_ids.shape[1], past_key_values
        start = 0 if past is None else self.first(past)
        positions = torch.arange(start, start + n)[None]
        return self.inner(input_ids=input_ids, position_ids=positions, past_key_values=past, use_cache=use_cache)


class StaleAfterRewind(OnePositionLate):
    """Counts positions from the most tokens that the cache ever held."""

    def first(self, past):
        past.most = max(getattr(past, "most", 0), past.get_seq_length())
        return past.most

    def forward(self, input_ids, past_key_values=None, use_cache=None):
        found = super().forward(input_ids, past_key_values, use_cache)
        if past_key_values is not None:
            self.first(past_key_values)
        return found


class Detached(nn.Module):
    """The same output, without a gradient in one engine."""

    def __init__(self, engine):
        super().__init__()
        self.linear, self.engine = nn.Linear(16, 16), engine

    def forward(self, x):
        y = self.linear(x)
        taken = {"compiled": torch.compiler.is_dynamo_compiling(), "flash kernel": not torch.backends.cuda.math_sdp_enabled()}
        return y.detach() + 0 * y if taken[self.engine] else y


def llama(attention="sdpa"):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        initializer_range=0.3, attn_implementation=attention,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def verdicts(model):
    ids = torch.randint(3, 40, (2, 9), generator=torch.Generator().manual_seed(0))
    found = eq.check(model, kwargs={"input_ids": ids}, properties=Engines("eager"), actions=[])["engines"]
    return found, {o.name: o.verdict for o in found.outputs}


def test_every_kind_of_cache_gives_the_outputs_of_one_pass():
    found, by_name = verdicts(llama())
    assert found.holds
    assert {by_name[name] for name in ("dynamic cache", "static cache", "rewound cache", "gradient, math kernel")} == {"holds"}


@pytest.mark.thorough
def test_a_cache_that_is_off_by_one_position_is_named():
    found, by_name = verdicts(OnePositionLate(llama()))
    assert found.fails
    assert {by_name[name] for name in ("dynamic cache", "static cache", "rewound cache")} == {"broken"}
    assert by_name["math kernel"] == "holds"


def test_a_cache_that_is_stale_after_a_rewind_is_named():
    found, by_name = verdicts(StaleAfterRewind(llama()))
    assert (by_name["dynamic cache"], by_name["static cache"], by_name["rewound cache"]) == ("holds", "holds", "broken")
    assert found.cause == "another computation: rewound cache"


@pytest.mark.parametrize("engine", [pytest.param("compiled", marks=pytest.mark.thorough), "flash kernel"])
def test_a_gradient_that_one_engine_detaches_is_named(engine):
    model = decoder()
    model.blocks[1].norm2 = nn.Sequential(nn.Identity(), Detached(engine))
    found = row(model)
    wrong = {o.name for o in found.outputs if o.verdict in ("approximate", "broken")}
    assert wrong == {f"gradient, {engine}"}
    assert found.fails
