"""A model that computes in bfloat16 learns what one in float32 learns, up to bfloat16's rounding."""

import torch
import torch.nn.functional as F

import equiscope as eq
from equiscope.models import PRESETS, Mixed, tiny


def learned(mixed, steps=40):
    """Losses of learning eight lines by heart."""
    torch.manual_seed(0)
    model, ids = eq.build(tiny(PRESETS["nanogpt-char"]())), torch.randint(40, (8, 12))
    both = Mixed(model) if mixed else None
    optimiser, losses = torch.optim.AdamW(model.parameters(), lr=1e-2), []
    for _ in range(steps):
        logits = (both or model)(ids[:, :-1]).float()
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        if both:
            both.accumulate_gradients()
        optimiser.step()
        optimiser.zero_grad()
        if both:
            both.update_copy()
        losses.append(loss.item())
    return losses


def test_it_learns_as_float32_does():
    exact, mixed = learned(False), learned(True)
    assert exact[-1] < 0.5 * exact[0]
    assert abs(mixed[-1] - exact[-1]) < 0.05 * exact[0]


def test_small_steps_are_not_lost_in_bfloat16():
    model = eq.build(tiny(PRESETS["nanogpt-char"]()))
    both, first = Mixed(model), next(model.parameters())
    before = first.detach().clone()
    for _ in range(100):
        with torch.no_grad():
            first += 1e-5  # below bfloat16's step at most weights
        both.update_copy()
    assert torch.allclose(first, before + 1e-3, atol=1e-5)
    assert next(both.inner.parameters()).dtype == torch.bfloat16
    assert torch.equal(next(both.inner.parameters()), first.bfloat16())


def test_gradients_of_several_batches_add_up():
    model, ids = eq.build(tiny(PRESETS["nanogpt-char"]())), torch.randint(40, (2, 6))
    both = Mixed(model)
    for _ in range(2):
        both(ids).float().square().mean().backward()
        both.accumulate_gradients()
    twice = next(model.parameters()).grad.clone()
    next(model.parameters()).grad = None
    both(ids).float().square().mean().backward()
    both.accumulate_gradients()
    assert torch.allclose(twice, 2 * next(model.parameters()).grad)
