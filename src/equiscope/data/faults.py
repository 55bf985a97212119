"""Faults of data files, collected so that one error names them all."""

from collections.abc import Iterator
from contextlib import contextmanager

from equiscope.data.files import Missing
from equiscope.errors import InputError, OverBudget, counted, sentences

SHOWN = 5  # faults that are named one by one


class Faults:
    """Sentences about faults, in order, and a sentence on what to do about them all.

        faults = Faults("Correct these lines, or take them out.")
        for ...:
            with faults.caught(where):
                what raises InputError
        faults.check()    raises InputError with the first SHOWN, and how many there are

    Faults whose sentences differ in the place alone are one fault: the first is named, and the others are counted.
    """

    def __init__(self, advice: str = "") -> None:
        self.advice = advice
        self.found: dict[str, list[str]] = {}  # the first sentence of each, and all its places, by the sentence without its place

    def add(self, sentence: str, where: str = "") -> None:
        """where: file and line, as they stand in the sentence."""
        key = sentence.replace(where, "") if where else sentence
        self.found.setdefault(key, [sentence]).append(where)

    @contextmanager
    def caught(self, where: str = "") -> Iterator[None]:
        """Inside, an InputError becomes a fault; not one of a file that is missing or too large."""
        try:
            yield
        except (Missing, OverBudget):
            raise
        except InputError as error:
            self.add(str(error), where)

    def check(self) -> None:
        """Raise InputError if there are faults."""
        if not self.found:
            return
        named = [_named(*some) for some in [*self.found.values()][:SHOWN]]
        more = len(self.found) - SHOWN
        rest = f"And {counted(more, 'more fault')}." if more > 0 else ""
        raise InputError(sentences(*named, rest, self.advice))


def _named(sentence: str, *places: str) -> str:
    others = len(places) - 1
    if not others:
        return sentence
    return f"{sentence} {others} other{'s have' if others > 1 else ' has'} the same fault; the last: {places[-1]}."
