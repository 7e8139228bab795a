"""Whether somebody was notified of a page, from what became of its triggers. `outbox.reach_of` reads those."""

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
    """Delivered if any trigger was, else queued if any waits, else failed."""
    rows = sorted(sent, key=lambda trigger: trigger.at)
    delivered, queued, failed = (
        [trigger for trigger in rows if trigger.state == state] for state in ("delivered", "pending", "dead")
    )
    if delivered:
        return Reach("delivered", _names(delivered), delivered[0].at)
    if queued:
        return Reach("queued", _names(queued), queued[0].at, _error(queued))
    if failed:
        return Reach("failed", _names(failed), failed[-1].at, _error(failed))
    return NOBODY


def _names(rows: Iterable[Sent]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(trigger.destination for trigger in rows))


def _error(rows: Iterable[Sent]) -> str:
    return next((trigger.error for trigger in reversed(list(rows)) if trigger.error), "")


def no_destination(severity: str) -> str:
    """Why nobody is notified at that severity, and what to do."""
    return (
        f"no enabled destination takes {severity} pages. Enable one, or add the severity to one, "
        "in Admin → Paging → Destinations"
    )
