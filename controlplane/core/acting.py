"""Knows who acts, and through what: the user whose request is being served, or this process."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple


class Actor(NamedTuple):
    """`via`: page, admin, api or what a process is called. `address` is the client's, and empty for a process."""

    who: str = ""
    via: str = ""
    address: str = ""


def _process() -> Actor:
    """`manage.py bootstrap`, `controller`, `celery`."""
    program = Path(sys.argv[0])
    if program.name == "manage.py":
        return Actor(via=" ".join([program.name, *sys.argv[1:2]]))
    return Actor(via=program.parent.name if program.name == "__main__.py" else program.name)


_actor: ContextVar[Callable[[], Actor]] = ContextVar("acting", default=_process)


@contextmanager
def acting(actor: Callable[[], Actor]) -> Iterator[None]:
    """What happens inside is done by `actor()`, which is asked only where somebody wants to know."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def actor() -> Actor:
    return _actor.get()()


def acts() -> str:
    """The name of the user; empty where no user's request is served."""
    return actor().who
