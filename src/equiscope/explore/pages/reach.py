"""The reach page: how strongly each output depends on each token in an LSTM, convolutions and attention, and the time of each.

Its numbers were measured once, by `python -m equiscope.study.recall`, which trains the networks and writes the record beside this
file with the machine's name; the page shows them as they are.
"""

from html import escape
from pathlib import Path

import msgspec

from equiscope.explore.page import PLAIN, number, table
from equiscope.record import unpack
from equiscope.record.reach import Reach

RECORD = Path(__file__).with_suffix(".json")
BACK = (0, 1, 2, 4, 8, 9, 16, 32, 63)


def reach() -> Reach:
    """The record that comes with the package."""
    return msgspec.json.decode(RECORD.read_bytes(), type=Reach)


def plain(page: Reach) -> str:
    """Influence, steps and times as tables, as markup."""
    back = [b for b in BACK if b < page.length]
    influence = [
        [one.title, weights, *(number(float(unpack(array)[page.length - 1 - b, page.length - 1])) for b in back)]
        for one in page.networks for weights, array in one.influence.items()
    ]  # fmt: skip
    times = [
        [one.title, str(n), str(steps), *map(number, spread)]
        for one in page.networks for n, steps, spread in zip(page.timed_lengths, one.steps, one.times, strict=True)
    ]  # fmt: skip
    title = f"Milliseconds of one pass: {page.cpu}, one thread, torch {page.torch}, {page.dtype}"
    return (
        f'<div class="bare-report"><h1>{escape(page.title)}</h1>\n<p>{escape(page.summary)}</p>\n<p>{PLAIN}</p>\n'
        + table("Change of the last output when an earlier token is replaced, by tokens between them",
                ["network", "weights", *map(str, back)], influence)
        + table(title, ["network", "tokens", "products in a row", "lower quartile", "median", "upper quartile"], times)
        + "".join(f"<p>{escape(note)}</p>\n" for note in page.notes)
        + "</div>"
    )  # fmt: skip
