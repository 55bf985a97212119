"""Runs for tests of what shows them: a small one made by hand, of each kind of example, a long one, and a hostile one."""

import math

import numpy as np

from equiscope.record import DataFile, Point, Run, Sample, Score, pack

HOSTILE = "</script><script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"


def point(step: int, **more: object) -> Point:
    loss = 4 * math.exp(-step / 20) + 1.5 + 0.1 * math.sin(3 * step)
    said = {"loss": loss, "rate": 1e-3, "norm": 1 / step, "seconds": 0.25 * step, "tokens": 1000.0, "mfu": 0.4}
    return Point(step=step, **(said | more))  # type: ignore[arg-type]


def attention(layers: int = 2, heads: int = 2, rows: int = 4, columns: int = 4, step: int = 0) -> np.ndarray:
    """Weights whose rows sum to one; they change with the step."""
    raw = np.random.default_rng(step).random((layers, heads, rows, columns)) ** 3
    return (raw / raw.sum(-1, keepdims=True)).round(3)


def run(steps: int = 60, done: int | None = None, every: int = 20, samples: list[Sample] | None = None, **more: object) -> Run:
    """`done` of `steps` steps, evaluated every so many."""
    last = steps if done is None else done
    at = range(0, last + 1, every)
    scores = [Score(step=s, part="validation", values={"loss": 5 / (1 + s / 20), "accuracy": s / 100}, best=True) for s in at]
    said = {
        "title": "A toy", "task": "language", "recipe": {"title": "A toy", "seed": 1, "optimiser": {"rate": 1e-3, "average": None}},
        "spec": {}, "data": [DataFile(name="toy.txt", part="train", bytes=1234, sha256="ab" * 32)], "seed": 1,
        "versions": {"torch": "2"}, "machine": {"cores": 2}, "parameters": 1000, "steps": steps,
        "state": "finished" if last == steps else "running", "seconds": 0.25 * last,
        "result": {"validation": {"loss": 1.25, "accuracy": 0.6}} if last == steps else {},
        "points": [point(s) for s in range(1, last + 1)], "scores": scores,
        "samples": language(at) if samples is None else samples,
    }  # fmt: skip
    return Run(**(said | more))  # type: ignore[arg-type]


def language(at: range) -> list[Sample]:
    """A text that goes on."""
    return [
        Sample(
            step=s, prompt="abcd", answer=f" after {s}", tokens=["a", "\n", " ", "d"], attention=pack(attention(step=s)),
        )
        for s in at
    ]  # fmt: skip


def translated() -> Run:
    """Attention across, from the words of the answer to those of the source."""
    samples = [
        Sample(
            step=s, prompt="Ein Hund schläft.", answer="A dog" if s < 40 else "A dog sleeps.", target="A dog sleeps.",
            tokens=["A", "dog", "sleeps", "."], source=["Ein", "Hund", "schläft", ".", "</s>"],
            attention=pack(attention(3, 4, 4, 5, s)),
        )
        for s in range(0, 61, 20)
    ]  # fmt: skip
    return run(task="translation", samples=samples)


def pictured() -> Run:
    """What a class token drew from the patches of a picture."""
    shade = np.add.outer(np.arange(28), np.arange(28)).astype(np.int64) * 4
    samples = [
        Sample(
            step=s, prompt="shirt.png", answer="coat" if s < 40 else "shirt", target="shirt", tokens=["class"],
            source=[str(i) for i in range(49)], grid=[7, 7], picture=pack(shade), attention=pack(attention(2, 3, 1, 49, s)),
        )
        for s in range(0, 61, 20)
    ]  # fmt: skip
    return run(task="images", samples=samples)


def hostile(text: str = HOSTILE) -> Run:
    """Every text that may come from data, a recipe or a machine is this one."""
    sample = Sample(step=0, prompt=text, answer=text, target=text, tokens=[text] * 4, attention=pack(attention()))
    return run(
        title=text, task=text, recipe={text: {text: text}}, versions={text: text}, machine={text: text}, reason=text,
        data=[DataFile(name=text, part=text, bytes=1, sha256=text)], state="failed", samples=[sample],
        scores=[Score(step=0, part=text, values={text: 1.0})], result={text: {text: 1.0}},
    )  # fmt: skip


def long(points: int = 50_001) -> Run:
    return run(steps=points, every=10_000, samples=[])


def lost() -> Run:
    """What was measured is no number, once."""
    values = [{"loss": 5.0, "accuracy": 0.1}, {"loss": None, "accuracy": None}, {"loss": 2.0, "accuracy": 0.5}]
    scores = [Score(step=20 * i, part="validation", values=found) for i, found in enumerate(values)]
    return run(scores=scores, result={"validation": {"loss": None}})
