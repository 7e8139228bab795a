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
    error: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """`at`: the first acceptance (delivered), the oldest that waits (queued), the last refusal (failed)."""

    state: State
    destinations: tuple[str, ...] = ()
    at: datetime | None = None
    error: str = ""

    @property
    def to(self) -> str:
        return " and ".join(self.destinations)

    @property
    def because(self) -> str:
        return f" ({self.error})" if self.error else ""


NOBODY = Reach("nobody")


def reach(sent: Iterable[Sent]) -> Reach:
    """Delivered if any trigger was, else queued if any waits, else failed."""
    rows = sorted(sent, key=lambda trigger: trigger.at)
    states: tuple[tuple[State, str], ...] = (("delivered", "delivered"), ("queued", "pending"), ("failed", "dead"))
    for state, of_rows in states:
        if of_state := [trigger for trigger in rows if trigger.state == of_rows]:
            names = tuple(dict.fromkeys(trigger.destination for trigger in of_state))
            errors = [trigger.error for trigger in of_state if trigger.error and state != "delivered"]
            return Reach(state, names, of_state[-1 if state == "failed" else 0].at, errors[-1] if errors else "")
    return NOBODY


def no_destination(severity: str) -> str:
    """Why nobody is notified at that severity, and what to do."""
    return (
        f"no enabled destination takes {severity} pages. Enable one, or add the severity to one, "
        "in Admin → Alert → Destinations"
    )
