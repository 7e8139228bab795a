"""Says that somebody changed what users may notice, to whoever records changes: parts that must not import each other meet here."""

from collections.abc import Mapping
from datetime import datetime

from django.dispatch import Signal

WEIR = "Weir, "
"""Begins the author of what Weir itself decided. No user's name has a comma."""
DECISIONS = "decisions"
"""The source of changes that Weir itself decided: of what went wrong before them they are no cause."""

made = Signal()
"""Its receivers get the arguments of `say`, within the caller's transaction."""


def say(
    identity: str, summary: str, source: str, at: datetime, team: str = "", scope: Mapping[str, str] | None = None
) -> None:
    """A change was made. `identity` is unique, and `scope` says what it touches by dimension; empty: everything."""
    made.send(None, identity=identity, summary=summary, source=source, at=at, team=team, scope=scope)
