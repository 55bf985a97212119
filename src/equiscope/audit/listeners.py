"""Listeners receive every finished audit; acceptors mark rows of an assert that need not hold. The pytest plugin has both."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from equiscope.record import Audit

Listener = Callable[[Audit], None]
Acceptor = Callable[[Audit], Audit]
_listeners: list[Listener] = []  # set by `listening` only, which always resets it
_acceptors: list[Acceptor] = []  # set by `accepting` only, which always resets it


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Inside, the listener is called with every audit."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def accepting(acceptor: Acceptor) -> Iterator[None]:
    """Inside, the acceptor is called with what an assert measured, and returns it with the rows that need not hold."""
    _acceptors.append(acceptor)
    try:
        yield
    finally:
        _acceptors.remove(acceptor)


def notify(audit: Audit) -> Audit:
    """Pass the audit to every listener, and return it."""
    for listener in _listeners:
        listener(audit)
    return audit


def accepted(audit: Audit) -> Audit:
    """The audit of an assert, with the rows that need not hold marked by every acceptor."""
    for acceptor in _acceptors:
        audit = acceptor(audit)
    return audit
