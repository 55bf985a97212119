"""Groups: examples that belong together, such as those of one speaker, are in one part."""

from collections import defaultdict
from collections.abc import Hashable, Iterable

from equiscope.data.sampler import derived_seed
from equiscope.errors import InputError


class Groups:
    """Rows in groups that grow together."""

    def __init__(self, count: int) -> None:
        self.owner = list(range(count))

    def root(self, row: int) -> int:
        while self.owner[row] != row:
            self.owner[row] = self.owner[self.owner[row]]
            row = self.owner[row]
        return row

    def join(self, row: int, other: int) -> None:
        first, last = sorted((self.root(row), self.root(other)))
        self.owner[last] = first

    def join_equal(self, keys: Iterable[Hashable | None]) -> None:
        """Join the rows of equal keys, except of None."""
        seen: dict[Hashable, int] = {}
        for row, key in enumerate(keys):
            if key is not None:
                self.join(row, seen.setdefault(key, row))

    @property
    def largest(self) -> float:
        """The share of the rows that the largest group has."""
        return max(map(len, self.rows()), default=0) / max(1, len(self.owner))

    def rows(self) -> list[list[int]]:
        """The rows of each group, in order."""
        found: dict[int, list[int]] = defaultdict(list)
        for row in range(len(self.owner)):
            found[self.root(row)].append(row)
        return list(found.values())


def held_out(groups: Groups, count: int, seed: int, part: str) -> list[int]:
    """The rows of a part of about `count` rows: whole groups, drawn at random. Raises InputError if there is one group."""
    every = groups.rows()
    if len(every) < 2:
        raise InputError(
            "All examples belong to one group (data.group), so none can be held out. Give others, or leave data.group out."
        )
    chosen: list[int] = []
    order = sorted(range(len(every)), key=lambda i: derived_seed(seed, part, "group", i))
    for i in order[:-1]:
        if not chosen or len(chosen) + len(every[i]) / 2 <= count:
            chosen += every[i]
    return sorted(chosen)
