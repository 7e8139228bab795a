"""What keys may cost a day and a month, in UTC: where it is counted, and when it begins anew."""

from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple
from urllib.parse import quote

Budget = Literal["usd_day", "usd_month"]
MICRO = 1_000_000
"""Millionths of a USD are counted: whole numbers add up to the same everywhere."""


class Period(NamedTuple):
    """`name` is written in numbers: `20261126`, or `202611` of a month. `ends_s`: Unix time."""

    name: str
    ends_s: float


def period_of(budget: Budget, now_s: float) -> Period:
    """That `now_s`, Unix time, is in."""
    day = datetime.fromtimestamp(now_s, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if budget == "usd_day":
        return Period(day.strftime("%Y%m%d"), (day + timedelta(days=1)).timestamp())
    first = day.replace(day=1)
    return Period(first.strftime("%Y%m"), (first + timedelta(days=31)).replace(day=1).timestamp())


def key_prefix(tenant: str, sha256: str) -> str:
    """How the names begin under which Redis counts what is a key's. All of a tenant have the same hash tag, so that a Redis Cluster keeps
    them on the same node.
    """
    return f"{tenant_prefix(tenant)}key:{key_name(sha256)}:"


KEY_ATTRIBUTE = "weir.key"
"""Says in spans which key sent a request, by its name."""


def key_name(sha256: str) -> str:
    """What a key is called in counters and spans: enough of its digest to be its own."""
    return sha256[:16]


def tenant_prefix(tenant: str) -> str:
    """The same for what is a tenant's."""
    return f"weir:limit:{{{quote(tenant)}}}:"
