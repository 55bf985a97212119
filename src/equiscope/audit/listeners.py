"""Listeners: who is notified of every audit that is made: the pytest plugin, while a session writes a report."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from equiscope.record import Audit

Listener = Callable[[Audit], None]
_listeners: list[Listener] = []  # set by `listening` only, which always resets it


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Inside, this is called with every audit."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def notify(audit: Audit) -> Audit:
    """The same audit, after everybody heard of it."""
    for listener in _listeners:
        listener(audit)
    return audit
