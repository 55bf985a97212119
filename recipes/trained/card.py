"""Put a trained model into the package, with its card: measurements, licence, examples and limits.

    python recipes/trained/card.py RUN [--commit HASH]    from a finished run of a recipe here
    python recipes/trained/card.py --table                write the table of docs/howto/trained.md; with --check, compare it

Every number of a card comes from the run's record or is measured here on the run's own data, and stands in card.json. Intervals are
of 95 % and of the examples measured: another seed may differ by more.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from scipy.stats import norm

from equiscope.audit import check
from equiscope.checkpoints import run_folder
from equiscope.data.catalogue import catalogue
from equiscope.data.files import find_files
from equiscope.data.language import IGNORED
from equiscope.geometry import SpaceModel
from equiscope.interventions.attribution.rollout import rollout
from equiscope.models import Model, Sampling, build, generate
from equiscope.program.attended.attended import attended
from equiscope.record.run import METRICS, Point, Score, read_run, write_run
from equiscope.tokens.elements import SYMBOLS
from equiscope.trained import CARD, HOME, MEASURED
from equiscope.training import ImagesTask, LanguageTask, MoleculesTask, Run, Task, open_task, read_recipe, simple_model
from equiscope.training.atom_domain import AtomDomain
from equiscope.training.reading import differences, recipe

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto" / "trained.md"
BEGIN, END = "<!-- table: python recipes/trained/card.py --table -->", "<!-- end of the table -->"
POINTS = 60  # of the curve of the loss that are kept
Z = 1.959964  # of a normal interval of 95 %
AT_ONCE = 250
THRESHOLD = 32  # of 255: brighter pixels are the object
LOOKED_AT = 1000  # images on which attention is measured
SHARE = 1.5  # times its share of the area: from there on attention is said to lie on the object
PROMPT, STEPS = "ROMEO:\n", 120

USE = {
    "characters": "A causal language model. One byte is one token, so it reads any text.",
    "clothes": "A vision transformer with a class token: an image of 28 x 28 grey pixels to one of ten kinds of clothes.",
    "ethanol": "A transformer of points in space, invariant under rotations, reflections and translations (E(3)): positions of the "
    "nine atoms of ethanol to an energy in eV, whose negative gradient is the forces in eV/Å.",
}
LIMITS = {
    "characters": [
        "It is for looking at a trained model: heads, predictions, generation. It has read plays of Shakespeare and nothing else.",
        "It knows no facts, answers no questions, and repeats the attitudes of its texts. Do not use it where a text matters.",
        "Bytes beyond ASCII do not occur in its texts: it reads them, but their embeddings are untrained.",
        "It was trained on passages of {context} tokens. Longer inputs run, but were not measured.",
    ],
    "clothes": [
        "It is for looking at a trained model: predictions, attention of patches and of the class token.",
        "It knows ten kinds of clothes, bright on black, centred, in grey, 28 x 28 pixels. On any other image, photographs "
        "included, it answers one of these ten kinds all the same, and neither the answer nor the attention means anything.",
    ],
    "ethanol": [
        "It is for looking at a trained model: a molecule that rotates, its energy, forces and attention.",
        "It knows ethanol near its equilibrium, as frames of molecular dynamics show it. It knows no other molecule, no broken "
        "bond, no second molecule and no environment; there it answers a number all the same.",
        "Do not use it for science: `recipes/ethanol.toml` trains longer. It was recorded with an earlier norm of vectors, with "
        "which it had {longer} meV/Å on the same frames.",
    ],
}  # fmt: skip
ATTENTION = f"""On the first {{images:,}} images of the development test. The object is the pixels brighter than {{threshold}} of
255: {{area:.3f}} of the area on average. *Share* is that of the class token's attention to patches that falls on the object;
a patch counts by its part of the object. *Ratio* is the mean share divided by the mean area: 1 where attention ignores the image,
and at most {{most:.2f}}. There are two controls: the ratio for the object of *another image*, which is above 1 where attention
prefers positions at which objects often are, and the ratio in the same model *untrained*. Attention is said to lie on the object
where the interval of the ratio, wider for as many rows as there are, is at or above {SHARE} and above both controls."""
ACTIONS, PROPERTIES = ("permute", "rotate", "translate", "reflect"), ("smooth", "stabiliser")  # of points in space
DATA = {"characters": "tinyshakespeare", "clothes": "fashion_mnist", "ethanol": "rmd17"}
WORK = {
    "characters": "Karpathy 2015, tinyshakespeare",
    "clothes": "Xiao, Rasul & Vollgraf 2017, Fashion-MNIST",
    "ethanol": "Christensen & von Lilienfeld 2020, revised MD17: ethanol, PBE/def2-SVP",
}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--commit", help="of this repository, from which the run was trained (default: the current one)")
    parser.add_argument("--table", action="store_true", help="write the table of docs/howto/trained.md")
    parser.add_argument("--check", action="store_true", help="only report whether that table and the cards are out of date")
    arguments = parser.parse_args(words)
    if arguments.run:
        pack(arguments.run, arguments.commit or head())
    return table(arguments.check)


def pack(source: Path, commit: str) -> None:
    """Measure a run and write its folder in the package."""
    run = read_run(source)
    name = name_of(run)
    task = open_task(recipe(run.recipe), HERE)
    model = run_folder.load_run(source)
    folder = HOME / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "examples").mkdir(parents=True)
    task.save(folder)
    task.store_domain(folder)
    simple_model.fit(task, folder)
    (best,) = run_folder.checkpoints(source, run_folder.BEST)
    shutil.copytree(best, folder / run_folder.BEST / best.name)
    licence(name, folder)
    measured = MEASURES[name](model, task, folder)
    card = {
        "name": name, "commit": commit, "best step": run_folder.read_checkpoint(best, run_folder.identity(run)).step,
        "bytes": (best / run_folder.WEIGHTS).stat().st_size, **measured,
    }  # fmt: skip
    (folder / MEASURED).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_run(msgspec.structs.replace(run, recipe_folder="."), folder)
    write_metrics(run, folder)
    (folder / CARD).write_text(written(name), encoding="utf-8")
    print(f"wrote {folder.relative_to(ROOT)}: {measured['summary']}")


def name_of(run: Run) -> str:
    """The recipe here that a run has trained. Exits where there is none, or the run is not finished."""
    if run.state != "finished":
        sys.exit(f"The run is {run.state}, not finished: {run.title}.")
    name = run.title
    if name not in MEASURES:
        sys.exit(f"The run is called {name}, but trained models are {', '.join(MEASURES)}.")
    if wrong := differences(read_recipe(HERE / f"{name}.toml").to_dict(), recipe(run.recipe).to_dict()):
        sys.exit(f"This is no run of recipes/trained/{name}.toml: {'; '.join(wrong[:5])}.")
    return name


def licence(name: str, folder: Path) -> None:
    """The licence of the data, beside the weights that were learned from it."""
    data = catalogue()[DATA[name]]
    (page,) = data.pages
    lines = [f"Data: {WORK[name]}.", f"From https://github.com/{page.repository}, commit {page.commit}."]
    if name == "clothes":
        (text,) = find_files("fashion_mnist/LICENSE", HERE)
        lines += ["", text.read_text(encoding="utf-8").strip()]
    else:
        lines += [f"Licence: {data.licence}."]
    (folder / "DATA_LICENSE").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_metrics(run: Run, folder: Path) -> None:
    """Every score, and at most `POINTS` points of the loss."""
    stride = math.ceil(len(run.points) / POINTS)
    points: list[Point | Score] = [*run.points[stride - 1 :: stride], *run.scores]
    entries = sorted(points, key=lambda one: (one.step, isinstance(one, Score)))
    (folder / METRICS).write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))


# --------------------------------------------------------------------------------------------------------------- measurements


def mean_interval(each: torch.Tensor, part: str, what: str, unit: str = "") -> dict[str, Any]:
    """The mean of independent examples with its normal interval."""
    middle, error = float(each.double().mean()), Z * float(each.double().std()) / math.sqrt(len(each))
    return result(part, what, middle, middle - error, middle + error, len(each), unit)


def share_interval(right: int, count: int, part: str, what: str) -> dict[str, Any]:
    """A share with its interval by Wilson."""
    p, z2 = right / count, Z * Z
    middle = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = Z / (1 + z2 / count) * math.sqrt(p * (1 - p) / count + z2 / (4 * count**2))
    return result(part, what, p, middle - half, middle + half, count)


def result(part: str, what: str, value: float, low: float, high: float, count: int, unit: str = "") -> dict[str, Any]:
    return {"part": part, "what": what, "value": value, "low": low, "high": high, "count": count, "unit": unit}


@torch.no_grad()
def characters(model: Any, task: Task, folder: Path) -> dict[str, Any]:
    assert isinstance(task, LanguageTask)
    losses = []
    for inputs, targets in task.passages.passages("validation", 128):
        loss = F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten(), reduction="none", ignore_index=IGNORED)
        losses.append(loss.view(targets.shape)[(targets != IGNORED).all(-1)].mean(-1))  # a last, shorter passage is left out
    loss = mean_interval(torch.cat(losses), "validation", "loss", "nats per character")
    (folder / "examples" / "motto.txt").write_text("Love conquers all\n", encoding="utf-8")
    prompt = torch.tensor(task.tokenizer.encode(PROMPT))
    greedy = generate(model, prompt, STEPS)[0].tolist()
    ids = task.tokenizer.encode("Love conquers all")
    best = model(torch.tensor([ids]))[0, -1].double().softmax(-1).topk(5)
    return {
        "results": [loss],
        "summary": f"characters: trained on plays of Shakespeare (public domain); validation loss {loss['value']:.3f} nats per "
        "character. It has read nothing else.",
        "predictions": {
            "prompt": PROMPT, "greedy": task.tokenizer.decode(greedy),
            "sampled": task.tokenizer.decode(generate(model, prompt, STEPS, Sampling(temperature=0.8), seed=1)[0].tolist()),
            "text": "Love conquers all", "next": best.indices.tolist(), "probabilities": best.values.tolist(),
        },
    }  # fmt: skip


@torch.no_grad()
def clothes(model: Any, task: Task, folder: Path) -> dict[str, Any]:
    assert isinstance(task, ImagesTask)
    results, recall = [], []
    for part in ("validation", "test"):
        images, labels, logits = everything(model, task, part)
        right = logits.argmax(-1) == labels
        results.append(share_interval(int(right.sum()), len(right), part, "accuracy"))
        results.append(mean_interval(F.cross_entropy(logits, labels, reduction="none"), part, "loss", "nats per image"))
        recall = [
            share_interval(int(right[labels == i].sum()), int((labels == i).sum()), part, c) for i, c in enumerate(task.classes)
        ]
    predictions = {}
    for i, name in enumerate(task.classes):
        row = int((labels == i).nonzero()[0])
        file = f"{name.lower().replace('/', '-').replace(' ', '-')}.png"
        Image.fromarray(images[row, 0].numpy()).save(folder / "examples" / file)
        predictions[file] = {"class": name, "probabilities": logits[row].double().softmax(-1).tolist()}
    accuracy = results[2]
    return {
        "results": results,
        "recall": recall,
        "attention": {"trained": on_object(model, task, images), "untrained": on_object(untrained(model), task, images)},
        "summary": f"clothes: trained on Fashion-MNIST (MIT); {100 * accuracy['value']:.1f} % of {accuracy['count']:,} images "
        "that it has not learned from are classified correctly.",
        "predictions": predictions,
    }


def untrained(model: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(model.spec).eval()


def everything(model: Any, task: ImagesTask, part: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images [N, 1, 28, 28] of bytes, labels [N] and logits [N, 10] of a part."""
    images = task.pictures.parts[part].images
    return images, task.targets[part], torch.cat([model(task.format.normalise(some)).float() for some in images.split(AT_ONCE)])


def on_object(model: Model, task: ImagesTask, images: torch.Tensor) -> dict[str, Any]:
    """The share of the class token's attention to patches that falls on the object, beside the object's share of the area.

    The object is the pixels above `THRESHOLD`, and a patch counts by its share of them. Attention of the class token to itself is
    left out. Rows: each head of each layer, and the rollout of the first layers up to each. With the ratio of both means, and its
    interval over images (delta method). other: the ratio for the object of another image, which is above 1 where attention prefers
    positions, such as the middle, at which objects often are.
    """
    patch = model.spec.patch_size
    assert patch is not None
    some = images[:LOOKED_AT]
    part = F.avg_pool2d((some > THRESHOLD).float(), patch).flatten(1).double()  # [N, patches]
    area, shares, others = part.mean(-1), dict[str, list[torch.Tensor]](), dict[str, list[torch.Tensor]]()
    for image, own, other in zip(some, part, part.roll(1, 0), strict=True):
        layers = attended(model, (task.format.normalise(image[None]),), compare=False)
        weights = [torch.stack([layer.best_weights(head) for head in range(layer.heads)]) for layer in layers]
        for i, layer_weights in enumerate(weights):
            rows = {f"L{i}H{head}": w[0] for head, w in enumerate(layer_weights)} | {
                f"rollout to L{i}": rollout(weights[: i + 1])[0]
            }
            for name, row in rows.items():
                row = row[1:] / row[1:].sum()
                shares.setdefault(name, []).append((row * own).sum())
                others.setdefault(name, []).append((row * other).sum())
    return {
        "images": len(some), "threshold": THRESHOLD, "area": float(area.mean()), "most": float(1 / area.mean()),
        "rows": [
            {"of": name, **ratio(torch.stack(values), area), "other": ratio(torch.stack(others[name]), area)["ratio"]}
            for name, values in shares.items()
        ],
    }  # fmt: skip


def ratio(share: torch.Tensor, area: torch.Tensor) -> dict[str, float]:
    top, bottom, count = share.mean(), area.mean(), len(share)
    value = top / bottom
    error = Z * float((share - value * area).std() / bottom) / math.sqrt(count)
    return {"share": float(top), "ratio": float(value), "low": float(value) - error, "high": float(value) + error}


@torch.no_grad()
def ethanol(model: Any, task: Task, folder: Path) -> dict[str, Any]:
    assert isinstance(task, MoleculesTask)
    assert isinstance(model, SpaceModel)
    results = []
    for part in ("validation", "test"):
        energies, forces = [], []
        for t in task.frames.groups(part, 64):
            answer = model.energy_and_forces(t["numbers"], t["positions"])
            energies.append(1000 * (answer.energy - t["energy"]).abs())
            forces.append(1000 * (answer.forces - t["forces"]).abs().flatten(1).mean(-1))
        results.append(mean_interval(torch.cat(energies), part, "energy", "meV"))
        results.append(mean_interval(torch.cat(forces), part, "forces", "meV/Å"))
    missed = torch.cat(energies).numpy()  # of the test part
    first = next(iter(task.frames.groups("test", 1)))
    numbers, positions = first["numbers"][0], first["positions"][0].double()
    lines = [f"{SYMBOLS[n - 1]} {x:.8f} {y:.8f} {z:.8f}" for n, (x, y, z) in zip(numbers.tolist(), positions.tolist(), strict=True)]
    file = folder / "examples" / "ethanol.xyz"
    file.write_text("\n".join([str(len(lines)), "ethanol, first frame of rMD17 test_02", *lines]) + "\n", encoding="utf-8")
    rounded = torch.tensor(np.round(positions.numpy(), 8))
    answer = model.double().energy_and_forces(numbers[None], rounded[None])
    energy, force = results[2], results[3]
    return {
        "results": results,
        "unlike": unlike(task, folder, missed),
        "checks": checks(model.float(), numbers, rounded.float()),
        "summary": f"ethanol: trained on {task.config.train_count} frames of rMD17 (CC0); on {force['count']} others the mean "
        f"error of a force is {force['value']:.1f} meV/Å, of an energy {energy['value']:.1f} meV. It knows no other molecule.",
        "predictions": {"file": file.name, "energy": float(answer.energy[0]), "forces": answer.forces[0].tolist()},
    }


def unlike(task: MoleculesTask, folder: Path, missed: np.ndarray) -> dict[str, Any]:
    """Frames of the test part that are unlike the training part, of which `predict` warns. missed: errors of energies in meV."""
    domain = AtomDomain.read(folder)
    assert domain is not None
    far = domain.distances(task.frames.parts["test"]) > 1
    share = share_interval(int(far.sum()), len(far), "test", "unlike the training part")
    return share | {"error": float(missed[far].mean()), "others": float(missed[~far].mean()), "far": int(far.sum())}


def checks(model: Any, numbers: torch.Tensor, positions: torch.Tensor) -> list[dict[str, Any]]:
    """The verdicts of `eq.check` on the example."""
    audit = check(model, numbers[None], positions[None], actions=list(ACTIONS), properties=list(PROPERTIES), effort="quick")
    return [{"what": row.name, "verdict": row.verdict} for row in audit.rows if row.name in (*ACTIONS, *PROPERTIES)]


MEASURES = {"characters": characters, "clothes": clothes, "ethanol": ethanol}


# ------------------------------------------------------------------------------------------------------------------- the card


def written(name: str) -> str:
    """The text of a card, from the run's record and card.json."""
    folder = HOME / name
    run, card = read_run(folder), json.loads((folder / MEASURED).read_text(encoding="utf-8"))
    data, (best, machine) = catalogue()[DATA[name]], (card["best step"], run.machine)
    (page,) = data.pages
    lines = [
        f"<!-- Generated by `python recipes/trained/card.py`. Do not edit. -->\n\n# {name}\n\n{USE[name]}\n",
        f"- Parameters: {run.parameters:,}, stored as float32 ({card['bytes'] / 1e6:.2f} MB), so nothing is rounded.",
        f"- Data: {data.what}; {WORK[name]}. From github.com/{page.repository}, commit {page.commit}.",
        f"- Licence of the data: {data.licence}. Licence of the weights: MIT, as the package.",
        "- Files, by SHA-256: " + "; ".join(f"{one.name} ({one.part}) `{one.sha256[:16]}…`" for one in run.data) + ".",
        f"- Recipe: `recipes/trained/{name}.toml`, seed {run.seed}: {run.steps:,} steps; the weights of step {best:,} were best on "
        "the validation part and are those here.",
        f"- Trained in {run.seconds / 60:.1f} minutes, with other work on the machine, on {machine.get('threads')} thread of an "
        f"{machine.get('cpu')}, at commit {card['commit'][:12]}, with equiscope {run.versions['equiscope']}, torch "
        f"{run.versions['torch']}, Python {run.versions['python']}.",
        "\n## Results\n\nIntervals are of 95 %, over the examples of the part. One run was trained; another seed may differ by "
        "more. The validation part chose the weights, so its numbers are somewhat optimistic.\n",
        "| part | what | value | 95 % interval | examples |\n| --- | --- | --- | --- | --- |",
        *(result_row(one) for one in card["results"]),
    ]
    if name == "clothes":
        lines += [*recall_lines(card), *attention_lines(card["attention"])]
    if name == "ethanol":
        rotated = run.result["test"]
        verdicts = "; ".join(f"{one['what']} {one['verdict']}" for one in card["checks"])
        lines.append(
            f"\nRotating a frame changes a force component by {rotated['rotated forces']:.1g} meV/Å and an energy by "
            f"{rotated['rotated energy']:.1g} meV in float32: rounding. Verdicts of `eq.check` on the example: {verdicts}."
        )
        one = card["unlike"]
        lines.append(
            "\n`equiscope predict` warns of a frame if the surroundings of an atom are farther from those of every training atom "
            f"of its element than in 99 % of the validation part. On the development test these are {one['far']} of {one['count']} "
            f"frames ({one['value']:.1%}, {one['low']:.1%} to {one['high']:.1%}). The mean error of their energies is "
            f"{one['error']:.2f} meV, of the others {one['others']:.2f} meV. "
            "Of a frame without a warning the answer can still be wrong."
        )
    if name == "characters":
        sampled = (PROMPT + card["predictions"]["sampled"]).strip().replace("\n", "\n    ")
        lines.append(f"\nAfter `{PROMPT.strip()}`, sampled with temperature 0.8 and seed 1:\n\n    {sampled}")
    lines.append("\n## What it must not be used for\n")
    longer = json.loads((HERE.parent / "results" / "ethanol.json").read_text(encoding="utf-8"))["result"]["test"]["forces"]["mean"]
    facts = {"context": run.recipe["data"].get("context"), "longer": f"{longer:.1f}"}
    lines += [f"- {one.format(**facts)}" for one in LIMITS[name]]
    return "\n".join(lines) + "\n"


def result_row(one: dict[str, Any]) -> str:
    part = {"test": "development test", "validation": "validation"}[one["part"]]
    digits = 4 if not one["unit"] or "nats" in one["unit"] else 2
    value, low, high = (f"{one[key]:.{digits}f}" for key in ("value", "low", "high"))
    value = f"{value} {one['unit']}".strip()
    return f"| {part} | {one['what']} | {value} | {low} to {high} | {one['count']:,} |"


def recall_lines(card: dict[str, Any]) -> list[str]:
    rows = [f"| {one['what']} | {one['value']:.3f} | {one['low']:.3f} to {one['high']:.3f} |" for one in card["recall"]]
    return ["\nRecall of each class on the development test:\n", "| class | recall | 95 % interval |\n| --- | --- | --- |", *rows]


def attention_lines(card: dict[str, Any]) -> list[str]:
    """Whether the attention of the class token lies on the object, as it was measured."""
    own, other = card["trained"], {one["of"]: one for one in card["untrained"]["rows"]}
    wider = norm.isf(0.025 / len(own["rows"])) / Z  # Bonferroni: one of this many rows would be above by chance
    on = [
        one["of"] for one in own["rows"]
        if one["ratio"] - wider * (one["ratio"] - one["low"]) >= max(SHARE, one["other"], other[one["of"]]["ratio"])
    ]  # fmt: skip
    above = [f"{one['of']} ({one['ratio'] - one['other']:.2f})" for one in own["rows"] if one["of"] in on]
    held = f"This holds for these, which exceed the ratio of another image by the number beside each: {', '.join(above)}."
    verdict = held if on else "No head and no rollout reaches it, so no such claim is made."
    rows = [
        f"| {one['of']} | {one['share']:.3f} | {one['ratio']:.2f} | {one['low']:.2f} to {one['high']:.2f} | "
        f"{one['other']:.2f} | {other[one['of']]['ratio']:.2f} |" for one in own["rows"]
    ]  # fmt: skip
    return [
        f"\n## Attention of the class token and the object\n\n{ATTENTION.format(**own)} {verdict}\n",
        "| head | share | ratio | 95 % interval | other image | untrained |\n| --- | --- | --- | --- | --- | --- |",
        *rows,
    ]


# ------------------------------------------------------------------------------------------------------------------ the table


def table(check: bool) -> int:
    """Write or compare the table of the how-to, and compare the cards with their records."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    fresh = f"{before}{BEGIN}\n\n{rows()}\n{END}{rest.partition(END)[2]}"
    if not check:
        PAGE.write_text(fresh, encoding="utf-8")
        for name in there():
            (HOME / name / CARD).write_text(written(name), encoding="utf-8")
        return 0
    stale = [name for name in there() if (HOME / name / CARD).read_text(encoding="utf-8") != written(name)]
    stale += [PAGE.name] if fresh != text else []
    print(f"stale: {', '.join(stale)}. Run python recipes/trained/card.py --table" if stale else "the cards are up to date")
    return int(bool(stale))


def rows() -> str:
    lines = ["| name | task | parameters | MB | data, licence | result |", "| --- | --- | --- | --- | --- | --- |"]
    for name in there():
        run, card = read_run(HOME / name, entries=False), json.loads((HOME / name / MEASURED).read_text(encoding="utf-8"))
        part = "test" if any(one["part"] == "test" for one in card["results"]) else "validation"
        shown = [one for one in card["results"] if one["part"] == part and (name != "clothes" or one["what"] == "accuracy")]
        data = f"{WORK[name]}: {catalogue()[DATA[name]].licence}"
        megabytes, results = f"{card['bytes'] / 1e6:.2f}", "<br>".join(map(in_words, shown))
        cells = [f"`{name}`", run.task, f"{run.parameters:,}", megabytes, data, results]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def in_words(one: dict[str, Any]) -> str:
    _, _, what, value, interval, count, _ = result_row(one).split("|")
    return f"{what.strip()} {value.strip()} ({interval.strip()}; {count.strip()} examples)"


def there() -> list[str]:
    return [name for name in MEASURES if (HOME / name / MEASURED).exists()]


def head() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
