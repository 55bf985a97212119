"""Pairs of models with two planted differences, drawn by chance: `python -m tests.audit.parity.planted_pairs [SEED] [PAIRS]`.

Prints each pair in which the kinds that are listed are not the two that were planted, and how many are right.
"""

import random
import sys
from dataclasses import replace

import equiscope as eq
from tests.audit.parity.families import GatedA, PlainA, gated_b, ids, made, plain_b
from tests.audit.parity.planted import GATED, PLAIN

OMITTED = {"norm placement", "no norm", "mode"}  # the others of a pair would not be where they were planted
FAMILIES = (GatedA, gated_b, GATED), (PlainA, plain_b, PLAIN)


def drawn(seed, count, together=2):
    """(A, B, names of what was planted, their kinds), as often as asked for."""
    chance = random.Random(seed)
    while count:
        family, second, faults = chance.choice(FAMILIES)
        chosen = chance.sample([f for f in faults if f[0] not in OMITTED and not f[2]], together)
        keys = [key for fault in chosen for key in fault[1]]
        if len(set(keys)) < len(keys):
            continue
        count -= 1
        a = made(family)
        changed = {key: value for fault in chosen for key, value in fault[1].items()}
        yield a, second(a, replace(a.o, **changed)), [f[0] for f in chosen], sorted(f[3] for f in chosen)


if __name__ == "__main__":
    seed, count = (int(x) for x in [*sys.argv[1:], 0, 24][:2]) if len(sys.argv) != 2 else (int(sys.argv[1]), 24)
    right = others = 0
    for a, b, names, kinds in drawn(seed, count):
        found = eq.parity(a, b, ids())
        listed = sorted([found.kind, *(one.kind for one in found.further)])
        right += listed == kinds
        others += bool(set(listed) - set(kinds) - {""})
        if listed != kinds:
            print(f"{type(a).__name__}, {names}: {listed}")
    print(f"{right} of {count} right; {others} with a cause that was not planted")
