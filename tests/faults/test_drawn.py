"""The drawn faults still have their expressions in the source."""

from pathlib import Path

import pytest

import equiscope
from tests.faults.draw import carried

pytestmark = pytest.mark.quick


def test_the_source_has_the_expression_of_each_fault():
    assert len(carried(Path(equiscope.__file__).parent)) == 60
