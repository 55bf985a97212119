"""Purity: a call of the model has no side effects.

A call changes neither its inputs nor the parameters nor settings of the process. Its output depends neither on random numbers nor
on earlier calls, and later calls do not change it.
Buffers that only grow, or that the first call fills, are no violation as long as no output depends on them: for example, a table
of angles for the longest sequence so far.

Every other statement is measured with the state restored before each call, so a model that is not pure is measured too; its rows
say so.
"""

import pickle
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from equiscope.audit.inputs.lengths import cost
from equiscope.audit.inputs.padded import ragged
from equiscope.audit.inputs.padding_mask import mask_name
from equiscope.audit.inputs.variations import batched, changed_tokens, lengthened, resampled, sequence
from equiscope.audit.statements.measured_property import MeasuredProperty, Undecided
from equiscope.audit.statements.pairs import error
from equiscope.audit.subject import ModelError, Outputs, Pass, Seeds, Subject, numbers, reseed, shortened
from equiscope.audit.subject.outputs import finite
from equiscope.audit.subject.state import equal
from equiscope.errors import counted
from equiscope.record import Row
from equiscope.symmetry import Inputs

SOURCES = {"torch": "torch", "python": "Python's random", "numpy": "NumPy"}
EXTREMES = {"torch": (18881, 10642), "python": (12214, 9730), "numpy": (10180, 18985)}  # seeds whose first number is near 0, near 1
SEEDS = 24  # seeds that are tried of a source that is drawn from
REPEATED, OPERATIONS = 40, 2e9  # calls with the given input after which a counter may act, and the multiply-adds that they may take
ROUNDING = 64  # times the precision: the effect of summing in another order
MAX_LONGER = 300  # tokens of the longer input, at most


@dataclass(frozen=True)
class Fault:
    """One side effect of a call.

    workaround      how it is excluded while the other rows are measured
    changes_output  whether an output depends on it
    """

    cause: str
    workaround: str
    where: str = ""
    error: float | None = None
    changes_output: bool = False


class Pure(MeasuredProperty):
    """A call changes no input, parameter, buffer or setting; its output depends on no random numbers and on no earlier call."""

    name = "pure"
    summary = "a call changes nothing, and its output does not depend on earlier calls"
    expected = True

    def missing(self, subject: Subject) -> str:
        return "in training mode, layers update statistics of their inputs" if subject.mode == "train" else ""

    def measure(self, subject: Subject, tolerance: float, count: int) -> Row:
        side_effects = effects(subject)
        faults, errors = side_effects.faults, [f.error for f in side_effects.faults if f.error is not None]
        if not faults and side_effects.not_finite:
            raise Undecided(f"{side_effects.not_finite} is not finite")
        if not faults:
            return self.row("holds", [0.0], note=side_effects.note(), samples=side_effects.calls)
        small = errors and len(errors) == len(faults) and max(errors) < tolerance
        where = next((f.where for f in faults if f.where), "")
        cause = "; ".join(dict.fromkeys(f.cause for f in faults))
        return self.row("approximate" if small else "broken", errors, cause=cause, where=where)


@dataclass(frozen=True)
class Effects:
    """Side effects of a call.

    changed_state  names of the state that it changes; not_finite: an output that is not finite, or empty
    drawn          sources of random numbers that it draws from although no output depended on them
    """

    faults: list[Fault]
    changed_state: list[str]
    not_finite: str
    calls: int
    drawn: list[str]

    def note(self) -> str:
        """What calls change and draw although no output depended on it; empty where there is nothing."""
        if self.faults:
            return ""
        changed = f"calls change {_listed(self.changed_state)}" if self.changed_state else ""
        drawn = f"calls draw random numbers ({_listed(self.drawn)})" if self.drawn else ""
        what = ", and ".join(filter(None, (changed, drawn)))
        return what and f"{what}, on which no output depended in {self.calls} calls"


def effects(subject: Subject) -> Effects:
    """Side effects of a call of this model, measured once. The subject stores how they are excluded for the other rows."""
    if subject.effects is None:
        before = subject.passes.total()
        run = subject.on_copy()
        faults, drawn = list(_written(run)), list[str]()
        noise = max(_max_error(run(run.inputs), run.outputs_of(run.inputs.call)) for _ in range(2))
        if noise <= ROUNDING * torch.finfo(run.dtype).eps:  # sums in another order, on a GPU
            faults += [*_random_sources(run, drawn, noise), *(_history_effects(run) or _late_effects(run))]
        else:
            faults.append(Fault(UNREPEATABLE, "", "", noise, True))
        subject.writes_parameters = subject.writes_parameters or any(f.workaround == PARAMETERS for f in faults)
        subject.workarounds = list(dict.fromkeys(f.workaround for f in faults if f.workaround))
        leftover = [n for n in sorted(run.changed_state) if not n.startswith("attributes of")]
        subject.effects = Effects(faults, leftover, finite(run(run.inputs)), subject.passes.total() - before, drawn)
    side_effects: Effects = subject.effects
    return side_effects


INPUTS, PARAMETERS, STATE, DRAWS, SETTINGS = (
    "on copies of its inputs", "on a copy of the model, whose parameters were restored before every call",
    "with its state restored before every call", "with its random numbers drawn from one seed",
    "with the settings of the process restored after every call",
)  # fmt: skip


def _written(run: Pass) -> Iterator[Fault]:
    """Inputs and parameters that a call changes, and buffers that every call changes."""
    copied_inputs, root = run.inputs.copied(), type(run.model).__name__
    run.outputs_of(copied_inputs.call_on_itself)
    if run.changed_settings:
        yield Fault(f"a call changes {_listed(sorted(run.changed_settings))}, for the whole process", SETTINGS, root)
    changed = [
        n
        for n, v in run.inputs.values.items()
        if _differ(getattr(v, "x", v), getattr(copied_inputs.values[n], "x", copied_inputs.values[n]))
    ]
    if changed:
        yield Fault(f"it writes into its input {', '.join(changed)}", INPUTS, root)
    parameters = sorted(run.changed_state & {n for n, _ in run.model.named_parameters()})
    if parameters:
        yield Fault(
            f"a call changes the parameter{'s'[: len(parameters) != 1]} {_listed(parameters)}", PARAMETERS, _owner(parameters, root)
        )
    if changed := sorted(_rewritten(run)):
        yield Fault(f"every call changes the buffer{'s'[: len(changed) != 1]} {_listed(changed)}", STATE, _owner(changed, root))


def _rewritten(run: Pass) -> set[str]:
    """Buffers that a second call, on other inputs, changes again; not those that it extends."""
    if not any(True for _ in run.model.buffers()):
        return set()
    after: list[dict[str, Tensor]] = []
    other = resampled(run.inputs, Generator().manual_seed(run.subject.seed + 7))

    def call_twice(model: Any) -> Any:
        for inputs in (run.inputs, other):
            outputs = inputs.call(model)
            after.append({n: b.detach().clone() for n, b in model.named_buffers()})
        return outputs

    try:
        run.outputs_of(call_twice)
    except ModelError:  # the model rejects the other inputs, or rejects them after these: `_history_effects` finds that
        return set()
    both = [(n, b, after[1][n]) for n, b in after[0].items() if n in after[1] and b.shape == after[1][n].shape]
    return {
        n for n, b, then in both if not equal(b, then) and not (b.numel() == 1 and bool(then > b))
    }  # a single number that grows is a counter


UNREPEATABLE = (
    "two equal calls with equal random seeds give different outputs: they depend on something outside the model, such as a clock, "
    "a file, an iterator or a generator without a seed"
)


def _random_sources(run: Pass, drawn: list[str], noise: float) -> Iterator[Fault]:
    """Sources of random numbers on which the output depends, and those that a call seeds.

    drawn  gets those on which no output depends; noise: the difference of equal calls
    """
    threshold = ROUNDING * torch.finfo(run.dtype).eps if noise else 0.0
    original, seed, equal_seeds = run(run.inputs), run.subject.seed, dict.fromkeys(SOURCES, run.subject.seed)
    used, seeded = _touched(run)
    for source in SOURCES:
        if source in seeded:
            yield Fault(f"it seeds random numbers ({SOURCES[source]}) of the whole process", DRAWS)
        if source not in used:
            continue
        for other in (seed + 1, *EXTREMES[source], *range(seed + 2, seed + SEEDS)):
            outputs = run.outputs_of(run.inputs.call, seed=Seeds(**(equal_seeds | {source: other})))
            difference = _max_error(original, outputs)
            if not difference <= threshold:
                cause, known = f"it draws random numbers ({SOURCES[source]})", difference if difference == difference else None
                yield Fault(cause, DRAWS, "", known, True)
                break
        else:
            drawn.append(SOURCES[source])


def _touched(run: Pass) -> tuple[set[str], set[str]]:
    """Sources of random numbers that a call draws from, and those that it seeds: their states after it are equal for any seed."""
    states: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def call(model: Any) -> Any:
        before = _random_states()
        outputs = run.inputs.call(model)
        states.append((before, _random_states()))
        return outputs

    for seed in (run.subject.seed, run.subject.seed + 1):
        run.outputs_of(call, seed=seed)
    (before, after), (_, after_other) = states
    used = {source for source, state in after.items() if state != before[source]}
    if torch.accelerator.is_available():  # its own generators are not compared
        used.add("torch")
    return used, {source for source in used if source in after and after[source] == after_other[source]}


def _random_states() -> dict[str, Any]:
    states: dict[str, Any] = {"torch": torch.default_generator.get_state().numpy().tobytes(), "python": random.getstate()}
    if (numpy := sys.modules.get("numpy")) is not None:
        states["numpy"] = pickle.dumps(numpy.random.get_state())
    return states


def _history_effects(run: Pass) -> list[Fault]:
    """The first output that changes after calls with other inputs: other tokens, a longer sequence, a shorter one."""
    inputs_by_name, expected = dict[str, Inputs](), dict[str, Outputs]()
    for name, inputs, outputs in _variant_inputs(run):
        inputs_by_name[name], expected[name] = inputs, outputs
    if "other" in inputs_by_name:
        inputs_by_name["refilled"], expected["refilled"] = inputs_by_name["other"], expected["other"]
    threshold = ROUNDING * torch.finfo(run.dtype).eps
    for order in ORDERS:
        answers: list[tuple[str, Outputs]] = []
        names: list[str] = [n for n in order if n in inputs_by_name]
        rewritten: list[str] = []  # inputs whose output a later call changed

        def one_after_another(model: Any, names: list[str] = names, answers: Any = answers, rewritten: Any = rewritten) -> Any:
            tensors, reused = run.inputs.copied(), ("given", "refilled") if "refilled" in names else ()
            returned: list[Outputs] = []
            for name in names:
                refill = name in reused
                inputs = inputs_by_name[name]
                reseed(Seeds(run.subject.seed, run.subject.seed, run.subject.seed))
                result = _refilled(tensors, inputs).call_on_itself(model) if refill else inputs.call(model)
                returned.append(dict(run.subject.select_outputs(result)))
                answers.append((name, numbers(returned[-1])))
            if not reused:
                pairs = zip(answers, returned, strict=True)
                rewritten += [name for (name, then), now in pairs if _max_error(then, numbers(now)) != 0]
            return result

        run.changed_state.clear()
        try:
            run.outputs_of(one_after_another)
            failed = ""
        except ModelError as crash:
            failed = str(crash)
        leftover = sorted(run.changed_state)
        errors = [_max_error(expected[n], t) for n, t in answers]
        wrong = next(((i, e) for i, e in enumerate(errors) if not e <= threshold), None)
        if wrong is None and not failed:
            if rewritten:
                text = f"a later call changes the output for {DESCRIPTIONS[rewritten[0]]} that an earlier one returned"
                return [Fault(text, STATE, _owner(leftover, type(run.model).__name__), None, True)]
            continue
        number = wrong[0] if wrong is not None else len(answers)
        if not number and wrong is not None:
            return [Fault(UNREPEATABLE, "", "", wrong[1], True)]
        before = ", ".join(DESCRIPTIONS[n] for n in names[:number][-2:])
        what = f"the output for {DESCRIPTIONS[names[number]]} changes after {before}" if not failed or wrong else (
            f"after {before}, the call with {DESCRIPTIONS[names[number]]} fails: {failed}"
        )  # fmt: skip
        state_note = f"; a call changes {_listed(leftover)}" if leftover else "; a call changes something outside the model"
        where = _owner(leftover, type(run.model).__name__)
        return [Fault(what + state_note, STATE, where, wrong[1] if wrong is not None else None, True)]
    return []


def _late_effects(run: Pass) -> list[Fault]:
    """Whether the output changes after many equal calls, of a model whose calls change state: a counter may act late."""
    calls = min(REPEATED, int(OPERATIONS / cost(run.model, run.inputs.batch or 1, run.inputs.length or 1)))
    if not run.changed_state or calls < 2:
        return []
    expected, errors = run(run.inputs), list[float]()

    def many(model: Any) -> Any:
        for _ in range(calls):
            reseed(Seeds(run.subject.seed, run.subject.seed, run.subject.seed))
            result = run.inputs.call(model)
            errors.append(_max_error(expected, numbers(run.subject.select_outputs(result))))
        return result

    run.outputs_of(many)
    number = next((i for i, e in enumerate(errors) if not e <= ROUNDING * torch.finfo(run.dtype).eps), None)
    if number is None:
        return []
    leftover = sorted(run.changed_state)
    text = f"the output for the given input changes after {counted(number, 'equal call')}; a call changes {_listed(leftover)}"
    return [Fault(text, STATE, _owner(leftover, type(run.model).__name__), errors[number], True)]


ORDERS = (
    ("given", "other", "longer", "given", "shorter", "other"), ("shorter", "longer", "other", "given"),
    ("wider", "masked", "reordered", "ending", "given", "refilled"),
)  # fmt: skip
DESCRIPTIONS = {
    "given": "the given input", "other": "other tokens", "longer": "a longer input", "shorter": "a shorter input",
    "wider": "a batch of other sequences", "masked": "an input with another padding mask",
    "refilled": "other tokens in the same tensors", "reordered": "the same tokens in another order",
    "ending": "the same tokens except the last",
}  # fmt: skip


def _variant_inputs(run: Pass) -> Iterator[tuple[str, Inputs, Outputs]]:
    """The given input and others, each with its output in a fresh state; inputs that the model rejects are omitted."""
    generator, n = Generator().manual_seed(run.subject.seed + 11), run.inputs.length
    variants = {"given": run.inputs, "other": resampled(run.inputs, generator)}
    if n is not None and n > 2:
        variants["shorter"] = shortened(variants["other"], n // 2 + 1)
    if n is not None and (longer := lengthened(run.inputs, min(2 * n + 1, max(MAX_LONGER, n + 1)), generator)) is not None:
        variants["longer"] = longer
    if (
        n is not None and n > 3 and not run.inputs.has("edges")
    ):  # equal in what a cache might use as its key: the ends, a sum, the beginning
        variants["reordered"] = run.inputs.rows([0, *range(2, n - 1), 1, n - 1], ("ids", "features", "steps"))
        variants["ending"] = changed_tokens(run.inputs, slice(n - 1, n), generator)
    if run.inputs.batch is not None and not run.inputs.has("pairs"):
        one = sequence(run.inputs, 0)
        variants["wider"] = batched(sequence(variants["other"], 0), *[one] * run.inputs.batch)
        if n is not None and n > 2 and mask_name(run.subject) in run.inputs.values:
            short = ragged(run.subject, one, (n // 2 + 1, n), False, generator).batch
            variants["masked"] = batched(*(sequence(short, i % 2) for i in range(run.inputs.batch)))
    for name, inputs in variants.items():
        try:
            yield name, inputs, run(inputs)
        except ModelError:
            continue


@torch.no_grad()
def _refilled(tensors: Inputs, inputs: Inputs) -> Inputs:
    """The same tensors filled with other values, as a loop does; tensors of another shape are passed as they are."""
    pairs = [(getattr(v, "x", v), getattr(inputs.values[n], "x", inputs.values[n])) for n, v in tensors.values.items()]
    if any(isinstance(a, Tensor) and a.shape != b.shape for a, b in pairs):
        return inputs.copied()
    for a, b in pairs:
        if isinstance(a, Tensor):
            a.copy_(b)
    return tensors


def _max_error(expected: Outputs, side_effects: Outputs) -> float:
    """The worst error; NaN equals NaN."""
    if expected.keys() != side_effects.keys():
        return float("inf")
    same = (0.0 if equal(t, side_effects[n].to(t.dtype)) else error(t, side_effects[n]) for n, t in expected.items())
    return max(same, default=0.0, key=lambda e: float("inf") if e != e else e)


def _differ(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return not equal(a, b)
    if type(a) is type(b) and type(a) in (list, tuple):
        return len(a) != len(b) or any(map(_differ, a, b))
    return type(a) is dict and type(b) is dict and (a.keys() != b.keys() or any(_differ(v, b[n]) for n, v in a.items()))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _owner(names: list[str], root: str) -> str:
    """The module that holds the first of these names."""
    inside = next((n for n in names if " " not in n), "")
    return inside.rpartition(".")[0] or root if inside else root
