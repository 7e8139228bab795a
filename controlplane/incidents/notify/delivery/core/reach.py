"""Whether somebody heard of a page: what became of its triggers. Pure; `outbox.reach_of` asks the database."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

State = Literal["delivered", "queued", "failed", "nobody"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A trigger in the outbox. `state` is `Delivery.State`'s; `at` is when it was settled, or else queued."""

    destination: str
    state: str
    at: datetime
    attempts: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """`at`: the first acceptance (delivered), the oldest that waits (queued), the last refusal (failed)."""

    state: State
    destinations: tuple[str, ...] = ()
    at: datetime | None = None
    error: str = ""


NOBODY = Reach("nobody")


def reach(sent: Iterable[Sent]) -> Reach:
    """The best that holds: delivered to one is delivered, though it waits at another."""
    rows = sorted(sent, key=lambda one: one.at)
    delivered, queued, failed = (
        [one for one in rows if one.state == state] for state in ("delivered", "pending", "dead")
    )
    if delivered:
        return Reach("delivered", _names(delivered), delivered[0].at)
    if queued:
        return Reach("queued", _names(queued), queued[0].at, _error(queued))
    if failed:
        return Reach("failed", _names(failed), failed[-1].at, _error(failed))
    return NOBODY


def _names(rows: Iterable[Sent]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.destination for one in rows))


def _error(rows: Iterable[Sent]) -> str:
    return next((one.error for one in reversed(list(rows)) if one.error), "")


def no_destination(severity: str) -> str:
    """Why nobody is told of a notice of that severity, and what to do."""
    return (
        f"no enabled destination takes {severity} pages. Enable one, or add the severity to one, "
        "in Admin → Paging → Destinations"
    )
