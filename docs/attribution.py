"""Write the findings of docs/howto/attribution.md: how well cheap scores predict what removal does, on trained models.

python docs/attribution.py          the models that come along
python docs/attribution.py RUN      also a translator: the folder of a run, which the page says how to make
"""

import statistics
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs.interventions import TEXT, replaced  # noqa: E402

import equiscope as eq  # noqa: E402
from equiscope import trained  # noqa: E402
from equiscope.cli import heads  # noqa: E402
from equiscope.explore.space.atom_effects import atom_effects  # noqa: E402
from equiscope.interventions import TokenEffects, head, log_probability, logit  # noqa: E402
from equiscope.interventions.attribution.token_effects import CROSS, LENS, MEAN, ROLLOUT, SHARE, spearman  # noqa: E402
from equiscope.interventions.experiment import Arguments  # noqa: E402
from equiscope.tokens.points import read_points  # noqa: E402

PAGE = ROOT / "docs" / "howto" / "attribution.md"
WIDTH, ANSWERS = 64, 40  # tokens before an answer; answers
SENTENCES = (
    "a man in a red shirt is riding a bicycle.",
    "two dogs are playing in the snow.",
    "a woman with a blue hat is reading a book.",
    "three children are sitting on a bench in a park.",
    "a young girl is jumping into the water.",
    "an old man is playing a guitar on the street.",
    "a black cat is sleeping on a chair.",
    "people are standing in front of a large building.",
)
Correlations = dict[str, list[float]]


def spread(values: Sequence[float]) -> str:
    """Median, and the quartiles."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{statistics.median(values):.2f} ({low:.2f} to {high:.2f})"


def collect(into: Correlations, effects: TokenEffects, nearness: Sequence[float]) -> None:
    """The rank correlations of one answer, and that of a score that reads no model: how near the token is."""
    for name, value in {**effects.correlations, "nearness": spearman(nearness, [abs(x) for x in effects.removed])}.items():
        if value is not None:
            into.setdefault(name, []).append(value)


def rows(found: Correlations) -> str:
    """A table in Markdown."""
    lines = ["| score | rank correlation with removal, median (quartiles) |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {name} | {spread(values)} |" for name, values in found.items())])


def _median(found: Correlations, name: str) -> float:
    return statistics.median(found[name])


def characters() -> str:
    """Answers of the character model in a text."""
    model, ids = eq.load("characters"), torch.tensor([list(TEXT.encode())])
    found: Correlations = {}
    parts = []
    for end in range(WIDTH, WIDTH + ANSWERS * 4, 4):
        some = ids[:, end - WIDTH : end]
        with torch.no_grad():
            answer = int(model(some)[0, -1].argmax())
        experiment = eq.Experiment(model, some, {"logit": logit(answer)})
        effects = experiment.token_effects()
        collect(found, effects, [float(t) for t in effects.tokens])
        parts.append(_parts(experiment))
    lens = eq.Experiment(model, ids[:, : WIDTH * 3]).lens()
    assert _median(found, ROLLOUT) > _median(found, "nearness") > _median(found, SHARE) > _median(found, LENS)
    agreement = ", ".join(f"{share:.0%}" for share in lens.agreement)
    return (
        f"**`characters`: rollout predicts which characters matter, direct shares and the lens hardly do.** {ANSWERS} answers, "
        f"each after {WIDTH} characters of one text. *Nearness* is the position of the character, which reads no model.\n\n"
        f"{rows(found)}\n\n"
        f"The shares of heads and feed-forwards against the measured drop when each is set to 0: {spread(parts)}. Of "
        f"{WIDTH * 3} answers, the lens agrees with the model after the embeddings and each block in {agreement}."
    )


def _parts(experiment: eq.Experiment) -> float:
    """Rank correlation of the shares of parts with the drop when each is set to 0."""
    sites = {part.site: part.share for part in experiment.attribution().parts if part.site is not None}
    effects = {row.site: row.effect or 0.0 for row in experiment.rank(list(sites)).rows}
    return spearman(list(sites.values()), [-effects[site] for site in sites]) or 0.0


def clothes() -> str:
    """Which patches decide the class?"""
    found: Correlations = {}
    flips: dict[str, list[int]] = {}
    parts, largest, means, dress = [], [], [], ""
    for path in trained.examples("clothes"):
        ready = heads._prepare("clothes", heads.ModelInput(image=path), 0)
        model, pixels = ready.model, ready.args[0]
        with torch.no_grad():
            label = int(model(pixels).argmax())
        experiment = eq.Experiment(model, pixels, {"nats": log_probability(label), "logit": logit(label)})
        effects = experiment.token_effects(metric="logit")
        middle = [-max(abs((t - 1) // 7 - 3), abs((t - 1) % 7 - 3)) for t in effects.tokens]
        collect(found, effects, [float(x) for x in middle])
        nats = experiment.token_effects(metric="nats")
        largest.append(max(map(abs, nats.removed)))
        means.append(max(map(abs, nats.scores[MEAN])))
        parts.append(_parts(eq.Experiment(model, pixels, {"logit": logit(label)})))
        if path.stem == "dress":
            i = max(range(len(nats.tokens)), key=nats.scores[MEAN].__getitem__)
            row, column = divmod(nats.tokens[i] - 1, 7)
            replaced_by, gone = nats.scores[MEAN][i], nats.removed[i]
            dress = (
                f"Of the dress, the patch in row {row}, column {column} lowers it by {replaced_by:.2f} when it is replaced, and "
                f"changes it by {gone:+.3f} when it is removed: it is background, and the mean token put something there."
            )
        orders = {"measured, one at a time": [-x for x in effects.removed], **effects.scores}
        for name, scores in orders.items():
            order = [t for _, t in sorted(zip(scores, effects.tokens, strict=True), reverse=True)]
            flips.setdefault(name, []).append(until_another(experiment, order, label))
        draw = torch.Generator().manual_seed(0)
        random = [until_another(experiment, [int(i) + 1 for i in torch.randperm(49, generator=draw)], label) for _ in range(5)]
        flips.setdefault("random order", []).append(round(statistics.median(random)))
    lines = ["| order of removal | patches removed until another class wins, of 49: median (quartiles) |", "| --- | --- |"]
    for name, counts in flips.items():
        low, _, high = statistics.quantiles(counts, n=4)
        lines.append(f"| {name} | {statistics.median(counts):.0f} ({low:.0f} to {high:.0f}) |")
    assert all(statistics.median(flips[name]) < statistics.median(flips["random order"]) / 2 for name in (ROLLOUT, SHARE))
    return (
        "**`clothes`: few patches matter alone; rollout and direct shares find those that matter together.** The ten example "
        "pictures; the 49 patches of each, removed one at a time. *Nearness* is to the middle of the picture.\n\n"
        f"{rows(found)}\n\n"
        "The patch with the largest effect changes the log-probability of the class by "
        f"{statistics.median(largest):.3f} nats when it is removed, and by {statistics.median(means):.3f} when it is replaced by "
        f"the mean of all tokens (medians; at most {max(largest):.2f} and {max(means):.2f}). {dress} Patches can also be removed "
        "together, in the order of a score:\n\n" + "\n".join(lines) + "\n\n"
        f"The shares of heads and feed-forwards against the measured drop when each is set to 0: {spread(parts)}."
    )


@torch.no_grad()
def until_another(experiment: eq.Experiment, order: Sequence[int], label: int) -> int:
    """How many tokens are removed in this order until another class wins; one more than there are where none does."""
    for count in range(1, len(order) + 1):
        after = experiment.run([head(i).cut(None, order[:count]) for i in range(len(experiment.layers))]).after
        if int(after.argmax()) != label:
            return count
    return len(order) + 1


def ethanol() -> str:
    """Which atoms decide the energy?"""
    points = read_points(trained.examples("ethanol")[0])
    assert points.numbers is not None
    model: Any = eq.load("ethanol")
    effects = atom_effects(model, points.numbers, points.positions)
    hydrogens = [i for i, n in enumerate(points.numbers) if n == 1]
    inside = spearman([effects.scores[ROLLOUT][i] for i in hydrogens], [abs(effects.removed[i]) for i in hydrogens])
    each = {name: value for name, value in effects.correlations.items() if value is not None}
    order = sorted(range(len(points.numbers)), key=lambda i: -abs(effects.removed[i]))
    named = ", ".join(f"{_symbol(points, i)}{i} {effects.removed[i]:+.2f}" for i in order[:4])
    return (
        "**`ethanol`: carbon decides, and rollout says so.** One molecule. The change of the energy in eV when no other atom "
        f"receives the messages of an atom: {named}, the others less. Rank correlation over {len(points.numbers)} atoms: "
        f"{', '.join(f'{name} {value:.2f}' for name, value in each.items())}. Rollout over the {len(hydrogens)} hydrogens alone: "
        f"{inside or 0:.2f}. The energy that the model gives to an atom itself is no measure of what the atom does to the energy."
    )


def _symbol(points: Any, i: int) -> str:
    from equiscope.tokens.elements import SYMBOLS

    return SYMBOLS[int(points.numbers[i]) - 1]


def translation(folder: Path) -> str:
    """Which token of the source decides a word of the translation?"""
    found: Correlations = {}
    same = {CROSS: 0, SHARE: 0}
    answers = 0
    parts = []
    for sentence in SENTENCES:
        ready = heads._prepare(str(folder), heads.ModelInput(sentence), 0)
        inputs = Arguments(tuple(ready.args), dict(ready.kwargs))
        plain = eq.Experiment(ready.model, inputs)
        for row in range(plain.before.shape[1] - 1):
            answer = int(plain.before[0, row].argmax())
            experiment = eq.Experiment(ready.model, inputs, {"logit": logit(answer, row)})
            effects = experiment.token_effects()
            scale = (len(effects.tokens) - 1) / (plain.before.shape[1] - 1)
            collect(found, effects, [-abs(t - row * scale) for t in effects.tokens])
            decides = max(range(len(effects.tokens)), key=lambda i: -effects.removed[i])
            for name in same:
                scores = effects.scores[name]
                same[name] += max(range(len(scores)), key=scores.__getitem__) == decides
            answers += 1
            parts.append(_parts(experiment))
    assert same[SHARE] > same[CROSS]
    hits = ", ".join(f"that of {name} in {count / answers:.0%}" for name, count in same.items())
    return (
        "**A small translator: direct shares name the word that decides more often than cross-attention does.** "
        f"{answers} words of {len(SENTENCES)} translations; *nearness* is to the straight line between both sentences.\n\n"
        f"{rows(found)}\n\n"
        f"The source token whose removal lowers the logit most is {hits} of the words. The shares of heads and feed-forwards "
        f"against the measured drop when each is set to 0: {spread(parts)}."
    )


def wrapped(text: str) -> str:
    """Paragraphs in lines of at most 138 letters; tables as they are."""
    parts = text.split("\n\n")
    return "\n\n".join(part if part.startswith("|") else textwrap.fill(part, 138) for part in parts)


def main(arguments: list[str]) -> int:
    """Write the page."""
    page = PAGE.read_text(encoding="utf-8")
    page = replaced(page, "findings", wrapped("\n\n".join([characters(), clothes(), ethanol()])))
    if arguments:
        page = replaced(page, "translation", wrapped(translation(Path(arguments[0]))))
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
