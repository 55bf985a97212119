"""Some rows at a time: the same gradients, for whatever parameters the forward pass was lent."""

from dataclasses import replace

import pytest
import torch
from tests.drawn import HEADS, attending, title, words
from torch.func import functional_call

from equiscope.attention import AttentionContext, Causal
from equiscope.positions import Fire, Kerple, LogCpb, T5Bias
from equiscope.symmetry import relative_error

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("scheme", "backend"), [(T5Bias(), "chunked"), (Kerple(), "eager"), (Kerple(), "sdpa")], ids=title)
def test_parameters_that_were_lent_for_the_forward_pass_get_their_gradients(scheme, backend):
    """functional_call takes its parameters back before the backward pass makes some rows again."""
    tokens = spread(600)  # more pairs than one table of biases holds
    model, other = attending(scheme, Causal(), backend=backend), attending(scheme, Causal(), seed=1, backend="eager")
    parameters = {name: p.detach().clone().requires_grad_() for name, p in other.named_parameters()}
    functional_call(model, parameters, (tokens,)).square().sum().backward()
    other(tokens).square().sum().backward()
    largest = max(p.grad.norm() for p in other.parameters())
    assert all((parameters[n].grad - p.grad).norm() < 1e-13 * largest for n, p in other.named_parameters())


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [Fire(length=2.0), LogCpb((8,), hidden=8), T5Bias()], ids=title)
def test_a_learned_bias_made_by_rows_is_the_one_made_at_once(scheme):
    tokens = spread(600)
    context = AttentionContext(attending(scheme).position, tokens, tokens)
    assert context._needs_chunks()
    parameters = list(context.position.parameters())
    (bias, *grads), (table, *others) = (
        [made, *torch.autograd.grad(made.square().sum(), parameters)]
        for made in (context._in_chunks(HEADS, 3), context._bias_table(HEADS, 3))
    )
    assert relative_error(bias, table) < 1e-14
    largest = max(g.norm() for g in others)
    assert all((a - b).norm() < 1e-12 * largest for a, b in zip(grads, others, strict=True))


def spread(length):
    """Words at uneven positions."""
    tokens = words(length=length)
    jumps = torch.rand(length, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return replace(tokens, positions=tokens.positions + jumps)


def test_a_parameter_that_changes_before_its_gradient_is_noticed():
    model = attending(T5Bias(), Causal(), backend="chunked")
    out = model(words())
    with torch.no_grad():
        model.position.table.weight += 1
    with pytest.raises(RuntimeError, match="changed in place"):
        out.sum().backward()


def test_transforms_of_torch_func_go_through():
    model, tokens = attending(T5Bias(), Causal(), backend="chunked"), words()
    own = torch.func.grad(lambda x: model(replace(tokens, x=x)).square().sum())(tokens.x)
    x = tokens.x.clone().requires_grad_()
    model(replace(tokens, x=x)).square().sum().backward()
    assert relative_error(own, x.grad) < 1e-13
