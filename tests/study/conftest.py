"""Quick findings, each measured once."""

from functools import cache

import pytest

from equiscope.study import study_named


@pytest.fixture(scope="session")
def found():
    """found("scaling"): what that study finds in its quick form, with seed 0."""
    return cache(lambda name: study_named(name).run(quick=True))
