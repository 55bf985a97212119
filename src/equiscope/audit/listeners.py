"""Listeners: callables that receive every finished audit: the pytest plugin, while a session writes a report."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from equiscope.record import Audit

Listener = Callable[[Audit], None]
_listeners: list[Listener] = []  # set by `listening` only, which always resets it


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Inside, the listener is called with every audit."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def notify(audit: Audit) -> Audit:
    """Pass the audit to every listener, and return it."""
    for listener in _listeners:
        listener(audit)
    return audit
