"""Two of the healthy models of docs/same.py, in two forms each: neither is called different."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "docs"))
import same


@pytest.mark.parametrize(("name", "form"), [("LlamaForCausalLM", "SDPA"), ("nn.TransformerEncoder", "export")])
def test_a_healthy_model_is_not_called_different(name, form):
    assert same.compared(form, same.MODELS[name]).startswith("holds")
