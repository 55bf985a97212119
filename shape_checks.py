"""The run-time type checker of the tests: beartype, told to let `Self` pass and to take an int for a float, as mypy does.

jaxtyping's import hook decorates functions one by one; beartype refuses `Self` there: it is not shown the class.
Named in pyproject.toml under `--jaxtyping-packages`; the package itself never imports it.
"""

from typing import Any, Self

from beartype import BeartypeConf, FrozenDict, beartype

check = beartype(conf=BeartypeConf(hint_overrides=FrozenDict({Self: Any}), is_pep484_tower=True))
