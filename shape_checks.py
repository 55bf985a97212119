"""The run-time type checker of the tests: beartype, which lets `Self` pass and takes an int for a float, as mypy does.

jaxtyping's import hook decorates functions one by one; beartype refuses `Self` there: it is not shown the class.
`pytest --shapes` installs it, before the package is imported; the package itself never imports it.

jaxtyping's decorator costs some thirty microseconds a call, half of the time of all tests, since small functions are many.
Only a function with shapes in its annotations needs it; the others get beartype alone, which costs less than one.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, ForwardRef, Self, get_args

import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype

check = beartype(conf=BeartypeConf(hint_overrides=FrozenDict({Self: Any}), is_pep484_tower=True))
_with_shapes = jaxtyping.jaxtyped


def install(package: str = "equiscope") -> None:
    """Check every function of the package that is imported from now on. Raises RuntimeError where it is imported already."""
    if package in sys.modules:
        raise RuntimeError(f"{package} is imported already, so its shapes cannot be checked. Call install() before that.")
    jaxtyping.install_import_hook(package, "shape_checks.check")
    jaxtyping.jaxtyped = _decorated  # the name by which the import hook calls the decorator


def _decorated(thing: Any = None, *, typechecker: Any) -> Any:
    if thing is None:
        return partial(_decorated, typechecker=typechecker)
    if not inspect.isfunction(thing) or any(_speaks_of_shapes(a, thing.__globals__) for a in thing.__annotations__.values()):
        return _with_shapes(thing, typechecker=typechecker)
    return _light(thing, typechecker(thing))


def _light(bare: Callable[..., Any], checked: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(bare)
    def either(*args: Any, **kwargs: Any) -> Any:
        return (bare if jaxtyping.config.jaxtyping_disable else checked)(*args, **kwargs)

    @wraps(bare)
    def generating(*args: Any, **kwargs: Any) -> Any:  # a hook of pytest has to stay a generator function
        return (yield from either(*args, **kwargs))

    return generating if inspect.isgeneratorfunction(bare) else either


def _speaks_of_shapes(annotation: Any, known: Mapping[str, Any]) -> bool:
    """Whether an array type stands in it, or may: a name in quotes is none if its module knows it."""
    if isinstance(annotation, (str, ForwardRef)):
        return getattr(annotation, "__forward_arg__", annotation) not in known
    if isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray):
        return True
    parts = annotation if isinstance(annotation, list) else get_args(annotation)  # a list: what a callable takes
    return any(_speaks_of_shapes(part, known) for part in parts)
