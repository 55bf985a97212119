"""Comparisons for tests of what shows them: five schemes made by hand, and the odd ones: one seed, all failed, many, hostile."""

import math
from statistics import fmean

from equiscope.comparison.answer import with_answer
from equiscope.comparison.looks import looks_at
from equiscope.record import Candidate, Claim, Comparison, DataFile, Extrapolation, Trial

HOSTILE = "</script><script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"
SCHEMES = {"rope": 1.48, "alibi": 1.483, "sinusoidal": 1.56, "learned": 1.575, "none": 1.71}  # what each comes to
LONGER = {"rope": 0.55, "alibi": 0.004, "sinusoidal": 1.4, "none": 0.25}  # how much worse each gets where a text is twice as long
COMMAND = (
    "equiscope compare recipes/shakespeare-char-cpu.toml --vary position=none,sinusoidal,learned,rope,alibi --seeds 3 --out DIR"
)
KNOWN = {
    "permute": {"none": "holds"},
    "shift": {"none": "holds", "rope": "holds", "alibi": "holds"},
    "causal": dict.fromkeys(SCHEMES, "holds"),
}


def wave(*at: float) -> float:
    """A number in [-1, 1] that looks drawn by chance and is the same each time."""
    return math.sin(12.9898 * sum((i + 1) * x for i, x in enumerate(at)) + 78.233)


def candidate(name: str, at: int = 0, **more: object) -> Candidate:
    claims = [
        Claim(
            action=action, holds=name in holds, decided_by="" if name in holds else "position",
            reason="every part treats the tokens alike" if name in holds else "its vectors differ from place to place",
        )
        for action, holds in KNOWN.items() if action != "causal"
    ]  # fmt: skip
    said = {
        "name": name, "changes": {"model.position.scheme": name}, "spec": {"width": 128}, "steps": 2000, "claims": claims,
        "parameters": 810_000 + 32_768 * (at == 3), "multiply_adds": 2.1e9 + 1e7 * at,
        "verdicts": {action: holds.get(name, "broken") for action, holds in KNOWN.items()},
    }  # fmt: skip
    return Candidate(**(said | more))  # type: ignore[arg-type]


def trial(name: str, seed: int, ends: float, at: int = 0, steps: int = 2000, **more: object) -> Trial:
    """A run that came to about `ends`; its curve falls towards it."""
    value = round(ends + 0.006 * wave(seed) + 0.004 * wave(seed, at), 4)
    curve = [
        (s, round(value + 2.7 * math.exp(-s / 260) + 0.02 * wave(s, seed, at) * (s < steps), 4)) for s in range(0, steps + 1, 100)
    ]  # fmt: skip
    grows = LONGER.get(name)
    extrapolation = [
        Extrapolation(factor=f, size=64 * f, reason="Its table has 64 rows; a longer text has places that it never learned.")
        if grows is None and f > 1
        else Extrapolation(factor=f, size=64 * f, value=round(value + (grows or 0) * math.log2(f) * (1 + 0.05 * wave(seed, f)), 4))
        for f in (1, 2, 4, 8)
    ]
    said = {
        "candidate": name, "seed": seed, "folder": f"{name}/{seed}", "state": "finished", "value": value,
        "result": {"validation": {"loss": value, "accuracy": round(1 - value / 4, 4)}, "test": {"loss": round(value + 0.07, 4)}},
        "curve": curve, "extrapolation": extrapolation,
        "seconds": 170 + 6 * at + 3 * wave(seed), "tokens": 96_000 - 2500 * at, "memory": 4.1e8 + 1e7 * at,
    }  # fmt: skip
    return Trial(**(said | more))  # type: ignore[arg-type]


def comparison(candidates: list[Candidate] | None = None, trials: list[Trial] | None = None, **more: object) -> Comparison:
    """Five schemes, three seeds each, ranked and answered as the program does it."""
    if candidates is None:
        candidates = [candidate(name, at) for at, name in enumerate(SCHEMES)]
    if trials is None:
        trials = [trial(n, seed, ends, at) for at, (n, ends) in enumerate(SCHEMES.items()) for seed in (0, 1, 2)]
    values = {c.name: {t.seed: t.value for t in trials if t.candidate == c.name and t.value is not None} for c in candidates}
    sign = -1 if more.get("better") == "more" else 1
    ranked = sorted(candidates, key=lambda c: (not values[c.name], sign * fmean(values[c.name].values() or [0])))
    said = {
        "title": "Shakespeare, letter by letter", "question": "Which position scheme gives the least loss on this text?",
        "task": "language", "part": "validation", "metric": "loss", "better": "less", "varied": ["model.position.scheme"],
        "axis": "tokens of context", "seeds": sorted({t.seed for t in trials}), "candidates": ranked, "trials": trials,
        "looks": looks_at([len({t.seed for t in trials})]), "command": COMMAND,
        "recipe": {"title": "Shakespeare", "budget": {"steps": 2000}, "model": {"width": 128}},
        "data": [DataFile(name="tinyshakespeare.txt", part="train", bytes=1_115_394, sha256="ab" * 32)],
        "versions": {"python": "3.11", "torch": "2.13"}, "machine": {"cores": 2, "device": "cpu"},
    }  # fmt: skip
    made = Comparison(**(said | more))  # type: ignore[arg-type]
    return made if "answer" in more else with_answer(made)


def equal() -> Comparison:
    """A smallest effect, within which the two best are equivalent."""
    return comparison(smallest_effect=0.02)


def once() -> Comparison:
    """One seed: no spread is known."""
    return comparison(trials=[trial(n, 0, ends, at) for at, (n, ends) in enumerate(SCHEMES.items())])


def alone() -> Comparison:
    """Nothing to compare with."""
    return comparison([candidate("rope")], [trial("rope", s, 1.48) for s in (0, 1, 2)])


LOST = {"state": "failed", "reason": "The loss is no number after step 140.", "value": None, "result": {}, "extrapolation": []}


def failed() -> Comparison:
    """Nobody came to a number."""
    more = {**LOST, "curve": [(0, 4.2), (100, None)], "tokens": None, "memory": None}
    return comparison(trials=[trial(n, s, 2, **more) for n in SCHEMES for s in (0, 1)], axis="")


def mixed() -> Comparison:
    """One candidate diverged with one seed, one with all; one goes on, one was stopped; nothing is known of memory."""
    trials = [trial(n, s, ends, at, memory=None) for at, (n, ends) in enumerate(SCHEMES.items()) for s in (0, 1, 2)]
    broken = [trial("learned", 2, 2, curve=[(0, 4.2), (100, 9e5)], memory=None, **LOST)]
    broken += [trial("none", s, 2, curve=[(0, 4.2)], memory=None, **LOST) for s in (0, 1)]
    broken += [trial("none", 2, 2, state="running", value=None, result={}, extrapolation=[], curve=[], tokens=None, memory=None)]
    broken += [trial("sinusoidal", 1, 1.6, at=2, state="stopped", reason="Stopped after 1,500 steps.", memory=None)]
    places = {(t.candidate, t.seed): t for t in broken}
    return comparison(trials=[places.get((t.candidate, t.seed), t) for t in trials])


def twice() -> Comparison:
    """The same variant under two names, and more is better."""
    variants = {"pre-norm": (0.91, 0), "pre-norm again": (0.91, 0), "post-norm": (0.86, 1)}
    candidates = [candidate(name, claims=[], verdicts={}, changes={"model.norm": name}) for name in variants]
    trials = [
        trial(name, s, ends, at, curve=[], extrapolation=[]) for name, (ends, at) in variants.items() for s in (0, 1, 2)
    ]  # fmt: skip
    said = {"metric": "accuracy", "better": "more", "axis": "", "equal": "parameters", "varied": ["model.norm"], "command": ""}
    return comparison(candidates, trials, question="", **said)


def many(count: int = 12) -> Comparison:
    """As many as a grid gives, with names as long as it gives them."""
    kinds, tokens = ("rope", "alibi", "sinusoidal", "learned", "none", "relative"), ("raw", "convolutional stem")
    chosen = [(kinds[i % 6], tokens[i // 6 % 2], 2 ** (i % 4)) for i in range(count)]
    names = [f"position={kind}, tokens={token}, heads={heads}" for kind, token, heads in chosen]
    changes = [{"model.position.scheme": kind, "model.heads": heads} for kind, _, heads in chosen]
    candidates = [candidate(name, i, changes=changes[i]) for i, name in enumerate(names)]
    trials = [trial(name, s, 1.45 + 0.02 * i, i) for i, name in enumerate(names) for s in (0, 1, 2)]
    return comparison(candidates, trials, varied=["model.position.scheme", "tokens.kind", "model.heads"])


def empty() -> Comparison:
    """Nothing was said beyond what must be."""
    said = {"title": "Bare", "task": "language", "part": "validation", "metric": "loss", "better": "less"}
    return Comparison(**said, varied=[], seeds=[], candidates=[], trials=[])  # type: ignore[arg-type]


def hostile(text: str = HOSTILE) -> Comparison:
    """Every text that may come from data, a recipe or a machine is this one."""
    names = text, f"{text} again"
    claims = [Claim(action=text, holds=True, decided_by=text, reason=text)]
    candidates = [Candidate(name=n, changes={text: text}, spec={text: text}, verdicts={text: text}, claims=claims) for n in names]
    extrapolation = [Extrapolation(factor=1, size=64, value=1.5), Extrapolation(factor=2, size=128, reason=text)]
    more = {"reason": text, "folder": text, "result": {text: {text: 1.0}}, "extrapolation": extrapolation}
    return comparison(
        candidates, [trial(n, s, 1.5, **more) for n in names for s in (0, 1)], title=text, question=text, answer=text, notes=[text],
        task=text, part=text, metric=text, varied=[text], axis=text, command=text, recipe={text: {text: text}},
        versions={text: text}, machine={text: text}, data=[DataFile(name=text, part=text, bytes=1, sha256=text)],
    )  # fmt: skip


COMPARISONS = {
    "five": comparison, "equal": equal, "once": once, "alone": alone, "failed": failed, "mixed": mixed, "twice": twice,
    "many": many, "empty": empty, "hostile": hostile,
}  # fmt: skip
