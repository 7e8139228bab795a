"""Ends a process before or after each thing that it does outside of itself, one point after the other."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock


class Killed(BaseException):
    """The process is no more. Nothing may catch it."""


class Points:
    """Counts the points that are passed, and kills at one of them. `None` lets all pass."""

    def __init__(self, kill_at: int | None) -> None:
        self.kill_at, self.passed, self.names = kill_at, 0, list[str]()

    def at(self, name: str) -> None:
        self.passed += 1
        self.names.append(name)
        if self.passed == self.kill_at:
            raise Killed(name)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.at(f"before {name}")
            result = call(*args, **kwargs)
            self.at(f"after {name}")
            return result

        return wrapped


@contextmanager
def killed_at(points: Points, functions: dict[str, Any]) -> Iterator[None]:
    """`functions` are the owners of each name: a module or a class."""
    with ExitStack() as patches:
        for name, owner in functions.items():
            patches.enter_context(mock.patch.object(owner, name, points.around(name, getattr(owner, name))))
        yield
