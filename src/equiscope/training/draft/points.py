"""Points with a class or with numbers: values of frames, or columns of a table."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from equiscope.data.point_sets import PointSets, read, values_of
from equiscope.errors import InputError, counted
from equiscope.tokens.elements import SYMBOLS
from equiscope.tokens.points import read_frames
from equiscope.training.draft import labelled
from equiscope.training.draft.draft import MUON, RecipeDraft, class_warnings, extent, listed, number_ranges, title_of
from equiscope.training.draft.listing import FEWEST, Listing

ENERGY = ("energy", "energies", "REF_energy", "dft_energy", "total_energy", "E", "free_energy")  # usual names


def of_frames(path: Path, files: Sequence[Path]) -> RecipeDraft:
    """Files of frames whose values hold no energy."""
    values = [values_of(frame.values) for file in files for frame in read_frames(file)]
    names = [name for name in values[0] if name != "comment" and all(name in one for one in values)]
    label, several = labelled.targets_of({name: [str(one[name]) for one in values] for name in names})
    if label is None and not several:
        raise InputError(
            f"{files[0]}, frame 0 has no known energy ({', '.join(ENERGY)}), and none of its values is of classes or numbers: "
            f"{listed(names) or 'none'}. Write its name into a recipe as data.keys.energy: docs/howto/data.md."
        )
    draft = _draft(path, {"label": label} if label is not None else {"numbers": several})
    draft.understood += labelled.unused_columns([name for name in names if name not in (label, *several)], "")
    return draft


def of_listing(path: Path, listing: Listing) -> RecipeDraft:
    """A table of files of points."""
    listing.check(path, "set of points")
    return _draft(path, dict(listing.columns))


def _draft(path: Path, columns: dict[str, Any]) -> RecipeDraft:
    """columns: the fields of the recipe that name its columns or values: field; label or numbers."""
    data: dict[str, Any] = {"task": "points", "train": str(path), **columns}
    rows, files = read(str(path), msgspec.convert(data, PointSets))
    numbers, many = data.get("numbers", []), counted(len(rows), "set of points", "sets of points")
    if len(rows) < FEWEST:
        raise InputError(f"{path} has {many}, too few for three parts. Give {FEWEST} or more.")
    counts = {} if numbers else dict(sorted(Counter(row.target for row in rows).items()))
    if numbers:
        what = f"{path} has {many}, and for each {number_ranges(numbers, [row.target for row in rows])}."
    else:
        names = listed([f"{name} ({count})" for name, count in counts.items()])
        what = f"{path} has {many} of {counted(len(counts), 'class', 'classes')}, {data['label']}: {names}."
    sizes = [len(row.numbers) for row in rows]
    elements = sorted({n for row in rows for n in row.numbers.tolist()})
    kinds = ", ".join(SYMBOLS[n - 1] for n in elements) if rows[0].has_elements else "without elements"
    understood = [what, f"They have {extent(sizes)} points ({kinds})."]
    data |= {"test_held_out": 0.2, "held_out": 0.1} | ({} if numbers else {"smoothing": 0.1})
    understood.append("A fifth of the sets, drawn at random, is the test part; a tenth of the others chooses the weights.")
    large = max(sizes) > 64 or any(row.cell is not None for row in rows)
    model = {
        "width": 64, "vectors": 32, "heads": 4, "layers": 2 if len(rows) < 2000 else 3, "radial": 16,
        **({"cutoff": 5.0} if large else {}),
    }  # fmt: skip
    comments = {
        "data.test_held_out": "moments of one simulation may be in two parts: name files for the parts then",
        "model.width": "of points in space: no rotation, reflection or translation changes the answer",
        "model.cutoff": "in the unit of the positions: farther points do not attend",
    }
    return RecipeDraft(
        title_of(path), data, model, round(len(rows) * 0.72), 60, 32, understood, dict(MUON), warnings=class_warnings(counts),
        comments=comments, example=[str(files[-1])],
    )  # fmt: skip
