"""Studies: each answers one question by measurement. `STUDIES` lists them; only plots import matplotlib.

`equiscope.study.claims` measures statements of the literature, one by one.

A new study is one file, one line here and one test.
"""

from equiscope.errors import UnknownName
from equiscope.study import (
    approximate,
    collide,
    cost,
    decay,
    depth,
    lookup,
    orthogonality,
    parallel,
    reach,
    scaling,
    split,
    token_back,
)
from equiscope.study.base import Curve, Panel, ResultTable, Study, StudyResult, fmt

STUDIES: tuple[Study, ...] = (
    lookup.STUDY, scaling.STUDY, depth.STUDY, reach.STUDY, cost.STUDY, parallel.STUDY, approximate.STUDY,
    collide.STUDY, decay.STUDY, orthogonality.STUDY, split.STUDY, token_back.STUDY,
)  # fmt: skip

__all__ = ["STUDIES", "Curve", "Panel", "ResultTable", "Study", "StudyResult", "fmt", "study_named"]


def study_named(name: str) -> Study:
    """The study of this name. Raises UnknownName with the list."""
    for study in STUDIES:
        if study.name == name:
            return study
    raise UnknownName("study", name, [*(study.name for study in STUDIES), "claims"])
