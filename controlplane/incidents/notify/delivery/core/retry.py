"""Decides what an answer means, and when to try again."""

from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Literal

from controlplane.core.backoff import doubled_s
from controlplane.core.formatting import shortened

Verdict = Literal["delivered", "refused", "again"]

TRANSIENT = frozenset({408, 425, 429})
"""4xx that mean "not now". Any other 4xx is about the request itself, and sending it again changes nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one attempt. `status`: None without an answer. `blocked`: the request was not allowed to go out."""

    status: int | None
    error: str = ""
    retry_after_s: float | None = None
    blocked: bool = False

    @property
    def why(self) -> str:
        """Of one that is no success, its status and text."""
        return shortened(" ".join(part for part in (str(self.status or ""), self.error.strip()) if part), 500)


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds. A destination that is away for long is tried twice a minute."""

    first_s: float = 0.5
    longest_s: float = 30.0
    longest_pause_s: float = 120.0  # a Retry-After beyond it would silence pages
    timeout_s: float = 10.0  # for one attempt, from looking up the name to the status line
    lease_s: float = 20.0  # above timeout_s: a sender has given up long before its claim ends


def classify(answer: Answer) -> Verdict:
    """Redirects are not followed. They count as refused, because the address has to be corrected."""
    if answer.blocked:
        return "refused"
    if answer.status is None or answer.status >= 500 or answer.status in TRANSIENT:
        return "again"
    return "delivered" if 200 <= answer.status < 300 else "refused"


def next_attempt_s(attempts: int, answer: Answer, policy: Policy, chance: float) -> float:
    """Seconds to wait after the `attempts`-th attempt (from 1): doubling, with half of it left to `chance` (0 to 1).

    A Retry-After is waited for, up to `longest_pause_s`, and then by chance up to a tenth more: not all at once.
    """
    wait_s = doubled_s(policy.first_s, attempts, policy.longest_s) * (0.5 + chance / 2)
    if answer.retry_after_s is None:
        return wait_s
    return max(wait_s, pause_s(answer.retry_after_s, policy) * (1 + chance / 10))


def pause_s(retry_after_s: float, policy: Policy) -> float:
    return min(max(retry_after_s, 0.0), policy.longest_pause_s)


def retry_after_s(header: str | None, now: datetime) -> float | None:
    """Seconds, from either form of Retry-After (RFC 9110, 10.2.3); None for none or nonsense."""
    if not header:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (ValueError, TypeError):
        return None
