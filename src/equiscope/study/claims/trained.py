"""Claims about trained models, on one small task with several seeds: name the token that stood k positions earlier.

They hold in this setting, one to three layers and random tokens, and are never called true without limits.
"""

from statistics import median

import torch

from equiscope.errors import counted
from equiscope.models import Attention
from equiscope.positions import Alibi, Learned, NoPosition, Position, Rope, Shaw, Sinusoidal
from equiscope.study.claims.base import ClaimMeasurement, Setting, claim, curve, figure_panel, verdict_of
from equiscope.study.token_back import BACK, ENOUGH, EVERY, HEADS, LENGTH, TOKENS, WIDTH, first, small_model, train

SCALE = WIDTH**0.5  # of words in Vaswani 2017, section 3.4: they begin with length 1 here, and sinusoids have length sqrt(D / 2)
TASK = f"Steps until {ENOUGH:.0%} of “the token k back” are right"
HERE = f"In this setting: one layer of width {WIDTH} without feed-forward, {LENGTH} random tokens of {TOKENS} kinds, one rate."


def trained(
    setting: Setting, position: Position, back: int = BACK, scale: float | None = None, layers: int = 1, window: int | None = None
) -> "Learner":
    """A learner, which is trained once for all claims of a setting."""
    given = back, scale, layers, window
    return setting.once(("learner", str(position), *given), lambda: Learner(setting, position, *given))


class Learner:
    """Models trained with several seeds. reached: the step at which it is enough, for each; shares: of right answers over steps."""

    def __init__(
        self, setting: Setting, position: Position, back: int = BACK, scale: float | None = None, layers: int = 1,
        window: int | None = None,
    ) -> None:  # fmt: skip
        self.reached, self.shares = list[float](), list[list[float]]()
        for seed in range(setting.seed, setting.seed + _seeds(setting)):
            torch.manual_seed(seed)
            attention = Attention(heads=HEADS, causal=True, window=window, position=position)
            self.shares.append(train(small_model(attention, layers, scale), _longest(setting), seed, back))
            self.reached.append(first(self.shares[-1]))

    @property
    def steps(self) -> float | None:
        """The median; None where most seeds do not get there."""
        middle = median(self.reached)
        return None if middle == float("inf") else middle

    @property
    def listed(self) -> str:
        return "not" if self.steps is None else f"{self.steps:g}"

    @property
    def share(self) -> float:
        """Of right answers at the end, the median."""
        return median(shares[-1] for shares in self.shares)

    def faster(self, other: "Learner") -> bool:
        """Whether every seed is faster than every seed of the other."""
        return max(self.reached) < min(other.reached)


def _seeds(setting: Setting) -> int:
    return 2 if setting.quick else 5


def _longest(setting: Setting) -> int:
    return 100 if setting.quick else 200


def _medians(setting: Setting) -> str:
    return f"{TASK}, at most {_longest(setting)}, medians of {_seeds(setting)} seeds"


def _data(setting: Setting) -> str:
    return f"random tokens, {_seeds(setting)} seeds of weights and tokens"


@claim("RoPE learns faster than absolute encodings.", "Su 2021, section 4.2 and figure 3")
def rope_learns_faster(setting: Setting) -> ClaimMeasurement:
    schemes = (NoPosition(), Sinusoidal(), Learned(LENGTH), Rope(), Alibi())
    found = {scheme.name: trained(setting, scheme) for scheme in schemes}
    shares = {name: learner.shares[0] for name, learner in found.items()}
    lines = [curve(name, [EVERY * (i + 1) for i in range(len(some))], some) for name, some in shares.items()]
    listed = ", ".join(f"{name} {learner.listed}" for name, learner in found.items())
    return ClaimMeasurement(
        f"{_medians(setting)}, k = {BACK}: {listed}.",
        verdict_of(False, all(found["rope"].faster(found[name]) for name in ("sinusoidal", "learned"))),
        f"{HERE} Only the distance matters in it; `equiscope study token-back` has every scheme.",
        {f"steps, {name}": learner.steps for name, learner in found.items()},
        figure_panel(f"the token {BACK} back, first seed", "step", "share of right answers", *lines),
        data=_data(setting),
    )


@claim(
    "Relative positions are harder to learn from sinusoids that are added to the words than from distances in the attention.",
    "Shaw 2018, section 1; Dai 2019, section 3.3",
)
def relative_positions_are_harder_to_add(setting: Setting) -> ClaimMeasurement:
    ways: dict[str, tuple[Position, float | None]] = {
        "added": (Sinusoidal(), None), "added to words scaled by √D": (Sinusoidal(), SCALE), "RoPE": (Rope(), None),
        "Shaw": (Shaw(), None),
    }  # fmt: skip
    backs = (BACK,) if setting.quick else (1, BACK, 2 * BACK)
    found = {(k, name): trained(setting, p, k, scale=scale) for k in backs for name, (p, scale) in ways.items()}
    added, inside = list(ways)[:2], list(ways)[2:]
    harder = [found[k, one].faster(found[k, other]) for k in backs for one in inside for other in added]
    listed = "; ".join(f"k = {k}: {', '.join(f'{found[k, name].listed} ({name})' for name in ways)}" for k in backs)
    return ClaimMeasurement(
        f"{_medians(setting)}, {listed}. Each seed inside the attention is faster than each seed with added sinusoids in "
        f"{sum(harder)} of {len(harder)} pairs.",
        verdict_of(False, all(harder)),
        f"{HERE} Harder means slower: models with sinusoids get there too, as a shift of sinusoids is linear (see "
        "a-shift-of-sinusoids-is-linear).",
        {f"steps, {name}, k = {k}": learner.steps for (k, name), learner in found.items()},
        data=_data(setting),
    )


@claim("Learned and sinusoidal positions are equally good.", "Vaswani 2017, section 3.5 and table 3 (E)")
def learned_equals_sinusoidal(setting: Setting) -> ClaimMeasurement:
    learned = [trained(setting, Learned(LENGTH), scale=scale) for scale in (None, SCALE)]
    waves = [trained(setting, Sinusoidal(), scale=scale) for scale in (None, SCALE)]
    apart = [one.faster(other) or other.faster(one) for one, other in zip(learned, waves, strict=True)]
    least = min(learner.share for learner in (*learned, *waves))
    listed = "; ".join(
        f"words of length {length}: {one.listed} (learned), {other.listed} (sinusoidal)"
        for length, one, other in zip(("1", "√D"), learned, waves, strict=True)
    )
    return ClaimMeasurement(
        f"{_medians(setting)}, k = {BACK}; {listed}. At the end each gives at least {least:.3f} right answers.",
        verdict_of(False, least >= ENOUGH and not any(apart)),
        f"{HERE} Both solve the task. Which is faster depends on the length of the words beside that of the positions: a table "
        "begins at 0.02 a number, sinusoids have length √(D/2). For a text see recipes/questions/learned-or-sinusoidal.toml.",
        {f"steps, learned, words × {scale:.3g}": learner.steps for scale, learner in zip((1, SCALE), learned, strict=True)}
        | {f"steps, sinusoidal, words × {scale:.3g}": learner.steps for scale, learner in zip((1, SCALE), waves, strict=True)},
        data=_data(setting),
    )


@claim(
    "A sliding window must be as long as the distance that matters.", "a common reading of Beltagy 2020 (Longformer), section 3.1"
)
def a_window_must_reach(setting: Setting) -> ClaimMeasurement:
    cases = ((1, BACK - 1), (1, BACK), (2, 1), (BACK, 1))  # layers, and how many positions back a token attends
    found = {case: trained(setting, Rope(), layers=case[0], window=case[1] + 1) for case in cases}
    names = {(layers, back): f"{counted(layers, 'layer')}, {back} back" for layers, back in cases}
    works = {case: learner.share >= ENOUGH for case, learner in found.items()}
    listed = ", ".join(f"{learner.share:.2f} ({names[case]})" for case, learner in found.items())
    return ClaimMeasurement(
        f"Share of right answers for “the token {BACK} back” after {_longest(setting)} steps at most, medians of {_seeds(setting)} "
        f"seeds: {listed}. Guessing gives {1 / TOKENS:.3f}.",
        verdict_of(all(works[case] == (case[1] >= BACK) for case in cases), works == {c: c[0] * c[1] >= BACK for c in cases}),
        f"In one layer. The windows of several layers add up (see receptive-fields-add-up): {BACK} layers that attend one position "
        f"back reach the token {BACK} back. {HERE.replace('one layer', 'one to three layers')}",
        {f"share, {names[case]}": learner.share for case, learner in found.items()},
        data=_data(setting),
    )
