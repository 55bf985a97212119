"""The run-time checks of types and shapes that `pytest --shapes` installs: they bite, with shapes and without."""

import subprocess
import sys
from pathlib import Path

import pytest
import shape_checks
from beartype.roar import BeartypeCallHintParamViolation
from jaxtyping import Float, TypeCheckError
from torch import Tensor, randn

from equiscope.tokens import Tokens, pixels


def longer(name: str, times: int) -> str:
    return name * times


def summed(a: Float[Tensor, "N D"], b: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    return a + b


def decorated(function):
    return shape_checks._decorated(function, typechecker=shape_checks.check)


def test_a_wrong_type_is_found_where_no_shape_is_spoken_of():
    assert decorated(longer)("ab", 2) == "abab"
    with pytest.raises(Exception, match="times"):
        decorated(longer)("ab", "2")


def test_wrong_shapes_are_found():
    assert decorated(summed)(randn(2, 3), randn(2, 3)).shape == (2, 3)
    with pytest.raises(TypeCheckError):
        decorated(summed)(randn(2, 3), randn(1, 3))


@pytest.mark.usefixtures("unchecked")
def test_both_can_be_turned_off():
    assert decorated(summed)(randn(2, 3), randn(1, 3)).shape == (2, 3)
    with pytest.raises(TypeError, match="can't multiply"):
        decorated(longer)("ab", "2")


def test_the_package_is_checked(request):
    if not request.config.getoption("shapes"):
        pytest.skip("needs pytest --shapes")
    with pytest.raises(BeartypeCallHintParamViolation, match=r"Tokens.of\(\) parameter x=3"):
        Tokens.of(3)
    with pytest.raises(TypeCheckError):
        pixels(randn(4))


def test_a_package_that_is_imported_already_cannot_be_checked():
    with pytest.raises(RuntimeError, match="imported already"):
        shape_checks.install()


@pytest.mark.thorough
@pytest.mark.parametrize("folder", ["tests/study", "tests/audit/statements"])
def test_the_checks_come_before_the_imports_of_a_folder_that_is_named(folder):
    command = [sys.executable, "-m", "pytest", "--shapes", "--collect-only", "-q", "-p", "no:cacheprovider", folder]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
