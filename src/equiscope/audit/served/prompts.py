"""Prompts: ordinary English words in random order.

Each run draws new ones, because a server keeps the beginnings of prompts that it has seen.
"""

import random

WORDS = """
the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you were all
her she there would their we him been has when who will no more if out so up said what its about than into them can only other
time new some could these two may first then do any like my now over such our man me even most made after also did many off
before must well back through years much where your way down should because long each just state those people too little world
very own see men work here get both between under life never day same another know while last might us great old year come since
against go came right used take three house place small found part once high upon school every think hand head left water city
""".split()  # noqa: SIM905  one word a line would fill the page
FIRST = ("The", "Our", "One", "When", "Some", "All", "Many", "These", "Each", "What")


class Prompts:
    """Draws texts. seed: of the words; run: what makes one run differ from the next."""

    def __init__(self, seed: int, run: str) -> None:
        self.random = random.Random(f"{seed} {run}")

    def text(self, words: int) -> str:
        """A text of n words."""
        return " ".join([self.random.choice(FIRST), *self.words(words - 1)])

    def words(self, count: int) -> list[str]:
        """Words that follow others."""
        return [self.random.choice(WORDS) for _ in range(max(0, count))]
