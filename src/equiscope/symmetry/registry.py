"""The list of all actions, as `equiscope check --list` prints it."""

from equiscope.errors import UnknownName
from equiscope.symmetry.actions import CLAIMED, Action
from equiscope.symmetry.pictures import PICTURES
from equiscope.symmetry.sounds import SOUNDS
from equiscope.symmetry.space import MOTIONS
from equiscope.symmetry.words import WORDS

ACTIONS: tuple[type[Action], ...] = (*CLAIMED, *WORDS, *PICTURES, *SOUNDS, *MOTIONS)


def named(name: str) -> type[Action]:
    """The action of that name. Raises UnknownName with the list."""
    for action in ACTIONS:
        if action.name == name:
            return action
    raise UnknownName("action", name, [a.name for a in ACTIONS])
