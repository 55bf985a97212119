"""Engines: a healthy model is the same compiled, exported and with each kernel; a branch that only one of them takes is found."""

import pytest
import torch
from torch import nn

import equiscope as eq
from equiscope.audit.statements.numerics.engines import Engines
from tests.audit.parity.parallel import IDS, decoder


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


@pytest.mark.parametrize("engine", ["compiled", "exported", "flash kernel"])
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
