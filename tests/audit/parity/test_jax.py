"""The dumper of docs/howto/parity.md records a transformer that is written in JAX, and parity compares it with one in PyTorch."""

import re
from pathlib import Path

import numpy as np
import pytest

import equiscope as eq
from tests.audit.parity.families import HEADS, K, PlainA, ids, made
from tests.pairwise import few

HOWTO = Path(__file__).parents[3] / "docs/howto/parity.md"


@pytest.fixture
def x64():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", before)


def dumper():
    """The code block of the page."""
    (block,) = (text for text in re.findall(r"```python\n(.*?)```", HOWTO.read_text(), re.DOTALL) if "import jax\n" in text)
    names = {}
    exec(block, names)
    return names["dump"]


def transformer(jax, model, dtype, eps=1e-5, approximate=True, scale=K**-0.5, causal=True):
    """PlainA in JAX, with one head axis and jax.nn's functions."""
    jnp = jax.numpy
    w = {name: jnp.asarray(p.detach().numpy().astype(dtype)) for name, p in model.named_parameters()}

    def norm(x, name):
        centered = x - x.mean(-1, keepdims=True)
        return centered / jnp.sqrt((centered**2).mean(-1, keepdims=True) + eps) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def f(tokens):
        n = tokens.shape[1]
        x = w["tokens.weight"][tokens] + w["places.weight"][:n]
        for i in range(len(model.h)):
            h = norm(x, f"h.{i}.ln_1")
            q, k, v = (linear(h, f"h.{i}.{name}").reshape(1, n, HEADS, K) for name in ("query", "key", "value"))
            scores = jnp.einsum("bnhk,bmhk->bhnm", q, k) * scale
            scores = jnp.where(jnp.tril(jnp.ones((n, n), bool)), scores, -jnp.inf) if causal else scores
            x = x + linear(jnp.einsum("bhnm,bmhk->bnhk", jax.nn.softmax(scores), v).reshape(1, n, -1), f"h.{i}.dense")
            h = linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.fc_in")
            x = x + linear(jax.nn.gelu(h, approximate=approximate), f"h.{i}.fc_out")
        return norm(x, "ln_f") @ w["tokens.weight"].T

    return f


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.thorough)])
def test_the_same_transformer_in_jax_holds(x64, dtype, tmp_path):
    a = made(PlainA)
    dumper()(tmp_path / "jax.npz", transformer(x64, a, dtype), np.asarray(ids()))
    found = eq.parity(a, tmp_path / "jax.npz")
    assert found.holds
    assert found.aligned > 30


@pytest.mark.parametrize(
    ("changed", "kind"),
    few([({"scale": 1 / 8}, "softmax scale"), ({"eps": 1e-3}, "epsilon"), ({"approximate": False}, "activation"),
         ({"causal": False}, "causal")], 1),
)  # fmt: skip
def test_a_difference_in_jax_is_named(x64, changed, kind, tmp_path):
    a = made(PlainA)
    dumper()(tmp_path / "jax.npz", transformer(x64, a, "float64", **changed), np.asarray(ids()))
    found = eq.parity(a, tmp_path / "jax.npz")
    assert not found.holds
    assert found.step_a.module.startswith("h.0")
    assert found.kind == kind
