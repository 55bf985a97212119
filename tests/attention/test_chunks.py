"""Some rows at a time: the same gradients, for whatever parameters the forward pass was lent."""

from dataclasses import replace

import pytest
import torch
from tests.drawn import LENGTH, attending, title, uneven, words
from torch.func import functional_call

from equiscope.attention import Causal
from equiscope.attention import context as contexts
from equiscope.positions import Kerple, T5Bias
from equiscope.symmetry import relative_error


@pytest.mark.parametrize(("scheme", "backend"), [(T5Bias(), "chunked"), (Kerple(), "eager"), (Kerple(), "sdpa")], ids=title)
def test_parameters_that_were_lent_for_the_forward_pass_get_their_gradients(scheme, backend, monkeypatch):
    """functional_call takes its parameters back before the backward pass makes some rows again."""
    monkeypatch.setattr(contexts, "WHOLE", 2 * LENGTH)  # a bias of uneven places is made two rows at a time
    tokens = uneven(words(), whole=False)
    model, other = attending(scheme, Causal(), backend=backend), attending(scheme, Causal(), seed=1, backend="eager")
    parameters = {name: p.detach().clone().requires_grad_() for name, p in other.named_parameters()}
    functional_call(model, parameters, (tokens,)).square().sum().backward()
    monkeypatch.undo()
    other(tokens).square().sum().backward()
    largest = max(p.grad.norm() for p in other.parameters())
    assert all((parameters[n].grad - p.grad).norm() < 1e-13 * largest for n, p in other.named_parameters())


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
