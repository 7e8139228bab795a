"""Knows who acts: the user whose request is being served."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_who: ContextVar[Callable[[], str]] = ContextVar("acting", default=lambda: "")


@contextmanager
def acting(who: Callable[[], str]) -> Iterator[None]:
    """What happens inside is done by `who()`, which is asked only where somebody wants to know."""
    token = _who.set(who)
    try:
        yield
    finally:
        _who.reset(token)


def acts() -> str:
    """The name of the user; empty where no user's request is served."""
    return _who.get()()
