"""Which scheme learns relative position fastest: the task is to name the token that stood k positions earlier.

One idea: one layer, random tokens, so nothing but the distance helps; count the steps until 95 % of the answers are right.
Trained in float64, so that rounding, which differs between machines, has no time to grow.
"""

from statistics import median

import torch
from torch import Tensor

from equiscope.errors import EquiscopeError
from equiscope.models import Attention, Block, InputLayer, Model, Spec, build
from equiscope.positions import SCHEMES, Position
from equiscope.study.base import Cell, Curve, Each, Panel, ResultTable, Study, StudyResult

TOKENS, LENGTH, WIDTH, HEADS, BACK = 8, 12, 32, 4, 3
BATCH, RATE, ENOUGH, EVERY = 32, 1e-2, 0.95, 5
SHORT = ("none", "sinusoidal", "rope", "alibi")  # the schemes of the quick form


def measure(quick: bool, each: Each) -> StudyResult:
    """Every scheme of one coordinate, with a causal mask; several seeds of weights and data."""
    steps, seeds = (50, 1) if quick else (200, 3)
    models: dict[str, list[Model]] = {}
    skipped = []
    for scheme in (s for s in SCHEMES if not quick or s.name in SHORT):
        try:
            models[scheme.name] = [_model(scheme) for _ in range(seeds)]
        except EquiscopeError:
            skipped.append(scheme.name)
    runs: dict[str, list[list[float]]] = {name: [] for name in models}
    for name, seed in each([(name, seed) for seed in range(seeds) for name in models], "schemes and seeds"):
        runs[name].append(train(models[name][seed], steps, seed))
    reached = {name: sorted(first(curve) for curve in curves) for name, curves in runs.items()}
    inside = {name: r for name, r in reached.items() if median(r) <= steps}
    order = sorted(reached, key=lambda name: (median(reached[name]), -_last(runs[name])))
    fastest = order[0]
    winner = f"{fastest}, in {median(reached[fastest]):g} steps (median of {seeds}; {_spread(reached[fastest], steps)})"
    there, not_there = ([name for name in order if (name in inside) == wanted] for wanted in (True, False))
    answer = (
        f"To {ENOUGH:.0%} of right answers fastest: {winner if inside else 'none'}. Within {steps} steps {len(inside)} "
        f"of {len(runs)} schemes get there: {', '.join(there) or 'none'}."
    )
    chance = 1 / TOKENS
    notes = [
        f"Not within {steps} steps: {', '.join(not_there) or 'none'}. Guessing gives {chance:.1%}.",
        f"One layer of width {WIDTH}, {HEADS} heads, no feed-forward, causal mask, {LENGTH} random tokens of {TOKENS} kinds, "
        f"the token {BACK} back; Adam, rate {RATE:g}, batches of {BATCH}, evaluated every {EVERY} steps. One rate for all: a "
        "scheme may do better with its own.",
        "Without positions there is only the mask, which encodes how many words come before, not which; a bias that falls with "
        "distance (ALiBi) can only prefer nearer words.",
    ] + ([f"Left out, since they need more than one coordinate: {', '.join(skipped)}."] if skipped else [])  # fmt: skip
    rows: list[list[Cell]] = [
        [name, None if median(r) > steps else median(r), _spread(r, steps), _last(runs[name])]
        for name, r in ((name, reached[name]) for name in order)
    ]
    x = [float(s) for s in range(EVERY, steps + 1, EVERY)]
    lines = [Curve(name, x, [median(v) for v in zip(*(_held(c, len(x)) for c in runs[name]), strict=True)]) for name in order]
    return StudyResult(
        "Where relative position comes for free, it is learned first", answer,
        {f"steps, {name}": median(r) if median(r) <= steps else None for name, r in reached.items()} | {"chance": chance},
        [Panel(f"the token {BACK} back", "step", "share of right answers (median)", lines)],
        ResultTable(["scheme", f"steps to {ENOUGH:.0%} (median)", "of all seeds", "right at the end (median)"], rows), notes,
        data=f"random tokens, {seeds} seeds of weights and tokens",
    )  # fmt: skip


def _model(scheme: type[Position]) -> Model:
    model = small_model(Attention(heads=HEADS, position=scheme(), causal=True))
    model(torch.zeros(1, LENGTH, dtype=torch.long))  # a scheme that needs more than one coordinate says so here
    return model


def small_model(attention: Attention, layers: int = 1, scale: float | None = None) -> Model:
    """Attention without feed-forward. scale: factor of the words, as `InputLayer.scale`."""
    block = Block(attention, feedforward=None)
    spec = Spec(WIDTH, vocabulary=TOKENS, outputs=TOKENS, layers=layers, block=block, input=InputLayer(scale=scale))
    return build(spec).double()


def train(model: Model, steps: int, seed: int, back: int = BACK) -> list[float]:
    """Share of right answers after every five steps, on fresh tokens; ends early where it is enough twice in a row.

    back  which token the answer is: the one so many positions earlier
    """
    tokens = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    curve: list[float] = []
    for step in range(1, steps + 1):
        loss, _ = _loss(model, tokens, back)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % EVERY == 0:
            with torch.no_grad():
                curve.append(_loss(model, tokens, back)[1])
            if min(curve[-2:]) >= ENOUGH and len(curve) > 1:
                break
    return curve


def _loss(model: Model, tokens: torch.Generator, back: int) -> tuple[Tensor, float]:
    ids = torch.randint(TOKENS, (BATCH, LENGTH), generator=tokens)
    answers, wanted = model(ids)[:, back:].flatten(0, 1), ids[:, :-back].flatten()
    return torch.nn.functional.cross_entropy(answers, wanted), (answers.argmax(-1) == wanted).double().mean().item()


def first(curve: list[float]) -> float:
    """The first step at which it is enough; infinite where it never is."""
    return next((EVERY * (i + 1.0) for i, right in enumerate(curve) if right >= ENOUGH), float("inf"))


def _spread(reached: list[float], steps: int) -> str:
    named = [f"{r:g}" if r <= steps else "not" for r in (reached[0], reached[-1])]
    return " to ".join(dict.fromkeys(named))


def _held(curve: list[float], length: int) -> list[float]:
    return curve + [curve[-1]] * (length - len(curve))


def _last(curves: list[list[float]]) -> float:
    return median(curve[-1] for curve in curves)


STUDY = Study("token-back", "Which scheme learns relative position fastest?", "the task: ours", measure)
