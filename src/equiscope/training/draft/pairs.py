"""Pairs: a text and the text that is made of it: translation, spelling and sound, question and answer."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from equiscope.budgets import OPENERS, undamaged
from equiscope.data.files import open_file
from equiscope.data.groups import Groups
from equiscope.data.sampler import derived_seed
from equiscope.data.texts import decoded
from equiscope.errors import InputError, counted
from equiscope.training.draft.copies import MOST as LARGEST
from equiscope.training.draft.copies import text_copies
from equiscope.training.draft.draft import RecipeDraft, title_of

Pair = tuple[str, str]
SHARE = 0.05  # of the pairs that the test part has, and as many to choose the weights
MOST = 2000  # of either


def of_files(source: Path, target: Path) -> RecipeDraft:
    """Two files of parallel lines."""
    sides = [_lines(path) for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise InputError(
            f"{source} has {counted(len(sides[0]), 'line')}, but {target} has {len(sides[1])}. Each line of one has "
            "to be the translation of "
            "the same line of the other."
        )
    draft = of_pairs(list(zip(*sides, strict=True)), title_of(source), f"{source} and {target} are parallel")
    languages = [
        next((s[1:] for s in reversed(path.suffixes) if re.fullmatch(r"\.[a-z]{2}", s) and s not in OPENERS), "")
        for path in (source, target)
    ]
    if all(languages):
        draft.data["languages"] = languages
        draft.comments["data.languages"] = "by the names of the files: how BLEU counts words"
    return draft


def of_pairs(pairs: Sequence[Pair], title: str, what: str) -> RecipeDraft:
    """Pairs; written as three tables, so that pairs with one source are in one part."""
    whole = list(dict.fromkeys((a.strip(), b.strip()) for a, b in pairs if a.strip() and b.strip()))
    targets: dict[str, list[str]] = defaultdict(list)
    for source, target in whole:
        targets[" ".join(source.lower().split())].append(target)
    if len(targets) < 50:
        raise InputError(
            f"{what}, but has {counted(len(targets), 'different source')}, and 50 or more are needed. Give more pairs."
        )
    letters = [len({sign for pair in whole[:20_000] for sign in pair[i]}) for i in (0, 1)]
    lengths = [sum(len(pair[i]) for pair in whole) / len(whole) for i in (0, 1)]
    short = lengths[0] < 20 and letters[0] < 120
    sources = list(targets)
    copies = Groups(len(sources)) if short else text_copies(sources)
    if copies.largest > LARGEST:  # they are alike rather than copies
        copies = Groups(len(sources))
    groups = [[sources[row] for row in rows] for rows in copies.rows()]
    count = max(5, min(MOST, round(len(targets) * SHARE)))
    wanted, part_of = {"validation": count, "test": count}, dict[str, str]()
    for group in sorted(groups, key=lambda group: derived_seed(0, "pair", group[0])):
        part = next((part for part, left in wanted.items() if left >= len(group) / 2), "train")
        part_of |= dict.fromkeys(group, part)
        if part in wanted:
            wanted[part] -= len(group)
    stem = title.replace(" ", "_")
    rows: dict[str, list[Pair]] = {"train": [], "validation": [], "test": []}
    for source, target in whole:
        rows[part_of[" ".join(source.lower().split())]].append((source, target))
    if empty := [part for part, some in rows.items() if not some]:
        raise InputError(f"{what}, but most sources are nearly copies of each other, so no {empty[0]} part is left. Give others.")
    files = {f"{stem}-{part}.tsv": _table(some) for part, some in rows.items()}
    many = sum(len(some) > 1 for some in targets.values())
    understood = [
        f"{what}: {counted(len(whole), 'pair')}, {lengths[0]:.0f} and {lengths[1]:.0f} characters long on average.",
        f"The parts are lists of pairs, {', '.join(files)}: {len(rows['train']):,}, {len(rows['validation']):,} and "
        f"{counted(len(rows['test']), 'pair')}, drawn at random; a source is in one part only.",
    ]
    warnings = []
    if near := [group for group in groups if len(group) > 1]:
        warnings.append(
            f"{counted(sum(map(len, near)), 'source')} are nearly copies of another, such as {near[0][0][:40]!r} and "
            f"{near[0][1][:40]!r}. They are in one part."
        )
    if many:
        understood.append(f"{counted(many, 'source')} have several targets; an answer is right if it is one of them.")
    if len(whole) < len(pairs):
        understood.append(
            f"Left out: {counted(len(pairs) - len(whole), 'line')} without a pair, or with one that an earlier line has."
        )
    vocabulary = 400 if short else 4000 if len(whole) < 100_000 else 8000
    width, inner, layers = (128, 384, 3) if short or len(whole) < 50_000 else (256, 512, 3)
    longest = max(len(side) for pair in whole for side in pair)
    data = {
        "task": "translation", **{part: f"{stem}-{part}.tsv" for part in rows}, "fields": ["source", "target"],
        "vocabulary": vocabulary, "length": 64 if longest < 150 else 128, "length_penalty": 0.6 if short else 1.0,
    }  # fmt: skip
    scale = {"scale": round(width**0.5, 1)}
    side = {
        "width": width, "layers": layers, "dropout": 0.1 if len(whole) > 50_000 else 0.2, "input": scale,
    }  # fmt: skip
    attention = {"heads": 4, "position": "rope"}
    model = {
        **side, "tied": True, "shared": True,
        "block": {
            "attention": attention | {"causal": True}, "cross": {"heads": 4}, "norm": {"kind": "rms"},
            "feedforward": {"inner": inner},
        },
        "encoder": {**side, "block": {"attention": attention, "norm": {"kind": "rms"}, "feedforward": {"inner": inner}}},
    }  # fmt: skip
    comments = {
        "data.vocabulary": "pieces of words, learned from both sides of the training part"
        + (": little more than letters" if short else ""),
        "data.length": "tokens of a side, at most; longer pairs are left out and counted",
        "model.tied": "one table reads and writes the pieces, of both sides",
        "model.block": "writes: attends to what it has written, and (cross) to the source",
        "model.encoder": "reads the source in both directions",
    }
    optimiser = {
        "kind": "muon",
        "rate": 1e-3,
        "muon_rate": 4e-3,
        "betas": [0.9, 0.98],
        "decay": 0.01,
        "floor": 0.01,
        "average": 0.998,
    }
    epochs = 30 if len(whole) < 10_000 else 15 if len(whole) < 50_000 else 8
    return RecipeDraft(
        title, data, model, len(rows["train"]), epochs, 64 if len(whole) < 10_000 else 128, understood, optimiser,
        warnings=warnings, comments=comments, files=files, example=[source for source, _ in rows["test"][:3]],
    )  # fmt: skip


def _table(pairs: Sequence[Pair]) -> str:
    clean = [[side.replace("\t", " ") for side in pair] for pair in pairs]
    return "source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in clean)


def _lines(path: Path) -> list[str]:
    with undamaged(path), open_file(path) as file:
        return decoded(file.read(), str(path)).replace("\r\n", "\n").removesuffix("\n").split("\n")
