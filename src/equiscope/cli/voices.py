"""How the answer of a run of ours is read: names of classes, or pieces of text. `explore.voices` knows other models."""

from equiscope.explore.heads.says import Voice, classes
from equiscope.explore.heads.voices import of_target, of_tokens
from equiscope.training.task import Task

__all__ = ["of_run", "of_target", "of_tokens"]


def of_run(task: Task) -> Voice | None:
    """Of a run of ours: the classes it learned, or its tokens."""
    for part in ("sight", "hearing"):
        if hasattr(task, part):
            return Voice("class", classes(getattr(task, part).classes))
    read = getattr(task, "tokenizer", None)
    return None if read is None else of_tokens(read.inner)
