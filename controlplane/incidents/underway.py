"""What is being done about it, in a sentence. Whatever acts on its own registers here; where nothing does, that is said."""

from collections.abc import Mapping
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)


class ActionUnderWay(Protocol):
    """Answers at once, from what is known already: a page waits for it."""

    def __call__(self, scope: Mapping[str, str]) -> str:
        """Such as "scale-out to 6 requested, 40 s to warm"; empty where nothing is under way in this scope."""
        ...


_sources: list[ActionUnderWay] = []


def register(source: ActionUnderWay) -> None:
    if source not in _sources:
        _sources.append(source)


def under_way(scope: Mapping[str, str]) -> str:
    """Of all sources; one that fails is left out, because a page must not be lost for it."""
    found = []
    for source in _sources:
        try:
            found.append(source(scope))
        except Exception:
            log.exception("what is under way is not known", source=repr(source))
    return "; ".join(text for text in found if text) or nothing(scope)


def nothing(scope: Mapping[str, str]) -> str:
    what = scope.get("model") or "this objective"
    return f"no action under way: nothing is automated for {what} yet"
